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

    ``reports``: the attempts of this turn. In a later turn a fresh agent is told that there was work before it.
    """
    if not reports:
        earlier = route.prompt_number > 1 and route.execution_profile_id is not None
        return render_note(ContinuationPackage(), clean=cleaner.text) if earlier else None
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
