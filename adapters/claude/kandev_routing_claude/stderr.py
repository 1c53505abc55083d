"""Which lines of claude-agent-acp's log are evidence.

It logs with the same words what its runtime did and, now and then, what the user, the model or a command said. Content is no
evidence (R-EVI-6), so once a prompt is under way only sentences are kept that it forms itself around a process's end.
"""

from __future__ import annotations

import re
from typing import Final

_NOISE: Final = re.compile(
    r"\[[a-z][\w-]*(?:/[\w-]+)?\] "  # [session/create] sessionId=… phase=…, [idle-compaction] …, [authStatus] …
    r"|\s+at "  # a stack
    r"|Session [\w-]+: (?!Claude Agent process died)"  # a title that was not made, a message that was not dropped
    r"|Failed to cancel prompt\b"
    r"|claude auth status failed\b"  # a probe of its own; where it matters, the session is refused as well
    r"|\(Use `node --trace|\(node:\d+\) "
)
_DEATH: Final = re.compile(
    r"Session [\w-]+: Claude Agent process died: (?:Claude Code process (?:exited with code \d+|terminated by signal \w+))\s*$"
    r"|(?:<--- Last few GCs --->|FATAL ERROR: [\w:. -]*heap[\w :.-]*$)"
)


def worth_keeping(line: str, *, before_prompt: bool) -> bool:
    """Whether a line tells of a failure: nearly any before there is a prompt that it could quote, then only of an end."""
    if not line.strip() or _NOISE.match(line):
        return False
    return before_prompt or _DEATH.match(line) is not None
