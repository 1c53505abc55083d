"""Taking turns at an SQLite database (R-PRF-6): an order, never a lock that decides."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kandev_routing_sdk.store import open_store, turns
from tests._processes import wait_for
from tests.store._values import create


@contextmanager
def turn(folder: Path, timeout_s: float) -> Iterator[None]:
    held = turns.line_up(folder, timeout_s)
    try:
        yield
    finally:
        if held is not None:
            turns.leave(held)


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def waiters() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "kandev-routing-turn"]


def _are_waiting(count: int) -> bool:
    return len(waiters()) == count


def test_one_has_the_turn_and_the_next_gets_it(tmp_path: Path) -> None:
    inside = []

    def takes(number: int) -> None:
        with turn(tmp_path, 60):
            inside.append(number)
            assert 1 == len(inside)
            time.sleep(0.001)
            inside.remove(number)

    before = open_files()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(takes, range(80)))
    wait_for(lambda: not waiters())
    assert before == open_files()


def test_all_who_wait_are_served_and_nobody_before_the_turn_is_over(tmp_path: Path) -> None:
    served = []

    def takes(number: int) -> None:
        with turn(tmp_path, 60):
            served.append(number)

    with ThreadPoolExecutor(5) as pool, turn(tmp_path, 60):
        for number in range(5):
            pool.submit(takes, number)
            wait_for(partial(_are_waiting, number + 1))
        assert [] == served
    assert list(range(5)) == sorted(served)


def test_whoever_waited_long_enough_goes_ahead_and_leaves_the_queue(tmp_path: Path) -> None:
    before = open_files()
    with turn(tmp_path, 60), turn(tmp_path, 0.05):
        pass  # no turn, and no harm
    wait_for(lambda: not waiters())
    assert before == open_files()
    with turn(tmp_path, 0):
        assert [] == waiters(), "nothing was left locked"


def test_an_interrupted_wait_leaves_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: threading.Event, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    before = open_files()
    with turn(tmp_path, 60), monkeypatch.context() as patch:
        waiter = turns._Waiter(os.open(tmp_path, os.O_RDONLY))
        patch.setattr(waiter._answered, "wait", interrupted.__get__(waiter._answered))
        with pytest.raises(KeyboardInterrupt):
            waiter.wait(60)
    wait_for(lambda: not waiters())
    assert before == open_files()


def test_a_folder_without_turns_is_no_obstacle(tmp_path: Path) -> None:
    with turn(tmp_path / "missing", 60):
        pass


def test_a_store_does_not_need_its_turn(tmp_path: Path) -> None:
    """A stopped process that has the turn stops nobody for long."""
    with open_store(f"sqlite:///{tmp_path}/routing.db", timeout_s=0.2) as store, turn(tmp_path, 60):
        assert 1 == store.commit(create()).route.revision
