"""The catalogue as a page of the reference, drawn from the data (docs/reference/catalogue.md is held to it by a test)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.catalogue.rules import FIXTURE_KINDS, Rank, Rule, RuleFile
from kandev_routing_sdk.types import Code

_HEAD: Final = """\
# Failure codes and rules

A failure is classified by rules that are data; [rule files](rules.md) says how they decide and how to write one. What no rule
knows, and what rules of equal rank disagree on, is `unclassified` and never acted on automatically.

A cause marked with *→ far* changes to the code behind the arrow when the validated hint is more than ten minutes away: a throttle
passes within minutes, and a limit that resets later is an allowance that is used up, whatever it calls itself. A bare 429
follows the same rule.
"""


def render(rule_files: Iterable[RuleFile]) -> str:
    """Return the page: every code, then every rule of every file."""
    files = list(rule_files)
    parts = [_HEAD, "## Codes\n"]
    for code, row in CODES.items():
        parts.append(f"### `{code}`\n\nClass `{row.error_class}`, scope `{row.scope}`. {_safe(row.meaning)}\n")
        parts.append(f"- What to do: {_safe(row.advice)}\n- Example: {_example(code, files)}\n")
    for file in files:
        parts.append(f"## Rules of {file.name}\n")
        parts.append("| rule | rank | priority | code | scope | reads | fixtures |\n|---|---|---|---|---|---|---|")
        parts.append("\n".join(_row(r) for r in sorted(file.rules, key=lambda r: (-r.rank, -r.priority, r.id))) + "\n")
    return "\n".join(parts)


def _example(code: Code, files: Sequence[RuleFile]) -> str:
    """Return what a failure of this cause looks like: the first words of a rule's positive fixtures, plain sentences first."""
    rules = [r for file in files for r in file.rules if r.code is code]
    rules.sort(key=lambda r: (r.foreign, r.rank is Rank.SHARED, not r.patterns))
    said = (s.text for r in rules for f in r.fixtures if f.kind == "positive" for s in f.signals if s.text)
    words = next(said, None)
    return "what no rule knows" if words is None else f"`{_safe(words).replace('`', chr(39))}`"


def _row(rule: Rule) -> str:
    code = f"`{rule.code}`" + (f" → far `{rule.far_code}`" if rule.far_code else "")
    scope = rule.scope or CODES[rule.code].scope
    counts = ", ".join(str(sum(f.kind == kind for f in rule.fixtures)) for kind in FIXTURE_KINDS)
    reads = (
        ", ".join(sorted(rule.channels))
        if rule.rank is not Rank.FOREIGN
        else "lines on " + ", ".join(sorted(rule.channels))
    )
    if rule.phases:
        reads += "; in " + ", ".join(sorted(rule.phases))
    if rule.families:
        reads += "; of " + ", ".join(sorted(rule.families))
    return f"| `{rule.id}` | {rule.rank.name.lower()} | {rule.priority} | {code} | `{scope}` | {reads} | {counts} |"


def _safe(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
