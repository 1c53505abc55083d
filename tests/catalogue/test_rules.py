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
        ("", "acme.toml: released: is missing; give it, the month of the last change, as 2026.11"),
        (
            'released = "soon"',
            "acme.toml: released: it is 'soon'; write the month of the last change, as 2026.11",
        ),
        ('released = "2026.13"', "released: it is '2026.13'; write the month"),
        ('released = "2026.00"', "released: it is '2026.00'; write the month"),
        ("released = 2026.11", "acme.toml: released: it is a number; give it text"),
        ('released = "2026.11"\nfamilis = ["x"]', "familis: is an unknown key; remove it; did you mean 'families'?"),
        ('released = "2026.11"\nfamilies = "x"', "acme.toml: families: it is text; give it a list"),
        ('released = "2026.11"\nfamilies = []', "acme.toml: families is empty; name something, or leave it out"),
        ('released = "2026.11"\nfamilies = ["a", "a"]', "acme.toml: families names 'a' twice; remove one"),
        ('released = "2026.11"\n[rule]\nid = "a.b"', "acme.toml: rule: it is a table; begin each rule with [[rule]]"),
        (
            'released = "2026.11"\n[[rule]]\ncode = "task_error"',
            "acme.toml: rule 1: id: is missing; give it, lower-case",
        ),
        ('released = "2026.11"\nauthor = "me"', "acme.toml: author: is an unknown key; remove it"),
        ('released = "2026.11"\nrule = [1]', "acme.toml: rule 1: it is a number; give it a table"),
        ('released = "2026.11"\nrule = 1', "acme.toml: rule: it is a number; begin each rule with [[rule]]"),
    ],
)
def test_a_file_must_be_a_rule_file(text: str, message: str) -> None:
    """Syntax, unknown keys and missing ones, by name."""
    assert message in refused(RuleSource(name="acme.toml", text=text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": "kaput"}, "rule acme.one: code: 'kaput' is none of network_unavailable, "),
        ({"code": "quota_limit"}, "did you mean 'quota_limited'?"),
        ({"timing": '["nowhere"]'}, "timing.1: 'nowhere' is none of header, field, text"),
        (
            {"id": '"Acme"'},
            "id: it is 'Acme'; write lower-case words joined by dots, beginning with who ships the rule",
        ),
        ({"priority": "101"}, "priority: it is 101; give it a whole number from 0 to 100"),
        ({"priority": "-1"}, "priority: it is -1; give it a whole number from 0 to 100"),
        ({"priority": '"50"'}, "priority: it is text; give it a whole number"),
        ({"priority": "true"}, "priority: it is a boolean; give it a whole number"),
        ({"priority": "50.0"}, "priority: it is a number; give it a whole number"),
        ({"shared": '"yes"'}, "shared: it is text; give it true or false"),
        ({"foreign": "1"}, "foreign: it is a number; give it true or false"),
        ({"prioritty": "1"}, "rule acme.one: prioritty: is an unknown key; remove it; did you mean 'priority'?"),
        ({"pattern": "'kaboom'"}, "pattern: it is text; give it a list"),
        ({"timing": "'none'"}, "timing: it is text; give it a list"),
        ({"pattern": "['']"}, "pattern has an empty name; remove it"),
        ({"positive": "[1]"}, "positive.1: it is a number; give it text, or a table that is a signal"),
        ({"channels": "[]"}, "channels is empty; name something, or leave it out for all"),
        ({"phases": "[]"}, "phases is empty; name something"),
        ({"families": "[]"}, "families is empty; name something"),
        ({"families": '[""]'}, "families has an empty name; remove it"),
        ({"families": '["a", "b", "a"]'}, "families names 'a' twice; remove one"),
        ({"channels": '["stderr", "stderr"]'}, "channels names 'stderr' twice; remove one"),
        ({"phases": '["streaming", "streaming"]'}, "phases names 'streaming' twice; remove one"),
        ({"pattern": r'["\\b(it\u0027s a|kaboom"]'}, r"the pattern '\b(it's a|kaboom' is not RE2: missing )"),
        ({"pattern": "['((kaboom){50}){50}']"}, "repeats within repeats multiply"),
        (
            {"pattern": "", "structured": '[[{ at = "code", equal = 1 }]]'},
            "structured.1.1.equal: is an unknown key; remove it; did you mean 'equals'?",
        ),
        ({"pattern": "", "structured": '[{ at = "code" }]'}, "structured.1: it is a table; give it a list of lists"),
        ({"pattern": "", "structured": "[[1]]"}, "structured.1.1: it is a number; give it a table, { at = "),
        ({"pattern": "['a(']"}, "the pattern 'a(' is not RE2: missing )"),
        ({"pattern": "['(?=a)']"}, "is not RE2: invalid perl operator"),
        ({"pattern": ""}, "give it one kind of match: structured, exact or pattern"),
        ({"exact": '["kaboom"]'}, "give it one kind of match: structured, exact or pattern"),
        ({"channels": '["tool_output"]'}, "assistant_text and tool_output are never evidence"),
        (
            {"positive": '[{ channel = "stdrr", text = "kaboom" }]'},
            "positive fixture 1 is no signal: channel: 'stdrr' is none of ",
        ),
        (
            {"negative": '["x", { chanel = "stderr" }]'},
            "negative fixture 2 is no signal: chanel: is an unknown key; remove it; did you mean 'channel'?",
        ),
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"foreign": "true"},
            "foreign words prove no failure of the agent, and something automatic follows quota_limited",
        ),
        ({"foreign": "true", "shared": "true", "code": "task_error"}, "shared ranks below them; remove one"),
        (
            {"scope": '"none"'},
            'scope = "none" would keep quota_limited from opening any circuit; leave it out for account',
        ),
        ({"far_code": '"quota_limited"'}, "far_code is the code itself, quota_limited; remove it"),
        ({"far_code": '"context_exhausted"'}, "no wait cures context_exhausted; name two codes that have a class"),
        ({"far_code": '"quota_limited"', "code": "task_error"}, "no wait cures task_error; name two codes"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(change: dict[str, str], message: str) -> None:
    """R-CLS-4: above all, somebody else's words may not authorise anything."""
    text = refused(source(rule(**change)))
    assert text.startswith("acme.toml: rule acme.one: ")
    assert message in text


def test_what_makes_sense_of_these_loads() -> None:
    """The same keys, where they mean something."""
    words = rule("acme.far", code="rate_limited", far_code='"quota_limited"')
    lost = rule("acme.lost", word="gone", code="agent_transport_lost", scope='"none"')
    theirs = rule("acme.theirs", word="theirs", code="task_error", foreign="true", timing="[]")
    assert {"acme.far", "acme.lost", "acme.theirs"} == {r.id for r in load(source(words, lost, theirs)).rules}


@pytest.mark.parametrize(
    ("redaction", "message"),
    [
        ("kaboom «user1@example.com", "a « has no »; end the secret with it"),
        ("kaboom user1@example.com»", "write them in pairs"),
        ("kaboom ««user1@example.com»", "write them in pairs"),
        ("kaboom «»", "nothing stands between « and »; put the secret there"),
    ],
)
def test_marks_come_in_pairs(redaction: str, message: str) -> None:
    """Half a mark would leave the secret untried."""
    text = refused(source(rule(redaction=f'["kaboom «user1@example.com»", "{redaction}"]')))
    assert f"acme.toml: rule acme.one: redaction fixture 2: {message}" == text or message in text


@pytest.mark.parametrize("kind", ["positive", "redaction"])
def test_a_rule_matches_its_own_fixtures(kind: str) -> None:
    """That another rule gives the same code says nothing of this one."""
    fixture = "bang «user1@example.com»" if kind == "redaction" else "bang"
    one = rule(
        **{kind: f'["kaboom «user1@example.com»", "{fixture}"]' if kind == "redaction" else f'["kaboom", "{fixture}"]'}
    )
    text = refused(source(one, rule("acme.two", word="bang")))
    assert re.search(
        rf"rule acme\.one: {kind} fixture .* this rule does not match it; acme\.two gives the same code", text
    )


def test_fixtures_are_quoted_as_they_were_written() -> None:
    """As TOML, not as Python."""
    text = refused(source(rule(positive='[{ channel = "exit", code = 3 }]')))
    assert 'positive fixture { channel = "exit", code = 3 } does not hold' in text


def test_neutral_ids_are_the_sdks_own() -> None:
    """A file from elsewhere cannot pass its rules off as shipped ones."""
    text = refused(source(rule("neutral.mine.1")))
    assert "acme.toml: rule neutral.mine.1: ids that begin with neutral are the SDK's own" in text
    assert load(source(rule("neutral.mine.1"), name="neutral/acme.toml")).rules
