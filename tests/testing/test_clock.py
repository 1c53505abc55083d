"""A clock that does not wait, and ids that can be named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio

from kandev_routing_sdk.clock import Clock, IdSource
from kandev_routing_sdk.testing import FakeClock, FakeIds


def test_they_are_what_the_sdk_asks_for() -> None:
    clock: Clock = FakeClock()
    ids: IdSource = FakeIds()
    assert isinstance(clock, Clock)
    assert isinstance(ids, IdSource)


async def test_a_week_passes_at_once() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    await clock.sleep(7 * 86400)
    await clock.sleep(-1)
    assert datetime(2026, 1, 8, tzinfo=UTC) == clock.now()
    assert (7 * 86400, [7 * 86400, -1]) == (clock.monotonic(), clock.sleeps)


async def test_a_sleeper_lets_others_run() -> None:
    clock = FakeClock()
    seen: list[str] = []

    async def other() -> None:
        seen.append("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await clock.sleep(1)
        seen.append("sleeper")
    assert ["other", "sleeper"] == seen


async def test_a_sleep_can_be_cancelled() -> None:
    clock = FakeClock()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await clock.sleep(5)
    assert 0 == clock.monotonic()


def test_a_wall_clock_may_jump_and_the_monotonic_one_does_not() -> None:
    clock = FakeClock()
    clock.advance(1)
    clock.set(clock.now() - timedelta(days=1))
    assert 1 == clock.monotonic()


def test_ids_are_numbered_per_prefix_and_sort() -> None:
    ids = FakeIds(uniform=0.25)
    assert ["a-000001", "a-000002", "b-000001"] == [ids.new("a-"), ids.new("a-"), ids.new("b-")]
    assert (["token-000001", "token-000002"], 0.25) == ([ids.token(), ids.token()], ids.uniform())
