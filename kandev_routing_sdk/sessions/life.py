"""A session's life in one process: begun, or taken over, driven until it rests, and left as it can be gone on with."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from kandev_routing_sdk.conductor import (
    Drive,
    Engine,
    Ledger,
    Tell,
    Work,
    WorkSource,
    alongside,
    check_folder,
    check_prompt,
    in_thread,
)
from kandev_routing_sdk.conductor.engine import OWNER_LEASE_S
from kandev_routing_sdk.errors import ProfileNotFound, ProfileUnusable, RoutingError
from kandev_routing_sdk.policy import Context
from kandev_routing_sdk.profiles import DynamicProfile
from kandev_routing_sdk.resolver import resolve
from kandev_routing_sdk.route.model import Reason, Route
from kandev_routing_sdk.route.step import begin
from kandev_routing_sdk.types import ProfileKind

LEAVE_S: Final = 30.0
"""For how long a session whose drive failed is left alone."""


@dataclass(frozen=True, slots=True)
class Order:
    """A session to be begun."""

    profile_id: str
    prompt: str | None = field(repr=False)
    """None: the session is begun and made ready, and asked later."""
    cwd: Path


def work_of(engine: Engine, route: Route) -> Work:
    """Resolve the session's profile as it is now; one that may not be used any more has no candidates (R-RES-3)."""
    try:
        found = resolve(engine.profiles, route.logical_profile_id, dynamic_enabled=True, scope=engine.host_scope)
    except (ProfileNotFound, ProfileUnusable) as refused:
        return _nobody(route, _problem(engine, route.logical_profile_id, refused))
    if route.context is Context.INTERACTIVE and found.kind is not ProfileKind.CONCRETE:
        sentence = f"profile {route.logical_profile_id!r} is a dynamic one now; start another session to use it"
        return _nobody(route, ("incompatible", sentence))
    return Work(
        route.logical_profile_id, found.profile.version, found.kind, found.candidates, _folder(route), found.listed_by
    )


def _nobody(route: Route, problem: tuple[str, str]) -> Work:
    kind = ProfileKind.CONCRETE if route.context is Context.INTERACTIVE else ProfileKind.DYNAMIC
    return Work(route.logical_profile_id, route.profile_version, kind, (), _folder(route), problem=problem)


def _problem(engine: Engine, profile_id: str, refused: RoutingError) -> tuple[str, str]:
    """Return the word and the sentence for a profile that was refused just now."""
    try:
        profile = engine.profiles.get(profile_id)
    except ProfileUnusable:
        return "not_launchable", str(refused)
    if profile is None:
        return "missing", f"profile {profile_id!r} does not exist any more"
    if not profile.enabled:
        return "disabled", f"profile {profile_id!r} is disabled"
    return "cross_scope", f"profile {profile_id!r} belongs to scope {profile.scope!r} now"


def source_of(engine: Engine, route: Route) -> WorkSource:
    """Return what resolves the session's profile at each decision."""
    return partial(work_of, engine, route)


def _folder(route: Route) -> Path:
    return Path(route.cwd or ".")


async def begin_session(engine: Engine, order: Order, *, here: bool) -> Route:
    """Make a session durable, with its first prompt if there is one, and start nothing.

    ``here``: this process goes on with it at once; otherwise whichever worker comes first.

    Raises what :func:`~kandev_routing_sdk.resolver.resolve` raises, and :class:`~kandev_routing_sdk.errors.UsageError` for what
    is no prompt, or a folder that cannot be used.
    """
    if order.prompt is not None:
        check_prompt(order.prompt)
    await in_thread(check_folder, order.cwd)
    resolution = await in_thread(
        resolve, engine.profiles, order.profile_id, dynamic_enabled=engine.dynamic_enabled, scope=engine.host_scope
    )
    now, ledger = engine.clock.now(), Ledger(engine, silent)
    begun = begin(
        engine.ids.new("session:"),
        order.profile_id,
        now=now,
        prompt=order.prompt,
        profile_version=resolution.profile.version,
        context=Context.INTERACTIVE if resolution.kind is ProfileKind.CONCRETE else Context.DYNAMIC,
        cwd=str(order.cwd.absolute()),
        owner_id=ledger.owner_id,
        owner_until=now + timedelta(seconds=OWNER_LEASE_S if here else 0),
    )
    return await ledger.begin(begun)


async def go_on(engine: Engine, route: Route, tell: Tell, *, woken: bool = False) -> Route:
    """Drive a session that is ours until it rests, and return where. ``woken``: what it waits for may be over.

    Raises :class:`~kandev_routing_sdk.errors.StaleRevision` when somebody else moved it meanwhile, and other errors of the store;
    the agent is ended then, and the session left to others.
    """
    drive = Drive(engine, source_of(engine, route), tell, owner_id=route.owner_id)
    await drive.adopt(route, woken=woken)
    return await keep_going(drive)


async def keep_going(drive: Drive) -> Route:
    """Drive until the session rests; whatever ends this early, its agent is ended and the session left to others (R-CON-11).

    What failed here is not tried again at once: there or elsewhere, it would most likely fail again.
    """
    try:
        async with alongside(drive.keep_owner()):
            await drive.run()
        await drive.rest()
    except BaseException as ended:
        with anyio.CancelScope(shield=True), suppress(RoutingError):
            await drive.relinquish(after_s=LEAVE_S if isinstance(ended, Exception) else 0.0)
        raise
    return drive.route


async def switch_flag(engine: Engine, route: Route, *, look: bool = True) -> None:
    """Bring a stored session in line with the feature flag (R-RES-4). Raises StaleRevision when somebody else moved it.

    ``look``: let it look for a candidate at once, if that is what it was waiting for.
    """
    drive = Drive(engine, source_of(engine, route), silent, owner_id=route.owner_id)
    await drive.adopt(route)
    await drive.switch_flag(on=engine.dynamic_enabled, look=look)
    await drive.hand_on()


async def reconsider(engine: Engine, route: Route) -> bool:
    """Let a session go on that its candidates, as they are now, would not keep waiting; whether it does. Raises as above.

    A concrete profile's is shown to its person: it only says that it may go on (R-POL-7).
    """
    if not await in_thread(is_dynamic, engine, route) and route.reason is not Reason.NO_ELIGIBLE_CANDIDATE:
        return False
    drive = Drive(engine, source_of(engine, route), silent)
    await drive.adopt(route)
    if not await drive.settings_changed():
        return False
    await drive.hand_on()
    return True


def is_dynamic(engine: Engine, route: Route) -> bool:
    """Whether the feature flag concerns the session. One of an earlier version does not say, so its profile does.

    Blocks: profiles may be stored.
    """
    if route.context is Context.INTERACTIVE:
        return False
    try:
        profile = engine.profiles.get(route.logical_profile_id)
    except ProfileUnusable:  # stored by another version, which alone knows more of it
        return True
    return profile is None or isinstance(profile, DynamicProfile)


def silent(progress: object) -> None:
    """Nobody listens."""
