"""How fast classifying is (R-PRF-2, R-CLS-7): ratios from one run, so that the machine does not matter.

`python benchmarks/classify.py` prints two tables:

- **nothing**: classifying 4 KiB that no rule matches, against one pass of one `re2.Set` of the same shipped patterns over
  the same text.
- **adversarial**: 64 KiB built to hurt one pattern or one step, against 4 KiB of the same, once as one signal and once as an
  envelope of sixteen signals.

Every repetition measures both sides in turn, and the median counts. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import re2

# as a script, this file's own folder is all that Python looks into
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import texts
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.patterns import MAX_MEMORY, exact_to_re2, to_re2
from kandev_routing_sdk.catalogue.rules import Rule, RuleSource, neutral_sources
from kandev_routing_sdk.catalogue.views import views_of
from kandev_routing_sdk.evidence.model import Evidence, Signal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.timing import hints_from_text
from kandev_routing_sdk.types import Channel, Phase

ROOT: Final = Path(__file__).parents[1]
SMALL: Final = 4096
LARGE: Final = 65536
MOST_OF_A_PASS: Final = 2.0
MOST_OF_SMALL: Final = 20.0
_SHOWN: Final = 12


@dataclass(frozen=True)
class Row:
    """One measured ratio."""

    table: str
    what: str
    how: str
    base_us: float
    """The median time of what it is compared with, in microseconds."""
    time_us: float
    ratio: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.ratio <= self.most


def shipped() -> Catalogue:
    """Every shipped rule: the neutral ones and those of the three adapters."""
    names = ("claude", "codex", "opencode")
    files = [ROOT / "adapters" / n / f"kandev_routing_{n}" / "rules.toml" for n in names]
    return Catalogue.load(
        [*neutral_sources(), *(RuleSource(name=p.parts[-2], text=p.read_text("utf-8")) for p in files)], verify=False
    )


def patterns_of(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    """Every RE2 pattern of ``rules`` with the id of its rule."""
    return [
        (rule.id, pattern)
        for rule in rules
        for pattern in (
            *map(to_re2, rule.patterns),
            *map(exact_to_re2, rule.exact),
            *(to_re2(c.regex) for a in rule.structured for c in a if c.regex is not None),
        )
    ]


def evidence(signals: Sequence[Signal], family: str = "other") -> Evidence:
    """An envelope of one prompt."""
    return Evidence(family=family, phase=Phase.PROMPT_SEND, signals=tuple(signals))


def compare(
    base: Callable[[], object],
    other: Callable[[], object],
    *,
    seconds: float,
    least: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Measure both in turn and return the medians, in microseconds."""
    for _ in range(2):
        base()
        other()
    bases: list[float] = []
    others: list[float] = []
    until = time.perf_counter() + seconds
    while len(bases) < least or time.perf_counter() < until:
        begun = clock()
        base()
        between = clock()
        other()
        others.append(clock() - between)
        bases.append(between - begun)
    return median(bases) * 1e6, median(others) * 1e6


def nothing(catalogue: Catalogue, seconds: float) -> Iterator[Row]:
    """4 KiB that matches nothing against one pass."""
    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = MAX_MEMORY
    one = re2.Set.SearchSet(options)
    for rule in catalogue.rules:
        for pattern in (*map(to_re2, rule.patterns), *map(exact_to_re2, rule.exact)):
            one.Add(pattern)
    one.Compile()
    for kind, text in texts.nothing(SMALL).items():
        for channel in (Channel.STDERR, Channel.ACP_ERROR, Channel.STDOUT_EVENT, Channel.AGENT_NOTICE):
            seen = evidence([Signal(channel=channel, text=text)])
            if catalogue.judge(seen).matches or one.Match(text):
                raise SystemExit(f"the text {kind!r} is to match nothing, but some rule matches it on {channel}")
            base, taken = compare(
                partial(one.Match, text),
                partial(catalogue.classify, seen, sanitised=True),
                seconds=seconds,
                least=300,
            )
            yield Row("nothing", kind, channel.value, base, taken, taken / base, MOST_OF_A_PASS)


def adversarial(catalogue: Catalogue, seconds: float, only: str | None) -> Iterator[Row]:
    """64 KiB against 4 KiB of the same, for every pattern and every step."""
    for what, unit, pattern in texts.adversaries(patterns_of(catalogue.rules)):
        if only is not None and only not in what:
            continue
        small, large = [texts.fill(unit, SMALL)], [texts.fill(unit, LARGE)]
        for how, run in _steps(catalogue):
            if pattern and how != "classify":
                continue  # what is built from a rule's pattern hurts the rules
            yield _row(what, how, partial(run, small), partial(run, large), seconds)
            if how == "classify":
                yield _row(what, "envelope", partial(run, small), partial(run, small * (LARGE // SMALL)), seconds)


def _row(what: str, how: str, small: Callable[[], object], large: Callable[[], object], seconds: float) -> Row:
    # of the processor, not of the wall: what takes long is interrupted, what is short is not
    base, taken = compare(small, large, seconds=seconds, least=3, clock=time.thread_time)
    if taken / base > MOST_OF_SMALL:
        # what stands out is measured again: a busy moment lasts longer than a short measurement
        base, taken = compare(small, large, seconds=max(50 * seconds, 0.5), least=25, clock=time.thread_time)
    return Row("adversarial", what, how, base, taken, taken / base, MOST_OF_SMALL)


def _steps(catalogue: Catalogue) -> Iterator[tuple[str, Callable[[Sequence[str]], object]]]:
    """What reads a text: all of it together, then what may be slow alone."""
    sanitiser = Sanitiser(["a-secret-of-the-environment"])

    def classify(parts: Sequence[str]) -> object:
        return catalogue.classify(
            evidence([Signal(channel=Channel.AGENT_NOTICE, text=t) for t in parts]), sanitised=True
        )

    def views(parts: Sequence[str]) -> object:
        return views_of(evidence([Signal(channel=Channel.HTTP, text=t) for t in parts]))

    def timing(parts: Sequence[str]) -> object:
        return [hints_from_text(t, observed_at=None, local_zone="UTC") for t in parts]

    def sanitise(parts: Sequence[str]) -> object:
        return [sanitiser.text(t) for t in parts]

    yield "classify", classify
    yield "views", views
    yield "timing", timing
    yield "sanitise", sanitise


def table(rows: Sequence[Row]) -> str:
    """The rows as text, worst first."""
    lines = []
    for row in sorted(rows, key=lambda r: -r.ratio / r.most):
        mark = " " if row.holds else "!"
        lines.append(
            f"{mark} {row.ratio:7.2f}×  {row.time_us:10.1f} µs : {row.base_us:9.1f} µs  {row.how:13} {row.what}"
        )
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> Mapping[str, Any]:
    """What a program wants to know."""
    return {
        "targets": {"nothing": MOST_OF_A_PASS, "adversarial": MOST_OF_SMALL},
        "worst": {t: max((r.ratio for r in rows if r.table == t), default=None) for t in ("nothing", "adversarial")},
        "missed": [asdict(r) for r in rows if not r.holds],
        "rows": [asdict(r) for r in rows],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 with ``--check`` when a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.classify", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--table", choices=["nothing", "adversarial"], help="measure only this")
    parser.add_argument("--only", help="adversaries whose name contains this")
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="for each ratio of the first table (a thirtieth for the others)"
    )
    parser.add_argument("--all", action="store_true", help="print every row, not only the worst")
    asked = parser.parse_args(arguments)
    catalogue = shipped()
    if asked.only is not None:
        if asked.table == "nothing":
            parser.error("--only names adversaries; leave out --table nothing")
        names = [what for what, _, _ in texts.adversaries(patterns_of(catalogue.rules))]
        if not any(asked.only in name for name in names):
            steps = ", ".join(name for name, _ in texts.STEPS)
            parser.error(f"no adversary's name contains {asked.only!r}; names are the ids of rules, and {steps}")
    rows: list[Row] = []
    if asked.table in {None, "nothing"}:
        rows += nothing(catalogue, asked.seconds)
    if asked.table in {None, "adversarial"}:
        rows += adversarial(catalogue, asked.seconds / 30, asked.only)
    if asked.json:
        print(json.dumps(summary(rows), ensure_ascii=False, indent=1))
    else:
        for name, title in (
            ("nothing", f"4 KiB that matches nothing : one re2.Set pass (target {MOST_OF_A_PASS:g}×)"),
            ("adversarial", f"64 KiB : 4 KiB of adversarial text (target {MOST_OF_SMALL:g}×)"),
        ):
            mine = [r for r in rows if r.table == name]
            if mine:
                missed = sum(not r.holds for r in mine)
                worst = sorted(mine, key=lambda r: -r.ratio / r.most)
                shown = mine if asked.all or name == "nothing" else worst[: max(_SHOWN, missed)]
                print(f"{title}: {len(mine)} ratios, {missed} missed, median {median(r.ratio for r in mine):.2f}×")
                print(table(shown), end="\n\n")
    return int(asked.check and any(not r.holds for r in rows))


if __name__ == "__main__":
    sys.exit(main())
