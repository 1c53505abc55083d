"""Attempts of all sessions for those who look back (R-CLS-6): newest first, page by page, one damaged row hiding no other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.ports import AttemptQuery, AttemptRecord, PastAttempt
from kandev_routing_sdk.store import SqlStore, codec, open_store
from kandev_routing_sdk.store.tables import ATTEMPTS
from kandev_routing_sdk.types import AttemptOutcome
from tests.store._values import NOW, attempt, classification, create, evidence, settled


def fill(url: str, *records: AttemptRecord) -> None:
    """Write attempts as they are, with their sessions."""
    with open_store(url) as store:
        for session_id in sorted({r.session_id for r in records}):
            if store.load(session_id) is None:
                store.commit(create(session_id))
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.insert(ATTEMPTS), [codec.encode_attempt(r) for r in records])
    engine.dispose()


def damage(url: str, attempt_id: str, **columns: Any) -> None:
    """Overwrite columns of one row."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.update(ATTEMPTS).where(ATTEMPTS.c.attempt_id == attempt_id).values(columns))
    engine.dispose()


def past(attempt_id: str, age: int = 0, **changes: Any) -> AttemptRecord:
    values = {"created_at": NOW - timedelta(seconds=age), "ordinal": age + 1, **changes}
    return settled(attempt(attempt_id, **{k: v for k, v in values.items() if k not in {"evidence", "classification"}}))


def pages(store: SqlStore, size: int, query: AttemptQuery = AttemptQuery()) -> Iterator[list[PastAttempt]]:  # noqa: B008
    last = None
    while page := store.past_attempts(query, after=last, limit=size):
        yield page
        last = page[-1]


@pytest.fixture
def filled(database_url: str) -> str:
    records = [past(f"a{n}", n, session_id=f"s{n % 2}", family="codex" if n % 3 else "claude") for n in range(7)]
    twin = past("b3", 3, session_id="s2", family="claude")  # at the very same microsecond as a3
    fill(database_url, *records, twin)
    return database_url


def test_attempts_of_all_sessions_are_newest_first(filled: str) -> None:
    with open_store(filled, read_only=True) as store:
        found = store.past_attempts(AttemptQuery())
    assert ["a0", "a1", "a2", "b3", "a3", "a4", "a5", "a6"] == [a.attempt_id for a in found]
    first = found[0]
    assert (evidence(), classification(), NOW, AttemptOutcome.FAILED, ()) == (
        first.evidence, first.classification, first.created_at, first.outcome, first.unreadable,
    )  # fmt: skip
    assert ("s0", 1, "sol", "claude", "7") == (
        first.session_id, first.ordinal, first.execution_profile_id, first.family, first.catalogue_version,
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9])
def test_pages_leave_nothing_out_and_repeat_nothing(filled: str, size: int) -> None:
    """Also where a page ends between two of the same moment."""
    with open_store(filled, read_only=True) as store:
        found = list(pages(store, size))
    assert ["a0", "a1", "a2", "b3", "a3", "a4", "a5", "a6"] == [a.attempt_id for page in found for a in page]
    assert size >= max(map(len, found))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (AttemptQuery(session_id="s1"), ["a1", "a3", "a5"]),
        (AttemptQuery(attempt_id="b3"), ["b3"]),
        (AttemptQuery(family="claude"), ["a0", "b3", "a3", "a6"]),
        (AttemptQuery(since=NOW - timedelta(seconds=2)), ["a0", "a1", "a2"]),
        (AttemptQuery(since=NOW + timedelta(microseconds=1)), []),
        (AttemptQuery(session_id="s1", family="claude"), ["a3"]),
        (AttemptQuery(session_id="nobody's"), []),
    ],
)
@pytest.mark.parametrize("size", [1, 50])
def test_what_is_wanted_is_narrowed(filled: str, query: AttemptQuery, expected: list[str], size: int) -> None:
    with open_store(filled, read_only=True) as store:
        assert expected == [a.attempt_id for page in pages(store, size, query) for a in page]


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ({"evidence": "{"}, ("evidence",)),
        ({"evidence": ""}, ("evidence",)),
        ({"evidence": "[" * 50_000}, ("evidence",)),
        ({"evidence": '{"family": "codex"}'}, ("evidence",)),
        ({"classification": '{"code": "a_code_of_tomorrow"}'}, ("classification",)),
        ({"effects": "null"}, ("effects",)),
        ({"outcome": "vanished"}, ("outcome",)),
        ({"created_at": 2**62}, ("created_at",)),
        ({"evidence": "x", "classification": "y"}, ("evidence", "classification")),
    ],
)
def test_a_damaged_row_is_one_of_the_page_and_says_what(
    filled: str, columns: dict[str, Any], fields: tuple[str, ...]
) -> None:
    damage(filled, "a2", **columns)
    with open_store(filled, read_only=True) as store:
        found = {a.attempt_id: a for page in pages(store, 1) for a in page}
    assert 8 == len(found)
    assert {"a2": fields} == {i: a.unreadable for i, a in found.items() if a.unreadable}
    assert [None] * len(fields) == [getattr(found["a2"], name) for name in fields]
    assert classification() == found["a1"].classification


def test_a_row_that_is_no_text_hides_no_other(sqlite_url: str) -> None:
    """SQLite keeps any bytes in a column of text, and would refuse the whole answer for them."""
    fill(sqlite_url, past("a0", 0), past("a1", 1))
    engine = sa.create_engine(sqlite_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE kr_attempt SET evidence = CAST(x'ff7b' AS TEXT) WHERE attempt_id = 'a0'")
    engine.dispose()
    with open_store(sqlite_url, read_only=True) as store:
        found = store.past_attempts(AttemptQuery())
    assert [("a0", ("evidence",)), ("a1", ())] == [(a.attempt_id, a.unreadable) for a in found]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ages=st.lists(st.integers(0, 5), min_size=1, max_size=12), size=st.integers(1, 5))
def test_whatever_their_times_pages_are_the_whole(tmp_path_factory: Any, ages: list[int], size: int) -> None:
    folder: Path = tmp_path_factory.mktemp("pages")
    url = f"sqlite:///{folder / 'routing.db'}"
    records = [past(f"a{n:02}", age, ordinal=n + 1) for n, age in enumerate(ages)]
    fill(url, *records)
    with open_store(url, read_only=True) as store:
        found = [a.attempt_id for page in pages(store, size) for a in page]
    newest = sorted(records, key=lambda r: (r.created_at, r.attempt_id), reverse=True)
    assert [r.attempt_id for r in newest] == found


def test_where_there_is_no_database_there_are_none(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'no.db'}", read_only=True) as store:
        assert [] == store.past_attempts(AttemptQuery())
    assert [] == list(tmp_path.iterdir())
