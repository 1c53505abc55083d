"""The wire form (R-CLI-4): what is read, what is refused with one sentence, what is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.catalogue.wire import (
    evidence_schema,
    is_bare,
    is_record,
    parse_record,
    result_record,
    result_schema,
)
from kandev_routing_sdk.errors import InputDataError
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.types import Channel, Phase
from tests.catalogue._shipped import shipped

LEAST: dict[str, Any] = {"family": "claude", "phase": "prompt_send", "signals": []}
KEY = "sk-ant-api03-" + "FAKEfake" * 6


def record(**change: Any) -> dict[str, Any]:
    return {"id": "c1", "evidence": {**LEAST, **change}}


def refused(given_record: Any) -> str:
    with pytest.raises(InputDataError) as caught:
        parse_record(given_record, 3)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_documented_example() -> None:
    """As in the format's description, every field."""
    record_id, evidence = parse_record(
        {
            "id": "c001",
            "expect": "keys beside id and evidence are the caller's",
            "evidence": {
                "family": "claude",
                "phase": "prompt_send",
                "observed_at": "2026-04-29T14:58:12Z",
                "local_zone": "Europe/Berlin",
                "http_status": 429,
                "exit_code": 1,
                "signals": [
                    {"channel": "agent_notice", "text": "You've hit your limit · resets 1:30am (Asia/Dhaka)"},
                    {
                        "channel": "http",
                        "headers": {"retry-after": "30"},
                        "data": {"error": {"type": "rate_limit_error"}},
                    },
                ],
                "effects": {
                    "delivery": "acknowledged",
                    "output": False,
                    "thinking": False,
                    "tool_call": False,
                    "tool_effect": False,
                    "complete": True,
                },
            },
        },
        1,
    )
    result = result_record(record_id, shipped().classify(evidence), evidence)
    jsonschema.Draft202012Validator(result_schema()).validate(result)
    assert {
        "id": "c001",
        "code": "quota_limited",
        "class": "hard",
        "confidence": "high",
        "scope": "account",
        "classifier_rule": "neutral.quota.words.1",
        "catalogue_version": shipped().version,
        "provider_id": None,
        "model_id": None,
        "phase": "prompt_send",
        "occurred_at": "2026-04-29T14:58:12Z",
        "retry_after_s": None,
        "reset_at": "2026-04-29T19:30:00Z",
        "hint": {"source": "text", "written": "resets 1:30am (Asia/Dhaka)", "zone": "text"},
        "automatic": True,
        "safe_excerpt": "You've hit your limit · resets 1:30am (Asia/Dhaka)",
    } == result


@pytest.mark.parametrize(("wait", "written"), [("30", 30), ("1.5s", 1.5), ("6ms", 0.006)])
def test_waits_are_numbers_of_seconds(wait: str, written: float) -> None:
    """Whole ones without a decimal point."""
    text = f"Rate limit reached. Try again in {wait if wait.endswith('s') else wait + ' seconds'}."
    record_id, evidence = parse_record(record(signals=[{"channel": "http", "text": text}]), 1)
    result = result_record(record_id, shipped().classify(evidence), evidence)
    assert repr(written) == repr(result["retry_after_s"])


@pytest.mark.parametrize("given_id", ["c1", 7, None])
def test_ids_pass_through(given_id: str | int | None) -> None:
    """As given, or null when there is none."""
    assert given_id == parse_record({"id": given_id, "evidence": LEAST}, 1)[0]
    assert parse_record({"evidence": LEAST}, 1)[0] is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], 'record 3: it is a list; a record is an object: {"id": …, "evidence": {…}}'),
        (None, 'record 3: it is null; a record is an object: {"id": …, "evidence": {…}}'),
        (1.5, 'record 3: it is a number; a record is an object: {"id": …, "evidence": {…}}'),
        ({"id": True, "evidence": LEAST}, "record 3: id: it is a boolean; give it a string or a whole number"),
        ({"id": ["a"], "evidence": LEAST}, "record 3: id: it is a list; give it a string or a whole number"),
        ({"id": "a"}, "record 3 (id a): evidence is missing; put family, phase and signals in it"),
        (
            {"evidense": LEAST},
            "record 3: evidence is missing; put family, phase and signals in it; did you mean 'evidense'?",
        ),
        (
            {"evidence": 1},
            "record 3: evidence: it is a number; give it an object",
        ),
        (record(familly="x"), "record 3 (id c1): evidence.familly is no field of evidence; did you mean 'family'?"),
        (
            record(signals=[{"channel": "http", "txt": "x"}]),
            "evidence.signals[0].txt is no field of a signal; did you mean 'text'?",
        ),
        (record(effects={"outputs": True}), "evidence.effects.outputs is no field of effects; did you mean 'output'?"),
        (record(zzz=1), "evidence.zzz is no field of evidence; its fields are family, phase, signals, "),
        (
            {"evidence": {"famly": "x", "phase": "streaming", "signals": []}},
            "evidence.family is missing; give it in place of 'famly'",
        ),
        (record(signals=[{}]), "evidence.signals[0].channel is missing; give it"),
        (
            record(signals=[{"channel": "stderr"}, {"channel": "stdrr"}]),
            "evidence.signals[1].channel: 'stdrr' is none of acp_error, acp_update, stdout_event, stderr, http, exit, agent_notice, assistant_text, tool_output; did you mean 'stderr'?",
        ),
        (record(phase="prompt"), "evidence.phase: 'prompt' is none of auth_check, "),
        (record(effects={"delivery": "maybe"}), "evidence.effects.delivery: 'maybe' is none of not_sent, sent, "),
        (
            record(observed_at="2026-04-29T14:58:12"),
            "evidence.observed_at: the time has no zone; write it as 2026-04-29T14:58:12Z",
        ),
        (
            record(observed_at="soon"),
            "evidence.observed_at: it is a string that names no time; write it as 2026-04-29T14:58:12Z",
        ),
        (record(http_status="many"), "evidence.http_status: it is a string; give it a whole number"),
        (
            record(signals=[{"channel": "http", "code": [1]}]),
            "evidence.signals[0].code: it is a list; give it a whole number or a string",
        ),
        (
            record(signals=[{"channel": "http", "headers": {"a": 1}}]),
            "evidence.signals[0].headers.a: it is a number; give it a string",
        ),
        (record(signals=[{"channel": "http"}] * 4097), "evidence.signals: 4097 signals; at most 4096 are read"),
    ],
    ids=range(23),
)
def test_what_is_no_record_is_refused_in_one_sentence(bad: Any, message: str) -> None:
    """The record, the field, and the way out."""
    assert message in refused(bad)


def test_hostile_depth_is_refused_or_read() -> None:
    """Never a stack overflow."""
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    message = "record 3 (id c1): evidence.signals[0].data: it is nested too deeply; flatten it"
    assert message == refused(record(signals=[{"channel": "http", "data": deep}]))


def test_what_is_read_is_sanitised() -> None:
    """R-EVI-5: text, data and headers, with the host's own sanitiser too."""
    signal: Any = {"channel": "http", "text": f"a {KEY}", "data": {"message": KEY}, "headers": {"authorization": KEY}}
    _, evidence = parse_record(record(signals=[signal]), 1)
    assert KEY not in evidence.model_dump_json()
    _, evidence = parse_record(
        record(signals=[{"channel": "http", "text": "my hunter2"}]), 1, sanitiser=Sanitiser(["hunter2"])
    )
    assert "hunter2" not in evidence.model_dump_json()


def test_what_stands_beside_the_signals_is_sanitised_too() -> None:
    """R-EVI-5: whoever writes a record may put a key anywhere."""
    names = ("family", "provider_id", "model_id", "local_zone", "exit_signal", "session_id", "attempt_id")
    _, evidence = parse_record(record(**dict.fromkeys(names, KEY)), 1)
    assert KEY not in evidence.model_dump_json()
    harmless = {"family": "claude", "provider_id": "openrouter", "model_id": "anthropic/claude-sonnet-4-5-20250929"}
    _, evidence = parse_record(record(**harmless, local_zone="Europe/Berlin"), 1)
    assert ({**harmless, "local_zone": "Europe/Berlin"}) == {
        name: getattr(evidence, name) for name in (*harmless, "local_zone")
    }


@pytest.mark.parametrize("bad", [{KEY: 1}, {"phase": KEY}, {"effects": {KEY: True}}, {"signals": [{KEY: 1}]}])
def test_what_is_refused_is_quoted_without_secrets(bad: dict[str, Any]) -> None:
    """In names and in values."""
    assert KEY not in refused(record(**bad))


def test_a_path_is_cut_where_it_helps_nobody() -> None:
    """A sentence stays one."""
    deep: Any = 1.5j
    for _ in range(60):
        deep = {"k" * 30: deep}
    assert len(refused(record(signals=[{"channel": "http", "data": deep}]))) < 400


@pytest.mark.parametrize(
    ("value", "record_", "bare"),
    [
        (LEAST, True, True),
        ({"phase": "streaming"}, True, True),
        ({"family": "x", "http_status": 429}, True, True),
        ({"evidence": {}}, True, False),
        ({"evidense": {}}, True, False),
        ({"id": "a"}, False, False),
        ({"error": {"type": "overloaded_error"}}, False, False),
        ({"signal": "SIGTERM", "phase": "build"}, False, False),
        ({}, False, False),
        ([LEAST], False, False),
        ("evidence", False, False),
    ],
)
def test_records_are_told_from_other_json(value: Any, record_: bool, bare: bool) -> None:
    """A provider's error body is no record that lacks everything."""
    assert (record_, bare) == (is_record(value), is_bare(value))


def test_bare_evidence_is_told_of_by_its_own_names() -> None:
    """Nobody looks for a key that they never wrote."""
    with pytest.raises(InputDataError, match=r"^record 1: phase: 'x' is none of "):
        parse_record({**LEAST, "phase": "x"}, 1, bare=True)
    with pytest.raises(InputDataError, match=r"^record 1: signals\[0\]\.channel is missing; give it$"):
        parse_record({**LEAST, "signals": [{}]}, 1, bare=True)
    assert "claude" == parse_record(LEAST, 1, bare=True)[1].family


def test_nothing_is_cut_that_may_decide() -> None:
    """A record may be a whole log: its middle counts."""
    text = "noise\n" * 2000 + "You've hit your usage limit.\n" + "noise\n" * 2000
    _, evidence = parse_record(record(signals=[{"channel": "stderr", "text": text}]), 1)
    assert "quota_limited" == shipped().classify(evidence).code


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "evidence", "family", "phase", "signals", "channel", "text", "effects"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_anything_is_read_or_refused(made: Any) -> None:
    """No other error than ours."""
    try:
        record_id, evidence = parse_record(made, 1)
    except InputDataError as e:
        refusal = str(e)
    else:
        refusal = "record 1"
        result = result_record(record_id, shipped().classify(evidence), evidence)
        jsonschema.Draft202012Validator(result_schema()).validate(json.loads(json.dumps(result)))
    assert refusal.startswith("record 1")


@given(
    st.builds(
        dict,
        family=st.sampled_from(["claude", "x"]),
        phase=st.sampled_from([p.value for p in Phase]),
        signals=st.lists(
            st.builds(dict, channel=st.sampled_from([c.value for c in Channel]), text=st.text(max_size=20)), max_size=3
        ),
        observed_at=st.datetimes(
            min_value=datetime(1990, 1, 1),  # noqa: DTZ001  (the strategy wants naive bounds)
            max_value=datetime(2100, 1, 1),  # noqa: DTZ001
            timezones=st.just(UTC),
        ).map(lambda t: t.isoformat()),
    )
)
def test_what_the_schema_accepts_is_read(made: dict[str, Any]) -> None:
    """The published schema and the reader agree."""
    jsonschema.Draft202012Validator(evidence_schema()).validate({"id": "x", "evidence": made})
    _, evidence = parse_record({"id": "x", "evidence": made}, 1)
    assert evidence.observed_at is not None
    assert timedelta(0) == evidence.observed_at.utcoffset()


def test_an_id_of_several_lines_keeps_a_sentence_in_one() -> None:
    with pytest.raises(InputDataError) as caught:
        parse_record({"id": "a\n\u2028b", "evidence": 1}, 3)
    assert "record 3 (id a b): evidence: it is a number; give it an object" == str(caught.value)
