"""``replay``: the rules of today and the failures of the past (R-CLS-6)."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
import textwrap
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.wire import result_schema
from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.ports import AttemptRecord
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.types import AttemptOutcome, Channel, Delivery, Phase
from tests.adapters._replay import recording
from tests.cli._world import Ran, World
from tests.store._values import attempt, classification, settled
from tests.store.test_replay import damage, fill

pytestmark = pytest.mark.usefixtures("quick")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAYER = Path(__file__).parents[1] / "adapters" / "player.py"
RECORDINGS = Path(__file__).parents[1] / "recordings"
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "replay.md"
PUZZLING = """
released = "2099.01"
[[rule]]
id = "own.puzzle.1"
code = "quota_limited"
channels = ["acp_error", "agent_notice", "stderr"]
pattern = ['{words}']
positive = ["{example}"]
negative = ["all is well"]
correlation = ["{example}"]
redaction = ["key «sk-ant-api03-Zq7xZq7xZq7xZq7xZq7xZq7x» {example}"]
"""
SAID = "The biscuits of your team are all eaten"
OWN = PUZZLING.format(words="biscuits of your team", example=SAID)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_rules()[1]


@pytest.fixture
def failed(world: World, here: Callable[..., Ran]) -> World:
    """Real calls of real processes, which failed in ways that are known, and in one that is not."""
    world.agent("fable", ScriptBuilder().fail_quota(7200), ScriptBuilder().fail_overloaded())
    world.agent("sol", ScriptBuilder().fail_auth())
    world.agent("luna", ScriptBuilder().fail_with(-32603, SAID))
    world.agent("terra", ScriptBuilder().say("done"))
    world.dynamic("fable", "sol", "terra")
    world.configure()
    assert 0 == here("run", "frontier", "hi", "-q").code
    assert 79 == here("run", "luna", "hi", "-q").code
    return world


def record(attempt_id: str, catalogue: Catalogue, *, age: int = 0, text: str = "x", **changes: Any) -> AttemptRecord:
    """A failure as it was judged by ``catalogue``."""
    evidence = Evidence(
        family="codex",
        phase=Phase.PROMPT_SEND,
        signals=(Signal(channel=Channel.AGENT_NOTICE, text=text),),
        observed_at=NOW,
        effects=Effects(delivery=Delivery.ACKNOWLEDGED, complete=True),
    )
    born = attempt(
        attempt_id,
        created_at=NOW - timedelta(seconds=age),
        ordinal=age + 1,
        **{k: changes.pop(k) for k in ("session_id", "family", "catalogue_version") if k in changes},
    )
    judged = {"evidence": evidence, "effects": evidence.effects, "classification": catalogue.classify(evidence)}
    return settled(born, **judged | changes)


def digests(world: World) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in world.files().items()}


def ids(ran: Ran) -> list[str]:
    return [a["attempt_id"] for a in ran.document["attempts"]]


# Real calls --------------------------------------------------------------------------------------------------------------


def test_the_same_rules_say_the_same_of_what_really_failed(failed: World, here: Callable[..., Ran]) -> None:
    """Stored evidence holds all that the answer then was made of."""
    ran = here("replay", "--json", "--check")
    assert (0, "") == (ran.code, ran.err), ran
    document = ran.document
    assert ["luna", "sol", "fable"] == [a["execution_profile_id"] for a in document["attempts"]]
    assert [("same", [])] * 3 == [(a["verdict"], a["changes"]) for a in document["attempts"]]
    assert [a["then"] for a in document["attempts"]] == [a["now"] for a in document["attempts"]]
    assert ["auth_required", "quota_limited"] == [a["then"]["code"] for a in document["attempts"]][1:]
    assert {"attempts": 4, "same": 3, "differs": 0, "no_evidence": 0, "unreadable": 0, "not_judged": 1} == {
        k: v for k, v in document["summary"].items() if k != "changes"
    }
    validator = jsonschema.Draft202012Validator(result_schema())
    answers = [a[side] for a in document["attempts"] for side in ("then", "now")]
    assert [] == [e.message for answer in answers for e in validator.iter_errors(answer)]


def test_a_rule_that_is_tried_differs_where_it_should_and_nowhere_else(failed: World, here: Callable[..., Ran]) -> None:
    (failed.folder / "own.toml").write_text(OWN)
    document = here("replay", "--json", "--rules", "own.toml").document
    assert ["differs", "same", "same"] == [a["verdict"] for a in document["attempts"]]
    luna = document["attempts"][0]
    assert ("unclassified", None) == (luna["then"]["class"], luna["then"]["classifier_rule"])
    assert ("hard", "quota_limited", "own.puzzle.1", True) == tuple(
        luna["now"][k] for k in ("class", "code", "classifier_rule", "automatic")
    )
    assert ["automatic", "class", "code", "scope", "confidence", "rule"] == luna["changes"]
    assert luna["then"]["catalogue_version"] == luna["catalogue_version"]
    assert document["catalogue_version"] == luna["now"]["catalogue_version"]
    assert document["catalogue_version"].startswith("2099.01+")
    assert (["own.toml"], 1, 0) == (document["rules"], document["summary"]["differs"], document["exit_code"])
    assert {"automatic": 1, "class": 1, "code": 1, "scope": 1, "timing": 0, "confidence": 1, "rule": 1} == (
        document["summary"]["changes"]
    )
    assert [luna] == here("replay", "--json", "--rules", "own.toml", "--changed").document["attempts"]


def test_what_differs_is_shown_to_a_person(failed: World, here: Callable[..., Ran]) -> None:
    (failed.folder / "own.toml").write_text(OWN)
    ran = here("replay", "--rules", "own.toml")
    assert (0, "") == (ran.code, ran.err), ran
    lines = ran.out.splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC attempt:\S+ luna \(scripted\) "
        r"differs: automatic, class, code, scope, confidence, rule",
        lines[0],
    ), lines[0]
    assert re.fullmatch(r"  then: \w+ \(unclassified\), confidence low, scope none, .*, by no rule of \S+", lines[1])
    assert (
        "  now:  quota_limited (hard), confidence high, scope account, no time, automatic, by own.puzzle.1" == lines[2]
    )
    assert f"  said: {SAID}" == lines[3]
    assert re.search(r" sol \(scripted\) same: auth_required by neutral\.\S+ of \S+$", lines[4])
    assert re.search(r" fable \(scripted\) same: quota_limited by neutral\.\S+ of \S+$", lines[5])
    assert re.fullmatch(
        r"3 attempts against catalogue 2099\.01\+\S{8} with own\.toml: "
        r"1 differs, 2 the same, 0 without evidence, 0 unreadable",
        lines[6],
    ), lines[6]
    assert "what differs: automatic 1, class 1, code 1, scope 1, confidence 1, rule 1" == lines[7]
    assert "1 more had nothing to judge: they succeeded, were cancelled, or still run" == lines[8]
    assert [*lines[:4], *lines[6:]] == here("replay", "--rules", "own.toml", "--changed").out.splitlines()


def test_a_check_tells_by_its_exit_code(failed: World, here: Callable[..., Ran]) -> None:
    (failed.folder / "own.toml").write_text(OWN)
    tried = ("replay", "--rules", "own.toml")
    assert (0, 1) == (here(*tried).code, here(*tried, "--check").code)
    assert 0 == here("replay", "--check").code
    ran = here(*tried, "--check", "--json")
    assert (1, 1) == (ran.code, ran.document["exit_code"])
    assert 1 == here(*tried, "--check", "--jsonl").code
    assert 0 == here(*tried, "--check", "--family", "claude").code


def test_one_attempt_a_line(failed: World, here: Callable[..., Ran]) -> None:
    ran = here("replay", "--jsonl")
    assert 0 == ran.code, ran
    assert here("replay", "--json").document["attempts"] == [json.loads(line) for line in ran.out.splitlines()]
    assert "3 attempts against catalogue " in ran.err


def test_no_byte_of_the_state_changes_and_history_says_what_it_said(failed: World, here: Callable[..., Ran]) -> None:
    (failed.folder / "own.toml").write_text(OWN)
    call = here("calls", "--json").document["calls"][0]["call_id"]
    before, told = digests(failed), here("calls", "show", call, "--json").document
    for arguments in ([], ["--rules", "own.toml", "--json"], ["--call", call], ["--changed", "--check", "--jsonl"]):
        assert 0 == here("replay", *arguments).code
    assert before == digests(failed)
    assert told == here("calls", "show", call, "--json").document
    failed.database.chmod(0o400)
    assert 3 == len(here("replay", "--json").document["attempts"])


def test_filters_narrow_and_say_so_when_nothing_has_that_id(failed: World, here: Callable[..., Ran]) -> None:
    every = ids(here("replay", "--json"))
    calls = [c["call_id"] for c in here("calls", "--json").document["calls"]]
    assert every[:1] == ids(here("replay", "--json", "--call", calls[0]))
    assert every[1:] == ids(here("replay", "--json", "--call", calls[1]))
    assert every[1:2] == ids(here("replay", "--json", "--attempt", every[1]))
    assert every == ids(here("replay", "--json", "--family", "scripted", "--since", "1h"))
    assert [] == ids(here("replay", "--json", "--family", "claude"))
    assert every[:1] == ids(here("replay", "--json", "--limit", "1"))
    assert 2 == here("replay", "--json", "--limit", "2").document["summary"]["attempts"]
    assert [] == ids(here("replay", "--json", "--since", "2999-01-01"))
    for option, what in (("--call", "calls lists them"), ("--attempt", "replay lists them")):
        ran = here("replay", option, "nobody")
        assert (2, "") == (ran.code, ran.out)
        assert "'nobody'" in ran.error
        assert what in ran.error


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-03-01", ["a0", "a1"]),
        ("2026-03-01T11:59:59Z", ["a0", "a1"]),
        ("2026-03-01T12:59:59.5+01:00", ["a0"]),
        ("2026-03-01 11:59:59.5", ["a0"]),
        ("520w", ["a0", "a1"]),
        ("1s", []),
    ],
)
def test_since_is_a_day_a_moment_or_a_length(
    world: World, here: Callable[..., Ran], catalogue: Catalogue, given: str, expected: list[str]
) -> None:
    fill(_made(world), record("a0", catalogue), record("a1", catalogue, age=1))
    assert expected == ids(here("replay", "--store", world.url, "--json", "--since", given))


@pytest.mark.parametrize("given", ["soon", "", "-1d", "1y", "2026-13-01", "999999999w", "9999999999h", "1.5h"])
def test_since_that_is_neither_is_2(world: World, here: Callable[..., Ran], given: str) -> None:
    ran = here("replay", "--store", world.url, f"--since={given}")
    assert (2, "") == (ran.code, ran.out), ran
    assert "write 90m, 24h, 7d, 2026-11-30 or 2026-11-30T08:00Z" in ran.error
    assert {} == world.files()


RECORDED = (
    "claude/headless/529_overloaded.json",
    "claude-agent-acp/acp/tool_then_529.json",
    "codex/headless/tool_then_500.json",
    "codex-acp/acp/failed_rate_limit.json",
    "opencode/headless/402_billing.json",
    "opencode/acp/401_invalid_key.json",
)


def test_recorded_runs_of_real_agents_say_the_same_again(world: World, here: Callable[..., Ran]) -> None:
    """What their adapters saw is kept as it was judged: structure, channels, phases, effects."""
    for number, name in enumerate(RECORDED):
        family = next(f for f in ("claude", "codex", "opencode") if f in name)
        world.profiles[f"p{number}"] = {
            "family": family,
            "transport": recording(name)["mode"],
            "command": [sys.executable, str(PLAYER), str(RECORDINGS / name)],
        }
    world.configure()
    for number in range(len(RECORDED)):
        assert 0 != here("run", f"p{number}", "Say hello.", "-q").code
    ran = here("replay", "--json")
    assert [("same", [])] * len(RECORDED) == [(a["verdict"], a["changes"]) for a in ran.document["attempts"]]
    assert [a["then"] for a in ran.document["attempts"]] == [a["now"] for a in ran.document["attempts"]]


# What else a store may hold ----------------------------------------------------------------------------------------------


def _made(world: World) -> str:
    world.database.parent.mkdir(exist_ok=True)
    return world.url


def test_it_works_on_every_back_end(database_url: str, here: Callable[..., Ran], catalogue: Catalogue) -> None:
    records = [record(f"a{n:03}", catalogue, age=n, text="You've hit your usage limit.") for n in range(205)]
    fill(database_url, *records)
    ran = here("replay", "--store", database_url, "--json")
    assert ([r.attempt_id for r in records], 205) == (ids(ran), ran.document["summary"]["same"])


def test_an_attempt_without_evidence_is_named(world: World, here: Callable[..., Ran], catalogue: Catalogue) -> None:
    """What was said of it stays; nothing is asked that has no answer."""
    bare = record("bare", catalogue, evidence=None, classification=classification())
    fill(_made(world), bare, record("whole", catalogue, age=1))
    document = here("replay", "--store", world.url, "--json", "--check").document
    assert [("bare", "no_evidence"), ("whole", "same")] == [
        (a["attempt_id"], a["verdict"]) for a in document["attempts"]
    ]
    assert (None, "quota_limited", True) == (
        document["attempts"][0]["now"],
        document["attempts"][0]["then"]["code"],
        document["attempts"][0]["then"]["automatic"],
    )
    assert (1, 0) == (document["summary"]["no_evidence"], document["exit_code"])
    assert (
        "bare sol (codex) no evidence was kept\n  then: quota_limited (hard)"
        in here("replay", "--store", world.url).out
    )


def test_what_was_no_failure_is_counted_and_not_asked_about(
    world: World, here: Callable[..., Ran], catalogue: Catalogue
) -> None:
    """Also where its evidence holds words of a failure: it succeeded."""
    answered: dict[str, Any] = {"outcome": AttemptOutcome.SUCCESS, "classification": None, "decision": None}
    records = [
        record("won", catalogue, text="API Error: 529 Overloaded", **answered),
        record("cancelled", catalogue, age=1, **answered | {"outcome": AttemptOutcome.CANCELLED}),
        replace(attempt("running", ordinal=3), evidence=None),
    ]
    fill(_made(world), *records)
    ran = here("replay", "--store", world.url)
    assert [
        "0 attempts against catalogue "
        + catalogue.version
        + ": 0 differ, 0 the same, 0 without evidence, 0 unreadable",
        "3 more had nothing to judge: they succeeded, were cancelled, or still run",
    ] == ran.out.splitlines()


def test_a_damaged_row_is_named_and_hides_no_other(
    world: World, here: Callable[..., Ran], catalogue: Catalogue
) -> None:
    """Nothing of what stands there is repeated: it may be anything."""
    fill(_made(world), *(record(f"a{n}", catalogue, age=n) for n in range(4)))
    damage(world.url, "a1", evidence='{"signals": "zq-canary"')
    damage(world.url, "a2", classification='{"code": "zq-canary"}', catalogue_version="2031.07+ffffffff")
    document = (ran := here("replay", "--store", world.url, "--json", "--changed")).document
    assert [("a1", ["evidence"]), ("a2", ["classification"])] == [
        (a["attempt_id"], a["unreadable"]) for a in document["attempts"]
    ]
    assert (2, 2) == (document["summary"]["same"], document["summary"]["unreadable"])
    shown = here("replay", "--store", world.url, "--check")
    assert 0 == shown.code
    assert "a1 sol (codex) cannot be read: evidence\n  then: " in shown.out
    assert "a2 sol (codex) cannot be read: classification\n" in shown.out
    assert "zq-canary" not in ran.out + ran.err + shown.out + shown.err


def test_catalogues_of_other_days_are_shown_as_they_are(
    world: World, here: Callable[..., Ran], catalogue: Catalogue
) -> None:
    old = classification(classifier_rule="gone.rule.7", catalogue_version="1999.01+00000000")
    row = record("old", catalogue, classification=old, catalogue_version="1999.01+00000000")
    fill(_made(world), row)
    (shown,) = here("replay", "--store", world.url, "--json").document["attempts"]
    assert ("1999.01+00000000", "gone.rule.7", "1999.01+00000000", catalogue.version) == (
        shown["catalogue_version"],
        shown["then"]["classifier_rule"],
        shown["then"]["catalogue_version"],
        shown["now"]["catalogue_version"],
    )
    assert "by gone.rule.7 of 1999.01+00000000" in here("replay", "--store", world.url).out


def test_what_an_older_version_left_uncleaned_is_not_shown(
    world: World, here: Callable[..., Ran], catalogue: Catalogue
) -> None:
    """R-EVI-5, in the answers of then as in those of now."""
    secret = "sk-ant-api03-" + "Zq7x" * 12
    said = f"API Error: 529 Overloaded {secret}"
    leaked = classification(safe_excerpt=said)
    fill(_made(world), record("a", catalogue, text=said, classification=leaked))
    for arguments in ([], ["--json"], ["--jsonl"], ["--debug"]):
        ran = here("replay", "--store", world.url, *arguments)
        assert "529 Overloaded" in ran.out
        assert secret not in ran.out + ran.err


def test_control_characters_reach_no_terminal(world: World, here: Callable[..., Ran], catalogue: Catalogue) -> None:
    fill(_made(world), record("a", catalogue, text="\x1b[2J\x1b]0;pwned\x07 oh", classification=classification()))
    out = here("replay", "--store", world.url).out
    assert "oh" in out
    assert "\x1b" not in out


# What may be wrong -------------------------------------------------------------------------------------------------------


def test_without_a_database_there_is_nothing_and_none_is_made(world: World, here: Callable[..., Ran]) -> None:
    ran = here("replay", "--store", world.url)
    assert (0, "") == (ran.code, ran.err)
    said, counts = ran.out.splitlines()
    assert f"there is no database {world.database} yet" == said
    assert counts.startswith("0 attempts against catalogue ")
    assert ([], 0) == ((document := here("replay", "--store", world.url, "--json").document)["attempts"],
                       document["summary"]["attempts"])  # fmt: skip
    assert 2 == here("replay", "--store", world.url, "--call", "utility:x").code
    assert {} == world.files()


def test_a_check_of_a_database_that_is_not_there_is_73(world: World, here: Callable[..., Ran]) -> None:
    """A mistyped path would keep a build green for ever."""
    for form in ([], ["--jsonl"]):
        ran = here("replay", "--check", *form, "--store", world.url)
        assert (73, "") == (ran.code, ran.out), ran
        assert f"there is no database {world.database}, so nothing could be checked; name the right one" in ran.error
    document = here("replay", "--check", "--json", "--store", world.url).document
    assert (73, "store_unavailable") == (document["exit_code"], document["error"]["code"])
    assert {} == world.files()


@pytest.mark.parametrize("command", ["classify", "replay"])
def test_one_form_at_a_time(here: Callable[..., Ran], command: str) -> None:
    ran = here(command, "--json", "--jsonl", stdin="x")
    assert 2 == ran.code, ran
    assert "--json prints one document, --jsonl one a line; give one of the two" in ran.err + ran.out


def test_a_database_that_cannot_be_used_is_73(failed: World, here: Callable[..., Ran]) -> None:
    """As for every command that reads it: newer, damaged, no database at all; left as it is."""
    with sqlite3.connect(failed.database) as connection:
        connection.execute("UPDATE kr_version SET version_num = '9999'")
    connection.close()
    before = failed.database.read_bytes()
    ran = here("replay")
    assert (73, "") == (ran.code, ran.out), ran
    assert "upgrade the package" in ran.error
    document = here("replay", "--json").document
    assert (73, "schema_too_new") == (document["exit_code"], document["error"]["code"])
    other = failed.folder / "text.db"
    other.write_text("no database " * 1000)
    ran = here("replay", "--store", f"sqlite:///{other}")
    assert (73, "") == (ran.code, ran.out), ran
    assert "is not an SQLite database" in ran.error
    assert before == failed.database.read_bytes()


def test_thousands_are_read_page_by_page(world: World, here: Callable[..., Ran], catalogue: Catalogue) -> None:
    """What is held at once does not grow with the store: 30 MB of evidence pass through less than a third of that."""
    first = record("a0000", catalogue, text="You've hit your usage limit.")
    assert first.evidence is not None
    noise = Signal(channel=Channel.STDERR, text="\n".join(["nothing to see here"] * 200))
    first = replace(
        first, evidence=first.evidence.model_copy(update={"signals": (*[noise] * 4, *first.evidence.signals)})
    )
    rows = [
        replace(first, attempt_id=f"a{n:04}", ordinal=n + 1, created_at=NOW - timedelta(seconds=n)) for n in range(2000)
    ]
    fill(_made(world), *rows)
    assert world.database.stat().st_size > 30_000_000
    here("replay", "--store", world.url, "--limit", "1")  # what is only loaded once
    tracemalloc.start()
    try:
        started = time.monotonic()
        ran = here("replay", "--store", world.url, "--json", "--changed")
        took, (_, peak) = time.monotonic() - started, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 2000 == ran.document["summary"]["same"]
    assert peak < 10_000_000, peak
    assert took < 100, took


# The how-to --------------------------------------------------------------------------------------------------------------


def test_the_how_tos_rule_does_what_the_how_to_says(
    world: World, here: Callable[..., Ran], catalogue: Catalogue
) -> None:
    page = HOW_TO.read_text("utf-8")
    (rule,) = re.findall(r"^ *```toml\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL)
    (world.folder / "fairuse.toml").write_text("\n".join(line.strip() for line in rule.splitlines()))
    tried = record("01a22c2e", catalogue, text="The fair use of your team is spent, ask an owner")
    assert tried.evidence is not None
    tried = replace(
        tried,
        execution_profile_id="work",
        family="claude",
        evidence=tried.evidence.model_copy(update={"family": "claude", "effects": None}),
    )
    fill(_made(world), tried)
    shown = here("replay", "--store", world.url, "--rules", "fairuse.toml", "--changed").out
    assert shown.splitlines()[0].endswith(" 01a22c2e work (claude) differs: class, code, scope, confidence, rule")
    for line in (line.split(" of ")[0] for line in shown.splitlines()[1:4]):
        assert line in page
    assert "what differs: class 1, code 1, scope 1, confidence 1, rule 1" in shown
    assert "1 differs, 0 the same, 0 without evidence, 0 unreadable" in shown


def test_the_how_tos_script_writes_what_classify_reads(failed: World, here: Callable[..., Ran]) -> None:
    """Every failure as it was seen, channels and all, with the answer that it got then."""
    (script,) = re.findall(r"^ *```python\n(.*?)^ *```", HOW_TO.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=failed.folder, env=failed.environ(), capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert (0, "") == (ran.returncode, ran.stderr)
    records = [json.loads(line) for line in ran.stdout.splitlines()]
    assert any(signal["text"] == SAID for r in records for signal in r["evidence"]["signals"])
    again = [json.loads(line) for line in here("classify", "--jsonl", stdin=ran.stdout).out.splitlines()]
    attempts = here("replay", "--json").document["attempts"]
    assert {a["attempt_id"]: a["then"]["code"] for a in attempts} == {a["id"]: a["code"] for a in again}
