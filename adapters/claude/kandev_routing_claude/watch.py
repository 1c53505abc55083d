"""What Claude's runtime says of requests that fail: the same events headless and, passed on as they are, over ACP (R-EVI-6)."""

from __future__ import annotations

from typing import Final

from kandev_routing_claude.failure import (
    NOTICE_FIELDS,
    RESULT_FIELDS,
    TOO_MANY,
    Event,
    Verdict,
    as_dict,
    as_dicts,
    as_int,
    as_list,
    as_str,
    picked,
    says_signed_out,
    spoken_by_runtime,
    verdict_of,
)
from kandev_routing_claude.signs import note_blocks
from kandev_routing_sdk.spec import Channel, JsonValue, Signal, TurnRecord

SYNTHETIC: Final = "<synthetic>"
"""The model of what the runtime says in place of an answer."""

_LABELS: Final = (*NOTICE_FIELDS, "terminal_reason")
_PAID: Final = ("allowed", "allowed_warning")


class FailureWatch:
    """The failures of one turn's requests, as the runtime tells them."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        """What the runtime said in place of an answer."""
        self.unsure = False
        """Whether a try of a request may have ended inside a response."""
        self._unlabelled: list[str] = []
        """What the runtime said without calling it an error."""
        self._labelled: set[str] = set()
        """What it said and called one."""
        self._retry: Signal | None = None
        """The last retry that nothing has answered yet: evidence, unless the turn recovers."""
        self._limit: Signal | None = None
        """The last rejection by a limit that nothing has answered yet: evidence of a failure for that reason only."""

    def answered(self) -> None:
        """A response has begun, so what was retried before is over, and what a limit rejected is paid for otherwise."""
        self._retry = self._limit = None

    def recovered(self) -> None:
        """The model has answered after all."""
        self.verdict = None

    def api_retry(self, event: Event, turn: TurnRecord) -> None:
        """Claude tries again by itself (R-CON-9)."""
        status = as_int(event.get("error_status"))
        # inside an open stream an error has a status too, but no label of its own
        self.unsure = self.unsure or status is None or event.get("error") == "unknown"
        if as_int(event.get("attempt")) == 0:
            turn.acknowledged()  # a token is refreshed; no retry
            return
        delay = as_int(event.get("retry_delay_ms"))
        turn.inner_retry(
            maximum=as_int(event.get("max_retries")), delay_s=None if delay is None else delay / 1000, status=status
        )
        data = {"type": "api_retry", **picked(event, ("attempt", "max_retries", "error_status", "error"))}
        self._retry = Signal(channel=Channel.STDOUT_EVENT, data=data, http_status=status)

    def notice(self, event: Event, turn: TurnRecord) -> None:
        """The runtime's text in place of an answer: never output."""
        text = notice_text(event)
        turn.notice(text)
        note_blocks(event, turn)
        data = picked(event, NOTICE_FIELDS)
        if not data and event.get("is_api_error_message") is not True:
            self._unlabelled.append(text)
            return
        if self.verdict is not None:
            # that a later request was refused cleanly proves nothing of the one before
            self.unsure = self.unsure or not self.verdict.before_response
        self._labelled.add(text)
        self.verdict = verdict_of(event, text)
        self.failed_with(self.verdict.status, turn, limited=self.verdict.by_limit)
        turn.signal(Signal(channel=Channel.AGENT_NOTICE, text=text, data=data or None, http_status=self.verdict.status))

    def rate_limit(self, info: Event, turn: TurnRecord) -> None:
        """Healthy turns tell their limits too: only a rejection is evidence, and not while overage pays (R-EVI-6)."""
        if not info:
            return
        if info.get("status") != "rejected" or pays_otherwise(info):
            self._limit = None
            return
        turn.acknowledged()
        data: dict[str, JsonValue] = {"type": "rate_limit_event", "rate_limit_info": dict(info)}
        self._limit = Signal(channel=Channel.STDOUT_EVENT, data=data)

    def result(self, event: Event, turn: TurnRecord) -> Verdict:
        """A ``result`` that tells of a failure."""
        text, stop = result_text(event), as_str(event.get("stop_reason"))
        verdict = verdict_of(event, text)
        self.failed_with(verdict.status, turn, limited=verdict.by_limit)
        turn.acknowledged()
        # words in place of an answer that tell of no failure may tell of something done
        self.unsure |= any(said and said != text and not spoken_by_runtime(said) for said in self._unlabelled)
        data = picked(event, RESULT_FIELDS) | ({"stop_reason": stop} if stop == "refusal" else {})
        if self._is_own(event, text):
            turn.signal(Signal(channel=Channel.STDOUT_EVENT, text=text, data=data, http_status=verdict.status))
        else:
            # it repeats the model's last words: they explain nothing (R-EVI-6)
            data.pop("result", None)
            turn.signal(Signal(channel=Channel.STDOUT_EVENT, data=data, http_status=verdict.status))
            turn.signal(Signal(channel=Channel.ASSISTANT_TEXT, text=text))
        return self.verdict or verdict

    def _is_own(self, event: Event, text: str) -> bool:
        """Whether the words of a ``result`` that failed are the runtime's: labelled, said before as such, or known to be."""
        labelled = any(event.get(name) is not None for name in _LABELS)
        repeated = not as_list(event.get("errors")) and bool(text)
        return labelled or not repeated or text in self._labelled or spoken_by_runtime(text) or says_signed_out(text)

    def failed_with(self, status: int | None, turn: TurnRecord, *, limited: bool) -> None:
        """The pending retry, or rejection by a limit, belongs to the failure only if that is the same one.

        Args:
            status: the HTTP status of the failure, if it has one.
            turn: the record of the turn.
            limited: whether it was a refusal by a limit.
        """
        retry, self._retry = self._retry, None
        limit, self._limit = self._limit, None
        if retry is not None and status in {None, retry.http_status}:
            turn.signal(retry)
            limited = limited or retry.http_status == TOO_MANY
        if limit is not None and limited:
            turn.signal(limit)
        if status is not None:
            turn.http_status(status)

    def limited(self, turn: TurnRecord) -> None:
        """A refusal by a limit was told otherwise than by this runtime's events."""
        limit, self._limit = self._limit, None
        if limit is not None:
            turn.signal(limit)


def pays_otherwise(info: Event) -> bool:
    """Whether requests go on beyond a limit that rejects them, for they are paid for as overage."""
    return info.get("isUsingOverage") is True or info.get("overageStatus") in _PAID


def is_notice(event: Event) -> bool:
    """Whether an ``assistant`` event is the runtime's and not the model's."""
    return as_dict(event.get("message")).get("model") == SYNTHETIC or event.get("is_api_error_message") is True


def notice_text(event: Event) -> str:
    """What the runtime says in an ``assistant`` event."""
    blocks = as_dicts(as_dict(event.get("message")).get("content"))
    return "\n".join(as_str(block.get("text")) or "" for block in blocks).strip()


def result_failed(event: Event) -> bool:
    """Whether a ``result`` tells of a failure; a failed request has ``subtype: "success"``."""
    refused = event.get("stop_reason") == "refusal"
    return event.get("is_error") is True or event.get("subtype") != "success" or refused


def result_text(event: Event) -> str:
    """The last words of a ``result``."""
    errors = (error for error in as_list(event.get("errors")) if isinstance(error, str))
    return as_str(event.get("result")) or "; ".join(errors)


def tokens(usage: Event) -> tuple[int, int]:
    """Tokens in, cached ones included, and out."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(as_int(usage.get(name)) or 0 for name in names), as_int(usage.get("output_tokens")) or 0
