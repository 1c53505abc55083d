"""The pinned agents over ACP against the loopback provider, without the SDK: what the adapters build on.

A failure and an answer come from one process where they can: a start costs seconds. When a pinned version changes, these
tell which of its habits changed with it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kandev_routing_sdk.testing.provider import LoopbackProvider
from tests._processes import descendants, is_alive, wait_for
from tests.real_agents._acp import AcpClient, acp_agent
from tests.real_agents._agents import Agents
from tests.real_agents._homes import ClaudeAuth, ClaudeEnv, CodexEnv, OpencodeEnv

ANSWER = "Hello from the loopback provider."
TYPED = {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionFailure"]}}}

Started = Callable[..., AbstractContextManager[AcpClient]]


@pytest.fixture
def claude(agents: Agents, provider: LoopbackProvider, claude_env: ClaudeEnv, workdir: Path) -> Started:
    def start(scenario: str, auth: ClaudeAuth = "api_key") -> AbstractContextManager[AcpClient]:
        env = claude_env(provider, scenario, auth=auth, retries=0)
        return acp_agent([str(agents.claude_acp)], env, workdir)

    return start


@pytest.fixture
def codex(agents: Agents, provider: LoopbackProvider, codex_env: CodexEnv, workdir: Path) -> Started:
    def start(scenario: str) -> AbstractContextManager[AcpClient]:
        env = codex_env(provider, scenario, retries=0)
        return acp_agent([str(agents.codex_acp)], env, workdir)

    return start


@pytest.fixture
def opencode(agents: Agents, provider: LoopbackProvider, opencode_env: OpencodeEnv, workdir: Path) -> Started:
    def start(scenario: str) -> AbstractContextManager[AcpClient]:
        return acp_agent([str(agents.opencode), "acp"], opencode_env(provider, scenario), workdir)

    return start


def credential_kinds(agent: AcpClient) -> list[str]:
    told = [frame["params"] for frame in agent.frames if frame.get("method") == "_auth/status_update"]
    return [params["authStatus"]["kind"] for params in told]


def thread_states(agent: AcpClient) -> list[str]:
    """What codex-acp says of its thread, in order."""
    found = [update.get("_meta", {}).get("codex", {}) for update in agent.updates("session_info_update")]
    return [entry["threadStatus"]["type"] for entry in found if "threadStatus" in entry]


def session_failure(answer: dict[str, Any]) -> dict[str, Any]:
    assert "end_turn" == answer["result"]["stopReason"]
    found: dict[str, Any] = answer["result"]["_meta"]["jetbrains"]["air"]["sessionFailure"]
    return found


# Claude --------------------------------------------------------------------------------------------------------------


def test_claude_fails_with_words_in_place_of_an_answer_and_then_answers(
    claude: Started, provider: LoopbackProvider
) -> None:
    """The error comes twice: as a chunk whose message has a UUID for its id, and as the answer to the prompt."""
    provider.set("unavailable", fail_times=1)
    with claude("unavailable") as agent:
        agent.open_session()
        error = agent.prompt()["error"]
        assert (-32603, {"errorKind": "server_error"}) == (error["code"], error["data"])
        ((message, notice),) = agent.chunks
        assert (str(UUID(message)), f"Internal error: {notice}") == (message, error["message"])
        assert "503" in notice
        answer = agent.prompt("Again.")
        assert "end_turn" == answer["result"]["stopReason"]
        said = [(message, text) for message, text in agent.chunks[1:] if message is not None]
        assert [ANSWER] == [text for _, text in said]
        assert said[0][0].startswith("msg_")
        assert ["api_key"] == credential_kinds(agent)
    assert ("Say hello.", "Again.") == provider.prompts()


def test_claude_plan_limit_is_typed_for_those_who_ask(claude: Started) -> None:
    """The opt-in turns the error into a successful ``end_turn`` with the failure beside it."""
    with claude("plan_limit", auth="oauth") as agent:
        agent.open_session(TYPED)
        failure = session_failure(agent.prompt())
        assert ("error", "limit") == (failure["severity"], failure["category"])
        assert ["none"] == credential_kinds(agent), "of a token in the environment it knows nothing"


def test_claude_shows_the_tool_before_the_failure(claude: Started, workdir: Path) -> None:
    """A tool's call is announced, and its end; 401 has a code of its own, with words of its own."""
    with claude("tool_then_unauthorized") as agent:
        agent.open_session()
        assert {"code": -32000, "message": "Authentication required"} == agent.prompt()["error"]
        assert 1 == len(agent.updates("tool_call"))
        assert "completed" in [update.get("status") for update in agent.updates("tool_call_update")]
    assert "tool-ran\n" == (workdir / "effect.txt").read_text()


# Codex ---------------------------------------------------------------------------------------------------------------


def test_codex_reports_a_failure_as_a_success_and_then_answers(codex: Started, provider: LoopbackProvider) -> None:
    """``end_turn``; the truth is the thread's state, and the error's words are a chunk that belongs to no message."""
    provider.set("unavailable", fail_times=1)
    with codex("unavailable") as agent:
        agent.open_session()
        assert "end_turn" == agent.prompt()["result"]["stopReason"]
        assert ["active", "systemError"] == thread_states(agent)
        assert {None} == {message for message, _ in agent.chunks}
        assert agent.chunks[-1][1].startswith("Selected model is at capacity.")
        told = len(agent.chunks)
        assert "end_turn" == agent.prompt("Again.")["result"]["stopReason"]
        assert ["active", "idle"] == thread_states(agent)[2:]
        assert [ANSWER] == [text for message, text in agent.chunks[told:] if message is not None]
        assert ["gateway"] == credential_kinds(agent)
    assert ("Say hello.", "Again.") == provider.prompts()


def test_codex_types_what_it_hides_for_those_who_ask(codex: Started) -> None:
    """The same failure with the opt-in."""
    with codex("unavailable") as agent:
        agent.open_session(TYPED)
        failure = session_failure(agent.prompt())
        assert "error" == failure["severity"]


def test_codex_usage_limit_is_an_error(codex: Started) -> None:
    """One of the failures that it reports as one, with its kind."""
    with codex("usage_limit") as agent:
        agent.open_session()
        error = agent.prompt()["error"]
        assert (-32603, "usageLimitExceeded") == (error["code"], error["data"]["codexErrorInfo"])


def test_codex_shows_the_tool_before_the_failure(codex: Started, workdir: Path) -> None:
    """A tool's call is announced, and its end, before the error."""
    with codex("tool_then_unauthorized") as agent:
        agent.open_session()
        assert -32000 == agent.prompt()["error"]["code"]
        assert 1 == len(agent.updates("tool_call"))
        assert ["completed"] == [update.get("status") for update in agent.updates("tool_call_update")]
    assert "tool-ran\n" == (workdir / "effect.txt").read_text()


# OpenCode ------------------------------------------------------------------------------------------------------------


def test_opencode_shows_the_tool_before_the_failure_and_then_answers(
    opencode: Started, provider: LoopbackProvider, workdir: Path
) -> None:
    """Of the failure only the provider's words and the error's name come through; it is not retried."""
    provider.set("tool_then_unauthorized", fail_times=1)
    with opencode("tool_then_unauthorized") as agent:
        agent.open_session()
        error = agent.prompt()["error"]
        assert (-32603, "Internal error: Incorrect API key provided.") == (error["code"], error["message"])
        assert {"service": "session", "errorName": "APIError"} == error["data"]
        assert ([], 1) == (agent.chunks, len(agent.updates("tool_call")))
        answer = agent.prompt("Again.")
        assert ("end_turn", 18) == (answer["result"]["stopReason"], answer["result"]["usage"]["totalTokens"])
        assert [ANSWER] == [text for _, text in agent.chunks]
        assert agent.chunks[0][0] is not None
    assert ("Say hello.", "Again.") == provider.prompts()
    assert [200, 401, 200, 200] == [record.status for record in provider.model_requests() if not record.side]
    assert "tool-ran\ntool-ran\n" == (workdir / "effect.txt").read_text()


def test_opencode_cancels_a_turn_and_ends_at_a_termination(opencode: Started, provider: LoopbackProvider) -> None:
    """A cancel ends the turn. SIGTERM ends the binary itself; a launcher around it may keep the signal to itself."""
    with opencode("hang") as agent:
        agent.open_session()
        request = agent.begin_prompt()
        wait_for(lambda: provider.prompts("hang"), 90)
        agent.send({"method": "session/cancel", "params": {"sessionId": agent.session}})
        assert "cancelled" == agent.answer_to(request)["result"]["stopReason"]
        os.kill(agent.process.pid, signal.SIGTERM)
        assert -signal.SIGTERM == agent.process.wait(10)


# Ends ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["claude", "codex"])
def hanging(
    request: pytest.FixtureRequest, claude: Started, codex: Started, provider: LoopbackProvider
) -> Iterator[tuple[str, AcpClient, set[int]]]:
    """An adapter in the middle of a turn, and the processes below it."""
    start = {"claude": claude, "codex": codex}[request.param]
    with start("hang") as agent:
        agent.open_session()
        agent.begin_prompt()
        wait_for(lambda: provider.prompts("hang"), 90)
        inner = descendants(agent.process.pid)
        assert inner
        yield request.param, agent, inner
        for pid in inner:  # killed adapters leave theirs behind, which are then nobody's descendants
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_killed_adapter_may_leave_the_agent_behind(hanging: tuple[str, AcpClient, set[int]]) -> None:
    """Killing claude-agent-acp leaves ``claude`` alive; Codex sees that its input has ended, and goes."""
    which, agent, inner = hanging
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.process.wait(10)
    if which == "claude":
        time.sleep(1.0)
        assert any(is_alive(pid) for pid in inner)
    else:
        assert wait_for(lambda: not any(is_alive(pid) for pid in inner))
