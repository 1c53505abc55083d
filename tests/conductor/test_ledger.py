"""How long an owner believes that it still is one: by the time since it last said so, whatever the store does meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.conductor import ledger as module
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.errors import StoreUnavailable
from kandev_routing_sdk.route.model import State
from kandev_routing_sdk.testing import FakeClock
from tests.route._routes import a_route

LEASE_S, BEAT_S = 2.0, 0.1


def kept(monkeypatch: pytest.MonkeyPatch, renew: Callable[..., bool]) -> tuple[float, Exception]:
    """Keep a running turn's session through ``renew``; return how long that went well, and how it ended."""
    monkeypatch.setattr(module, "HEARTBEAT_S", BEAT_S)
    monkeypatch.setattr(module, "OWNER_LEASE_S", LEASE_S)
    engine: Any = SimpleNamespace(clock=FakeClock(), store=SimpleNamespace(renew=renew))
    ledger = Ledger(engine, lambda _: None, "here/owner:1")
    ledger.adopt(a_route(State.ACTIVE, turn_running=True), ())

    async def main() -> tuple[float, Exception]:
        began = time.monotonic()
        with anyio.fail_after(20), pytest.raises(StoreUnavailable) as raised:
            await ledger.keep_owner(lambda: None)
        return time.monotonic() - began, raised.value

    return anyio.run(main)


def test_a_store_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call may hang for longer than the lease lasts; the agent is to end before that (R-ENG-8)."""
    answers = threading.Event()
    late = threading.Timer(15, answers.set)  # for whoever does wait
    late.start()

    def hangs(*_: object, **__: object) -> bool:
        answers.wait()
        return True

    try:
        seconds, problem = kept(monkeypatch, hangs)
    finally:
        late.cancel()
        answers.set()

    assert "did not answer" in str(problem)
    assert seconds < 10, "the lease was over long ago"


def test_a_store_that_refuses_for_a_while_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One heartbeat that fails is no reason to end a turn, and a whole lease without one is."""
    answered: list[float] = []
    failing = iter([True, True, False])

    def refuses(*_: object, **__: object) -> bool:
        if next(failing, True):
            raise StoreUnavailable("gone")
        answered.append(time.monotonic())
        return True

    seconds, problem = kept(monkeypatch, refuses)

    assert 1 == len(answered), "the third was in time"
    assert "did not answer" in str(problem)
    assert seconds >= LEASE_S, "counted from then"
