"""Runs one turn of a scripted agent through a driver and looks at what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from pydantic import JsonValue

from kandev_routing_sdk.clock import SystemClock
from kandev_routing_sdk.evidence.turn import TurnContext, TurnRecord, TurnReport
from kandev_routing_sdk.evidence.updates import AgentUpdate, TextDelta
from kandev_routing_sdk.ports import Downstream, Ready
from kandev_routing_sdk.process import HeadlessDownstream, ProcessLimits
from kandev_routing_sdk.process.group import live_members
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec.adapter import Extractor, LaunchPlan, LaunchRequest
from kandev_routing_sdk.testing import ScriptedAdapter, ScriptedAgent
from kandev_routing_sdk.types import Delivery

QUICK = ProcessLimits(
    eof_grace_s=0.5,
    term_grace_s=0.5,
    pipe_grace_s=0.5,
    cancel_grace_s=1.0,
    linger_s=1.0,
    quiet_max_s=1.0,
    handshake_s=20.0,
)
"""Short graces: a hostile test waits for each of them. The kill grace stays long: it is only ever used up by a defect."""

SECRET = "sk-ant-api03-FAKEfakeFAKEfake0123456789abcdefFAKE"


class PlainCleaner:
    """A sanitiser that knows one secret."""

    def text(self, s: str) -> str:
        return s.replace(SECRET, "[secret]")

    def value(self, v: JsonValue) -> JsonValue:
        return v

    def headers(self, h: dict[str, str]) -> dict[str, str]:
        return h


def make_plan(agent: ScriptedAgent, *, env: dict[str, str] | None = None, **fields: Any) -> LaunchPlan:
    profile = ConcreteProfile(id="scripted", **agent.profile(**fields))
    environ = {"PATH": "/usr/bin:/bin", **(env or {})}
    request = LaunchRequest(profile=profile, environ=environ, cwd=agent.folder, executor_namespace="here")
    return ScriptedAdapter().plan(request)


@dataclass
class Driven:
    """A driver, its turn and what the host was told."""

    downstream: Downstream
    turn: TurnRecord
    updates: list[AgentUpdate]
    groups: list[int] = field(default_factory=list)
    signs: list[Delivery] = field(default_factory=list)
    ready: Ready | None = None

    async def run(self, text: str = "Do it.") -> TurnReport:
        """Start and prompt, then stop: what the conductor does."""
        try:
            self.ready = await self.downstream.start(self.turn)
            if self.ready is not None:
                await self.downstream.prompt(text, self.turn)
        finally:
            await self.downstream.stop()
        return self.report()

    def report(self) -> TurnReport:
        return self.turn.report(datetime(2026, 1, 1, tzinfo=UTC))

    @property
    def shown(self) -> str:
        return "".join(u.text for u in self.updates if isinstance(u, TextDelta))

    async def first_sign(self) -> None:
        """Wait until the first event of the turn came back."""
        while not self.signs:  # noqa: ASYNC110  # the agent is another process: there is no event to wait for
            await anyio.sleep(0.02)

    @property
    def nobody_left(self) -> bool:
        assert self.groups
        return not any(live_members(group) for group in self.groups)


Drives = Callable[..., Downstream]


def drive(
    plan: LaunchPlan,
    *,
    drives: Drives = HeadlessDownstream,
    extractor: Extractor | None = None,
    limits: ProcessLimits = QUICK,
    **extra: Any,
) -> Driven:
    updates: list[AgentUpdate] = []
    turn = TurnRecord(TurnContext(family="scripted", attempt_id="a-1"), PlainCleaner(), updates.append)
    groups: list[int] = []
    signs: list[Delivery] = []
    downstream = drives(
        plan,
        extractor or ScriptedAdapter().extractor(plan),
        attempt_id="a-1",
        clock=SystemClock(),
        limits=limits,
        **{
            "on_spawn": lambda group, _at: groups.append(group),
            "on_first_sign": lambda: signs.append(turn.effects.delivery),
            **extra,
        },
    )
    return Driven(downstream, turn, updates, groups, signs)
