"""Which credential, without the credential (R-CIR-3)."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import SecretBytes, ValidationError

from kandev_routing_sdk.binding import (
    CredentialBindingDescriptor,
    InstallationKey,
    canonical,
    fingerprint,
    new_installation_key,
)

MATERIAL = bytes(range(32))
KEY = new_installation_key(MATERIAL)
FIELDS: dict[str, Any] = {
    "family": "claude",
    "mechanism": "oauth",
    "source_kind": "file",
    "locator": "/home/me/.claude/.credentials.json",
    "executor_namespace": "host-1",
    "authorisation_scope": "anthropic",
    "workspace_scope": None,
}
TEXT_FIELDS = [name for name in FIELDS if name != "workspace_scope"]


def descriptor(**changes: Any) -> CredentialBindingDescriptor:
    return CredentialBindingDescriptor(**(FIELDS | changes))


def test_the_canonical_form_is_one_line_of_sorted_json() -> None:
    expected = json.dumps({**FIELDS, "version": 1}, sort_keys=True, separators=(",", ":")).encode()
    assert expected == canonical(descriptor())


def test_the_fingerprint_is_hmac_sha256_with_its_key_version() -> None:
    """Against the standard library's HMAC."""
    expected = hmac.new(MATERIAL, canonical(descriptor()), hashlib.sha256).hexdigest()
    assert f"v1:{expected}" == fingerprint(descriptor(), KEY)
    assert f"v7:{expected}" == fingerprint(descriptor(), new_installation_key(MATERIAL, version=7))


def test_another_installation_has_other_fingerprints() -> None:
    assert fingerprint(descriptor(), KEY) != fingerprint(descriptor(), new_installation_key(bytes(32)))


def test_one_text_in_two_unicode_forms_is_one_binding() -> None:
    composed, decomposed = (unicodedata.normalize(form, "/home/jürgen/.codex/auth.json") for form in ("NFC", "NFD"))
    assert composed != decomposed
    assert fingerprint(descriptor(locator=composed), KEY) == fingerprint(descriptor(locator=decomposed), KEY)


def test_absent_and_present_workspace_differ() -> None:
    assert fingerprint(descriptor(), KEY) != fingerprint(descriptor(workspace_scope="None"), KEY)


SECRETS = [
    "sk-ant-api03-AbCdEf0123456789",
    "sk-proj-AbCdEf0123456789",
    "ghp_AbCdEf0123456789AbCdEf0123456789",
    "github_pat_11AbCdEf01234",
    "xoxb-1234567890-abc",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijk",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "Bearer AbCdEf0123456789",
    "-----BEGIN PRIVATE KEY-----",
    "https://me:pw@proxy.example/v1",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("field", [*TEXT_FIELDS, "workspace_scope"])
def test_what_looks_like_a_secret_is_refused_and_not_repeated(field: str, secret: str) -> None:
    for value in (secret, f"env:{secret}", f"x {secret} y"):
        with pytest.raises(ValidationError, match="looks like") as caught:
            descriptor(**{field: value})
        assert secret not in str(caught.value)
        assert secret not in repr(caught.value)


@pytest.mark.parametrize(
    "opaque",
    ["0123456789abcdef0123456789abcdef", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6", "9b2f3c1e-5d4a-4b6c-8e7f-0a1b2c3d4e5f"],
)
def test_opaque_ids_are_for_the_host_only(opaque: str) -> None:
    """A raw account id or a key without a prefix; a host's own workspace may well be called that."""
    with pytest.raises(ValidationError, match="looks like"):
        descriptor(locator=opaque)
    with pytest.raises(ValidationError, match="looks like"):
        descriptor(authorisation_scope=opaque)
    assert opaque == descriptor(workspace_scope=opaque).workspace_scope
    assert opaque == descriptor(executor_namespace=opaque).executor_namespace


@pytest.mark.parametrize(
    "locator",
    [
        "ANTHROPIC_API_KEY",
        "env:OPENAI_API_KEY",
        "keychain:Claude Code-credentials",
        "/tmp/pytest-of-root/pytest-0/test_a_very_long_name_of_a_test0/home/.claude/.credentials.json",
        "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/home/.codex/auth.json",
        "https://api.anthropic.com",
        "/home/me@corp.example/.claude/.credentials.json",
        "task-sk",
        "~/.config/risk-assessment/credentials",
    ],
)
def test_names_of_places_are_accepted(locator: str) -> None:
    assert locator == descriptor(locator=locator).locator


@pytest.mark.parametrize("value", ["", " padded", "two\nlines", "nul\0", "x" * 257, 7, None, b"bytes"])
@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_fields_are_short_printable_text(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        descriptor(**{field: value})


def test_nothing_else_fits_into_a_descriptor() -> None:
    """R-CIR-3: no command, model, flags or environment."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        descriptor(model="opus")
    with pytest.raises(ValidationError):
        descriptor(version=2)


def test_what_is_not_provable_is_no_descriptor() -> None:
    """R-CIR-3: incomplete, or named by something that may not be in one: profile scope, not a failure of the adapter."""
    assert descriptor() == CredentialBindingDescriptor.if_provable(**FIELDS)
    assert CredentialBindingDescriptor.if_provable(**(FIELDS | {"locator": None})) is None
    assert CredentialBindingDescriptor.if_provable(**(FIELDS | {"locator": SECRETS[0]})) is None
    assert CredentialBindingDescriptor.if_provable(family="claude") is None


def test_a_key_is_long_enough_and_never_shown() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes") as caught:
        new_installation_key(b"canary-material")
    assert "canary" not in str(caught.value)
    with pytest.raises(ValueError, match="starts at 1"):
        new_installation_key(MATERIAL, version=0)
    key = InstallationKey(1, SecretBytes(b"canary-material-" * 3))
    assert "canary" not in repr(key)
    assert "canary" not in str(key)
    assert key == pickle.loads(pickle.dumps(key))


_safe = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=12)
_descriptors = st.fixed_dictionaries(dict.fromkeys(TEXT_FIELDS, _safe) | {"workspace_scope": st.none() | _safe})


@given(fields=_descriptors)
def test_equal_descriptors_have_equal_fingerprints(fields: dict[str, Any]) -> None:
    first, second = CredentialBindingDescriptor(**fields), CredentialBindingDescriptor(**dict(reversed(fields.items())))
    assert first == second
    assert fingerprint(first, KEY) == fingerprint(second, KEY)


@given(fields=_descriptors, name=st.sampled_from(list(FIELDS)), other=_safe)
def test_any_field_that_differs_makes_another_binding(fields: dict[str, Any], name: str, other: str) -> None:
    first, second = CredentialBindingDescriptor(**fields), CredentialBindingDescriptor(**(fields | {name: other}))
    assume(first != second)
    assert fingerprint(first, KEY) != fingerprint(second, KEY)


@given(fields=_descriptors)
def test_no_text_of_the_descriptor_is_in_the_fingerprint(fields: dict[str, Any]) -> None:
    opaque = fingerprint(CredentialBindingDescriptor(**fields), KEY)
    version, digest = opaque.split(":")
    assert ("v1", 64) == (version, len(digest))
    assert set(digest) <= set("0123456789abcdef")
    assert not any(value in opaque for value in fields.values() if value is not None and len(value) >= 6)


@given(value=st.text(max_size=300))
def test_any_text_is_accepted_or_refused_without_being_shown(value: str) -> None:
    shown = None
    try:
        kept = descriptor(locator=value).locator
    except ValidationError as error:
        shown = str(error)
    if shown is None:
        assert unicodedata.normalize("NFC", value) == kept
    else:
        assert len(value) < 8 or value not in shown
