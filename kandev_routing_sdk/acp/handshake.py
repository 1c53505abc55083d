"""From a spawned agent to one that can take a prompt."""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.acp import messages
from kandev_routing_sdk.acp.early import EarlyTurn
from kandev_routing_sdk.acp.messages import Call
from kandev_routing_sdk.acp.wire import Wire
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.ports import Ready
from kandev_routing_sdk.process.feed import violation
from kandev_routing_sdk.spec.acp import Frame, as_object, as_text
from kandev_routing_sdk.spec.adapter import LaunchPlan
from kandev_routing_sdk.spec.client import NOTHING_OFFERED, ClientCapabilities
from kandev_routing_sdk.types import Channel, Phase


class Handshake:
    """initialize → authenticate → a session → mode, model, options. The first step that fails ends it (R-CON-7)."""

    def __init__(
        self,
        plan: LaunchPlan,
        wire: Wire,
        turn: EarlyTurn,
        resume_session_id: str | None,
        offers: ClientCapabilities = NOTHING_OFFERED,
    ) -> None:
        self._plan: Final = plan
        self._offers: Final = offers
        self._wire: Final = wire
        self._turn: Final = turn
        self._resume = resume_session_id if plan.resumed else None
        self._fresh = False

    async def run(self) -> Ready | None:
        """Return what the session can do; None when a step failed and the turn says why (or the agent is gone)."""
        agent = await self._initialize()
        if agent is None:
            return None
        self._turn.enter(Phase.SESSION_INIT)
        if self._plan.acp.auth_method is not None:
            self._turn.enter(Phase.AUTH_CHECK)
            if await self._ask(messages.authenticate(self._plan.acp.auth_method)) is None:
                return None
            self._turn.enter(Phase.SESSION_INIT)
        offered = await self._session(agent)
        session_id = self._wire.session_id
        if offered is None or session_id is None:
            return None
        self._wire.capabilities.session(offered)
        if not await self._choose(session_id, offered):
            return None
        capabilities = self._wire.opened()
        model = as_text(capabilities.get("current_model")) or self._plan.acp.model or self._plan.model_id
        self._turn.session(session_id, model)
        return Ready(session_id, fresh=self._fresh, capabilities=capabilities)

    async def _initialize(self) -> Frame | None:
        result = await self._ask(messages.initialize(self._plan, self._offers))
        if result is None:
            return None
        spoken = result.get("protocolVersion")
        if spoken != messages.PROTOCOL_VERSION:
            violation(
                self._turn, f"the agent does not speak version {messages.PROTOCOL_VERSION} of the protocol", "version"
            )
            self._turn.failed("protocol_version")
            return None
        return as_object(result.get("agentCapabilities"))

    async def _session(self, agent: Frame) -> Frame | None:
        if self._resume is not None and not messages.offers_resume(agent):
            self._resume, self._fresh = None, True
        call = messages.open_session(self._plan, self._resume, agent)
        # updates that a load replays are the past: the wire keeps them from the extractor
        self._wire.session_id = self._resume
        self._wire.replays = call.method == "session/load"
        result = await self._ask(call)
        if result is None:
            return None
        self._wire.session_id = self._resume or as_text(result.get("sessionId")) or None
        if self._wire.session_id is None:
            violation(self._turn, "the agent made a session without an id", "no_session_id")
            self._turn.failed("no_session")
        return result

    async def _choose(self, session_id: str, offered: Frame) -> bool:
        acp, capabilities = self._plan.acp, self._wire.capabilities
        if acp.mode is not None:
            if not await self._set("mode", acp.mode, messages.choose_mode(session_id, offered, acp.mode)):
                return False
            capabilities.chose("current_mode", acp.mode)
        if acp.model is not None:
            if not await self._set("model", acp.model, messages.choose_model(session_id, offered, acp.model)):
                return False
            capabilities.chose("current_model", acp.model)
        for option_id, value in acp.options.items():
            if not await self._set(f"options.{option_id}", value, messages.set_option(session_id, option_id, value)):
                return False
        return True

    async def _set(self, setting: str, value: JsonValue, call: Call | None) -> bool:
        if call is None:
            return True
        result = await self._ask(call)
        if result is not None:
            self._wire.capabilities.options(result)
        elif not self._wire.peer.closed:
            # what it answered may say little: this says what it was an answer to
            self._turn.signal(
                Signal(
                    channel=Channel.AGENT_NOTICE,
                    text=f"the agent did not take the profile's {setting} = {json.dumps(value)}",
                    code="setting_refused",
                    data={"setting": setting.partition(".")[0]},
                )
            )
        return result is not None

    async def _ask(self, call: Call) -> Frame | None:
        """Return the result; None when there is none, and the turn has then failed unless the agent is gone."""
        message = await self._wire.call(call)
        if message is None:
            return None
        if message.get("error") is not None or "result" not in message:
            if not self._turn.ended:
                self._turn.failed(f"{call.method.replace('/', '_')}_error")
            return None
        return as_object(message["result"])
