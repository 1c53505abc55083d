"""Sessions that outlive a process: what they wait for, what was decided and why, which actions were carried out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _id(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String().with_variant(sa.String(collation="C"), "postgresql"), primary_key=True)


def _session() -> sa.Column[str]:
    kind = sa.String().with_variant(sa.String(collation="C"), "postgresql")
    return sa.Column("session_id", kind, sa.ForeignKey("kr_session.session_id"), primary_key=True, nullable=False)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _micros(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def upgrade() -> None:
    op.add_column("kr_attempt", _text("owner_id", nullable=True))
    op.create_table(
        "kr_wait",
        sa.Column("circuit", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("until_closed", sa.Integer(), primary_key=True, autoincrement=False),
        _session(),
    )
    op.create_index("kr_wait_session", "kr_wait", ["session_id"])
    op.create_table(
        "kr_decision",
        _session(),
        sa.Column("revision", sa.Integer(), primary_key=True, autoincrement=False),
        _text("sort"),
        _text("attempt_id", nullable=True),
        _text("inputs"),
        _text("answer"),
        _micros("at"),
    )
    op.create_table(
        "kr_action",
        _session(),
        _id("action_id"),
        _text("action"),
        _number("expected_generation"),
        _number("revision"),
        _micros("at"),
    )
