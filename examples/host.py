"""A host application: it keeps one router open, shows progress, and reacts to each way in which a call can end.

Usage: python host.py PROFILE PROMPT…
"""

from __future__ import annotations

import asyncio
import sys

from kandev_routing_sdk import (
    AttemptEnded,
    AttemptStarted,
    CallActionRequired,
    CallCancelled,
    CallFailed,
    CallNoCandidate,
    CallTimedOut,
    CallWaiting,
    CandidateSkipped,
    Progress,
    Router,
    RoutingError,
    Waiting,
)


def show(progress: Progress) -> None:
    """Called on the event loop for everything that happens, in order; keep it short."""
    match progress:
        case AttemptStarted(label=label):
            print(f"  asking {label}", file=sys.stderr)
        case AttemptEnded(report=report) if report.classification is not None:
            print(f"  {report.execution_profile_id} failed: {report.classification.code}", file=sys.stderr)
        case Waiting(profile_id=profile_id, until=until):
            print(f"  waiting for {profile_id} until {until}", file=sys.stderr)
        case CandidateSkipped(rejected=rejected):
            print(f"  not {rejected.profile_id}: {rejected.detail}", file=sys.stderr)
        case _:
            pass  # the agent's own updates, shared health, the end


async def ask(router: Router, profile: str, prompt: str) -> str:
    """Return an answer, or a sentence that says what to do now. Nothing is ever sent twice after work may have been done."""
    try:
        result = await router.route_once_async(profile, prompt, timeout=600, on_progress=show)
    except CallWaiting as failed:
        return f"nobody can answer before {failed.result.deadline}; ask again then"
    except CallActionRequired as failed:
        return f"please look at it: {failed} (unfinished: {failed.result.text!r})"
    except CallNoCandidate as failed:
        return f"no agent of {profile} can be started: {failed}"
    except CallTimedOut as failed:
        return f"too slow: {failed}"
    except CallCancelled:
        return "cancelled"
    except CallFailed as failed:
        return f"it cannot be done: {failed}"
    return f"{result.text} ({result.execution_profile_id})"


async def main(profile: str, prompts: list[str]) -> None:
    """Ask all prompts at the same time, over one router."""
    router = await asyncio.to_thread(Router.open)
    try:
        for answer in await asyncio.gather(*(ask(router, profile, prompt) for prompt in prompts)):
            print(answer)
    finally:
        await asyncio.to_thread(router.close)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2:]))
    except RoutingError as problem:  # the configuration or the database cannot be used, or there is no such profile
        sys.exit(f"{problem.code}: {problem}")
