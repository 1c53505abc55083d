"""Asks sources what they know, each for a bounded time; one that fails or hangs takes nothing from the others (R-CON-3)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kandev_routing_sdk.continuation.budget import Budget
from kandev_routing_sdk.ports import ContinuationRequest, ContinuationSource
from kandev_routing_sdk.route.parts import ContinuationPart, merged
from kandev_routing_sdk.telemetry import fields, get_logger

LIMIT_S: Final = 10.0
"""How long all sources together may take."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the sources know."""

    part: ContinuationPart = field(default_factory=ContinuationPart)
    missing: tuple[str, ...] = ()
    """Those that failed, or did not answer in time."""


@dataclass(slots=True)
class _Asked:
    """One source, asked in a thread of its own: it may hang, and nobody waits for it then."""

    source: ContinuationSource
    request: ContinuationRequest
    answer: ContinuationPart | None = None
    problem: str | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        # a daemon: a host's source that hangs must not keep its process from ending
        threading.Thread(target=self._run, name=f"continuation: {source_name(self.source)}", daemon=True).start()

    def _run(self) -> None:
        try:
            answer: object = self.source.describe(self.request)
            if answer is None or isinstance(answer, ContinuationPart):
                self.answer = answer
            else:
                self.problem = f"returned a {type(answer).__name__} instead of a ContinuationPart"
        except BaseException as raised:  # noqa: BLE001  # a host's code, in a thread of its own: nothing of it may get lost
            self.problem = f"raised {type(raised).__name__}"  # not what it says, which may hold a secret
        finally:
            self.done.set()


def gather(
    sources: Sequence[ContinuationSource], request: ContinuationRequest, *, limit_s: float = LIMIT_S
) -> Gathered:
    """Ask all sources at once and return what those know that answer within ``limit_s`` seconds, in their order. Blocks.

    Never raises for what a source does.
    """
    budget = Budget(limit_s)
    asked = [_Asked(source, request) for source in sources]
    for one in asked:
        one.start()
    parts: list[ContinuationPart] = []
    missing: list[str] = []
    for one in asked:
        name = source_name(one.source)
        if not one.done.wait(budget.left):
            _log.warning(
                "a continuation source did not answer in time", extra=fields(session_id=request.session_id, source=name)
            )
            missing.append(name)
        elif one.problem is not None:
            _log.warning(
                "a continuation source failed",
                extra=fields(session_id=request.session_id, source=name, detail=one.problem),
            )
            missing.append(name)
        elif one.answer is not None:
            parts.append(one.answer)
    return Gathered(_sound(parts, missing), tuple(missing))


def source_name(source: ContinuationSource) -> str:
    """Return what a source is called: its ``name``, or that of its class."""
    name = getattr(source, "name", None)
    return name if isinstance(name, str) and name else type(source).__name__


def _sound(parts: Sequence[ContinuationPart], missing: list[str]) -> ContinuationPart:
    """One of all; what holds anything but texts is not merged."""
    try:
        return merged(parts)
    except (TypeError, AttributeError):
        _log.warning("a continuation source gave something that is no text and is left out", extra=fields())
        missing.append("a source")
    sound = []
    for part in parts:
        try:
            sound.append(merged([part]))
        except (TypeError, AttributeError):
            continue
    return merged(sound)
