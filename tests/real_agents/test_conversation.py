"""One conversation, many agents: the chat of the examples with the real CLIs, against the loopback provider (R-CON)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

from kandev_routing_sdk import Router
from kandev_routing_sdk.testing.provider import SCENARIOS, Ask, LoopbackProvider, Reply, Scenario
from tests._processes import wait_for
from tests.real_agents._homes import CLAUDE_OAUTH_TOKEN
from tests.real_agents._routes import Agent, Setup, Transport
from tests.real_agents.test_routes import claude_sessions

CHAT = Path(__file__).parents[2] / "examples" / "chat.py"
ANSWER_S = 120.0
RESETS_IN = timedelta(seconds=3)


class Tap:
    """The provider of a plan: good answers that use a tool first, until the plan is used up."""

    def __init__(self) -> None:
        self.used_up = False

    def reply(self, ask: Ask) -> Reply:
        return SCENARIOS["plan_limit" if self.used_up else "success_tool"].reply(ask)


@pytest.fixture
def tap() -> Tap:
    return Tap()


@pytest.fixture
def provider(tap: Tap) -> Iterator[LoopbackProvider]:
    plan = Scenario("plan", "good answers with a tool call, until the plan is used up", first=tap.reply)
    with LoopbackProvider(scenarios=[plan]) as running:
        yield running


class Chat:
    """The example, running; its user types a line when the answer before it is there."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._new: SimpleQueue[str] = SimpleQueue()
        self.lines: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._new.put(line.rstrip("\n"))

    def say(self, text: str) -> str:
        """Type a message and return who answered."""
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()
        end = time.monotonic() + ANSWER_S
        while True:
            line = self._new.get(timeout=max(0.01, end - time.monotonic()))
            self.lines.append(line)
            assert "needs you" not in line, self.lines
            if line.startswith("  ("):
                return line.strip(" ()")

    def leave(self) -> list[str]:
        """Close the input; return all that was shown."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert 0 == self._process.wait(60)
        self._reader.join(10)
        while not self._new.empty():
            self.lines.append(self._new.get())
        return self.lines


@contextmanager
def chat(setup: Setup, *arguments: str) -> Iterator[Chat]:
    inherited = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
    path = os.pathsep.join([str(setup.agents.node), os.environ["PATH"]])
    with (setup.folder / "chat.err").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, str(CHAT), *arguments],
            cwd=setup.work,
            env={"PATH": path, "HOME": str(setup.folder), "LANG": "C.UTF-8", **inherited, **setup.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with process:
            try:
                yield Chat(process)
            finally:
                process.kill()


def _repository(folder: Path) -> None:
    """A work tree with one committed file, which turn one changes."""
    folder.mkdir()
    (folder / "story.txt").write_text("Once upon a time\n")
    identity = ("-c", "user.name=Author", "-c", "user.email=author@example.com")
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "A beginning"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True, timeout=60)


@pytest.mark.parametrize("transport", ["headless", "acp"])
def test_one_conversation_goes_on_when_the_plan_is_used_up(setup: Setup, tap: Tap, transport: Transport) -> None:
    """Turn one on Claude, whose plan is then used up; Codex goes on, told of the file and of the change (R-CON-3, R-CON-4), and
    keeps the conversation, though Claude may be asked again. After a restart it looks the same (R-CON-6).
    """
    claude, codex = Agent("claude", "plan", transport, auth="oauth"), Agent("codex", transport=transport)
    _repository(setup.work)
    setup.write(claude, codex)
    command = "echo 'there was a fox' >> story.txt; echo 'the fox' > cast.txt"
    setup.provider.set("plan", tool_command=command, resets_in=RESETS_IN)
    with chat(setup, "frontier") as talk:
        assert claude.profile == talk.say("Go on with the story.")
        assert "the fox\n" == (setup.work / "cast.txt").read_text()
        tap.used_up = True
        assert codex.profile == talk.say("And then?")
        _the_successor_knows(setup)
        tap.used_up = False
        asked = len(setup.provider.model_requests("plan"))
        assert wait_for(lambda: _claude_is_due(setup), 60)
        assert codex.profile == talk.say("The end?"), "it is not switched back while its agent is healthy"
        assert asked == len(setup.provider.model_requests("plan"))
        shown = talk.leave()
    with chat(setup, "--session", _session(setup)) as again:
        assert shown == again.leave()


def _claude_is_due(setup: Setup) -> bool:
    """Whether the limit is over, so that the next one who asks for Claude would get it."""
    with Router.open(f"sqlite:///{setup.folder}/routing.db", read_only=True) as router:
        (circuit,) = router.circuits()
    assert circuit.deadline is not None
    return circuit.deadline <= datetime.now(UTC)


def _session(setup: Setup) -> str:
    return (setup.folder / "chat.err").read_text().split()[-1]


def _the_successor_knows(setup: Setup) -> None:
    """What the provider was sent for Codex."""
    (request, *_) = [r for r in setup.provider.model_requests("success") if not r.side]
    assert request.mentions("And then?")
    assert request.mentions("quota_limited"), "why it was switched"
    assert request.mentions("cast.txt"), "the new file"
    assert request.mentions("+there was a fox"), "the change"
    assert request.mentions("Go on with the story."), "what was asked before"
    assert not request.mentions(CLAUDE_OAUTH_TOKEN)
    for session in claude_sessions(setup):
        assert not request.mentions(session), "no native session crosses profiles (R-CON-2)"
