"""Secrets by the name before them: pairs, flags, elements, sentences (R-EVI-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kandev_routing_sdk.evidence.linear import Match, compile_linear
from kandev_routing_sdk.evidence.secret_names import NAME_HINT, is_plain, names_secret

__all__ = ["ELEMENT", "FLAG", "SAID", "hide_element", "hide_flag", "hide_named", "hide_said"]

_HIDDEN: Final = "[redacted:secret]"
# Without groups RE2 answers from its DFA, several times faster; the name is cut out by hand.
_NAME: Final = compile_linear(
    rf"(?i)(?:\\+[nrt])?[\w.-]*{NAME_HINT}[\w.-]*(?: (?:provided|used|is|was))?\\*[\"'`]?\]?[ \t]*(?:=>|:=|==?|:)[ \t]*"
)
_SIGNS: Final = "=:> \t\"'`]\\"
_OPENING: Final = re.compile(r"\\*[\"']")
_BODIES: Final[Mapping[str, re.Pattern[str]]] = {
    '"': re.compile(r"(?:[^\"\\\r\n]|\\.)*"),
    "'": re.compile(r"(?:[^'\\\r\n]|\\.)*"),
}
_ESCAPED_BODIES: Final[Mapping[str, re.Pattern[str]]] = {
    '"': re.compile(r"[^\"\\\r\n]*"),
    "'": re.compile(r"[^'\\\r\n]*"),
}
_STOPS: Final = frozenset(" \t\r\n\f\v\"'\\&`<>,;|")
_NOT_FIRST: Final = _STOPS | frozenset("{}[]:=")
_RUN: Final = re.compile(r"[^\s\"'\\&`<>,;|]*")
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token|apikey|negotiate|ssws|dpop|key)[ \t]+")
_NEXT_WORD: Final = re.compile(r"[,;|][A-Za-z0-9_.-]*")
SAID: Final = (
    r"(?i)\b(?P<name>password|passphrase|passcode|secret|token|api[ _-]?key)(?P<sep> (?:is|was) [\"'`]?)"
    r"(?P<value>[^\s\"'`<>\[\]{}]+)"
)
FLAG: Final = (
    rf"(?i)(?P<name>(?:^|\\[nrtf]|[^\w-])--?[\w-]*{NAME_HINT}[\w-]*)(?P<sep>[ \t]+[\"']?|\\*[\"'],[ \t]*\\*[\"'])"
    r"(?P<value>[^\s\"'\\\[-][^\s\"'\\]*)"
)
ELEMENT: Final = rf"(?i)(?P<name><[\w.:-]*{NAME_HINT}[\w.:-]*)(?P<sep>>)(?P<value>[^<>\r\n\[][^<>\r\n]*)"
_NUMBER: Final = compile_linear(r"[0-9]{1,7}(?:\.[0-9]+)?[smhd%]?")
_SHORTEST: Final = 6


def hide_named(text: str) -> str:
    """``text`` with the values of secret names replaced: ``key=…``, ``"key": "…"``, ``Key: …`` and their escaped forms.

    Names are found first and values read only after those that are secret: the value of a harmless name may hold a
    pair of its own.
    """
    parts: list[str] = []
    done = 0
    for found in _NAME.finditer(text):
        if found.start() < done:
            continue
        name = _name(found.group() or "")
        if not names_secret(name):
            continue
        quote, value = _value_at(text, found.end())
        start = found.end() + len(quote)
        if _is_hidden(name, value, quoted=bool(quote)):
            parts += (text[done:start], _HIDDEN)
            done = start + len(value)
    return "".join([*parts, text[done:]])


def _name(matched: str) -> str:
    """The name without the signs after it and the escaped line break before it."""
    name = matched.rstrip(_SIGNS)
    return name.lstrip("\\")[1:] if name.startswith("\\") else name


def _value_at(text: str, start: int) -> tuple[str, str]:
    """The opening quote and the value that stand at ``start``."""
    if opening := _OPENING.match(text, start):
        bodies = _BODIES if len(opening.group()) == 1 else _ESCAPED_BODIES
        body = bodies[opening.group()[-1]].match(text, opening.end())
        return opening.group(), body.group() if body else ""
    scheme = _SCHEME.match(text, start)
    end = _bare_end(text, scheme.end() if scheme else start)
    # The brackets and stops around an unquoted value are the sentence's.
    return "", text[start:end].rstrip(")]}.,;:! \t\r\n")


def _bare_end(text: str, start: int) -> int:
    """Where an unquoted value ends. A comma is part of it, unless another pair may start after it."""
    if text[start : start + 1] in _NOT_FIRST:
        return start
    run = _RUN.match(text, start)
    end = run.end() if run else start
    while word := _NEXT_WORD.match(text, end):
        after = text[word.end() : word.end() + 1]
        if not after or after.isspace():
            return word.end()
        run = _RUN.match(text, word.end())
        if after in _NOT_FIRST or run is None:
            break
        end = run.end()
    return end


def _is_hidden(name: str, value: str, *, quoted: bool) -> bool:
    """Whether this value of this name is a secret."""
    is_marker = value.startswith("[redacted:") and value.endswith("]") and value.count("[") == 1
    if not value or is_marker or is_plain(value):
        return False
    lowered = name.lower()
    if lowered in {"pwd", "oldpwd"} and value.startswith(("/", "~", ".")):
        return False  # the shell's working directory
    if "pass" in lowered or "pwd" in lowered or "secret" in lowered:
        return True
    return not _NUMBER.fullmatch(value) and (quoted or len(value) >= _SHORTEST)


def hide_said(found: Match) -> str:
    """The word after `the password is`, if it is no word of the language."""
    value = found.group("value") or ""
    odd = any(char.isdigit() for char in value) or not value.strip(".,;:!?").isalnum()
    if not odd or len(value) < _SHORTEST or is_plain(value) or _NUMBER.fullmatch(value):
        return found.group() or ""
    return (found.group("name") or "") + (found.group("sep") or "") + _HIDDEN


def hide_flag(found: Match) -> str:
    """``--api-key …``: the next argument."""
    name, value = found.group("name") or "", found.group("value") or ""
    if not names_secret(name) or not _is_hidden(name, value, quoted=True):
        return found.group() or ""
    return name + (found.group("sep") or "") + _HIDDEN


def hide_element(found: Match) -> str:
    """``<password>…</password>``."""
    return hide_flag(found)
