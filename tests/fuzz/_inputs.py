"""What may come in: hostile values of every kind, and true reports that were bent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from kandev_routing_sdk.types import Channel, Delivery, Phase
from tests.catalogue._shipped import CORPUS, evidence, shipped

FIXTURES = [
    (rule, fixture, signal) for rule in shipped().rules for fixture in rule.fixtures for signal in fixture.signals
]
FAMILIES = ["claude", "codex", "opencode", "other"]
CORPUS_TEXTS = [
    text
    for line in CORPUS.read_text("utf-8").splitlines()
    for text in (s.get("text") for s in json.loads(line)["evidence"]["signals"])
    if text
]
TRUE_TEXTS = sorted({*CORPUS_TEXTS, *(s.text for _, _, s in FIXTURES if s.text)})
RUNTIME = [c.value for c in Channel if c.is_runtime]
CONTENT = [c.value for c in Channel if not c.is_runtime]

PIECES = [
    "{",
    "}",
    '{"error":',
    '{"error":{"type":"rate_limit_error"}}',
    "[[[[[[[[",
    '"\\"',
    "\\u0065rror",
    "\x00",
    "\x1b[31m",
    "\x1b]8;;http://x\x1b\\",
    "\ud800",
    "\udfff",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\u2028",
    "\x85",
    "\r",
    "\r\n",
    "\n",
    "\t",
    "\x0b\x0c\x1c",
    "𝄞",
    "İ",
    "\u212a",
    "HTTP/2 429\nretry-after: 5\n",
    "API Error: 429",
    "retry after 99999999999 s",
    "resets 3pm (Europe/London)",
    "limit reached|1760000400",
    "MCP server x: ",
    "sk-ant-api03-FAKEfakeFAKEfakeFAKEfake",
    "Authorization: Bearer ",
    "é" * 9,
    " " * 99,
    "a" * 99,
]


@st.composite
def _picked(draw: st.DrawFn, values: Callable[[], Sequence[Any]]) -> Any:
    # Composite, as all that holds much here: other strategies are printed with all they hold.
    there = values()
    return there[draw(st.integers(0, len(there) - 1))]


def picked(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of many values."""
    return _picked(lambda: values)


@st.composite
def _small(draw: st.DrawFn) -> str:
    text: str = draw(st.text(max_size=40) | st.sampled_from(PIECES) | st.sampled_from(TRUE_TEXTS))
    return text


@st.composite
def _texts(draw: st.DrawFn) -> str:
    return "".join(draw(st.lists(_small(), max_size=6)))


@st.composite
def _repeated(draw: st.DrawFn) -> str:
    unit = draw(_small()) or "x"
    size = draw(st.sampled_from([5_000, 70_000, 1_100_000]))
    return (unit * (size // len(unit) + 1))[:size]


TEXTS = _texts()
REPEATED = _repeated()
"""Up to a megabyte."""

KEYS = st.sampled_from(
    [
        *(
            "error",
            "type",
            "code",
            "message",
            "status",
            "data",
            "details",
            "headers",
            "retry_after",
            "resetsAt",
            "willRetry",
        ),
        *("codexErrorInfo", "api_error_status", "sessionUpdate", "name", "__type", "0", "*", "API_KEY", "password"),
    ]
) | st.text(max_size=8)
NUMBERS = (
    st.integers()
    | st.sampled_from([0, -1, 429, 10**30, -(10**400), 2**63, 1760000400])
    | st.floats()
    | st.sampled_from([float("nan"), float("inf"), -0.0, 1e308])
)
_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def _values(draw: st.DrawFn) -> Any:
    return draw(_VALUES)


VALUES = _values()


def _deep(value: Any, depth: int, key: str | None) -> Any:
    for _ in range(depth):
        value = [value] if key is None else {key: value}
    return value


DEEP = st.builds(_deep, VALUES, st.sampled_from([5, 70, 150]), st.none() | KEYS)
ANYTHING = VALUES | DEEP

EFFECTS = st.none() | st.fixed_dictionaries(
    {"delivery": st.sampled_from([d.value for d in Delivery]), "complete": st.booleans()},
    optional={k: st.booleans() for k in ("output", "thinking", "tool_call", "tool_effect")},
)


def signals(channels: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"channel": st.sampled_from(channels)},
        optional={
            "text": TEXTS | REPEATED,
            "data": ANYTHING,
            "headers": st.dictionaries(
                st.sampled_from(["retry-after", "x-codex-primary-used-percent", "Authorization"]) | TEXTS,
                TEXTS,
                max_size=12,
            ),
            "code": st.integers() | TEXTS,
            "http_status": st.sampled_from([200, 400, 401, 403, 429, 500, 529]) | st.integers(),
            "phase": st.sampled_from([p.value for p in Phase]),
            "at": st.sampled_from(["2026-04-29T14:58:12Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+00:00"]),
        },
    )


def records(channels: list[str], *, most: int = 6) -> st.SearchStrategy[dict[str, Any]]:
    """Records in the right form, with anything in it."""
    envelope = st.fixed_dictionaries(
        {
            "family": st.sampled_from(FAMILIES) | TEXTS,
            "phase": st.sampled_from([p.value for p in Phase]),
            "signals": st.lists(signals(channels), max_size=most),
        },
        optional={
            "effects": EFFECTS,
            "observed_at": st.sampled_from(["2026-04-29T14:58:12Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]),
            "local_zone": st.sampled_from(["Europe/Berlin", "nowhere", "../etc/passwd", "\x00", ""]),
            "http_status": st.integers() | st.just(429),
            "exit_code": st.integers(),
            "exit_signal": st.sampled_from(["SIGKILL", "x"]) | TEXTS,
            "provider_id": TEXTS,
            "model_id": TEXTS,
        },
    )
    return st.fixed_dictionaries({"evidence": envelope}, optional={"id": st.text(max_size=9) | st.integers()})


WRONG = st.one_of(
    ANYTHING,
    st.fixed_dictionaries({"evidence": ANYTHING}, optional={"id": ANYTHING}),
    st.builds(lambda r, k, v: {**r, "evidence": {**r["evidence"], k: v}}, records(RUNTIME, most=2), KEYS, ANYTHING),
    st.builds(
        lambda r, k, v: {**r, "evidence": {**r["evidence"], k: v}},
        records(RUNTIME, most=2),
        st.sampled_from(["family", "phase", "signals", "effects", "observed_at", "exit_code", "dropped"]),
        ANYTHING,
    ),
)
"""Records that are mostly none."""

# True reports, bent -----------------------------------------------------------------------------------------------------

NOISE = [
    "compiling crate 12 of 90",
    "ok",
    "",
    "   ",
    "Reading files…",
    "✓ done in 3 files",
    '{"level":"info","msg":"tick"}',
    "\x1b[2K\x1b[1A",
    "....................",
]


def _is_foreign(text: str, channel: Channel, family: str) -> bool:
    winner = shipped().judge(evidence({"channel": channel, "text": text}, family=family)).winner
    return winner is not None and winner.rule.foreign


FOREIGN_LINES = sorted(
    {
        (s.text, channel.value, family)
        for r, f, s in FIXTURES
        for channel in r.channels
        for family in (r.families or FAMILIES[-1:])
        if r.foreign and f.kind == "positive" and s.text and "\n" not in s.text and _is_foreign(s.text, channel, family)
    }
)
"""Lines that are somebody else's, where and for whom they are."""


def _ansi(text: str) -> str:
    return "\n".join(f"\x1b[31m{line}\x1b[0m" for line in text.split("\n"))


_BENDS = st.sampled_from(
    [
        lambda t, n: t[: max(len(t) * n // 10, 1)],
        lambda t, n: t[len(t) * n // 20 :],
        lambda t, n: "\n".join([t] * n),
        lambda t, n: t.upper(),
        lambda t, n: t.swapcase(),
        lambda t, n: t.replace(" ", " " * n),
        lambda t, n: t.replace(" ", "\n"),
        lambda t, n: t.replace("e", "é"),
        lambda t, n: f"{NOISE[n % len(NOISE)]}\n{t}\n{NOISE[-n % len(NOISE)]}",
        lambda t, n: json.dumps({"error": {"message": t}}),
        lambda t, n: json.dumps(json.dumps({"message": t})),
        lambda t, n: json.dumps({"x": [t] * n})[: 9 + len(t) * n // 2],
        lambda t, n: _ansi(t),
        lambda t, n: t.encode()[n:].decode("latin-1"),
        lambda t, n: "\u202e" + t + "\u202c",
        lambda t, n: f"the log says “{t}” and more",
        lambda t, n: t + TRUE_TEXTS[(n * 37) % len(TRUE_TEXTS)],
    ]
)


def _bent(text: str, bends: list[tuple[Any, int]]) -> str:
    for bend, number in bends:
        text = bend(text.encode("utf-8", "replace").decode(), number)[:20_000]
    return text


BENT = st.builds(_bent, picked(TRUE_TEXTS), st.lists(st.tuples(_BENDS, st.integers(1, 10)), max_size=3))
"""A true text, cut, spliced, repeated, recoloured, wrapped."""
