"""``worker``: real processes that go on with sessions, and end as they are told to (R-DUR-4, R-CON-11)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World, is_alive, wait_for

pytestmark = pytest.mark.usefixtures("quick")


def begin(here: Callable[..., Ran], profile: str = "sol") -> str:
    ran = here("sessions", "start", profile, "hi", "-q")
    assert 0 == ran.code, ran
    return ran.out.strip()


def snapshot(here: Callable[..., Ran], session: str) -> Any:
    return here("sessions", "show", session, "--json").document["session"]


@contextmanager
def working(world: World, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A worker of its own, which does not outlive a test that fails."""
    process = world.start("worker", *arguments)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=60)
    ran = Ran(process.returncode, out, err)
    assert "Traceback" not in err, ran
    return ran


@pytest.mark.parametrize(("engine", "number"), [("sqlite_url", signal.SIGTERM), ("postgres_url", signal.SIGINT)])
def test_told_to_stop_it_lets_a_running_turn_end(
    world: World, here: Callable[..., Ran], request: pytest.FixtureRequest, engine: str, number: int
) -> None:
    """At once, whatever the poll; what is begun afterwards is left alone."""
    world.url = request.getfixturevalue(engine)
    agent = world.agent("sol", ScriptBuilder().sleep(1.0).say("done"))
    world.configure()
    session = begin(here)
    with working(world, "--poll", "3600") as process:
        wait_for(lambda: len(agent.prompts) == 1)
        process.send_signal(number)
        late = begin(here)
        ran = ended(process)
    assert 0 == ran.code, ran
    assert "worker: 1 taken, 1 came to rest, 0 left to others, 0 resources asked\n" == ran.out
    assert "worker: up to 8 sessions at once, looking every 1 h\n" in ran.err
    assert f"{signal.Signals(number).name}: taking nothing new; running turns have 30 s" in ran.err
    assert ("active", "succeeded") == tuple(snapshot(here, session)[k] for k in ("state", "reason"))
    assert ("selecting", 1) == (snapshot(here, late)["state"], len(agent.prompts))


def test_told_twice_it_ends_the_agents_and_nothing_is_repeated(world: World, here: Callable[..., Ran]) -> None:
    """R-DUR-3: the prompt had left; a person decides."""
    agent = world.agent("sol", ScriptBuilder().child(own_session=True).hang(deaf=True), ScriptBuilder().say("again"))
    world.configure()
    session = begin(here)
    with working(world, "--poll", "0.1", "--json") as process:
        wait_for(lambda: bool(agent.prompts and agent.children))
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while "taking nothing new" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        ran = ended(process)
    assert (143, 143, 1, 0) == (
        ran.code,
        ran.document["exit_code"],
        ran.document["worker"]["claimed"],
        ran.document["worker"]["settled"],
    )
    assert [False, False] == [is_alive(agent.prompts[0].pid), is_alive(agent.children[0])]
    assert ("action_required", "ambiguous_dispatch") == tuple(snapshot(here, session)[k] for k in ("state", "reason"))
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    assert 1 == len(agent.prompts)


def test_a_session_that_is_stopped_from_elsewhere_ends_its_agent_and_nothing_else(
    world: World, here: Callable[..., Ran]
) -> None:
    """R-ENG-7, R-CON-11: from any state, whoever runs it; charges nobody."""
    agent = world.agent("sol", ScriptBuilder().child(own_session=True).hang(deaf=True))
    world.configure()
    session = begin(here)
    with working(world, "--poll", "0.1", "-q") as process:
        wait_for(lambda: bool(agent.prompts and agent.children))
        assert "stopped" == here("sessions", "stop", session, "--json").document["session"]["state"]
        wait_for(lambda: not is_alive(agent.prompts[0].pid) and not is_alive(agent.children[0]))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        ran = ended(process)
    assert 0 == ran.code, ran
    assert ("stopped", 1) == (snapshot(here, session)["state"], len(agent.prompts))
    assert [] == here("circuits", "--json").document["circuits"]


def test_without_grace_the_first_signal_is_enough(world: World, here: Callable[..., Ran]) -> None:
    agent = world.agent("sol", ScriptBuilder().hang())
    world.configure()
    session = begin(here)

    def tell() -> None:
        wait_for(lambda: len(agent.prompts) == 1)
        os.kill(os.getpid(), signal.SIGTERM)

    teller = threading.Thread(target=tell)
    teller.start()
    ran = here("worker", "--poll", "0.1", "--grace", "0", "-q")
    teller.join()
    assert (0, "") == (ran.code, ran.err), ran
    assert not is_alive(agent.prompts[0].pid)
    assert "action_required" == snapshot(here, session)["state"]


def test_until_idle_does_what_is_due_now_and_ends(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("one"))
    world.agent("fable", ScriptBuilder().fail_quota(3600))
    world.dynamic("fable")
    world.configure()
    sessions = [begin(here), begin(here), begin(here, "frontier")]
    ran = here("worker", "--until-idle", "--poll", "0.05", "--json", "-q")
    assert (0, "") == (ran.code, ran.err)
    assert {"claimed": 3, "settled": 3, "given_up": 0, "probes": 0, "interrupted_calls": 0} == ran.document["worker"]
    assert ["active", "active", "waiting"] == [snapshot(here, s)["state"] for s in sessions]
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "--json", "-q").document["worker"]["claimed"]


def test_each_line_of_progress_names_its_session(world: World, here: Callable[..., Ran]) -> None:
    world.agent("fable", ScriptBuilder().fail_quota(3600))
    world.agent("sol", ScriptBuilder().say("zq-answer"))
    world.dynamic("fable", "sol")
    world.configure()
    session = begin(here, "frontier")
    ran = here("worker", "--until-idle", "--poll", "0.05")
    assert "worker: up to 8 sessions at once, until there is nothing to do" == ran.err.splitlines()[0]
    told = ran.err.splitlines()[1:]
    assert told
    assert [] == [line for line in told if not line.startswith(f"{session}  ")]
    assert f"{session}  attempt 1: fable (fable-provider)" == told[0]
    assert "decision: next candidate" in ran.err
    assert "zq-answer" not in ran.err + ran.out


def test_with_dynamic_routing_off_it_says_so_and_holds_sessions(world: World, here: Callable[..., Ran]) -> None:
    """R-RES-4: sessions of dynamic profiles stop for a person, and go on where they were when it is on again."""
    agent = world.agent("sol", ScriptBuilder().say("done"))
    world.dynamic("sol")
    world.configure()
    session = begin(here, "frontier")
    world.configure(enabled=False)
    ran = here("worker", "--until-idle", "--poll", "0.05")
    assert "dynamic routing is turned off, so sessions of dynamic profiles wait" in ran.err
    assert ("action_required", "dynamic_routing_disabled", 0) == (
        *(snapshot(here, session)[k] for k in ("state", "reason")),
        len(agent.prompts),
    )
    world.configure()
    assert 0 == here("worker", "--until-idle", "--poll", "0.05").code
    assert ("active", 1) == (snapshot(here, session)["state"], len(agent.prompts))


WRONG = {
    "sessions": (["--max-sessions", "0"], 2, "--max-sessions"),
    "poll": (["--poll", "0"], 2, "--poll"),
    "grace": (["--grace", "-1"], 2, "--grace"),
    "word": (["--poll", "often"], 2, "--poll"),
    "more": (["now"], 2, "unexpected extra argument"),
    "store": (["--store", "postgresql+psycopg://me@127.0.0.1:1/x"], 73, "127.0.0.1"),
    "configuration": (["--config", "nowhere.toml"], 78, "nowhere.toml"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence(world: World, here: Callable[..., Ran], case: str) -> None:
    world.agent("sol", ScriptBuilder().say("never"))
    world.configure()
    arguments, code, part = WRONG[case]
    ran = here("worker", *arguments, "--until-idle")
    assert (code, "") == (ran.code, ran.out), ran
    assert re.search(re.escape(part), ran.error)


def test_its_report_is_one_document_whatever_ends_it(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("never"))
    world.configure()
    assert {"schema_version", "worker", "exit_code"} == set(json.loads(here("worker", "--until-idle", "--json").out))
