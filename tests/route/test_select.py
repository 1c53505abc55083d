"""Selection (R-ENG-2, R-ENG-3, R-ENG-5, R-ENG-6, R-CIR-2, R-CIR-8)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.circuits import Circuit, ResourceKey, admission
from kandev_routing_sdk.route import CandidateView, Selection, Verdict, select
from kandev_routing_sdk.route.model import Round, Trigger
from kandev_routing_sdk.types import CircuitState, Code, Scope
from tests.route._routes import NOW


def later(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def key(name: str) -> ResourceKey:
    return ResourceKey(name, Scope.ACCOUNT, provider_id="acme")


def view(profile_id: str, position: int = 0, *keys: str, **changes: Any) -> CandidateView:
    return CandidateView(profile_id=profile_id, family="fam", position=position, keys=tuple(map(key, keys)), **changes)


def opened(name: str, until: datetime | None, **changes: Any) -> dict[str, Circuit]:
    known: dict[str, Any] = {
        "key": key(name),
        "state": CircuitState.OPEN,
        "code": Code.QUOTA_LIMITED,
        "deadline": until,
        "action_required": until is None,
        "updated_at": NOW,
    }
    return {name: Circuit(**(known | changes))}


def leased(name: str, deadline: datetime | None, until: datetime) -> dict[str, Circuit]:
    return opened(
        name,
        deadline,
        state=CircuitState.HALF_OPEN,
        probe_token="t",
        probe_owner="w",
        probe_until=until,
        probe_since=NOW,
    )


def reasons(found: Selection) -> list[str]:
    return [entry.reason for entry in found.walk]


def pick(candidates: list[CandidateView], circuits: dict[str, Circuit] | None = None, **how: Any) -> Selection:
    known: dict[str, Any] = {"round": Round(), "now": NOW}
    return select(candidates, circuits or {}, **(known | how))


def test_the_first_in_order_is_chosen_and_everybody_has_a_reason() -> None:
    found = pick([view("sol", 2), view("codex", 1), view("fable", 0)])
    assert found.chosen is not None
    assert ("fable", False) == (found.chosen.profile_id, found.is_probe)
    assert ["fable", "codex", "sol"] == [e.profile_id for e in found.walk]
    assert ["chosen", "after_chosen", "after_chosen"] == reasons(found)
    assert [True, True, True] == [e.eligible for e in found.walk]
    assert Trigger.CANDIDATE_COMMITTED is found.trigger


def test_what_stands_against_each_candidate() -> None:
    found = pick(
        [
            view("off", 0, enabled=False),
            view("gone", 1, problem=("missing", "profile 'gone' does not exist any more")),
            view("empty", 2, "acct"),
            view("locked", 3, "auth"),
            view("asked", 4, "probed"),
            view("had", 5),
            view("not", 6),
            view("free", 7),
            view("also", 8, "acct"),
        ],
        opened("acct", later(5)) | opened("auth", None) | leased("probed", later(-1), later(1)),
        round=Round(excluded=("had",), skip_once=("not",)),
    )
    assert found.chosen is not None
    assert "free" == found.chosen.profile_id
    assert [
        "disabled",
        "missing",
        "circuit_open",
        "action_required",
        "probe_leased",
        "excluded",
        "skipped",
        "chosen",
        "circuit_open",
    ] == reasons(found)
    empty = found.walk[2]
    assert (later(5), "account", "quota_limited", ("acct",)) == (empty.until, empty.scope, empty.code, empty.keys)
    assert None is found.earliest, "somebody is free"


def test_an_expired_circuit_with_a_free_lease_makes_a_probe() -> None:
    """R-CIR-6."""
    found = pick([view("fable", 0, "acct", "fine"), view("codex", 1)], opened("acct", later(-1)))
    assert found.chosen is not None
    assert ("fable", True, "chosen_as_probe") == (found.chosen.profile_id, found.is_probe, reasons(found)[0])


def test_a_probe_behind_the_chosen_one_is_none() -> None:
    found = pick([view("fable"), view("codex", 1, "acct")], opened("acct", later(-1)))
    assert (False, "after_chosen") == (found.is_probe, reasons(found)[1])


def test_nobody_now_and_somebody_by_itself() -> None:
    """R-ENG-6: the earliest recovery; a candidate needs all of its keys."""
    found = pick(
        [view("fable", 0, "a", "b"), view("codex", 1, "c"), view("sol", 2, "a", "locked")],
        opened("a", later(3)) | opened("b", later(30)) | opened("c", later(20)) | opened("locked", None),
    )
    assert (None, later(20), True) == (found.chosen, found.earliest, found.recovery_known)
    assert [later(30), later(20), None] == [e.until for e in found.walk]
    assert "action_required" == reasons(found)[2], "it does not recover by itself"
    assert Trigger.NOBODY_RECOVERY_KNOWN is found.trigger


def test_a_leased_probe_is_waited_for_until_its_lease_ends() -> None:
    found = pick([view("fable", 0, "a")], leased("a", later(-1), later(1)))
    assert (later(1), ["probe_leased"]) == (found.earliest, reasons(found))


def test_an_armed_retry_of_somebody_else_leaves_the_circuit_open_until_its_deadline() -> None:
    found = pick([view("fable", 0, "a")], leased("a", later(1), later(2)))
    assert (later(1), ["circuit_open"]) == (found.earliest, reasons(found))


@pytest.mark.parametrize("circuits", [{}, opened("a", None)])
def test_nobody_and_a_person_is_needed(circuits: dict[str, Circuit]) -> None:
    found = pick([view("fable", 0, "a")], circuits, round=Round(excluded=("fable",)))
    assert (None, None, Trigger.NOBODY_PERSON_NEEDED) == (found.chosen, found.earliest, found.trigger)


def test_no_candidates_is_nobody() -> None:
    assert Trigger.NOBODY_PERSON_NEEDED is pick([]).trigger


def test_the_failed_candidate_is_never_taken_again_because_nobody_else_is_there() -> None:
    """R-ENG-5."""
    views = [view("fable"), view("codex", 1, enabled=False)]
    assert None is pick(views, round=Round(excluded=("fable",))).chosen


def test_one_that_had_its_visit_counts_for_recovery() -> None:
    """Waiting starts a new round, which leaves nobody out."""
    found = pick([view("fable", 0, "a")], opened("a", later(2)), round=Round(excluded=("fable",)))
    assert (["excluded"], later(2)) == (reasons(found), found.earliest)
    due = pick([view("fable", 0, "a")], opened("a", later(-2)), round=Round(excluded=("fable",)))
    assert (None, NOW) == (due.chosen, due.earliest)
    skipped = pick([view("fable", 0, "a")], opened("a", later(-2)), round=Round(skip_once=("fable",)))
    assert None is skipped.earliest, "a person said no a moment ago"


def test_a_pin_takes_the_current_candidate_or_nobody() -> None:
    """R-ENG-7: retry_now means this one; without it, a full walk."""
    views = [view("fable"), view("codex", 1, "a")]
    found = pick(views, pinned="codex")
    assert found.chosen is not None
    assert ("codex", ["not_pinned", "chosen"]) == (found.chosen.profile_id, reasons(found))
    assert None is pick(views, opened("a", later(1)), pinned="codex").chosen
    full = pick(views, pinned="gone")
    assert full.chosen is not None
    assert "fable" == full.chosen.profile_id


def test_a_person_may_probe_early_but_not_beside_somebody_elses_probe() -> None:
    """R-ENG-6."""
    views = [view("fable", 0, "a"), view("codex", 1, "b"), view("sol", 2, "c")]
    circuits = leased("a", later(9), later(1)) | opened("b", None) | opened("c", later(9))
    found = pick(views, circuits, early_probe=True)
    assert found.chosen is not None
    assert ("codex", True, ["probe_leased", "chosen_as_probe", "after_chosen"]) == (
        found.chosen.profile_id,
        found.is_probe,
        reasons(found),
    )
    locked = pick([view("fable", 0, "a")], leased("a", None, later(1)), early_probe=True)
    assert (["probe_leased"], None) == (reasons(locked), locked.earliest), "the need for a person outlives the lease"


_circuit = st.one_of(
    st.none(),
    st.builds(lambda m: ("open", m), st.integers(-5, 5)),
    st.just(("locked", 0)),
    st.builds(lambda m: ("leased", m), st.integers(-5, 5)),
)


def _stored(name: str, what: tuple[str, int] | None) -> dict[str, Circuit]:
    match what:
        case None:
            return {}
        case ("open", minutes):
            return opened(name, later(minutes))
        case ("locked", _):
            return opened(name, None)
        case (_, minutes):
            return leased(name, later(-1), later(minutes))


@st.composite
def _situations(draw: st.DrawFn) -> tuple[list[CandidateView], dict[str, Circuit], Round, str | None, bool]:
    names = [f"p{i}" for i in range(draw(st.integers(0, 5)))]
    keys = ["a", "b", "c"]
    views = [
        view(
            name,
            position,
            *draw(st.lists(st.sampled_from(keys), unique=True)),
            enabled=draw(st.booleans()),
            problem=draw(st.sampled_from([None, None, ("not_launchable", "no executable")])),
        )
        for position, name in enumerate(names)
    ]
    circuits: dict[str, Circuit] = {}
    for name in keys:
        circuits |= _stored(name, draw(_circuit))
    some = st.lists(st.sampled_from(names), unique=True, max_size=3).map(tuple) if names else st.just(())
    pinned = draw(st.none() | st.sampled_from([*names, "gone"]))
    return (
        draw(st.permutations(views)),
        circuits,
        Round(excluded=draw(some), skip_once=draw(some)),
        pinned,
        draw(st.booleans()),
    )


@given(_situations())
def test_whatever_the_situation(
    situation: tuple[list[CandidateView], dict[str, Circuit], Round, str | None, bool],
) -> None:
    views, circuits, round_, pinned, early = situation
    found = select(views, circuits, round=round_, pinned=pinned, now=NOW, early_probe=early)

    ordered = sorted(views, key=lambda v: v.position)
    assert [v.profile_id for v in ordered] == [e.profile_id for e in found.walk], "each candidate once, in order"
    assert all(e.reason and e.detail for e in found.walk)
    assert (found.chosen is not None) == (1 == sum(e.chosen for e in found.walk))
    json.dumps(found.to_json())

    def free(v: CandidateView) -> bool:
        known = any(p.profile_id == pinned and p.enabled for p in views)
        admitted = all(admission(circuits.get(k.key), now=NOW, early=early).kind != "refused" for k in v.keys)
        left_out = v.profile_id in (*round_.excluded, *round_.skip_once) or (known and v.profile_id != pinned)
        return v.enabled and v.problem is None and admitted and not left_out

    assert [free(v) for v in ordered] == [e.eligible for e in found.walk]
    assert next((v for v in ordered if free(v)), None) == found.chosen
    if found.chosen is not None:
        probed = [k for k in found.chosen.keys if admission(circuits.get(k.key), now=NOW, early=early).kind == "probe"]
        assert bool(probed) == found.is_probe
        assert None is found.earliest
    elif found.earliest is not None:
        assert found.earliest >= NOW
        assert found.earliest in [e.until for e in found.walk]


def test_the_walk_is_plain_json() -> None:
    (entry,) = pick([view("fable", 0, "a", provider_id="acme", model_id="m")], opened("a", later(1))).to_json()
    assert {
        "profile_id": "fable",
        "family": "fam",
        "position": 0,
        "eligible": False,
        "chosen": False,
        "reason": "circuit_open",
        "detail": "account resource: quota_limited; until 2026-01-02T03:05:05+00:00",
        "until": "2026-01-02T03:05:05+00:00",
        "scope": "account",
        "code": "quota_limited",
        "transport": None,
        "provider_id": "acme",
        "model_id": "m",
        "keys": ["a"],
    } == entry
    assert set(Verdict) >= {Verdict.CHOSEN}
