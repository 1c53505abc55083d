"""The scripted agent's two voices and its loop. Standard library only."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kandev_routing_sdk.testing.scripted.script import Script
from kandev_routing_sdk.testing.scripted.steps import Over, Performer


def main(argv: list[str]) -> int:
    """Run a script; see the package's documentation."""
    paths = [a for a in argv if not a.startswith("-")]
    if not paths:
        sys.stderr.write("usage: python -m kandev_routing_sdk.testing.scripted SCRIPT [--headless]\n")
        return 2
    try:
        script = Script(Path(paths[0]))
    except (OSError, ValueError) as exc:
        sys.stderr.write(f"the script {paths[0]} cannot be read: {exc}\n")
        return 2
    if "--probe" in argv:
        return probe(script)
    script.log("start")
    return run_headless(script) if "--headless" in argv else AcpAgent(script).run()


def _write(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def probe(script: Script) -> int:
    """Say what the provider would say now, without a session."""
    script.log("probe")
    answer = script.get("probe")
    if answer is not None:
        _write({"type": "fail", **answer["fail"]} if "fail" in answer else {"type": "end", "stop_reason": "end_turn"})
    return 0


class JsonLines:
    """The headless voice."""

    def say(self, text: str, message_id: str | None) -> None:
        """Send a piece of the answer."""
        del message_id
        _write({"type": "say", "text": text})

    def think(self, text: str) -> None:
        """Send a piece of thinking."""
        _write({"type": "think", "text": text})

    def tool_call(self, tool_id: str, title: str) -> None:
        """Announce a tool call."""
        _write({"type": "tool", "id": tool_id, "title": title})

    def tool_result(self, tool_id: str, *, ok: bool) -> None:
        """Report its result."""
        _write({"type": "tool_result", "id": tool_id, "ok": ok})

    def update(self, update: dict[str, Any]) -> None:
        """Send an update of any shape."""
        _write({"type": "update", "update": update})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Nobody can answer: standard input is at its end."""
        del method, params
        return {}

    def raw(self, line: str) -> None:
        """Write a line as it is."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def run_headless(script: Script) -> int:
    """Read the prompt from standard input, answer it and exit."""
    performer = Performer(script, JsonLines(), threading.Event())
    try:
        if script.steps("start"):
            performer.perform(script.steps("start"))
    except Over:
        pass  # the start has no answer
    prompt = sys.stdin.read()
    try:
        performer.perform(script.next_prompt(prompt))
    except Over as over:
        if over.error is not None:
            _write({"type": "fail", **over.error})
            return 1
        result = over.result or {}
        _write({"type": "end", "stop_reason": result.get("stopReason"), "usage": result.get("usage")})
    return 0


class AcpAgent:
    """The ACP voice: a thread reads, the main thread performs."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._cancelled = threading.Event()
        self._requests = 0
        self._session_id = ""
        self._performer = Performer(script, self, self._cancelled)

    def run(self) -> int:
        """Answer requests until standard input is at its end."""
        self._moment("start")
        threading.Thread(target=self._read, daemon=True).start()
        while (message := self._inbox.get()) is not None:
            self._handle(message)
        return 0

    def _read(self) -> None:
        last = self._script.get("reads")
        for number, line in enumerate(sys.stdin, 1):
            message = json.loads(line)
            if message.get("method") == "session/cancel":
                self._script.log("cancel")
                self._cancelled.set()
            elif "method" in message:
                self._inbox.put(message)
            else:
                self._answers.put(message)
            if number == last:
                os.close(sys.stdin.fileno())
                return
        self._inbox.put(None)
        if not self._script.get("ignore_eof"):
            sys.stdout.flush()
            os._exit(0)

    def _handle(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        self._script.log("request", method=method, params={k: v for k, v in params.items() if k != "prompt"})
        if "id" not in message:
            return
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/prompt": self._prompt,
            "session/set_mode": self._set,
            "session/set_model": self._set,
            "session/set_config_option": self._set,
        }
        handler = answers.get(method)
        answer = handler(params) if handler else {"error": {"code": -32601, "message": "Method not found"}}
        _write({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _moment(self, moment: str) -> dict[str, Any] | None:
        """Perform the steps of ``moment``; the error it ends with, if it does."""
        steps = self._script.steps(moment)
        if steps:
            try:
                self._performer.perform(steps)
            except Over as over:
                if over.error is not None:
                    return {"error": over.error}
        return None

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        capabilities: dict[str, Any] = {"loadSession": bool(self._script.get("load_session", True))}
        if self._script.get("resume_session"):
            capabilities["sessionCapabilities"] = {"resume": {}}
        result = {
            "protocolVersion": self._script.get("protocol_version", 1),
            "agentCapabilities": capabilities,
            "authMethods": [],
            "agentInfo": {"name": "scripted", "version": "1"},
        }
        return self._moment("initialize") or {"result": result}

    def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        return self._moment("authenticate") or {"result": {}}

    def _set(self, params: dict[str, Any]) -> dict[str, Any]:
        result = {"configOptions": self._script.get("options", [])} if "configId" in params else {}
        return self._moment("set") or {"result": result}

    def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        del params
        self._session_id = f"scripted-{os.getpid()}"
        return self._moment("session") or {"result": {"sessionId": self._session_id, **self._choices()}}

    def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        self._session_id = params.get("sessionId", "")
        return self._moment("load") or {"result": self._choices()}

    def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        self._session_id = params.get("sessionId", "")
        return self._moment("resume") or {"result": self._choices()}

    def _choices(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if models := self._script.get("models", ["scripted-1"]):
            found["models"] = {
                "currentModelId": models[0],
                "availableModels": [{"modelId": m, "name": m} for m in models],
            }
        if modes := self._script.get("modes"):
            found["modes"] = {"currentModeId": modes[0], "availableModes": [{"id": m, "name": m} for m in modes]}
        if options := self._script.get("options"):
            found["configOptions"] = options
        return found

    def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        self._cancelled.clear()
        text = "".join(block.get("text", "") for block in params.get("prompt", []))
        steps = self._script.next_prompt(text, session=params.get("sessionId"))
        try:
            self._performer.perform(steps)
        except Over as over:
            return {"error": over.error} if over.error is not None else {"result": over.result or {}}
        return {"result": {"stopReason": "end_turn"}}

    # Voice --------------------------------------------------------------------------------------------------------------

    def say(self, text: str, message_id: str | None) -> None:
        """Send a piece of the answer."""
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.update({**chunk, "messageId": message_id} if message_id else chunk)

    def think(self, text: str) -> None:
        """Send a piece of thinking."""
        self.update({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}})

    def tool_call(self, tool_id: str, title: str) -> None:
        """Announce a tool call."""
        self.update({"sessionUpdate": "tool_call", "toolCallId": tool_id, "title": title, "status": "pending"})

    def tool_result(self, tool_id: str, *, ok: bool) -> None:
        """Report its result."""
        status = "completed" if ok else "failed"
        self.update({"sessionUpdate": "tool_call_update", "toolCallId": tool_id, "status": status})

    def update(self, update: dict[str, Any]) -> None:
        """Send an update of any shape."""
        params = {"sessionId": self._session_id, "update": update}
        _write({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the client and wait for its answer."""
        self._requests += 1
        request = {"jsonrpc": "2.0", "id": f"agent-{self._requests}", "method": method}
        _write({**request, "params": {"sessionId": self._session_id, **params}})
        return self._answers.get()

    def raw(self, line: str) -> None:
        """Write a line as it is."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
