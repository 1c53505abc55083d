"""Concrete and dynamic profiles (R-PRO): models, rules for candidates, the strict file reader and its JSON Schema. Pure."""

from __future__ import annotations

from kandev_routing_sdk.profiles.model import Candidate, ConcreteProfile, DynamicProfile, Profile, SecretRef

__all__ = ["Candidate", "ConcreteProfile", "DynamicProfile", "Profile", "SecretRef"]
