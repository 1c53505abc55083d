"""One durable decision, and the same by hand: what the store's benchmarks write, with and without the store.

The decision is the scheduled retry of a candidate, the one transition that writes nothing else: the route moves on by
compare-and-swap, a new attempt and one event are inserted. By hand it is three statements in one transaction on one driver
connection, with every value at hand and nothing read back but the event's number.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, cast

import psycopg
import sqlalchemy as sa

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.events import EventDraft, EventKind
from kandev_routing_sdk.policy import Decision, DecisionKind
from kandev_routing_sdk.policy.document import ClassPolicy, RetryPolicy, WaitPolicy
from kandev_routing_sdk.ports import AttemptRecord, Commit
from kandev_routing_sdk.route.model import Reason, Round, Route, State, Visit
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.types import Code, Confidence, DispatchMark, ErrorClass, Phase, Scope

NOW: Final = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
_MICROS: Final = codec.to_micros(NOW)
_LEASE: Final = timedelta(seconds=60)
_PROMPT: Final = (
    "The tests in tests/parser fail since the last merge: the tokenizer drops the last newline of a file. Find out why, "
    "repair it, add a test that would have caught it, and say in the changelog what was wrong. Leave the public functions "
    "as they are.\n"
)


# --- with the store ---


def first(session_id: str) -> Route:
    """Return a route that waits for its next try."""
    decision = Decision(
        kind=DecisionKind.RETRY,
        error_class=ErrorClass.TRANSIENT,
        code=Code.RATE_LIMITED,
        ordinal=1,
        maximum=3,
        deadline=NOW,
        pending_outcome="skip",
        catalogue_version="7",
        policy=ClassPolicy(
            retry=RetryPolicy(enabled=True, max_retries=3, initial_interval_seconds=30),
            wait_for_reset=WaitPolicy(enabled=True, max_wait_seconds=3600),
        ),
        because=("wait: no reset time is known",),
    )
    classification = Classification(
        code=Code.RATE_LIMITED,
        error_class=ErrorClass.TRANSIENT,
        confidence=Confidence.HIGH,
        scope=Scope.ACCOUNT,
        classifier_rule="acme.rate.1",
        catalogue_version="7",
        phase=Phase.PROMPT_SEND,
        occurred_at=NOW,
        safe_excerpt="429 Too Many Requests: slow down, then try again",
        because=("matched acme.rate.1",),
    )
    return Route(
        session_id=session_id,
        logical_profile_id="frontier",
        profile_version=3,
        state=State.RETRYING,
        generation=1,
        execution_profile_id="sol",
        attempt_id="attempt:0",
        revision=1,
        turn_running=True,
        prompt_number=1,
        attempts_in_turn=1,
        round=Round(visits=(Visit(profile_id="sol", retries_used={ErrorClass.TRANSIENT: 1}),)),
        decision=decision,
        classification=classification,
        reason=Reason.DEADLINE_DUE,
        parked_prompt=_PROMPT,
        native_session_id="0190b0a2-7c4e-7d1a-9f5e-2b8f5f0c1d2e",
        native_profile_id="sol",
        owner_id="owner:018e0a1b2c3d",
        owner_until=NOW + _LEASE,
        created_at=NOW,
        updated_at=NOW,
    )


def attempt(session_id: str, generation: int, attempt_id: str) -> AttemptRecord:
    """Return the attempt that ``generation`` begins."""
    return AttemptRecord(
        attempt_id=attempt_id,
        session_id=session_id,
        generation=generation,
        ordinal=generation,
        prompt_number=1,
        execution_profile_id="sol",
        profile_version=3,
        family="codex",
        mark=DispatchMark.CLAIMED,
        resource_keys=(
            ResourceKey("account:acme:v1:5d41402abc4b2a76b9719d911017c592", Scope.ACCOUNT, provider_id="acme"),
            ResourceKey("model:acme:m1", Scope.MODEL, provider_id="acme", model_id="m1"),
            ResourceKey("profile:sol", Scope.PROFILE, profile_id="sol"),
        ),
        provider_id="acme",
        model_id="m1",
        catalogue_version="7",
        created_at=NOW + timedelta(seconds=generation),
        lease_token=f"{session_id}/{generation}",
    )


EVENT: Final = EventDraft(
    EventKind.ROUTE_CHANGED,
    Reason.DEADLINE_DUE,
    {"profile_id": "sol", "provider": "acme", "model": "m1", "state": "retrying"},
)


def begin(session_id: str) -> Commit:
    """Return the commit that makes a session."""
    return Commit(before=None, after=first(session_id), now=NOW)


def decide(before: Route, attempt_id: str) -> Commit:
    """Return the decision that follows ``before``: its next generation."""
    generation = before.generation + 1
    now = NOW + timedelta(seconds=generation)
    after = before.model_copy(
        update={
            "generation": generation,
            "revision": before.revision + 1,
            "attempt_id": attempt_id,
            "owner_until": now + _LEASE,
            "updated_at": now,
        }
    )
    return Commit(
        before=before,
        after=after,
        now=now,
        new_attempt=attempt(before.session_id, generation, attempt_id),
        events=(EVENT,),
    )


# --- by hand ---


class Values(NamedTuple):
    """What the three statements are given, in the order of their placeholders."""

    route: tuple[Any, ...]
    attempt: tuple[Any, ...]
    event: tuple[Any, ...]


class Hand(Protocol):
    """A connection, and the statements of a decision as one writes them for its driver."""

    connection: Any

    def values(self, session_id: str, generation: int, attempt_id: str) -> Values:
        """Return what the decision that begins ``generation`` writes."""
        ...

    def load(self, session_id: str) -> int:
        """Read the whole row of a session and return its generation."""
        ...

    def commit(self, values: Values) -> int | None:
        """Write a decision and return its event's number; None: somebody else was first, and nothing was changed."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class _Statements:
    """SQL text with the driver's placeholder, and the rows that it writes."""

    def __init__(self, mark: str) -> None:
        route, begun = first("s"), attempt("s", 1, "a")
        self._route = codec.encode_route(route)
        for name in ("session_id", "created_at"):
            del self._route[name]
        self._attempt = codec.encode_attempt(begun)
        self._event = codec.encode_event(route, EVENT, NOW)
        into = ", ".join
        to = into(f"{name} = {mark}" for name in self._route)
        read, attempted, told = into(self._route), into(self._attempt), into(self._event)
        # ruff: disable[S608]  # names of columns and placeholders
        self.load = f"SELECT session_id, created_at, {read} FROM kr_session WHERE session_id = {mark}"
        self.advance = f"UPDATE kr_session SET {to} WHERE session_id = {mark} AND revision = {mark}"
        self.add = f"INSERT INTO kr_attempt ({attempted}) VALUES ({into([mark] * len(self._attempt))})"
        self.tell = f"INSERT INTO kr_event ({told}) VALUES ({into([mark] * len(self._event))}) RETURNING sequence"
        # ruff: enable[S608]
        self.generation_at = 2 + list(self._route).index("generation")

    def values(self, session_id: str, generation: int, attempt_id: str) -> Values:
        at = _MICROS + generation * 1_000_000
        until = at + _LEASE // timedelta(microseconds=1)
        # a dictionary keeps the place of a key that gets another value
        route = self._route | {
            "generation": generation,
            "revision": generation,
            "attempt_id": attempt_id,
            "owner_until": until,
            "updated_at": at,
        }
        attempted = self._attempt | {
            "attempt_id": attempt_id,
            "session_id": session_id,
            "generation": generation,
            "ordinal": generation,
            "created_at": at,
            "lease_token": f"{session_id}/{generation}",
        }
        event = self._event | {"session_id": session_id, "generation": generation, "at": at}
        return Values((*route.values(), session_id, generation - 1), tuple(attempted.values()), tuple(event.values()))


class SqliteHand:
    """Raw ``sqlite3``, set up as the store sets up its connections."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._sql = _Statements("?")
        self.values = self._sql.values
        self.connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        for setting in (
            f"busy_timeout={round(timeout_s * 1000)}",
            "foreign_keys=ON",
            "journal_mode=WAL",
            "synchronous=FULL",
        ):
            self.connection.execute(f"PRAGMA {setting}")

    def load(self, session_id: str) -> int:
        """Read the whole row of a session and return its generation."""
        (row,) = self.connection.execute(self._sql.load, (session_id,)).fetchall()
        return cast("int", row[self._sql.generation_at])

    def commit(self, values: Values) -> int | None:
        """Write a decision in one IMMEDIATE transaction."""
        sql, cursor = self._sql, self.connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(sql.advance, values.route)
        if cursor.rowcount != 1:
            self.connection.rollback()
            return None
        cursor.execute(sql.add, values.attempt)
        cursor.execute(sql.tell, values.event)
        ((sequence,),) = cursor.fetchall()
        self.connection.commit()
        return cast("int", sequence)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class PostgresHand:
    """Raw ``psycopg``, which prepares what it runs again and again, as it does for the store."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._sql = _Statements("%s")
        self.values = self._sql.values
        parsed = sa.make_url(url)
        self.connection = psycopg.connect(
            host=str(parsed.query["host"]), user=parsed.username, dbname=parsed.database, autocommit=True
        )
        self.connection.execute(f"SET lock_timeout = {round(timeout_s * 1000)}".encode())
        self.connection.autocommit = False
        self.connection.read_only = False
        # the statements as bytes: psycopg takes no text for SQL that was put together
        self._load, self._advance, self._add, self._tell = (
            text.encode() for text in (self._sql.load, self._sql.advance, self._sql.add, self._sql.tell)
        )
        # those who append events take turns, or a reader's cursor could pass a number that is still to be committed
        self._in_order = f"SELECT pg_advisory_xact_lock({0x6B725F6576656E74})".encode()

    def load(self, session_id: str) -> int:
        """Read the whole row of a session and return its generation."""
        (row,) = self.connection.execute(self._load, (session_id,)).fetchall()
        self.connection.rollback()
        return cast("int", row[self._sql.generation_at])

    def commit(self, values: Values) -> int | None:
        """Write a decision in one transaction."""
        cursor = self.connection.cursor()
        cursor.execute(self._advance, values.route)
        if cursor.rowcount != 1:
            self.connection.rollback()
            return None
        cursor.execute(self._add, values.attempt)
        cursor.execute(self._in_order)
        cursor.fetchall()
        cursor.execute(self._tell, values.event)
        ((sequence,),) = cursor.fetchall()
        self.connection.commit()
        return cast("int", sequence)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
