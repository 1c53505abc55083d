"""Sessions as they are stored."""

from __future__ import annotations

from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.ports import Store
from kandev_routing_sdk.records import DecisionSort
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.route.snapshot import Snapshot, snapshot_of


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
    return snapshot_of(route, [entry for entry in walk if isinstance(entry, dict)] if isinstance(walk, list) else ())
