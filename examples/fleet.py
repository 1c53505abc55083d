"""Many prompts over several accounts: a few at once, an account that is used up is asked no more, a summary at the end.

Usage: python fleet.py PROFILE < prompts.txt > answers.jsonl

One prompt a line. The profile's candidates are the accounts; what one call learns of a limit, all others know at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass

from kandev_routing_sdk import CallActionRequired, CallCancelled, CallWaiting, Router, RoutingError

AT_ONCE = 8
"""Each call runs an agent: what bounds them is this machine, and what a provider allows at the same time."""


@dataclass(frozen=True)
class Done:
    """What became of one prompt: an answer and whose, or what to do now."""

    prompt: str
    answer: str | None = None
    by: str | None = None
    problem: str | None = None
    moved: bool = False


async def ask(router: Router, profile: str, prompt: str) -> Done:
    """Get one prompt answered. Each ending is an error of its own; none of them ends the other calls."""
    try:
        result = await router.route_once_async(profile, prompt, timeout=600)
    except CallWaiting as failed:
        return Done(prompt, problem=f"every account is used up; send it again at {failed.result.deadline:%H:%M} UTC")
    except CallActionRequired as failed:  # nothing is ever sent twice after work may have been done
        return Done(prompt, by=failed.result.execution_profile_id, problem=f"look at what was done: {failed}")
    except CallCancelled:
        raise
    except RoutingError as failed:  # refused, too long, too slow, …: the code says which
        return Done(prompt, problem=f"{failed.code}: {failed}")
    moved = result.attempts[0].execution_profile_id != result.execution_profile_id
    return Done(prompt, result.text, result.execution_profile_id, moved=moved)


async def ask_all(router: Router, profile: str, prompts: list[str]) -> list[Done]:
    """Ask all prompts, :data:`AT_ONCE` of them at the same time; write each answer down as soon as it is there."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(prompt: str) -> Done:
        async with free:
            done = await ask(router, profile, prompt)
        print(json.dumps(asdict(done)), flush=True)
        return done

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(prompt)) for prompt in prompts]
    return [task.result() for task in tasks]


def summary(router: Router, profile: str, everything: list[Done]) -> str:
    """Who answered how many, what is left, and which account is back when."""
    answered = Counter(done.by for done in everything if not done.problem)
    left = Counter(done.problem for done in everything if done.problem)
    moved = sum(done.moved for done in everything)
    limited = [entry for entry in router.explain(profile).walk if entry.until]
    return "\n".join(
        [
            f"{answered.total()} of {len(everything)} answered, {moved} of them by another account than was asked first",
            *(f"  {count} by {name}" for name, count in answered.most_common()),
            *(f"  {count} left: {problem}" for problem, count in left.items()),
            *(f"  {entry.profile_id} is asked again at {entry.until:%H:%M} UTC" for entry in limited),
        ]
    )


async def main(profile: str, prompts: list[str]) -> int:
    """0 when each prompt has its answer, else 1."""
    async with Router.open() as router:
        everything = await ask_all(router, profile, prompts)
        print(await asyncio.to_thread(summary, router, profile, everything), file=sys.stderr)
    return 1 if any(done.problem for done in everything) else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(sys.argv[1], [line for line in sys.stdin.read().splitlines() if line.strip()])))
    except RoutingError as problem:  # the configuration or the database cannot be used
        sys.exit(f"{problem.code}: {problem}")
