"""The published tables are what the contexts answer (docs/_tools/write_policy.py writes them)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kandev_routing_sdk.types import Code

ROOT = Path(__file__).parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_policy", ROOT / "docs" / "_tools" / "write_policy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_contexts_answer() -> None:
    """Run `python docs/_tools/write_policy.py` after a change of a context, a code or an offer."""
    text = (ROOT / "docs" / "reference" / "policy.md").read_text("utf-8")
    assert tool().rewritten(text) == text
    assert [] == [code for code in Code if text.count(f"\n| `{code}` |") != len(tool().BLOCKS)]


def test_a_page_without_room_for_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for the table dynamic"):
        tool().rewritten("# Policy\n")
