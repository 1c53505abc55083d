"""Who may ask whether a resource is back, and what an answer says of whom (R-CIR-1, R-CIR-6, R-CIR-8, R-PLG-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.scheduler import probes
from kandev_routing_sdk.scheduler.probes import Prober
from kandev_routing_sdk.testing.scripted import bodies
from kandev_routing_sdk.types import CircuitState, Code
from tests.sessions._home import retries, waits
from tests.sessions._played import AskedAdapter, fail, profiles_table
from tests.sessions._scenes import CONCRETE, act, begin, circuit, ends, got, leased, look, rested, see, shelve, where
from tests.sessions._town import Process, Town

LATER_S = 200.0
"""By then an overloaded provider may be asked."""
Probe = Callable[[AskedAdapter, object, TurnRecord], Awaitable[None]]


def shut(town: Town, play: str) -> Process:
    """luna's only session waits for what ``play`` opened."""
    shelve(town, frontier=["luna"])
    town.stage.plays["luna"] = [play, "answer"]
    host = town.process()
    assert "waiting" == rested(town, host).state
    return host


def unchanged(before: Circuit, after: Circuit) -> bool:
    """Nothing was learnt, and nobody is asking any more."""
    told = (before.state, before.code, before.deadline, before.failures, before.action_required)
    return told == (after.state, after.code, after.deadline, after.failures, after.action_required) and (
        after.probe_token is None
    )


# --- what an answer says of whom ---


@pytest.mark.parametrize(("play", "opened"), [("auth", Code.AUTH_REQUIRED), ("far_quota", Code.QUOTA_LIMITED)])
def test_a_failure_is_its_own_keys_and_no_others(town: Town, play: str, opened: Code) -> None:
    """The provider is asked with an account that is not well: the account is shut, and the provider as it was (R-CIR-8)."""
    shut(town, "overloaded")
    before = circuit(town, "provider")
    town.stage.probes["moon"] = play
    host = town.process()
    town.clock.advance(LATER_S)

    town.do(host, Prober(host.engine).tick())

    assert ["moon"] == town.stage.probed
    account = circuit(town, "account")
    assert (CircuitState.OPEN, opened) == (account.state, account.code)
    after = circuit(town, "provider")
    assert (before.code, False, None) == (after.code, after.action_required, after.probe_token)
    assert after.deadline is not None
    assert after.deadline <= town.clock.now()


def test_a_disabled_profile_asks_nobody(town: Town) -> None:
    """It is switched off, its login with it (R-CIR-6)."""
    host = shut(town, "overloaded")
    (session,) = host.router.sessions.list()
    town.do(host, host.router.sessions.stop(session.session_id))
    table = profiles_table(CONCRETE, {"frontier": [{"profile": "luna"}]})
    for name in ("luna", "nova"):
        table[name]["enabled"] = False
    town.shelf.put(table)

    look(town, after_s=LATER_S)

    assert [] == town.stage.probed
    assert CircuitState.OPEN is circuit(town).state


def probe_is(monkeypatch: pytest.MonkeyPatch, probe: Probe) -> list[str]:
    """Let cheap questions be answered so; return what grows with each."""
    asked: list[str] = []

    async def counted(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
        asked.append("")
        await probe(self, plan, turn)

    monkeypatch.setattr(AskedAdapter, "probe", counted)
    return asked


def test_an_answer_to_another_login_says_nothing_of_the_account(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent signs in otherwise than its descriptor says (R-CIR-3): the account may be shut all the same."""

    async def probe(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
        turn.credential_doubted()
        turn.succeeded("probe")

    shut(town, "near_quota")
    before = circuit(town, "account")
    asked = probe_is(monkeypatch, probe)
    host = town.process()
    town.clock.advance(61)
    town.do(host, Prober(host.engine).tick())
    assert 1 == len(asked)
    assert unchanged(before, circuit(town, "account"))


# --- adapters that misbehave ---


async def _nonsense(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
    status: Any = "429 too many"
    turn.http_status(status)
    turn.failed()


async def _cancels(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
    raise asyncio.CancelledError


async def _exits(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
    raise SystemExit(3)


async def _fails_and_hangs(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
    fail(turn, bodies.quota_limited(6 * 3600))
    await anyio.sleep(60)


async def _answers_and_hangs(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
    turn.succeeded("probe")
    await anyio.sleep(60)


@pytest.mark.parametrize("probe", [_nonsense, _cancels, _exits, _fails_and_hangs, _answers_and_hangs])
def test_an_adapter_that_misbehaves_has_learnt_nothing(
    town: Town, monkeypatch: pytest.MonkeyPatch, probe: Probe
) -> None:
    """Its circuit stays as it was, and the worker goes on with everything else (R-PLG-2)."""
    monkeypatch.setattr(probes, "TIMEOUT_S", 0.05)
    shut(town, "near_quota")
    before = circuit(town)
    asked = probe_is(monkeypatch, probe)
    host = town.process()
    town.clock.advance(61)

    told = town.begin(host, Prober(host.engine).tick())

    assert ends(town, host)
    assert (1, 1) == (len(asked), told.result())
    assert unchanged(before, circuit(town))
    assert [] == town.bugs


def test_a_question_that_hangs_keeps_no_session_waiting(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker asks beside its other work (R-DUR-4)."""

    async def hangs(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
        await anyio.sleep(60)

    shut(town, "overloaded")
    shelve(town, frontier=["luna"], second=["sol"])
    asked = probe_is(monkeypatch, hangs)
    host = town.process()
    town.clock.advance(LATER_S)
    begun = []

    async def some_while() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: host.router.run_worker(poll_s=0.01, max_sessions=1, stop=stop))
            with anyio.move_on_after(2):
                while not asked:  # noqa: ASYNC110  # an adapter's doing
                    await anyio.sleep(0.01)
                begun.append(await host.router.sessions.start("second", "the request", cwd="/"))
                while "sol" not in got(town):  # noqa: ASYNC110  # an agent's doing
                    await anyio.sleep(0.01)
            stop.set()
            group.cancel_scope.cancel()

    town.begin(host, some_while())
    assert ends(town, host)
    assert 1 == len(asked)
    assert "sol" in got(town)


def test_who_says_nothing_is_asked_ever_more_rarely(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheaply and rarely (R-CIR-6): an hour of silence is a handful of questions."""

    async def nothing(self: AskedAdapter, plan: object, turn: TurnRecord) -> None:
        """It cannot tell."""

    host = shut(town, "overloaded")
    (session,) = host.router.sessions.list()
    town.do(host, host.router.sessions.stop(session.session_id))
    asked = probe_is(monkeypatch, nothing)
    prober = Prober(host.engine)
    town.clock.advance(LATER_S)
    for _ in range(120):
        town.do(host, prober.tick())
        town.clock.advance(30)
    assert 2 <= len(asked) <= 7


def test_a_worker_that_is_to_end_asks_nobody_any_more(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes nothing new, and waits for its turns without looking round (R-DUR-4)."""
    ticks: list[str] = []

    async def tick(self: Prober) -> int:
        ticks.append("")
        return 0

    monkeypatch.setattr(Prober, "tick", tick)
    town.stage.plays["fable"] = ["slow:answer"]
    host = town.process()
    begin(town, host)

    async def some_while() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: host.router.run_worker(poll_s=0.01, stop=stop))
            while not town.stage.sent:  # noqa: ASYNC110  # an agent's doing
                await anyio.sleep(0.01)
            stop.set()
            await anyio.sleep(0.02)
            ticks.clear()
            await anyio.sleep(0.1)
            for agent in town.stage.agents.values():
                agent.go.set()

    town.begin(host, some_while())
    assert ends(town, host)
    assert [] == ticks


# --- leases of those who wait ---


def test_a_far_wait_keeps_nobody_from_asking(town: Town) -> None:
    """A session waits six hours for its reset; a person who wants to know now, in another session, may (R-CIR-6, R-ENG-7)."""
    shelve(town, frontier=[{"profile": "fable", "policy": waits(8 * 3600)}], second=["fable"])
    town.stage.plays["fable"] = ["far_quota", "answer"]
    host = town.process()
    far = rested(town, host)
    other = rested(town, host, "second")
    assert ["waiting_for_reset", "waiting"] == [far.state, other.state]
    assert [] == leased(town)

    act(town, host, other, "retry_now")
    look(town)
    assert ("active", "fable") == (see(town, other).state, see(town, other).execution_profile_id)

    look(town)
    assert ("active", 1, "fable") == where(see(town, far)), "closed early: the same candidate, at once"


def test_a_retry_whose_candidate_is_gone_when_it_is_due_keeps_no_probe(town: Town) -> None:
    """The session goes on to another candidate, and the resource is anybody's to ask (R-CIR-5, R-ENG-4)."""
    shelve(town, frontier=[{"profile": "fable", "policy": retries(3)}])
    town.stage.plays["fable"] = ["overloaded"]
    seen = rested(town, town.process())
    assert ("retry_wait", 1) == (seen.state, len(leased(town)))
    shelve(town, frontier=[{"profile": "fable", "enabled": False}, "sol"])

    look(town, after_s=6)

    assert ("active", 2, "sol") == where(see(town, seen))
    assert [] == leased(town)
