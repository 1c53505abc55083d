"""``select()``: the first candidate that can do it, and for every other one why it was not taken (R-ENG-2, R-ENG-3, R-ENG-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.circuits import Circuit, ResourceKey, admission
from kandev_routing_sdk.policy import PolicyDocument
from kandev_routing_sdk.route.model import Round, Trigger
from kandev_routing_sdk.types import Transport

_KEY_SHOWN: Final = 60
"""How much of a resource's key a sentence names: enough for a command, and an account's is long."""


class Verdict(StrEnum):
    """Why a candidate was or was not taken. A candidate that cannot be launched brings its own word instead."""

    CHOSEN = "chosen"
    CHOSEN_AS_PROBE = "chosen_as_probe"
    """Its circuit's deadline is past; this launch finds out whether the resource is back."""
    AFTER_CHOSEN = "after_chosen"
    """Would have been taken, had nobody before it been."""
    DISABLED = "disabled"
    EXCLUDED = "excluded"
    """Had its visit in this round."""
    SKIPPED = "skipped"
    """Left out of this one decision by a person."""
    NOT_PINNED = "not_pinned"
    """A person asked for another candidate again."""
    CIRCUIT_OPEN = "circuit_open"
    PROBE_LEASED = "probe_leased"
    """Somebody else is finding out whether the resource is back."""
    ACTION_REQUIRED = "action_required"
    """A circuit that only a person can close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateView:
    """A candidate as selection sees it: resolved by its adapter, nothing started (R-ENG-2)."""

    profile_id: str
    family: str
    enabled: bool = True
    position: int
    """From 0, in the order of the profile."""
    keys: tuple[ResourceKey, ...] = ()
    problem: tuple[str, str] | None = None
    """Why it cannot be launched: a stable word (``missing``, ``incompatible``, ``cross_scope``, ``not_launchable``, …) and one
    sentence."""
    policy: PolicyDocument = field(default_factory=PolicyDocument)
    transport: Transport | None = None
    provider_id: str | None = None
    model_id: str | None = None


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """One candidate of the walk, with exactly one reason."""

    profile_id: str
    family: str
    position: int
    eligible: bool
    chosen: bool
    reason: str
    detail: str
    """One sentence for a person."""
    until: datetime | None = None
    """When the obstacle may be gone by itself; None when it will not."""
    scope: str | None = None
    code: str | None = None
    transport: Transport | None = None
    """How it would be driven, if that could be found out."""
    provider_id: str | None = None
    model_id: str | None = None
    keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """Return what is stored with the decision and what ``explain`` prints."""
        return {
            "profile_id": self.profile_id,
            "family": self.family,
            "position": self.position,
            "eligible": self.eligible,
            "chosen": self.chosen,
            "reason": self.reason,
            "detail": self.detail,
            "until": None if self.until is None else self.until.isoformat(),
            "scope": self.scope,
            "code": self.code,
            "transport": self.transport,
            "provider_id": self.provider_id,
            "model_id": self.model_id,
            "keys": list(self.keys),
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of one walk. It claims nothing; the store does, with the commit."""

    chosen: CandidateView | None
    is_probe: bool
    """Some key of the chosen one is expired: its lease has to be taken in the step's transaction (R-CIR-8)."""
    walk: tuple[WalkEntry, ...]
    """Every candidate in order."""
    earliest: datetime | None
    """Nobody chosen: when the first of the resources may be back by itself (R-ENG-6)."""

    @property
    def recovery_known(self) -> bool:
        """Whether nobody is free now and somebody will be, by itself."""
        return self.chosen is None and self.earliest is not None

    @property
    def trigger(self) -> Trigger:
        """What this result is for the route."""
        if self.chosen is not None:
            return Trigger.CANDIDATE_COMMITTED
        return Trigger.NOBODY_RECOVERY_KNOWN if self.recovery_known else Trigger.NOBODY_PERSON_NEEDED

    def to_json(self) -> tuple[dict[str, JsonValue], ...]:
        """Return the walk as stored."""
        return tuple(entry.to_json() for entry in self.walk)


@dataclass(frozen=True, slots=True)
class _Found:
    """What stands against one candidate, or nothing."""

    reason: str
    detail: str
    until: datetime | None = None
    scope: str | None = None
    code: str | None = None
    recovers: bool = False
    """The obstacle goes away by itself, and the candidate may then be taken by a new round."""


_FREE: Final = "free"
_PROBE: Final = "probe"


def select(
    candidates: Sequence[CandidateView],
    circuits: Mapping[str, Circuit],
    *,
    round: Round,  # noqa: A002  # the state machine's own word
    pinned: str | None = None,
    now: datetime,
    early_probe: bool = False,
) -> Selection:
    """Walk the candidates in order and take the first that nothing stands against.

    Args:
        candidates: every candidate of the profile, in any order (``position`` counts).
        circuits: stored circuits by key string; a missing one is closed.
        round: who had a visit already, and who is left out of this decision.
        pinned: only this candidate may be taken, if it still is one (``retry_now``); otherwise the walk is a full one.
        now: aware UTC time.
        early_probe: a person asked (R-ENG-6): open circuits whose lease is free do not refuse.
    """
    ordered = sorted(candidates, key=lambda c: c.position)
    only = pinned if any(c.profile_id == pinned and c.enabled for c in ordered) else None
    chosen: CandidateView | None = None
    is_probe = False
    walk: list[WalkEntry] = []
    recoveries: list[datetime] = []
    for candidate in ordered:
        found = _look(candidate, circuits, round, only, now=now, early=early_probe)
        free = found.reason in {_FREE, _PROBE}
        if free and chosen is None:
            chosen, is_probe = candidate, found.reason == _PROBE
            walk.append(_entry(candidate, _taken(is_probe=is_probe), eligible=True, chosen=True))
        elif free:
            after = _Found(Verdict.AFTER_CHOSEN, "an earlier candidate was chosen")
            walk.append(_entry(candidate, after, eligible=True))
        else:
            walk.append(_entry(candidate, found))
        if found.recovers and found.until is not None:
            recoveries.append(found.until)
    earliest = min(recoveries, default=None) if chosen is None else None
    return Selection(chosen, is_probe, tuple(walk), earliest)


def _taken(*, is_probe: bool) -> _Found:
    if is_probe:
        return _Found(Verdict.CHOSEN_AS_PROBE, "chosen; this launch finds out whether its resource is back")
    return _Found(Verdict.CHOSEN, "chosen")


def _look(
    candidate: CandidateView,
    circuits: Mapping[str, Circuit],
    round_: Round,
    only: str | None,
    *,
    now: datetime,
    early: bool,
) -> _Found:
    """Say what stands against ``candidate``: what is wrong with it, then what this decision leaves out, then its resources."""
    if not candidate.enabled:
        return _Found(Verdict.DISABLED, "disabled in the dynamic profile")
    if candidate.problem is not None:
        return _Found(*candidate.problem)
    health = _health(candidate, circuits, now=now, early=early)
    left_out = _left_out(candidate, round_, only)
    if left_out is None:
        return health
    # Waiting starts a new round, which leaves nobody out: a resource that comes back by itself counts, whoever had a visit.
    until, recovers = health.until, health.recovers
    if left_out[0] is Verdict.EXCLUDED and health.reason == _PROBE:
        until, recovers = now, True
    detail = left_out[1] if health.reason in {_FREE, _PROBE} else f"{left_out[1]}; {health.detail}"
    return _Found(left_out[0], detail, until, health.scope, health.code, recovers=recovers)


def _left_out(candidate: CandidateView, round_: Round, only: str | None) -> tuple[Verdict, str] | None:
    if only is not None and candidate.profile_id != only:
        return Verdict.NOT_PINNED, f"only {only!r} was asked for again"
    if candidate.profile_id in round_.excluded:
        return Verdict.EXCLUDED, "was tried in this round already"
    if candidate.profile_id in round_.skip_once:
        return Verdict.SKIPPED, "left out of this decision by hand"
    return None


def _health(candidate: CandidateView, circuits: Mapping[str, Circuit], *, now: datetime, early: bool) -> _Found:
    """Judge all keys: a person's need outweighs any deadline, and of several deadlines the last one counts (R-CIR-2)."""
    worst: _Found | None = None
    probe = False
    for key in candidate.keys:
        circuit = circuits.get(key.key)
        answer = admission(circuit, now=now, early=early)
        if circuit is None or answer.kind == "closed":
            continue
        if answer.kind == "probe":
            probe = True
            continue
        refused = _refused(circuit, answer.until, now)
        if worst is None or _weight(refused) > _weight(worst):
            worst = refused
    return worst or _Found(_PROBE if probe else _FREE, "")


def _weight(found: _Found) -> tuple[bool, float]:
    return (found.until is None, 0.0 if found.until is None else found.until.timestamp())


def _refused(circuit: Circuit, until: datetime | None, now: datetime) -> _Found:
    scope = circuit.key.scope.value
    code = None if circuit.code is None else circuit.code.value
    words = f"{scope} resource: {code or 'unknown cause'}"
    if until is None:
        detail = f"{words}; a person has to act, then: kandev-routing circuits retry {circuit.key.key[:_KEY_SHOWN]}"
        return _Found(Verdict.ACTION_REQUIRED, detail, None, scope, code)
    if circuit.lease_is_live(now) and until == circuit.probe_until:
        detail = f"{words}; somebody is finding out whether it is back"
        return _Found(Verdict.PROBE_LEASED, detail, until, scope, code, recovers=not circuit.action_required)
    return _Found(Verdict.CIRCUIT_OPEN, f"{words}; until {until.isoformat()}", until, scope, code, recovers=True)


def _entry(candidate: CandidateView, found: _Found, *, eligible: bool = False, chosen: bool = False) -> WalkEntry:
    return WalkEntry(
        profile_id=candidate.profile_id,
        family=candidate.family,
        position=candidate.position,
        eligible=eligible,
        chosen=chosen,
        reason=str(found.reason),
        detail=found.detail,
        until=found.until,
        scope=found.scope,
        code=found.code,
        transport=candidate.transport,
        provider_id=candidate.provider_id,
        model_id=candidate.model_id,
        keys=tuple(key.key for key in candidate.keys),
    )
