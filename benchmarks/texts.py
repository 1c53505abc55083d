"""Texts to classify: ordinary ones that no rule matches, and ones that are built to be slow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

_PROSE = (
    "The committee met on Thursday to go over the plans for the new library. Most of the members agreed that the reading room "
    "should face the garden, though a few would rather have kept it near the entrance. They looked at three drawings, asked "
    "the architect about heating and light, and put the choice of chairs off to the next meeting in March. Nobody minded. "
)
_LOG = (
    "2026-04-29T14:58:12.104Z worker-7 block 118 of 4096 written to disk in 12 ms\n"
    "2026-04-29T14:58:12.220Z worker-3 index page 77 loaded, 18 entries, cache size 2048 kB\n"
    "2026-04-29T14:58:12.391Z scheduler picked job 5512 from queue night, 3 jobs left\n"
)
_CODE = (
    "fn area(shape: &Shape) -> f64 {\n    match_kind(shape).map(|k| k.width * k.height).unwrap_or(0.0)\n}\n\n"
    "impl Shape {\n    pub fn grow(&mut self, by: f64) {\n        self.width += by;\n        self.height += by;\n    }\n}\n\n"
)
_WIDE = "Die schöne Müllerin — naïve Façade, “quoted” words, 日本語の文章がここにあります, русский текст, ελληνικά, emoji 🙂. "


def fill(unit: str, size: int) -> str:
    """Repeat ``unit`` to ``size`` bytes of UTF-8, cut on a character boundary."""
    raw = unit.encode("utf-8", "replace")
    return (raw * (size // len(raw) + 1))[:size].decode("utf-8", "ignore")


def nothing(size: int) -> dict[str, str]:
    """Several kinds of text that say nothing of any failure."""
    items = [
        {"name": f"part-{i}", "weight": i * 3, "tags": ["blue", "round"], "at": {"x": i, "y": -i}} for i in range(200)
    ]
    one = {"kind": "catalogue", "items": [{"name": f"part-{i}", "weight": i * 3, "at": {"x": i}} for i in range(40)]}
    return {
        "prose": fill(_PROSE, size),
        "log lines": fill(_LOG, size),
        "JSON lines": fill("\n".join(json.dumps(item) for item in items) + "\n", size),
        "JSON document": fill(json.dumps(one, indent=1), size),
        "JSON, cut off": json.dumps({"items": items})[:size],
        "source code": fill(_CODE, size),
        "many short lines": fill("".join(f"step {i}\n" for i in range(1000)), size),
        "one long word": fill("abcdefghij", size),
        "non-ASCII": fill(_WIDE, size),
        "nearly blank": "a" + fill(" \n\t", size - 1),
    }


def adversaries(patterns: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, bool]]:
    """Yield a name, a unit to repeat, and whether it is built from a rule's pattern.

    Of each of ``patterns``: its first words again and again, all of it but the last letter, its words in pairs. The others
    hurt the steps that read documents, times and secrets.
    """
    for number, (rule, pattern) in enumerate(patterns):
        words = _words(pattern)
        if words:
            start = (words[0] + " ") * 16
            almost = " ".join(words)[:-1] + "~\n"
            mixed = "".join(f"{a} {b}\n" for a, b in zip(words, words[::-1], strict=True))
            yield f"{rule} #{number}", start + almost + mixed, True
    for name, unit in STEPS:
        yield name, unit, False


STEPS = (
    ("braces", "{"),
    ("open objects", '{"error":'),
    ("objects", '{"error":{"type":"x","message":"{"}}'),
    ("objects in objects", '{"error":{"message":"{\\"error\\": 1}"}} '),
    ("statuses", '{"status":429,"message":"m"}'),
    ("brackets", '{"a":[[[[[['),
    ("broken objects", '{"error": "x" "y"}\n'),
    ("long string", '{"message":"aaaaaaaa\\"bbbb'),
    ("lines", "a\n"),
    ("empty lines", "\n"),
    ("carriage returns", "a\r"),
    ("foreign lines", "MCP server x\n"),
    ("foreign and own", "MCP server x\nerror: usage limit reached\n"),
    ("foreign words", "mcp server "),
    ("header lines", "HTTP/2 429\nretry-after: x\nx-ratelimit-reset: y\n"),
    ("headers of times", "HTTP/1.1 429 x\nretry-after: 5\nx-ratelimit-reset-requests: 6m0s\n"),
    ("statuses in words", "API Error: 4 unexpected status 5 HTTP/1.1 error: status code: "),
    ("triggers", "retry "),
    ("triggers and gaps", "try again later in about "),
    ("durations", "resets in 3 hours 4 minutes and 5 "),
    ("long duration", "1 hour "),
    ("dates", "resets Oct 9 at 5am (Europe/"),
    ("suffixes", "limit reached|"),
    ("fields of times", 'retry_after": "'),
    ("epochs", "resets at 1760000400 "),
    ("bars", "limit "),
    ("keys", "sk-ant-api03-"),
    ("key-like", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ"),
    ("mail-like", "a.b-c_d+e@f."),
    ("urls", "https://user:pass@host/path?token="),
    ("jwt-like", "eyJhbGciOi.eyJzdWIi."),
    ("headers with secrets", "Authorization: Bearer \n"),
    ("homes", "/home/someone/"),
    ("private keys", "-----BEGIN PRIVATE KEY-----\n"),
    ("assignments", "API_KEY="),
    ("quotes", "\"'`"),
    ("quoted words", '\\\\"'),
    ("spaces", " "),
    ("words", "limit reached exceeded quota hit you your "),
    ("letters", "x"),
    ("digits", "7"),
    ("percent", "9.9% limit "),
    ("wide", "é€𝄞"),
    ("curly", "’“—"),
    ("nothing", "."),
)


def _words(pattern: str) -> list[str]:
    """The literal words of a pattern: escapes and what is repeated or optional is passed over."""
    plain = re.sub(r"\\[bBAzsSdDwW]|\(\?[a-zA-Z-]*:?|\[[^\]]*\]|\{[\d,]*\}", " ", pattern)
    plain = re.sub(r"\\(.)", r"\1", plain)
    return [word for word in re.split(r"[\s()|?*+^$.]+", plain) if len(word) > 1]
