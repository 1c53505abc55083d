"""Policies and walks in a person's words."""

from __future__ import annotations

from datetime import datetime

from kandev_routing_sdk.cli.output import moment, span
from kandev_routing_sdk.policy import ClassPolicy, PolicyDocument
from kandev_routing_sdk.policy.evaluate import retry_delay
from kandev_routing_sdk.route.select import WalkEntry


def policy_words(document: PolicyDocument) -> str:
    """Return both classes' policies with the schedule they imply: ``transient: retry after 5, 10, 20 s, then the next …``."""
    transient, hard = class_words(document.transient), class_words(document.hard)
    return f"any failure: {transient}" if transient == hard else f"transient: {transient}; hard: {hard}"


def class_words(policy: ClassPolicy) -> str:
    """Return one class's policy."""
    parts = []
    if policy.wait_for_reset.enabled:
        parts.append(f"wait for a reset up to {span(policy.wait_for_reset.max_wait_seconds)} away")
    if policy.retry.enabled:
        parts.append(f"retry after {schedule(policy)}")
    parts.append("the next candidate" if policy.on_exhausted == "skip" else "stop for a person")
    return ", then ".join(parts)


def schedule(policy: ClassPolicy) -> str:
    """Return the delays of every retry: ``5, 10, 20 s``."""
    delays = [retry_delay(policy.retry, n).total_seconds() for n in range(1, policy.retry.max_retries + 1)]
    if delays[-1] < 60:  # noqa: PLR2004  # seconds of a minute
        return f"{', '.join(f'{d:.0f}' for d in delays)} s"
    return ", ".join(span(d) for d in delays)


def verdict_words(entry: WalkEntry, now: datetime) -> str:
    """Return why a candidate was or was not taken, its deadline in a person's words."""
    detail = entry.detail
    if entry.until is not None:
        detail = f"{detail.removesuffix(f'; until {entry.until.isoformat()}')}; until {moment(entry.until, now)}"
    return detail
