"""Concrete and dynamic profiles (R-PRO): models, rules for candidates, the strict file reader and its JSON Schema. Pure."""

from __future__ import annotations

from kandev_routing_sdk.profiles.candidates import candidate_problems
from kandev_routing_sdk.profiles.model import Candidate, ConcreteProfile, DynamicProfile, Profile, SecretRef
from kandev_routing_sdk.profiles.parse import parse_profiles
from kandev_routing_sdk.profiles.schema import config_schema

__all__ = [
    "Candidate",
    "ConcreteProfile",
    "DynamicProfile",
    "Profile",
    "SecretRef",
    "candidate_problems",
    "config_schema",
    "parse_profiles",
]
