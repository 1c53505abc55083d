"""The rows (private to ``store``). Own registry and MetaData, every name with the prefix ``kr_``: the SDK is a guest (R-DUR-1).

Times are whole microseconds since 1970 in UTC, as 64-bit integers: exact, sortable and the same on both engines. What is only ever
read as a whole is compact JSON in a text column. Ids and keys compare byte by byte on both engines, so that "in key order" means
the same everywhere.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

VERSION_TABLE: Final = "kr_version"
METADATA: Final[MetaData] = MetaData()

IdText: Final[Any] = String().with_variant(String(collation="C"), "postgresql")
Micros: Final[Any] = BigInteger()


class _Row(SQLModel, registry=registry(metadata=METADATA)):
    """Base of all rows."""


def _session_key(*, primary_key: bool = False) -> Any:  # noqa: ANN401  # sqlmodel types a field by its annotation
    return Field(sa_column=Column(IdText, ForeignKey("kr_session.session_id"), primary_key=primary_key, nullable=False))


class SessionRow(_Row, table=True):
    """A route. ``body`` holds what no query asks for."""

    __tablename__: ClassVar[str] = "kr_session"
    __table_args__: ClassVar[Any] = (
        # Named by their queries: the newest; what is due; whose owner is gone.
        Index("kr_session_newest", "created_at", "session_id"),
        Index(
            "kr_session_due",
            "deadline",
            "state",
            sqlite_where=text("deadline IS NOT NULL"),
            postgresql_where=text("deadline IS NOT NULL"),
        ),
        Index(
            "kr_session_owned",
            "owner_until",
            "kind",
            sqlite_where=text("owner_until IS NOT NULL"),
            postgresql_where=text("owner_until IS NOT NULL"),
        ),
    )

    session_id: str = Field(primary_key=True, sa_type=IdText)
    kind: str
    logical_profile_id: str
    profile_version: int
    state: str
    generation: int
    revision: int
    execution_profile_id: str | None
    attempt_id: str | None
    reason: str
    deadline: int | None = Field(sa_type=Micros)
    owner_id: str | None
    owner_until: int | None = Field(sa_type=Micros)
    created_at: int = Field(sa_type=Micros)
    updated_at: int = Field(sa_type=Micros)
    body: str


class SelectionRow(_Row, table=True):
    """One walk over the candidates; a generation has exactly one."""

    __tablename__: ClassVar[str] = "kr_selection"

    session_id: str = _session_key(primary_key=True)
    generation: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    chosen_profile_id: str | None
    walk: str
    at: int = Field(sa_type=Micros)


class AttemptRow(_Row, table=True):
    """One dispatch; never changes once settled."""

    __tablename__: ClassVar[str] = "kr_attempt"
    __table_args__: ClassVar[Any] = (UniqueConstraint("session_id", "ordinal", name="kr_attempt_ordinal"),)

    attempt_id: str = Field(primary_key=True, sa_type=IdText)
    session_id: str = _session_key()
    generation: int
    ordinal: int
    prompt_number: int
    execution_profile_id: str
    profile_version: int
    family: str
    mark: str
    resource_keys: str
    provider_id: str | None
    model_id: str | None
    catalogue_version: str
    created_at: int = Field(sa_type=Micros)
    owner_id: str | None
    lease_token: str | None
    process_group: int | None = Field(sa_type=Micros)
    process_started_at: int | None = Field(sa_type=Micros)
    outcome: str | None
    stop_reason: str | None
    served_model: str | None
    effects: str | None
    evidence: str | None
    classification: str | None
    decision: str | None
    input_tokens: int | None = Field(sa_type=Micros)
    output_tokens: int | None = Field(sa_type=Micros)
    inner_retries: int
    settled_at: int | None = Field(sa_type=Micros)


class EventRow(_Row, table=True):
    """A route event. ``sequence`` is the cursor over all sessions and is never used twice."""

    __tablename__: ClassVar[str] = "kr_event"
    __table_args__: ClassVar[Any] = (
        Index("kr_event_session", "session_id", "sequence"),
        {"sqlite_autoincrement": True},
    )

    sequence: int = Field(sa_column=Column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True))
    session_id: str = _session_key()
    generation: int
    kind: str
    reason: str
    params: str
    at: int = Field(sa_type=Micros)


class CircuitRow(_Row, table=True):
    """The health of one resource."""

    __tablename__: ClassVar[str] = "kr_circuit"
    __table_args__: ClassVar[Any] = (
        Index(
            "kr_circuit_due",
            "deadline",
            sqlite_where=text("deadline IS NOT NULL"),
            postgresql_where=text("deadline IS NOT NULL"),
        ),
    )

    key: str = Field(primary_key=True, sa_type=IdText)
    scope: str
    provider_id: str | None
    model_id: str | None
    profile_id: str | None
    executor_namespace: str | None
    resource_version: int
    key_version: int
    state: str
    code: str | None
    confidence: str | None
    failures: int
    deadline: int | None = Field(sa_type=Micros)
    action_required: int
    ladder_step: int
    backoff_s: float | None
    probe_token: str | None
    probe_owner: str | None
    probe_until: int | None = Field(sa_type=Micros)
    probe_since: int | None = Field(sa_type=Micros)
    last_success_at: int | None = Field(sa_type=Micros)
    closed_at: int | None = Field(sa_type=Micros)
    updated_at: int = Field(sa_type=Micros)


class WaitRow(_Row, table=True):
    """A circuit that keeps a session where it is. ``until_closed``: that it may be probed is not enough."""

    __tablename__: ClassVar[str] = "kr_wait"
    __table_args__: ClassVar[Any] = (Index("kr_wait_session", "session_id"),)

    circuit: int = Field(sa_column=Column(BigInteger(), primary_key=True, autoincrement=False))
    """The first 64 bits of the SHA-256 of its key."""
    until_closed: int = Field(sa_column=Column(Integer(), primary_key=True, autoincrement=False))
    session_id: str = _session_key(primary_key=True)


class DecisionRow(_Row, table=True):
    """One decision with all that it was made from."""

    __tablename__: ClassVar[str] = "kr_decision"

    session_id: str = _session_key(primary_key=True)
    revision: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    sort: str
    attempt_id: str | None
    inputs: str
    answer: str
    at: int = Field(sa_type=Micros)


class ActionRow(_Row, table=True):
    """An action of a person that was carried out."""

    __tablename__: ClassVar[str] = "kr_action"

    session_id: str = _session_key(primary_key=True)
    action_id: str = Field(primary_key=True, sa_type=IdText)
    action: str
    expected_generation: int
    revision: int
    at: int = Field(sa_type=Micros)


class CallRow(_Row, table=True):
    """One utility call, without its prompt and answer."""

    __tablename__: ClassVar[str] = "kr_call"
    __table_args__: ClassVar[Any] = (
        Index("kr_call_newest", "started_at", "call_id"),
        Index(
            "kr_call_running",
            "session_id",
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
    )

    call_id: str = Field(primary_key=True, sa_type=IdText)
    # No foreign key: a call on a concrete profile may be recorded before, or without, a route.
    session_id: str = Field(sa_type=IdText)
    logical_profile_id: str
    started_at: int = Field(sa_type=Micros)
    execution_profile_id: str | None
    family: str | None
    provider_id: str | None
    model: str | None
    input_tokens: int | None = Field(sa_type=Micros)
    output_tokens: int | None = Field(sa_type=Micros)
    outcome: str | None
    exit_code: int | None
    code: str | None
    attempts: int
    deadline: int | None = Field(sa_type=Micros)
    ended_at: int | None = Field(sa_type=Micros)
    summary: str


class KeyRow(_Row, table=True):
    """A version of the installation key (R-CIR-3)."""

    __tablename__: ClassVar[str] = "kr_installation_key"

    version: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    material: bytes = Field(sa_type=LargeBinary)


class ProfileRow(_Row, table=True):
    """A profile that is kept in the store (R-PRO-1). ``version`` goes up with every write (R-PRO-6)."""

    __tablename__: ClassVar[str] = "kr_profile"

    profile_id: str = Field(primary_key=True, sa_type=IdText)
    kind: str
    version: int
    enabled: int
    body: str
    updated_at: int = Field(sa_type=Micros)


class PromptRow(_Row, table=True):
    """The exact text that an attempt's agent was given (R-CON-3)."""

    __tablename__: ClassVar[str] = "kr_prompt"
    __table_args__: ClassVar[Any] = (Index("kr_prompt_session", "session_id"),)

    attempt_id: str = Field(primary_key=True, sa_type=IdText)
    session_id: str = _session_key()
    text: str
    at: int = Field(sa_type=Micros)


def _table(name: str) -> Table:
    return METADATA.tables[name]


SESSIONS: Final = _table("kr_session")
SELECTIONS: Final = _table("kr_selection")
ATTEMPTS: Final = _table("kr_attempt")
EVENTS: Final = _table("kr_event")
CIRCUITS: Final = _table("kr_circuit")
WAITS: Final = _table("kr_wait")
DECISIONS: Final = _table("kr_decision")
ACTIONS: Final = _table("kr_action")
CALLS: Final = _table("kr_call")
KEYS: Final = _table("kr_installation_key")
PROFILES: Final = _table("kr_profile")
PROMPTS: Final = _table("kr_prompt")
