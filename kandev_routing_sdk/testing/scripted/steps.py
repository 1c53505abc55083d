"""What a scripted agent can do, apart from how it says it. Standard library only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kandev_routing_sdk.testing.scripted.script import Script, Step

_CHILD = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep({seconds})\n"
_FOREVER_S = 3600.0


class Voice(Protocol):
    """How the agent speaks: ACP or JSON lines."""

    def say(self, text: str, message_id: str | None) -> None:
        """Send a piece of the answer."""
        ...

    def think(self, text: str) -> None:
        """Send a piece of thinking."""
        ...

    def tool_call(self, tool_id: str, title: str) -> None:
        """Announce a tool call."""
        ...

    def tool_result(self, tool_id: str, *, ok: bool) -> None:
        """Report its result."""
        ...

    def update(self, update: dict[str, Any]) -> None:
        """Send an update of any shape."""
        ...

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the client and wait for its answer."""
        ...

    def raw(self, line: str) -> None:
        """Write a line as it is."""
        ...


class Over(Exception):
    """The steps of this moment are over: with ``result``, or with a JSON-RPC ``error``."""

    def __init__(self, result: dict[str, Any] | None = None, error: dict[str, Any] | None = None) -> None:
        super().__init__(result, error)
        self.result: dict[str, Any] | None = result
        self.error: dict[str, Any] | None = error


class Performer:
    """Performs steps; ends with :class:`Over` when one says how the moment ends."""

    def __init__(self, script: Script, voice: Voice, cancelled: threading.Event) -> None:
        self._script = script
        self._voice = voice
        self._cancelled = cancelled
        self._tools = 0
        self._usage: dict[str, int] | None = None

    def perform(self, steps: list[Step]) -> None:
        """Do every step in order."""
        for step in steps:
            action: Callable[[Step], None] | None = getattr(self, f"_do_{step['do']}", None)
            if action is None:
                raise SystemExit(f"the script has a step {step['do']!r} that does not exist")
            action(step)
        raise Over({"stopReason": "end_turn", **({"usage": self._usage} if self._usage else {})})

    # Speaking -----------------------------------------------------------------------------------------------------------

    def _do_say(self, step: Step) -> None:
        self._voice.say(step["text"], step.get("message_id", "msg_1"))

    def _do_think(self, step: Step) -> None:
        self._voice.think(step["text"])

    def _do_tool(self, step: Step) -> None:
        self._tools += 1
        tool_id = step.get("id", f"call_{self._tools}")
        title = step.get("title", "Append a line")
        self._voice.tool_call(tool_id, title)
        allowed = not step.get("ask") or self._permitted(tool_id, title)
        if allowed and step.get("effect", True):
            # a real effect: whoever runs the prompt twice finds two lines
            with self._script.effects.open("a", encoding="utf-8") as effects:
                effects.write(f"{step.get('line', title)}\n")
            self._script.log("tool", title=title)
        if step.get("result", True):
            self._voice.tool_result(tool_id, ok=allowed)

    def _permitted(self, tool_id: str, title: str) -> bool:
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        answer = self._voice.ask(
            "session/request_permission", {"toolCall": {"toolCallId": tool_id, "title": title}, "options": options}
        )
        outcome = answer.get("result", {}).get("outcome", {})
        self._script.log("permission", outcome=outcome)
        return bool(outcome.get("optionId") == "yes")

    def _do_request(self, step: Step) -> None:
        answer = self._voice.ask(step["method"], step.get("params", {}))
        self._script.log("answer", method=step["method"], answer=answer)

    def _do_update(self, step: Step) -> None:
        for _ in range(step.get("times", 1)):
            self._voice.update(step["update"])

    def _do_usage(self, step: Step) -> None:
        given, made = step["input_tokens"], step["output_tokens"]
        self._usage = {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}

    # Ending -------------------------------------------------------------------------------------------------------------

    def _do_stop(self, step: Step) -> None:
        raise Over({"stopReason": step["reason"], **({"usage": self._usage} if self._usage else {})})

    def _do_fail(self, step: Step) -> None:
        raise Over(error={k: step[k] for k in ("code", "message", "data") if k in step})

    def _do_exit(self, step: Step) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(step.get("code", 0))

    def _do_die(self, step: Step) -> None:
        sys.stdout.flush()
        os.kill(os.getpid(), getattr(signal, step.get("signal", "SIGKILL")))
        self._cancelled.wait(_FOREVER_S)

    # Misbehaving --------------------------------------------------------------------------------------------------------

    def _do_sleep(self, step: Step) -> None:
        if step.get("deaf"):
            threading.Event().wait(step["seconds"])
        elif self._cancelled.wait(step["seconds"]):
            raise Over({"stopReason": "cancelled"})

    def _do_hang(self, step: Step) -> None:
        self._do_sleep({"seconds": _FOREVER_S, "deaf": step.get("deaf", False)})

    def _do_ignore_signals(self, step: Step) -> None:
        for name in step.get("signals", ["SIGTERM", "SIGINT"]):
            signal.signal(getattr(signal, name), signal.SIG_IGN)

    def _do_garbage(self, step: Step) -> None:
        for _ in range(step.get("times", 1)):
            self._voice.raw(step.get("line", "this is not a message"))

    def _do_raw_bytes(self, step: Step) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(bytes.fromhex(step["hex"]) + b"\n")
        sys.stdout.buffer.flush()

    def _do_close_stdout(self, step: Step) -> None:
        del step
        sys.stdout.flush()
        os.close(sys.stdout.fileno())

    def _do_long_line(self, step: Step) -> None:
        self._voice.raw("x" * step.get("bytes", 10_000_000))

    def _do_stderr(self, step: Step) -> None:
        for number in range(step.get("times", 1)):
            sys.stderr.write(step["text"].replace("{n}", str(number)) + "\n")
        sys.stderr.flush()

    def _do_leak(self, step: Step) -> None:
        value = os.environ.get(step["name"], "")
        sys.stderr.write(f"using {step['name']}={value}\n")
        sys.stderr.flush()
        self._voice.update({"sessionUpdate": "session_info_update", "title": f"key {value}"})

    def _do_child(self, step: Step) -> None:
        code = _CHILD.format(seconds=step.get("seconds", _FOREVER_S))
        keep = None if step.get("keep_pipes") else subprocess.DEVNULL
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            stdin=keep,
            stdout=keep,
            stderr=keep,
            start_new_session=step.get("own_session", False),
            env={} if step.get("clean_env") else None,
        )
        self._script.log("child", child=child.pid)

    def _do_write(self, step: Step) -> None:
        Path(step["path"]).write_text(step.get("text", ""), "utf-8")
