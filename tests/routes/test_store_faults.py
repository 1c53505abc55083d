"""The store fails at each write: a typed error, nothing is launched without its commit, and the next call works (R-DUR-6)."""

from __future__ import annotations

from typing import Any

import pytest

from kandev_routing_sdk import AnswerUnrecorded
from kandev_routing_sdk.errors import StoreReadOnly, StoreUnavailable
from kandev_routing_sdk.store import open_store
from tests._processes import group_members
from tests.routes._stores import StoreAtWrites
from tests.routes._world import World, answers

_OF_ONE_CALL = 9
_SETTLES = 7
"""The write that settles the attempt with its answer."""


class FailingStore(StoreAtWrites):
    """From the Nth write on, for ``times`` writes, it fails."""

    def __init__(self, store: Any, first: int, error: Exception, times: int) -> None:
        super().__init__(store)
        self._failing, self._error = range(first, first + times), error

    def before(self, number: int) -> None:
        if number in self._failing:
            raise self._error


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
    answered = first >= _SETTLES
    with pytest.raises(AnswerUnrecorded if answered else type(error)) as caught:
        world.call(parts={"store": store})
    if answered:
        assert isinstance(caught.value, AnswerUnrecorded)
        assert "done" == caught.value.result.text, "an answer that was paid for is not lost with its record"
    prompts = world.prompts()["fable"]
    assert prompts == 0 or first > 4, "a prompt left although its dispatch mark was never durable"
    assert [] == [pid for group in world.groups() for pid in group_members(group)]
    assert "done" == world.call().text, "the next call works when the cause is gone"
    assert prompts + 1 == world.prompts()["fable"]
