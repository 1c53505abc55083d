"""Everything that may be wrong: one clear line and the right exit code, no traceback (R-CLI-3, R-CLI-5)."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kandev_routing_sdk.testing import ScriptBuilder
from tests.cli._world import Ran, World

GOOD = """
version = 1
[features]
dynamic_agent_routing = true
[profiles.sol]
family = "scripted"
command = ["python3"]
[profiles.frontier]
kind = "dynamic"
candidates = [{ profile = "sol" }]
"""

CONFIGURATIONS = {
    "no configuration": (None, 78, "kandev-routing init"),
    "broken TOML": ("version = [", 78, "is not valid TOML"),
    "unknown key": (GOOD.replace("family =", "famly ="), 78, "did you mean 'family'?"),
    "unknown section": (GOOD.replace("[features]", "[feature]"), 78, "did you mean 'features'?"),
    "dynamic candidate": (
        GOOD + '[profiles.more]\nkind = "dynamic"\ncandidates = [{ profile = "frontier" }]\n',
        78,
        "profiles.more.candidates[0].profile: 'frontier' is dynamic itself",
    ),
    "dangling candidate": (GOOD.replace('{ profile = "sol" }', '{ profile = "soll" }'), 78, "did you mean 'sol'?"),
    "wrong type": (GOOD.replace("= true", '= "yes"'), 78, "features.dynamic_agent_routing"),
    "flag off": (GOOD.replace("= true", "= false"), 78, "dynamic_agent_routing = true under [features]"),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_a_configuration_that_cannot_be_used(world: World, here: Callable[..., Ran], case: str) -> None:
    text, code, part = CONFIGURATIONS[case]
    if text is not None:
        world.write(text)
    ran = here("run", "frontier", "hi")
    assert (code, "") == (ran.code, ran.out), ran
    assert part in ran.error
    again = here("run", "frontier", "hi", "--json")
    assert (code, code) == (again.code, again.document["exit_code"])
    assert part in again.document["error"]["message"]
    assert not world.database.exists()


def test_every_problem_of_a_configuration_is_named(world: World, here: Callable[..., Ran]) -> None:
    """R-PRO-7: programs get each problem with its path."""
    world.write(GOOD.replace("family =", "famly =").replace("[features]", "[feature]"))
    problems = here("run", "frontier", "hi", "--json").document["error"]["problems"]
    assert {"feature", "profiles.sol.famly"} <= {p["path"] for p in problems}


USAGE = {
    "unknown profile": (["run", "fronteer", "hi"], "profiles there are: frontier, sol"),
    "no prompt twice": (["run", "frontier", "hi", "--prompt-file", "x"], "given twice"),
    "empty prompt": (["run", "frontier", "  "], "the prompt is empty"),
    "no profile": (["run"], "Missing argument 'PROFILE'; see kandev-routing run --help"),
    "unknown option": (["run", "frontier", "hi", "--jsn"], "--jsn"),
    "unknown command": (["rum"], "rum"),
    "timeout": (["run", "frontier", "hi", "--timeout", "-1"], "timeout must be a positive number of seconds"),
    "timeout word": (["run", "frontier", "hi", "--timeout", "soon"], "--timeout"),
    "no folder": (["run", "frontier", "hi", "--cwd", "nowhere"], "nowhere"),
    "explain": (["explain", "fronteer"], "no profile 'fronteer'"),
    "guard": (["guard", "fronteer"], "no profile 'fronteer'"),
    "circuit": (["circuits", "reset", "account:x"], "no circuit has the key"),
    "call": (["calls", "show", "utility:x"], "kandev-routing calls lists them"),
}


@pytest.mark.parametrize("case", USAGE)
def test_arguments_that_make_no_sense_are_2(world: World, here: Callable[..., Ran], case: str) -> None:
    arguments, part = USAGE[case]
    world.write(GOOD)
    ran = here("--store", world.url, *arguments)
    assert (2, "") == (ran.code, ran.out), ran
    assert part in ran.error


@pytest.mark.parametrize(("content", "part"), [(b"\xff\xfe", "is not UTF-8 text"), (None, "cannot be read")])
def test_a_prompt_file_that_cannot_be_read_is_65(
    world: World, here: Callable[..., Ran], content: bytes | None, part: str
) -> None:
    world.write(GOOD)
    if content is not None:
        (world.folder / "prompt.md").write_bytes(content)
    ran = here("run", "frontier", "--prompt-file", "prompt.md")
    assert 65 == ran.code, ran
    assert part in ran.error


# Agents ------------------------------------------------------------------------------------------------------------------


def test_an_executable_that_is_missing_is_69(world: World, here: Callable[..., Ran]) -> None:
    """Nothing was started; the line names the candidate and what is missing."""
    world.profiles["sol"] = {"family": "scripted", "command": ["no-such-agent"]}
    world.dynamic("sol")
    world.configure()
    ran = here("run", "frontier", "hi", "--json")
    assert (69, 69, []) == (ran.code, ran.document["exit_code"], ran.document["attempts"]), ran
    assert "no_eligible_candidate" == ran.document["reason"]
    ((who, why),) = [(r["profile_id"], r["detail"]) for r in ran.document["rejected"]]
    assert ("sol", True) == (who, "no-such-agent" in why)
    assert "sol: " in ran.error


def test_a_family_without_an_adapter_is_69(world: World, here: Callable[..., Ran]) -> None:
    world.profiles["sol"] = {"family": "acme"}
    world.configure()
    ran = here("run", "sol", "hi")
    assert 69 == ran.code, ran
    assert "install kandev-routing-acme" in ran.error


def test_a_family_with_a_typo_is_told_what_was_meant(world: World, here: Callable[..., Ran]) -> None:
    world.profiles["sol"] = {"family": "scriptd"}
    world.configure()
    assert "did you mean 'scripted'?" in here("run", "sol", "hi").error


def test_a_prompt_without_quotes_is_told_to_have_some(world: World, here: Callable[..., Ran]) -> None:
    world.configure()
    ran = here("run", "sol", "fix", "the", "test")
    assert 2 == ran.code
    assert "put it in quotes" in ran.error


PROGRAMS = {
    "prints garbage": "print('garbage')",
    "prints garbage for ever": "while True: print('garbage ' * 100)",
    "exits before initialize": "raise SystemExit(0)",
    "fails before initialize": "import sys; sys.exit('cannot find my heart')",
    "prints ten megabytes without a newline": "import sys; sys.stdout.write('x' * 10_000_000); sys.stdout.flush()",
    "floods standard error": "import sys; [sys.stderr.write('noise ' * 1000 + '\\n') for _ in range(2000)]",
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_an_agent_that_is_none(world: World, here: Callable[..., Ran], case: str) -> None:
    """It never took the prompt, so nothing can have happened; a person is told, and nothing hangs."""
    world.profiles["sol"] = {"family": "scripted", "command": [sys.executable, "-c", PROGRAMS[case]]}
    world.configure()
    ran = here("run", "sol", "hi", "--json", "--timeout", "60")
    assert ran.code in {69, 79}, ran
    assert ran.code == ran.document["exit_code"]
    assert ("failed", "not_sent") == (
        ran.document["attempts"][0]["outcome"],
        ran.document["attempts"][0]["effects"]["delivery"],
    )
    assert len(ran.error) < 1000


def test_an_agent_that_says_unknown_things_still_answers(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().update({"sessionUpdate": "from_the_future", "x": [1]}).say("ok"))
    world.configure()
    ran = here("run", "sol", "hi")
    assert (0, "ok\n") == (ran.code, ran.out), ran


# State -------------------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_73(world: World, here: Callable[..., Ran]) -> None:
    """R-DUR-6: without durable state nothing is launched."""
    agent = world.agent("sol", ScriptBuilder().say("never"))
    world.configure()
    if os.geteuid() == 0:
        folder = Path("/proc/self")  # where even root cannot make a file
    else:
        folder = world.folder.parent / "locked"
        folder.mkdir(mode=0o555)
    ran = here("--store", f"sqlite:///{folder / 'routing.db'}", "run", "sol", "hi")
    assert (73, "") == (ran.code, ran.out), ran
    assert "routing.db" in ran.error
    assert 0 == agent.starts


def test_a_database_of_a_newer_version_is_73(world: World, here: Callable[..., Ran]) -> None:
    """R-DUR-1: refused, and left as it is."""
    agent = world.agent("sol", ScriptBuilder().say("once"))
    world.configure()
    assert 0 == here("run", "sol", "hi").code
    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE kr_version SET version_num = '9999'")
    connection.close()
    before = world.database.read_bytes()
    for arguments in (["run", "sol", "hi"], ["explain", "sol"], ["calls"]):
        ran = here(*arguments)
        assert 73 == ran.code, ran
        assert "upgrade the package" in ran.error
    assert before == world.database.read_bytes()
    assert 1 == len(agent.prompts)


def test_a_store_url_never_shows_its_password(world: World, here: Callable[..., Ran]) -> None:
    world.write(GOOD)
    for url in ("mysql://me:hunter2secret@db/x", "postgresql://me:hunter2secret@127.0.0.1:1/x"):
        ran = here("--store", url, "run", "frontier", "hi")
        assert ran.code in {73, 78}, ran
        assert "hunter2secret" not in ran.out + ran.err
        assert ran.error


# The edge ----------------------------------------------------------------------------------------------------------------


def test_a_fault_of_ours_is_one_line_and_70(
    world: World, here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-CLI-5: its message, which may hold anything, is shown with --debug only."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("zq-secret-in-a-message")

    world.write(GOOD)
    monkeypatch.setattr("kandev_routing_sdk.router.Router.open", broken)
    ran = here("explain", "frontier")
    assert (70, "") == (ran.code, ran.out), ran
    assert "internal error (KeyError in " in ran.error
    assert "zq-secret" not in ran.err
    assert "internal" == here("explain", "frontier", "--json").document["error"]["code"]
    debug = here("explain", "frontier", "--debug")
    assert 70 == debug.code
    assert "Traceback" in debug.err
    assert "zq-secret-in-a-message" in debug.err


def test_a_configuration_error_shows_its_traceback_only_with_debug(world: World, here: Callable[..., Ran]) -> None:
    assert "Traceback" in here("explain", "frontier", "--debug").err
    assert "Traceback" not in here("explain", "frontier").err


def test_a_standard_input_that_is_closed_is_said(world: World) -> None:
    world.write(GOOD)

    def closed(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "kandev_routing_sdk", *arguments]
        return ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command]

    for arguments, code in ((["run", "sol"], 2), (["classify"], 65), (["classify", "--jsonl"], 65)):
        ran = subprocess.run(
            closed(*arguments),
            check=False,
            cwd=world.folder,
            env=world.environ(),
            capture_output=True,
            encoding="utf-8",
        )
        assert code == ran.returncode, ran
        assert Ran(ran.returncode, ran.stdout, ran.stderr).error


@pytest.mark.parametrize("arguments", [["run", "fable", "hi"], ["run", "fable", "hi", "--json"]])
@pytest.mark.parametrize("target", [">&-", ">/dev/full"])
def test_an_output_that_takes_nothing_is_said_and_invites_no_repetition(
    world: World, arguments: list[str], target: str
) -> None:
    """The work was done: whoever cannot see its answer must not be told to run it again."""
    world.agent("fable", ScriptBuilder().say("done"))
    world.configure()
    command = f"{shlex.quote(sys.executable)} -m kandev_routing_sdk {shlex.join(arguments)} {target}"
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=world.folder,
        env=world.environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 70 == ended.returncode
    assert "Traceback" not in ended.stderr
    assert "before running it again look at kandev-routing calls" in ended.stderr
    assert 1 == len(world.agents["fable"].prompts)


@pytest.mark.parametrize("target", ["2>&-", "2>/dev/full"])
def test_progress_that_nobody_takes_changes_no_answer(world: World, target: str) -> None:
    """Standard error is for people; when there is none, the answer and the exit code stand."""
    world.agent("fable", ScriptBuilder().say("done"))
    world.configure()
    command = f"{shlex.quote(sys.executable)} -m kandev_routing_sdk run fable hi {target}"
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=world.folder,
        env=world.environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "done\n") == (ended.returncode, ended.stdout)
