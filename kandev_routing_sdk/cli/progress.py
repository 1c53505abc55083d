"""What a person sees while a call runs: candidate, cause, until when, decision. Never the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from kandev_routing_sdk.cli.output import moment, one_line, span
from kandev_routing_sdk.evidence.updates import InnerRetry, ToolCall
from kandev_routing_sdk.policy import Decision, DecisionKind
from kandev_routing_sdk.results import (
    AgentSaid,
    AttemptEnded,
    AttemptReport,
    AttemptStarted,
    CallOutcome,
    CallResult,
    CandidateSkipped,
    CircuitChanged,
    Progress,
    Waiting,
)
from kandev_routing_sdk.route.select import Verdict
from kandev_routing_sdk.types import AttemptOutcome

Say = Callable[[str, str], None]
"""Shows a line in a style."""


class Narrator:
    """Turns progress into lines."""

    def __init__(self, say: Say, names: Mapping[str, str], now: Callable[[], datetime]) -> None:
        self._say, self._names, self._now = say, names, now
        self._running = ""
        self._health: list[CircuitChanged] = []

    def __call__(self, progress: Progress) -> None:
        """Tell one thing. Shared health changes a moment before an attempt is over, and is told after it."""
        match progress:
            case CircuitChanged():
                self._health.append(progress)
            case AttemptEnded(report):
                self._ended(report)
                self._tell_health()
            case AgentSaid():
                self._said(progress)
            case _:
                self._tell_health()
                self._other(progress)

    def _said(self, said: AgentSaid) -> None:
        """Tools and tries; never the answer."""
        match said.update:
            case ToolCall(_, title):
                self._say(f"  {self._running} uses a tool: {one_line(title, 100)}", "dim")
            case InnerRetry() as retry:
                self._say(f"  {self._running} tries again by itself{_inner(retry)}", "dim")
            case _:
                pass

    def _tell_health(self) -> None:
        changes, self._health = self._health, []
        for changed in changes:
            self._circuit(changed)

    def _other(self, progress: Progress) -> None:
        match progress:
            case CandidateSkipped(rejected) if rejected.reason != Verdict.EXCLUDED:  # its failure was told already
                why = _shortened(rejected.detail, rejected.until)
                until = f"; until {moment(rejected.until, self._now())}" if rejected.until else ""
                reason = rejected.reason.replace("_", " ")
                self._say(f"skipped {self._name(rejected.profile_id)} ({reason}): {one_line(why)}{until}", "yellow")
            case AttemptStarted():
                self._started(progress)
            case Waiting():
                self._waiting(progress)
            case _:
                pass  # the answer is not progress, and the end is told by whoever asked

    def _name(self, profile_id: str) -> str:
        return one_line(self._names.get(profile_id) or profile_id, 80)

    def _started(self, started: AttemptStarted) -> None:
        self._running = one_line(started.label or started.profile_id, 80)
        facts = ", ".join(one_line(f, 80) for f in (started.provider_id, started.model) if f)
        probe = "; finds out whether its resource is back" if started.is_probe else ""
        self._say(f"attempt {started.ordinal}: {self._running}{f' ({facts})' if facts else ''}{probe}", "cyan")

    def _ended(self, report: AttemptReport) -> None:
        if report.outcome is AttemptOutcome.SUCCESS:
            return
        name, found = self._name(report.execution_profile_id), report.classification
        line = f"  {name} {_ENDED[report.outcome]}"
        if found is not None:
            line += f": {found.code} ({found.error_class})"
            due = found.due_at(self._now())
            if due is not None:
                line += f", until {moment(due, self._now())}"
            if found.safe_excerpt:
                line += f": {one_line(found.safe_excerpt, 160)}"
        self._say(line, "red")
        if report.decision is not None:
            self._say(f"  decision: {self._decision(report.decision)}", "")

    def _decision(self, decision: Decision) -> str:
        words = _DECISIONS[decision.kind]
        if decision.kind is DecisionKind.RETRY and decision.policy is not None:
            words += f" (retry {decision.ordinal} of {decision.policy.retry.max_retries})"
        if decision.deadline is not None:
            words += f" at {moment(decision.deadline, self._now())}"
        return words + (f" [{'; '.join(one_line(b, 120) for b in decision.because)}]" if decision.because else "")

    def _waiting(self, waiting: Waiting) -> None:
        left = max(0.0, (waiting.until - self._now()).total_seconds())
        retry = f", then retry {waiting.ordinal} of {waiting.maximum}" if waiting.ordinal and waiting.maximum else ""
        self._say(f"  waiting {span(round(left, 1))} for {self._name(waiting.profile_id)}{retry}", "dim")

    def _circuit(self, changed: CircuitChanged) -> None:
        line = f"  shared health: circuit of {changed.scope} {one_line(changed.label, 80)} is {changed.state.replace('_', ' ')}"
        if changed.code:
            line += f" ({changed.code})"
        if changed.until is not None:
            line += f" until {moment(changed.until, self._now())}"
        elif changed.action_required:
            line += "; a person has to act"
        self._say(line, "dim")


def attribution(result: CallResult, names: Mapping[str, str]) -> str:
    """Return who answered, and who did not: ``answered by Sol (codex, openai, gpt-5.5); attempt 2; 1 other failed: …``."""

    def name(profile_id: str) -> str:
        return one_line(names.get(profile_id) or profile_id, 80)

    failed = [a for a in result.attempts if a.outcome is not AttemptOutcome.SUCCESS]
    others = ", ".join(f"{name(a.execution_profile_id)} {_cause(a)}" for a in failed)
    facts = ", ".join(one_line(f, 80) for f in (result.family, result.provider_id, result.model) if f)
    line = f"answered by {name(result.execution_profile_id or '?')}{f' ({facts})' if facts else ''}"
    line += f"; attempt {len(result.attempts)}"
    if failed:
        line += f"; {len(failed)} other{'s' if len(failed) > 1 else ''} failed: {others}"
    skipped = [
        f"{name(r.profile_id)} ({r.reason.replace('_', ' ')})" for r in result.rejected if r.reason != Verdict.EXCLUDED
    ]
    if skipped and result.outcome is CallOutcome.SUCCESS:
        line += f"; passed over: {', '.join(skipped)}"
    return line


_ENDED: Final[Mapping[AttemptOutcome, str]] = {
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.CANCELLED: "was cancelled",
    AttemptOutcome.SILENT: "said nothing",
    AttemptOutcome.SUCCESS: "answered",
}
_DECISIONS: Final[Mapping[DecisionKind, str]] = {
    DecisionKind.WAIT: "wait for the reset, then the same candidate",
    DecisionKind.RETRY: "same candidate again",
    DecisionKind.SKIP: "next candidate",
    DecisionKind.STOP: "stop for a person",
}


def _cause(attempt: AttemptReport) -> str:
    return attempt.classification.code.value if attempt.classification else attempt.outcome.value


def _shortened(detail: str, until: datetime | None) -> str:
    """The detail without its own machine-readable deadline, which is told in a person's words."""
    return detail.removesuffix(f"; until {until.isoformat()}") if until else detail


def _inner(retry: InnerRetry) -> str:
    count = f" ({retry.ordinal}{f' of {retry.maximum}' if retry.maximum else ''})"
    status = f" after status {retry.status}" if retry.status else ""
    return count + status
