"""How-to "Delete what is old": what it shows takes whole stopped sessions, and leaves everything else."""

from __future__ import annotations

import sqlalchemy as sa

from kandev_routing_sdk.records import ActionRecord, DecisionRecord, DecisionSort, PromptRecord, Wait
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.store.tables import METADATA
from tests.docs._pages import snippet
from tests.store._values import NOW, advance, attempt, call, create, event, route, selection

CUTOFF = "1767225600000000"
"""The moment in the page; what is stored here is younger."""


def kept(store: SqlStore, session_id: str, state: State, **owner: object) -> Route:
    """A session with something in every table."""
    record = attempt(f"a{session_id}", session_id=session_id)
    begun = store.commit(create(session_id, events=(event(),), selection=selection(), new_attempt=record))
    prompt = PromptRecord(record.attempt_id, session_id, "do it")
    last = store.commit(
        advance(
            begun.route,
            to={"state": State.WAITING},
            update_attempt=record,
            prompt=prompt,
            waits_for=(Wait("k"),),
            decision=DecisionRecord(DecisionSort.SELECTION, {}, {}),
            action=ActionRecord("once", "retry_now", 1),
        )
    ).route
    store.save_call(call(f"c{session_id}", session_id=session_id))
    return store.commit(advance(last, to={"state": state, **owner}, waits_for=None)).route


def test_what_the_page_shows_deletes_stopped_sessions_and_nothing_else(database_url: str) -> None:
    """R-CON-6, R-ENG-11: no table that holds something of a session is forgotten, and no session is left in parts."""
    shown = snippet("docs/how-to/sessions.md", "sql").text
    later = f"{int(NOW.timestamp() * 1_000_000) + 60_000_000}"
    statements = [s.strip() for s in shown.replace(CUTOFF, later).split(";")][1:-2]
    of_sessions = sorted(t.name for t in METADATA.tables.values() if "session_id" in t.columns)
    assert of_sessions == sorted({s.split()[2] for s in statements if s.startswith("DELETE")})
    with open_store(database_url) as store:
        kept(store, "old", State.STOPPED)
        left = [
            kept(store, "waits", State.WAITING),
            kept(store, "ending", State.STOPPED, owner_id="somebody", owner_until=NOW),
            store.commit(create(after=route("young", state=State.STOPPED, updated_at=NOW.replace(year=2027)))).route,
        ]
        events = [e for e in store.events() if e.session_id != "old"]
        engine = sa.create_engine(database_url)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()
        assert {r.session_id for r in left} == {r.session_id for r in store.sessions()}
        assert events == store.events()
        assert ([], [], None) == (store.attempts("old"), store.prompts("old"), store.call("cold"))
        assert ["awaits"] == [p.attempt_id for p in store.prompts("waits")]
