"""The route: states, THE TABLE and ``step()``, ``select()`` with its explanation, the continuation package. Pure."""

from __future__ import annotations

from kandev_routing_sdk.route.facts import Facts
from kandev_routing_sdk.route.guards import ACTIONS, attempts_left, is_settled, matching, valid_actions
from kandev_routing_sdk.route.select import CandidateView, Selection, Verdict, WalkEntry, select
from kandev_routing_sdk.route.step import Transition, begin, check_seen, step, trigger_for
from kandev_routing_sdk.route.table import ATTEMPT_CAP, TABLE

__all__ = [
    "ACTIONS",
    "ATTEMPT_CAP",
    "TABLE",
    "CandidateView",
    "Facts",
    "Selection",
    "Transition",
    "Verdict",
    "WalkEntry",
    "attempts_left",
    "begin",
    "check_seen",
    "is_settled",
    "matching",
    "select",
    "step",
    "trigger_for",
    "valid_actions",
]
