"""A real repository to look at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kandev_routing_sdk.continuation import GitWorktree
from kandev_routing_sdk.events import EventKind, EventRecord
from kandev_routing_sdk.ports import ContinuationRequest
from kandev_routing_sdk.route.parts import ContinuationPart

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def no_events(kinds: Sequence[EventKind], limit: int) -> Sequence[EventRecord]:
    return []


def asis(text: str) -> str:
    return text


def request_of(cwd: object, **facts: object) -> ContinuationRequest:
    """A request of a session that works in ``cwd``."""
    known: dict[str, object] = {
        "session_id": "session:1",
        "cwd": cwd,
        "generation": 1,
        "profile_id": "fable",
        "prompt_number": 2,
        "request": "go on",
        "since": BEGAN,
        "clean": asis,
        "newest_events": no_events,
    }
    return ContinuationRequest(**{**known, **facts})  # type: ignore[arg-type]


@dataclass
class Repository:
    """A work tree, and what git does in it."""

    root: Path

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of whoever runs the tests."""
        home = self.root.parent / "home"
        home.mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", **WHO}

    def git(self, *arguments: str, day: int = 2) -> str:
        """Run git, on a day of the month in which the session began."""
        at = f"2026-03-{day:02}T12:00:00Z" if day > 0 else f"2026-02-{28 + day:02}T12:00:00Z"
        environ = {**self.environ, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environ, check=True, capture_output=True, text=True
        )
        return done.stdout

    def write(self, name: str, text: str | bytes = "a\n", *, written: int = 0) -> Path:
        """Write a file; ``written``: when, in seconds after some moment."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        if written:
            os.utime(path, (1_700_000_000 + written,) * 2)
        return path

    def commit(self, subject: str = "commit", *, day: int = 2) -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-qm", subject, day=day)

    def describe(self, **facts: object) -> ContinuationPart | None:
        """What the source says of it."""
        return GitWorktree(environ=self.environ).describe(request_of(**{"cwd": self.root, **facts}))

    def part(self, **facts: object) -> ContinuationPart:
        """The same where it says something."""
        part = self.describe(**facts)
        assert part is not None
        return part
