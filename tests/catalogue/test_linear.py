"""Patterns stay small, one pass never gives up in silence, and work grows with the text (R-CLS-7). Counted, never timed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.catalogue import matcher as engine
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.matcher import Mark
from kandev_routing_sdk.catalogue.patterns import MAX_PROGRAM, PatternSet, compile_rule, exact_to_re2, to_re2
from kandev_routing_sdk.catalogue.rules import RuleSource
from kandev_routing_sdk.catalogue.views import views_of
from kandev_routing_sdk.errors import CatalogueError
from tests.catalogue._shipped import evidence, shipped, sources

LARGEST_SHIPPED = 4096
"""Instructions. Far below what is refused: one that grows beyond is worth a look."""
ALL_SHIPPED = 131_072


def shipped_patterns() -> Iterator[tuple[str, str]]:
    for rule in shipped().rules:
        for pattern in (*map(to_re2, rule.patterns), *map(exact_to_re2, rule.exact)):
            yield rule.id, pattern
        for regex in (c.regex for alternative in rule.structured for c in alternative if c.regex is not None):
            yield rule.id, to_re2(regex)
    for mark in Mark:
        yield mark.name, to_re2(mark.value)


def test_every_shipped_pattern_is_small() -> None:
    """RE2 reads a text in steps of at most the size of the program, whatever the text."""
    sizes = {(rule, pattern): re2.compile(pattern).programsize for rule, pattern in shipped_patterns()}
    assert {} == {k: size for k, size in sizes.items() if size > LARGEST_SHIPPED}
    assert sum(sizes.values()) < ALL_SHIPPED
    assert len(sizes) > 300


def rule_file(*patterns: str) -> RuleSource:
    words = ", ".join(f"'{p}'" for p in patterns)
    text = (
        f'released = "2026.11"\n[[rule]]\nid = "x.y.1"\ncode = "rate_limited"\npattern = [{words}]\n'
        'positive = ["aaa"]\nnegative = ["b"]\ncorrelation = ["aaa"]\nredaction = ["aaa «sk-ant-api03-FAKEfakeFAKEfake»"]\n'
    )
    return RuleSource(name="theirs.toml", text=text)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(?:[^é]{1,300} ){3}", "is too large: "),
        (r"\pL{900}", "is too large: "),
        (r"(?:a{1,1000}){1,1000}", "is not RE2: "),
        (r"(a)\1", "is not RE2: invalid escape sequence"),
    ],
)
def test_a_pattern_that_is_too_large_is_refused_by_name(pattern: str, says: str) -> None:
    """A third party's rule file: one sentence that names the file, the rule and the way out."""
    with pytest.raises(CatalogueError) as refused:
        Catalogue.load([rule_file(pattern)])
    sentence = str(refused.value)
    assert sentence.startswith("theirs.toml: rule x.y.1: the pattern ")
    assert says in sentence
    assert "\n" not in sentence


def test_the_same_holds_for_patterns_of_fields() -> None:
    """They are compiled one by one."""
    text = rule_file("aaa").text.replace(
        "pattern = ['aaa']", "structured = [[{ at = 'data:x', regex = '(?:[^é]{1,300} ){3}' }]]"
    )
    with pytest.raises(
        CatalogueError, match=f"too large: .*at most {MAX_PROGRAM} are allowed; repeat less often or split it"
    ):
        Catalogue.load([RuleSource(name="theirs.toml", text=text)])


def test_all_together_may_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that cannot be built says so; it is not empty."""
    monkeypatch.setattr("kandev_routing_sdk.catalogue.patterns.MAX_MEMORY", 1 << 20)
    with pytest.raises(
        CatalogueError, match="patterns of all rule files together are too large for 1 MiB; load fewer rules"
    ):
        Catalogue.load(sources(), verify=False)


class _GivesUp:
    """A set that is out of memory: it says what it says when nothing matches."""

    def Match(self, _text: Any) -> None:  # noqa: N802  (the engine's name)
        return None


def test_a_pass_that_gives_up_is_made_up_for() -> None:
    """RE2's set reports "out of memory" as "nothing matches", which would be a silent miss."""
    patterns = PatternSet()
    for pattern in ("a+", "b", "c$"):
        patterns.add(pattern, "x")
    patterns.seal()
    assert [0, 2] == sorted(patterns.hits("aac"))
    patterns._set = _GivesUp()
    assert [0, 2] == patterns.hits("aac")
    assert [] == patterns.hits("z")


@pytest.mark.parametrize("text", ["", "x", "\n", "é" * 9, "x" * 70_000, "\x00"])
def test_every_pass_shows_that_it_went_to_the_end(text: str) -> None:
    """Nothing found is something else than nothing read."""
    patterns = PatternSet()
    patterns.add("never", "x")
    patterns.seal()
    assert [] == patterns.hits(text)
    assert patterns._set.Match(text) == [1]


class _Counting:
    """A set that notes how much it was given."""

    def __init__(self, inner: PatternSet) -> None:
        self.inner = inner
        self.bytes = self.passes = 0

    def hits(self, text: str) -> list[int]:
        self.bytes += len(text.encode())
        self.passes += 1
        return self.inner.hits(text)


def work(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[int, int]:
    """Bytes read by sets of patterns, and in how many passes, to judge ``text``."""
    matcher = shipped()._matcher
    counted = (_Counting(matcher._set), _Counting(matcher._lines._set))
    with monkeypatch.context() as patch:
        patch.setattr(matcher, "_set", counted[0])
        patch.setattr(matcher._lines, "_set", counted[1])
        shipped().judge(evidence({"channel": "http", "text": text}))
    return sum(c.bytes for c in counted), sum(c.passes for c in counted)


UNITS = [
    "MCP server x\n",
    "error: usage limit reached\nMCP server x\n",
    "a\n",
    "\n",
    "x",
    '{"error":',
    "HTTP/2 429\nretry-after: 5\n",
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_text_is_read_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    """All of it, and where somebody else's lines are: in pieces, line by line, and once more without them."""
    for size in (4096, 65536):
        text = unit * (size // len(unit))
        read, passes = work(monkeypatch, text)
        assert read <= 4 * len(text) + 4096
        assert passes <= 4 + text.count("\n") * 33 // 32


@pytest.mark.parametrize(
    "text", ["nothing at all", "x" * 4096, '{"name": "value", "items": [1, 2, {"a": "b"}]}', "ünïcödé " * 99]
)
def test_what_matches_nothing_is_read_once(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """R-PRF-2: one pass, no document parsed."""
    assert (len(text.encode()), 1) == work(monkeypatch, text)
    (reading,) = shipped().judge(evidence({"channel": "http", "text": text})).readings
    assert ((), ()) == (reading.matches, reading.view.documents)


WORDS = [
    *(
        "rate_limit_error",
        "status",
        "429",
        "error",
        "type",
        "code",
        "message",
        "msg",
        "x",
        "api_retry",
        "willRetry",
        "retry",
    ),
    *(
        "resets_at",
        "hook.failed",
        "overloaded_error",
        "codexErrorInfo",
        "usageLimitExceeded",
        "__type",
        "a#ThrottlingException",
        "\u212a",
    ),
]
JSON = st.recursive(
    st.sampled_from(WORDS) | st.sampled_from([429, 401, 130, True, None, 5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(JSON, st.booleans(), st.booleans())
def test_the_gate_before_parsing_hides_nothing(value: Any, nested: bool, escaped: bool) -> None:
    """What is printed as JSON is judged as if every document in it had been parsed."""
    text = json.dumps({"error": value}, ensure_ascii=escaped)
    if nested:
        text = f"said: {json.dumps({'message': text})}"
    seen = evidence({"channel": "acp_error", "text": text}, family="codex")
    gated = shipped().judge(seen)
    (parsed,) = views_of(seen)
    fields = shipped()._matcher._fields
    expected = [r.id for r in fields.matching(parsed, foreign=True)] or [
        r.id for r in fields.matching(parsed, foreign=False)
    ]
    by_fields = [m.rule.id for m in gated.matches if m.rule.structured]
    if not any(m.rule.foreign and not m.rule.structured for m in gated.matches):
        # the words themselves may name a status, too
        assert set(expected) <= set(by_fields)
        assert parsed.status in {None, gated.readings[0].view.status}


def test_foreign_lines_are_the_same_one_by_one_or_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading several lines at once only saves passes."""
    lines = [
        "MCP server x",
        "usage limit",
        "reached",
        "",
        "  ",
        "git push",
        "\x0b",
        "a\rMCP error",
        "npm ERR! 429",
        "ok",
    ] * 7
    texts: Sequence[str] = ["\n".join(lines[i:] + lines[:i]) for i in range(10)]
    for text in texts:
        (view,) = views_of(evidence({"channel": "http", "text": text}))
        many = shipped()._matcher._lines.without(view)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_LINES_AT_ONCE", 1)
            assert shipped()._matcher._lines.without(view) == many


def test_a_pattern_about_the_whole_text_is_not_tried_on_several_lines() -> None:
    r"""``\A`` is true of each line alone, and of the first of several only."""
    source = (
        rule_file(r"\\Aaaa")
        .text.replace('code = "rate_limited"', 'code = "task_error"\nforeign = true')
        .replace(r"\\A", r"\A")
    )
    catalogue = Catalogue.load([RuleSource(name="theirs.toml", text=source)], verify=False)
    assert catalogue._matcher._lines._alone
    assert not shipped()._matcher._lines._alone


def test_compiling_says_whose_pattern_it_is() -> None:
    """The owner is the start of the sentence."""
    with pytest.raises(CatalogueError, match=r"^mine: the pattern '\(' is not RE2: missing \)"):
        compile_rule("(?m)(", "mine")
