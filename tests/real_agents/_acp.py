"""A bare ACP client: an agent in a group of its own, requests one after another, every frame kept.

It shares no code with the SDK's own, so that each can contradict the other.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests._processes import descendants, group_members, is_alive

Frame = dict[str, Any]

START_S = 120.0
"""OpenCode burns ten to thirty seconds of processor time before it is ready."""


class AcpClient:
    """One agent's stdio, as a client sees it."""

    def __init__(self, process: subprocess.Popen[bytes], cwd: Path) -> None:
        self.process, self.cwd = process, cwd
        self.frames: list[Frame] = []
        """What the agent sent, in order."""
        self.session = ""
        self._inbox: queue.Queue[Frame | None] = queue.Queue()
        self._sent = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            frame = json.loads(line)
            self.frames.append(frame)
            self._inbox.put(frame)
        self._inbox.put(None)

    def send(self, frame: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._sent += 1
        self.send({"id": self._sent, "method": method, "params": params})
        return self._sent

    def answer_to(self, request: int, seconds: float = START_S) -> Frame:
        """Wait for a request's answer; an agent's own requests for permission are granted meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            frame = self._inbox.get(timeout=max(0.01, deadline - time.monotonic()))
            assert frame is not None, "the agent closed its output"
            if "method" in frame and "id" in frame:
                self.send({"id": frame["id"], "result": _granted(frame)})
            elif frame.get("id") == request:
                return frame

    def request(self, method: str, seconds: float = START_S, **params: Any) -> Frame:
        return self.answer_to(self.begin(method, **params), seconds)

    def open_session(self, meta: Mapping[str, Any] | None = None) -> Frame:
        """Initialize and open a session; return the answer to the latter."""
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        if meta is not None:
            capabilities["_meta"] = dict(meta)
        self.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
        answer = self.request("session/new", cwd=str(self.cwd), mcpServers=[])
        self.session = answer.get("result", {}).get("sessionId", "")
        return answer

    def begin_prompt(self, text: str = "Say hello.") -> int:
        return self.begin("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])

    def prompt(self, text: str = "Say hello.") -> Frame:
        """Prompt and return the answer to it."""
        return self.answer_to(self.begin_prompt(text))

    def updates(self, kind: str) -> list[Frame]:
        """The session updates of one kind so far."""
        found = [frame["params"]["update"] for frame in self.frames if frame.get("method") == "session/update"]
        return [update for update in found if update["sessionUpdate"] == kind]

    @property
    def chunks(self) -> list[tuple[str | None, str]]:
        """Each chunk of the agent's message: its message's id, and its text."""
        return [(u.get("messageId"), u["content"]["text"]) for u in self.updates("agent_message_chunk")]


def _granted(frame: Frame) -> Frame:
    options = frame["params"]["options"]
    chosen = next(option for option in options if option["kind"].startswith("allow"))
    return {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}


@contextmanager
def acp_agent(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[AcpClient]:
    """An agent that is gone afterwards, with all that it started."""
    process = subprocess.Popen(
        argv, env=dict(env), cwd=cwd, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        try:
            yield AcpClient(process, cwd)
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, its group and its descendants, whichever of these are left."""
    left = descendants(process.pid)
    if process.poll() is None or group_members(process.pid):
        with suppress(ProcessLookupError):  # it may end by itself between the look and the kill
            os.killpg(process.pid, signal.SIGKILL)
    for pid in left:
        if is_alive(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
