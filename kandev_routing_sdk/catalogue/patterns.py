"""RE2 for rules: what their authors write, bounds on it, and one pass over a text for all of them (R-CLS-7, R-PRF-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import re2

from kandev_routing_sdk.errors import CatalogueError

MAX_PROGRAM: Final = 8192
"""Instructions that one pattern may compile to. The largest shipped one has about 2 800."""
MAX_MEMORY: Final = 64 * 1024 * 1024
"""Bytes the automata may use: far above what the shipped rules need."""
_CHEAP: Final = 512
"""A pattern up to this long is small, unless it repeats by number or names Unicode classes."""
_PREFIX: Final = r"^(?:\W*\d[\dT:.,Z+-]+ )?\W*(?:\[?(?:internal error|api error|error|fatal)\]?\s*:?\s*)*"
"""What may stand before a whole message: a time, labels."""
_CANARY: Final = r"\z"
"""Matches every text, at its end: a pass without it gave up before the end."""


def to_re2(pattern: str) -> str:
    """Return ``pattern`` with each space standing for any white space and each apostrophe for the curly one too."""
    out: list[str] = []
    in_class = escaped = False
    for char in pattern:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        elif char == " ":
            out.append(r"\s" if in_class else r"(?:\s+)")
            continue
        elif char == "'":
            out.append("'’" if in_class else "['’]")
            continue
        out.append(char)
    return "(?m)" + "".join(out)


def exact_to_re2(message: str) -> str:
    """Return the pattern of a line that says ``message`` and nothing else, but for a prefix such as ``Error:``."""
    words = re2.escape(message.strip().rstrip(".!")).replace(r"\ ", " ").replace(r"\'", "'")
    return to_re2(rf"{_PREFIX}{words}[.!]?\s*$")


def compile_rule(pattern: str, owner: str) -> Any:  # noqa: ANN401  (the engine has no stubs)
    """Compile one pattern.

    Args:
        pattern: RE2 source.
        owner: whose it is, for the error message.

    Raises:
        CatalogueError: it is not RE2, or larger than a rule's pattern may be.
    """
    shown = f"'{_as_written(pattern)}'"
    try:
        compiled = re2.compile(pattern, _options())
    except re2.error as e:
        reason = e.args[0].decode() if e.args and isinstance(e.args[0], bytes) else str(e)
        if "repetition size" in reason:
            reason += "; nothing may be repeated more than 1000 times, and repeats within repeats multiply"
        raise CatalogueError(f"{owner}: the pattern {shown} is not RE2: {reason}") from None
    if compiled.programsize > MAX_PROGRAM:
        raise CatalogueError(
            f"{owner}: the pattern {shown} is too large: {compiled.programsize} instructions, at most {MAX_PROGRAM} are "
            "allowed; repeat less often or split it"
        )
    return compiled


def _as_written(pattern: str) -> str:
    """Undo :func:`to_re2`, so that who wrote the pattern finds it: one line, backslashes as they are."""
    written = pattern.removeprefix("(?m)").replace(r"(?:\s+)", " ").replace("['’]", "'").replace("'’", "'")
    written = "".join(c if c.isprintable() else " " for c in written)
    return written if len(written) <= 160 else f"{written[:160]}…"  # noqa: PLR2004  (a line of a terminal or two)


def compile_any(patterns: Sequence[str]) -> Any:  # noqa: ANN401  (the engine has no stubs)
    """Compile checked patterns to one that finds the leftmost match of any of them."""
    options = _options()
    # groups are of no use, and looking for them takes longest
    options.never_capture = True
    return re2.compile("|".join(f"(?:{p})" for p in patterns), options)


class PatternSet:
    """Many patterns, found in one pass. Add all, then :meth:`seal`, then ask; immutable from there on."""

    def __init__(self) -> None:
        self._set = re2.Set.SearchSet(_options())
        self._patterns: list[tuple[str, str]] = []

    def add(self, pattern: str, owner: str) -> int:
        """Add a pattern and return its number, counted from 0.

        Raises:
            CatalogueError: as :func:`compile_rule`.
        """
        if len(pattern) > _CHEAP or "{" in pattern or r"\p" in pattern.lower():
            compile_rule(pattern, owner)
        try:
            self._set.Add(pattern)
        except re2.error:
            # the set does not say why; the engine does
            compile_rule(pattern, owner)
            raise
        self._patterns.append((pattern, owner))
        return len(self._patterns) - 1

    def seal(self) -> None:
        """Compile.

        Raises:
            CatalogueError: all patterns together are too large.
        """
        self._set.Add(_CANARY)
        try:
            self._set.Compile()
        except re2.error:
            raise CatalogueError(
                f"the {len(self._patterns)} patterns of all rule files together are too large for {MAX_MEMORY >> 20} MiB; "
                "load fewer rules"
            ) from None

    def hits(self, text: str | bytes) -> list[int]:
        """Return the numbers of the patterns that are somewhere in ``text``, in any order."""
        found: list[int] | None = self._set.Match(text)
        if not found:
            # Out of memory, the set says "nothing", which must not pass for an answer. One by one they need next to none.
            return [i for i, (p, owner) in enumerate(self._patterns) if compile_rule(p, owner).search(text)]
        if len(found) == 1:
            return []
        canary = len(self._patterns)
        return [i for i in found if i != canary]


def _options() -> Any:  # noqa: ANN401  (the engine has no stubs)
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return options
