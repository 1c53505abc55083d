"""One circuit, as a value, and everything that can happen to it (R-CIR-4 to R-CIR-8).

Every function returns a new circuit (or the same one, when nothing changes) and reads no clock. The store applies them inside the
transaction that causes them.

How long a failure keeps a circuit open (R-CIR-5):

========================  ==========================================================================================
cause                     window
========================  ==========================================================================================
transient, retry armed    the shorter of the owner's next delay and 60 s: one policy must not block a shared provider
transient, exhausted      until the validated reset if there is one, else the ladder
``rate_limited``          until the validated reset if there is one, whoever retries; without one as any transient
``quota_limited``         until the validated reset if there is one, else the ladder
the other hard codes      no deadline: a person has to act
========================  ==========================================================================================

"Quota and throttles without a reset take the ladder" is read so: a throttle's ladder begins once its owner has no retry left. An
owner with a retry in five seconds must not shut a shared account for two minutes, and its retry is the probe anyway.

A lease is exclusive while it is unexpired. Its holder alone may ask the resource: at the deadline (a probe), or before it (the
scheduled retry of the owner whose failure opened the circuit, see :class:`ArmedRetry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Literal

from kandev_routing_sdk.circuits.keys import ResourceKey
from kandev_routing_sdk.types import CircuitState, Code, Confidence

LADDER_S: Final = (120.0, 300.0, 600.0, 1200.0, 3600.0)
"""2, 5, 10, 20, 60 minutes."""
JITTER: Final = 0.25
SHORT_WINDOW_S: Final = 60.0
FAR_RESET: Final = timedelta(hours=1)
"""A deadline further away than this is not believed blindly: it may be asked about before (R-CIR-6)."""
MAX_PROBE: Final = timedelta(minutes=10)
"""How long one probe may renew its lease in all (R-CIR-8)."""


class _Window(Enum):
    NONE = auto()
    TRANSIENT = auto()
    THROTTLE = auto()
    QUOTA = auto()
    ACTION = auto()


_WINDOWS: Final[Mapping[Code, _Window]] = MappingProxyType(
    {
        Code.NETWORK_UNAVAILABLE: _Window.TRANSIENT,
        Code.PROVIDER_UNAVAILABLE: _Window.TRANSIENT,
        Code.PROVIDER_OVERLOADED: _Window.TRANSIENT,
        Code.MODEL_CAPACITY: _Window.TRANSIENT,
        Code.RATE_LIMITED: _Window.THROTTLE,
        Code.AGENT_TRANSPORT_LOST: _Window.NONE,
        Code.QUOTA_LIMITED: _Window.QUOTA,
        Code.SUBSCRIPTION_REQUIRED: _Window.ACTION,
        Code.AUTH_REQUIRED: _Window.ACTION,
        Code.MISSING_CREDENTIALS: _Window.ACTION,
        Code.PROVIDER_NOT_CONFIGURED: _Window.ACTION,
        Code.MODEL_UNAVAILABLE: _Window.ACTION,
        Code.UNKNOWN_PROVIDER_ERROR: _Window.NONE,
        Code.AGENT_RUNTIME_ERROR: _Window.NONE,
        Code.TASK_ERROR: _Window.NONE,
        Code.REPO_ERROR: _Window.NONE,
        Code.PERMISSION_DENIED_BY_USER: _Window.NONE,
        Code.CANCELLED: _Window.NONE,
        Code.RESUME_CORRUPTED: _Window.NONE,
        Code.CONTEXT_EXHAUSTED: _Window.NONE,
        Code.CONTENT_REFUSED: _Window.NONE,
    }
)


def needs_person(code: Code) -> bool:
    """Whether a failure of this code opens a circuit that has no deadline: a person has to act first."""
    return _WINDOWS[code] is _Window.ACTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """The durable health of one resource. All times are aware and UTC.

    ``half_open`` means that somebody was given the probe lease; whether it still counts is ``probe_until``'s to say.
    """

    key: ResourceKey
    """Whose. ``key.key`` is what :meth:`Router.reset_circuit` and :meth:`Router.retry_circuit` take."""
    key_version: int = 1
    state: CircuitState = CircuitState.CLOSED
    code: Code | None = None
    """What opened it, or strengthened it last."""
    confidence: Confidence | None = None
    failures: int = 0
    """Since it was last closed."""
    deadline: datetime | None = None
    """When one probe may go. None while closed, and while ``action_required``."""
    action_required: bool = False
    ladder_step: int = 0
    """Step of the ladder in use, 1 to 5; 0 when it was not needed."""
    backoff_s: float | None = None
    """The last ladder delay, jitter included."""
    probe_token: str | None = None
    probe_owner: str | None = None
    probe_until: datetime | None = None
    probe_since: datetime | None = None
    """When the probe that holds the lease starts (for an armed retry: its due time)."""
    last_success_at: datetime | None = None
    closed_at: datetime | None = None
    updated_at: datetime

    def lease_is_live(self, now: datetime) -> bool:
        """Whether somebody holds an unexpired probe lease."""
        return self.probe_token is not None and self.probe_until is not None and self.probe_until > now

    def is_held_by(self, token: str | None, now: datetime) -> bool:
        """Whether ``token`` is the live lease."""
        return token is not None and self.probe_token == token and self.lease_is_live(now)


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a resource may be asked now (R-CIR-8). ``probe``: only by the holder of its lease, to be taken with this answer."""

    kind: Literal["closed", "probe", "refused"]
    until: datetime | None = None
    """Refused: when to ask again; None when a person must act first. Probe by a holder: when its lease ends."""


@dataclass(frozen=True, slots=True)
class ArmedRetry:
    """The owner's own scheduled retry (or reset wait): the probe of a circuit that this very failure opened (R-CIR-5)."""

    token: str
    owner: str
    due_at: datetime
    ttl: timedelta
    """How long the lease outlives the moment the probe may start."""


@dataclass(frozen=True, slots=True)
class FailureFact:
    """One qualifying failure, as far as health is concerned. Effect safety does not matter here (R-CIR-5)."""

    code: Code
    confidence: Confidence
    due_at: datetime | None = None
    """The provider's validated reset, if it named one."""
    owner_delay_s: float | None = None
    """Seconds until the owner's next automatic try of the same candidate; None when there is none."""
    exhausted: bool = False
    """The owner's policy has nothing left for this candidate."""
    lease_token: str | None = None
    """The lease under which the failed attempt ran, if it was a probe."""
    arm: ArmedRetry | None = None
    """Give the owner this lease if its failure opened or extended the circuit."""


def admission(circuit: Circuit | None, *, now: datetime, token: str | None = None, early: bool = False) -> Admission:
    """Say whether the resource may be asked at ``now``.

    Args:
        circuit: None is closed.
        now: aware UTC time.
        token: a lease one may already hold; while it is live its holder is admitted, before the deadline as well.
        early: a person asked (R-ENG-6: ``retry_now`` may probe early): deadlines and action-required do not refuse, a live
            lease of somebody else does.
    """
    if circuit is None or circuit.state is CircuitState.CLOSED:
        return Admission("closed")
    if circuit.is_held_by(token, now):
        return Admission("probe", circuit.probe_until)
    if not early:
        if circuit.action_required or circuit.deadline is None:
            return Admission("refused")
        if circuit.deadline > now:
            return Admission("refused", circuit.deadline)
    if circuit.lease_is_live(now):
        return Admission("refused", circuit.probe_until)
    return Admission("probe")


def take_lease(
    circuit: Circuit, token: str, owner: str, now: datetime, ttl: timedelta, *, starts_at: datetime | None = None
) -> Circuit:
    """Give the probe lease to ``token``; unchanged when closed or when another live lease is out.

    Whether the deadline has passed is :func:`admission`'s to say. The lease lasts ``ttl`` beyond the moment the probe may start:
    now, or the later of ``starts_at`` and now for an armed retry. Taking it twice is renewing it.
    """
    if circuit.is_held_by(token, now):
        return renew_lease(circuit, token, now, ttl)
    if circuit.state is CircuitState.CLOSED or circuit.lease_is_live(now):
        return circuit
    start = now if starts_at is None else max(now, starts_at)
    return replace(
        circuit,
        state=CircuitState.HALF_OPEN,
        probe_token=token,
        probe_owner=owner,
        probe_since=start,
        probe_until=start + min(ttl, MAX_PROBE),
        updated_at=now,
    )


def renew_lease(circuit: Circuit, token: str, now: datetime, ttl: timedelta) -> Circuit:
    """Extend a live lease of ``token`` to ``now + ttl``, in all at most 10 min after its probe started; unchanged otherwise."""
    if not circuit.is_held_by(token, now) or circuit.probe_since is None or circuit.probe_until is None:
        return circuit
    until = min(now + ttl, circuit.probe_since + MAX_PROBE)
    return replace(circuit, probe_until=until, updated_at=now) if until > circuit.probe_until else circuit


def hand_back(circuit: Circuit, token: str, now: datetime) -> Circuit:
    """End the lease of ``token`` neutrally: nothing was learnt, nothing else changes (R-CIR-6)."""
    if circuit.probe_token != token:
        return circuit
    return _without_lease(circuit, now)


def on_failure(
    circuit: Circuit | None, key: ResourceKey, fact: FailureFact, *, now: datetime, uniform: float
) -> Circuit:
    """Book a failure of ``key``.

    - The first failure opens; the next ones add evidence, and strengthen (a later validated reset, a need for a person) but
      never shorten. They start no second probe.
    - The failure of the lease's holder, or one that comes when the deadline is past and nobody probes, begins the next window.
    - A result under a lease that is no longer the circuit's is ignored.
    - A failure that does not qualify is neutral: it opens nothing and hands its lease back.

    Args:
        circuit: the stored circuit; None is closed.
        key: the resource, as captured at launch.
        fact: what failed.
        now: aware UTC time.
        uniform: jitter, in [0, 1).
    """
    before = circuit or Circuit(key=key, key_version=key.version, updated_at=now)
    if fact.lease_token is not None and before.probe_token != fact.lease_token:
        return before
    if _WINDOWS[fact.code] is _Window.NONE or fact.confidence is not Confidence.HIGH:
        return _without_lease(before, now) if fact.lease_token is not None else before

    opening = before.state is CircuitState.CLOSED
    probed = fact.lease_token is not None
    lapsed = before.deadline is not None and before.deadline <= now and not before.lease_is_live(now)
    if not (opening or probed or lapsed):
        return _strengthened(before, fact, now)

    if opening and not _continues_ladder(before, now):
        before = replace(before, ladder_step=0, backoff_s=None)
    after = _next_window(_without_lease(before, now), fact, now=now, uniform=uniform)
    if fact.arm is None:
        return after
    # A long policy must not keep the lease beyond the circuit's own deadline: then others may probe, and the owner asks anew.
    starts_at = fact.arm.due_at if after.deadline is None else min(fact.arm.due_at, after.deadline)
    return take_lease(after, fact.arm.token, fact.arm.owner, now, fact.arm.ttl, starts_at=starts_at)


def on_success(circuit: Circuit, token: str | None, now: datetime) -> Circuit:
    """Close: the provider answered (R-CIR-6). Only under the live lease; without it nothing changes (R-CIR-8)."""
    if not circuit.is_held_by(token, now):
        return circuit
    return replace(_closed(circuit, now), last_success_at=now)


def make_due(circuit: Circuit, now: datetime) -> Circuit:
    """Make an action-required circuit due for one probe, because settings or credentials changed or a person asked (R-CIR-7).

    It does not close unseen. Other circuits are unchanged.
    """
    if not circuit.action_required:
        return circuit
    return replace(circuit, action_required=False, deadline=now, updated_at=now)


def reset(circuit: Circuit, now: datetime) -> Circuit:
    """Forget everything that keeps the resource shut, because a person said so. Leases end; a late result of one is ignored."""
    return replace(_closed(circuit, now), ladder_step=0, backoff_s=None)


# --- windows ---


def _next_window(circuit: Circuit, fact: FailureFact, *, now: datetime, uniform: float) -> Circuit:
    """Return ``circuit`` open for the window that ``fact`` asks for, never ending before the one it has."""
    opened = replace(
        circuit,
        state=CircuitState.OPEN,
        code=fact.code,
        confidence=fact.confidence,
        failures=circuit.failures + 1,
        closed_at=None,
        updated_at=now,
    )
    window = _WINDOWS[fact.code]
    if window is _Window.ACTION:
        return replace(opened, action_required=True, deadline=None)
    if circuit.action_required and window is _Window.TRANSIENT:
        # It never came to the question that a person has to settle; a throttle or a limit shows that the account is accepted.
        return replace(opened, code=circuit.code, confidence=circuit.confidence)
    opened = replace(opened, action_required=False)

    hint = fact.due_at if fact.due_at is not None and fact.due_at > now else None
    retrying = fact.owner_delay_s is not None and not fact.exhausted
    if window is _Window.TRANSIENT and retrying:
        hint = None
    if hint is None and retrying and window is not _Window.QUOTA and fact.owner_delay_s is not None:
        until = now + timedelta(seconds=max(0.0, min(fact.owner_delay_s, SHORT_WINDOW_S)))
    elif hint is not None:
        until = hint
    else:
        step = min(circuit.ladder_step + 1, len(LADDER_S))
        backoff = LADDER_S[step - 1] * (1 - JITTER + 2 * JITTER * uniform)
        opened = replace(opened, ladder_step=step, backoff_s=backoff)
        until = now + timedelta(seconds=backoff)
    return replace(opened, deadline=until if circuit.deadline is None else max(circuit.deadline, until))


def _strengthened(circuit: Circuit, fact: FailureFact, now: datetime) -> Circuit:
    """Return ``circuit``, open and not due, with one more failure: only what the provider or a person says makes it longer."""
    more = replace(circuit, failures=circuit.failures + 1, updated_at=now)
    if circuit.action_required:
        return more
    window = _WINDOWS[fact.code]
    if window is _Window.ACTION:
        return replace(more, code=fact.code, confidence=fact.confidence, action_required=True, deadline=None)
    named = window in {_Window.THROTTLE, _Window.QUOTA} or fact.exhausted
    if named and fact.due_at is not None and circuit.deadline is not None and fact.due_at > circuit.deadline:
        return replace(more, code=fact.code, confidence=fact.confidence, deadline=fact.due_at)
    return more


def _continues_ladder(circuit: Circuit, now: datetime) -> bool:
    """Whether it opens again sooner after closing than the last backoff: then it never was well (R-CIR-5)."""
    if circuit.closed_at is None or circuit.backoff_s is None:
        return False
    return now - circuit.closed_at < timedelta(seconds=circuit.backoff_s)


def _closed(circuit: Circuit, now: datetime) -> Circuit:
    return replace(
        _without_lease(circuit, now),
        state=CircuitState.CLOSED,
        code=None,
        confidence=None,
        failures=0,
        deadline=None,
        action_required=False,
        closed_at=now,
        updated_at=now,
    )


def _without_lease(circuit: Circuit, now: datetime) -> Circuit:
    if circuit.probe_token is None:
        return circuit
    return replace(
        circuit,
        state=CircuitState.OPEN,
        probe_token=None,
        probe_owner=None,
        probe_until=None,
        probe_since=None,
        updated_at=now,
    )
