"""Secrets by the name before them: pairs, flags, elements, sentences (R-EVI-5)."""

from __future__ import annotations

from typing import Final

from kandev_routing_sdk.evidence.linear import Match, compile_linear
from kandev_routing_sdk.evidence.secret_names import NAME_HINT, is_plain, names_secret

__all__ = ["ELEMENT", "FLAG", "SAID", "hide_element", "hide_flag", "hide_named", "hide_said"]

_HIDDEN: Final = "[redacted:secret]"
_NAME: Final = compile_linear(
    rf"(?i)(?:\\+[nrt])?(?P<name>[\w.-]*{NAME_HINT}[\w.-]*(?: (?:provided|used|is|was))?)"
    r"\\*[\"'`]?\]?[ \t]*(?:=>|:=|==?|:)[ \t]*"
)
_STOP: Final = r"\s\"'\\&`<>,;|"
_VALUE: Final = compile_linear(
    r"^(?:(?P<quote1>\\+\")(?P<v1>[^\"\\\r\n]+)|(?P<quote2>\\+')(?P<v2>[^'\\\r\n]+)"
    r"|(?P<quote3>\")(?P<v3>(?:[^\"\\\r\n]|\\.)+)|(?P<quote4>')(?P<v4>(?:[^'\\\r\n]|\\.)+)"
    r"|(?P<v5>(?:(?i:Bearer|Basic|Token|ApiKey|Negotiate|SSWS|DPoP|Key)[ \t]+)?"
    rf"[^{_STOP}{{}}\[\]:=][^{_STOP}]*"
    # A comma is part of the value unless another pair may start after it.
    rf"(?:[,;|](?:[^\w{_STOP}]|[\w.-]*[^\w.:={_STOP}-])[^{_STOP}]*)*(?:[,;|][\w.-]+(?:\s|\z))?))"
)
SAID: Final = (
    r"(?i)\b(?P<name>password|passphrase|passcode|secret|token|api[ _-]?key)(?P<sep> (?:is|was|of|to) [\"'`]?)"
    r"(?P<value>[^\s\"'`<>\[\]{}]+)"
)
FLAG: Final = (
    rf"(?i)(?P<name>--?[\w-]*{NAME_HINT}[\w-]*)(?P<sep>[ \t]+[\"']?|\\*[\"'],[ \t]*\\*[\"'])"
    r"(?P<value>[^\s\"'\\\[-][^\s\"'\\]*)"
)
ELEMENT: Final = rf"(?i)(?P<name><[\w.:-]*{NAME_HINT}[\w.:-]*)(?P<sep>>)(?P<value>[^<>\r\n\[][^<>\r\n]*)"
_NUMBER: Final = compile_linear(r"[0-9]{1,7}(?:\.[0-9]+)?[smhd%]?")
_SHORTEST: Final = 6
_WINDOW: Final = 256
_QUOTES: Final = ("quote1", "quote2", "quote3", "quote4")
_VALUES: Final = ("v1", "v2", "v3", "v4", "v5")


def hide_named(text: str) -> str:
    """``text`` with the values of secret names replaced: ``key=…``, ``"key": "…"``, ``Key: …`` and their escaped forms.

    Names are found first and values read only after those that are secret: the value of a harmless name may hold a
    pair of its own.
    """
    parts: list[str] = []
    done = 0
    for found in _NAME.finditer(text):
        if found.start() < done or not names_secret(found.group("name") or ""):
            continue
        quote, value = _value_at(text, found.end())
        start = found.end() + len(quote)
        if _is_hidden(found.group("name") or "", value, quoted=bool(quote)):
            parts += (text[done:start], _HIDDEN)
            done = start + len(value)
    return "".join([*parts, text[done:]])


def _value_at(text: str, start: int) -> tuple[str, str]:
    """The quote and the value that stand at ``start``; the window grows while the value fills it."""
    size = _WINDOW
    while True:
        window = text[start : start + size]
        found = _VALUE.match(window)
        if found is None:
            return "", ""
        if found.end() < len(window) or start + size >= len(text):
            break
        size *= 4
    quote = next((part for name in _QUOTES if (part := found.group(name))), "")
    value = next((part for name in _VALUES if (part := found.group(name))), "")
    # The brackets and stops around an unquoted value are the sentence's.
    return quote, value if quote else value.rstrip(")]}.,;:! \t\r\n")


def _is_hidden(name: str, value: str, *, quoted: bool) -> bool:
    """Whether this value of this name is a secret."""
    is_marker = value.startswith("[redacted:") and value.endswith("]") and value.count("[") == 1
    if not value or is_marker or is_plain(value):
        return False
    lowered = name.lower()
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
