"""What was decided and why, and what a person did (R-ENG-7, R-ENG-11). Append-only."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from kandev_routing_sdk.records import ActionRecord, DecisionRecord, DecisionSort
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import insert, where
from kandev_routing_sdk.store.tables import ACTIONS, DECISIONS
from kandev_routing_sdk.store.transaction import Transaction

_D, _A = DECISIONS.c, ACTIONS.c
_DECIDED: Final = insert(DECISIONS)
_DECISIONS: Final = (
    sa.select(_D.revision, _D.sort, _D.inputs, _D.answer, _D.attempt_id, _D.at)
    .where(_D.session_id == where("session_id"))
    .order_by(_D.revision)
)
_ACTED: Final = insert(ACTIONS)
_ACTION: Final = sa.select(_A.action_id, _A.action, _A.expected_generation, _A.revision).where(
    _A.session_id == where("session_id"), _A.action_id == where("action_id")
)


def add_decision(tx: Transaction, session_id: str, decision: DecisionRecord, *, revision: int, now: datetime) -> None:
    """Record the decision that led to ``revision``."""
    values = {
        "session_id": session_id,
        "revision": revision,
        "sort": decision.sort.value,
        "attempt_id": decision.attempt_id,
        "inputs": codec.to_json(decision.inputs),
        "answer": codec.to_json(decision.answer),
        "at": codec.to_micros(now),
    }
    tx.run(_DECIDED, values)


def decisions(tx: Transaction, session_id: str) -> list[DecisionRecord]:
    """Return a session's decisions, in order."""
    return [
        DecisionRecord(
            revision=revision,
            sort=DecisionSort(sort),
            inputs=json.loads(inputs),
            answer=json.loads(answer),
            attempt_id=attempt_id,
            at=codec.from_micros(at),
        )
        for revision, sort, inputs, answer, attempt_id, at in tx.rows(_DECISIONS, {"where_session_id": session_id})
    ]


def add_action(tx: Transaction, session_id: str, action: ActionRecord, *, revision: int, now: datetime) -> None:
    """Record an action with the revision that it made."""
    values = {
        "session_id": session_id,
        "action_id": action.action_id,
        "action": action.action,
        "expected_generation": action.expected_generation,
        "revision": revision,
        "at": codec.to_micros(now),
    }
    tx.run(_ACTED, values)


def action(tx: Transaction, session_id: str, action_id: str) -> ActionRecord | None:
    """Return the action of this id."""
    row = tx.row(_ACTION, {"where_session_id": session_id, "where_action_id": action_id})
    return None if row is None else ActionRecord(*row)
