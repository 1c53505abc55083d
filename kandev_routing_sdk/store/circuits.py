"""Circuits: the pure functions, applied to rows that this transaction holds (R-CIR-4 to R-CIR-9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, assert_never

import sqlalchemy as sa

from kandev_routing_sdk.circuits import (
    Circuit,
    ResourceKey,
    admission,
    hand_back,
    on_failure,
    on_success,
    renew_lease,
    take_lease,
)
from kandev_routing_sdk.errors import NotAdmitted
from kandev_routing_sdk.ports import (
    Admit,
    CircuitChange,
    CircuitFailed,
    CircuitHandedBack,
    CircuitSucceeded,
    CircuitTransition,
)
from kandev_routing_sdk.store import codec, failures
from kandev_routing_sdk.store.failures import Again
from kandev_routing_sdk.store.statements import by_name, insert_if_missing, names, one_of, padded, update, where
from kandev_routing_sdk.store.tables import CIRCUITS
from kandev_routing_sdk.store.transaction import Transaction
from kandev_routing_sdk.types import CircuitState

_COLUMNS: Final = names(CIRCUITS)
_CHUNK: Final = 32
_SIZES: Final = (1, 2, 4, 8, 16, _CHUNK)
"""How many keys one statement asks for; a request is padded to the next size, so that few texts are ever compiled."""

_C = CIRCUITS.c
_ADD: Final = insert_if_missing(CIRCUITS)
_UPDATE: Final = update(CIRCUITS, _C.key == where("key"), without=("key",))
_HELD: Final = sa.select(CIRCUITS).where(_C.probe_token == where("token")).order_by(_C.key).with_for_update()
_ALL: Final = sa.select(CIRCUITS).order_by(_C.key)
_BY_KEY: Final[Mapping[int, sa.Select[Any]]] = {
    size: sa.select(CIRCUITS).where(one_of(_C.key, size)).order_by(_C.key) for size in _SIZES
}
_LOCKED: Final[Mapping[int, sa.Select[Any]]] = {
    size: statement.with_for_update() for size, statement in _BY_KEY.items()
}


def view(tx: Transaction, keys: Iterable[str], *, lock: bool = False) -> dict[str, Circuit]:
    """Return the stored circuits among ``keys``; with ``lock`` they stay as they are until the transaction ends."""
    found: dict[str, Circuit] = {}
    statements = _LOCKED if lock else _BY_KEY
    for chunk in _chunks(sorted(set(keys))):
        size = next(size for size in _SIZES if size >= len(chunk))
        rows = tx.rows(statements[size], padded(chunk, size))
        for values in by_name(_COLUMNS, rows):
            circuit = codec.decode_circuit(values)
            found[circuit.key.key] = circuit
    return found


def every(tx: Transaction) -> list[Circuit]:
    """Return all stored circuits, in key order."""
    return [codec.decode_circuit(values) for values in by_name(_COLUMNS, tx.rows(_ALL, {}))]


def apply(
    tx: Transaction, *, now: datetime, changes: Sequence[CircuitChange], admit: Admit | None = None
) -> tuple[tuple[CircuitTransition, ...], tuple[ResourceKey, ...]]:
    """Apply ``changes`` in order, then admit ``admit.keys``, all or none; return what changed and the leases taken.

    Raises:
        NotAdmitted: for the first key, in key order, that refuses.
        Again: somebody opened one of the circuits at the same moment.
    """
    if not changes and admit is None:
        return (), ()
    keys = {change.key.key for change in changes}
    if admit is not None:
        keys.update(key.key for key in admit.keys)
    before = view(tx, keys, lock=True)
    current = dict(before)
    for change in changes:
        after = _changed(current.get(change.key.key), change, now)
        if after is not None:
            current[change.key.key] = after
    leased = () if admit is None else tuple(_leases(current, admit, now))
    _store(tx, before, current)
    return tuple(_transitions(before, current)), leased


def renew(tx: Transaction, token: str, *, now: datetime, ttl: timedelta) -> None:
    """Renew every live lease that is held under ``token``, as far as a probe may renew (R-CIR-8)."""
    before = {}
    for values in by_name(_COLUMNS, tx.rows(_HELD, {"where_token": token})):
        circuit = codec.decode_circuit(values)
        before[circuit.key.key] = circuit
    _store(tx, before, {key: renew_lease(circuit, token, now, ttl) for key, circuit in before.items()})


def replace_if(tx: Transaction, before: Circuit, after: Circuit) -> bool:
    """Write ``after`` if the stored circuit still is ``before``; a missing one is closed."""
    if before.key != after.key:
        raise ValueError("a circuit keeps its key")
    stored = view(tx, (before.key.key,), lock=True)
    known = stored.get(before.key.key)
    if known != before if known is not None else before.state is not CircuitState.CLOSED:
        return False
    _store(tx, stored, {after.key.key: after})
    return True


def are(tx: Transaction, expected: Sequence[Circuit]) -> bool:
    """Return whether these are stored just like that, and there is at least one."""
    stored = view(tx, (circuit.key.key for circuit in expected), lock=True)
    return bool(expected) and all(stored.get(circuit.key.key) == circuit for circuit in expected)


def _changed(circuit: Circuit | None, change: CircuitChange, now: datetime) -> Circuit | None:
    match change:
        case CircuitFailed(key=key, fact=fact, uniform=uniform):
            after = on_failure(circuit, key, fact, now=now, uniform=uniform)
            # A failure that opens nothing leaves no row behind.
            return None if circuit is None and after.state is CircuitState.CLOSED else after
        case CircuitSucceeded(token=token):
            return None if circuit is None else on_success(circuit, token, now)
        case CircuitHandedBack(token=token):
            return None if circuit is None else hand_back(circuit, token, now)
        case _ as unknown:
            assert_never(unknown)


def _leases(current: dict[str, Circuit], admit: Admit, now: datetime) -> Iterator[ResourceKey]:
    for key in sorted(admit.keys, key=lambda k: k.key):
        circuit = current.get(key.key)
        answer = admission(circuit, now=now, token=admit.token, early=admit.early)
        if answer.kind == "refused":
            raise NotAdmitted(key.key, answer.until)
        if answer.kind == "probe" and circuit is not None:
            ttl = timedelta(seconds=admit.lease_s)
            current[key.key] = take_lease(circuit, admit.token, admit.owner, now, ttl)
            yield key


def _store(tx: Transaction, before: Mapping[str, Circuit], after: Mapping[str, Circuit]) -> None:
    for key in sorted(after):
        known, circuit = before.get(key), after[key]
        if circuit == known:
            continue
        values = codec.encode_circuit(circuit)
        if known is not None:
            tx.run(_UPDATE, values | {"where_key": key})
        elif tx.run(_ADD, values) != 1:
            # Only rows can be locked: two first failures of one resource meet here, and the later one starts again.
            raise Again(failures.busy("the database"))


def _transitions(before: Mapping[str, Circuit], after: Mapping[str, Circuit]) -> Iterator[CircuitTransition]:
    for key in sorted(after):
        known, circuit = before.get(key), after[key]
        if _shown(known) != _shown(circuit):
            yield CircuitTransition(before=known, after=circuit)


def _shown(circuit: Circuit | None) -> tuple[CircuitState, datetime | None, bool]:
    if circuit is None:
        return CircuitState.CLOSED, None, False
    return circuit.state, circuit.deadline, circuit.action_required


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk
