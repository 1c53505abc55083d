"""Many agents at once: the cheapest process that speaks the protocol, and one gate that holds all of them in mid-turn."""

from __future__ import annotations

import gc
import json
import os
import resource
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from kandev_routing_sdk.testing.scripted.bodies import quota_limited

PIECES: Final = 10
"""Pieces of an answer behind the gate."""
ANSWER: Final = "".join(["begin ", *(f"{n} " for n in range(PIECES))])


def _frame(**fields: Any) -> str:
    return f"echo {shlex.quote(json.dumps({'jsonrpc': '2.0', **fields}))}"


def _say(text: str) -> str:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
    return _frame(method="session/update", params={"sessionId": "s", "update": update})


class Gate:
    """A named pipe: whoever reads from it waits until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        """Let everybody on who waits there now."""
        os.close(os.open(self.path, os.O_WRONLY))


@dataclass
class Crowd:
    """Shell scripts that play an agent: a shell starts in a millisecond, and needs a megabyte."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.gate = Gate(self.folder / "gate")

    def profile(self, name: str) -> dict[str, Any]:
        """An agent that answers in pieces, most of them behind the gate; ``fable`` reports a limit instead."""
        opening = [
            "read -r _",
            _frame(id=1, result={"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}),
            "read -r _",
            _frame(id=2, result={"sessionId": "s"}),
            "read -r _",
        ]
        failing = [_frame(id=3, error=dict(quota_limited(3600)))]
        answering = [
            _say("begin "),
            f"read -r _ < {shlex.quote(str(self.gate.path))}",
            *(_say(f"{n} ") for n in range(PIECES)),
            _frame(id=3, result={"stopReason": "end_turn"}),
        ]
        steps = [*opening, *(failing if name == "fable" else answering), "read -r _"]
        path = self.folder / f"{name}.sh"
        path.write_text("\n".join(steps) + "\n", "utf-8")
        options = {"account": name, "provider_id": f"{name}-provider"}
        command = ["/bin/sh", str(path)]
        return {"family": "scripted", "name": name, "transport": "acp", "command": command, "options": options}

    @property
    def profiles(self) -> dict[str, Any]:
        """``codex`` answers, ``frontier`` is fable, then codex."""
        candidates = [{"profile": "fable"}, {"profile": "codex"}]
        frontier = {"kind": "dynamic", "name": "Frontier", "candidates": candidates}
        return {"fable": self.profile("fable"), "codex": self.profile("codex"), "frontier": frontier}


class Held(NamedTuple):
    """What this process holds."""

    memory: int
    """Bytes that are resident."""
    files: int
    threads: int
    objects: int
    """Those that the garbage collector knows."""


def held() -> Held:
    """Look at this process, without its garbage."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()
    return Held(resident, len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(gc.get_objects()))


@contextmanager
def many_files() -> Iterator[None]:
    """Allow as many open files as the machine does: an agent takes four."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
