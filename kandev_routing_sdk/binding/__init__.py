"""Which credential a launch uses, told without the credential (R-CIR-3): descriptor and keyed fingerprint. Pure."""

from __future__ import annotations

from kandev_routing_sdk.binding.descriptor import CredentialBindingDescriptor, canonical
from kandev_routing_sdk.binding.fingerprint import InstallationKey, fingerprint, new_installation_key

__all__ = ["CredentialBindingDescriptor", "InstallationKey", "canonical", "fingerprint", "new_installation_key"]
