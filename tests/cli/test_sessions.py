"""``sessions``: begun, looked at, gone on with and ended from the command line (R-CLI-1, R-ENG-6, R-ENG-7, R-ENG-11)."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.cli.snapshots import attempt_line
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.types import AttemptOutcome
from tests.cli._world import Ran, World, is_alive, wait_for
from tests.store._values import attempt

pytestmark = pytest.mark.usefixtures("quick")

WAIT = {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 7200}}}
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text("utf-8")


@pytest.fixture
def either(world: World, database_url: str) -> World:
    """The world on each engine."""
    world.url = database_url
    return world


@pytest.fixture
def limited(world: World) -> World:
    """Fable's allowance comes back in an hour, and its policy waits for that; Sol is free."""
    world.agent("fable", ScriptBuilder().fail_quota(3600), ScriptBuilder().say("Fable's answer"))
    world.agent("sol", ScriptBuilder().say("Sol's answer"))
    world.dynamic({"profile": "fable", "policy": WAIT}, "sol")
    world.configure()
    return world


def started(here: Callable[..., Ran], *arguments: str, profile: str = "frontier") -> str:
    """Begin a session and return its id."""
    ran = here("sessions", "start", profile, "zq-the-prompt", *arguments)
    assert ran.code in {0, 75, 79}, ran
    return ran.out.splitlines()[0]


def waiting(here: Callable[..., Ran]) -> str:
    """A session of ``limited`` that waits for the reset."""
    session = started(here)
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    return session


def shown(here: Callable[..., Ran], session: str, *options: str) -> Any:
    """What ``show`` says of a session, as JSON."""
    return here("sessions", "show", session, "--json", *options).document


# A whole life ------------------------------------------------------------------------------------------------------------


def test_a_session_is_begun_done_by_a_worker_gone_on_with_and_ended(either: World, here: Callable[..., Ran]) -> None:
    """Each step is a process of its own, as far as the store can tell, on both engines."""
    sol = either.agent("sol", ScriptBuilder().say("one"), ScriptBuilder().say("two"))
    either.dynamic("sol")
    either.configure()
    assert "there is no session yet\n" == here("sessions").out
    ran = here("sessions", "start", "frontier", "Fix it")
    session = ran.out.strip()
    assert (0, f"{session}\n") == (ran.code, ran.out)
    assert f"kandev-routing sessions show {session}" in ran.err
    before = shown(here, session)["session"]
    assert ("selecting", 0, True, []) == tuple(before[k] for k in ("state", "generation", "has_prompt", "actions"))
    assert 0 == len(sol.prompts)
    assert "1 came to rest" in here("worker", "--until-idle", "--poll", "0.05", "-q").out
    assert ("active", False) == tuple(shown(here, session)["session"][k] for k in ("state", "has_prompt"))
    ran = here("sessions", "prompt", session, "And the docs", "--here")
    assert (0, "two\n") == (ran.code, ran.out), ran
    assert ["Fix it", "And the docs"] == [p.prompt.partition("\n\n---")[0] for p in sol.prompts]
    ended = here("sessions", "stop", session, "--json").document["session"]
    assert ("stopped", []) == (ended["state"], ended["actions"])
    assert "stopped" == here("sessions", "stop", session, "--json").document["session"]["state"]
    (listed,) = here("sessions", "--json").document["sessions"]
    assert (session, "stopped") == (listed["session_id"], listed["state"])
    row = here("sessions").out.splitlines()[1].split("\t")
    assert [session, "frontier, with sol", "stopped", ""] == [row[0], *row[2:]]


def test_where_the_agents_work_is_kept_with_the_session(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    folder = world.folder / "elsewhere"
    folder.mkdir()
    started(here, "--cwd", "elsewhere", profile="sol")
    assert 0 == here("worker", "--until-idle", "--poll", "0.05").code
    assert [str(folder)] == [p.cwd for p in world.agents["sol"].prompts]


def test_the_prompt_may_come_from_a_file_or_from_standard_input(world: World, here: Callable[..., Ran]) -> None:
    sol = world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    (world.folder / "task.md").write_text("from a file", "utf-8")
    assert 0 == here("sessions", "start", "sol", "--prompt-file", "task.md", "--here").code
    ran = here("sessions", "start", "sol", "-", "--here", "--json", stdin="from a pipe")
    assert ("ok", 0) == (ran.document["text"], ran.document["exit_code"])
    session = ran.document["session"]["session_id"]
    assert 0 == here("sessions", "prompt", session, "--here", "-q", stdin="from another").code
    assert ["from a file", "from a pipe", "from another"] == [p.prompt.partition("\n\n---")[0] for p in sol.prompts]


# Here --------------------------------------------------------------------------------------------------------------------


def test_here_prints_the_answer_and_tells_the_progress_beside_it(limited: World, here: Callable[..., Ran]) -> None:
    limited.dynamic("fable", "sol")
    limited.configure()
    ran = here("sessions", "start", "frontier", "hi", "--here")
    assert (0, "Sol's answer\n") == (ran.code, ran.out), ran
    assert "attempt 1: fable" in ran.err
    assert "decision: next candidate" in ran.err
    assert "ready for the next prompt" in ran.err
    quiet = here("sessions", "start", "sol", "hi", "--here", "-q")
    assert (0, "Sol's answer\n", "") == (quiet.code, quiet.out, quiet.err)


@pytest.mark.parametrize(
    ("failure", "policy", "code", "state"),
    [
        (ScriptBuilder().fail_quota(3600), WAIT, 75, "waiting_for_reset"),
        (ScriptBuilder().fail_quota(3600), {}, 75, "waiting"),
        (ScriptBuilder().fail_auth(), {}, 79, "action_required"),
        (ScriptBuilder().tool(line="x").fail_overloaded(), {}, 79, "action_required"),
    ],
)
def test_here_the_exit_code_says_how_it_rests(  # noqa: PLR0917  # a table
    world: World, here: Callable[..., Ran], failure: ScriptBuilder, policy: Any, code: int, state: str
) -> None:
    world.agent("fable", failure)
    world.dynamic({"profile": "fable", "policy": policy} if policy else "fable")
    world.configure()
    ran = here("sessions", "start", "frontier", "hi", "--here", "--json")
    document = ran.document
    assert (code, code, state, None) == (
        ran.code,
        document["exit_code"],
        document["session"]["state"],
        document["text"],
    )
    assert (code == 75) is (document["session"]["deadline"] is not None)  # the documented code


def test_here_without_an_answer_prints_the_id_and_says_why(world: World, here: Callable[..., Ran]) -> None:
    world.agent("fable", ScriptBuilder().fail_auth())
    world.configure()
    ran = here("sessions", "start", "fable", "hi", "--here", "-q")
    assert 79 == ran.code, ran
    assert f"{ran.out.strip()} is action_required: a person has to act" in ran.error
    assert ran.out.strip() in ran.error


def test_a_signal_ends_the_agent_and_leaves_the_session_to_a_person(world: World, here: Callable[..., Ran]) -> None:
    """R-CON-11, R-DUR-3: the prompt had left, so nothing repeats it by itself."""
    agent = world.agent("sol", ScriptBuilder().say("first"), ScriptBuilder().hang(deaf=True))
    world.configure()
    session = here("sessions", "start", "sol", "hi", "--here", "--json").document["session"]["session_id"]
    process = world.start("sessions", "prompt", session, "second", "--here", "--json")
    wait_for(lambda: len(agent.prompts) == 2)  # the second prompt
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    document = json.loads(out)
    assert (143, 143, "action_required", "ambiguous_dispatch") == (
        process.returncode,
        document["exit_code"],
        document["session"]["state"],
        document["session"]["reason"],
    ), err
    assert not is_alive(agent.prompts[1].pid)
    assert "Traceback" not in err


def test_a_session_that_was_begun_here_and_interrupted_is_found_again(world: World, here: Callable[..., Ran]) -> None:
    """Its id was not printed yet."""
    agent = world.agent("sol", ScriptBuilder().hang())
    world.configure()

    def interrupt() -> None:
        wait_for(lambda: len(agent.prompts) == 1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    ran = here("sessions", "start", "sol", "hi", "--here")
    thread.join()
    assert (130, "", "interrupted") == (ran.code, ran.out, ran.error)
    assert "kandev-routing sessions lists what was begun" in ran.err
    assert not is_alive(agent.prompts[0].pid)
    (listed,) = here("sessions", "--json").document["sessions"]
    assert ("action_required", "ambiguous_dispatch") == (listed["state"], listed["reason"])


# What is shown -----------------------------------------------------------------------------------------------------------


def test_what_is_offered_can_be_given_as_it_is_shown(limited: World, here: Callable[..., Ran]) -> None:
    """R-ENG-6: a person sees what can be done; each line is a command."""
    session = waiting(here)
    lines = here("sessions", "show", session).out.split("what you can do\n")[1].splitlines()
    commands = [re.split(r"\s{2,}", line.strip())[0] for line in lines]
    assert ["retry_now", "skip_now", "cancel_wait", "stop"] == [shlex.split(c)[3] for c in commands]
    assert 0 == here(*shlex.split(commands[1])[1:]).code
    assert "kandev-routing" == shlex.split(commands[1])[0]
    assert 0 == here("worker", "--until-idle", "--poll", "0.05").code
    assert ("active", "sol") == tuple(shown(here, session)["session"][k] for k in ("state", "execution_profile_id"))
    (first, *_) = here("sessions", "show", session).out.split("what you can do\n")[1].splitlines()
    assert f'kandev-routing sessions prompt {session} "…"' in first


def test_a_session_says_where_it_is_why_and_until_when(limited: World, here: Callable[..., Ran]) -> None:
    session = waiting(here)
    document = shown(here, session)
    facts = document["session"]
    assert ("frontier", "fable", "waiting_for_reset", "reset_wait", 1, "quota_limited", "hard", "skip") == tuple(
        facts[k]
        for k in (
            "logical_profile_id",
            "execution_profile_id",
            "state",
            "reason",
            "generation",
            "code",
            "class",
            "pending_outcome",
        )
    )
    assert facts["deadline"].endswith("Z")
    assert [("fable", "failed", "quota_limited", "wait", 1)] == [
        (a["execution_profile_id"], a["outcome"], a["code"], a["decision"], a["prompt_number"])
        for a in document["history"]
    ]
    text = here("sessions", "show", session).out
    for line in (
        rf"session +{session}",
        r"profile +frontier, with fable",
        r"state +waiting_for_reset \(reset_wait\): waits for the reset, then the same candidate again",
        r"cause +quota_limited \(hard\): .*usage limit",
        r"goes on +.* UTC \(in (59 min|1 h).*\); after that the next candidate",
        r"prompt +kept until it is answered",
    ):
        assert re.search(rf"^{line}", text, re.MULTILINE), (line, text)
    assert not [key for key in facts if f"`{key}`" not in PAGE and not key.endswith("_at") and key != "session_id"]


def test_a_login_that_is_told_takes_the_sessions_on(world: World, here: Callable[..., Ran]) -> None:
    """R-CIR-7, R-ENG-6: nothing is closed unseen; the next launch finds out."""
    world.agent("fable", ScriptBuilder().fail_auth(), ScriptBuilder().say("logged in"))
    world.dynamic("fable")
    world.configure()
    session = started(here)
    assert 0 == here("worker", "--until-idle", "--poll", "0.05").code
    (advice,) = re.findall(r"^advice +(.+)$", here("sessions", "show", session).out, re.MULTILINE)
    assert advice.startswith("Sign in again")
    assert advice.endswith("Then: kandev-routing circuits retry --profile fable")
    (told,) = here("circuits", "retry", "--profile", "frontier", "--json").document["circuits"]
    assert ("open", False) == (told["state"], told["action_required"])
    assert 0 == here("worker", "--until-idle", "--poll", "0.05").code
    assert "active" == shown(here, session)["session"]["state"]
    assert "no resource of it waits for a person\n" == here("circuits", "retry", "--profile", "fable").out


def test_who_waits_for_anybody_is_offered_a_look_before_its_time(world: World, here: Callable[..., Ran]) -> None:
    """R-ENG-7: there is no "same candidate" for a session that waits for whoever is free first."""
    world.agent("fable", ScriptBuilder().fail_quota(3600))
    world.dynamic("fable")
    world.configure()
    session = started(here, "--here", "-q")
    text = here("sessions", "show", session).out
    assert "waiting (" in text
    assert re.search(r"retry_now --generation 1 +look for a candidate now, before its time$", text, re.MULTILINE)


def test_a_session_that_the_flag_stopped_says_how_it_goes_on(world: World, here: Callable[..., Ran]) -> None:
    """R-RES-4: not with the advice of an old cause."""
    world.agent("fable", ScriptBuilder().fail_auth())
    world.dynamic("fable")
    world.configure()
    session = started(here, "--here", "-q")
    world.configure(enabled=False)
    assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
    text = here("sessions", "show", session).out
    assert "action_required (dynamic_routing_disabled)" in text
    assert "advice     set dynamic_agent_routing = true under [features]; a worker then goes on" in text


def test_a_circuit_that_is_kept_for_a_retry_says_when_that_is(world: World, here: Callable[..., Ran]) -> None:
    """Nobody probes yet; in half a minute somebody will."""
    retry = {"transient": {"retry": {"enabled": True, "max_retries": 1, "initial_interval_seconds": 30}}}
    world.agent("luna", ScriptBuilder().fail_overloaded())
    world.dynamic({"profile": "luna", "policy": retry})
    world.configure()
    started(here, "--here", "-q")
    shown_now = here("circuits", "show", "provider:luna").out
    assert re.search(r"^state +half_open, kept for a retry at \S+ UTC \(in [23]\d s\)$", shown_now, re.MULTILINE)


def test_the_how_to_shows_what_is_really_shown(world: World, here: Callable[..., Ran]) -> None:
    """Word for word, apart from ids, times and versions."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "sessions.md").read_text("utf-8")
    told = re.findall(
        r"^```console\n\$ kandev-routing sessions show \S+(?: (--why))?\n(.+?)^```", page, re.MULTILINE | re.DOTALL
    )
    assert ["", "--why"] == [option for option, _ in told]
    policy = {"hard": {"wait_for_reset": {"enabled": True, "max_wait_seconds": 300}}}
    world.agent("fable", ScriptBuilder().fail_quota(90))
    world.agent("sol", ScriptBuilder().say("never"))
    world.dynamic({"profile": "fable", "policy": policy}, "sol")
    world.configure()
    session = waiting(here)
    for option, text in told:
        assert _masked(text) == _masked(here("sessions", "show", session, *option.split()).out)


def _masked(text: str) -> str:
    for pattern, mask in (
        (r"session:[0-9a-f]{28}", "SESSION"),
        (r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC( \(in [^)]*\))?", "TIME"),
        (r"\d{4}\.\d+\+[0-9a-f]{8}", "VERSION"),
    ):
        text = re.sub(pattern, mask, text)
    return text


# The list ----------------------------------------------------------------------------------------------------------------


def test_the_list_comes_in_pages_the_newest_first(either: World, here: Callable[..., Ran]) -> None:
    either.agent("sol", ScriptBuilder().say("ok"))
    either.configure()
    begun = [started(here, profile="sol") for _ in range(5)]
    assert 0 == here("run", "sol", "a call is no session", "-q").code
    pages, before = [], list[str]()
    while True:
        page = here("sessions", "list", "--limit", "2", "--json", *before).document
        pages.append([s["session_id"] for s in page["sessions"]])
        if page["next_before"] is None:
            break
        before = ["--before", page["next_before"]]
    assert [begun[4:2:-1], begun[2:0:-1], begun[:1]] == pages
    ran = here("sessions", "list", "--limit", "2")
    assert f"kandev-routing sessions list --before {begun[3]}" in ran.err
    assert 3 == len(ran.out.splitlines())
    assert 5 == len(here("sessions", "list", "--limit", "5", "--json").document["sessions"])
    assert "" == here("sessions", "list", "--limit", "5").err


def test_the_list_can_be_of_some_states_only(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    kept, ended = started(here, profile="sol"), started(here, profile="sol")
    assert 0 == here("sessions", "stop", ended).code
    listed = here("sessions", "list", "--state", "stopped", "--json").document["sessions"]
    assert [ended] == [s["session_id"] for s in listed]
    both = here("sessions", "list", "--state", "stopped", "--state", "selecting", "--json").document["sessions"]
    assert [ended, kept] == [s["session_id"] for s in both]
    assert "there is no such session\n" == here("sessions", "list", "--state", "waiting").out


# Why, and what happened --------------------------------------------------------------------------------------------------


def test_why_shows_every_decision_and_each_comes_out_the_same(either: World, here: Callable[..., Ran]) -> None:
    """R-ENG-11: made again by the same functions from what was stored, on both engines."""
    retry = {"transient": {"retry": {"enabled": True, "max_retries": 1, "initial_interval_seconds": 1}}}
    either.agent("fable", ScriptBuilder().fail_overloaded(), ScriptBuilder().fail_overloaded())
    either.agent("luna", ScriptBuilder().fail_quota(3600))
    either.agent("sol", ScriptBuilder().say("done"))
    either.dynamic({"profile": "fable", "policy": retry}, "luna", "sol")
    either.configure()
    session = started(here)

    def is_done() -> bool:
        assert 0 == here("worker", "--until-idle", "--poll", "0.05", "-q").code
        return bool(shown(here, session)["session"]["state"] == "active")

    wait_for(is_done)
    decisions = shown(here, session, "--why")["decisions"]
    answers = [d["answer"].get("kind") or d["answer"]["chosen"] for d in decisions]
    assert ["fable", "retry", "skip", "luna", "skip", "sol"] == answers
    assert [(True, None)] * 6 == [(d["same"], d["problem"]) for d in decisions]
    assert [d["answer"] for d in decisions] == [d["again"] for d in decisions]
    failed = [d["attempt"] for d in decisions if d["sort"] == "policy"]
    assert [529, 529, 429] == [a["evidence"]["http_status"] for a in failed]
    assert ["provider_overloaded", "provider_overloaded", "quota_limited"] == [
        a["classification"]["code"] for a in failed
    ]
    assert [[], [], []] == [a["classified_again"]["changes"] for a in failed]
    last = decisions[-1]["inputs"]
    assert ["fable", "luna"] == last["round"]["excluded"]
    assert {"provider_overloaded", "quota_limited"} == {c["code"] for c in last["circuits"].values()}
    text = here("sessions", "show", session, "--why").out
    assert "6 decisions made again from what was stored: all the same" in text
    assert re.search(r"^  policy +transient: retry after 1 s, then the next candidate", text, re.MULTILINE)
    assert re.search(r"^  seen +\[acp_error, -32603, status 429\] .*usage limit", text, re.MULTILINE)
    assert re.search(r"^  found +quota_limited \(hard\), confidence high, scope account, by ", text, re.MULTILINE)
    assert re.search(r"^  health +account:luna-provider\S* \w+: quota_limited, until ", text, re.MULTILINE)
    assert re.search(r"^  left out +fable, luna: had a visit", text, re.MULTILINE)


def test_nothing_that_is_shown_holds_a_prompt_or_what_fences_a_probe(limited: World, here: Callable[..., Ran]) -> None:
    session = waiting(here)
    for form in ([], ["--json"]):
        ran = here("sessions", "show", session, "--why", "--events", *form)
        assert "zq-the-prompt" not in ran.out
        assert "probe_token" not in ran.out
        assert f"{session}/1" not in ran.out
    listed = here("sessions", "--json").out
    assert "zq-the-prompt" not in listed


@pytest.mark.parametrize(
    ("damage", "same", "words"),
    [
        ("UPDATE kr_decision SET inputs = '{}' WHERE sort = 'selection'", [None, True], "cannot be made again"),
        ("UPDATE kr_decision SET inputs = '{}' WHERE sort = 'policy'", [True, None], "cannot be made again"),
        ("UPDATE kr_decision SET attempt_id = 'gone' WHERE sort = 'policy'", [True, None], "is not there"),
        (
            "UPDATE kr_decision SET answer = replace(answer, '\"wait\"', '\"stop\"')",
            [True, False],
            "ANOTHER ANSWER: wait for the reset",
        ),
    ],
)
def test_a_decision_that_does_not_come_out_the_same_says_so(
    limited: World, here: Callable[..., Ran], damage: str, same: list[bool | None], words: str
) -> None:
    """The test of --why itself: it can say no."""
    session = waiting(here)
    connection = sqlite3.connect(limited.database)
    with connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        assert connection.execute(damage).rowcount
    connection.close()
    assert same == [d["same"] for d in shown(here, session, "--why")["decisions"]]
    ran = here("sessions", "show", session, "--why")
    assert 0 == ran.code, ran
    assert words in ran.out
    assert "all the same" not in ran.out


def test_the_events_are_shown_in_order(limited: World, here: Callable[..., Ran]) -> None:
    session = waiting(here)
    events = shown(here, session, "--events")["events"]
    assert [
        "session.user_message",
        "session.route_changed",
        "session.capabilities_replaced",
        "session.turn_started",
        "session.turn_failed",
        "session.route_waiting",
    ] == [e["kind"] for e in events]
    assert sorted(e["sequence"] for e in events) == [e["sequence"] for e in events]
    lines = here("sessions", "show", session, "--events").out.splitlines()
    assert len(events) == len([line for line in lines if " session." in line])
    assert "session.route_waiting (reset_wait), generation 1: state waiting_for_reset, profile id fable" in lines[-1]


# What is wrong -----------------------------------------------------------------------------------------------------------

WRONG = {
    "show": (
        ["sessions", "show", "session:x"],
        2,
        "there is no session 'session:x'; kandev-routing sessions lists them",
    ),
    "stop": (["sessions", "stop", "session:x"], 2, "there is no session 'session:x'"),
    "prompt": (["sessions", "prompt", "session:x", "hi"], 2, "there is no session 'session:x'"),
    "page": (["sessions", "list", "--before", "session:x"], 2, "there is no session 'session:x'"),
    "state": (
        ["sessions", "list", "--state", "wating"],
        2,
        "--state: there is no state 'wating'; states are selecting,",
    ),
    "limit": (["sessions", "list", "--limit", "0"], 2, "--limit"),
    "profile": (["sessions", "start", "fronteer", "hi"], 2, "no profile 'fronteer'; profiles there are: "),
    "empty": (["sessions", "start", "fable", " "], 2, "the prompt is empty"),
    "twice": (["sessions", "start", "fable", "hi", "--prompt-file", "x"], 2, "given twice"),
    "words": (["sessions", "start", "fable", "fix", "it"], 2, "put it in quotes"),
    "more words": (["sessions", "prompt", "session:x", "fix", "it"], 2, "put it in quotes"),
    "folder": (
        ["sessions", "start", "fable", "hi", "--cwd", "nowhere"],
        2,
        "the working directory 'nowhere' does not exist",
    ),
    "file": (["sessions", "start", "fable", "--prompt-file", "nowhere.md"], 65, "nowhere.md cannot be read"),
    "verb": (["sessions", "begin", "fable", "hi"], 2, "begin"),
    "retry of nothing": (["circuits", "retry"], 2, "either the KEY of a circuit, or --profile PROFILE"),
    "retry of both": (["circuits", "retry", "k", "--profile", "fable"], 2, "either the KEY of a circuit"),
    "retry of nobody": (["circuits", "retry", "--profile", "fabel"], 2, "no profile 'fabel'"),
    "circuit": (["circuits", "show", "account:x"], 2, "no circuit has the key 'account:x'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence_with_the_way_out(world: World, here: Callable[..., Ran], case: str) -> None:
    """R-CLI-5."""
    world.agent("fable", ScriptBuilder().say("never"))
    world.dynamic("fable")
    world.configure()
    arguments, code, part = WRONG[case]
    ran = here(*arguments)
    assert (code, "") == (ran.code, ran.out), ran
    assert part in ran.error
    assert 0 == world.agents["fable"].starts
    assert "Traceback" not in ran.err


def test_a_call_is_no_session_and_says_where_it_is(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    call = here("run", "sol", "hi", "--json").document["call_id"]
    assert "a call, not a session: see kandev-routing calls" in here("sessions", "show", call).error


def test_with_dynamic_routing_off_nothing_is_begun(world: World, here: Callable[..., Ran]) -> None:
    """R-RES-4."""
    world.agent("sol", ScriptBuilder().say("ok"))
    world.dynamic("sol")
    world.configure(enabled=False)
    ran = here("sessions", "start", "frontier", "hi")
    assert 78 == ran.code
    assert "dynamic_agent_routing = true under [features]" in ran.error
    assert [] == here("sessions", "--json").document["sessions"]


def test_a_prompt_while_another_one_is_on_its_way_is_refused(world: World, here: Callable[..., Ran]) -> None:
    """R-ENG-7: a failed precondition, with the snapshot, and nothing changed."""
    world.agent("sol", ScriptBuilder().say("ok"))
    world.dynamic("sol")
    world.configure()
    session = started(here)
    before = shown(here, session)
    ran = here("sessions", "prompt", session, "more", "--json")
    assert (80, "turn_in_progress", session) == (
        ran.code,
        ran.document["error"]["code"],
        ran.document["session"]["session_id"],
    )
    assert before == shown(here, session)
    text = here("sessions", "prompt", session, "more")
    assert text.out.startswith("session ")
    assert "wait until it ends, or stop the session" in text.error


def test_looking_changes_nothing_and_makes_nothing(world: World, here: Callable[..., Ran]) -> None:
    world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    assert "there is no session yet\n" == here("sessions", "list").out
    assert not world.database.exists()
    session = started(here, profile="sol")
    before = world.database.read_bytes()
    assert 0 == here("sessions", "show", session, "--why", "--events").code
    assert 0 == here("sessions").code
    assert before == world.database.read_bytes()


def test_a_shell_can_complete_sessions(world: World, here: Callable[..., Ran]) -> None:
    """Their ids are long."""
    world.agent("sol", ScriptBuilder().say("ok"))
    world.configure()
    session = started(here, profile="sol")
    environ = {
        "_KANDEV_ROUTING_COMPLETE": "complete_bash",
        "COMP_WORDS": "kandev-routing sessions show sess",
        "COMP_CWORD": "3",
    }
    assert [session] == [offered.replace("\\", "") for offered in world.run(env=environ).out.split()]


def test_the_exact_prompts_are_shown(world: World, here: Callable[..., Ran]) -> None:
    """R-CON-3: what each agent was given, safe to look at on a terminal, and to the letter in JSON."""
    world.agent("fable", ScriptBuilder().fail_quota(3600))
    world.agent("sol", ScriptBuilder().say("done"))
    world.dynamic("fable", "sol")
    world.configure()
    session = here("sessions", "start", "frontier", "do \x1b[2Jit", "--here", "--json").document["session"][
        "session_id"
    ]
    first, second = here("sessions", "show", session, "--prompts", "--json").document["prompts"]
    assert (1, "fable", "do \x1b[2Jit") == (first["ordinal"], first["execution_profile_id"], first["text"])
    assert second["text"].startswith("do \x1b[2Jit\n\n--- Continuation note")
    shown = here("sessions", "show", session, "--prompts").out
    assert "Attempt 2, sol, was given at " in shown
    assert "\ndo [2Jit\n\n--- Continuation note" in shown
    assert "prompts" not in here("sessions", "show", session, "--json").document


@pytest.mark.parametrize(("number", "asked"), [(0, "started for no prompt"), (3, "prompt 3")])
def test_an_attempt_says_what_it_was_asked(number: int, asked: str) -> None:
    """A session that is begun without a message starts its agent, which is asked nothing."""
    assert f"1. sol ({asked}): silent" == attempt_line(attempt(prompt_number=number, outcome=AttemptOutcome.SILENT))
