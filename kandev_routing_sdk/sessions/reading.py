"""Sessions as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.events import EventKind
from kandev_routing_sdk.ports import Store
from kandev_routing_sdk.records import DecisionSort
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.route.snapshot import Snapshot, snapshot_of

_USABLE: Final = frozenset({State.ACTIVE, State.REROUTE_PENDING})


def load_session(store: Store, session_id: str) -> Route:
    """Return a session's route. Raises :class:`~kandev_routing_sdk.errors.UsageError` when there is none of this id."""
    found = store.load(session_id)
    if found is None or found.kind != "session":
        hint = "a call, not a session: see kandev-routing calls" if found else "kandev-routing sessions lists them"
        raise UsageError(f"there is no session {session_id!r}; {hint}")
    return found


def snapshot(store: Store, session_id: str) -> Snapshot:
    """Return the authoritative snapshot (R-ENG-7). Raises as :func:`load_session`."""
    route = load_session(store, session_id)
    walks = [d for d in store.decisions(session_id) if d.sort is DecisionSort.SELECTION]
    walk = walks[-1].answer.get("walk") if walks else None
    walked = [entry for entry in walk if isinstance(entry, dict)] if isinstance(walk, list) else []
    return snapshot_of(route, walked, capabilities(store, route))


def capabilities(store: Store, route: Route) -> Mapping[str, JsonValue] | None:
    """Return what the session's agent offers; None while none is there whose controls could be used (R-CON-7).

    The newest word of this generation counts, as a whole: nothing of an earlier one is left in it.
    """
    if route.state not in _USABLE:
        return None
    newest = store.newest_events(route.session_id, [EventKind.CAPABILITIES_REPLACED], 1)
    if not newest or newest[0].generation != route.generation:
        return None
    offered = newest[0].params.get("capabilities")
    return offered if isinstance(offered, dict) else None
