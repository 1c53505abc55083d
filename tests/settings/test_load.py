"""Reading the configuration file (R-CLI-2, R-CLI-5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kandev_routing_sdk import load_settings
from kandev_routing_sdk.errors import ConfigSyntaxError


@pytest.mark.parametrize(
    "text",
    ["version = [", f"version = {'9' * 5000}", f"x = {'[' * 5000}{']' * 5000}", f"x = {'{a = ' * 3000}1{'}' * 3000}"],
    ids=["broken", "a number too long", "lists too deep", "tables too deep"],
)
def test_a_file_that_the_parser_gives_up_on_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "kandev-routing.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigSyntaxError, match=r"kandev-routing\.toml"):
        load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
