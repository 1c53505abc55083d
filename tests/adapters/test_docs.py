"""The configurations that the how-to pages show are accepted by the file reader and by the adapters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kandev_routing_claude.launch import INHERITS, MODES, OPTION_FLAGS, QUIET
from kandev_routing_codex.settings import MODES as CODEX_MODES
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.settings import load_settings
from tests.adapters._plans import ADAPTERS

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("family", ["claude", "codex", "opencode"])
def test_every_configuration_of_the_page_is_valid(family: str, tmp_path: Path) -> None:
    snippets = re.findall(r"^```toml\n(.*?)^```", (PAGES / f"{family}.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(snippets) >= 3
    for snippet in snippets:
        (tmp_path / "kandev-routing.toml").write_text(snippet)
        loaded = load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
        assert loaded.profiles
        for profile in loaded.profiles.values():
            assert isinstance(profile, ConcreteProfile)
            assert [] == [*ADAPTERS[family].validate(profile)]


def test_the_pages_name_every_mode_option_and_variable() -> None:
    claude, codex = ((PAGES / f"{family}.md").read_text("utf-8") for family in ("claude", "codex"))
    assert [] == [word for word in (*MODES, *OPTION_FLAGS, *QUIET, *INHERITS[:2]) if f"`{word}`" not in claude]
    assert [] == [f"{name}: {value}" for name, value in QUIET.items() if f"`{value}`" not in claude]
    assert [] == [word for word in CODEX_MODES if f"`{word}`" not in codex]
