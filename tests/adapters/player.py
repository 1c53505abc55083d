"""Plays a recording back as a process: ``python player.py RECORDING.json [the agent's own arguments, ignored]``.

A headless recording prints its lines in their order and exits as recorded. An ACP recording answers each request of the client with
the frames that followed the recorded request of the same method, under the client's own id. What was ended by its recorder hangs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

Frame = tuple[str, Any]


def die(record: dict[str, Any]) -> NoReturn:
    """Exit as recorded."""
    sys.stdout.flush()
    if record.get("signal"):
        os.kill(os.getpid(), getattr(signal, record["signal"]))
    sys.exit(record.get("exit_code") or 0)


def hang() -> NoReturn:
    """Say nothing more."""
    sys.stdout.flush()
    while True:
        signal.pause()


def headless(record: dict[str, Any]) -> NoReturn:
    """Print both streams in the order of time."""
    sys.stdin.read()
    lines = [(t, sys.stdout, line) for t, line in record["stdout_lines"]]
    lines += [(t, sys.stderr, line) for t, line in record["stderr_lines"]]
    for _, stream, line in sorted(lines, key=lambda entry: entry[0]):
        stream.write(f"{line}\n")
        stream.flush()
    if record.get("killed_by_recorder"):
        hang()
    die(record)


class Conversation:
    """One ACP conversation."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.answers: list[tuple[dict[str, Any], list[Frame]]] = []
        self.greeting: list[Frame] = []
        self.ids: dict[Any, Any] = {}
        for _, direction, message in record["frames"]:
            if direction == "out":
                self.answers.append((message, []))
            else:
                (self.answers[-1][1] if self.answers else self.greeting).append((direction, message))

    def run(self) -> NoReturn:
        """Answer until the client goes or the recording ends."""
        for _, line in self.record["stderr_lines"]:
            print(line, file=sys.stderr, flush=True)
        self._say(self.greeting)
        for line in sys.stdin:
            self._hear(json.loads(line))
        sys.exit(0)

    def _hear(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        for place, (asked, frames) in enumerate(self.answers):
            if asked.get("method") == method:
                del self.answers[place]
                if "id" in asked:
                    self.ids[asked["id"]] = message.get("id")
                self._say(frames)
                if not self.answers and self.record["how"] == "eof":
                    die(self.record)
                return
        if method and "id" in message:  # modes and options that nobody chose when this was recorded
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)

    def _say(self, frames: Iterable[Frame]) -> None:
        for direction, message in frames:
            if direction == "raw":
                print(message, flush=True)
                continue
            known = "method" not in message and message.get("id") in self.ids
            print(json.dumps({**message, "id": self.ids[message["id"]]} if known else message), flush=True)


if __name__ == "__main__":
    recording = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    Conversation(recording).run() if recording["mode"] == "acp" else headless(recording)
