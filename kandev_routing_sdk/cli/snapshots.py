"""A session as a person sees it: where it is and why, and what can be done about it (R-ENG-6, R-ENG-7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kandev_routing_sdk.cli.output import moment, one_line, print_text

if TYPE_CHECKING:
    from kandev_routing_sdk.records import AttemptRecord
    from kandev_routing_sdk.route.snapshot import Snapshot

_LABEL: Final = 10
_STATES: Final[Mapping[str, str]] = {
    "selecting": "a worker finds it a candidate",
    "starting": "its agent is being started",
    "active": "ready for the next prompt",
    "reroute_pending": "its candidate was taken away; another one follows",
    "switching": "another candidate follows",
    "retry_wait": "waits, then the same candidate again",
    "waiting_for_reset": "waits for the reset, then the same candidate again",
    "retrying": "its agent is being started again",
    "waiting": "waits until a candidate may be free",
    "action_required": "a person has to act",
    "stopped": "over",
}
_ACTIONS: Final[Mapping[str, str]] = {
    "retry_now": "the same candidate again, now",
    "resume": "the same profile goes on in its own session",
    "start_fresh": "the same profile in a new session, told what is known",
    "skip_now": "another candidate, for this once",
    "cancel_wait": "wait for nothing any more",
    "stop": "end it for good",
}
STATES: Final = tuple(_STATES)
_EXITS: Final[Mapping[str, int]] = {"retry_wait": 75, "waiting_for_reset": 75, "waiting": 75, "action_required": 79}


def exit_code_of(snapshot: Snapshot) -> int:
    """Return what ``run`` would exit with for where this session rests: 0, 75 for a deadline, 79 for a person."""
    return _EXITS.get(snapshot.state, 0)


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return a session as JSON."""
    from kandev_routing_sdk.cli.document import utc

    times = {name: utc(getattr(snapshot, name)) for name in ("deadline", "created_at", "updated_at")}
    return {**snapshot.to_json(), **times, "candidates": [_with_utc(c) for c in snapshot.candidates]}


def _with_utc(entry: Mapping[str, Any]) -> dict[str, Any]:
    from kandev_routing_sdk.cli.document import utc

    until = entry.get("until")
    return {**entry, "until": utc(datetime.fromisoformat(until)) if isinstance(until, str) else until}


def attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    """Return an attempt as JSON, in the shape of ``calls show`` and which turn it belongs to."""
    from kandev_routing_sdk.cli.calls import attempt_document as of_call
    from kandev_routing_sdk.cli.document import utc

    return {
        "attempt_id": attempt.attempt_id,
        "prompt_number": attempt.prompt_number,
        **of_call(attempt),
        "mark": attempt.mark.value,
        "created_at": utc(attempt.created_at),
        "settled_at": utc(attempt.settled_at),
    }


def state_words(snapshot: Snapshot) -> str:
    """Return what the state means."""
    if snapshot.turn_running:
        return "a turn is running"
    return _STATES.get(snapshot.state, snapshot.state)


# One session -----------------------------------------------------------------------------------------------------------------


def show(snapshot: Snapshot, now: datetime, attempts: Sequence[AttemptRecord] = ()) -> None:
    """Print a session."""
    for label, text in _facts(snapshot, now):
        print_line(label, text)
    _show_candidates(snapshot, now)
    if attempts:
        print_text("\nattempts")
        for attempt in attempts:
            print_text(f"  {attempt_line(attempt)}")
    _show_actions(snapshot)


def print_line(label: str, text: str, *, indent: int = 0) -> None:
    """Print one fact under its name, on one line."""
    print_text(f"{' ' * indent}{label:<{_LABEL}} {one_line(text, 500)}")


def written(at: datetime) -> str:
    """Return a moment of the past, with its date."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _facts(snapshot: Snapshot, now: datetime) -> Iterator[tuple[str, str]]:
    yield "session", snapshot.session_id
    yield "profile", _profile(snapshot)
    yield "state", f"{snapshot.state} ({snapshot.reason}): {state_words(snapshot)}"
    yield "generation", str(snapshot.generation)
    if snapshot.code is not None:
        said = f": {snapshot.safe_excerpt}" if snapshot.safe_excerpt else ""
        yield "cause", f"{snapshot.code} ({snapshot.error_class}){said}"
    if snapshot.deadline is not None:
        yield "goes on", _goes_on(snapshot, snapshot.deadline, now)
    if snapshot.has_prompt and not snapshot.turn_running:
        yield "prompt", "was not answered" if snapshot.state == "stopped" else "kept until it is answered"
    if snapshot.potentially_effectful:
        yield (
            "effects",
            "an attempt of this turn may have done something: look at it first; nothing is repeated by itself",
        )
    if snapshot.may_be_back:
        yield "news", "what failed may work again; nothing is tried unasked"
    advice = _advice(snapshot)
    if advice:
        yield "advice", advice
    yield "begun", f"{written(snapshot.created_at)}; last changed {written(snapshot.updated_at)}"


def _profile(snapshot: Snapshot) -> str:
    """Return the profile that was asked for, and which one is at it for a dynamic one."""
    logical, current = snapshot.logical_profile_id, snapshot.execution_profile_id
    return logical if current in {None, logical} else f"{logical}, with {current}"


def _goes_on(snapshot: Snapshot, deadline: datetime, now: datetime) -> str:
    text = f"as soon as a worker looks, since {moment(deadline, now)}" if deadline <= now else moment(deadline, now)
    if snapshot.ordinal is not None:
        text += f", with retry {snapshot.ordinal}{f' of {snapshot.maximum}' if snapshot.maximum else ''}"
    if snapshot.pending_outcome is not None:
        text += f"; after that {_OUTCOMES.get(snapshot.pending_outcome, snapshot.pending_outcome)}"
    return text


_OUTCOMES: Final[Mapping[str, str]] = {"skip": "the next candidate", "stop": "a person decides"}


def _advice(snapshot: Snapshot) -> str | None:
    """What a person has to do about the cause, and how the sessions that wait for it learn that it was done (R-CIR-7)."""
    from kandev_routing_sdk.catalogue.codes import CODES
    from kandev_routing_sdk.circuits import needs_person
    from kandev_routing_sdk.route.model import Reason
    from kandev_routing_sdk.types import Code

    if snapshot.reason == Reason.DYNAMIC_ROUTING_DISABLED:
        return "set dynamic_agent_routing = true under [features]; a worker then goes on where this was"
    if snapshot.state != "action_required" or snapshot.code is None or snapshot.potentially_effectful:
        return None
    code, profile = Code(snapshot.code), snapshot.execution_profile_id or snapshot.logical_profile_id
    then = f" Then: kandev-routing circuits retry --profile {profile}" if needs_person(code) else ""
    return f"{CODES[code].advice}{then}"


def _show_candidates(snapshot: Snapshot, now: datetime) -> None:
    if not snapshot.candidates:
        return
    print_text("\nthe last choice")
    for line in walk_lines(snapshot.candidates, now):
        print_text(f"  {line}")


def walk_lines(walk: Sequence[Mapping[str, Any]], now: datetime) -> Iterator[str]:
    """Yield a stored walk, a candidate a line."""
    width = max((len(str(entry.get("profile_id"))) for entry in walk), default=0)
    for entry in walk:
        reason, detail = str(entry.get("reason")), str(entry.get("detail") or "")
        until = entry.get("until")
        if isinstance(until, str):
            told = moment(datetime.fromisoformat(until), now)
            detail = f"{detail.removesuffix(f'; until {until}')}; until {told}" if detail else f"until {told}"
        why = f": {detail}" if detail and detail != reason else ""
        yield one_line_kept(f"{entry.get('profile_id')!s:<{width}}", f"{reason}{why}")


def one_line_kept(name: str, text: str) -> str:
    """Return a padded name and a text on one line."""
    return f"{name}  {one_line(text, 500)}"


def attempt_line(attempt: AttemptRecord) -> str:
    """Return one attempt: who, how it ended, why, and what was decided."""
    found, decision = attempt.classification, attempt.decision
    ended = "running" if attempt.outcome is None else attempt.outcome.value
    asked = f"prompt {attempt.prompt_number}" if attempt.prompt_number else "started for no prompt"
    line = f"{attempt.ordinal}. {attempt.execution_profile_id} ({asked}): {ended}"
    if found is not None:
        line += f": {found.code} ({found.error_class})"
        if found.safe_excerpt:
            line += f": {one_line(found.safe_excerpt, 200)}"
    if decision is not None:
        line += f"; then {decision.kind}"
    return one_line(line, 500)


def _show_actions(snapshot: Snapshot) -> None:
    from kandev_routing_sdk.route.model import State

    if snapshot.state == State.STOPPED:
        return
    command = f"kandev-routing action {snapshot.session_id}"
    can = [(f"{command} {a} --generation {snapshot.generation}", _action_words(snapshot, a)) for a in snapshot.actions]
    if snapshot.state == State.ACTIVE and not snapshot.turn_running:
        can.insert(0, (f'kandev-routing sessions prompt {snapshot.session_id} "…"', "the next prompt"))
    if "stop" not in snapshot.actions:
        can.append((f"kandev-routing sessions stop {snapshot.session_id}", "end it for good, whatever runs"))
    print_text("\nwhat you can do")
    width = max(len(line) for line, _ in can)
    for line, words in can:
        print_text(f"  {line:<{width}}  {words}")


def _action_words(snapshot: Snapshot, action: str) -> str:
    if action == "retry_now" and (snapshot.state == "waiting" or snapshot.execution_profile_id is None):
        return "look for a candidate now, before its time"
    return _ACTIONS.get(action, action)


# Many ------------------------------------------------------------------------------------------------------------------------


def row(snapshot: Snapshot, now: datetime) -> tuple[str, ...]:
    """Return a session as a row of a table, narrow enough for a terminal."""
    state = "running" if snapshot.turn_running else snapshot.state
    return (
        snapshot.session_id,
        _clock(snapshot.created_at, now),
        _profile(snapshot),
        f"{state}: {snapshot.code}" if snapshot.code else state,
        "" if snapshot.deadline is None else _clock(snapshot.deadline, now),
    )


def _clock(at: datetime, now: datetime) -> str:
    return moment(at, now).partition(" (")[0]


COLUMNS: Final = ("session", "begun", "profile", "state", "goes on")
