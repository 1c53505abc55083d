"""``classify``: text, JSON, one record a line (R-CLI-4, evidence-format)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kandev_routing_sdk.catalogue.wire import result_schema
from kandev_routing_sdk.opening import load_rules
from tests.cli._world import Ran, World

CORPUS = Path(__file__).parents[1] / "data" / "corpus-dev.jsonl"
LIMIT = "You've hit your usage limit. Try again in 6m0s."


def _record(record_id: str, **evidence: Any) -> str:
    base = {"family": "claude", "phase": "prompt_send", "signals": [{"channel": "agent_notice", "text": LIMIT}]}
    return json.dumps({"id": record_id, "evidence": {**base, **evidence}})


def test_the_whole_corpus_is_answered_in_order(here: Callable[..., Ran]) -> None:
    """Every line has its result, by the published schema, and no negative is called a provider failure."""
    records = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
    assert (178, 38) == (len(records), sum(r["negative"] for r in records))
    ran = here("classify", "--jsonl", stdin=CORPUS.read_text("utf-8"))
    assert (0, "") == (ran.code, ran.err)
    results = [json.loads(line) for line in ran.out.splitlines()]
    assert [r["id"] for r in records] == [r["id"] for r in results]
    validator = jsonschema.Draft202012Validator(result_schema())
    assert [] == [e.message for r in results for e in validator.iter_errors(r)]
    wrong = [
        r["id"] for r, given in zip(records, results, strict=True) if r["negative"] and given["class"] != "unclassified"
    ]
    assert [] == wrong


def test_results_come_as_the_records_do(world: World) -> None:
    """One may hold the pipe open and read each answer."""
    process = world.start("classify", "--jsonl", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in ("a", "b"):
        process.stdin.write(_record(number) + "\n")
        process.stdin.flush()
        assert number == json.loads(process.stdout.readline())["id"]
    out, err = process.communicate(timeout=60)
    assert (0, "", "") == (process.returncode, out, err)


def test_a_broken_line_is_named_and_keeps_back_no_answer(here: Callable[..., Ran]) -> None:
    """The sentence names line and field; every other line has its answer, in order."""
    lines = [_record("a"), "", _record("b"), _record("c", phase="lunch"), _record("d")]
    ran = here("classify", "--jsonl", stdin="\n".join(lines))
    assert 65 == ran.code, ran
    assert ["a", "b", "d"] == [json.loads(line)["id"] for line in ran.out.splitlines()]
    assert ran.error.startswith("line 4 (id c): evidence.phase: 'lunch' is none of ")


def test_every_broken_line_is_named(here: Callable[..., Ran]) -> None:
    lines = ["{", _record("a"), "\x00", _record("b", signals=[{"chanel": "stderr"}]), "[" * 100_000, _record("c")]
    ran = here("classify", "--jsonl", "--explain", stdin="\n".join(lines))
    assert 65 == ran.code, ran
    assert ["a", "c"] == [json.loads(line)["id"] for line in ran.out.splitlines()]
    assert ["error: line 1", "error: line 3", "error: line 4", "error: line 5"] == [
        line[: len("error: line 1")] for line in ran.err.splitlines()
    ]
    assert "evidence.signals[0].channel is missing; give it in place of 'chanel'" in ran.err


def test_a_line_that_is_too_long_is_left_out_whole(here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it is no line of its own, wherever it ends."""
    monkeypatch.setattr("kandev_routing_sdk.cli.classify.MAX_LINE_BYTES", 300)
    for length in (300, 301, 302, 602, 603, 1000):
        ran = here("classify", "--jsonl", stdin="\n".join([_record("a"), " " + "x" * length, _record("b")]))
        assert (65, ["a", "b"]) == (ran.code, [json.loads(line)["id"] for line in ran.out.splitlines()]), length
        assert "line 2 is longer than 300 bytes; split its record" == ran.error


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1: it is a list"),
        ('"text"', "line 1: it is a string"),
        ("{}", "line 1: evidence is missing"),
        ('{"evidence": {"family": "x", "phase": "streaming"}}', "evidence.signals is missing"),
        (_record("a", signals=[{"channel": "stderr", "txt": "x"}]), "did you mean 'text'?"),
        (_record("a", signals={}), "line 1 (id a): evidence.signals: it is an object; give it a list"),
        (_record("a", signals=[3]), "evidence.signals[0]: it is a number; give it an object"),
        (_record("a", family=None), "evidence.family: it is null; give it a string"),
        (_record("a", exit_code="one"), "evidence.exit_code: it is a string; give it a whole number"),
        (_record("a", signals=[{"channel": "stderr", "code": []}]), "code: it is a list; give it a whole number or a"),
        (_record("a", signals=[{"channel": "http", "headers": []}]), "headers: it is a list; give it an object"),
        (_record("a", effects={"output": "perhaps"}), "effects.output: it is a string; give it true or false"),
        (_record("a", effects=[]), "evidence.effects: it is a list; give it an object"),
        (_record("a", exit_code=float("nan")), "line 1 is not JSON (NaN is no JSON number)"),
        ("[" * 100_000, "line 1 is not"),
        (
            '{"id": ' + "9" * 5000 + "}",
            "line 1 holds a number of thousands of digits; shorten it, or write it as a string",
        ),
        ('{"family": "x", "phase": "streaming"}', "line 1: signals is missing; give it"),
        (
            '{"id": "a", "family": "x", "phase": "streaming", "signals": []}',
            'a record with an id is {"id": …, "evidence": {…}}',
        ),
    ],
)
def test_what_is_wrong_with_a_record_is_said(here: Callable[..., Ran], line: str, part: str) -> None:
    ran = here("classify", "--jsonl", stdin=line + "\n")
    if line.startswith("[[") and "nested too deeply" in ran.err:
        part = "nested too deeply"
    assert (65, "") == (ran.code, ran.out), ran
    assert part in ran.error


def test_bytes_that_are_no_text_are_said(world: World, here: Callable[..., Ran]) -> None:
    (world.folder / "e.jsonl").write_bytes(_record("a").encode() + b"\n\xff\n")
    ran = here("classify", "e.jsonl", "--jsonl")
    assert 65 == ran.code
    assert "line 2 is not UTF-8 text (byte 0); convert it to UTF-8" == ran.error
    (world.folder / "e.txt").write_bytes(b"\xff")
    assert "e.txt is not UTF-8 text" in here("classify", "e.txt").error
    assert "nowhere.txt cannot be read" in here("classify", "nowhere.txt").error
    assert "nowhere.txt cannot be read" in here("classify", "--jsonl", "nowhere.txt").error
    assert "there is nothing to classify" in here("classify", stdin=" \n").error


def test_text_is_enough(world: World, here: Callable[..., Ran]) -> None:
    ran = here("classify", "--family", "claude", stdin=LIMIT)
    assert 0 == ran.code, ran
    assert ran.out.startswith("quota_limited (hard), confidence high, scope account\nrule: ")
    assert "automatic recovery: not allowed" in ran.out
    assert f"said: {LIMIT}" in ran.out
    assert {} == world.files()


def test_one_record_as_json(here: Callable[..., Ran]) -> None:
    effects = {
        "delivery": "acknowledged", "output": False, "thinking": False, "tool_call": False, "tool_effect": False, "complete": True,
    }  # fmt: skip
    document = here("classify", "--json", stdin=_record("x1", effects=effects)).document
    assert ("x1", "quota_limited", "hard", 360, True) == tuple(
        document[k] for k in ("id", "code", "class", "retry_after_s", "automatic")
    )
    jsonschema.validate(document, result_schema())


def test_bare_evidence_and_a_family_from_outside(here: Callable[..., Ran]) -> None:
    evidence = {"phase": "prompt_send", "signals": [{"channel": "agent_notice", "text": LIMIT}]}
    assert (
        "quota_limited" == here("classify", "--family", "codex", "--json", stdin=json.dumps(evidence)).document["code"]
    )
    failed = here("classify", "--json", stdin=json.dumps(evidence))
    assert (65, "bad_input") == (failed.code, failed.document["error"]["code"])
    assert "family is missing; give it, or use --family" == failed.document["error"]["message"]


BODY = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    "text",
    [json.dumps(BODY), json.dumps(BODY, indent=2), json.dumps([BODY]), "[2026-11-30] API Error: 529 Overloaded",
     json.dumps(BODY)[:-1] + " Overloaded", json.dumps(BODY) + "\n" + json.dumps(BODY)],
    ids=["body", "pretty", "list", "log line", "broken", "lines"],
)  # fmt: skip
def test_json_that_is_no_record_is_text(here: Callable[..., Ran], text: str) -> None:
    """What a person pastes first is the body of an error."""
    document = here("classify", "--json", stdin=text).document
    assert ("provider_overloaded", False) == (document["code"], document["automatic"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps({"family": "claude", "phase": "streaming"}), "signals is missing; give it"),
        (json.dumps({"family": "claude", "phase": "streeming", "signals": []}), "phase: 'streeming' is none of "),
        (
            json.dumps({"evidense": {"family": "claude"}}),
            "evidence is missing; put family, phase and signals in it; did you",
        ),
        ('{"evidence": {', "standard input is not JSON"),
        (
            _record("a") + "\n\n" + _record("b"),
            "standard input holds more than one JSON value; write one record a line",
        ),
        ("[" + _record("a") + "]", "standard input is a list of records; write one record a line and use --jsonl"),
        ('{"a": ' + "9" * 5000 + "}", "standard input holds a number of thousands of digits; shorten it"),
        (
            json.dumps(
                {"family": "x", "phase": "streaming", "signals": [{"channel": "http", "headers": {"k" * 5000: 1}}]}
            ),
            "signals[0].headers.",
        ),
    ],
)
def test_what_was_meant_for_a_record_is_told(here: Callable[..., Ran], text: str, message: str) -> None:
    """By the names that its author wrote, in one short line."""
    ran = here("classify", stdin=text)
    assert (65, "") == (ran.code, ran.out), ran
    assert ran.error.startswith(message), ran
    assert len(ran.error) < 500


def test_why_nothing_follows_is_always_said(here: Callable[..., Ran]) -> None:
    """R-SAFE-1: of a text nothing is known of the effects, and that is the reason."""
    line = "automatic recovery: not allowed (nothing is known of the effects)"
    assert line in here("classify", stdin="API Error: 529 Overloaded").out.splitlines()
    effects = {"delivery": "acknowledged", "complete": True}
    assert "automatic recovery: allowed" in here("classify", stdin=_record("a", effects=effects)).out.splitlines()
    seen = here("classify", stdin=_record("a", effects={**effects, "output": True})).out
    assert "automatic recovery: not allowed (" in seen


def test_no_secret_comes_out_again_wherever_it_stood(here: Callable[..., Ran]) -> None:
    """R-EVI-5: in what an envelope says beside its signals, in refused keys and values, and in place of a file."""
    secret = "sk-ant-api03-" + "Zq7x" * 12
    said = [_record("a", provider_id=secret, model_id=secret), _record("b", family=secret)]
    said += [_record("c", **{secret: 1}), _record("d", phase=secret), _record(secret, phase="x")]
    ran = here("classify", "--jsonl", "--explain", stdin="\n".join(said))
    assert 65 == ran.code
    assert ["a", "b"] == [json.loads(line)["id"] for line in ran.out.splitlines()]
    assert 3 == len(ran.err.splitlines())
    assert secret not in ran.out + ran.err
    for arguments in (["--jsonl"], []):
        missing = here("classify", f"invalid key {secret}", *arguments)
        assert 65 == missing.code
        assert "cannot be read" in missing.error
        assert secret not in missing.err


def test_explain_says_why(here: Callable[..., Ran]) -> None:
    """R-CLI-4: with the rule and why."""
    ran = here("classify", "--explain", stdin=_record("x"))
    assert "automatic recovery: not allowed (nothing is known of the effects)" in ran.out
    assert ": won: says quota_limited of a signal on agent_notice" in ran.out
    document = here("classify", "--explain", "--json", stdin=_record("x")).document
    assert "won" == document["rules"][0]["fate"]


FATES = ("won", "conflict", "agreed", "outranked", "no_match", "not_applicable")
MIXED = _record(
    "mixed",
    signals=[
        {"channel": "stderr", "text": "API Error: 429 usage limit reached; rate limit"},
        {"channel": "http", "http_status": 429, "data": {"error": {"message": "credit balance is too low"}}},
    ],
)


def test_explain_names_every_rule_once_the_deciding_ones_first(here: Callable[..., Ran]) -> None:
    """R-CLI-4: each rule with what became of it and why, in documents and in lines alike."""
    document = here("classify", "--explain", "--json", stdin=MIXED).document
    rules = document["rules"]
    assert sorted(r.id for r in load_rules()[1].rules) == sorted(r["rule"] for r in rules)
    places = [FATES.index(r["fate"]) for r in rules]
    assert sorted(places) == places
    assert all(r["why"] for r in rules)
    assert {"won", "outranked", "no_match", "not_applicable"} <= {r["fate"] for r in rules}
    (line,) = here("classify", "--explain", "--jsonl", stdin=MIXED).out.splitlines()
    assert document == json.loads(line)


def test_explain_in_text_counts_the_rules_that_have_no_say(here: Callable[..., Ran]) -> None:
    rules = here("classify", "--explain", "--json", stdin=MIXED).document["rules"]
    ran = here("classify", "--explain", stdin=MIXED)
    matching = [r for r in rules if r["fate"] in {"won", "outranked", "agreed", "conflict"}]
    shown = [line for line in ran.out.splitlines() if line.startswith("  ")]
    assert [f"  {r['rule']}: {r['fate']}: {r['why']}" for r in matching] == shown
    silent, foreign = (sum(r["fate"] == fate for r in rules) for fate in ("no_match", "not_applicable"))
    assert f"other rules: {silent} find nothing that they look for, {foreign} do not apply " in ran.out
    every = here("classify", "--explain", "--all", stdin=MIXED).out
    assert [r["rule"] for r in rules] == [
        line.strip().partition(":")[0] for line in every.splitlines() if line.startswith("  ")
    ]
    assert "other rules" not in every
    assert every == here("classify", "--all", stdin=MIXED).out
    assert "no rule matches\n" in here("classify", "--explain", stdin="hm").out


OWN_RULE = """
released = "2026.12"
[[rule]]
id = "own.biscuits.1"
code = "quota_limited"
pattern = ["out of biscuits"]
positive = ["We are out of biscuits"]
negative = ["There are biscuits"]
correlation = ["out of biscuits"]
redaction = ["key «sk-ant-api03-Zq7xZq7xZq7xZq7xZq7xZq7x»: out of biscuits"]
"""


def test_rules_can_be_tried(world: World, here: Callable[..., Ran]) -> None:
    """R-CLS-6: beside the installed ones, and only for this run."""
    (world.folder / "own.toml").write_text(OWN_RULE)
    said = "Sorry, out of biscuits"
    before = here("classify", "--json", stdin=said).document
    tried = here("classify", "--json", "--rules", "own.toml", stdin=said).document
    assert (None, "own.biscuits.1") == (before["classifier_rule"], tried["classifier_rule"])
    assert tried["catalogue_version"].startswith("2026.12+")
    assert before["catalogue_version"] != tried["catalogue_version"]
    explained = here("classify", "--explain", "--jsonl", "--rules", "own.toml", stdin=_record("a")).out
    assert "own.biscuits.1" in explained
    assert before == here("classify", "--json", stdin=said).document | {"occurred_at": before["occurred_at"]}


BROKEN_RULES = {
    "not there": (None, "own.toml cannot be read: No such file or directory"),
    "no text": (b"\xff", "own.toml is not UTF-8 text (byte 0)"),
    "no TOML": (b"released = ", "own.toml is not TOML: "),
    "no fixture": (OWN_RULE.replace("negative", "#").encode(), "own.toml: rule own.biscuits.1: it has no negative fixture"),
    "a fixture that fails": (
        OWN_RULE.replace("There are biscuits", "never out of biscuits").encode(),
        "own.toml: rule own.biscuits.1: negative fixture 'never out of biscuits' does not hold: it matches",
    ),
    "an id twice": (
        OWN_RULE.replace("own.biscuits.1", "claude.auth.words.1").encode(),
        "own.toml: rule claude.auth.words.1 exists already in kandev_routing_claude/rules.toml",
    ),
    "an id of the SDK's": (
        OWN_RULE.replace("own.biscuits.1", "neutral.quota.field.1").encode(),
        "own.toml: rule neutral.quota.field.1: ids that begin with neutral are the SDK's own",
    ),
    "somebody else's words that authorise": (
        (OWN_RULE + "foreign = true\n").encode(),
        "own.toml: rule own.biscuits.1: foreign words prove no failure of the agent",
    ),
    "no RE2": (OWN_RULE.replace('out of biscuits"]\npos', '(?=x)"]\npos').encode(), "own.toml: rule own.biscuits.1: the pattern"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["classify", "replay"])
@pytest.mark.parametrize("case", BROKEN_RULES)
def test_rules_that_may_not_load_are_78(world: World, here: Callable[..., Ran], case: str, command: str) -> None:
    """One line that names the file, the rule and what to do; nothing is judged by half a catalogue."""
    content, part = BROKEN_RULES[case]
    if content is not None:
        (world.folder / "own.toml").write_bytes(content)
    ran = here(command, "--rules", "own.toml", "--store", world.url, stdin="out of biscuits")
    assert (78, "") == (ran.code, ran.out), ran
    assert part in ran.error
    document = here(command, "--rules", "own.toml", "--store", world.url, "--json", stdin="x").document
    assert (78, "catalogue") == (document["exit_code"], document["error"]["code"])


def test_a_secret_in_evidence_is_not_repeated(here: Callable[..., Ran]) -> None:
    secret = "sk-ant-api03-" + "Zq7x" * 12
    for arguments in ([], ["--explain"], ["--json"]):
        ran = here("classify", *arguments, stdin=f"401 invalid x-api-key {secret}")
        assert 0 == ran.code, ran
        assert secret not in ran.out + ran.err


def test_a_reader_that_leaves_ends_it_quietly(world: World) -> None:
    file = world.folder / "many.jsonl"
    file.write_text((_record("x") + "\n") * 3000)
    environ = world.environ()
    command = [sys.executable, "-m", "kandev_routing_sdk", "classify", "--jsonl", str(file)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (141, b"") == (process.wait(60), err)


def test_a_family_that_nobody_knows_is_told_about(here: Callable[..., Ran]) -> None:
    """A typo there would leave the family's own rules out without a word."""
    ran = here("classify", "--family", "claud", stdin="API Error: 529 Overloaded")
    assert 0 == ran.code, ran
    assert "no installed rules are of family 'claud', only neutral ones apply" in ran.err
    assert "" == here("classify", "--family", "claude", stdin="API Error: 529 Overloaded").err
