# noqa: INP001  # a script beside the documentation, not a package
"""Write the tables of docs/reference/policy.md by asking the three contexts themselves.

``python docs/_tools/write_policy.py`` rewrites what stands between the markers; a test of the policy holds the page to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.evidence.model import Effects
from kandev_routing_sdk.policy import (
    INTERACTIVE_SECONDS,
    UNATTENDED_SECONDS,
    ClassPolicy,
    Context,
    Decision,
    DecisionKind,
    HealthMark,
    PolicyDocument,
    RetryPolicy,
    WaitPolicy,
    dynamic,
    interactive,
    unattended,
)
from kandev_routing_sdk.policy.offers import offers
from kandev_routing_sdk.types import Code, Confidence, Delivery, Phase

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
NOT_SENT: Final = Effects(delivery=Delivery.NOT_SENT, complete=True)
CLEAN: Final = Effects(delivery=Delivery.ACKNOWLEDGED, complete=True)
OUTPUT: Final = CLEAN.model_copy(update={"output": True})
NEAR: Final = timedelta(seconds=30)
FAR: Final = timedelta(hours=2)
_CLASS: Final = ClassPolicy(
    retry=RetryPolicy(enabled=True, max_retries=3, initial_interval_seconds=5),
    wait_for_reset=WaitPolicy(enabled=True, max_wait_seconds=300),
)
DOCUMENT: Final = PolicyDocument(transient=_CLASS, hard=_CLASS)


def _failure(code: Code, *, hint: timedelta | None = None, phase: Phase = Phase.STREAMING) -> Classification:
    row = CODES[code]
    return Classification(
        code=code,
        error_class=row.error_class,
        confidence=Confidence.HIGH,
        scope=row.scope,
        classifier_rule=None,
        catalogue_version="",
        phase=phase,
        occurred_at=NOW,
        retry_after=hint,
    )


def _dynamic(
    code: Code, effects: Effects, *, hint: timedelta | None = None, used: int = 0, waited: bool = False
) -> str:
    return _word(
        dynamic(
            DOCUMENT, _failure(code, hint=hint), effects=effects, retries_used=used, reset_wait_used=waited, now=NOW
        )
    )


def _interactive(code: Code, effects: Effects, *, hint: timedelta | None = None, used: int = 0) -> str:
    failure = _failure(code, hint=hint)
    return _word(interactive(failure, effects=effects, retries_used=used, now=NOW, uniform=0.5))


def _unattended(code: Code, effects: Effects, *, hint: timedelta | None = None, used: int = 0, phase: Phase) -> str:
    failure = _failure(code, hint=hint, phase=phase)
    return _word(unattended(failure, effects=effects, retries_used=used, now=NOW, uniform=0.5))


def _word(decision: Decision) -> str:
    match decision.kind:
        case DecisionKind.RETRY:
            return "retry" if decision.health or decision.context is not Context.UNATTENDED else "launch again"
        case DecisionKind.WAIT:
            return "wait"
        case DecisionKind.SKIP | DecisionKind.STOP:
            word = "stop" if decision.kind is DecisionKind.STOP else "next"
            match decision.health.mark if decision.health else None:
                case HealthMark.DEGRADED:
                    return f"{word}, degraded"
                case HealthMark.ACTION_REQUIRED:
                    return f"{word}, action required"
                case _:
                    return word


def dynamic_table() -> str:
    """Return what the shown document does."""
    return _table(
        ("not sent", "clean", "clean, reset in 30 s", "clean, reset in 2 h", "clean, budget used", "after an effect"),
        lambda code: (
            _dynamic(code, NOT_SENT),
            _dynamic(code, CLEAN),
            _dynamic(code, CLEAN, hint=NEAR),
            _dynamic(code, CLEAN, hint=FAR),
            _dynamic(code, CLEAN, used=3),
            _dynamic(code, OUTPUT),
        ),
    )


def interactive_table() -> str:
    """Return what happens while a person watches."""
    return _table(
        ("not sent", "clean", "clean, hint of 30 s", "clean, hint of 2 h", "clean, budget used", "after an effect"),
        lambda code: (
            _interactive(code, NOT_SENT),
            _interactive(code, CLEAN),
            _interactive(code, CLEAN, hint=NEAR),
            _interactive(code, CLEAN, hint=FAR),
            _interactive(code, CLEAN, used=len(INTERACTIVE_SECONDS)),
            _interactive(code, OUTPUT),
        ),
    )


def unattended_table() -> str:
    """Return what happens while nobody watches."""
    start, turn = Phase.SESSION_INIT, Phase.STREAMING
    return _table(
        (
            "before the session",
            "clean",
            "clean, hint of 30 s",
            "clean, hint of 2 h",
            "clean, budget used",
            "after an effect",
        ),
        lambda code: (
            _unattended(code, NOT_SENT, phase=start),
            _unattended(code, CLEAN, phase=turn),
            _unattended(code, CLEAN, hint=NEAR, phase=turn),
            _unattended(code, CLEAN, hint=FAR, phase=turn),
            _unattended(code, CLEAN, used=len(UNATTENDED_SECONDS), phase=turn),
            _unattended(code, OUTPUT, phase=turn),
        ),
    )


def offers_table() -> str:
    """Return what a person is offered once nothing automatic follows."""
    return _table(
        tuple(f"`{context}`" for context in Context),
        lambda code: (
            ", ".join(f"`{offer}`" for offer in offers(context, DecisionKind.STOP, code)) or "nothing"
            for context in Context
        ),
    )


def _table(heads: Iterable[str], cells: Callable[[Code], Iterable[str]]) -> str:
    lines = [["code", *heads], *([f"`{code}`", *cells(code)] for code in Code)]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "|---" * len(lines[0]) + "|", *rows[1:]])


BLOCKS: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "dynamic": dynamic_table,
        "interactive": interactive_table,
        "unattended": unattended_table,
        "offers": offers_table,
    }
)


def rewritten(text: str) -> str:
    """Return ``text`` with every marked block as the contexts have it. Raises ValueError when the page has no place for one."""
    for name, table in BLOCKS.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, opened, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not opened or not closed:
            raise ValueError(f"the page has no place for the table {name}; write {begin} and {end} into it")
        text = f"{head}{begin}\n\n{table()}\n\n{end}{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), encoding="utf-8")
