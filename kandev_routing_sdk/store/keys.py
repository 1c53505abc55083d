"""The installation key (R-CIR-3): created once, whoever comes first."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.store import codec
from kandev_routing_sdk.store.statements import insert_if_missing
from kandev_routing_sdk.store.tables import KEYS
from kandev_routing_sdk.store.transaction import Transaction

_ADD: Final = insert_if_missing(KEYS)
_NEWEST: Final = sa.select(KEYS.c.version, KEYS.c.material).order_by(KEYS.c.version.desc()).limit(1)


def newest(tx: Transaction) -> InstallationKey | None:
    """Return the key of the highest version."""
    row = tx.row(_NEWEST, {})
    return None if row is None else codec.decode_key(row)


def keep(tx: Transaction, candidate: InstallationKey) -> InstallationKey:
    """Store ``candidate`` if there is no key yet; return the one that counts."""
    known = newest(tx)
    if known is not None:
        return known
    tx.run(_ADD, codec.encode_key(candidate))
    return newest(tx) or candidate
