"""What names a credential without being one (R-CIR-3).

An adapter builds the descriptor after it resolved the launch environment. If it cannot prove a part, it builds none, and health is
kept per profile.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

MAX_FIELD_CHARS: Final = 256

# A net for mistakes, not a scanner: shapes that are never a name of a place. Adapters must not put secrets here in the first place.
_SECRET_SHAPES: Final = (
    ("a private key", re.compile(r"-----BEGIN ")),
    ("a JSON web token", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}")),
    ("an authorisation header", re.compile(r"\b(?:bearer|basic)\s+\S{8,}", re.IGNORECASE)),
    (
        "an API key",
        re.compile(
            r"\b(?:sk-|rk-|pk-|sess-|xai-|gsk_|hf_|r8_|gh[pousr]_|github_pat_|glpat-|npm_|pypi-|xox[abeoprs]-|ya29\.)[\w-]{8,}"
            r"|\bAKIA[0-9A-Z]{12,}|\bASIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}"
        ),
    ),
    ("a URL with a user or a password", re.compile(r"://[^/\s@]+@")),
)
_OPAQUE: Final = (
    # Not behind a slash: a home directory of a network login may well be called me@example.org.
    ("an e-mail address", re.compile(r"(?<![\w.+/-])[\w.+-]+@[\w-]+\.\w")),
    ("a raw account id", re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)),
    ("a key or a hash", re.compile(r"\b(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{32,}\b")),
)


def _nfc(value: object) -> object:
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def _plain(value: str) -> str:
    # The message never repeats the value: it may be the secret that it was refused for.
    if value != value.strip() or not value.isprintable():
        raise ValueError("must be printable text without spaces at its ends")
    for what, shape in _SECRET_SHAPES:
        if shape.search(value):
            raise ValueError(f"looks like {what}; a descriptor names where a credential is kept, never the credential")
    return value


def _no_opaque(value: str) -> str:
    for what, shape in _OPAQUE:
        if shape.search(value):
            raise ValueError(f"looks like {what}; a descriptor names where a credential is kept, never the credential")
    return value


HostText = Annotated[
    str, BeforeValidator(_nfc), Field(strict=True, min_length=1, max_length=MAX_FIELD_CHARS), AfterValidator(_plain)
]
"""Named by the host: may be an opaque id of the host's own."""
NameText = Annotated[HostText, AfterValidator(_no_opaque)]
"""Named by the adapter: readable."""


class CredentialBindingDescriptor(BaseModel):
    """Version 1. Equal descriptors mean the same usable credential; anything that makes it another one differs in a field.

    Never in it: command prefix, model, flags, literal environment values, secrets, contents of credential files, prompts, raw
    account ids. Short printable NFC text only; what is shaped like a secret is refused.

    Raises:
        pydantic.ValidationError: a field is empty, too long or looks like a secret. Its text does not show the value.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    version: Literal[1] = 1
    family: NameText
    mechanism: NameText
    """How the agent signs in: ``oauth``, ``api_key``, ``gateway`` …"""
    source_kind: NameText
    """What kind of place holds the credential: ``environment``, ``file``, ``keychain``, ``helper`` …"""
    locator: NameText
    """Which one of that kind: the variable's name, the file's path. Never what is in it."""
    executor_namespace: HostText
    """Where the locator means something: this machine, this container, this user."""
    authorisation_scope: NameText
    """What the credential is good for: the service actually addressed, a plan, a region."""
    workspace_scope: HostText | None = None
    """The host's workspace, if credentials belong to one."""

    @classmethod
    def if_provable(cls, **fields: str | None) -> Self | None:
        """Return the descriptor, or None when a part is missing or may not be in one: health then stays with the profile.

        For adapters, whose locators (paths, URLs) come from wherever they run.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError:
            return None


def canonical(descriptor: CredentialBindingDescriptor) -> bytes:
    """Return the one byte form: JSON with sorted keys and no spaces, NFC text in UTF-8."""
    return json.dumps(
        descriptor.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()
