"""Resource keys: what a candidate depends on, and which of it a failure speaks about (R-CIR-1, R-CIR-2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from kandev_routing_sdk.catalogue.classification import Classification
from kandev_routing_sdk.types import Code, Confidence, ErrorClass, Scope


@dataclass(frozen=True, slots=True)
class ResourceIdentity:
    """What one launch uses, captured before it: health is booked to this, never to what is "current" later (R-CIR-5)."""

    provider_id: str | None
    """The upstream service really addressed; None when it cannot be told."""
    model_id: str | None
    binding: str | None
    """Fingerprint of the credential binding; None when it cannot be proven."""
    profile_id: str
    executor_namespace: str


@dataclass(frozen=True, slots=True)
class ResourceKey:
    """One resource whose health is kept. ``key`` is opaque: compare it, never take it apart."""

    key: str
    scope: Scope
    provider_id: str | None = None
    model_id: str | None = None
    profile_id: str | None = None
    executor_namespace: str | None = None
    version: int = 1
    """Version of the installation key behind an account's fingerprint; 1 where there is none."""


class _Place(Enum):
    """Where a cause is booked."""

    NOWHERE = auto()
    NETWORK = auto()
    PROVIDER = auto()
    MODEL = auto()
    ACCOUNT = auto()
    ACCOUNT_OR_ITS_MODEL = auto()
    """The account; only one model of it if the evidence says so (scope ``model``): an account's limit is all its models'."""
    ACCOUNT_MODEL = auto()
    PROFILE = auto()


_PLACES: Final[Mapping[Code, _Place]] = MappingProxyType(
    {
        Code.NETWORK_UNAVAILABLE: _Place.NETWORK,
        Code.PROVIDER_UNAVAILABLE: _Place.PROVIDER,
        Code.PROVIDER_OVERLOADED: _Place.PROVIDER,
        Code.MODEL_CAPACITY: _Place.MODEL,
        Code.RATE_LIMITED: _Place.ACCOUNT_OR_ITS_MODEL,
        Code.AGENT_TRANSPORT_LOST: _Place.NOWHERE,
        Code.QUOTA_LIMITED: _Place.ACCOUNT_OR_ITS_MODEL,
        Code.SUBSCRIPTION_REQUIRED: _Place.ACCOUNT,
        Code.AUTH_REQUIRED: _Place.ACCOUNT,
        Code.MISSING_CREDENTIALS: _Place.PROFILE,
        Code.PROVIDER_NOT_CONFIGURED: _Place.PROFILE,
        Code.MODEL_UNAVAILABLE: _Place.ACCOUNT_MODEL,
        Code.UNKNOWN_PROVIDER_ERROR: _Place.NOWHERE,
        Code.AGENT_RUNTIME_ERROR: _Place.NOWHERE,
        Code.TASK_ERROR: _Place.NOWHERE,
        Code.REPO_ERROR: _Place.NOWHERE,
        Code.PERMISSION_DENIED_BY_USER: _Place.NOWHERE,
        Code.CANCELLED: _Place.NOWHERE,
        Code.RESUME_CORRUPTED: _Place.NOWHERE,
        Code.CONTEXT_EXHAUSTED: _Place.NOWHERE,
        Code.CONTENT_REFUSED: _Place.NOWHERE,
    }
)


def consulted_keys(identity: ResourceIdentity) -> tuple[ResourceKey, ...]:
    """Return every key whose circuit can make this candidate ineligible, sorted by key (the order in which leases are taken)."""
    keys = [_profile(identity)]
    provider, model, binding = identity.provider_id, identity.model_id, identity.binding
    if provider is not None:
        keys += [_network(provider, identity.executor_namespace), _provider(provider)]
        if model is not None:
            keys.append(_model(provider, model))
        if binding is not None:
            keys.append(_account(provider, binding))
            if model is not None:
                keys.append(_account_model(provider, binding, model))
    return _sorted(keys)


def keys_of_failure(
    identity: ResourceIdentity, classification: Classification, *, descriptor_known: bool
) -> tuple[ResourceKey, ...]:
    """Return the keys that this failure opens, sorted by key; none when it does not qualify (R-CIR-1, R-CIR-5).

    A failure qualifies when it is classified with high confidence; that it is current is the caller's to know. With an unknown
    provider or binding, or before the descriptor exists (``descriptor_known=False``), only the profile's own key opens.

    Where a model counts, it is both the one that the evidence names and the one that the launch asked for: an agent that is
    started as ``opus`` and fails as ``claude-opus-4-1`` would otherwise be started again at once.
    """
    place = _PLACES[classification.code]
    if place is _Place.NOWHERE or not _qualifies(classification):
        return ()
    provider, binding = identity.provider_id, identity.binding
    if provider is None or binding is None or not descriptor_known or classification.scope is Scope.PROFILE:
        return (_profile(identity),)
    models = {m for m in (classification.model_id, identity.model_id) if m is not None}
    # That a failed launch had a model says nothing: only the evidence can narrow an account's limit to one model.
    one_model = classification.scope is Scope.MODEL
    keys: Iterable[ResourceKey]
    match place:
        case _Place.NETWORK:
            keys = (_network(provider, identity.executor_namespace),)
        case _Place.PROVIDER:
            keys = (_provider(provider),)
        case _Place.MODEL:
            keys = (_model(provider, m) for m in models)
        case _Place.ACCOUNT_MODEL:
            keys = (_account_model(provider, binding, m) for m in models)
        case _Place.ACCOUNT_OR_ITS_MODEL if one_model and models:
            keys = (_account_model(provider, binding, m) for m in models)
        case _Place.ACCOUNT | _Place.ACCOUNT_OR_ITS_MODEL:
            keys = (_account(provider, binding),)
        case _:
            keys = ()  # the profile's own cause
    # A cause of one model that nobody can name stays with the profile, too.
    return _sorted(keys) or (_profile(identity),)


def _qualifies(classification: Classification) -> bool:
    return (
        classification.error_class is not ErrorClass.UNCLASSIFIED
        and classification.confidence is Confidence.HIGH
        and classification.scope is not Scope.NONE
    )


# Every part is percent-encoded, so that no id can imitate a separator: equal keys mean equal parts.


def _text(kind: str, *parts: str) -> str:
    return ":".join((kind, *(quote(part, safe="") for part in parts)))


def _network(provider: str, namespace: str) -> ResourceKey:
    key = _text("network", provider, namespace)
    return ResourceKey(key, Scope.PROVIDER, provider_id=provider, executor_namespace=namespace)


def _provider(provider: str) -> ResourceKey:
    return ResourceKey(_text("provider", provider), Scope.PROVIDER, provider_id=provider)


def _model(provider: str, model: str) -> ResourceKey:
    return ResourceKey(_text("model", provider, model), Scope.MODEL, provider_id=provider, model_id=model)


def _account(provider: str, binding: str) -> ResourceKey:
    # The fingerprint comes last and may keep its colon.
    key = f"{_text('account', provider)}:{quote(binding, safe=':')}"
    return ResourceKey(key, Scope.ACCOUNT, provider_id=provider, version=_key_version(binding))


def _account_model(provider: str, binding: str, model: str) -> ResourceKey:
    key = f"{_text('account-model', provider, model)}:{quote(binding, safe=':')}"
    return ResourceKey(key, Scope.ACCOUNT, provider_id=provider, model_id=model, version=_key_version(binding))


def _profile(identity: ResourceIdentity) -> ResourceKey:
    return ResourceKey(_text("profile", identity.profile_id), Scope.PROFILE, profile_id=identity.profile_id)


def _key_version(binding: str) -> int:
    found = re.match(r"v([0-9]{1,9}):", binding)
    return int(found[1]) if found else 1


def _sorted(keys: Iterable[ResourceKey]) -> tuple[ResourceKey, ...]:
    return tuple(sorted(keys, key=lambda k: k.key))
