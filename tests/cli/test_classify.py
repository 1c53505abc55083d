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


def test_a_broken_line_is_named_and_nothing_before_it_is_lost(here: Callable[..., Ran]) -> None:
    lines = [_record("a"), "", _record("b"), _record("c", phase="lunch"), _record("d")]
    ran = here("classify", "--jsonl", stdin="\n".join(lines))
    assert 65 == ran.code, ran
    assert ["a", "b"] == [json.loads(line)["id"] for line in ran.out.splitlines()]
    assert ran.error.startswith("line 4 (id c): evidence.phase: 'lunch' is none of ")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1: it is a list"),
        ('"text"', "line 1: it is a string"),
        ("{}", "line 1: evidence is missing"),
        ('{"evidence": {"family": "x", "phase": "streaming"}}', "evidence.signals is missing"),
        (_record("a", signals=[{"channel": "stderr", "txt": "x"}]), "did you mean 'text'?"),
        (_record("a", exit_code=float("nan")), "line 1 is not JSON (NaN is no JSON number)"),
        ("[" * 100_000, "line 1 is not"),
        ('{"id": ' + "9" * 5000 + "}", "line 1 is not JSON"),
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
    assert "evidence.family is missing" in failed.document["error"]["message"]


def test_explain_says_why(here: Callable[..., Ran]) -> None:
    """R-CLI-4: with the rule and why."""
    ran = here("classify", "--explain", stdin=_record("x"))
    assert "automatic recovery: not allowed (nothing is known of the effects)" in ran.out
    assert ": won: says quota_limited of a signal on agent_notice" in ran.out
    document = here("classify", "--explain", "--json", stdin=_record("x")).document
    assert "won" == document["rules"][0]["fate"]


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
