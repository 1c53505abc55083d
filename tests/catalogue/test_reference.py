"""The published pages are the data (docs/_tools/write_catalogue.py writes them)."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import jsonschema
import pytest
from pydantic import BaseModel

from kandev_routing_sdk.catalogue import rules
from kandev_routing_sdk.types import Code
from tests.catalogue._shipped import ROOT, shipped

TOOL = ROOT / "docs" / "_tools" / "write_catalogue.py"


def pages() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("write_catalogue", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: dict[Path, str] = module.pages()
    return made


PAGES = {p.relative_to(ROOT): text for p, text in pages().items()}


@pytest.mark.parametrize("page", list(PAGES), ids=str)
def test_the_page_is_what_the_data_says(page: Path) -> None:
    """Run `python docs/_tools/write_catalogue.py` after a change of rules, codes or the wire form."""
    assert PAGES[page] == (ROOT / page).read_text("utf-8")


def test_every_code_and_rule_has_its_place() -> None:
    """A heading for each code, a row for each rule."""
    text = PAGES[Path("docs/reference/catalogue.md")]
    assert [] == [c for c in Code if f"### `{c}`\n" not in text]
    assert [] == [r.id for r in shipped().rules if f"| `{r.id}` |" not in text]


@pytest.mark.parametrize("page", [p for p in PAGES if p.suffix == ".json"], ids=str)
def test_schemas_are_schemas(page: Path) -> None:
    """Draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(json.loads(PAGES[page]))


def test_every_code_says_what_to_do_and_has_an_example() -> None:
    """R-CLS, item by item: class, scope, meaning, advice, example."""
    text = PAGES[Path("docs/reference/catalogue.md")]
    sections = text.split("### ")[1 : len(Code) + 1]
    assert len(Code) == len(sections)
    assert [] == [s[:40] for s in sections if "- What to do: " not in s or "- Example: " not in s]
    unknown = [s.partition("\n")[0] for s in sections if "what no rule knows" in s]
    assert ["`unknown_provider_error`"] == unknown


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("Keys of a file", rules._FileModel),
        ("Keys of a rule", rules._RuleModel),
        ("Keys of a condition", rules.Condition),
    ],
)
def test_every_key_of_a_rule_file_has_its_row(heading: str, model: type[BaseModel]) -> None:
    """docs/reference/rules.md lists what the reader takes, and nothing else."""
    page = (ROOT / "docs" / "reference" / "rules.md").read_text("utf-8")
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert [field.alias or name for name, field in model.model_fields.items()] == listed
