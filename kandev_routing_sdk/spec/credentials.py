"""What an adapter finds out about the credential of a launch (R-CIR-3)."""

from __future__ import annotations

from dataclasses import dataclass

from kandev_routing_sdk.binding import CredentialBindingDescriptor
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec.adapter import LaunchRequest


@dataclass(frozen=True, slots=True)
class FoundCredential:
    """How a launch will sign in, and where what it signs in with is kept; never the credential."""

    mechanism: str
    source_kind: str
    locator: str

    def descriptor(self, request: LaunchRequest, scope: str | None) -> CredentialBindingDescriptor | None:
        """Return the descriptor; None when a part of it is not proven. ``scope``: what the credential is good for."""
        return CredentialBindingDescriptor.if_provable(
            family=request.profile.family,
            mechanism=self.mechanism,
            source_kind=self.source_kind,
            locator=self.locator,
            executor_namespace=request.executor_namespace,
            authorisation_scope=scope,
        )


def host_variable(profile: ConcreteProfile, name: str) -> str | None:
    """Return which of the host's variables holds the value of the agent's one; None for a literal, kept in the profile only."""
    own = profile.env.get(name)
    if isinstance(own, str):
        return None
    return name if own is None else own.secret.removeprefix("env:")
