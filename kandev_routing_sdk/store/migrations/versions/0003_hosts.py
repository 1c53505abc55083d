"""What a host embeds: profiles in the store, the exact prompts of agents, and word of new events (R-PRO-1, R-CON-6)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Once a statement, whatever it inserts. Without a payload: equal words of one transaction are told once.
_NOTIFY = (
    """
    CREATE FUNCTION kr_event_notify() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('kr_event', '');
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER kr_event_notify AFTER INSERT ON kr_event FOR EACH STATEMENT EXECUTE FUNCTION kr_event_notify()",
)


def _id() -> sa.types.TypeEngine[str]:
    return sa.String().with_variant(sa.String(collation="C"), "postgresql")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _micros(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def upgrade() -> None:
    op.create_table(
        "kr_profile",
        sa.Column("profile_id", _id(), primary_key=True),
        _text("kind"),
        _number("version"),
        _number("enabled"),
        _text("body"),
        _micros("updated_at"),
    )
    op.create_table(
        "kr_prompt",
        sa.Column("attempt_id", _id(), primary_key=True),
        sa.Column("session_id", _id(), sa.ForeignKey("kr_session.session_id"), nullable=False),
        _text("text"),
        _micros("at"),
    )
    op.create_index("kr_prompt_session", "kr_prompt", ["session_id"])
    if op.get_bind().dialect.name == "postgresql":
        for statement in _NOTIFY:
            op.execute(statement)
