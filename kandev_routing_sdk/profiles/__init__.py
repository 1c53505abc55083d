"""Concrete and dynamic profiles (R-PRO): models, rules for candidates, the strict file reader and its JSON Schema. Pure."""

from __future__ import annotations

from kandev_routing_sdk.profiles.candidates import candidate_problems, candidate_refusal
from kandev_routing_sdk.profiles.dependents import Harm, candidate_lists, harm_of
from kandev_routing_sdk.profiles.errors import (
    Dependent,
    DependentsUnknown,
    DuplicateRefused,
    ProfileConflict,
    ProfileDeclared,
    ProfileInUse,
    ProfileInvalid,
)
from kandev_routing_sdk.profiles.model import (
    DYNAMIC_FAMILY,
    Candidate,
    ConcreteProfile,
    DynamicProfile,
    Profile,
    SecretRef,
)
from kandev_routing_sdk.profiles.parse import parse_document, parse_profiles
from kandev_routing_sdk.profiles.schema import config_schema
from kandev_routing_sdk.profiles.write import profiles_toml, unwritable

__all__ = [
    "DYNAMIC_FAMILY",
    "Candidate",
    "ConcreteProfile",
    "Dependent",
    "DependentsUnknown",
    "DuplicateRefused",
    "DynamicProfile",
    "Harm",
    "Profile",
    "ProfileConflict",
    "ProfileDeclared",
    "ProfileInUse",
    "ProfileInvalid",
    "SecretRef",
    "candidate_lists",
    "candidate_problems",
    "candidate_refusal",
    "config_schema",
    "harm_of",
    "parse_document",
    "parse_profiles",
    "profiles_toml",
    "unwritable",
]
