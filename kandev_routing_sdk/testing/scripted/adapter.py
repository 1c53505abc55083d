"""The adapter of the scripted agent; a small, complete example of one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import anyio
from pydantic import JsonValue

from kandev_routing_sdk.binding import CredentialBindingDescriptor
from kandev_routing_sdk.errors import ExecutableNotFound, Problem
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec.acp import Frame, StandardAcpExtractor, as_object, as_text
from kandev_routing_sdk.spec.adapter import (
    AcpSettings,
    AgentAdapter,
    AgentEvent,
    Exited,
    Extractor,
    LaunchPlan,
    LaunchRequest,
    StderrLine,
    StdoutLine,
)
from kandev_routing_sdk.spec.executables import require_executable
from kandev_routing_sdk.types import Channel, Transport

_API_KEY = "SCRIPTED_API_KEY"
_OWN_OPTIONS = ("provider_id", "account", "model", "local_zone", "unproven", "quiet_period_s", "context_tokens")


class ScriptedAdapter(AgentAdapter):
    """Launches ``python -m kandev_routing_sdk.testing.scripted`` (see :class:`~kandev_routing_sdk.testing.ScriptedAgent`).

    Options of a profile: ``provider_id`` (default ``scripted``), ``account`` (profiles with the same one share a binding; default:
    the variable ``SCRIPTED_API_KEY``), ``model``, ``local_zone``, ``unproven`` (no binding can be proven), ``quiet_period_s``,
    ``context_tokens``. Every other option is an ACP configuration option. What the agent asks leave for is allowed, unless
    ``permissions.default`` is ``reject``.
    """

    family: ClassVar[str] = "scripted"
    label: ClassVar[str] = "Scripted agent"
    transports: ClassVar[tuple[Transport, ...]] = (Transport.ACP, Transport.HEADLESS)
    inherits: ClassVar[tuple[str, ...]] = ("SCRIPTED_*",)
    can_probe: ClassVar[bool] = True

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Resolve the launch; raises :class:`~kandev_routing_sdk.errors.ExecutableNotFound` without a usable ``command``."""
        profile = request.profile
        command = profile.command or ()
        if not command:
            raise ExecutableNotFound(f"profile {profile.id!r} has no command; set it to that of a ScriptedAgent")
        executable = require_executable(
            command[0], request.environ, request.cwd, hint="set command to that of a ScriptedAgent"
        )
        transport = profile.transport or Transport.ACP
        flags = ("--headless",) if transport is Transport.HEADLESS else ()
        provider = _text(profile, "provider_id") or self.family
        key = request.environ.get(_API_KEY, "")
        return LaunchPlan(
            transport=transport,
            argv=(executable, *command[1:], *profile.args, *flags),
            environ=request.environ,
            cwd=request.cwd,
            descriptor=None if profile.options.get("unproven") else self._descriptor(request, provider),
            provider_id=provider,
            model_id=profile.model or _text(profile, "model"),
            context_tokens=window if isinstance(window := profile.options.get("context_tokens"), int) else None,
            local_zone=_text(profile, "local_zone"),
            secrets=frozenset({key} - {""}),
            resumed=request.resume_session_id is not None,
            acp=_settings(profile),
        )

    def extractor(self, plan: LaunchPlan) -> Extractor:
        """Return an extractor for the plan's transport."""
        return ScriptedAcpExtractor() if plan.transport is Transport.ACP else ScriptedHeadlessExtractor()

    async def probe(self, plan: LaunchPlan, turn: TurnRecord) -> None:
        """Run the script's ``probe``: what the provider would say now. A script without one has no answer."""
        argv = [a for a in plan.argv if a != "--headless"]
        done = await anyio.run_process([*argv, "--probe"], env=plan.environ, cwd=plan.cwd, check=False)
        extractor = ScriptedHeadlessExtractor()
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            extractor.receive(StdoutLine(line), turn)

    def validate(self, profile: ConcreteProfile) -> Sequence[Problem]:
        """A scripted agent has no default executable."""
        if profile.command:
            return ()
        return (Problem("command", "is required: a scripted agent has no executable of its own"),)

    def _descriptor(self, request: LaunchRequest, provider: str) -> CredentialBindingDescriptor:
        account = _text(request.profile, "account")
        return CredentialBindingDescriptor(
            family=self.family,
            mechanism="api_key",
            source_kind="option" if account else "environment",
            locator=account or _API_KEY,
            executor_namespace=request.executor_namespace,
            authorisation_scope=provider,
        )


def _text(profile: ConcreteProfile, option: str) -> str | None:
    value = profile.options.get(option)
    return value if isinstance(value, str) and value else None


def _settings(profile: ConcreteProfile) -> AcpSettings:
    quiet = profile.options.get("quiet_period_s")
    settings = AcpSettings(
        mode=profile.mode,
        model=profile.model,
        options={k: v for k, v in profile.options.items() if k not in _OWN_OPTIONS},
        permission="reject" if profile.permissions.get("default") == "reject" else "allow",
    )
    return replace(settings, quiet_period_s=float(quiet)) if isinstance(quiet, (int, float)) else settings


def failure_signal(channel: Channel, error: Frame) -> Signal:
    """Return a scripted failure as evidence: the provider's status, headers and body where they belong."""
    data, code = error.get("data"), error.get("code")
    facts = as_object(data)
    status, headers = facts.get("status"), as_object(facts.get("headers"))
    return Signal(
        channel=channel,
        text=as_text(error.get("message")) or None,
        code=code if isinstance(code, (int, str)) else None,
        data=facts.get("body", data),
        headers={name: as_text(value) for name, value in headers.items()} or None,
        http_status=status if isinstance(status, int) else None,
    )


class ScriptedAcpExtractor(StandardAcpExtractor):
    """The standard protocol; errors hold the provider's answer in ``data``."""

    def note_error(self, error: Frame, turn: TurnRecord) -> None:
        """Keep the provider's status and headers apart from its body."""
        signal = failure_signal(Channel.ACP_ERROR, error)
        turn.signal(signal)
        if signal.http_status is not None:
            turn.http_status(signal.http_status)


class ScriptedHeadlessExtractor:
    """Reads the JSON lines of ``--headless``."""

    def receive(self, event: AgentEvent, turn: TurnRecord) -> None:
        """Interpret one event (:class:`~kandev_routing_sdk.spec.Extractor`)."""
        if isinstance(event, StdoutLine):
            self._line(event, turn)
        elif isinstance(event, StderrLine):
            if event.text.strip():
                turn.signal(Signal(channel=Channel.STDERR, text=event.text))
        elif isinstance(event, Exited) and not turn.ended:
            turn.failed("agent_exited")

    def _line(self, line: StdoutLine, turn: TurnRecord) -> None:
        try:
            event = as_object(json.loads(line.text))
        except (ValueError, RecursionError):
            event = {}
        handlers = {
            "say": lambda: turn.text(as_text(event.get("text"))),
            "think": lambda: turn.thinking(as_text(event.get("text"))),
            "tool": lambda: turn.tool_call(as_text(event.get("id")), as_text(event.get("title"))),
            "tool_result": lambda: turn.tool_result(as_text(event.get("id")), ok=event.get("ok") is True),
            "fail": lambda: self._fail(event, turn),
            "end": lambda: self._end(event, turn),
        }
        handler = handlers.get(as_text(event.get("type")))
        if handler is None:
            turn.incomplete()  # an event of another kind, or no event at all: it may have been anything
        else:
            handler()

    def _fail(self, event: Mapping[str, JsonValue], turn: TurnRecord) -> None:
        signal = failure_signal(Channel.STDOUT_EVENT, event)
        turn.acknowledged()
        turn.signal(signal)
        if signal.http_status is not None:
            turn.http_status(signal.http_status)
        turn.failed("error")

    def _end(self, event: Mapping[str, JsonValue], turn: TurnRecord) -> None:
        usage = as_object(event.get("usage"))
        given, made = usage.get("inputTokens"), usage.get("outputTokens")
        if isinstance(given, int) and isinstance(made, int):
            turn.usage(given, made)
        turn.acknowledged()
        reason = as_text(event.get("stop_reason"))
        if reason == "end_turn":
            turn.succeeded(reason)
        elif reason == "cancelled":
            turn.cancelled()
        else:
            turn.failed(reason or "unknown_stop_reason")
