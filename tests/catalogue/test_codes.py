"""The code table is total (R-CLS-2)."""

from __future__ import annotations

import pytest

from kandev_routing_sdk.catalogue.codes import CODES
from kandev_routing_sdk.types import Code, ErrorClass, Scope

CLASSES = {
    ErrorClass.TRANSIENT: "network_unavailable provider_unavailable provider_overloaded model_capacity rate_limited agent_transport_lost",
    ErrorClass.HARD: "quota_limited subscription_required auth_required missing_credentials provider_not_configured model_unavailable",
    ErrorClass.UNCLASSIFIED: "unknown_provider_error agent_runtime_error task_error repo_error permission_denied_by_user cancelled "
    "resume_corrupted context_exhausted content_refused",
}
SCOPES = {
    Scope.PROVIDER: "network_unavailable provider_unavailable provider_overloaded",
    Scope.MODEL: "model_capacity model_unavailable",
    Scope.ACCOUNT: "rate_limited quota_limited subscription_required auth_required",
    Scope.PROFILE: "missing_credentials provider_not_configured",
}


def test_every_code_has_a_row() -> None:
    """A code without a row fails here."""
    assert set(Code) == set(CODES)


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_classes(error_class: ErrorClass) -> None:
    """R-CLS-2, written a second time by hand."""
    assert set(CLASSES[error_class].split()) == {c for c, row in CODES.items() if row.error_class is error_class}


def test_scopes() -> None:
    """R-CIR-1; lost transport and what is unclassified say nothing about a resource."""
    expected = {Code(c): s for s, names in SCOPES.items() for c in names.split()}
    assert {c: expected.get(c, Scope.NONE) for c in Code} == {c: row.scope for c, row in CODES.items()}


@pytest.mark.parametrize("code", list(Code))
def test_every_code_says_what_it_means_and_what_to_do(code: Code) -> None:
    """Sentences."""
    assert CODES[code].meaning.endswith(".")
    assert CODES[code].advice.endswith(".")
