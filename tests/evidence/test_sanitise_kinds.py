"""Every kind of secret of `secrets.toml`, in every clothing that text gives it (R-EVI-5)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

import pytest

from kandev_routing_sdk.evidence.sanitise import Sanitiser
from tests.evidence._secrets import KINDS, Sample, survivors

pytestmark = pytest.mark.exhaustive

CLEAN = Sanitiser()


def _nested(text: str, times: int) -> str:
    for _ in range(times):
        text = json.dumps({"error": {"type": "invalid_request", "message": text}, "status": 401})
    return text


def _log(text: str) -> str:
    return f"2026-05-14T10:00:00.123Z ERROR agent::turn: {text}\n2026-05-14T10:00:00.200Z INFO agent: end"


CLOTHES: dict[str, Callable[[str], str]] = {
    "alone": lambda s: s,
    "sentence": lambda s: f"Request failed with {s} in it.",
    "brackets": lambda s: f"(see <{s}> or [{s}])",
    "quotes": lambda s: f"got “{s}”",
    "between lines": lambda s: f"first line\n{s}\nlast line",
    "windows lines": lambda s: f"first line\r\n{s}\r\nlast line\r\n",
    "log line": _log,
    "colours around": lambda s: f"\x1b[1;31m{s}\x1b[0m",
    "colours written out": lambda s: json.dumps(f"\x1b[31m{s}\x1b[0m"),
    "json": lambda s: _nested(s, 1),
    "json, between lines": lambda s: _nested(f"first\n{s}\nlast", 1),
    "json, after a tab": lambda s: _nested(f"first:\t{s}\tlast", 2),
    "json in json": lambda s: _nested(s, 2),
    "json in json in json": lambda s: _nested(s, 3),
    "json, indented": lambda s: json.dumps({"message": s}, indent=2),
    "events": lambda s: f"event: error\ndata: {_nested(s, 1)}\n\nevent: done\ndata: [DONE]\n\n",
    "repr": lambda s: f"ValueError({s!r})",
    "bytes": lambda s: f"body={s.encode()!r}",
    "table": lambda s: f"| what | {s} |",
    "list": lambda s: f"- {s}\n- other",
    "unicode": lambda s: f"→ «{s}» …",
}
KEY_CLOTHES: dict[str, Callable[[str], str]] = {
    "double quotes": lambda s: f'error: "{s}" was refused',
    "single quotes": lambda s: f"error: '{s}' was refused",
    "code": lambda s: f"run `tool {s}` again",
    "percent": lambda s: f"a%20b%3D{quote(s, safe='')}%26c%3Dd",
    "percent, quoted": lambda s: f"x%22{quote(s, safe='')}%22",
    "html": lambda s: "<p>" + html.escape(f'"{s}"') + "</p>",
    "unicode escapes": lambda s: rf"\u0022{s}\u0022 \u003c{s}\u003e",
    "variable": lambda s: f"SOMETHING={s}",
    "flag": lambda s: f"tool --something={s} --other",
    "comma": lambda s: f"a,{s},b",
    "yaml": lambda s: f"detail: {s}\nother: 1",
    "sql": lambda s: f"INSERT INTO t VALUES ('{s}', 1)",
    "colours inside": lambda s: f"{s[: len(s) // 2]}\x1b[1m{s[len(s) // 2 :]}\x1b[0m",
}
"""What is put around one word; a header or a pair does not look like that."""
WRAPPINGS: Mapping[str, tuple[str, int]] = {
    "narrow": ("\n", 2 * 3),
    "indented": ("\n    ", 14),
    "windows": ("\r\n", 22),
    "in json": (r"\n", 18),
    "windows, in json": (r"\r\n", 26),
}
"""A line break, and after how many characters it comes."""
AGAIN = {"sentence", "json in json", "percent", "html"}
"""Where it is looked at whether cleaning again changes nothing; hypothesis does so everywhere."""
ONE_WORD = re.compile(r"[A-Za-z0-9][\w.~+/-]*={0,2}")
WORDLIKE = re.compile(r"[a-z]*|[\d:.]*|\d{1,2}[.:].*")


def test_there_are_enough_kinds() -> None:
    assert len(KINDS) >= 65
    assert sum(len(kind.ways) for kind in KINDS) >= 3 * 65
    assert [] == [kind for kind in KINDS for sample in kind.samples() if not sample.parts]


def test_what_survives_is_seen() -> None:
    """The measure itself can fail."""
    sample = Sample("x", "key-abcdefghijkl", ("abcdefghijkl",))
    assert "cdefghij" == sample.left_in("nothing", "… cdefghij …")
    assert sample.left_in("abcdefg", "hijkl") is None
    assert "abcd" == Sample("x", "abcd", ("abcd",)).left_in("abcd")
    assert [("x", "abcdefgh")] == survivors([sample], sample.text)


@pytest.mark.parametrize("name", [*CLOTHES, *KEY_CLOTHES])
def test_no_kind_survives_in_this_clothing(name: str) -> None:
    """R-EVI-5: nothing of what is random about it, and it is the same when it is done again."""
    dress = (CLOTHES | KEY_CLOTHES)[name]
    left = []
    for kind in KINDS:
        for sample in kind.samples(name) if kind.is_key or name in CLOTHES else ():
            cleaned = CLEAN.text(dress(sample.text))
            if run := sample.left_in(cleaned):
                left.append((kind.name, run, dress(sample.text), cleaned))
            if name in AGAIN:
                assert cleaned == CLEAN.text(cleaned)
    assert [] == left


@pytest.mark.parametrize("seed", range(3))
def test_no_kind_survives_as_it_is(seed: int) -> None:
    """R-EVI-5: the same kinds, again and again."""
    assert [] == [found for kind in KINDS for s in kind.samples(seed) for found in survivors([s], CLEAN.text(s.text))]


@pytest.mark.parametrize("wrapping", list(WRAPPINGS))
def test_a_line_break_does_not_save_a_key(wrapping: str) -> None:
    """R-EVI-5: agents wrap what they print at the terminal's width, wherever that is."""
    line_break, at = WRAPPINGS[wrapping]
    left, tried = [], 0
    for sample in (s for kind in KINDS if kind.is_key for s in kind.samples(wrapping)):
        first, rest = sample.text[:at], sample.text[at:]
        if not ONE_WORD.fullmatch(sample.text) or WORDLIKE.fullmatch(rest) or len(rest) < 8:
            continue  # a word on the next line is not taken for the rest of a key, for it hardly ever is
        tried += 1
        cleaned = CLEAN.text(f"the key is{line_break}{first}{line_break}{rest}{line_break}and no more")
        assert cleaned.endswith(f"{line_break}and no more")
        left += survivors([sample], cleaned)
    assert tried > 100
    assert [] == left
