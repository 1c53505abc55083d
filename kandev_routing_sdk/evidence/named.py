"""Secrets by the name before them: pairs, flags, elements, sentences (R-EVI-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kandev_routing_sdk.evidence.linear import START, Match, compile_linear
from kandev_routing_sdk.evidence.opaque import is_coded
from kandev_routing_sdk.evidence.secret_names import NAME_HINT, is_plain, names_secret

__all__ = ["ELEMENT", "FLAG", "SAID", "hide_element", "hide_flag", "hide_named", "hide_said"]

_HIDDEN: Final = "[redacted:secret]"
# Without groups RE2 answers from its DFA, several times faster; the name is cut out by hand.
_CODED_QUOTE: Final = r"(?:&quot;|&#(?:34|39|x22|x27);|%2[27]|\\\\+u002[27])"
"""A quote as HTML, addresses and JSON may write it."""
_NAME: Final = compile_linear(
    rf"(?i)(?:\\+[nrt])?[\w.-]*{NAME_HINT}[\w.-]*(?: (?:provided|used|is|was))?(?:\\*[\"'`]|{_CODED_QUOTE})?\]?"
    r"(?:[ \t]*(?:=>|:=|==?|:)[ \t]*|(?:%20|\+)*%3[AD](?:%20|\+)*|\\+u003d)"
)
_SIGNS: Final = re.compile(rf"(?i)(?:[=:> \t\"'`\]\\+]|%3[AD]|%20|\\u003d|{_CODED_QUOTE})+\Z")
_OPENING: Final = re.compile(rf"(?i)\\*[\"']|{_CODED_QUOTE}")
_CODED_BODY: Final = re.compile(r"[^&%\\\"'\s]*(?:%(?!2[27])[^&%\\\"'\s]*)*")
_BLOCK: Final = re.compile(r"[|>][+-]?[0-9]?[ \t]*(?:\r?\n|\\+n)[ \t]+")
_BLOCK_BODY: Final = re.compile(r"[^\r\n\\]*(?:\r?\n[ \t][^\r\n:]*(?=[\r\n]|\Z))*")
_CONTINUED: Final = re.compile(r"(?:\r?\n|\\r\\n|\\n)[ \t]*([A-Za-z0-9+/_=.~-]{8,})(?=[\s\"'\\]|\Z)")
"""The rest of a long value that a narrow terminal put on the next line."""
_WRITTEN_BLOCK_BODY: Final = re.compile(r"[^\r\n\\\"']*")
_FURTHEST: Final = 4096
"""How far the closing quote of an escaped value is looked for."""
_BODIES: Final[Mapping[str, re.Pattern[str]]] = {
    '"': re.compile(r"(?:[^\"\\\r\n]|\\.)*"),
    "'": re.compile(r"(?:[^'\\\r\n]|\\.)*"),
}
_LINE_END: Final = re.compile(r"[\r\n]")
_ESCAPED_BODY: Final = re.compile(r"[^\"'\\\r\n]*")
_STOPS: Final = frozenset(" \t\r\n\f\v\"'\\&`<>,;|")
_NOT_FIRST: Final = _STOPS | frozenset("{}[]:=")
_RUN: Final = re.compile(r"[^\s\"'\\&`<>,;|]*")
_SCHEME: Final = re.compile(
    r"(?i)(?:bearer|basic|token|api-?key|negotiate|ssws|dpop|key|bot|splunk|sso-key|genie-?key|flyv1|snowflake)[ \t]+"
)
_NEXT_WORD: Final = re.compile(r"[,;|][A-Za-z0-9_.-]*")
SAID: Final = (
    rf"(?i)(?P<name>{START}(?:password|passphrase|passcode|secret|token|api[ _-]?key))(?P<sep> (?:is|was) [\"'`]?| \\*[\"'`])"
    r"(?P<value>[^\s\"'`<>\[\]{}\\]+)"
)
FLAG: Final = (
    rf"(?i)(?P<name>(?:^|\\[nrtf]|[^\w-])--?[\w-]*{NAME_HINT}[\w-]*)(?P<sep>[ \t]+[\"']?|\\*[\"'],[ \t]*\\*[\"'])"
    r"(?P<value>[^\s\"'\\\[-][^\s\"'\\]*)"
)
ELEMENT: Final = rf"(?i)(?P<name><[\w.:-]*{NAME_HINT}[\w.:-]*)(?P<sep>>)(?P<value>[^<>\r\n\[][^<>\r\n]*)"
_NUMBER: Final = compile_linear(r"[0-9]{1,7}(?:\.[0-9]+)?[smhd%]?")
_ONE_TIME: Final = re.compile(
    r"(?i)otp|(?:mfa|2fa|sms|verification|recovery|backup|user|device|login|pairing)[ _-]?code"
)
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
"""What an environment variable is called."""
_SHORTEST: Final = 6
_SHORTEST_CODE: Final = 4


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
            if not quote and is_coded(value) and (rest := _CONTINUED.match(text, done)) and is_coded(rest.group(1)):
                done = rest.end(1)
    return "".join([*parts, text[done:]])


def _name(matched: str) -> str:
    """The name without the signs after it and the escaped line break before it."""
    name = _SIGNS.sub("", matched)
    return name.lstrip("\\")[1:] if name.startswith("\\") else name


def _value_at(text: str, start: int) -> tuple[str, str]:
    """The opening quote and the value that stand at ``start``."""
    if opening := _OPENING.match(text, start):
        return opening.group(), _quoted(text, opening.group(), opening.end())
    if block := _BLOCK.match(text, start):
        body = (_WRITTEN_BLOCK_BODY if "\\" in block.group() else _BLOCK_BODY).match(text, block.end())
        return block.group(), body.group() if body else ""
    scheme = _SCHEME.match(text, start)
    end = _bare_end(text, scheme.end() if scheme else start)
    # The brackets and stops around an unquoted value are the sentence's.
    return "", text[start:end].rstrip(")]}.,;:! \t\r\n")


def _quoted(text: str, opening: str, start: int) -> str:
    """What stands between a quote and its like."""
    if opening[-1] not in _BODIES:
        body = _CODED_BODY.match(text, start)
    elif len(opening) == 1:
        body = _BODIES[opening].match(text, start)
    else:
        # Inside a JSON string the end has as many backslashes as the start; more of them are the value's own.
        end = text.find(opening, start, start + _FURTHEST)
        while end > start and text[end - 1] == "\\":
            end = text.find(opening, end + 1, start + _FURTHEST)
        if end >= start and not _LINE_END.search(text, start, end):
            return text[start:end]
        body = _ESCAPED_BODY.match(text, start)
    return body.group() if body else ""


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
    if _ONE_TIME.search(name) and len(value) >= _SHORTEST_CODE:
        return True
    return not _NUMBER.fullmatch(value) and (quoted or len(value) >= _SHORTEST)


def hide_said(found: Match) -> str:
    """The word after `the password is`, if it is no word of the language."""
    value = found.group("value") or ""
    if _VARIABLE.fullmatch(value):
        return found.group() or ""
    quoted = (found.group("sep") or "")[-1] in "\"'`"
    if quoted and (found.group("name") or "").lower().endswith("token") and not is_coded(value):
        return found.group() or ""  # `Unexpected token 'x1'` is about syntax
    odd = any(char.isdigit() for char in value) or not value.strip(".,;:!?").isalnum()
    odd = odd or (quoted and any(char.isupper() for char in value[1:]))
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
