"""The named scenarios: for each, what the first request of a turn gets and what the one after a tool's result gets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kandev_routing_sdk.testing.provider import faults
from kandev_routing_sdk.testing.provider.messages import Ask, Ending, Fault, Reply, Settings, Step, Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

SIDE_TEXT: Final = "A title"
"""What a request for a title gets, and one without tools where the scenario calls one."""
PARTIAL: Final = ("Partial answer, ", "still going ", "and then")
_HTML: Final = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One named behaviour of the provider.

    ``first`` answers the first request of a turn, ``after_tool`` the ones that bring a tool's result (``first`` again
    when ``None``). ``settings`` are where ``LoopbackProvider.set`` starts from.
    """

    name: str
    summary: str
    first: Step
    after_tool: Step | None = None
    settings: Settings = field(default_factory=Settings)

    def reply(self, ask: Ask) -> Reply:
        """Answer one request; what a client asks for itself is granted, and uses up no failure."""
        if ask.side:
            return ask.dialect.answer(ask, SIDE_TEXT)
        if ask.after_tool and self.after_tool is not None:
            return self.after_tool(ask)
        return self.first(ask)


def succeed(ask: Ask) -> Reply:
    """Answer with the text of the settings."""
    return ask.dialect.answer(ask, ask.settings.text)


def call_tool(ask: Ask) -> Reply:
    """Ask the client's shell tool for the command of the settings; a client without one gets a text."""
    call = ask.dialect.tool_call(ask, ask.settings.tool_command)
    return ask.dialect.answer(ask, SIDE_TEXT) if call is None else call


def fail_with(fault: Fault) -> Step:
    """Return the step that answers with ``fault`` as an HTTP error."""

    def step(ask: Ask) -> Reply:
        return ask.dialect.fault(ask, fault)

    return step


def fail_in_stream(fault: Fault, chunks: tuple[str, ...] = ()) -> Step:
    """Return the step that opens a stream, says ``chunks`` and reports ``fault`` in it (HTTP when not streamed)."""

    def step(ask: Ask) -> Reply:
        if not ask.stream:
            return ask.dialect.fault(ask, fault)
        events = ask.dialect.begun(ask, chunks)
        return Reply(events=(*events, ask.dialect.fault_event(ask, fault)), failing=True)

    return step


def break_off(ending: Ending) -> Step:
    """Return the step that says some text and then lets the connection end in ``ending``."""

    def step(ask: Ask) -> Reply:
        if not ask.stream:
            return Reply(silent=True, ending=Ending.CUT if ending is Ending.END else ending, failing=True)
        return Reply(events=ask.dialect.begun(ask, PARTIAL), ending=ending, failing=True)

    return step


def say_nothing(ending: Ending) -> Step:
    """Return the step that writes nothing at all."""

    def step(_ask: Ask) -> Reply:
        return Reply(silent=True, ending=ending, failing=True)

    return step


def _bad_gateway(_ask: Ask) -> Reply:
    return Reply(status=502, headers={"content-type": "text/html"}, body=_HTML, failing=True)


def _truncated(ask: Ask) -> Reply:
    return ask.dialect.answer(ask, "".join(PARTIAL), truncated=True)


def _empty(ask: Ask) -> Reply:
    return ask.dialect.answer(ask, "")


def _near_limit(ask: Ask) -> Reply:
    """Answer well, with headers that say that the plan's window is nearly used up."""
    reply = succeed(ask)
    if ask.dialect.wire is Wire.RESPONSES:
        used = dict(faults.usage_headers(faults.HOUR)(ask))
        return reply.with_headers(used | {"x-codex-primary-used-percent": "93"})
    if ask.dialect.wire is Wire.CHAT:
        return reply.with_headers({"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "35"})
    used = dict(faults.plan_headers("five_hour", faults.HOUR)(ask))
    del used["retry-after"]
    return reply.with_headers(
        used
        | {
            "anthropic-ratelimit-unified-status": "allowed_warning",
            "anthropic-ratelimit-unified-5h-status": "allowed_warning",
            "anthropic-ratelimit-unified-5h-utilization": "0.93",
            "anthropic-ratelimit-unified-5h-surpassed-threshold": "0.9",
        }
    )


_PLAN = faults.plan_limit("five_hour", faults.HOUR)
_WEEK = faults.plan_limit("seven_day", faults.WEEKLY)
_SHORT = faults.rate_limit(faults.SHORT)

_SINGLE: Final[tuple[tuple[str, str, Step], ...]] = (
    ("success", "a text", succeed),
    ("near_limit", "a text, with headers that warn of the plan's limit", _near_limit),
    ("truncated", "a text that the output limit ended", _truncated),
    ("empty", "a good answer without a word in it", _empty),
    ("plan_limit", "429 of a Claude subscription: the five-hour window is used up", fail_with(_PLAN)),
    ("plan_limit_weekly", "429 of a Claude subscription: the seven-day window is used up", fail_with(_WEEK)),
    ("usage_limit", "429 usage_limit_reached of a ChatGPT plan", fail_with(faults.USAGE_LIMIT)),
    ("usage_not_included", "429: the plan has no usage of this kind", fail_with(faults.USAGE_NOT_INCLUDED)),
    ("insufficient_quota", "429: the prepaid quota is spent", fail_with(faults.INSUFFICIENT_QUOTA)),
    ("rate_limit_short", "429 throttle, retry-after 2 s", fail_with(_SHORT)),
    ("rate_limit_long", "429 throttle, retry-after one hour", fail_with(faults.rate_limit(faults.HOUR))),
    ("rate_limit_no_hint", "429 throttle without retry-after", fail_with(faults.rate_limit(None))),
    ("overloaded", "529 overloaded", fail_with(faults.OVERLOADED)),
    ("server_error", "500", fail_with(faults.SERVER_ERROR)),
    ("bad_gateway", "502 with an HTML page", _bad_gateway),
    ("unavailable", "503", fail_with(faults.UNAVAILABLE)),
    ("unauthorized", "401: the key is wrong", fail_with(faults.UNAUTHORIZED)),
    ("token_expired", "401: the login has expired", fail_with(faults.TOKEN_EXPIRED)),
    ("no_credentials", "401: no credentials were sent", fail_with(faults.NO_CREDENTIALS)),
    ("billing", "402", fail_with(faults.BILLING)),
    ("credit_balance", "400: the balance is too low", fail_with(faults.CREDIT_BALANCE)),
    ("forbidden", "403: no permission", fail_with(faults.FORBIDDEN)),
    ("region", "403: not offered in this country", fail_with(faults.REGION)),
    ("model_not_found", "404: no such model", fail_with(faults.MODEL_NOT_FOUND)),
    ("prompt_too_long", "400: the context window is too small", fail_with(faults.PROMPT_TOO_LONG)),
    ("invalid_request", "400: a bad parameter", fail_with(faults.INVALID_REQUEST)),
    ("too_large", "413", fail_with(faults.TOO_LARGE)),
    ("stream_overloaded", "an overload inside an open stream, before text", fail_in_stream(faults.OVERLOADED)),
    ("partial_then_overloaded", "an overload inside a stream, after text", fail_in_stream(faults.OVERLOADED, PARTIAL)),
    ("partial_then_rate_limit", "a throttle inside a stream, after text", fail_in_stream(_SHORT, PARTIAL)),
    ("partial_then_cut", "text, then the connection is closed in mid-answer", break_off(Ending.CUT)),
    ("partial_then_end", "text, then a proper end without the closing events", break_off(Ending.END)),
    ("partial_then_reset", "text, then the connection is reset", break_off(Ending.RESET)),
    ("partial_then_hang", "text, then silence", break_off(Ending.HANG)),
    ("closed", "the connection is closed without an answer", say_nothing(Ending.CUT)),
    ("reset", "the connection is reset without an answer", say_nothing(Ending.RESET)),
    ("hang", "never answers", say_nothing(Ending.HANG)),
)  # fmt: skip

_AFTER_TOOL: Final[tuple[tuple[str, str, Step], ...]] = (
    ("success_tool", "a text", succeed),
    ("tool_then_overloaded", "529", fail_with(faults.OVERLOADED)),
    ("tool_then_plan_limit", "the plan limit", fail_with(_PLAN)),
    ("tool_then_usage_limit", "the usage limit", fail_with(faults.USAGE_LIMIT)),
    ("tool_then_rate_limit", "a short throttle", fail_with(_SHORT)),
    ("tool_then_server_error", "500", fail_with(faults.SERVER_ERROR)),
    ("tool_then_unauthorized", "401", fail_with(faults.UNAUTHORIZED)),
    ("tool_then_cut", "a stream that is cut", break_off(Ending.CUT)),
    ("tool_then_hang", "silence", say_nothing(Ending.HANG)),
)


def _catalogue() -> Mapping[str, Scenario]:
    found = [Scenario(name, summary, step) for name, summary, step in _SINGLE]
    found += [
        Scenario(name, f"the shell tool runs a command, then {summary}", call_tool, step)
        for name, summary, step in _AFTER_TOOL
    ]
    table = {scenario.name: scenario for scenario in found}
    for name, base, times in (("overloaded_once", "overloaded", 1), ("overloaded_twice", "overloaded", 2)):
        summary = f"{table[base].summary}, {times} time(s), then a text"
        table[name] = replace(table[base], name=name, summary=summary, settings=Settings(fail_times=times))
    return MappingProxyType(table)


SCENARIOS: Final = _catalogue()
"""Every built-in scenario, by its name."""
