# noqa: INP001  # a script beside the documentation, not a package
"""Write docs/reference/catalogue.md and the wire schemas from the data itself.

``python docs/_tools/write_catalogue.py`` writes them; the tests of the catalogue hold them to the data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from kandev_routing_sdk.catalogue.reference import render
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources, read_source
from kandev_routing_sdk.catalogue.wire import evidence_schema, result_schema

ROOT: Final = Path(__file__).parents[2]
REFERENCE: Final = ROOT / "docs" / "reference"
ADAPTERS: Final = ("claude", "codex", "opencode")


def shipped_sources() -> list[RuleSource]:
    """Return the rule files of this repository."""
    paths = [ROOT / "adapters" / name / f"kandev_routing_{name}" / "rules.toml" for name in ADAPTERS]
    adapters = [RuleSource(name=f"kandev_routing_{p.parts[-3]}/rules.toml", text=p.read_text("utf-8")) for p in paths]
    return [*neutral_sources(), *adapters]


def pages() -> dict[Path, str]:
    """Return each generated file with its content."""
    schemas = {"evidence-record": evidence_schema(), "classification-result": result_schema()}
    files = {REFERENCE / "schema" / f"{name}.json": json.dumps(body, indent=2) + "\n" for name, body in schemas.items()}
    return {REFERENCE / "catalogue.md": render(read_source(s) for s in shipped_sources()), **files}


if __name__ == "__main__":
    for path, content in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
