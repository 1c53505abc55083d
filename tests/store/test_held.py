"""Connections between two transactions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kandev_routing_sdk.store import held
from kandev_routing_sdk.store.held import Connections


def test_a_fork_leaves_its_parents_connections_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on one connection would read each other's answers."""
    made: list[Any] = []

    def connect() -> Any:
        made.append(SimpleNamespace(connection=SimpleNamespace(close=lambda: pytest.fail("closed"))))
        return made[-1]

    connections = Connections(connect, most=2, timeout_s=0.1, is_gone=None)
    busy, idle = connections.take(), connections.take()
    assert idle is not None
    connections.give_back(idle)
    assert connections.take() is idle
    connections.give_back(idle)

    monkeypatch.setattr(held, "os", SimpleNamespace(getpid=lambda: -1))
    fresh = [connections.take(), connections.take()]

    assert made == [busy, idle, *fresh]
    assert connections.take() is None, "there are as many as ever"
    connections.close()
