"""Timing hints (R-CLS-5): when a provider said that it may be asked again.

Three extractors (text, headers, structured data) return every hint they can prove, each with its provenance;
:func:`best_hint` picks the most trusted one that is valid. All instants are UTC.
"""

from __future__ import annotations

from kandev_routing_sdk.evidence.timing.data import hints_from_data
from kandev_routing_sdk.evidence.timing.headers import hints_from_headers
from kandev_routing_sdk.evidence.timing.model import MAX_HORIZON, TimingHint, Trust, best_hint, due_at, is_valid
from kandev_routing_sdk.evidence.timing.text import hints_from_text

__all__ = [
    "MAX_HORIZON",
    "TimingHint",
    "Trust",
    "best_hint",
    "due_at",
    "hints_from_data",
    "hints_from_headers",
    "hints_from_text",
    "is_valid",
]
