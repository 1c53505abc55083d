"""One prompt, one answer: ``route_once`` (R-UTL).

Policy waits and retries happen inside the call: tenacity drives them, the policy made them, and nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from kandev_routing_sdk.conductor import Drive, Engine, Tell, Work, alongside, check_folder, check_prompt, in_thread
from kandev_routing_sdk.errors import RoutingError, StoreError, UsageError
from kandev_routing_sdk.ports import CallRecord
from kandev_routing_sdk.resolver import Resolution, resolve
from kandev_routing_sdk.results import AnswerUnrecorded, CallEnded, CallOutcome, CallResult, Progress, Waiting
from kandev_routing_sdk.route.model import Route, State
from kandev_routing_sdk.telemetry import fields, get_logger
from kandev_routing_sdk.utility.conclude import Conclusion, conclude, failure_of

_log = get_logger(__name__)

_PAUSED: Final = frozenset({State.RETRY_WAIT, State.WAITING_FOR_RESET})


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A utility call. ``timeout`` in seconds, None for none."""

    profile_id: str
    prompt: str
    cwd: Path
    timeout: float | None = None
    tell: Tell | None = None
    cancel: anyio.Event | None = None
    """Set it to end the call as cancelled."""


async def run_call(engine: Engine, request: CallRequest) -> CallResult:
    """Run a call to its end and return its result.

    Raises a :class:`~kandev_routing_sdk.results.CallFailed` with the result when it did not succeed, another
    :class:`~kandev_routing_sdk.errors.RoutingError` when nothing could be started. Cancellation from outside ends the
    agents, writes the record and is passed on.
    """
    _check(request)
    resolution = await in_thread(
        resolve, engine.profiles, request.profile_id, dynamic_enabled=engine.dynamic_enabled, scope=engine.host_scope
    )
    call = _Call(engine, request, resolution)
    result = await call.run()
    if result.outcome is not CallOutcome.SUCCESS:
        raise failure_of(result)
    return result


def _check(request: CallRequest) -> None:
    check_prompt(request.prompt)
    if request.timeout is not None and not request.timeout > 0:
        raise UsageError("timeout must be a positive number of seconds")
    check_folder(request.cwd)


class _Call:
    """One call's life: a unique ``utility:`` route, driven until it settles, then stopped (R-UTL-1, R-UTL-4)."""

    def __init__(self, engine: Engine, request: CallRequest, resolution: Resolution) -> None:
        self._engine = engine
        self._request = request
        self._tell = _guarded(request.tell)
        self._started = engine.clock.now()
        self._began = engine.clock.monotonic()
        call_id = engine.ids.new("utility:")
        self._record = CallRecord(call_id, call_id, request.profile_id, self._started)
        work = Work(
            logical_profile_id=request.profile_id,
            profile_version=resolution.profile.version,
            kind=resolution.kind,
            candidates=resolution.candidates,
            cwd=request.cwd,
            listed_by=resolution.listed_by,
        )
        self._drive = Drive(engine, lambda: work, self._tell, prompt=request.prompt)

    async def run(self) -> CallResult:
        ended: CallOutcome | None = None
        try:
            # the session comes first: a call without one could never be told from a live one after a crash
            await self._drive.open(self._record.session_id)
            await self._write(self._record)
            with anyio.move_on_after(self._request.timeout) as limit, anyio.CancelScope() as scope:
                async with alongside(self._watch_cancel(scope), self._drive.keep_owner()):
                    await self._until_settled()
            if self._drive.answered:
                pass  # an answer that came is not lost to a deadline that passed while it was written down
            elif limit.cancelled_caught:
                ended = CallOutcome.TIMED_OUT
            elif scope.cancelled_caught:
                ended = CallOutcome.CANCELLED
        except StoreError as problem:
            await self._give_up(CallOutcome.FAILED)
            if self._drive.has_answer:
                raise self._unrecorded(problem) from problem
            raise
        except BaseException:
            await self._give_up(CallOutcome.CANCELLED)
            raise
        if ended is not None:
            with anyio.CancelScope(shield=True):
                await self._drive.abandon()
        try:
            return await self._finish(ended)
        except StoreError as problem:
            if self._drive.has_answer:
                raise self._unrecorded(problem) from problem
            raise

    async def _give_up(self, outcome: CallOutcome) -> None:
        """End the agents and write down what can be; what ended the call is what its caller hears of."""
        with anyio.CancelScope(shield=True), suppress(RoutingError):
            await self._drive.abandon()
            if self._drive.begun:
                await self._finish(outcome)

    def _unrecorded(self, problem: StoreError) -> AnswerUnrecorded:
        """The work was done and paid for: its answer is not lost with the record of it."""
        conclusion = Conclusion(CallOutcome.FAILED, AnswerUnrecorded.exit_code, None, AnswerUnrecorded.code)
        text = f"the agent answered, but that could not be written down ({problem}); do not run it again, take the answer from here"
        return AnswerUnrecorded(text, self._result(conclusion))

    async def _watch_cancel(self, scope: anyio.CancelScope) -> None:
        if self._request.cancel is not None:
            await self._request.cancel.wait()
            scope.cancel()

    async def _until_settled(self) -> Route:
        """Drive; where the policy waits, sleep to its deadline and go on; where that is beyond the timeout, leave it at that."""
        retrying = AsyncRetrying(
            sleep=self._engine.clock.sleep,
            wait=self._seconds_left,
            stop=self._is_beyond_timeout,
            retry=retry_if_result(lambda route: route.state in _PAUSED),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
            before_sleep=self._tell_wait,
        )
        go_on: Callable[[], Awaitable[Route]] = self._drive.run
        return await retrying(go_on)

    def _seconds_left(self, state: RetryCallState) -> float:
        deadline = _deadline(state)
        return max(0.0, (deadline - self._engine.clock.now()).total_seconds()) if deadline else 0.0

    def _is_beyond_timeout(self, state: RetryCallState) -> bool:
        deadline, timeout = _deadline(state), self._request.timeout
        return deadline is not None and timeout is not None and deadline >= self._started + timedelta(seconds=timeout)

    def _tell_wait(self, state: RetryCallState) -> None:
        route = _route(state)
        if route.deadline is not None and route.execution_profile_id is not None:
            decision = route.decision
            self._tell(
                Waiting(
                    route.execution_profile_id,
                    route.deadline,
                    route.reason,
                    ordinal=decision.ordinal if decision else None,
                    maximum=decision.maximum if decision else None,
                )
            )

    async def _finish(self, ended: CallOutcome | None) -> CallResult:
        settled = self._drive.route
        conclusion = conclude(settled, self._drive.reports, self._drive.selection, ended)
        result = self._result(conclusion)
        last = result.attempts[-1] if result.attempts else None
        cause = last.classification.code if last and last.classification else None
        await self._write(
            replace(
                self._record,
                execution_profile_id=result.execution_profile_id,
                family=result.family,
                provider_id=result.provider_id,
                model=result.model,
                input_tokens=result.usage.input_tokens if result.usage else None,
                output_tokens=result.usage.output_tokens if result.usage else None,
                outcome=result.outcome.value,
                exit_code=result.exit_code,
                code=cause,
                attempts=len(result.attempts),
                deadline=result.deadline,
                ended_at=self._engine.clock.now(),
            )
        )
        await (
            self._drive.stop()
        )  # after the record: a call whose route is still open can be told to have been interrupted
        self._tell(CallEnded(result))
        return result

    def _result(self, conclusion: Conclusion) -> CallResult:
        last = self._drive.reports[-1] if self._drive.reports else None
        return CallResult(
            call_id=self._record.call_id,
            outcome=conclusion.outcome,
            exit_code=conclusion.exit_code,
            text=self._drive.text,
            stop_reason=self._drive.stop_reason,
            logical_profile_id=self._request.profile_id,
            execution_profile_id=last.execution_profile_id if last else None,
            family=last.family if last else None,
            provider_id=last.provider_id if last else None,
            model=last.model if last else None,
            usage=last.usage if last else None,
            attempts=tuple(self._drive.reports),
            deadline=conclusion.deadline,
            duration_s=self._engine.clock.monotonic() - self._began,
            rejected=self._drive.rejected,
            reason=conclusion.reason,
        )

    async def _write(self, record: CallRecord) -> None:
        await in_thread(self._engine.store.save_call, record)
        if record.outcome is not None:
            self._engine.telemetry.call_ended(record)


def _guarded(tell: Tell | None) -> Tell:
    """A callback that breaks is the host's fault: it is logged and changes nothing about the call."""

    def guarded(progress: Progress) -> None:
        if tell is not None:
            try:
                tell(progress)
            except Exception:  # noqa: BLE001  # a host's code: whatever it raises
                _log.exception("the progress callback failed", extra=fields(progress=type(progress).__name__))

    return guarded


def _route(state: RetryCallState) -> Route:
    assert state.outcome is not None  # noqa: S101  # tenacity asks only after a try
    route: Route = state.outcome.result()
    return route


def _deadline(state: RetryCallState) -> datetime | None:
    return _route(state).deadline
