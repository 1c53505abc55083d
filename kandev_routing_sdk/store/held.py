"""Connections between two transactions.

A decision is four short statements and one wait for the disk. What SQLAlchemy's pool does each time a connection comes and goes
took as long as the statements (R-PRF-1), so it makes the connections, and between two transactions they are here.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy.pool import PoolProxiedConnection

    from kandev_routing_sdk.store.transaction import Transaction

_WAITING: Final = 5
"""How many unused connections are kept."""


class Connections:
    """The connections to one database, at most ``most`` in use; the one that was used last comes first.

    Safe to share between threads.

    Args:
        connect: makes one.
        most: how many may be in use at the same time.
        timeout_s: how long to wait for one, in seconds.
        is_gone: whether what a connection leads to is another database by now.
    """

    def __init__(
        self,
        connect: Callable[[], Transaction],
        *,
        most: int,
        timeout_s: float,
        is_gone: Callable[[PoolProxiedConnection], bool] | None,
    ) -> None:
        self._connect, self._timeout_s, self._is_gone = connect, timeout_s, is_gone
        self._most = most
        self._closed = False
        self._parents: deque[Transaction] = deque()
        self._begin()

    def _begin(self) -> None:
        """Have none yet, in this process."""
        self._process = os.getpid()
        # A semaphore in C: the one of `threading` takes longer than the rest of what is done here.
        self._room = SimpleQueue[None]()
        for _ in range(self._most):
            self._room.put(None)
        self._waiting: deque[Transaction] = deque()

    def take(self) -> Transaction | None:
        """Return a connection that is to be given back; None: all of them were in use for too long."""
        # After a fork, what there is is the parent's: to use it would mix their answers, to close it would end it there, too.
        if self._process != os.getpid():
            self._parents += self._waiting
            self._begin()
        try:
            self._room.get(timeout=self._timeout_s)
        except Empty:
            return None
        try:
            while self._waiting:
                try:
                    known = self._waiting.pop()
                except IndexError:  # another thread took it
                    break
                if self._is_gone is None or not self._is_gone(known.connection):
                    return known
                known.connection.close()
            return self._connect()
        except BaseException:
            self._room.put(None)
            raise

    def give_back(self, transaction: Transaction) -> None:
        """Keep a connection, with no transaction in it, for the next one."""
        if len(self._waiting) < _WAITING:
            self._waiting.append(transaction)
        else:
            transaction.connection.close()
        if self._closed:
            self.forget()
        self._room.put(None)

    def end(self, transaction: Transaction) -> None:
        """Close a connection that is of no use any more, whatever is left in it."""
        transaction.connection.invalidate()
        self._room.put(None)

    def forget(self) -> None:
        """Close those that are not in use."""
        while self._waiting:
            try:
                self._waiting.pop().connection.close()
            except IndexError:  # another thread closed it
                return

    def close(self) -> None:
        """Close all, those in use when they come back."""
        self._closed = True
        self.forget()
