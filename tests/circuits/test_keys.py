"""Which resources a candidate uses and which of them a failure speaks about (R-CIR-1, R-CIR-2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.circuits import ResourceIdentity, consulted_keys, keys_of_failure
from kandev_routing_sdk.types import Code, Confidence, ErrorClass, Phase, Scope

FABLE = ResourceIdentity("anthropic", "opus", "v2:ab12", "fable", "host-1")

NETWORK = "network:anthropic:host-1"
PROVIDER = "provider:anthropic"
MODEL = "model:anthropic:opus"
ACCOUNT = "account:anthropic:v2:ab12"
ACCOUNT_MODEL = "account-model:anthropic:opus:v2:ab12"
PROFILE = "profile:fable"


def failure(code: Code, **changes: Any) -> Classification:
    values: dict[str, Any] = {
        "code": code,
        "error_class": CODES[code].error_class,
        "confidence": Confidence.HIGH,
        "scope": CODES[code].scope,
        "classifier_rule": "test.1",
        "catalogue_version": "7",
        "phase": Phase.PROMPT_SEND,
    }
    return Classification(**(values | changes))


def opened(code: Code, identity: ResourceIdentity = FABLE, *, known: bool = True, **changes: Any) -> list[str]:
    return [k.key for k in keys_of_failure(identity, failure(code, **changes), descriptor_known=known)]


EXPECTED = {
    Code.NETWORK_UNAVAILABLE: [NETWORK],
    Code.PROVIDER_UNAVAILABLE: [PROVIDER],
    Code.PROVIDER_OVERLOADED: [PROVIDER],
    Code.MODEL_CAPACITY: [MODEL],
    Code.RATE_LIMITED: [ACCOUNT],
    Code.AGENT_TRANSPORT_LOST: [],
    Code.QUOTA_LIMITED: [ACCOUNT],
    Code.SUBSCRIPTION_REQUIRED: [ACCOUNT],
    Code.AUTH_REQUIRED: [ACCOUNT],
    Code.MISSING_CREDENTIALS: [PROFILE],
    Code.PROVIDER_NOT_CONFIGURED: [PROFILE],
    Code.MODEL_UNAVAILABLE: [ACCOUNT_MODEL],
}


@pytest.mark.parametrize("code", list(Code))
def test_every_code_opens_what_it_speaks_about(code: Code) -> None:
    """R-CIR-1: the table, written a second time; a code without a row here opens nothing."""
    assert EXPECTED.get(code, []) == opened(code)
    assert (code in EXPECTED) is (CODES[code].error_class is not ErrorClass.UNCLASSIFIED)


def test_a_candidate_consults_everything_that_can_stop_it() -> None:
    assert [ACCOUNT_MODEL, ACCOUNT, MODEL, NETWORK, PROFILE, PROVIDER] == [k.key for k in consulted_keys(FABLE)]


def test_an_unknown_binding_still_consults_the_proven_provider() -> None:
    """R-CIR-1."""
    unproven = replace(FABLE, binding=None)
    assert [MODEL, NETWORK, PROFILE, PROVIDER] == [k.key for k in consulted_keys(unproven)]
    assert [NETWORK, PROFILE, PROVIDER] == [k.key for k in consulted_keys(replace(unproven, model_id=None))]


def test_an_unknown_provider_leaves_the_profile_only() -> None:
    assert [PROFILE] == [k.key for k in consulted_keys(replace(FABLE, provider_id=None))]


@pytest.mark.parametrize("code", list(EXPECTED))
@pytest.mark.parametrize(
    ("changes", "known"),
    [({"binding": None}, True), ({"provider_id": None}, True), ({}, False)],
    ids=["binding", "provider", "descriptor"],
)
def test_what_is_unproven_opens_the_profile_only(code: Code, changes: dict[str, Any], known: bool) -> None:
    """R-CIR-1: it can reduce sharing, never disable an unrelated credential."""
    expected = [PROFILE] if EXPECTED[code] else []
    assert expected == opened(code, replace(FABLE, **changes), known=known)


@pytest.mark.parametrize("code", [Code.RATE_LIMITED, Code.QUOTA_LIMITED])
def test_a_limit_of_one_model_leaves_the_account_usable(code: Code) -> None:
    """R-CIR-1: + model if the evidence names one; that the launch had a model narrows nothing."""
    assert [ACCOUNT_MODEL] == opened(code, model_id="opus", scope=Scope.MODEL)
    assert [ACCOUNT] == opened(code, model_id="opus")
    assert [ACCOUNT] == opened(code, replace(FABLE, model_id=None), scope=Scope.MODEL)


def test_the_model_that_was_asked_for_opens_beside_the_one_that_failed() -> None:
    """An agent started as an alias would otherwise be started again at once."""
    assert ["model:anthropic:claude-opus-4-1", MODEL] == opened(Code.MODEL_CAPACITY, model_id="claude-opus-4-1")


@pytest.mark.parametrize("code", [Code.MODEL_CAPACITY, Code.MODEL_UNAVAILABLE])
def test_an_unknown_model_stays_with_the_profile(code: Code) -> None:
    """R-CIR-1."""
    assert [PROFILE] == opened(code, replace(FABLE, model_id=None))


@pytest.mark.parametrize("confidence", [Confidence.MEDIUM, Confidence.LOW])
def test_only_high_confidence_qualifies(confidence: Confidence) -> None:
    """R-CIR-5."""
    assert [] == opened(Code.QUOTA_LIMITED, confidence=confidence)


def test_a_conflict_opens_nothing() -> None:
    """R-CLS-2: conflicting evidence is unclassified whatever the code says."""
    assert [] == opened(Code.QUOTA_LIMITED, error_class=ErrorClass.UNCLASSIFIED)
    assert [] == opened(Code.QUOTA_LIMITED, scope=Scope.NONE)


def test_a_rule_cannot_widen_what_is_the_profiles_own() -> None:
    assert [PROFILE] == opened(Code.MISSING_CREDENTIALS, scope=Scope.ACCOUNT)


def test_a_rule_may_narrow_a_failure_to_the_profile() -> None:
    assert [PROFILE] == opened(Code.AUTH_REQUIRED, scope=Scope.PROFILE)


def test_a_profile_id_is_in_the_profile_key_only() -> None:
    """R-CIR-1: two profiles of one account share its health."""
    mine, other = (
        {k.key for k in consulted_keys(i) if k.scope is not Scope.PROFILE}
        for i in (FABLE, replace(FABLE, profile_id="x"))
    )
    assert mine == other
    assert [PROFILE] == [k.key for k in consulted_keys(FABLE) if k.profile_id is not None]


def test_an_account_key_carries_the_version_of_the_installation_key() -> None:
    """R-CIR-3: rotation makes new keys and leaves the old ones alone."""
    versions = {k.key: k.version for k in consulted_keys(FABLE)}
    assert (2, 2, 1) == (versions[ACCOUNT], versions[ACCOUNT_MODEL], versions[PROVIDER])
    odd = replace(FABLE, binding="unversioned")
    assert {1} == {k.version for k in consulted_keys(odd)}


_text = st.text(min_size=1, max_size=6) | st.sampled_from(["a:b", "a", "b", "a%3Ab", "v1:a"])
_maybe = st.none() | _text
_identities = st.builds(ResourceIdentity, _maybe, _maybe, _maybe, _text, _text)


@given(identity=_identities, code=st.sampled_from(Code), known=st.booleans(), model=_maybe)
def test_a_failure_always_stops_the_candidate_that_had_it(
    identity: ResourceIdentity, code: Code, known: bool, model: str | None
) -> None:
    """R-CIR-2: whatever opens, at least one opened key is one that the same candidate consults."""
    opening = keys_of_failure(identity, failure(code, model_id=model), descriptor_known=known)
    consulted = {k.key for k in consulted_keys(identity)}
    if opening and (identity.model_id is not None or model is None):
        assert consulted & {k.key for k in opening}
    assert list(opening) == sorted(opening, key=lambda k: k.key)


@given(first=_identities, second=_identities)
def test_equal_keys_mean_equal_parts(first: ResourceIdentity, second: ResourceIdentity) -> None:
    """No id can imitate another one's separator."""
    for a in consulted_keys(first):
        for b in consulted_keys(second):
            if a.key == b.key:
                assert a == b
                if a.scope is Scope.ACCOUNT:
                    assert first.binding == second.binding
