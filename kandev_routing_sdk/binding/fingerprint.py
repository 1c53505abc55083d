"""The opaque key of a credential binding: HMAC-SHA-256 under a key of this installation (R-CIR-3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from pydantic import SecretBytes

from kandev_routing_sdk.binding.descriptor import CredentialBindingDescriptor, canonical

MIN_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class InstallationKey:
    """Key material and its version. Its ``repr`` shows no bytes. Rotation is a new version: old fingerprints stay as they are.

    Raises:
        ValueError: a version below 1, or fewer than 32 bytes. Never shows the material.
    """

    version: int
    material: SecretBytes

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError("the version of an installation key starts at 1")
        if len(self.material.get_secret_value()) < MIN_KEY_BYTES:
            raise ValueError(f"an installation key has at least {MIN_KEY_BYTES} bytes")


def new_installation_key(random_bytes: bytes, version: int = 1) -> InstallationKey:
    """Make a key from ``random_bytes`` (at least 32, from a cryptographic source that the caller owns)."""
    return InstallationKey(version, SecretBytes(random_bytes))


def fingerprint(descriptor: CredentialBindingDescriptor, key: InstallationKey) -> str:
    """Return ``v<key version>:<64 hex digits>``, equal for equal descriptors under one key and opaque without it."""
    mac = HMAC(key.material.get_secret_value(), SHA256())
    mac.update(canonical(descriptor))
    return f"v{key.version}:{mac.finalize().hex()}"
