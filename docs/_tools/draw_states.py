# noqa: INP001  # a script beside the documentation, not a package
"""Draw the state machine's diagram and list from the table itself, into every document that has a place for them.

``python docs/_tools/draw_states.py`` rewrites what stands between the markers; with ``--check`` it changes nothing and ends with 1
when a document differs from the table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.route.model import State, Trigger
from kandev_routing_sdk.route.rows import Goes, Row
from kandev_routing_sdk.route.table import TABLE

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = (ROOT / "docs" / "reference" / "state-machine.md", ROOT / "README.md")

_ANYWHERE: Final = (Trigger.STOP, Trigger.STOP_SESSION, Trigger.FLAG_OFF)
"""Legal in every state but the last one: drawn once."""


def diagram() -> str:
    """Return the states and what leads from one to the next, as a mermaid block."""
    edges: dict[tuple[str, str], list[str]] = {}
    for (state, trigger), row in _rows():
        if trigger in _ANYWHERE:
            continue
        names = edges.setdefault((state.value, _end(state, row)), [])
        if trigger.value not in names:
            names.append(trigger.value)
    lines = ["```mermaid", "stateDiagram-v2", '    state "any state but stopped" as anywhere', "    [*] --> selecting"]
    lines += [f"    {start} --> {end}: {_label(names)}" for (start, end), names in edges.items()]
    lines += [f"    anywhere --> {_end(State.ACTIVE, TABLE[State.ACTIVE, t][0])}: {t}" for t in _ANYWHERE]
    return "\n".join([*lines, "    stopped --> [*]", "```"])


def transitions() -> str:
    """Return one table row for each row of the table."""
    lines = ["| state | trigger | when | next | reason |", "|---|---|---|---|---|"]
    for (state, trigger), row in _rows():
        when = "; ".join(guard.value for guard in row.when)
        goes = f"`{row.to}`" if isinstance(row.to, State) else row.to.value
        reason = f"`{row.reason}`" if row.reason else ""
        lines.append(f"| `{state}` | `{trigger}` | {when} | {goes} | {reason} |")
    return "\n".join(lines)


BLOCKS: Final[Mapping[str, Callable[[], str]]] = MappingProxyType({"states": diagram, "transitions": transitions})


def redrawn(text: str) -> str:
    """Return ``text`` with every marked block as the table has it."""
    for name, draw in BLOCKS.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        block = f"{begin}\n\n{draw()}\n\n{end}"
        text = re.sub(f"{begin}.*?{end}", lambda _, block=block: block, text, flags=re.DOTALL)
    return text


def main(arguments: list[str]) -> int:
    """Rewrite the documents, or only say which differ."""
    stale = [path for path in DOCUMENTS if redrawn(path.read_text()) != path.read_text()]
    if "--check" in arguments:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} differs from the table; run docs/_tools/draw_states.py\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(redrawn(path.read_text()))
    return 0


def _rows() -> list[tuple[tuple[State, Trigger], Row]]:
    return [(pair, row) for pair, rows in TABLE.items() for row in rows]


def _end(state: State, row: Row) -> str:
    match row.to:
        case Goes.NOWHERE:
            return state.value
        case Goes.BACK:
            return "anywhere"
        case end:
            return end.value


def _label(names: list[str]) -> str:
    """Three triggers a line keep the picture readable."""
    return "<br/>".join(", ".join(names[i : i + 3]) for i in range(0, len(names), 3))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
