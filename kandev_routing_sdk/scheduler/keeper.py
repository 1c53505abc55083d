"""What has to be looked at now and then, because nobody tells: settings that changed, and agents that nobody owns any more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from kandev_routing_sdk.conductor import Engine, in_thread, survey
from kandev_routing_sdk.errors import PreconditionFailed, StoreError
from kandev_routing_sdk.process import marked_attempts, reap_group
from kandev_routing_sdk.profiles import Candidate, DynamicProfile, Profile
from kandev_routing_sdk.records import AttemptQuery
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.route.select import CandidateView
from kandev_routing_sdk.sessions import is_dynamic, reconsider, switch_flag
from kandev_routing_sdk.telemetry import fields, get_logger, problem_fields

_log = get_logger(__name__)

EVERY_S: Final = 60.0
"""Seconds between two looks."""
_FLAG_PASSES: Final = 10
"""In every so many looks, sessions that another worker's flag stopped are looked for as well."""
_PAGE: Final = 200
_CONCERNED: Final = (State.ACTION_REQUIRED, State.WAITING, State.RETRY_WAIT, State.WAITING_FOR_RESET)
"""Where the settings, or the flag, may keep a session that they should not."""

_Views = Mapping[str, tuple[CandidateView, ...]]


class Keeper:
    """Brings stored sessions in line with flag and settings, and ends stray agents."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: _Views | None = None
        """How each profile, or its candidates, looked when the sessions were last gone through."""
        self._passes = 0
        self._off = False
        """The flag is off, and all sessions were told."""
        self._busy = False
        """Somebody was at work for a session that could not be told, therefore."""

    async def keep(self, stop: anyio.Event) -> None:
        """Look at once, and then every minute, whatever a look comes to."""
        while not stop.is_set():
            try:
                await self.catch_up()
                await self.end_strays()
            except StoreError as problem:
                _log.warning("a look at stored sessions failed; trying again", extra=problem_fields(problem))
            except Exception as problem:  # noqa: BLE001  # a host's own profiles or secrets: not the end of its worker
                _log.error("a look at stored sessions failed; trying again", extra=problem_fields(problem))
            with anyio.move_on_after(EVERY_S):
                await stop.wait()

    async def catch_up(self) -> bool:
        """Go through the sessions that flag and settings concern, if these may have changed; whether one moved (R-RES-4, R-ENG-6).

        Raises :class:`~kandev_routing_sdk.errors.StoreError`.
        """
        if not self._engine.dynamic_enabled:
            if self._off:
                return False
            self._busy = False
            moved = await self._go_through(tuple(s for s in State if s is not State.STOPPED))
            self._off = not self._busy
            return moved
        seen = await in_thread(self._look)
        changed = self._changed(seen)
        self._passes += 1
        moved = False
        if changed is None or changed:
            moved = await self._go_through(_CONCERNED, changed)
        elif self._passes % _FLAG_PASSES == 0:  # a worker that is to be restarted may have switched it off meanwhile
            moved = await self._go_through((State.ACTION_REQUIRED,), changed)
        self._seen = seen
        return moved

    def _look(self) -> _Views:
        """Resolve every profile, a dynamic one's candidates (blocking: adapters read files)."""
        engine, here = self._engine, Path.cwd()

        def views(profile: Profile) -> tuple[CandidateView, ...]:
            if isinstance(profile, DynamicProfile):
                return survey(engine, profile.candidates, here, listed_by=profile).views
            return survey(engine, (Candidate(profile_id=profile.id),), here).views

        return {profile.id: views(profile) for profile in engine.profiles.all().values()}

    def _changed(self, seen: _Views) -> frozenset[str] | None:
        """Return the profiles whose candidates are not what they were; None: any may be, for nothing is known yet."""
        if self._seen is None:
            return None
        return frozenset(i for i in {*seen, *self._seen} if seen.get(i) != self._seen.get(i))

    async def _go_through(self, states: tuple[State, ...], changed: frozenset[str] | None = None) -> bool:
        last: Route | None = None
        moved = False
        while page := await in_thread(self._engine.store.sessions, states=states, before=last, limit=_PAGE):
            last = page[-1]
            for route in page:
                moved |= await self._bring_in_line(route, changed)
        return moved

    async def _bring_in_line(self, route: Route, changed: frozenset[str] | None) -> bool:
        """Move one session, if it should; whether it moved. One that cannot be moved keeps no other from it."""
        engine = self._engine
        owned = route.owner_until is not None and route.owner_until > engine.clock.now()
        if route.kind != "session" or owned:
            self._busy |= route.kind == "session"
            return False
        try:
            on, was_on = engine.dynamic_enabled, route.prior_state is None
            if on is not was_on and (on or await in_thread(is_dynamic, engine, route)):
                await switch_flag(engine, route)
                return True
            concerned = changed is None or route.logical_profile_id in changed
            return on and concerned and await reconsider(engine, route)
        except PreconditionFailed as moved:
            _log.info(
                "a session was moved on by somebody else", extra=problem_fields(moved, session_id=route.session_id)
            )
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001  # as above; its text may hold anything
            _log.error("a session could not be looked at", extra=problem_fields(problem, session_id=route.session_id))
        return False

    async def end_strays(self) -> None:
        """End agents of this machine whose attempt is settled: somebody on another one took it over, and could not (R-CON-11)."""
        store = self._engine.store
        for attempt_id in sorted(await anyio.to_thread.run_sync(marked_attempts)):
            found = await in_thread(store.past_attempts, AttemptQuery(attempt_id=attempt_id), limit=1)
            if not found or found[0].outcome is None:
                continue  # of another store, or somebody is at it
            if not await reap_group(None, None, attempt_id):
                _log.warning("an agent could not be proven gone", extra=fields(attempt_id=attempt_id))
