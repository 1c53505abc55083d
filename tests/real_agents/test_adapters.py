"""The adapters' own launches with the pinned CLIs: each flag is accepted, each bound holds, each failure is read right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_claude import ClaudeAdapter
from kandev_routing_codex import CodexAdapter
from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.process.headless import HeadlessDownstream
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec import AgentAdapter, LaunchPlan, LaunchRequest
from kandev_routing_sdk.testing.provider import LoopbackProvider
from kandev_routing_sdk.types import AttemptOutcome, Code
from tests.adapters._replay import full_catalogue
from tests.real_agents._agents import Agents
from tests.real_agents._homes import CODEX_API_KEY, CODEX_KEY_VARIABLE, ClaudeEnv, CodexEnv

ANSWER = "Hello from the loopback provider."
UNBOUNDED = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)


@dataclass(frozen=True)
class Ran:
    plan: LaunchPlan
    report: TurnReport
    classification: Classification | None

    @property
    def refusal(self) -> str | None:
        return effect_refusal(self.report.effects)


async def run(
    adapter: AgentAdapter,
    executable: Path,
    environ: Mapping[str, str],
    cwd: Path,
    *,
    resume: str | None = None,
    **fields: Any,
) -> Ran:
    profile = ConcreteProfile(id="p", name="P", family=adapter.family, command=(str(executable),), **fields)
    assert [] == [*adapter.validate(profile)]
    request = LaunchRequest(
        profile=profile,
        environ=environ,
        cwd=cwd,
        executor_namespace="here",
        resume_session_id=resume,
        full_environ=environ,
    )
    plan = adapter.plan(request)
    turn = TurnRecord(
        TurnContext(family=adapter.family, local_zone=plan.local_zone), Sanitiser(plan.secrets), lambda _: None
    )
    downstream = HeadlessDownstream(plan, adapter.extractor(plan), attempt_id="a", clock=SystemClock())
    await downstream.prompt("Say hello.", turn)
    assert downstream.reaped
    report = turn.report(datetime.now(UTC))
    failed = report.outcome is AttemptOutcome.FAILED
    return Ran(plan, report, full_catalogue().classify(report.evidence) if failed else None)


def statuses(provider: LoopbackProvider) -> list[int | None]:
    return [request.status for request in provider.model_requests()]


# Claude --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def claude_bare(claude_env: ClaudeEnv) -> ClaudeEnv:
    """An environment in which nothing is quiet or bounded yet: that is the adapter's duty."""

    def make(provider: LoopbackProvider, scenario: str, **options: Any) -> dict[str, str]:
        return {n: v for n, v in claude_env(provider, scenario, **options).items() if n not in UNBOUNDED}

    return make


async def test_claude_answers_with_every_flag_set(
    agents: Agents, provider: LoopbackProvider, claude_bare: ClaudeEnv, workdir: Path
) -> None:
    ran = await run(
        ClaudeAdapter(), agents.claude, claude_bare(provider, "success"), workdir,
        model="claude-sonnet-4-5", fallback_model="claude-haiku-4-5", mode="acceptEdits",
        permissions={"allow": ["Bash(git log:*)"], "deny": ["WebFetch"], "additional_directories": [str(workdir)]},
        options={"effort": "low", "max_turns": 3, "append_system_prompt": "--brief", "tools": ["Bash"]},
        mcp={"none": {"command": "true", "args": []}},
    )  # fmt: skip
    assert (AttemptOutcome.SUCCESS, ANSWER, "claude-sonnet-4-5") == (
        ran.report.outcome,
        ran.report.text,
        ran.report.model,
    )
    assert [200] == statuses(provider)


async def test_claude_continues_its_session(
    agents: Agents, provider: LoopbackProvider, claude_bare: ClaudeEnv, workdir: Path
) -> None:
    environ = claude_bare(provider, "success")
    first = await run(ClaudeAdapter(), agents.claude, environ, workdir, model="claude-sonnet-4-5")
    session = first.report.native_session_id
    again = await run(ClaudeAdapter(), agents.claude, environ, workdir, model="claude-sonnet-4-5", resume=session)
    assert (session, ANSWER) == (again.report.native_session_id, again.report.text)


@pytest.mark.parametrize(
    ("scenario", "auth", "code", "safe"),
    [
        ("plan_limit", "oauth", Code.QUOTA_LIMITED, True),
        ("overloaded", "api_key", Code.PROVIDER_OVERLOADED, True),
        ("rate_limit_long", "api_key", Code.RATE_LIMITED, True),
        ("unauthorized", "api_key", Code.AUTH_REQUIRED, True),
        ("partial_then_cut", "api_key", Code.NETWORK_UNAVAILABLE, False),
        ("partial_then_overloaded", "api_key", Code.PROVIDER_OVERLOADED, False),
    ],
)
async def test_claude_fails_once_and_is_read_right(
    *,
    agents: Agents,
    provider: LoopbackProvider,
    claude_bare: ClaudeEnv,
    workdir: Path,
    scenario: str,
    auth: Any,
    code: Code,
    safe: bool,
) -> None:
    environ = claude_bare(provider, scenario, auth=auth)
    ran = await run(ClaudeAdapter(), agents.claude, environ, workdir, model="claude-sonnet-4-5")
    assert ran.classification is not None
    assert (code, safe) == (ran.classification.code, ran.refusal is None)
    assert 1 == len(statuses(provider))
    assert (scenario == "plan_limit") is (ran.classification.reset_at is not None)


async def test_claude_tools_run_as_permitted_and_are_effects(
    agents: Agents, provider: LoopbackProvider, claude_bare: ClaudeEnv, workdir: Path
) -> None:
    environ = claude_bare(provider, "tool_then_overloaded")
    ran = await run(
        ClaudeAdapter(), agents.claude, environ, workdir, model="claude-sonnet-4-5", permissions={"allow": ["Bash"]}
    )
    assert "a tool ran" == ran.refusal
    assert "tool-ran\n" == (workdir / "effect.txt").read_text()


# Codex ---------------------------------------------------------------------------------------------------------------


async def test_codex_answers_with_every_flag_set_and_continues_its_session(
    agents: Agents, provider: LoopbackProvider, codex_env: CodexEnv, workdir: Path
) -> None:
    environ = codex_env(provider, "success")
    fields: dict[str, Any] = {
        "mode": "workspace-write",
        "permissions": {"network_access": True, "writable_roots": [str(workdir)]},
        "options": {"model_reasoning_effort": "low"},
        "mcp": {"none": {"command": "true", "args": []}},
    }
    first = await run(CodexAdapter(), agents.codex, environ, workdir, model="loopback-model-1", **fields)
    assert (AttemptOutcome.SUCCESS, ANSWER) == (first.report.outcome, first.report.text)
    session = first.report.native_session_id
    again = await run(CodexAdapter(), agents.codex, environ, workdir, resume=session, **fields)
    assert (session, ANSWER) == (again.report.native_session_id, again.report.text)


@pytest.mark.parametrize(
    ("scenario", "code", "safe"),
    [
        ("usage_limit", Code.QUOTA_LIMITED, True),
        ("overloaded", Code.PROVIDER_OVERLOADED, True),
        ("rate_limit_long", Code.RATE_LIMITED, True),
        ("unauthorized", Code.AUTH_REQUIRED, True),
        ("partial_then_cut", Code.NETWORK_UNAVAILABLE, False),
    ],
)
@pytest.mark.parametrize("built_in", [False, True])
async def test_codex_fails_once_and_is_read_right(
    *,
    agents: Agents,
    provider: LoopbackProvider,
    codex_env: CodexEnv,
    workdir: Path,
    scenario: str,
    code: Code,
    safe: bool,
    built_in: bool,
) -> None:
    environ = codex_env(provider, scenario)
    if built_in:
        config = Path(environ["CODEX_HOME"]) / "config.toml"
        config.write_text(f'model = "loopback-model-1"\nopenai_base_url = "{provider.url(scenario)}/v1"\n')
        environ = {**environ, "CODEX_API_KEY": CODEX_API_KEY}
    ran = await run(CodexAdapter(), agents.codex, environ, workdir)
    assert ran.classification is not None
    assert (code, safe) == (ran.classification.code, ran.refusal is None)
    assert 1 == len(statuses(provider))
    assert (scenario == "usage_limit") is (ran.classification.reset_at is not None)
    assert (None if built_in else frozenset({CODEX_API_KEY})) == (ran.plan.secrets or None)
    assert ran.plan.descriptor is not None
    assert ("CODEX_API_KEY" if built_in else CODEX_KEY_VARIABLE) == ran.plan.descriptor.locator
