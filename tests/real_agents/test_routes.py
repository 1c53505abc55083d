"""Whole routes with the real headless CLIs against the loopback provider (issue: the first route)."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests._processes import child_groups, group_members
from tests.real_agents._homes import CLAUDE_OAUTH_TOKEN
from tests.real_agents._routes import Agent, Setup, summary

RETRY: Mapping[str, Any] = {"transient": {"retry": {"enabled": True, "max_retries": 3, "initial_interval_seconds": 1}}}


def test_claude_answers(setup: Setup) -> None:
    """The first candidate, its tokens and the model that was served."""
    setup.write(Agent("claude", "success"), Agent("codex"))
    document = setup.run()
    assert ("success", 0, "claude", "claude") == (
        document["outcome"],
        document["exit_code"],
        document["execution_profile_id"],
        document["family"],
    )
    assert document["text"]
    assert document["usage"]["output_tokens"] > 0
    assert document["provider_id"] != "anthropic", "a gateway is not the vendor"


def test_a_claude_plan_limit_hands_over_to_codex(setup: Setup) -> None:
    """OAuth 429 unified → Codex answers with the continuation; no Claude token or session id reaches it."""
    setup.write(Agent("claude", "plan_limit", auth="oauth"), Agent("codex"))
    document = setup.run("Say hello to the crew.")
    assert [("claude", "failed", "quota_limited", True), ("codex", "success", None, False)] == summary(document)
    assert document["attempts"][0]["classification"]["reset_at"] is not None
    (request,) = setup.provider.model_requests("success")
    assert request.mentions("Say hello to the crew.")
    assert request.mentions("quota_limited"), "the successor is told why"
    assert not request.mentions(CLAUDE_OAUTH_TOKEN)
    for session in claude_sessions(setup):
        assert not request.mentions(session)
    everything = b"".join(f.read_bytes() for f in setup.folder.glob("routing.db*"))
    assert CLAUDE_OAUTH_TOKEN.encode() not in everything


def claude_sessions(setup: Setup) -> list[str]:
    """Return Claude's own session ids, from the transcripts it keeps."""
    found = [f.stem for f in (setup.folder / "claude-home" / "config" / "projects").rglob("*.jsonl")]
    assert found, "Claude kept no transcript: the check would prove nothing"
    return found


def test_claude_is_asked_again_after_an_overload(setup: Setup) -> None:
    """529 until the policy's waits are used → the same candidate answers; the CLI's own retries are bounded."""
    setup.write(Agent("claude", "overloaded"), Agent("codex"), policy=RETRY)
    setup.provider.set("overloaded", fail_times=3)
    document = setup.run()
    failed = ("claude", "failed", "provider_overloaded", True)
    assert [failed, failed, failed, ("claude", "success", None, False)] == summary(document)
    assert [1, 1, 1, 1] == [a["generation"] for a in document["attempts"]]
    assert () == setup.provider.model_requests("success"), "nobody else was asked"


def test_nothing_follows_a_tool_call(setup: Setup) -> None:
    """Tool call, then 529 → no second agent, exit 79, the tool ran once."""
    setup.write(Agent("claude", "tool_then_overloaded"), Agent("codex"), policy=RETRY)
    setup.provider.set("tool_then_overloaded", tool_command="echo ran >> effect.txt")
    document = setup.run()
    assert ("action_required", 79) == (document["outcome"], document["exit_code"])
    assert [("claude", "failed", "provider_overloaded", False)] == summary(document)
    assert "ran\n" == (setup.work / "effect.txt").read_text()
    assert () == setup.provider.model_requests("success")


def test_a_command_that_the_sandbox_refused_something_is_work_too(setup: Setup) -> None:
    """Codex tells of no such command in its events; its log does (R-SAFE-1)."""
    setup.write(Agent("codex", "tool_then_overloaded", settings='mode = "workspace-write"'), Agent("claude"))
    denied = "echo ran >> effect.txt; echo 'touch: x: Read-only file system' >&2; exit 1"
    setup.provider.set("tool_then_overloaded", tool_command=denied)
    document = setup.run()
    assert ("action_required", 79) == (document["outcome"], document["exit_code"])
    assert [("codex", "failed", "provider_overloaded", False)] == summary(document)
    assert "ran\n" == (setup.work / "effect.txt").read_text()
    assert () == setup.provider.model_requests("success")


def test_both_limited_says_when_the_first_is_back(setup: Setup) -> None:
    """Exit 75 and the earliest reset; a second run asks nobody."""
    setup.write(Agent("claude", "plan_limit", auth="oauth"), Agent("codex", "usage_limit"))
    now = datetime.now(UTC)
    setup.provider.set("plan_limit", resets_in=timedelta(hours=2))
    setup.provider.set("usage_limit", resets_in=timedelta(hours=3))
    document = setup.run()
    assert ("waiting", 75) == (document["outcome"], document["exit_code"]), document
    assert [("claude", "quota_limited"), ("codex", "quota_limited")] == [(p, c) for p, _, c, _ in summary(document)]
    deadline = datetime.fromisoformat(document["deadline"])
    assert timedelta(seconds=7200) == pytest.approx(deadline - now, abs=timedelta(minutes=2))
    asked = len(setup.provider.model_requests())
    again = setup.run()
    assert (75, [], document["deadline"]) == (again["exit_code"], again["attempts"], again["deadline"])
    assert asked == len(setup.provider.model_requests())


@pytest.mark.parametrize(("sent", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_in_mid_turn_leaves_no_process(setup: Setup, sent: signal.Signals, expected: int) -> None:
    """No process of the agent's group is left, and the record says cancelled."""
    setup.write(Agent("claude", "hang"), Agent("codex"))
    process = setup.start()
    setup.provider.wait_for(1, scenario="hang")
    groups = child_groups(process.pid)
    assert groups
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert expected == process.returncode, err
    document = json.loads(out)
    assert ("cancelled", expected) == (document["outcome"], document["exit_code"])
    for group in groups:
        assert [] == group_members(group)
