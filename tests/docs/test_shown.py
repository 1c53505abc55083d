"""What the documentation shows really runs, in processes of its own, against scripted agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.turn import TurnContext
from kandev_routing_sdk.spec import AcpFrame, TurnRecord
from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAgent
from tests.docs._pages import ROOT, Snippet, snippet, snippets

CONFIG = """
version = 1
[features]
dynamic_agent_routing = true
[profiles.fable]
family = "scripted"
command = {fable}
options = {{ provider_id = "north" }}
[profiles.sol]
family = "scripted"
model = "sol-1"
command = {sol}
options = {{ provider_id = "south" }}
[profiles.frontier]
kind = "dynamic"
candidates = [{{ profile = "fable" }}, {{ profile = "sol" }}]
"""

ANSWER = "Air scatters blue light more than red."


def _install(folder: Path, name: str, module: str) -> None:
    """Make ``module``, which is in ``folder``, look installed as the plugin ``name``."""
    info = folder / f"{name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[kandev_routing_sdk]\n{name} = {module}\n")


def _run(script: str, folder: Path, plugins: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(script, "utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([*([str(plugins)] if plugins else []), str(ROOT)]),
        **environ,
    }
    return subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A working directory: Fable's plan is used up, Sol answers."""
    fable = ScriptedAgent(tmp_path / "fable", ScriptBuilder().fail_quota(resets_in_s=3600))
    sol = ScriptedAgent(tmp_path / "sol", ScriptBuilder().say(ANSWER))
    text = CONFIG.format(fable=json.dumps(fable.command), sol=json.dumps(sol.command))
    (tmp_path / "kandev-routing.toml").write_text(text, "utf-8")
    return tmp_path


def test_the_readmes_script_prints_the_answer_and_who_gave_it(world: Path) -> None:
    shown = snippet("README.md", "python")
    assert "route_once(" in shown.text
    ended = _run(shown.text, world)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert [ANSWER, "1 fable quota_limited", "2 sol answered"] == ended.stdout.splitlines()


def test_the_readmes_script_ends_with_one_line_when_it_cannot(tmp_path: Path) -> None:
    ended = _run(snippet("README.md", "python").text, tmp_path)
    assert 1 == ended.returncode
    (line,) = ended.stderr.splitlines()
    assert line.startswith("config_not_found: ")


def test_the_readmes_host_is_told_of_progress_and_explains(world: Path) -> None:
    host = next(s for s in snippets("python") if s.page == "README.md" and "Router.open()" in s.text)
    ended = _run(host.text, world)
    assert (0, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert ANSWER in lines
    assert ["AttemptStarted", "AttemptEnded", "CallEnded"] == [
        lines[0],
        *lines[lines.index(ANSWER) - 2 : lines.index(ANSWER)],
    ]
    assert lines[-2].startswith("fable circuit_open ")
    assert lines[-1].startswith("sol chosen ")


def test_the_readmes_host_gets_the_time_when_nobody_can_answer(world: Path) -> None:
    host = next(s for s in snippets("python") if s.page == "README.md" and "Router.open()" in s.text)
    text = (world / "kandev-routing.toml").read_text().replace(', { profile = "sol" }', "")
    (world / "kandev-routing.toml").write_text(text)
    ended = _run(host.text, world)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert any(line.startswith("20") and line.endswith("+00:00") for line in ended.stdout.splitlines())


def test_the_tutorials_failover_does_what_the_tutorial_says(tmp_path: Path) -> None:
    ended = _run(snippet("docs/tutorial.md", "python", "file: failover.py").text, tmp_path)
    assert (0, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert f"sol answered: {ANSWER}" == lines[0]
    assert any(line.startswith("fable circuit_open until 20") for line in lines)
    assert any(line.startswith("stopped: ") and "nothing was repeated" in line for line in lines)
    assert "the tool ran 1 time" == lines[-1]


# The adapter of the how-to ----------------------------------------------------------------------------------------------

AGENT = """\
#!{python}
import json, os, sys

assert sys.stdin.read().strip()
assert "0" == os.environ["ACME_MAX_RETRIES"]
if "--model=road-1" in sys.argv:
    print(json.dumps({{"type": "error", "status": 429, "message": "Your weekly allowance is used up, try again in 3 hours"}}))
    sys.exit(1)
for line in {lines}:
    print(json.dumps(line))
"""
GOOD = [{"type": "text", "text": "Hello."}, {"type": "done", "input_tokens": 12, "output_tokens": 3}]
HOW_TO = "docs/how-to/write-an-adapter.md"


def _how_to(language: str, holds: str) -> Snippet:
    return next(s for s in snippets(language) if s.page == HOW_TO and holds in s.text)


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """A folder with everything that the how-to writes, installed."""
    folder = tmp_path / "acme"
    (folder / "acme_rules").mkdir(parents=True)
    (folder / "acme_rules" / "rules.toml").write_text(_how_to("toml", "[[rule]]").text, "utf-8")
    for name in ("acme_adapter.py", "acme_extractor.py"):
        (folder / name).write_text(snippet(HOW_TO, "python", f"file: {name}").text, "utf-8")
    _install(folder, "acme", "acme_adapter")
    (tmp_path / "kandev-routing.toml").write_text(_how_to("toml", "[profiles.road]").text, "utf-8")
    return folder


def _agent(folder: Path, lines: Sequence[object]) -> str:
    """Write the agent into ``folder``; return a PATH on which it is found."""
    path = folder / "bin" / "acme-agent"
    path.parent.mkdir()
    path.write_text(AGENT.format(python=sys.executable, lines=lines), "utf-8")
    path.chmod(0o755)
    return f"{path.parent}{os.pathsep}{os.environ['PATH']}"


ASK = textwrap.dedent("""
    from kandev_routing_sdk import CallFailed, route_once

    try:
        result = route_once("frontier", "Say hello.")
    except CallFailed as problem:
        result = problem.result
    print(result.outcome, result.execution_profile_id, result.text)
    for attempt in result.attempts:
        found = attempt.classification
        print(attempt.execution_profile_id, found and found.code, found and found.classifier_rule, attempt.effects.complete)
    for rejected in result.rejected:
        print(rejected.profile_id, rejected.reason, rejected.detail)
""")
BOLT = """
version = 1
[features]
dynamic_agent_routing = true
[profiles.road]
family = "bolt"
command = {road}
env = {{ BOLT_HOME = "/home/me/one" }}
[profiles.spare]
family = "bolt"
command = {spare}
env = {{ BOLT_HOME = "/home/me/{other}" }}
[profiles.frontier]
kind = "dynamic"
candidates = [{{ profile = "road" }}, {{ profile = "spare" }}]
"""
KEYS = {"TEAM_ACME_KEY": "one-secret-key", "OTHER_ACME_KEY": "another-secret-key"}


def test_the_how_tos_adapter_routes_around_a_limit(acme: Path, tmp_path: Path) -> None:
    ended = _run(ASK, tmp_path, acme, PATH=_agent(tmp_path, GOOD), **KEYS)
    assert (0, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert ["success spare Hello.", "road quota_limited acme.limit.weekly.1 True"] == lines[:2]


def test_the_how_tos_adapter_stops_where_it_does_not_understand(acme: Path, tmp_path: Path) -> None:
    strange = [{"type": "thing"}, {"type": "error", "status": 529, "message": "Overloaded"}]
    ended = _run(ASK, tmp_path, acme, PATH=_agent(tmp_path, strange), **KEYS)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("action_required spare")


def test_the_how_tos_adapter_says_what_is_missing(acme: Path, tmp_path: Path) -> None:
    ended = _run(ASK, tmp_path, acme, **KEYS)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert "road not_launchable no executable 'acme-agent' on this machine; install acme-agent" in ended.stdout


PROBE = textwrap.dedent("""
    import json, sys
    from datetime import UTC, datetime
    from pathlib import Path

    import anyio
    from acme_probe import ProbingAcmeAdapter
    from kandev_routing_sdk.evidence.sanitise import Sanitiser
    from kandev_routing_sdk.evidence.turn import TurnContext
    from kandev_routing_sdk.spec import LaunchPlan, Transport, TurnRecord

    plan = LaunchPlan(
        transport=Transport.HEADLESS, argv=(sys.argv[1],), environ={"ACME_MAX_RETRIES": "0"}, cwd=Path.cwd(), descriptor=None,
        provider_id="acme", model_id=None,
    )
    turn = TurnRecord(TurnContext(family="acme"), Sanitiser(), lambda _: None)
    anyio.run(ProbingAcmeAdapter().probe, plan, turn)
    report = turn.report(datetime.now(UTC))
    print(report.outcome, [signal.text for signal in report.evidence.signals])
""")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"type": "done"}, "success []"),
        ({"type": "error", "status": 429, "message": "Used up."}, "failed ['Used up.']"),
    ],
)
def test_the_how_tos_probe_says_what_a_prompt_would_end_with(
    acme: Path, tmp_path: Path, said: object, expected: str
) -> None:
    """R-CIR-6."""
    (acme / "acme_probe.py").write_text(snippet(HOW_TO, "python", "file: acme_probe.py").text, "utf-8")
    agent = tmp_path / "quota"
    agent.write_text(
        f"#!{sys.executable}\nimport sys\nassert ['quota'] == sys.argv[1:]\nprint({json.dumps(said)!r})\n", "utf-8"
    )
    agent.chmod(0o755)
    ended = _run(PROBE.replace("sys.argv[1]", repr(str(agent))), tmp_path, acme)
    assert (0, "", expected) == (ended.returncode, ended.stderr, ended.stdout.strip())


@pytest.mark.parametrize(("other", "expected"), [("two", "success spare Hello."), ("one", "waiting road")])
def test_the_how_tos_acp_adapter_is_short_and_routes_around_a_limit(other: str, expected: str, tmp_path: Path) -> None:
    """With a login of its own the spare answers; with the same one it has the same limit. The agents really speak the protocol."""
    shown = snippet(HOW_TO, "python", "file: bolt_adapter.py").text
    assert len([line for line in shown.splitlines() if line.strip()]) <= 60
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "bolt_adapter.py").write_text(shown, "utf-8")
    _install(plugins, "bolt", "bolt_adapter")
    road = ScriptedAgent(tmp_path / "road", ScriptBuilder().fail_quota(3600))
    spare = ScriptedAgent(tmp_path / "spare", ScriptBuilder().think("Well.").say("Hello."))
    profiles = BOLT.format(road=json.dumps(road.command), spare=json.dumps(spare.command), other=other)
    (tmp_path / "kandev-routing.toml").write_text(profiles, "utf-8")
    ended = _run(ASK, tmp_path, plugins)
    assert (0, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert expected == lines[0].strip()
    assert "road quota_limited neutral.quota.field.1 True" == lines[1]


def test_the_how_tos_acp_extractor_adds_the_status_of_an_error() -> None:
    names: dict[str, Any] = {}
    exec(snippet(HOW_TO, "python", "file: bolt_adapter.py").text, names)
    for data, status in [({"status": 429}, 429), ({"status": "429"}, None), (None, None)]:
        turn = TurnRecord(TurnContext(family="bolt"), Sanitiser(), lambda _: None)
        frame: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 3,
            "error": {"code": -32603, "message": "No more.", "data": data},
        }
        names["BoltExtractor"]().receive(AcpFrame(frame, request="session/prompt"), turn)
        found = turn.report(datetime.now(UTC)).evidence
        assert (status, "No more.") == (found.http_status, found.signals[0].text)


def test_the_how_tos_host_gives_its_adapter_to_the_router(acme: Path, tmp_path: Path) -> None:
    shown = _how_to("python", "def answer(").text
    call = textwrap.dedent("""
        from acme_adapter import AcmeAdapter
        print(answer(AcmeAdapter(), Path("kandev-routing.toml"), "sqlite:///here.db"))
    """)
    ended = _run(shown + call, tmp_path, acme, PATH=_agent(tmp_path, GOOD), **KEYS)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert "Hello." == ended.stdout.strip()
