"""Short scenes with played agents: a session that a worker brought to rest, and what then happens to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.plugins import load_registry
from kandev_routing_sdk.records import AttemptRecord
from kandev_routing_sdk.route.model import Route
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.sessions.reading import snapshot
from tests.sessions._played import profiles_table
from tests.sessions._town import FOLDER, Process, Town

CONCRETE = {
    "fable": ("played", "fable", "acme"),
    "sol": ("played", "sol", "other"),
    "twin": ("played", "twin", "acme"),
    "luna": ("asked", "luna", "moon"),
    "nova": ("asked", "nova", "moon"),
}
"""fable and twin are two accounts at one provider; so are luna and nova, which can be asked cheaply."""


def shelve(town: Town, **profiles: list[str | dict[str, Any]]) -> None:
    """Put these dynamic profiles on the shelf, and nothing else beside the concrete ones."""
    routes = {n: [{"profile": c} if isinstance(c, str) else c for c in cs] for n, cs in profiles.items()}
    town.shelf.put(profiles_table(CONCRETE, routes))


def begin(town: Town, host: Process, profile: str = "frontier") -> Snapshot:
    """Start a session and leave it to a worker."""
    begun: Snapshot = town.do(host, host.router.sessions.start(profile, "the request", cwd=FOLDER))
    return begun


def rested(town: Town, host: Process, profile: str = "frontier") -> Snapshot:
    """Start a session, and let the host's worker do what it can."""
    begun = begin(town, host, profile)
    town.look(host)
    return see(town, begun)


def see(town: Town, of: Snapshot) -> Snapshot:
    """The session as it is now."""
    return snapshot(town.store, of.session_id)


def stored(town: Town, of: Snapshot) -> Route:
    """The session's route as it is stored."""
    route = town.store.load(of.session_id)
    assert route is not None
    return route


def rows(town: Town, of: Snapshot) -> list[AttemptRecord]:
    """The session's attempts."""
    return town.store.attempts(of.session_id)


def act(town: Town, host: Process, seen: Snapshot, action: str, **options: Any) -> Snapshot:
    """Act on the session that was seen."""
    options = {"expected_generation": seen.generation, **options}
    after: Snapshot = town.do(host, host.router.sessions.act(seen.session_id, action, **options))
    return after


def ask(town: Town, host: Process, seen: Snapshot, text: str = "and then", **options: Any) -> Snapshot:
    """Give the session its next message."""
    after: Snapshot = town.do(host, host.router.sessions.prompt(seen.session_id, text, **options))
    return after


def look(town: Town, *, after_s: float = 0.0, most: int = 5, namespace: str = "here", afresh: bool = False) -> Process:
    """Let time pass, and a worker of its own process look once."""
    town.clock.advance(after_s)
    host = town.process(namespace)
    town.look(host, most=most, afresh=afresh)
    return host


def got(town: Town) -> list[str]:
    """Which agents got a prompt, in order."""
    return [sent.agent for sent in town.stage.sent]


def where(seen: Snapshot) -> tuple[str, int, str | None]:
    """Its state, its generation, and who answers."""
    return seen.state, seen.generation, seen.execution_profile_id


def circuit(town: Town, kind: str = "") -> Circuit:
    """The one circuit of this kind that was ever opened."""
    (found,) = (c for c in town.store.circuits() if c.key.key.startswith(kind))
    return found


def leased(town: Town) -> list[str]:
    """Whose probe is kept for somebody."""
    return [c.key.key for c in town.store.circuits() if c.lease_is_live(town.clock.now())]


def ends(town: Town, host: Process) -> bool:
    """Whether what runs in ``host`` comes to its end: there may be threads, on a machine that has much to do."""
    return any(town.has_ended(host) for _ in range(10))


def process_with(town: Town, **changes: Any) -> Process:
    """A host some of whose collaborators are others."""
    host = town.process()
    town.processes[-1] = changed = Process(host.host, replace(host.engine, **changes))
    return changed


def without_agents(town: Town) -> Process:
    """A process that can write to the store, and start nothing: no adapter, no executable, no secret."""
    return process_with(town, registry=load_registry([], entry_points_too=False))
