"""The first schema: routes, selections, attempts, events, circuits, calls, installation key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _id() -> sa.types.TypeEngine[str]:
    return sa.String().with_variant(sa.String(collation="C"), "postgresql")


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _big(name: str, *, nullable: bool = True) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _session(*, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(
        "session_id", _id(), sa.ForeignKey("kr_session.session_id"), primary_key=primary_key, nullable=False
    )


def _partial(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    _sessions()
    _history()
    _health()
    _calls()


def _sessions() -> None:
    op.create_table(
        "kr_session",
        sa.Column("session_id", _id(), primary_key=True),
        _text("kind"),
        _text("logical_profile_id"),
        _number("profile_version"),
        _text("state"),
        _number("generation"),
        _number("revision"),
        _text("execution_profile_id", nullable=True),
        _text("attempt_id", nullable=True),
        _text("reason"),
        _big("deadline"),
        _text("owner_id", nullable=True),
        _big("owner_until"),
        _big("created_at", nullable=False),
        _big("updated_at", nullable=False),
        _text("body"),
    )
    op.create_index("kr_session_newest", "kr_session", ["created_at", "session_id"])
    _partial("kr_session_due", "kr_session", ["deadline", "state"], "deadline IS NOT NULL")
    _partial("kr_session_owned", "kr_session", ["owner_until", "kind"], "owner_until IS NOT NULL")


def _history() -> None:
    op.create_table(
        "kr_selection",
        _session(primary_key=True),
        sa.Column("generation", sa.Integer(), primary_key=True, autoincrement=False),
        _text("chosen_profile_id", nullable=True),
        _text("walk"),
        _big("at", nullable=False),
    )
    op.create_table(
        "kr_attempt",
        sa.Column("attempt_id", _id(), primary_key=True),
        _session(),
        _number("generation"),
        _number("ordinal"),
        _number("prompt_number"),
        _text("execution_profile_id"),
        _number("profile_version"),
        _text("family"),
        _text("mark"),
        _text("resource_keys"),
        _text("provider_id", nullable=True),
        _text("model_id", nullable=True),
        _text("catalogue_version"),
        _big("created_at", nullable=False),
        _text("lease_token", nullable=True),
        _big("process_group"),
        _big("process_started_at"),
        _text("outcome", nullable=True),
        _text("stop_reason", nullable=True),
        _text("served_model", nullable=True),
        _text("effects", nullable=True),
        _text("evidence", nullable=True),
        _text("classification", nullable=True),
        _text("decision", nullable=True),
        _big("input_tokens"),
        _big("output_tokens"),
        _number("inner_retries"),
        _big("settled_at"),
        sa.UniqueConstraint("session_id", "ordinal", name="kr_attempt_ordinal"),
    )
    op.create_table(
        "kr_event",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        _session(),
        _number("generation"),
        _text("kind"),
        _text("reason"),
        _text("params"),
        _big("at", nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("kr_event_session", "kr_event", ["session_id", "sequence"])


def _health() -> None:
    op.create_table(
        "kr_circuit",
        sa.Column("key", _id(), primary_key=True),
        _text("scope"),
        _text("provider_id", nullable=True),
        _text("model_id", nullable=True),
        _text("profile_id", nullable=True),
        _text("executor_namespace", nullable=True),
        _number("resource_version"),
        _number("key_version"),
        _text("state"),
        _text("code", nullable=True),
        _text("confidence", nullable=True),
        _number("failures"),
        _big("deadline"),
        _number("action_required"),
        _number("ladder_step"),
        sa.Column("backoff_s", sa.Float(), nullable=True),
        _text("probe_token", nullable=True),
        _text("probe_owner", nullable=True),
        _big("probe_until"),
        _big("probe_since"),
        _big("last_success_at"),
        _big("closed_at"),
        _big("updated_at", nullable=False),
    )
    _partial("kr_circuit_due", "kr_circuit", ["deadline"], "deadline IS NOT NULL")
    op.create_table(
        "kr_installation_key",
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("material", sa.LargeBinary(), nullable=False),
    )


def _calls() -> None:
    op.create_table(
        "kr_call",
        sa.Column("call_id", _id(), primary_key=True),
        sa.Column("session_id", _id(), nullable=False),
        _text("logical_profile_id"),
        _big("started_at", nullable=False),
        _text("execution_profile_id", nullable=True),
        _text("family", nullable=True),
        _text("provider_id", nullable=True),
        _text("model", nullable=True),
        _big("input_tokens"),
        _big("output_tokens"),
        _text("outcome", nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        _text("code", nullable=True),
        _number("attempts"),
        _big("deadline"),
        _big("ended_at"),
        _text("summary"),
    )
    op.create_index("kr_call_newest", "kr_call", ["started_at", "call_id"])
    _partial("kr_call_running", "kr_call", ["session_id"], "ended_at IS NULL")
