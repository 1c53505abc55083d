"""A scripted headless agent that the shell plays: a script in Python starts thirty times slower, and a campaign starts thousands.

It says what :class:`~kandev_routing_sdk.testing.ScriptedAgent` would say, and keeps the same log, shorter: each prompt with its
number, time and process, each probe, each child it left.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kandev_routing_sdk.testing import ScriptBuilder

# The number of a prompt is counted before it is written: nobody asks one agent twice at once who asks for different answers.
_HEAD = """#!/bin/sh
note() {{ echo "{{\\"event\\": \\"$1\\", \\"time\\": $(date +%s.%N), \\"pid\\": $$$2}}" >>{log}; }}
case "$*" in *--probe*) note probe; {probe} exit 0 ;; esac
cat >/dev/null
number=1
if [ -e {log} ]; then
    while read -r line; do case "$line" in *'"prompt"'*) number=$((number + 1)) ;; esac; done <{log}
fi
note prompt ", \\"number\\": $number"
"""


class ShellAgent:
    """``ShellAgent(tmp_path / "fable", answers().say("hi"))``: makes the folder and the script."""

    def __init__(self, folder: Path, *answers: ScriptBuilder, probe: Mapping[str, Any] | None = None) -> None:
        folder.mkdir(parents=True)
        prompts = [answer.steps for answer in answers]
        # what a prompt was answered with, for whoever reads the log
        (folder / "script.json").write_text(json.dumps({"prompts": prompts}), "utf-8")
        log = shlex.quote(str(folder / "log.jsonl"))
        asked = "" if probe is None else f"{_print({'type': 'fail', **probe['fail']})};"
        lines = [_HEAD.format(log=log, probe=asked), 'case "$number" in']
        for number, steps in enumerate(prompts, 1):
            lines += [f"{number if number < len(prompts) else '*'})", *_played(steps, folder / "effects.txt"), ";;"]
        self._path = folder / "agent.sh"
        self._path.write_text(
            "\n".join([*lines, "esac", _print({"type": "end", "stop_reason": "end_turn"}), ""]), "utf-8"
        )

    def profile(self, **fields: Any) -> dict[str, Any]:
        """A profile's table."""
        command = ["/bin/sh", str(self._path)]
        return {"family": "scripted", "name": self._path.parent.name, "command": command, **fields}


def _print(event: Mapping[str, Any]) -> str:
    return f"printf '%s\\n' {shlex.quote(json.dumps(event))}"


def _played(steps: Sequence[Mapping[str, Any]], effects: Path) -> Iterator[str]:
    for step in steps:
        match step["do"]:
            case "say" | "think":
                yield _print({"type": step["do"], "text": step["text"]})
            case "tool":
                yield _print({"type": "tool", "id": "call_1", "title": step["title"]})
                yield f"echo {shlex.quote(step['line'])} >>{shlex.quote(str(effects))}"
                yield _print({"type": "tool_result", "id": "call_1", "ok": True})
            case "sleep":
                yield f"sleep {step['seconds']}"
            case "hang":
                yield "sleep 3600"
            case "child":
                yield f"(trap '' TERM; exec setsid sleep {step['seconds']}) </dev/null >/dev/null 2>&1 &"
                yield 'note child ", \\"child\\": $!"'
            case "fail":
                yield _print({"type": "fail", **{k: v for k, v in step.items() if k != "do"}})
                yield "exit 1"
            case other:
                raise ValueError(other)
