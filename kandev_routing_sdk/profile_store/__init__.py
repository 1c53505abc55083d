"""Profiles that live in the store (R-PRO): read at each decision beside those of the configuration, and written by people."""

from __future__ import annotations

from kandev_routing_sdk.profile_store.entry import ImportReport, ProfileEntry, ProfileOrigin
from kandev_routing_sdk.profile_store.service import Profiles
from kandev_routing_sdk.profile_store.source import LayeredProfiles

__all__ = ["ImportReport", "LayeredProfiles", "ProfileEntry", "ProfileOrigin", "Profiles"]
