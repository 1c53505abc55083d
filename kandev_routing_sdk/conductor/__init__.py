"""Runs what a committed decision lists, and turns what comes back into the next decision. Holds no policy."""

from __future__ import annotations

from kandev_routing_sdk.conductor.candidates import Field, rejected_of, survey
from kandev_routing_sdk.conductor.drive import Drive
from kandev_routing_sdk.conductor.engine import Engine, Tell, Work, WorkSource
from kandev_routing_sdk.conductor.gate import Gate
from kandev_routing_sdk.conductor.given import check_folder, check_prompt, folder_problem
from kandev_routing_sdk.conductor.health import change_circuit, may_be_probed
from kandev_routing_sdk.conductor.launch import Prepared
from kandev_routing_sdk.conductor.ledger import Ledger
from kandev_routing_sdk.conductor.recovery import end_left
from kandev_routing_sdk.conductor.tasks import alongside, in_thread

__all__ = [
    "Drive",
    "Engine",
    "Field",
    "Gate",
    "Ledger",
    "Prepared",
    "Tell",
    "Work",
    "WorkSource",
    "alongside",
    "change_circuit",
    "check_folder",
    "check_prompt",
    "end_left",
    "folder_problem",
    "in_thread",
    "may_be_probed",
    "rejected_of",
    "survey",
]
