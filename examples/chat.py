"""A chat in the terminal: one author for its reader, whoever answers behind it.

Usage:
    python chat.py PROFILE         begin a conversation in the current folder
    python chat.py --session ID    go on with one: it is shown again from its events, whoever wrote them, whenever that was

What is typed is the next message. When the conversation waits, or needs a person, it says which /actions there are.
Ctrl-D leaves after the last answer, Ctrl-C at once; the conversation stays. What agents ask leave for is answered by their profiles
(``permissions = { default = … }``), for nobody is asked here: ``Router.open(permissions=…)`` does that.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from pathlib import Path

from kandev_routing_sdk import EventKind, EventRecord, EventStream, Router, RoutingError, Session


class Screen:
    """What the reader sees, made of events alone: a conversation looks the same live and after a restart."""

    def __init__(self, author: str) -> None:
        self.author = author
        self.sequence = 0
        """Of the newest event that was shown."""
        self.generation = 0
        """What an action has to name: where the conversation is, as far as its reader knows."""
        self.settled = asyncio.Event()
        """No turn is on its way, or it goes on only if a person wants it to."""
        self.settled.set()
        self._speaking = False

    def show(self, event: EventRecord) -> None:
        """Show one event. Sentences are made here: an event holds words and parameters, never a sentence."""
        self.sequence, self.generation, told = event.sequence, event.generation, event.params
        match event.kind, told:
            case EventKind.USER_MESSAGE, {"text": str(text)}:
                self.settled.clear()
                self._line(f"\nyou: {text}")
            case EventKind.TURN_OUTPUT, {"type": "text", "text": str(text)}:
                self._say(text)
            case EventKind.TURN_OUTPUT, {"type": "tool_call", "title": str(title)}:
                self._line(f"  [{title}]")
            case EventKind.TURN_ENDED, {"profile_id": profile_id}:
                self._line(f"  ({profile_id})")
                self.settled.set()
            case EventKind.ROUTE_CHANGING, {"prior_profile_id": prior}:
                self._line(f"  {prior} stops here ({told.get('code', event.reason)}), another agent goes on")
            case EventKind.ROUTE_WAITING, {"deadline": until, "actions": list(actions)}:
                what = f"waits until {until}" if until else "needs you"
                offered = " ".join(f"/{action}" for action in actions)
                self._line(f"  {self.author} {what} ({told.get('code', event.reason)}): {offered}")
                if told["state"] == "action_required":
                    self.settled.set()
            case EventKind.ROUTE_STOPPED, _:
                self._line("  the conversation is over")
                self.settled.set()
            case _:
                pass  # thinking, what the agent offers, a turn that begins or fails: nothing for this reader

    def _say(self, text: str) -> None:
        print(text if self._speaking else f"{self.author}: {text.lstrip()}", end="", flush=True)
        self._speaking = True

    def _line(self, text: str) -> None:
        print(f"\n{text}" if self._speaking else text, flush=True)
        self._speaking = False


async def follow(events: EventStream, screen: Screen) -> None:
    """Show everything that happens from now on."""
    async for event in events:
        screen.show(event)


async def listen(session: Session, screen: Screen, messages: asyncio.Queue[str | None]) -> None:
    """Tell messages from actions. An action is carried out at once: the turn that it is about may be waiting for it."""
    lines = typed_lines()
    while (line := await lines.get()) is not None:
        if line.startswith("/"):
            await act(session, screen, line.removeprefix("/"))
        elif line:
            messages.put_nowait(line)
    messages.put_nowait(None)


async def act(session: Session, screen: Screen, action: str) -> None:
    """Carry out what a person wants of what that person saw; if it has moved on since, nothing is done."""
    settled = screen.settled.is_set()
    screen.settled.clear()
    try:
        now = await session.act(action, expected_generation=screen.generation)
        settled = settled and now.state == "action_required"  # it waits for a person as before: nothing has changed
    except RoutingError as refused:
        print(f"  not done: {refused}")
    if settled:
        screen.settled.set()


async def converse(session: Session, screen: Screen, messages: asyncio.Queue[str | None], events: EventStream) -> None:
    """Send one message after the other, each when that before it is settled; then close the events, which ends their follower."""
    while (text := await messages.get()) is not None:
        await screen.settled.wait()
        screen.settled.clear()
        try:
            await anext(session.prompt(text))  # it is on its way now, and what comes of it is followed already
        except RoutingError as refused:
            print(f"  not sent: {refused}")
            screen.settled.set()
    await screen.settled.wait()
    await events.aclose()


async def main(profile: str, session_id: str | None) -> None:
    """Hold one conversation."""
    async with Router.open() as router:
        session = router.session(session_id) if session_id else await router.start_session(profile, cwd=Path.cwd())
        print(f"python chat.py --session {session.id}", file=sys.stderr)
        screen = Screen((await session.snapshot()).logical_profile_id)
        while page := await asyncio.to_thread(router.events, session_id=session.id, after=screen.sequence):
            for event in page:
                screen.show(event)
        await session.go_on()  # whoever drove it may be gone, or it waits for something
        messages, events = asyncio.Queue[str | None](), session.events(after=screen.sequence)
        talking = listen(session, screen, messages), converse(session, screen, messages, events)
        await asyncio.gather(follow(events, screen), *talking)


def typed_lines() -> asyncio.Queue[str | None]:
    """What comes on standard input; None at its end. Read by a thread for which nobody has to wait."""
    lines, loop = asyncio.Queue[str | None](), asyncio.get_running_loop()

    def read() -> None:
        # without sys.stdin's lock, which would be held at exit
        with open(0, "rb", buffering=0, closefd=False) as stdin:
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line.decode().strip())
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("profile", nargs="?", default="")
    which.add_argument("--session", metavar="ID")
    chosen = parser.parse_args()
    try:
        asyncio.run(main(chosen.profile, chosen.session))
    except RoutingError as problem:  # no configuration, no such profile or session, …
        sys.exit(f"{problem.code}: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
