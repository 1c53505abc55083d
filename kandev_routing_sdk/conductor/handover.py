"""What a successor is told (R-CON-3, R-CON-4). Built from what is durably known before anything is launched (R-SAFE-5)."""

from __future__ import annotations

from collections.abc import Sequence

from kandev_routing_sdk.evidence.effects import effect_refusal
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.results import AttemptReport
from kandev_routing_sdk.route.continuation import ContinuationPackage, render_note
from kandev_routing_sdk.route.model import Route


def note_for(route: Route, reports: Sequence[AttemptReport], cleaner: Sanitiser) -> str | None:
    """Return the note that rides on the next prompt; None for the first agent of a session.

    ``reports``: the attempts for this prompt. For a later prompt a fresh agent is told that there was work before it, and what an
    earlier one may have done that nobody saw the end of: with a new message nothing of that is over (R-SAFE-4).
    """
    if not reports:
        if route.prompt_number <= 1 or route.execution_profile_id is None:
            return None
        failed = route.classification
        before = ContinuationPackage(
            from_profile=route.execution_profile_id if route.potentially_effectful else "",
            failure_code=failed.code if failed else None,
            failure_class=failed.error_class if failed else None,
            potentially_effectful=route.potentially_effectful,
        )
        return render_note(before, clean=cleaner.text)
    last = reports[-1]
    happened = any(effect_refusal(r.effects) is not None for r in reports)
    package = ContinuationPackage(
        from_profile=last.execution_profile_id,
        reason=route.reason,
        failure_code=last.classification.code if last.classification else None,
        failure_class=last.classification.error_class if last.classification else None,
        nothing_happened=not happened,
        potentially_effectful=happened or route.potentially_effectful,
    )
    return render_note(package, clean=cleaner.text)
