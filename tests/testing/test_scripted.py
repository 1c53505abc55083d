"""The scripted agent is the witness of other tests, so it is tested itself (R-PLG-6)."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kandev_routing_sdk.acp import AcpDownstream
from kandev_routing_sdk.binding import CredentialBindingDescriptor
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import neutral_sources
from kandev_routing_sdk.errors import ExecutableNotFound
from kandev_routing_sdk.evidence.model import Evidence
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAdapter, ScriptedAgent, script
from kandev_routing_sdk.types import Code, Confidence, Delivery, ErrorClass, Transport
from tests.process._drive import drive, make_plan


def run_headless(agent: ScriptedAgent, prompt: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [*agent.command, "--headless"], input=prompt, capture_output=True, text=True, check=False, timeout=60
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_nth_prompt_gets_the_nth_answer_and_the_last_one_stays(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("one"), ScriptBuilder().say("two"))
    said = [run_headless(agent, f"p{n}")[0]["text"] for n in range(4)]
    assert ["one", "two", "two", "two"] == said
    assert [(1, "p0"), (2, "p1"), (3, "p2"), (4, "p3")] == [(p.number, p.prompt) for p in agent.prompts]


def test_numbers_are_unique_over_racing_processes(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a", *[ScriptBuilder().say(str(n)) for n in range(8)])
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda n: run_headless(agent, str(n))[0]["text"], range(8)))
    assert sorted(map(str, range(8))) == sorted(map(str, said))
    assert list(range(1, 9)) == [p.number for p in agent.prompts]


def test_the_log_names_variables_and_keeps_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_API_KEY", "sk-canary-0123456789")
    agent = ScriptedAgent(tmp_path / "a", ScriptBuilder().say("x"))
    run_headless(agent, "p")
    assert "SCRIPTED_API_KEY" in agent.prompts[0].env
    assert "sk-canary" not in json.dumps(agent.log)


def test_a_script_can_be_written_by_hand_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text("[[prompts]]\n".replace("[[prompts]]", 'prompts = [[{ do = "say", text = "by hand" }]]'), "utf-8")
    command = [sys.executable, "-m", "kandev_routing_sdk.testing.scripted", str(path), "--headless"]
    done = subprocess.run(command, input="p", capture_output=True, text=True, check=True, timeout=60)
    assert {"type": "say", "text": "by hand"} == json.loads(done.stdout.splitlines()[0])


def test_a_script_file_is_built_in_python(tmp_path: Path) -> None:
    path = (
        script(tmp_path / "s.json", ScriptBuilder().say("x"))
        .at("start", ScriptBuilder().stderr("up"))
        .set(models=["m"])
        .write()
    )
    data = json.loads(path.read_text("utf-8"))
    assert {
        "prompts": [[{"do": "say", "text": "x"}]],
        "start": [{"do": "stderr", "text": "up", "times": 1}],
        "models": ["m"],
    } == data


def test_without_a_script_it_says_how_to_use_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kandev_routing_sdk.testing.scripted"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (2, True) == (done.returncode, "usage:" in done.stderr)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "cannot be read"), ('{"start": [{"do": "dance"}]}', "'dance' that does not exist")]
)
def test_a_wrong_script_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text, "utf-8")
    command = [sys.executable, "-m", "kandev_routing_sdk.testing.scripted", str(path), "--headless"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_agent_needs_only_the_standard_library(tmp_path: Path) -> None:
    """It starts fast, and in whatever environment a profile gives it."""
    code = (
        "import sys; before = set(sys.modules); import kandev_routing_sdk.testing.scripted.agent\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names\n"
        "print(sorted(m for m in new if not m.startswith('_')))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "['kandev_routing_sdk']" == out.strip()


def test_nothing_of_the_testing_package_needs_pytest() -> None:
    code = (
        "import sys, kandev_routing_sdk.testing as t\n"
        "[getattr(t, n) for n in t.__all__]\n"
        "print([m for m in ('pytest', 'hypothesis') if m in sys.modules], t.__all__ == sorted(t.__all__) == dir(t))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "[] True" == out.strip()


# The adapter ----------------------------------------------------------------------------------------------------------


def descriptor(agent: ScriptedAgent, **options: object) -> CredentialBindingDescriptor | None:
    return make_plan(agent, options=options).descriptor


def test_profiles_with_one_account_share_a_binding(tmp_path: Path) -> None:
    agent, other = ScriptedAgent(tmp_path / "a"), ScriptedAgent(tmp_path / "b")
    assert descriptor(agent, account="work", model="m1") == descriptor(other, account="work", model="m2")
    assert descriptor(agent, account="work") != descriptor(agent, account="home")
    assert descriptor(agent, account="work") != descriptor(agent, account="work", provider_id="elsewhere")
    assert descriptor(agent) == descriptor(other)
    assert descriptor(agent, unproven=True) is None


def test_the_plan_holds_what_the_profile_says(tmp_path: Path) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    plan = make_plan(
        agent,
        env={"SCRIPTED_API_KEY": "sk-canary-0123456789"},
        model="m",
        args=["--x"],
        options={"provider_id": "anthropic", "effort": "high", "quiet_period_s": 0.5},
        transport="headless",
    )
    assert ("anthropic", "m", Transport.HEADLESS) == (plan.provider_id, plan.model_id, plan.transport)
    assert (str(agent.folder / "script.json"), "--x", "--headless") == plan.argv[-3:]
    assert ({"effort": "high"}, 0.5) == (dict(plan.acp.options), plan.acp.quiet_period_s)
    assert {"sk-canary-0123456789"} == plan.secrets
    assert "sk-canary" not in repr(plan)


def test_a_profile_without_a_command_is_told_what_to_do(tmp_path: Path) -> None:
    adapter = ScriptedAdapter()
    (problem,) = adapter.validate(ConcreteProfile(id="x", name="X", family="scripted"))
    assert "command" == problem.path
    with pytest.raises(ExecutableNotFound, match="set command"):
        make_plan(ScriptedAgent(tmp_path / "a"), command=["/nowhere/agent"])


FAILURES = [
    ("fail_overloaded", Code.PROVIDER_OVERLOADED),
    ("fail_unavailable", Code.PROVIDER_UNAVAILABLE),
    ("fail_rate_limited", Code.RATE_LIMITED),
    ("fail_quota", Code.QUOTA_LIMITED),
    ("fail_billing", Code.SUBSCRIPTION_REQUIRED),
    ("fail_auth", Code.AUTH_REQUIRED),
    ("fail_model", Code.MODEL_UNAVAILABLE),
    ("fail_network", Code.NETWORK_UNAVAILABLE),
    ("fail_context", Code.CONTEXT_EXHAUSTED),
]


async def evidence_of(tmp_path: Path, steps: ScriptBuilder, transport: Transport) -> Evidence:
    agent = ScriptedAgent(tmp_path / "a", steps)
    plan = make_plan(agent, transport=transport)
    driven = drive(plan, drives=AcpDownstream) if transport is Transport.ACP else drive(plan)
    return (await driven.run()).evidence


@pytest.mark.parametrize("transport", [Transport.ACP, Transport.HEADLESS])
@pytest.mark.parametrize(("name", "code"), FAILURES)
async def test_its_failures_are_known_to_the_neutral_rules(
    tmp_path: Path, name: str, code: Code, transport: Transport
) -> None:
    evidence = await evidence_of(tmp_path, getattr(ScriptBuilder(), name)(), transport)
    found = Catalogue.load(neutral_sources(), verify=False).classify(evidence)
    assert (code, Confidence.HIGH) == (found.code, found.confidence)


async def test_a_puzzling_failure_is_not(tmp_path: Path) -> None:
    evidence = await evidence_of(tmp_path, ScriptBuilder().fail_puzzling(), Transport.ACP)
    found = Catalogue.load(neutral_sources(), verify=False).classify(evidence)
    assert (ErrorClass.UNCLASSIFIED, None) == (found.error_class, found.classifier_rule)


@pytest.mark.parametrize("transport", [Transport.ACP, Transport.HEADLESS])
async def test_its_hints_are_understood(tmp_path: Path, transport: Transport) -> None:
    catalogue = Catalogue.load(neutral_sources(), verify=False)
    throttled = catalogue.classify(await evidence_of(tmp_path / "1", ScriptBuilder().fail_rate_limited(30), transport))
    assert timedelta(seconds=30) == throttled.retry_after
    used_up = catalogue.classify(await evidence_of(tmp_path / "2", ScriptBuilder().fail_quota(3600), transport))
    due = used_up.due_at(datetime(2026, 1, 1, tzinfo=UTC))
    assert due is not None
    assert timedelta(seconds=3600) == due - datetime(2026, 1, 1, tzinfo=UTC)


ENDS = [
    (ScriptBuilder().die("SIGSEGV"), Code.AGENT_TRANSPORT_LOST),
    (ScriptBuilder().exit(127), Code.PROVIDER_NOT_CONFIGURED),
    (ScriptBuilder().exit(0), Code.AGENT_TRANSPORT_LOST),
]


@pytest.mark.parametrize(("start", "code"), ENDS)
async def test_its_exits_before_the_handshake_are_known(tmp_path: Path, start: ScriptBuilder, code: Code) -> None:
    agent = ScriptedAgent(tmp_path / "a")
    agent.at("start", start)
    report = await drive(make_plan(agent), drives=AcpDownstream).run()
    found = Catalogue.load(neutral_sources(), verify=False).classify(report.evidence)
    assert (code, Delivery.NOT_SENT) == (found.code, report.effects.delivery)
