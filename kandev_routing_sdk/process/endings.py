"""What both transports say about a process that would not start, or that ended."""

from __future__ import annotations

import errno
from typing import Final

from pydantic import JsonValue

from kandev_routing_sdk.errors import LaunchError
from kandev_routing_sdk.evidence.model import Signal
from kandev_routing_sdk.evidence.turn import TurnRecord
from kandev_routing_sdk.process.child import Child, ExitStatus
from kandev_routing_sdk.process.feed import violation
from kandev_routing_sdk.process.limits import ProcessLimits
from kandev_routing_sdk.types import AttemptOutcome, Channel

_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})


def launch_failed(turn: TurnRecord, error: LaunchError) -> None:
    """Nothing was started, so nothing was sent. What this machine is short of says nothing about the profile's setup."""
    cause = error.__cause__
    short = isinstance(cause, OSError) and cause.errno in _SHORTAGES
    data: dict[str, JsonValue] = {"shortage": error.code} if short else {"spawn_error": error.code}
    turn.signal(Signal(channel=Channel.EXIT, text=str(error), data=data))
    turn.failed(error.code)


def note_exit(turn: TurnRecord, status: ExitStatus, *, eof: bool = False) -> None:
    """The process ended by itself (one that the SDK ended is no evidence of anything). ``eof``: in the middle of a conversation."""
    turn.exited(status.code, status.signal)
    if status.code == 0 and turn.ended:
        return
    data: dict[str, JsonValue] = {}
    if status.code is not None:
        data["exit_code"] = status.code
    if status.signal is not None:
        data["signal"] = status.signal
    if eof and status.code == 0:
        data["eof"] = True
    turn.signal(Signal(channel=Channel.EXIT, text=str(status), data=data))


def note_child(turn: TurnRecord, child: Child, limits: ProcessLimits) -> None:
    """Say what makes the observation of a stopped child incomplete (R-EVI-3)."""
    if child.flooded:
        violation(turn, f"the agent said more than {limits.total_bytes} bytes and was ended", "output_flood")
        turn.failed("protocol_violation")
    if child.interrupted_drain or child.failure is not None:
        turn.incomplete()
    if not child.gone:
        turn.incomplete()
        violation(turn, "processes of the agent could not be ended", "unkillable")


def settle(turn: TurnRecord, *, asked_to_cancel: bool, otherwise: str) -> None:
    """Make sure that the turn ended, and that only one that was asked to is cancelled."""
    outcome = turn.outcome
    if outcome is AttemptOutcome.SUCCESS and (turn.effects.any_activity or not asked_to_cancel):
        return  # some agents answer a cancel with an empty `end_turn`
    if asked_to_cancel:
        if outcome is not AttemptOutcome.CANCELLED:  # its agent said something else of it, or nothing
            data: dict[str, JsonValue] = {"stopReason": "cancelled"}
            turn.signal(Signal(channel=Channel.AGENT_NOTICE, text="the turn was cancelled", data=data))
        turn.cancelled()
    elif outcome is AttemptOutcome.CANCELLED:
        turn.failed("cancelled")
    elif outcome is None:
        turn.failed(otherwise)
