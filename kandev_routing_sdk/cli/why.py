"""``sessions show --why``: each decision of the past with what it was made from, made again (R-ENG-3, R-ENG-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kandev_routing_sdk.cli.output import moment, one_line, print_text
from kandev_routing_sdk.cli.snapshots import print_line, walk_lines, written

if TYPE_CHECKING:
    from kandev_routing_sdk.circuits import Circuit
    from kandev_routing_sdk.evidence.model import Effects, Evidence, Signal
    from kandev_routing_sdk.evidence.sanitise import Sanitiser
    from kandev_routing_sdk.records import AttemptRecord
    from kandev_routing_sdk.route.past import PolicyInputs, SelectionInputs
    from kandev_routing_sdk.sessions import PastDecision

_FENCES: Final = frozenset({"probe_token", "probe_owner"})
"""What keeps others from ending somebody's probe: it is stored, and shown to nobody."""
_KEY_SHOWN: Final = 60
_DECIDED: Final[Mapping[str, str]] = {
    "wait": "wait for the reset, then the same candidate",
    "retry": "the same candidate again",
    "skip": "the next candidate",
    "stop": "stop for a person",
}
INDENT: Final = 2


# As JSON ---------------------------------------------------------------------------------------------------------------------


def documents(decisions: Sequence[PastDecision]) -> list[dict[str, Any]]:
    """Return the decisions as JSON."""
    from kandev_routing_sdk.evidence.sanitise import Sanitiser

    sanitiser = Sanitiser()
    return [_document(decision, sanitiser) for decision in decisions]


def _document(decision: PastDecision, sanitiser: Sanitiser) -> dict[str, Any]:
    from kandev_routing_sdk.cli.document import utc

    record, attempt = decision.record, decision.attempt
    return {
        "revision": record.revision,
        "at": utc(record.at),
        "sort": record.sort.value,
        "inputs": _without_fences(record.inputs),
        "answer": record.answer,
        "again": None if decision.again is None else dict(decision.again),
        "same": decision.same,
        "problem": decision.problem,
        "attempt": None if attempt is None else _attempt(attempt, decision, sanitiser),
    }


def _attempt(attempt: AttemptRecord, decision: PastDecision, sanitiser: Sanitiser) -> dict[str, Any]:
    anew = decision.classified_again
    return {
        "attempt_id": attempt.attempt_id,
        "ordinal": attempt.ordinal,
        "execution_profile_id": attempt.execution_profile_id,
        "evidence": None if attempt.evidence is None else _evidence(attempt.evidence, sanitiser),
        "effects": None if attempt.effects is None else attempt.effects.model_dump(mode="json"),
        "classification": None if attempt.classification is None else attempt.classification.model_dump(mode="json"),
        "catalogue_version": attempt.catalogue_version,
        "classified_again": None
        if anew is None
        else {"catalogue_version": anew.now.catalogue_version, "changes": [change.value for change in anew.changes]},
    }


def _evidence(evidence: Evidence, sanitiser: Sanitiser) -> dict[str, Any]:
    """Clean it once more: the version that wrote it may have known fewer shapes of secrets (R-EVI-5)."""
    signals = [_signal(signal, sanitiser) for signal in evidence.signals]
    return {**evidence.model_dump(mode="json"), "signals": [s.model_dump(mode="json") for s in signals]}


def _signal(signal: Signal, sanitiser: Sanitiser) -> Signal:
    changes = {
        "text": None if signal.text is None else sanitiser.text(signal.text),
        "data": sanitiser.value(signal.data),
        "headers": None if signal.headers is None else sanitiser.headers(signal.headers),
    }
    return signal.model_copy(update=changes)


def _without_fences(value: Any) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, dict):
        return {name: _without_fences(item) for name, item in value.items() if name not in _FENCES}
    if isinstance(value, list):
        return [_without_fences(item) for item in value]
    return value


# For a person ----------------------------------------------------------------------------------------------------------------


def show(decisions: Sequence[PastDecision]) -> None:
    """Print the decisions, the first one first."""
    from kandev_routing_sdk.evidence.sanitise import Sanitiser

    sanitiser = Sanitiser()
    for number, decision in enumerate(decisions, 1):
        _show(number, decision, sanitiser)
    print_text(f"\n{summary(decisions)}")


def summary(decisions: Sequence[PastDecision]) -> str:
    """Return how many decisions come out the same."""
    other = sum(decision.same is False for decision in decisions)
    lost = sum(decision.same is None for decision in decisions)
    if not decisions:
        return "nothing was decided yet"
    total = f"{len(decisions)} decision{'' if len(decisions) == 1 else 's'} made again from what was stored"
    if not other and not lost:
        return f"{total}: {'the same' if len(decisions) == 1 else 'all the same'}"
    parts = [f"{len(decisions) - other - lost} the same", f"{other} with another answer"]
    return f"{total}: {', '.join([*parts, *([f'{lost} that cannot be'] if lost else [])])}"


def _show(number: int, decision: PastDecision, sanitiser: Sanitiser) -> None:
    record = decision.record
    at = written(record.at) if record.at is not None else "at an unknown time"
    if record.sort == "policy":
        _show_policy(number, at, decision, sanitiser)
    else:
        _show_selection(number, at, decision)
    if decision.problem is not None:
        _line("again", f"cannot be made again: {decision.problem}")
    elif decision.same:
        _line("again", "the same answer")
    else:
        _line("again", f"ANOTHER ANSWER: {_answer(decision.again or {})}")


def _line(label: str, text: str) -> None:
    print_line(label, text, indent=INDENT)


def _answer(answer: Mapping[str, Any]) -> str:
    if "kind" in answer:
        return _DECIDED.get(str(answer["kind"]), str(answer["kind"]))
    return str(answer.get("chosen") or "nobody")


# Who is next -----------------------------------------------------------------------------------------------------------------


def _show_selection(number: int, at: str, decision: PastDecision) -> None:
    answer, inputs = decision.record.answer, decision.selection
    chosen, earliest = answer.get("chosen"), answer.get("earliest")
    words = f"{chosen} was chosen" if chosen else "nobody could be chosen"
    if isinstance(earliest, str):
        words += f"; somebody may be free {_moment(earliest, decision.record.at)}"
    print_text(f"\n{number}. {at}: who is next: {one_line(words, 300)}")
    walk = answer.get("walk")
    if isinstance(walk, list):
        now = inputs.now if inputs is not None else decision.record.at
        entries = [entry for entry in walk if isinstance(entry, dict)]
        if now is not None:
            for line in walk_lines(entries, now):
                print_text(f"{' ' * (INDENT + 2)}{line}")
    if inputs is not None:
        _show_what_was_seen(inputs)


def _show_what_was_seen(inputs: SelectionInputs) -> None:
    if inputs.round.excluded:
        _line("left out", f"{', '.join(inputs.round.excluded)}: had a visit in this round")
    if inputs.round.skip_once:
        _line("left out", f"{', '.join(inputs.round.skip_once)}: by hand, for this once")
    if inputs.pinned is not None:
        _line("asked for", f"{inputs.pinned}, by hand")
    if inputs.early_probe:
        _line("asked for", "now, by hand: deadlines do not refuse")
    for circuit in inputs.circuits.values():
        _line("health", _circuit(circuit, inputs.now))
    if not inputs.circuits:
        _line("health", "no circuit of a candidate was open")


def _circuit(circuit: Circuit, now: datetime) -> str:
    text = f"{circuit.key.key[:_KEY_SHOWN]} {circuit.state.value}"
    if circuit.code is not None:
        text += f": {circuit.code.value}"
    if circuit.action_required:
        text += ", a person had to act"
    elif circuit.deadline is not None:
        text += f", until {moment(circuit.deadline, now)}"
    if circuit.lease_is_live(now):
        armed = circuit.probe_since is not None and circuit.probe_since > now
        text += ", kept for another session's retry" if armed else ", being probed"
    return text


# What follows a failure ------------------------------------------------------------------------------------------------------


def _show_policy(number: int, at: str, decision: PastDecision, sanitiser: Sanitiser) -> None:
    attempt, answer = decision.attempt, decision.record.answer
    who = f" of {attempt.execution_profile_id} (attempt {attempt.ordinal})" if attempt is not None else ""
    words = _answer(answer)
    deadline = answer.get("deadline")
    if isinstance(deadline, str):
        words += f" at {_moment(deadline, decision.record.at)}"
    print_text(f"\n{number}. {at}: what follows the failure{who}: {words}")
    if attempt is not None:
        _show_attempt(attempt, decision, sanitiser)
    if decision.policy is not None:
        _show_policy_inputs(decision.policy)
    because = answer.get("because")
    for line in because if isinstance(because, list) else ():
        _line("because", str(line))


def _show_attempt(attempt: AttemptRecord, decision: PastDecision, sanitiser: Sanitiser) -> None:
    evidence, found = attempt.evidence, attempt.classification
    for signal in () if evidence is None else evidence.signals:
        _line("seen", _signal_words(_signal(signal, sanitiser)))
    if evidence is not None and evidence.dropped:
        _line("seen", f"{evidence.dropped} more that did not fit")
    if attempt.effects is not None:
        _line("effects", _effects(attempt.effects))
    if found is not None:
        rule = f"by {found.classifier_rule}" if found.classifier_rule else "by no rule"
        _line(
            "found",
            f"{found.code} ({found.error_class}), confidence {found.confidence}, scope {found.scope}, "
            f"{rule} of {attempt.catalogue_version}",
        )
        _line("", _classified_again(attempt, decision))


def _classified_again(attempt: AttemptRecord, decision: PastDecision) -> str:
    anew = decision.classified_again
    if anew is None:
        return "its evidence was not kept"
    same_rules = anew.now.catalogue_version == attempt.catalogue_version
    rules = "the same rules" if same_rules else f"the rules of now ({anew.now.catalogue_version})"
    if not anew.changes:
        return f"{rules} say the same of it"
    return f"{rules} differ in {', '.join(c.value for c in anew.changes)}; the decision keeps the answer of then"


def _signal_words(signal: Signal) -> str:
    parts = [str(part) for part in (signal.code, signal.http_status and f"status {signal.http_status}") if part]
    said = signal.text if signal.text is not None else "" if signal.data is None else str(signal.data)
    return f"[{', '.join([signal.channel, *parts])}] {one_line(said, 300)}"


def _effects(effects: Effects) -> str:
    seen = [
        name.replace("_", " ") for name in ("output", "thinking", "tool_call", "tool_effect") if getattr(effects, name)
    ]
    what = ", ".join(seen) if seen else "nothing came back"
    whole = "" if effects.complete else "; not all that it did was seen"
    return f"prompt {effects.delivery.value.replace('_', ' ')}; {what}{whole}"


def _show_policy_inputs(inputs: PolicyInputs) -> None:
    from kandev_routing_sdk.cli.words import policy_words
    from kandev_routing_sdk.policy import INTERACTIVE_SECONDS, Context

    used = f"{inputs.retries_used} retr{'y' if inputs.retries_used == 1 else 'ies'}"
    if inputs.context is Context.INTERACTIVE:
        _line("policy", "a concrete profile's: a short trouble is tried again, everything else is its person's")
        _line("used", f"{used} of {len(INTERACTIVE_SECONDS)}")
    else:
        waited = "a reset was waited for already" if inputs.reset_wait_used else "no reset was waited for yet"
        _line("policy", policy_words(inputs.policy))
        _line("used", f"{used}; {waited}")
    if inputs.stale:
        _line("", "the evidence was another attempt's")


def _moment(at: str, now: datetime | None) -> str:
    try:
        moment_of = datetime.fromisoformat(at)
    except ValueError:
        return one_line(at, 40)
    return moment(moment_of, now or moment_of)
