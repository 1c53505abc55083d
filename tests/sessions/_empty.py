"""A store with the schema and nothing else, again and again: making one anew costs more than what a test does with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from kandev_routing_sdk.store import SqlStore, open_store

_KEPT = "kr_version"
"""What says that the schema is there."""


class Reused:
    """One store, emptied for each who uses it."""

    def __init__(self, url: str, store: SqlStore, engine: sa.Engine) -> None:
        self.url, self.store, self._engine = url, store, engine
        names = [n for n in sa.inspect(engine).get_table_names() if n.startswith("kr_") and n != _KEPT]
        whole = f"TRUNCATE {', '.join(names)} RESTART IDENTITY"
        self._statements = [whole] if engine.dialect.name == "postgresql" else [f"DELETE FROM {n}" for n in names]

    def empty(self) -> None:
        """Remove every row of ours."""
        with self._engine.begin() as connection:
            for statement in self._statements:
                connection.execute(sa.text(statement))


@contextmanager
def reused(url: str) -> Iterator[Reused]:
    """The store at ``url``, for as long as the block runs."""
    engine = sa.create_engine(url)
    try:
        with open_store(url) as store:
            yield Reused(url, store, engine)
    finally:
        engine.dispose()
