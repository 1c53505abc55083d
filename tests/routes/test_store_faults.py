"""The store fails at each write: a typed error, nothing is launched without its commit, and the next call works (R-DUR-6)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk.errors import StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import open_store
from tests.routes._crash import WRITES
from tests.routes._world import World, answers
from tests.routes.test_endings import alive_in_group, groups_of

_OF_ONE_CALL = 9


class FailingStore:
    """Passes everything on to a real store; from the Nth write on, for ``times`` writes, it fails."""

    def __init__(self, store: Any, first: int, error: Exception, times: int) -> None:
        self._store, self._first, self._error, self._times = store, first, error, times
        self.writes = 0

    def __getattr__(self, name: str) -> Any:  # a stand-in for every method
        method = getattr(self._store, name)
        if name not in WRITES:
            return method

        def write(*args: Any, **kwargs: Any) -> Any:  # as above
            self.writes += 1
            if self._first <= self.writes < self._first + self._times:
                raise self._error
            return method(*args, **kwargs)

        return write


def test_the_writes_of_a_call_are_known(world: World) -> None:
    """Otherwise the tests below would miss some."""
    world.agent("fable", answers().say("done"))
    store: Any = FailingStore(open_store(world.url), 1000, ValueError(), 1)
    world.call(parts={"store": store})
    assert _OF_ONE_CALL == store.writes


@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("first", list(range(1, _OF_ONE_CALL + 1)))
def test_a_failed_write_is_told_and_nothing_acts_on_it(world: World, first: int, times: int) -> None:
    """Once (a lock, a lost connection) and for good (a full disk)."""
    world.agent("fable", answers().say("done"))
    error = StoreUnavailable("the disk is full") if times == 1 else StoreReadOnly("the file is read-only")
    store: Any = FailingStore(open_store(world.url), first, error, times)
    with pytest.raises(type(error)):
        world.call(parts={"store": store})
    prompts = world.prompts()["fable"]
    assert prompts == 0 or first > 4, "a prompt left although its dispatch mark was never durable"
    assert [] == [pid for group in groups_of(world) for pid in alive_in_group(group)]
    assert "done" == world.call().text, "the next call works when the cause is gone"
    assert prompts + 1 == world.prompts()["fable"]
