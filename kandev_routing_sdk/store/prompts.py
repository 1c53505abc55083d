"""The exact prompts that agents of sessions were given (R-CON-3). Append-only; a call's prompt never comes here (R-UTL-4)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from kandev_routing_sdk.records import PromptRecord
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import insert, where
from kandev_routing_sdk.store.tables import ATTEMPTS, PROMPTS
from kandev_routing_sdk.store.transaction import Transaction

_P = PROMPTS.c
_ADD: Final = insert(PROMPTS)
_OF_SESSION: Final = (
    sa.select(_P.attempt_id, _P.text, _P.at)
    .join(ATTEMPTS, ATTEMPTS.c.attempt_id == _P.attempt_id)
    .where(_P.session_id == where("session_id"))
    .order_by(ATTEMPTS.c.ordinal)
)


def add(tx: Transaction, prompt: PromptRecord, now: datetime) -> None:
    """Record what an attempt's agent is about to be given."""
    values = {"attempt_id": prompt.attempt_id, "session_id": prompt.session_id, "text": codec.to_json(prompt.text)}
    tx.run(_ADD, {**values, "at": codec.to_micros(now)})


def of_session(tx: Transaction, session_id: str) -> list[PromptRecord]:
    """Return a session's prompts in the order of their attempts."""
    return [
        PromptRecord(attempt_id, session_id, json.loads(text), codec.from_micros(at))
        for attempt_id, text, at in tx.rows(_OF_SESSION, {"where_session_id": session_id})
    ]
