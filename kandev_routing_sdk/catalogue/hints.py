"""Which timing hint goes with a classification (R-CLS-5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from kandev_routing_sdk.catalogue.matcher import Mark, Reading
from kandev_routing_sdk.catalogue.rules import Rule
from kandev_routing_sdk.catalogue.views import View
from kandev_routing_sdk.evidence.model import Evidence
from kandev_routing_sdk.evidence.timing import (
    TimingHint,
    best_hint,
    due_at,
    hints_from_data,
    hints_from_headers,
    hints_from_text,
)
from kandev_routing_sdk.types import Channel

_TIMED: Final = Mark.TIMED
_ERROR_STATUS: Final = 400
FAR: Final = timedelta(minutes=10)
"""A throttle passes within this; a limit that resets later is an allowance that is used up, whatever it calls itself."""


def hint_for(evidence: Evidence, readings: Sequence[Reading], rule: Rule | None) -> TimingHint | None:
    """Return the hint that goes with ``rule`` (None: nothing was classified).

    Words count only where a rule of the same cause matched them: another line's "retrying in 4 s" is about something else.
    Headers and fields count wherever the runtime gave them.
    """
    decided = rule is not None and not rule.foreign
    found: list[TimingHint] = []
    for reading in readings:
        if reading.view.synthetic or (decided and rule is not None and not _is_of_the_cause(reading, rule)):
            continue
        whole = reading.whole
        if not reading.marks and not whole.documents and not whole.headers:
            continue
        words = _TIMED in reading.marks and (
            not decided or any(m.rule.code is rule.code for m in reading.matches if rule)
        )
        hints = _of_view(evidence, reading.view if decided else whole, words=words)
        found += [h for h in hints if rule is None or h.source in rule.timing]
    return best_hint(found, observed_at=evidence.observed_at) if found else None


def _is_of_the_cause(reading: Reading, rule: Rule) -> bool:
    """Whether what a signal says of time can be about the cause that ``rule`` names (R-EVI-4, R-EVI-6).

    It can where a rule of this cause holds for it, and where a request failed that no rule says is somebody else's.
    """
    if any(m.rule.code is rule.code for m in reading.matches):
        return True
    view = reading.view
    theirs = bool(reading.matches) and all(m.rule.foreign for m in reading.matches)
    worked = view.status is not None and view.status < _ERROR_STATUS
    return not (theirs or worked or view.proves_nothing or view.channel is Channel.STDERR)


def is_far(hint: TimingHint | None, observed_at: datetime | None) -> bool:
    """Whether ``hint`` says that more than ten minutes must pass. Unknown is near: it changes nothing."""
    if hint is None:
        return False
    if hint.retry_after is not None:
        return hint.retry_after > FAR
    due = due_at(hint, observed_at)
    return due is not None and observed_at is not None and due - observed_at > FAR


def _of_view(evidence: Evidence, view: View, *, words: bool) -> list[TimingHint]:
    at = view.signal.at or evidence.observed_at
    found = hints_from_headers(view.headers, observed_at=at) if view.headers else []
    for document in view.documents:
        try:
            found += hints_from_data(document, observed_at=at)
        except UnicodeEncodeError:
            # a lone surrogate in a field: nobody's way to write a time
            continue
    if words:
        found += hints_from_text(view.text, observed_at=at, local_zone=evidence.local_zone)
    return found
