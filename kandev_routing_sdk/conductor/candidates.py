"""The candidates of one decision: resolved, looked at together with shared health, and told as a walk."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kandev_routing_sdk.circuits import ResourceKey
from kandev_routing_sdk.conductor.engine import Engine, Work
from kandev_routing_sdk.conductor.launch import Prepared, Unlaunchable, prepare
from kandev_routing_sdk.conductor.native import NativeSession
from kandev_routing_sdk.profiles import Candidate, DynamicProfile, candidate_refusal
from kandev_routing_sdk.results import Rejected
from kandev_routing_sdk.route.select import CandidateView, Selection


@dataclass(frozen=True, slots=True)
class Field:
    """Every candidate as it is now."""

    views: tuple[CandidateView, ...]
    prepared: Mapping[str, Prepared] = dataclasses.field(repr=False)

    @property
    def keys(self) -> tuple[ResourceKey, ...]:
        """All keys that any candidate stands on, each once, sorted."""
        unique = {key.key: key for view in self.views for key in view.keys}
        return tuple(unique[k] for k in sorted(unique))


def survey_of(engine: Engine, work: Work, native: NativeSession | None = None) -> Field:
    """Resolve the candidates of a route; of a profile that may not be used, the profile itself and why (R-RES-3)."""
    if work.problem is not None:
        itself = CandidateView(profile_id=work.logical_profile_id, family="", position=0, problem=work.problem)
        return Field((itself,), {})
    return survey(engine, work.candidates, work.cwd, native, listed_by=work.listed_by)


def survey(
    engine: Engine,
    candidates: Sequence[Candidate],
    cwd: Path,
    native: NativeSession | None = None,
    *,
    listed_by: DynamicProfile | None = None,
) -> Field:
    """Resolve every candidate's launch, starting no process. Reads files: call it off the event loop.

    Args:
        engine: the collaborators.
        candidates: in order.
        cwd: where their agents would work.
        native: the session that its owner among them may go on with (R-CON-2).
        listed_by: whose candidates they are; those that may be none of its any more cannot be launched (R-PRO-3, R-PRO-8).
    """
    views: list[CandidateView] = []
    ready: dict[str, Prepared] = {}
    for position, candidate in enumerate(candidates):
        found = prepare(engine, candidate.profile_id, cwd, native)
        if isinstance(found, Prepared) and listed_by is not None:
            found = _as_listed(found, listed_by)
        if isinstance(found, Prepared):
            ready[candidate.profile_id] = found
        views.append(_view(position, candidate, found))
    return Field(tuple(views), ready)


def _as_listed(found: Prepared, by: DynamicProfile) -> Prepared | Unlaunchable:
    refused = candidate_refusal(found.profile, by.scope)
    if refused is None:
        return found
    message, code = refused
    word = "cross_scope" if code == "scope_mismatch" else "incompatible"
    return Unlaunchable(found.profile.id, found.profile.family, word, message)


def _view(position: int, candidate: Candidate, found: Prepared | Unlaunchable) -> CandidateView:
    common = CandidateView(
        profile_id=candidate.profile_id,
        family="",
        enabled=candidate.enabled,
        position=position,
        policy=candidate.policy,
    )
    if isinstance(found, Unlaunchable):
        return dataclasses.replace(common, family=found.family, problem=(found.reason, found.detail))
    return dataclasses.replace(
        common,
        family=found.profile.family,
        keys=found.keys,
        transport=found.plan.transport,
        provider_id=found.identity.provider_id,
        model_id=found.identity.model_id,
    )


def rejected_of(selection: Selection) -> tuple[Rejected, ...]:
    """Return the candidates that a selection passed over before it chose (all, when it chose nobody)."""
    found: list[Rejected] = []
    for step in selection.walk:
        if step.chosen:
            break
        found.append(Rejected(step.profile_id, step.reason, step.detail, step.until))
    return tuple(found)
