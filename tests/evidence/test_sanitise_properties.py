"""Sanitising arbitrary text (R-EVI-5): idempotent, bounded, linear; and known values, whatever they are and overlap with."""

from __future__ import annotations

import base64
import html
import itertools
import json
import re
import string
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.shapes import FIRST, MARKER, RULES
from tests.evidence._secrets import KINDS

pytestmark = pytest.mark.exhaustive

CLEAN = Sanitiser()
WAYS = [sample.text for kind in KINDS for sample in kind.samples("properties")]
PIECES = st.one_of(
    st.sampled_from(WAYS),
    st.sampled_from(WAYS).map(lambda text: text[: len(text) // 2]),
    st.sampled_from(WAYS).map(lambda text: text[len(text) // 3 :]),
    st.sampled_from(WAYS).map(lambda text: quote(text, safe="")),
    st.sampled_from(WAYS).map(json.dumps),
    st.sampled_from(WAYS).map(html.escape),
    st.sampled_from(["\n", "\r\n", "\\n", " ", "%3D", "%22", "=", ": ", '"', "'", "&quot;", ",", "\x1b[1m", "[redacted:key]", "[redacted:", "]", "~", "@"]),
    st.text(max_size=8),
)  # fmt: skip
MIXED = st.lists(PIECES, max_size=10).map("".join)


@given(MIXED)
def test_cleaning_again_changes_nothing(text: str) -> None:
    once = CLEAN.text(text)
    assert once == CLEAN.text(once)


@given(MIXED)
def test_no_more_comes_out_than_a_marker_for_every_character_would_be(text: str) -> None:
    assert len(CLEAN.text(text)) <= 32 + 4 * len(text)


@given(st.lists(st.sampled_from(WAYS), min_size=1, max_size=3), MIXED)
def test_a_value_is_cleaned_for_good(ways: list[str], text: str) -> None:
    """R-EVI-5: in keys, in lists, under names."""
    document: Any = {
        "message": text,
        ways[0]: {"error": ways, "argv": ["--token", *ways]},
        "password": text,
        "name": ways[0],
        "value": text,
    }
    once = CLEAN.value(document)
    assert once == CLEAN.value(once)


# Known values -----------------------------------------------------------------------------------------------------------

VALUE = st.text(string.ascii_letters + string.digits + string.punctuation + " äé🖐", min_size=8, max_size=40).filter(
    lambda text: len(text.strip()) >= 8 and not re.search(r"redacted", text)
)
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda v: v,
    "percent": lambda v: quote(v, safe=""),
    "percent, as a browser": lambda v: quote(v, safe="!*'()"),
    "json": lambda v: json.dumps(v)[1:-1],
    "json, as it is": lambda v: json.dumps(v, ensure_ascii=False)[1:-1],
    "json in json": lambda v: json.dumps(json.dumps(v)[1:-1])[1:-1],
    "html": html.escape,
    "hex": lambda v: v.encode().hex(),
    "coloured": lambda v: f"{v[:4]}\x1b[1m{v[4:]}",
}


def _left(text: str) -> str:
    """``text`` without its markers, whose words may be a secret's too."""
    return "\n".join(re.split(MARKER, text))


@pytest.mark.parametrize("form", list(FORMS))
@given(VALUE, st.sampled_from(["", " ", "x", '"', "=", "\n"]), st.sampled_from(["", " ", "x", '"', "&", "\n"]))
def test_a_known_value_goes_in_every_form(form: str, value: str, before: str, after: str) -> None:
    written = FORMS[form](value)
    clean = Sanitiser([value])
    once = clean.text(f"a{before}{written}{after}b")
    assert value not in _left(once)
    assert written not in _left(once)
    assert once == clean.text(once)


@given(VALUE, st.text(string.printable, max_size=5), st.text(string.printable, max_size=5))
def test_a_known_value_goes_inside_base64(value: str, before: str, after: str) -> None:
    for coded in (base64.b64encode, base64.urlsafe_b64encode):
        text = coded((before + value + after).encode()).decode()
        start = (len(before.encode()) * 8 + 5) // 6
        inner = text[start : start + max(len(value.encode()) * 8 // 6 - 2, 6)]
        assert inner not in _left(Sanitiser([value]).text(f"x {text} y"))


@given(
    st.text(string.ascii_letters + string.digits + "-_.!", min_size=12, max_size=60),
    st.integers(min_value=1, max_value=59),
    st.sampled_from(["\n", "\r\n", "\n    ", "\\n", "\\r\\n", "\\\n  ", " \n "]),
)
def test_a_known_value_goes_although_a_line_break_cuts_it(value: str, at: int, line_break: str) -> None:
    at = min(at, len(value) - 1)
    once = Sanitiser([value]).text(f"using {value[:at]}{line_break}{value[at:]} now")
    halves = [half for half in (value[:at], value[at:]) if len(half) >= 8]
    assert [] == [half for half in halves if half in _left(once)]
    assert once.startswith("using ")
    assert once.endswith(" now")


@given(st.lists(st.text("ab1", min_size=6, max_size=12), min_size=1, max_size=5), st.text("ab1", max_size=60))
def test_known_values_go_when_they_overlap_or_are_parts_of_each_other(values: list[str], text: str) -> None:
    """Every character that belongs to any of them goes, and no other."""
    covered = {
        at + i for value in values for at in range(len(text)) if text.startswith(value, at) for i in range(len(value))
    }
    kept = [
        "".join(text[i] for i in run)
        for gone, run in itertools.groupby(range(len(text)), covered.__contains__)
        if not gone
    ]
    assert kept == [part for part in re.split(MARKER, Sanitiser(values).known_only(text)) if part]


def test_known_values_that_overlap() -> None:
    """The examples."""
    clean = Sanitiser(["abcdefgh", "efghijkl", "cdefgh", "topsecret", "topsecret-and-more"])
    assert "x [redacted:secret] y" == clean.text("x abcdefghijkl y")
    assert "x b[redacted:secret]ij y" == clean.text("x bcdefghij y")
    assert "[redacted:secret] [redacted:secret]" == clean.text("topsecret-and-more topsecret")


# Time -------------------------------------------------------------------------------------------------------------------

SEEDS = [
    "a", "-", "=", "%41", "%22", "\\n", "\n", "\\", '"', '\\"', "token=", 'token="', 'token=\\"a', "password: >-\n ", "secret%3D", "password ",
    "://a", "://a:", "a@", "-----BEGIN PRIVATE KEY-----", "Private-Lines: 1\n", "eyJ", "0f", "aB3", "aB3/", "/home/", "cookie: a=b; ",
    "sk-ant-", "ghp_aB3dE5fG7hJ9kL1\n", "aB3dE5fG7\n", "abcdefgh1\\n", "key: [redacted:", "account id ", "machine a login b password c ",
    "mysql x -p", "seed phrase: ", "abc ", '{"name":"token","value":', "<password>", "&quot;", "token=&quot;a", "C:\\Users\\a b ", "-home-a", "a:5432:b:",
]  # fmt: skip


def _seconds(work: Callable[[], object], times: int) -> float:
    """The least of this process's own time: nobody else's work counts."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("seed", SEEDS)
def test_time_is_linear_in_the_text(seed: str) -> None:
    """R-EVI-5: sixteen times the text takes not much more than sixteen times as long; were it quadratic, 256 times."""
    small, large = ((seed * (size // len(seed) + 1))[:size] for size in (4096, 65536))
    known = Sanitiser(["aB3dE5fG7hJ9", "a" * 9])
    short = max(_seconds(lambda: known.text(small), 3), 0.003)
    assert _seconds(lambda: known.text(large), 2) <= 64 * short


def test_every_rule_is_linear() -> None:
    """R-CLS-7: each for itself, on what is most like it."""
    slow = []
    for seed in SEEDS:
        text = (seed * (65536 // len(seed) + 1))[:65536]
        for number, rule in enumerate((*FIRST, *RULES)):
            start = time.process_time()
            rule(text)
            if (taken := time.process_time() - start) > 2:
                slow.append((seed, number, taken))
    assert [] == slow
