"""Which values of a launch are secrets, so that they can be taken out of whatever its agent says (R-EVI-5)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.evidence.secret_names import is_plain, names_secret
from kandev_routing_sdk.profiles import ConcreteProfile

_SECRET_NAME: Final = re.compile(
    r"(?i)key|token|secret|pass|pwd|psk|credential|auth|cookie|session|private|header|webhook|dsn|git_config_value|(?<![a-z])pin(?![a-z])"
)
_PLAIN_NAME: Final = re.compile(r"PATH|HOME|LANG|LC_.*|TZ|TERM|TMPDIR|SHELL|USER|LOGNAME|NO_COLOR|XDG_.*")
_PLAIN_VALUE: Final = re.compile(
    r"[./~][\w./ -]*|https?://[\w.:\[\]-]+(?:/(?:v\d+|[A-Za-z][A-Za-z._-]{0,24}))*/?|\d{1,7}|true|false|[a-z]{1,12}"
)
"""An address with digits or a long word in its path may be one that lets its reader in (a webhook's)."""
_PASSWORD: Final = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_PARTS: Final = (
    _PASSWORD,
    re.compile(r"[?&;][\w.-]+=([^\s&;#]+)"),
    re.compile(r"(?im)^\s*[a-z][\w-]*:[ \t]*(?:(?:bearer|basic|token)[ \t]+)?(\S+)[ \t]*$"),
    re.compile(r"\A[A-Za-z_][\w.-]*=(\S+)\Z"),
    re.compile(r"(?<=/)((?=[\w-]*\d)[\w-]{12,})"),
)
"""In a URL, a header, an assignment: what is said again without the rest, as in ``authentication failed for …``."""
_MIN_SECRET: Final = 6
_MIN_OPAQUE: Final = 12


def known_secrets(
    profile: ConcreteProfile, environ: Mapping[str, str], literals: Mapping[str, str], sure: Iterable[str]
) -> set[str]:
    """Return every value of a launch that may be a secret, and its parts.

    Args:
        profile: whose arguments are looked at.
        environ: the child's whole environment.
        literals: the values that the profile itself holds; all of them may be secrets, unless they plainly are none.
        sure: values that are known to be secrets.
    """
    whole = {*sure, *_of_literals(literals), *_of_arguments(profile)}
    whole |= {v for n, v in environ.items() if names_secret(n) or (_SECRET_NAME.search(n) and not _is_plain(v))}
    parts = {part for value in whole for part in _parts(value)}
    parts |= {password for value in environ.values() for password in _PASSWORD.findall(value)}
    return whole | {part for part in parts if len(part) >= _MIN_SECRET and not is_plain(part)}


def _is_plain(value: str) -> bool:
    return _PLAIN_VALUE.fullmatch(value) is not None


def _of_literals(literals: Mapping[str, str]) -> list[str]:
    return [
        value
        for name, value in literals.items()
        if len(value) >= _MIN_SECRET
        and not _PLAIN_NAME.fullmatch(name)
        and not is_plain(value)
        and (names_secret(name) or _SECRET_NAME.search(name) or not _is_plain(value))
    ]


def _of_arguments(profile: ConcreteProfile) -> list[str]:
    """Values of flags that are named so, and opaque-looking ones."""
    found: list[str] = []
    after_secret_flag = after_model_flag = False
    for argument in (*(profile.command or ())[1:], *profile.args):
        flag, _, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        named = after_secret_flag or bool(flag and _SECRET_NAME.search(flag))
        opaque = (
            bool(re.search(r"\d", value))
            and not after_model_flag
            and len(value) >= _MIN_OPAQUE
            and not _is_plain(value)
        )
        if value and len(value) >= _MIN_SECRET and (named or opaque):
            found.append(value)
        after_secret_flag = bool(flag and not value and _SECRET_NAME.search(flag))
        after_model_flag = bool(flag and not value and (flag == "-m" or "model" in flag))
    return found


def _parts(value: str) -> Iterator[str]:
    for pattern in _PARTS:
        yield from pattern.findall(value)
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _MIN_OPAQUE and " " not in line)
    if value[:1] in {"{", "["}:
        try:
            document: JsonValue = json.loads(value)
        except (ValueError, RecursionError):
            return
        yield from _leaves(document)


def _leaves(document: JsonValue) -> Iterator[str]:
    rest = [document]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            rest += value.values()
        elif isinstance(value, list):
            rest += value
        elif isinstance(value, str) and not _is_plain(value):
            yield value
