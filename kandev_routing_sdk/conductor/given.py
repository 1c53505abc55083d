"""What somebody gives an agent to work with, looked at before anything happens for it: a prompt, and a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kandev_routing_sdk.errors import UsageError

MAX_PROMPT_BYTES: Final = 16 * 1024 * 1024


def check_prompt(text: str) -> None:
    """Raise :class:`~kandev_routing_sdk.errors.UsageError` for what is no prompt."""
    if not isinstance(text, str):
        raise UsageError(f"the prompt is of type {type(text).__name__}; give a str")
    if not text.strip():
        raise UsageError("the prompt is empty; give the agent something to do")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as half:
        raise UsageError(
            f"the prompt holds half a character (a lone surrogate, at {half.start}), which no agent can read; leave it out"
        ) from None
    if size > MAX_PROMPT_BYTES:
        raise UsageError(
            f"the prompt is larger than {MAX_PROMPT_BYTES} bytes; put the material into a file and name the file"
        )


def check_folder(folder: Path) -> None:
    """Raise :class:`~kandev_routing_sdk.errors.UsageError` for where no agent can work. Blocks."""
    problem = folder_problem(folder)
    if problem is not None:
        raise UsageError(f"the working directory {str(folder)!r} {problem}; name another, or make it usable")


def folder_problem(folder: Path) -> str | None:
    """Say why no agent can work in a folder; None: one can. Blocks."""
    try:
        str(folder.absolute()).encode()  # it is stored, and told to agents, as text
        if not folder.is_dir():
            return "is not a folder" if folder.exists() else "does not exist"
    except UnicodeEncodeError:
        return "has a name that is no text in UTF-8"
    except OSError as problem:
        return f"cannot be reached ({problem.strerror})"
    return None if os.access(folder, os.X_OK) else "may not be entered"
