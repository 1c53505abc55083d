"""Whole routes over every family and transport (issue: three agent families): each answers, and fails over to another.

Runs are shared where they can be, for a start of OpenCode costs many seconds. The witness of what an agent was asked is the
provider's own log.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests._processes import descendants, is_alive, live_processes, wait_for
from tests.real_agents._homes import CLAUDE_API_KEY, CLAUDE_OAUTH_TOKEN, CODEX_API_KEY, OPENCODE_API_KEY
from tests.real_agents._routes import Agent, Setup, summary

ANSWER = "Hello from the loopback provider."
PROMPT = "Say hello to the crew."
SECRETS = (CLAUDE_API_KEY, CLAUDE_OAUTH_TOKEN, CODEX_API_KEY, OPENCODE_API_KEY)


# Answers and failovers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        pytest.param(
            Agent("codex", "unavailable", "acp"),
            Agent("opencode", transport="acp"),
            "model_capacity",
            id="codex-acp-503-to-opencode-acp",
        ),
        pytest.param(
            Agent("opencode", "billing"),
            Agent("claude", transport="acp"),
            "subscription_required",
            id="opencode-limited-to-claude-acp",
        ),
        pytest.param(
            Agent("claude", "plan_limit", "acp", auth="oauth"),
            Agent("codex", transport="acp"),
            "quota_limited",
            id="claude-acp-limited-to-codex-acp",
        ),
        pytest.param(
            Agent("codex", "usage_limit"),
            Agent("opencode"),
            "quota_limited",
            id="codex-limited-to-opencode",
        ),
        pytest.param(
            Agent("opencode", "unauthorized", "acp"),
            Agent("claude"),
            "auth_required",
            id="opencode-acp-401-to-claude",
        ),
    ],
)
def test_the_next_agent_answers(setup: Setup, first: Agent, second: Agent, code: str) -> None:
    """The first fails at its provider, in its own way; the second answers. Each was prompted once, and knows no secret of
    the other's."""
    setup.write(first, second)
    document = setup.run(PROMPT)
    assert [(first.profile, "failed", code, True), (second.profile, "success", None, False)] == summary(document)
    assert ("success", 0, second.profile, ANSWER) == (
        document["outcome"], document["exit_code"], document["execution_profile_id"], document["text"],
    )  # fmt: skip
    assert document["usage"]["output_tokens"] > 0
    (asked,), (handed,) = setup.provider.prompts(first.scenario), setup.provider.prompts("success")
    assert PROMPT in asked
    assert PROMPT in handed
    assert code in handed, "the successor is told why"
    requests = setup.provider.model_requests("success")
    used = [secret for secret in SECRETS if any(request.mentions(secret) for request in requests)]
    assert len(used) == 1


CLAUDE_SETTINGS = """
model = "claude-sonnet-4-5"
fallback_model = "claude-haiku-4-5"
mode = "acceptEdits"
args = ["--strict-mcp-config"]
permissions = { default = "allow", allow = ["Bash(git log:*)"], deny = ["WebFetch"], additional_directories = ["/tmp"] }
options = { effort = "low", max_turns = 3, append_system_prompt = "--brief", tools = ["Bash"] }
mcp = { none = { command = "true", args = [] } }
"""
CODEX_SETTINGS = """
model = "loopback-model-1"
mode = "workspace-write"
permissions = { default = "allow", writable_roots = ["."] }
options = { model_reasoning_effort = "low" }
mcp = { none = { command = "true", args = [] } }
"""
OPENCODE_SETTINGS = """
model = "loopback/loopback-model-1"
mode = "build"
permissions = { default = "allow", webfetch = "deny" }
mcp = { none = { command = "true", args = [] } }
"""


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        (Agent("claude", transport="acp", settings=CLAUDE_SETTINGS), "claude-sonnet-4-5"),
        (Agent("codex", transport="acp", settings=CODEX_SETTINGS), "loopback-model-1"),
        (Agent("opencode", transport="acp", settings=OPENCODE_SETTINGS), "loopback-model-1"),
        (
            Agent("opencode", settings=OPENCODE_SETTINGS + 'options = { title = "--t", thinking = true, pure = true }'),
            "loopback-model-1",
        ),
    ],
    ids=lambda value: value.profile if isinstance(value, Agent) else "",
)
def test_every_setting_is_accepted(setup: Setup, agent: Agent, model: str) -> None:
    """No flag and no option of a profile is refused by the pinned agent, and the model that was asked for is."""
    setup.write(agent)
    document = setup.run(PROMPT)
    assert [(agent.profile, "success", None, False)] == summary(document), json.dumps(document)
    assert ANSWER == document["text"]
    assert (PROMPT,) == setup.provider.prompts()
    (request,) = (request for request in setup.provider.model_requests() if not request.side)
    assert model == (request.body or {})["model"]


# Effects ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        Agent("claude", "tool_then_overloaded", "acp"),
        Agent("codex", "tool_then_server_error", "acp"),
        Agent("opencode", "tool_then_unauthorized", "acp"),
        Agent("opencode", "tool_then_unauthorized"),
    ],
    ids=lambda agent: agent.profile,
)
def test_nothing_follows_a_tool_call(setup: Setup, first: Agent) -> None:
    """A tool call, then a failure → no other agent is asked, exit 79, and the tool ran once."""
    setup.write(first, Agent("codex") if first.family == "claude" else Agent("claude"))
    document = setup.run()
    assert ("action_required", 79) == (document["outcome"], document["exit_code"])
    ((profile, outcome, _, automatic),) = summary(document)
    assert (first.profile, "failed", False) == (profile, outcome, automatic)
    assert "tool-ran\n" == (setup.work / "effect.txt").read_text()
    assert () == setup.provider.model_requests("success")


# Ends ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnderWay:
    """A run whose agent is running a tool's command."""

    process: subprocess.Popen[str]
    leader: int
    """The agent that the run started."""
    below: frozenset[int]
    """Everything below the run: the agent, what it started, the tool's command."""

    def left(self) -> list[int]:
        return [pid for pid in self.below if is_alive(pid)]


OVER_ACP = (
    Agent("claude", "tool_then_hang", "acp"),
    Agent("codex", "tool_then_hang", "acp"),
    Agent("opencode", "tool_then_hang", "acp"),
)


@pytest.fixture(params=[*OVER_ACP, Agent("opencode", "tool_then_hang")], ids=lambda agent: agent.profile)
def under_way(request: pytest.FixtureRequest, setup: Setup) -> Iterator[UnderWay]:
    """A run in the middle of its turn; nothing of it outlives the test, whatever the test finds."""
    setup.write(request.param, Agent("codex") if request.param.family == "claude" else Agent("claude"))
    written = setup.work / "pid.txt"
    script = f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(50)'"
    setup.provider.set("tool_then_hang", tool_command=f"echo $$ > {written}; exec {script}")
    process = setup.start()
    below = frozenset[int]()
    try:
        tool = int(wait_for(lambda: written.is_file() and written.read_text().strip(), 90))
        below = frozenset(descendants(process.pid))
        assert tool in below
        (leader,) = (pid for pid, (parent, _) in live_processes().items() if parent == process.pid)
        yield UnderWay(process, leader, below)
    finally:
        below |= descendants(process.pid)
        process.kill()
        process.communicate()
        for pid in below:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("sent", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_in_mid_turn_leaves_no_process(
    setup: Setup, under_way: UnderWay, sent: signal.Signals, expected: int
) -> None:
    """The run ends as asked, and with it the agent, what the agent started, and the tool's command."""
    under_way.process.send_signal(sent)
    out, err = under_way.process.communicate(timeout=60)
    assert expected == under_way.process.returncode, err
    assert ("cancelled", expected) == (json.loads(out)["outcome"], json.loads(out)["exit_code"])
    assert [] == under_way.left()
    assert () == setup.provider.model_requests("success")


def test_an_agent_killed_in_mid_turn_leaves_no_process(setup: Setup, under_way: UnderWay) -> None:
    """The adapter alone is killed, by somebody else: what it started is ended too, and nobody else is asked."""
    os.kill(under_way.leader, signal.SIGKILL)
    out, err = under_way.process.communicate(timeout=60)
    document = json.loads(out)
    assert (79, "action_required") == (document["exit_code"], document["outcome"]), err
    assert ["failed"] == [attempt["outcome"] for attempt in document["attempts"]]
    assert wait_for(lambda: not under_way.left(), 5)
    assert () == setup.provider.model_requests("success")


@pytest.mark.parametrize("under_way", OVER_ACP, indirect=True, ids=lambda agent: agent.profile)
def test_a_run_killed_in_mid_turn_leaves_no_process(under_way: UnderWay) -> None:
    """Nobody is there any more to end the agent: it sees its input end, and goes with all that it started.

    A headless agent has read its input long before; the next process that opens the store ends it (tested with scripted
    agents, for that takes until the lease has run out).
    """
    under_way.process.kill()
    assert wait_for(lambda: not under_way.left(), 20)
