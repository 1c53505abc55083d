"""Rule files (R-CLS-4): what loads, and what is refused with one clear sentence."""

from __future__ import annotations

import re

import pytest

from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import FIXTURE_KINDS, Rank, RuleSource, neutral_sources, read_source
from kandev_routing_sdk.errors import CatalogueError
from tests.catalogue._shipped import sources

FIXTURES = """
positive = ["{word}"]
negative = ["peace"]
correlation = ["{word}"]
redaction = ["{word} «user1@example.com»"]
"""


def rule(rule_id: str = "acme.one", word: str = "kaboom", code: str = "quota_limited", **more: str) -> str:
    """Return the TOML of one rule; ``more`` overrides or adds keys."""
    keys = {"id": f'"{rule_id}"', "code": f'"{code}"', "pattern": f"['\\b{word}\\b']"}
    for line in FIXTURES.format(word=word).strip().splitlines():
        key, _, value = line.partition(" = ")
        keys[key] = value
    keys |= more
    return "[[rule]]\n" + "\n".join(f"{k} = {v}" for k, v in keys.items() if v) + "\n"


def source(*rules: str, name: str = "acme.toml", head: str = 'released = "2026.11"') -> RuleSource:
    return RuleSource(name=name, text=head + "\n" + "\n".join(rules))


def load(*sources_: RuleSource) -> Catalogue:
    return Catalogue.load(sources_, verify=True)


def refused(*sources_: RuleSource) -> str:
    with pytest.raises(CatalogueError) as caught:
        load(*sources_)
    return str(caught.value)


def test_every_shipped_fixture_holds() -> None:
    """The router loads the shipped files without trying their fixtures: they are tried here."""
    catalogue = load(*sources())
    kinds = {r.id: {f.kind for f in r.fixtures} for r in catalogue.rules}
    assert {} == {k: v for k, v in kinds.items() if v != set(FIXTURE_KINDS)}


@pytest.mark.parametrize("only", sources(), ids=lambda s: s.name)
def test_each_shipped_file_holds_beside_the_neutral_one(only: RuleSource) -> None:
    """An installation may have any subset of the adapters."""
    neutral = neutral_sources()
    load(*neutral, *([only] if only not in neutral else []))


def test_a_small_file_loads() -> None:
    """One fixture of each kind and one rule: that is all a new message needs."""
    (loaded,) = load(source(rule())).rules
    assert ("acme.one", Rank.PATTERN, "acme.toml") == (loaded.id, loaded.rank, loaded.source)


def test_an_id_exists_once() -> None:
    """Colliding ids name both places."""
    text = refused(source(rule()), source(rule(), name="other.toml"))
    assert "other.toml: rule acme.one exists already in acme.toml; ids are unique, give it another" == text


@pytest.mark.parametrize("kind", FIXTURE_KINDS)
def test_a_rule_has_fixtures_of_every_kind(kind: str) -> None:
    """A rule without fixtures does not load."""
    text = refused(source(rule(**{kind: ""})))
    assert f"acme.toml: rule acme.one: it has no {kind} fixture; add one beside it" == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"positive": '["silence"]'},
            r"positive fixture 'silence' does not hold: it gives agent_runtime_error by no rule",
        ),
        ({"negative": '["a kaboom"]'}, r"negative fixture 'a kaboom' does not hold: it matches"),
        (
            {"correlation": '[{ channel = "stderr", text = "kaboom" }]'},
            r"correlation fixture .* does not hold: it is not evidence, but gives quota_limited",
        ),
        ({"redaction": '["kaboom «plain words»"]'}, r"redaction fixture .* does not hold: 1 marked secret"),
        ({"redaction": '["kaboom user1@example.com"]'}, r"redaction fixture .*: mark what must not come out with « »"),
        ({"redaction": '["«user1@example.com»"]'}, r"redaction fixture .* it gives agent_runtime_error"),
    ],
    ids=["positive", "negative", "correlation", "leak", "unmarked", "redaction"],
)
def test_a_fixture_must_hold(change: dict[str, str], message: str) -> None:
    """A fixture that does not hold names the rule, the fixture and what came instead."""
    text = refused(source(rule(**change)))
    assert re.search(r"acme\.toml: rule acme\.one: " + message, text), text


def test_rules_of_equal_rank_may_not_disagree() -> None:
    """Both ids are named."""
    text = refused(source(rule(), rule("acme.two", code="rate_limited")))
    assert "acme.one and acme.two are of equal rank and disagree" in text


def test_an_unreachable_rule_is_refused() -> None:
    """A rule that always loses to another is dead."""
    text = refused(source(rule(priority="60"), rule("acme.two")))
    assert "rule acme.two: no fixture reaches it, other rules always win; raise its priority, or remove it" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("released =", "acme.toml is not TOML: "),
        ("", "acme.toml: released: Field required"),
        ('released = "soon"', "acme.toml: released: String should match pattern"),
        ('released = "2026.11"\nauthor = "me"', "acme.toml: author: is an unknown key; remove it"),
        ('released = "2026.11"\nrule = [1]', "acme.toml: rule 0: Input should be a valid dictionary"),
        ('released = "2026.11"\nrule = 1', "acme.toml: rule: Input should be a valid tuple"),
    ],
)
def test_a_file_must_be_a_rule_file(text: str, message: str) -> None:
    """Syntax, unknown keys and missing ones, by name."""
    assert message in refused(RuleSource(name="acme.toml", text=text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": "kaput"}, "code: Input should be 'network_unavailable'"),
        ({"id": '"Acme"'}, "id: String should match pattern"),
        ({"priority": "101"}, "priority: Input should be less than or equal to 100"),
        ({"pattern": "['a(']"}, "the pattern 'a(' is not RE2: missing )"),
        ({"pattern": "['(?=a)']"}, "is not RE2: invalid perl operator"),
        ({"pattern": ""}, "give it one kind of match: structured, exact or pattern"),
        ({"exact": '["kaboom"]'}, "give it one kind of match: structured, exact or pattern"),
        ({"channels": '["tool_output"]'}, "assistant_text and tool_output are never evidence"),
        ({"positive": '[{ channel = "stdrr", text = "kaboom" }]'}, "a fixture is no signal: channel: "),
        ({"pattern": "", "structured": "[[]]"}, "an alternative of structured has no condition"),
        ({"pattern": "", "structured": '[[{ at = "body", equals = 1 }]]'}, "'body' is no place in a signal"),
        ({"pattern": "", "structured": '[[{ at = "data:", equals = 1 }]]'}, "'data:' is no place in a signal"),
        (
            {"pattern": "", "structured": '[[{ at = "text" }]]'},
            "'text' needs exactly one of equals, in, regex, lacks, exists",
        ),
        ({"pattern": "", "structured": '[[{ at = "text", regex = "a(" }]]'}, "the pattern 'a(' is not RE2"),
        (
            {"pattern": "", "structured": '[[{ at = "http_status", equals = 429 }]]'},
            "an HTTP status that several causes share",
        ),
        (
            {"pattern": "", "structured": '[[{ at = "http_status", in = [500, 403] }]]'},
            "an HTTP status that several causes share",
        ),
        (
            {"pattern": "", "structured": '[[{ at = "http_status", exists = true }]]'},
            "an HTTP status that several causes share",
        ),
    ],
)
def test_a_rule_must_be_a_rule(change: dict[str, str], message: str) -> None:
    """One sentence that names the file, the rule and the field."""
    text = refused(source(rule(**change)))
    assert text.startswith("acme.toml: rule ")
    assert message in text


def test_the_version_is_a_hash_of_what_decides() -> None:
    """R-CLS-6: another pattern is another version; another fixture or order is not."""
    one, two = rule(), rule("acme.two", word="bang")
    base = load(source(one, two)).version
    assert re.fullmatch(r"2026\.11\+[0-9a-f]{8}", base)
    assert base == load(source(two, one)).version
    assert base == load(source(rule(negative='["other"]'), two)).version
    assert base != load(source(rule(priority="51"), two)).version
    assert base != load(source(one, two, head='released = "2026.11"\nprovider = "acme"')).version
    assert "2027.01" == load(source(one, head='released = "2027.01"'), source(two, name="b")).version[:7]


def test_shipped_ids_name_their_file() -> None:
    """A rule id begins with the name of who ships it, so that ids of adapters cannot collide."""
    for shipped_source in sources():
        prefix = shipped_source.name.partition("/")[0].removeprefix("kandev_routing_")
        assert {prefix} == {r.id.split(".")[0] for r in read_source(shipped_source).rules}


def test_marks_are_found_anywhere_in_a_fixture() -> None:
    """In lists and tables too."""
    fixture = (
        '[{ channel = "stderr", text = "kaboom", data = { list = [{ message = "«user1@example.com»" }], n = 1 } }]'
    )
    (loaded,) = load(source(rule(redaction=fixture))).rules
    assert [("user1@example.com",)] == [f.secrets for f in loaded.fixtures if f.kind == "redaction"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"pattern": "", "structured": '[[{ at = "code", equals = 1 }]]', "bare": "true"},
            "bare is for words; remove it",
        ),
        ({"wide": "true"}, "wide is for the lines of a foreign pattern; remove it"),
    ],
)
def test_what_is_for_words_is_refused_elsewhere(change: dict[str, str], message: str) -> None:
    """`bare` and `wide` say something of lines."""
    assert message in refused(source(rule(**change)))
