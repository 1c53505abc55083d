"""Whose a native session is: the agent's own, which only the profile that made it may ever go on with (R-CON-2, invariant 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kandev_routing_sdk.evidence.effects import NOTHING_SENT
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.types import AttemptOutcome, Code, DispatchMark

_SPOILT: Final = frozenset({Code.RESUME_CORRUPTED, Code.CONTEXT_EXHAUSTED})
"""After these the native session itself is what is wrong: going on with it would fail again."""


@dataclass(frozen=True, slots=True)
class NativeSession:
    """A native session together with its owner, which it never travels without."""

    session_id: str = field(repr=False)
    profile_id: str
    family: str
    """Of the agent that made it: a profile that was given another one since is another agent."""
    answered: bool = True
    """Whether an agent answered in it; one that did not may have kept nothing."""

    def for_profile(self, profile: ConcreteProfile) -> str | None:
        """Return the id for its owner, and nothing for anybody else. The only place where a token is handed over."""
        return self.session_id if (profile.id, profile.family) == (self.profile_id, self.family) else None


def native_of(route: Route, attempts: Sequence[AttemptRecord], namespace: str) -> NativeSession | None:
    """Return the native session that ``route`` may be gone on with.

    A call has none: its only prompt is sent again where provably nothing happened, and then to a new agent. Nor has a session whose
    agent ran on another machine: it was kept there.

    Args:
        route: as it was last committed.
        attempts: its newest ones, in order.
        namespace: this machine's.
    """
    if route.kind != "session" or route.native_session_id is None or route.native_profile_id is None:
        return None
    last = next((attempt for attempt in reversed(attempts) if _was_sent(attempt)), None)
    if last is None:
        return None
    if last.owner_id is not None and not last.owner_id.startswith(f"{namespace}/"):
        return None
    if route.classification is not None and route.classification.code in _SPOILT:
        return None
    answered = any(a.generation == route.generation and a.outcome is AttemptOutcome.SUCCESS for a in attempts)
    return NativeSession(route.native_session_id, route.native_profile_id, last.family, answered)


def _was_sent(attempt: AttemptRecord) -> bool:
    """Whether its agent may have had the prompt; one that never had it, of another family maybe or elsewhere, made no session."""
    return attempt.mark is not DispatchMark.CLAIMED and attempt.effects != NOTHING_SENT
