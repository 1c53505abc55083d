"""The documentation shows the table that runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kandev_routing_sdk.route.model import State, Trigger
from kandev_routing_sdk.route.table import TABLE

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference" / "state-machine.md"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_states", ROOT / "docs" / "_tools" / "draw_states.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documents_show_the_table(tool: ModuleType) -> None:
    """Run ``docs/_tools/draw_states.py`` when this fails."""
    for path in tool.DOCUMENTS:
        assert tool.redrawn(path.read_text()) == path.read_text(), path.name
    assert 0 == tool.main(["--check"])


def test_the_reference_has_both_blocks(tool: ModuleType) -> None:
    text = REFERENCE.read_text()
    assert tool.diagram() in text
    assert tool.transitions() in text


def test_a_stale_document_is_found_and_redrawn(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = tmp_path / "stale.md"
    stale.write_text("before\n<!-- states:begin -->\nold\n<!-- states:end -->\nafter\n")
    monkeypatch.setattr(tool, "DOCUMENTS", (stale,))
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert 1 == tool.main(["--check"])
    assert 0 == tool.main([])
    assert tool.diagram() in stale.read_text()
    assert stale.read_text().startswith("before\n")
    assert stale.read_text().endswith("\nafter\n")
    assert 0 == tool.main(["--check"])


def test_every_state_and_every_row_is_drawn(tool: ModuleType) -> None:
    picture, listing = tool.diagram(), tool.transitions()
    assert all(f"    {state} --> " in picture for state in State)
    assert all(trigger in picture for trigger in Trigger)
    assert sum(map(len, TABLE.values())) == len(listing.splitlines()) - 2


@pytest.mark.parametrize("state", list(State))
def test_the_reference_explains_every_state(state: State) -> None:
    assert f"| `{state}` | " in REFERENCE.read_text().partition("## States")[2].partition("## What moves")[0]


@pytest.mark.parametrize("trigger", list(Trigger))
def test_the_reference_lists_every_trigger(trigger: Trigger) -> None:
    assert f"`{trigger}`" in REFERENCE.read_text()
