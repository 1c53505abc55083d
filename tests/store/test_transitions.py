"""One transition: all of it or nothing, and exactly one winner (R-DUR, R-ENG-2, R-ENG-11)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from kandev_routing_sdk.errors import PreconditionFailed, StaleRevision, StoreError
from kandev_routing_sdk.events import EventDraft, EventKind
from kandev_routing_sdk.ports import AttemptRecord, PromptRecord, SelectionRecord
from kandev_routing_sdk.route.model import Reason, Round, Route, State, Visit
from kandev_routing_sdk.store import SqlStore, open_store
from kandev_routing_sdk.types import DispatchMark, ErrorClass
from tests.store._values import (
    NOW,
    advance,
    attempt,
    classification,
    create,
    decision,
    event,
    failure,
    route,
    selection,
    settled,
)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with open_store(database_url) as store:
        yield store


def full_route() -> Route:
    """A route with every field away from its default."""
    return Route(
        session_id="s1",
        kind="utility",
        logical_profile_id="frontier",
        profile_version=4,
        state=State.WAITING_FOR_RESET,
        generation=3,
        execution_profile_id="sol",
        attempt_id="a3",
        turn_running=True,
        prompt_number=2,
        attempts_in_turn=3,
        round=Round(
            excluded=("fable",),
            visits=(
                Visit(profile_id="sol", retries_used={ErrorClass.HARD: 2}, reset_waits_used=(ErrorClass.TRANSIENT,)),
            ),
        ),
        prior_state=State.WAITING,
        removal_pending=True,
        pinned_profile_id="sol",
        deadline=NOW + timedelta(microseconds=1),
        decision=decision(),
        classification=classification(),
        reason=Reason.RESET_WAIT,
        parked_prompt="Grüße \0 \U0001f600 \u2028",
        continuation="…",
        potentially_effectful=True,
        native_session_id="n1",
        native_profile_id="sol",
        owner_id="o1",
        owner_until=NOW + timedelta(seconds=30),
        created_at=NOW,
        updated_at=NOW + timedelta(seconds=1),
    )


def test_a_route_comes_back_as_it_was(store: SqlStore) -> None:
    """R-DUR-2."""
    committed = store.commit(create(after=full_route())).route
    assert full_route().model_copy(update={"revision": 1}) == committed
    assert committed == store.load("s1")
    assert store.load("nobody") is None


def test_revisions_grow_by_one_and_stale_ones_change_nothing(store: SqlStore) -> None:
    first = store.commit(create()).route
    second = store.commit(advance(first)).route
    assert (1, 2) == (first.revision, second.revision)
    with pytest.raises(StaleRevision) as caught:
        store.commit(advance(first, to={"state": State.STOPPED}, events=(event(),), circuits=(failure(),)))
    assert ("s1", 1) == (caught.value.session_id, caught.value.expected)
    assert second == store.load("s1")
    assert [] == store.events()
    assert [] == store.circuits()


def test_creating_twice_is_stale(store: SqlStore) -> None:
    first = store.commit(create()).route
    with pytest.raises(StaleRevision):
        store.commit(create(after=route(logical_profile_id="other")))
    assert first == store.load("s1")


def test_advancing_what_was_never_created_is_stale(store: SqlStore) -> None:
    with pytest.raises(StaleRevision):
        store.commit(advance(route()))
    assert store.load("s1") is None


def test_a_generation_is_decided_once_or_nothing_is_written(store: SqlStore) -> None:
    """Design 6, invariant 3; a refused row takes the whole transition with it."""
    first = store.commit(create(selection=selection(1))).route
    with pytest.raises(StoreError):
        store.commit(advance(first, selection=selection(1), events=(event(),), circuits=(failure(),)))
    assert first == store.load("s1")
    assert [selection(1)] == store.selections("s1")
    assert [] == store.events()
    assert [] == store.circuits()


def test_an_ordinal_is_used_once(store: SqlStore) -> None:
    first = store.commit(create(new_attempt=attempt("a1"))).route
    with pytest.raises(StoreError):
        store.commit(advance(first, new_attempt=attempt("a2")))
    assert first == store.load("s1")
    assert ["a1"] == [a.attempt_id for a in store.attempts("s1")]


def test_selections_come_back_in_order(store: SqlStore) -> None:
    current = store.commit(create(selection=selection(1))).route
    nobody = SelectionRecord(generation=2, chosen_profile_id=None, walk=())
    store.commit(advance(current, selection=nobody))
    assert [selection(1), nobody] == store.selections("s1")
    assert [] == store.selections("s2")


def test_an_attempt_of_another_session_is_refused(store: SqlStore) -> None:
    with pytest.raises(ValueError, match="own session"):
        store.commit(create(new_attempt=attempt(session_id="s2")))
    assert store.load("s1") is None


# --- attempts ---


def test_an_attempt_comes_back_as_it_was(store: SqlStore) -> None:
    current = store.commit(create(new_attempt=attempt())).route
    assert [attempt()] == store.attempts("s1")
    store.commit(advance(current, update_attempt=settled(attempt()), new_attempt=attempt("a2", ordinal=2)))
    assert [settled(attempt()), attempt("a2", ordinal=2)] == store.attempts("s1")


def test_text_that_no_column_can_hold_is_replaced_not_lost(store: SqlStore) -> None:
    hostile = attempt(model_id="m\0\udc80é", provider_id="p\0")
    store.commit(create(new_attempt=hostile))
    [kept] = store.attempts("s1")
    assert ("m\N{REPLACEMENT CHARACTER}?é", "p\N{REPLACEMENT CHARACTER}") == (kept.model_id, kept.provider_id)


def test_a_settled_attempt_never_changes(store: SqlStore) -> None:
    """R-ENG-11."""
    current = store.commit(create(new_attempt=attempt())).route
    current = store.commit(advance(current, update_attempt=settled(attempt()))).route
    with pytest.raises(StaleRevision):
        store.commit(advance(current, update_attempt=settled(attempt(), stop_reason="end_turn")))
    with pytest.raises(StaleRevision):
        store.mark_attempt(attempt(mark=DispatchMark.DELIVERED))
    assert [settled(attempt())] == store.attempts("s1")
    assert current == store.load("s1")


def test_what_an_attempt_was_born_with_stays(store: SqlStore) -> None:
    """Health is booked to the keys captured at launch (R-CIR-5)."""
    current = store.commit(create(new_attempt=attempt())).route
    other = settled(attempt(resource_keys=(), family="claude", generation=9, ordinal=9))
    store.commit(advance(current, update_attempt=other))
    assert [settled(attempt())] == store.attempts("s1")


MARKS = [DispatchMark.CLAIMED, DispatchMark.DISPATCHING, DispatchMark.DELIVERED]


@pytest.mark.parametrize("before", MARKS)
@pytest.mark.parametrize("after", MARKS)
def test_a_mark_only_goes_forward(store: SqlStore, before: DispatchMark, after: DispatchMark) -> None:
    """R-DUR-3."""
    store.commit(create(new_attempt=attempt(mark=before)))
    wanted = attempt(mark=after, process_group=42, process_started_at=NOW)
    if MARKS.index(after) >= MARKS.index(before):
        store.mark_attempt(wanted)
        assert [wanted] == store.attempts("s1")
    else:
        with pytest.raises(StaleRevision):
            store.mark_attempt(wanted)
        assert [attempt(mark=before)] == store.attempts("s1")


def test_marking_needs_the_attempt_and_its_session(store: SqlStore) -> None:
    store.commit(create(new_attempt=attempt()))
    for stranger in (attempt("a2"), attempt(session_id="s2")):
        with pytest.raises(StaleRevision):
            store.mark_attempt(replace(stranger, mark=DispatchMark.DISPATCHING))
    with pytest.raises(PreconditionFailed):
        store.mark_attempt(attempt(mark=DispatchMark.SETTLED))
    assert [attempt()] == store.attempts("s1")


# --- lists ---


def test_sessions_are_newest_first_and_by_state(store: SqlStore) -> None:
    for age, state in enumerate([State.WAITING, State.STOPPED, State.WAITING]):
        created = NOW - timedelta(microseconds=age)
        store.commit(create(after=route(f"s{age}", created_at=created, state=state)))
    assert ["s0", "s1", "s2"] == [r.session_id for r in store.sessions()]
    assert ["s0", "s1"] == [r.session_id for r in store.sessions(limit=2)]
    assert ["s0", "s2"] == [r.session_id for r in store.sessions(states=[State.WAITING, State.ACTIVE])]
    assert ["s0", "s1", "s2"] == [r.session_id for r in store.sessions(states=list(State))]
    assert [] == store.sessions(states=[])


def test_events_are_one_ordered_stream_with_a_cursor(store: SqlStore) -> None:
    """R-CON-6."""
    first = store.commit(create("s1", events=(event(n=1, nothing=None), event(n=2))))
    second = store.commit(create("s2", events=(event(n=3),)))
    third = store.commit(advance(first.route, events=(event(n=4),)))
    everything = [*first.events, *second.events, *third.events]
    assert everything == store.events()
    assert sorted({e.sequence for e in everything}) == [e.sequence for e in everything]
    assert everything[1:3] == store.events(after=everything[0].sequence, limit=2)
    assert [*first.events, *third.events] == store.events(session_id="s1")
    assert [*third.events] == store.events(session_id="s1", after=everything[2].sequence)
    assert {"n": 1, "nothing": None} == everything[0].params


def test_threads_share_a_store(store: SqlStore) -> None:
    """Eight threads, one session: each revision has one winner."""
    current = store.commit(create()).route
    for _ in range(10):

        def tries(number: int, before: Route = current) -> Route | None:
            try:
                return store.commit(advance(before, to={"attempt_id": str(number)}, events=(event(),))).route
            except StaleRevision:
                return None

        with ThreadPoolExecutor(8) as pool:
            winners = [r for r in pool.map(tries, range(8)) if r is not None]
        assert [current.revision + 1] == [r.revision for r in winners]
        current = winners[0]
    assert current == store.load("s1")
    assert 10 == len(store.events())


def test_a_reader_sees_every_event_once(store: SqlStore) -> None:
    """A cursor never passes a sequence that is still to be committed."""
    seen: list[int] = []

    def writes(number: int) -> None:
        for turn in range(15):
            store.commit(create(f"w{number}-{turn}", events=(event(), event())))

    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(writes, number) for number in range(6)]
        while not all(f.done() for f in running):
            seen += [e.sequence for e in store.events(after=seen[-1] if seen else 0)]
        for future in running:
            future.result()
    seen += [e.sequence for e in store.events(after=seen[-1] if seen else 0)]
    assert [e.sequence for e in store.events(limit=1000)] == seen
    assert 180 == len(seen)


def test_records_are_what_the_ports_say() -> None:
    """A field added to a record without a column would be lost silently."""
    from dataclasses import fields

    from kandev_routing_sdk.circuits import Circuit
    from kandev_routing_sdk.ports import CallRecord
    from kandev_routing_sdk.store import codec, tables
    from tests.store._values import call

    names = {table: {c.name for c in table.columns} for table in tables.METADATA.tables.values()}
    assert {f.name for f in fields(AttemptRecord)} == names[tables.ATTEMPTS] == set(codec.encode_attempt(attempt()))
    assert {f.name for f in fields(CallRecord)} == names[tables.CALLS] == set(codec.encode_call(call()))
    assert {f.name for f in fields(Circuit)} <= names[tables.CIRCUITS]
    assert set(codec.ROUTE_COLUMNS) | {"body"} == names[tables.SESSIONS]


# --- prompts ---


def test_a_prompt_is_kept_with_the_mark_that_it_is_about_to_leave(store: SqlStore) -> None:
    """R-CON-3: to the letter, whatever is in it."""
    text = "é\0 \udc80 line\r\n" + "x" * 100_000
    current = store.commit(create(new_attempt=attempt())).route
    sent = replace(attempt(), mark=DispatchMark.DISPATCHING)
    current = store.commit(advance(current, update_attempt=sent, prompt=PromptRecord("a1", "s1", text))).route
    second = attempt("a2", ordinal=2)
    current = store.commit(advance(current, update_attempt=settled(attempt()), new_attempt=second)).route
    store.commit(advance(current, update_attempt=second, prompt=PromptRecord("a2", "s1", "second")))
    first, last = store.prompts("s1")
    assert ("a1", text, NOW) == (first.attempt_id, first.text, first.at)
    assert ("a2", "second") == (last.attempt_id, last.text)
    assert [] == store.prompts("s2")


def test_a_prompt_of_a_commit_that_is_refused_is_not_kept(store: SqlStore) -> None:
    first = store.commit(create(new_attempt=attempt())).route
    store.commit(advance(first))
    with pytest.raises(StaleRevision):
        store.commit(advance(first, prompt=PromptRecord("a1", "s1", "never sent")))
    assert [] == store.prompts("s1")


# --- the newest events ---


def test_the_newest_events_of_some_kinds_come_in_order(store: SqlStore) -> None:
    kinds = [EventKind.TURN_STARTED, EventKind.TURN_ENDED, EventKind.ROUTE_WAITING] * 3
    current = store.commit(
        create(events=tuple(EventDraft(kind, Reason.STARTED, {"n": n}) for n, kind in enumerate(kinds)))
    )
    store.commit(
        create(after=route(session_id="s2"), events=(EventDraft(EventKind.TURN_STARTED, Reason.STARTED, {"n": 99}),))
    )
    assert "s1" == current.route.session_id
    wanted = [EventKind.TURN_STARTED, EventKind.ROUTE_WAITING, EventKind.TURN_STARTED]
    assert [3, 5, 6, 8] == [event.params["n"] for event in store.newest_events("s1", wanted, 4)]
    assert (
        []
        == store.newest_events("s1", [], 4)
        == store.newest_events("s1", wanted, 0)
        == store.newest_events("s3", wanted, 1)
    )
