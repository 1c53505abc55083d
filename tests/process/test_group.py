"""What a taker-over may end, and what it must leave alone (R-ENG-8, R-CON-11)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kandev_routing_sdk.process import ATTEMPT_MARKER, marked_attempts, reap_group
from kandev_routing_sdk.process import group as group_module
from kandev_routing_sdk.process.group import Kin, ProcessStat, kill_process, live_members, read_stat, signal_group
from tests.process._drive import QUICK

MINE = f"a-{os.getpid()}"
"""Unique on this machine: a taker-over ends whoever carries it."""

STUBBORN = "import signal,subprocess,sys,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{more}\nprint('up', flush=True)\ntime.sleep(600)"
CHILD = "subprocess.Popen([sys.executable,'-S','-c','import time; time.sleep(600)'], start_new_session=True)"


class Started:
    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def __call__(self, *, attempt: str | None, more: str = "") -> subprocess.Popen[str]:
        env = {"PATH": "/usr/bin:/bin", **({ATTEMPT_MARKER: attempt} if attempt else {})}
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", STUBBORN.format(more=more)],
            env=env,
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert "up\n" == process.stdout.readline()
        self.processes.append(process)
        return process


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for process in made.processes:
        signal_group(process.pid, 9)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def test_a_marked_group_is_ended_with_its_tools(started: Started) -> None:
    process = started(attempt=MINE, more=CHILD)
    assert await reap_group(process.pid, None, MINE, limits=QUICK)
    assert [] == live_members(process.pid)
    assert [] == Kin(process.pid, {ATTEMPT_MARKER: MINE}).look()


async def test_the_start_time_stands_in_for_the_marker(started: Started) -> None:
    process = started(attempt=None)
    assert await reap_group(process.pid, datetime.now(UTC), MINE, limits=QUICK)
    assert [] == live_members(process.pid)


async def test_a_number_that_is_anothers_now_is_left_alone_and_ours_is_gone(started: Started) -> None:
    process = started(attempt="another")
    assert await reap_group(process.pid, datetime.now(UTC) - timedelta(hours=1), MINE, limits=QUICK)
    assert process.poll() is None


async def test_what_cannot_be_told_is_left_alone_and_not_proven(started: Started) -> None:
    process = started(attempt=None)
    assert not await reap_group(process.pid, None, MINE, limits=QUICK)
    assert process.poll() is None


async def test_another_attempts_agent_that_started_at_the_same_moment_is_left_alone(started: Started) -> None:
    """Replicas in containers share a database, start their agents together and give them the same small numbers."""
    process = started(attempt="another")
    assert await reap_group(process.pid, datetime.now(UTC), MINE, limits=QUICK)
    assert process.poll() is None


async def test_a_group_that_is_gone_is_reaped(started: Started) -> None:
    process = started(attempt=MINE)
    signal_group(process.pid, 9)
    process.wait()
    assert await reap_group(process.pid, datetime.now(UTC), MINE, limits=QUICK)


async def test_a_tool_that_outlived_its_group_is_found_by_the_marker(started: Started) -> None:
    process = started(attempt=MINE, more=CHILD)
    (tool,) = [s for s in Kin(process.pid, {ATTEMPT_MARKER: MINE}).look() if s.pid != process.pid]
    signal_group(process.pid, 9)
    process.wait()
    assert read_stat(tool.pid) is not None
    assert await reap_group(process.pid, datetime.now(UTC), MINE, limits=QUICK)
    left = read_stat(tool.pid)
    assert left is None or not left.alive


async def test_a_clock_that_was_set_back_hides_nobody(started: Started) -> None:
    """The attempt was written down as later than its process began; the marker is its own all the same (R-DUR-5, R-CON-11)."""
    process = started(attempt=MINE)
    assert await reap_group(None, datetime.now(UTC) + timedelta(hours=1), MINE, limits=QUICK)
    assert -9 == process.wait(5)


def test_a_process_that_got_the_number_since_is_not_killed(started: Started) -> None:
    process = started(attempt=None)
    stat = read_stat(process.pid)
    assert stat is not None
    kill_process(ProcessStat(stat.pid, stat.state, stat.parent, stat.group, stat.start_ticks - 1))
    time.sleep(0.1)
    assert process.poll() is None
    kill_process(stat)
    assert -9 == process.wait()


@pytest.mark.parametrize("group", [-1, 0, 1])
def test_no_group_that_means_everybody_is_signalled(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("signalled"))
    assert not signal_group(group, 15)


async def test_without_proc_only_the_group_is_asked(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """As on macOS: nothing can be verified, so nothing of another owner is signalled."""
    process = started(attempt=MINE)
    monkeypatch.setattr(group_module, "_PROC", tmp_path)
    assert not await reap_group(process.pid, datetime.now(UTC), MINE, limits=QUICK)
    assert process.poll() is None
    assert not Kin(process.pid, {ATTEMPT_MARKER: MINE}).kill_and_look()
    assert -9 == process.wait()
    assert Kin(process.pid, {ATTEMPT_MARKER: MINE}).kill_and_look()


async def test_who_cannot_look_takes_nobody_for_gone(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file descriptor left, nothing of another owner is signalled, and an agent of one's own is ended unseen."""
    process = started(attempt=MINE)

    def short(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(group_module, "open", short, raising=False)
        assert not await reap_group(process.pid, None, MINE, limits=replace(QUICK, kill_grace_s=0.1))
        assert process.poll() is None
        assert set() == marked_attempts()
        assert not Kin(process.pid, {ATTEMPT_MARKER: MINE}).kill_and_look()
    assert -9 == process.wait()


def test_a_name_with_parentheses_and_spaces_is_read(started: Started) -> None:
    process = started(attempt=None, more="open('/proc/self/comm', 'w').write('a) R (b')")
    stat = read_stat(process.pid)
    assert stat is not None
    assert (process.pid, os.getpid(), True) == (stat.group, stat.parent, stat.alive)
