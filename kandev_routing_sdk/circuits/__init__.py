"""Shared health (R-CIR): which resources a candidate uses, and when each may be asked again. Pure."""

from __future__ import annotations

from kandev_routing_sdk.circuits.circuit import (
    FAR_RESET,
    Admission,
    ArmedRetry,
    Circuit,
    FailureFact,
    admission,
    hand_back,
    make_due,
    needs_person,
    on_failure,
    on_success,
    renew_lease,
    reset,
    take_lease,
)
from kandev_routing_sdk.circuits.keys import ResourceIdentity, ResourceKey, consulted_keys, keys_of_failure

__all__ = [
    "FAR_RESET",
    "Admission",
    "ArmedRetry",
    "Circuit",
    "FailureFact",
    "ResourceIdentity",
    "ResourceKey",
    "admission",
    "consulted_keys",
    "hand_back",
    "keys_of_failure",
    "make_due",
    "needs_person",
    "on_failure",
    "on_success",
    "renew_lease",
    "reset",
    "take_lease",
]
