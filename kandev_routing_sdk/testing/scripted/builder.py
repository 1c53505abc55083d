"""Writes scripts in Python: ``script(path).prompt(ScriptBuilder().say("hi")).prompt(ScriptBuilder().fail_overloaded())``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from kandev_routing_sdk.testing.scripted import bodies

Json = dict[str, Any]


class ScriptBuilder:
    """The steps of one moment (an answer to a prompt, the start, …), in order."""

    def __init__(self) -> None:
        self.steps: list[Json] = []

    def do(self, action: str, **facts: Any) -> Self:  # noqa: ANN401  # a script holds any JSON
        """Add a step by its name in the script file."""
        self.steps.append({"do": action, **{k: v for k, v in facts.items() if v is not None}})
        return self

    # What a good agent does ---------------------------------------------------------------------------------------------

    def say(self, text: str, *, message_id: str | None = None) -> Self:
        """A piece of the answer."""
        return self.do("say", text=text, message_id=message_id)

    def think(self, text: str) -> Self:
        """A piece of thinking."""
        return self.do("think", text=text)

    def tool(
        self, title: str = "Append a line", *, line: str | None = None, ask: bool = False, effect: bool = True
    ) -> Self:
        """Call a tool that really appends ``line`` to the effects file (unless told not to); ``ask`` for permission first."""
        return self.do("tool", title=title, line=line, ask=ask, effect=effect)

    def usage(self, input_tokens: int, output_tokens: int) -> Self:
        """Report tokens at the end."""
        return self.do("usage", input_tokens=input_tokens, output_tokens=output_tokens)

    def stop(self, reason: str) -> Self:
        """End the turn with this stop reason (the end of the steps is ``end_turn``)."""
        return self.do("stop", reason=reason)

    def sleep(self, seconds: float, *, deaf: bool = False) -> Self:
        """Wait; a cancel ends the turn, unless the agent is ``deaf`` to it."""
        return self.do("sleep", seconds=seconds, deaf=deaf)

    def update(self, update: Json, *, times: int = 1) -> Self:
        """Send a session update of any shape."""
        return self.do("update", update=update, times=times)

    # How it fails -------------------------------------------------------------------------------------------------------

    def fail(self, failure: bodies.Failure) -> Self:
        """End with this error; see :mod:`kandev_routing_sdk.testing.scripted.bodies`."""
        return self.do("fail", **failure)

    def fail_with(self, code: int, message: str, data: object = None) -> Self:
        """End with a JSON-RPC error."""
        return self.do("fail", code=code, message=message, data=data)

    def fail_overloaded(self) -> Self:
        """HTTP 529."""
        return self.fail(bodies.overloaded())

    def fail_unavailable(self) -> Self:
        """HTTP 503."""
        return self.fail(bodies.unavailable())

    def fail_rate_limited(self, retry_after_s: int | None = None) -> Self:
        """HTTP 429, a short throttle."""
        return self.fail(bodies.rate_limited(retry_after_s))

    def fail_quota(self, resets_in_s: int | None = None) -> Self:
        """HTTP 429, the plan's allowance is used up."""
        return self.fail(bodies.quota_limited(resets_in_s))

    def fail_billing(self) -> Self:
        """No credit."""
        return self.fail(bodies.billing())

    def fail_auth(self) -> Self:
        """HTTP 401."""
        return self.fail(bodies.unauthorised())

    def fail_model(self) -> Self:
        """HTTP 404, no such model."""
        return self.fail(bodies.model_missing())

    def fail_network(self) -> Self:
        """Connection refused."""
        return self.fail(bodies.network())

    def fail_context(self) -> Self:
        """The prompt is too long."""
        return self.fail(bodies.context_too_long())

    def fail_puzzling(self) -> Self:
        """An error that no rule knows."""
        return self.fail(bodies.puzzling())

    def exit(self, code: int) -> Self:
        """Exit in mid-turn."""
        return self.do("exit", code=code)

    def die(self, signal: str = "SIGKILL") -> Self:
        """Be killed in mid-turn."""
        return self.do("die", signal=signal)

    # How it misbehaves --------------------------------------------------------------------------------------------------

    def hang(self, *, deaf: bool = False) -> Self:
        """Never answer; ``deaf``: not even to a cancel."""
        return self.do("hang", deaf=deaf)

    def ignore_signals(self, *names: str) -> Self:
        """Ignore SIGTERM and SIGINT, or those named."""
        return self.do("ignore_signals", signals=list(names) or None)

    def garbage(self, line: str = "this is not a message", *, times: int = 1) -> Self:
        """Write lines that are no messages."""
        return self.do("garbage", line=line, times=times)

    def long_line(self, size: int = 10_000_000) -> Self:
        """Write one line of ``size`` bytes."""
        return self.do("long_line", bytes=size)

    def raw_bytes(self, data: bytes) -> Self:
        """Write a line of any bytes to standard output."""
        return self.do("raw_bytes", hex=data.hex())

    def close_stdout(self) -> Self:
        """Close standard output, and live on."""
        return self.do("close_stdout")

    def stderr(self, text: str, *, times: int = 1) -> Self:
        """Write lines to standard error; ``{n}`` is the line's number."""
        return self.do("stderr", text=text, times=times)

    def leak(self, name: str) -> Self:
        """Print the value of an environment variable on standard error and in an update."""
        return self.do("leak", name=name)

    def child(self, *, keep_pipes: bool = False, own_session: bool = False, clean_env: bool = False) -> Self:
        """Leave a child behind that ignores SIGTERM.

        ``keep_pipes``: it holds this process's pipes open; ``own_session``: as tools of real agents do; ``clean_env``: it inherits
        no environment.
        """
        return self.do("child", keep_pipes=keep_pipes, own_session=own_session, clean_env=clean_env)

    def request(self, method: str, params: Json | None = None) -> Self:
        """Ask the client something and log its answer."""
        return self.do("request", method=method, params=params)


class ScriptFile:
    """A whole script: what is done at each moment, and what the agent offers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data: Json = {"prompts": []}

    def prompt(self, answer: ScriptBuilder) -> Self:
        """Add the answer to the next prompt; the last one answers every further prompt."""
        self._data["prompts"].append(answer.steps)
        return self

    def at(self, moment: str, steps: ScriptBuilder) -> Self:
        """Do ``steps`` at a moment: ``start`` (before anything is read), ``initialize``, ``authenticate``, ``session``, ``load``,
        ``resume``, ``set``.
        """
        self._data[moment] = steps.steps
        return self

    def set(self, **settings: Any) -> Self:  # noqa: ANN401
        """Set ``models``, ``modes``, ``options``, ``load_session``, ``resume_session``, ``ignore_eof``, ``protocol_version``,
        ``log``, ``effects``.

        ``reads``: how many messages it reads before it closes its standard input, and lives on.
        """
        self._data.update(settings)
        return self

    def write(self) -> Path:
        """Write the file and return its path."""
        self.path.write_text(json.dumps(self._data), "utf-8")
        return self.path


def script(path: Path, *answers: ScriptBuilder) -> ScriptFile:
    """Return a script file with these answers to the first prompts; call :meth:`ScriptFile.write` when it is complete."""
    file = ScriptFile(path)
    for answer in answers:
        file.prompt(answer)
    return file
