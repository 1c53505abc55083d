"""What a person does to a session (R-ENG-7): fenced by the generation that was seen, once for an action id, all or nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from kandev_routing_sdk.conductor import Drive, Engine, Tell, check_prompt, in_thread
from kandev_routing_sdk.errors import DynamicRoutingDisabled, StaleGeneration, StaleRevision, UsageError
from kandev_routing_sdk.records import ActionRecord
from kandev_routing_sdk.route.model import Route, Trigger
from kandev_routing_sdk.route.step import check_seen
from kandev_routing_sdk.sessions.life import is_dynamic, source_of, switch_flag
from kandev_routing_sdk.sessions.reading import load_session
from kandev_routing_sdk.telemetry import Stale

_TRIES: Final = 8
"""Races with a timer that leave the generation alone, before the person is told."""


_T = TypeVar("_T")


class Action(StrEnum):
    """What a person may ask for."""

    RETRY_NOW = "retry_now"
    """The same candidate again, now; takes the next retry slot."""
    RESUME = "resume"
    """A concrete profile's: go on in its own native session (R-POL-7)."""
    START_FRESH = "start_fresh"
    """A concrete profile's: go on in a new native session, which is told what is known."""
    SKIP_NOW = "skip_now"
    """Another candidate, for this decision only."""
    CANCEL_WAIT = "cancel_wait"
    """Wait for nothing any more; a person decides. Idempotent."""
    STOP = "stop"
    """End the session for good, once its turn is settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One action on the session that a person saw."""

    session_id: str
    action: Action
    expected_generation: int
    expected_revision: int | None = None
    action_id: str | None = None
    """A repeated id is carried out once."""


def asked_for(
    session_id: str,
    action: Action | str,
    *,
    expected_generation: int,
    expected_revision: int | None = None,
    action_id: str | None = None,
) -> Asked:
    """Return what a person asked for. Raises :class:`~kandev_routing_sdk.errors.UsageError` when there is no such action."""
    known = [a.value for a in Action]
    if action not in known:
        raise UsageError(f"there is no action {action!r}; actions are {', '.join(known)}")
    return Asked(
        session_id=session_id,
        action=Action(action),
        expected_generation=expected_generation,
        expected_revision=expected_revision,
        action_id=action_id,
    )


async def act(engine: Engine, asked: Asked, tell: Tell) -> Drive | None:
    """Carry out an action; return the drive to be kept going, or None when this id was carried out before.

    Raises:
        UsageError: there is no such session.
        StaleGeneration, StaleRevision: the session has moved on; nothing was changed.
        TurnInProgress: its turn is not settled.
        IllegalTransition, NotAdmitted: it cannot be done where the session is; nothing was changed.
        DynamicRoutingDisabled: the feature flag is off.
    """

    async def once() -> Drive | None:
        route = await _loaded(engine, asked.session_id)
        record = None
        if asked.action_id is not None:
            if await _is_known(engine, asked, asked.action_id):
                return None
            record = ActionRecord(asked.action_id, asked.action.value, asked.expected_generation)
        check_seen(route, expected_generation=asked.expected_generation, expected_revision=asked.expected_revision)
        route = await _restored(engine, route)
        drive = Drive(engine, source_of(engine, route), tell)
        await drive.adopt(route)
        await drive.act(Trigger(asked.action.value), record)
        return drive

    try:
        return await _raced(once, wait=asked.expected_revision is None)
    except (StaleGeneration, StaleRevision) as late:
        # the same request, sent twice at once: the other one was carried out
        if asked.action_id is None or not await _is_known(engine, asked, asked.action_id):
            engine.telemetry.dropped(Stale.ACTION)
            if isinstance(late, StaleGeneration):  # of a revision its commit was told
                engine.telemetry.fenced(late)
            raise
        return None


async def prompt(engine: Engine, session_id: str, text: str, tell: Tell) -> Drive:
    """Give a session its next user message; return the drive to be kept going.

    Raises:
        UsageError: there is no such session, or the message is empty, no text, or too large.
        TurnInProgress: a turn is on its way.
        DynamicRoutingDisabled: the feature flag is off.
    """
    check_prompt(text)

    async def once() -> Drive:
        route = await _restored(engine, await _loaded(engine, session_id))
        drive = Drive(engine, source_of(engine, route), tell)
        await drive.adopt(route)
        await drive.ask(text)
        return drive

    return await _raced(once, wait=True)


async def stop_session(engine: Engine, session_id: str, tell: Tell) -> Route:
    """Stop a session from any state: its turn is cancelled and its agent ended, whoever runs it; charges nothing (R-ENG-7).

    Idempotent. An agent on another machine is ended by its owner, at its next heartbeat.
    """

    async def once() -> Route:
        route = await in_thread(load_session, engine.store, session_id)
        drive = Drive(engine, source_of(engine, route), tell)
        await drive.adopt(route)
        await drive.end()
        return drive.route

    return await _raced(once, wait=True)


async def _loaded(engine: Engine, session_id: str) -> Route:
    route = await in_thread(load_session, engine.store, session_id)
    if not engine.dynamic_enabled and await in_thread(is_dynamic, engine, route):
        raise DynamicRoutingDisabled
    return route


async def _restored(engine: Engine, route: Route) -> Route:
    """Bring back a session that the flag had stopped, if nobody has looked since it is on again."""
    if route.prior_state is None:
        return route
    await switch_flag(engine, route, look=False)  # what the person asks comes instead
    return await in_thread(load_session, engine.store, route.session_id)


async def _raced(once: Callable[[], Awaitable[_T]], *, wait: bool) -> _T:
    """A timer may move the session between reading and writing: look again, and let the generation decide."""
    for _ in range(_TRIES if wait else 0):
        try:
            return await once()
        except StaleRevision:
            continue
    return await once()


async def _is_known(engine: Engine, asked: Asked, action_id: str) -> bool:
    """Whether the action was carried out under this id. Raises UsageError when that was another one."""
    known = await in_thread(engine.store.action, asked.session_id, action_id)
    if known is None:
        return False
    if known.action != asked.action or known.expected_generation != asked.expected_generation:
        raise UsageError(f"action_id {action_id!r} was used for another action already; take a fresh one")
    return True
