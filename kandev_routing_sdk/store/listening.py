"""PostgreSQL's LISTEN: word of new events, on a connection of its own (schema 0003 tells once a statement)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kandev_routing_sdk.store.engine import Database

_CHANNEL: Final = "kr_event"
_CHECK_S: Final = 30.0
"""Seconds without a word after which the connection is asked whether it still is one."""


class PostgresListener:
    """Listens for events; see :class:`~kandev_routing_sdk.ports.EventListener`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listen(self, heard: Callable[[], None]) -> None:
        """Call ``heard`` for whatever may be a new event. Raises StoreError when the connection is lost."""
        import anyio  # noqa: PLC0415  # who only reads or writes the store pays for no event loop (R-PRF-4)
        import psycopg  # noqa: PLC0415  # optional: only who has PostgreSQL has it

        engine = self._database.engine
        arguments, options = engine.dialect.create_connect_args(engine.url)
        try:
            connection = await psycopg.AsyncConnection.connect(*arguments, autocommit=True, **options)
            try:
                await connection.execute(f"LISTEN {_CHANNEL}")
                heard()
                while True:
                    async for _ in connection.notifies(timeout=_CHECK_S):
                        heard()
                    await connection.execute("SELECT 1")
            finally:
                with anyio.CancelScope(shield=True):
                    await connection.close()
        except (psycopg.Error, OSError) as error:
            raise self._database.judge(error).error from None
