"""The git work tree as a source: what changed in it, and what was committed since the session began (R-CON-3)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Final

from kandev_routing_sdk.continuation import porcelain
from kandev_routing_sdk.continuation.budget import Budget
from kandev_routing_sdk.continuation.git import Git
from kandev_routing_sdk.continuation.shorten import beginning
from kandev_routing_sdk.ports import ContinuationRequest
from kandev_routing_sdk.route.continuation import FIELD_BYTES, Cleaner
from kandev_routing_sdk.route.parts import ContinuationPart

_LIST_BYTES: Final = 1 << 20
"""Of a list of paths. What is longer is a part of it, and said to be."""
_DIFF_BYTES: Final = 256 * 1024
_SHOWN_BYTES: Final = 2048
"""So much of one file's changes is shown."""
_PATHS: Final = 40
_COMMITS: Final = 10
_COMMIT_FILES: Final = 8
_SMALL_BYTES: Final = 2048
"""A new file up to this size is shown."""
_PRIVATE: Final = re.compile(
    r"(^|/)(\.env|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.htpasswd|id_[a-z0-9]+$|auth\.json$)"
    r"|\.(pem|key|p12|pfx|jks|kdbx|keystore|gpg|asc)$|secret|credential|token|passw",
    re.IGNORECASE,
)
"""Files whose changes are named and never shown."""


@dataclass(frozen=True, slots=True)
class GitWorktree:
    """What git says of the folder that the session works in. Says nothing without git, or where there is no repository.

    It reads only, and nothing that the repository configures is run; see :mod:`kandev_routing_sdk.continuation.git`. What git has
    not said within ``limit_s`` seconds is left out. ``environ``: where ``PATH`` and ``HOME`` are; default: the process's.
    """

    limit_s: float = 5.0
    environ: Mapping[str, str] | None = None
    name: str = "git work tree"

    def describe(self, request: ContinuationRequest) -> ContinuationPart | None:
        """Look at the work tree; see :class:`~kandev_routing_sdk.ports.ContinuationSource`."""
        environ = os.environ if self.environ is None else self.environ
        git = Git.find(request.cwd, environ, Budget(self.limit_s))
        if git is None:
            return None
        said = git(
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
            most=_LIST_BYTES,
        )
        if not said.output:
            return ContinuationPart(repository_status="git did not say in time what changed: look for yourself")
        status = porcelain.status(_whole_words(said.output, whole=said.whole))
        look = _Look(git, status, request.clean, frozenset(entry.path for entry in status.entries))
        lines = [
            _head(git, status),
            *_changed(status),
            *([] if said.whole else ["and more, which was not read in time"]),
        ]
        if status.commit is not None:
            lines += _commits(git, request)
        return ContinuationPart(repository_status="\n".join(lines), diff_summary="\n".join(look.changes()))


def _head(git: Git, status: porcelain.Status) -> str:
    if status.commit is None:
        where = "No commit yet"
    else:
        at = status.commit[:12]
        where = f"On branch {porcelain.shown(status.branch)} at {at}" if status.branch else f"No branch, at {at}"
    begun = git.under_way()
    return f"{where}; {begun}" if begun else where


def _changed(status: porcelain.Status) -> list[str]:
    if not status.entries:
        return ["Nothing is changed that is not committed"]
    return ["Not committed:", *(f"  {line}" for line in porcelain.listed(status.entries, _PATHS))]


def _commits(git: Git, request: ContinuationRequest) -> Iterator[str]:
    since = request.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = git(
        "log", "-z", "--name-only", "--no-show-signature", "--no-color", "--no-ext-diff", "--no-textconv", "--encoding=UTF-8",
        f"--max-count={_COMMITS + 1}", f"--since={since}", "--format=%x01%h%x02%s", "HEAD", "--", most=_LIST_BYTES,
    )  # fmt: skip
    found = porcelain.commits(said.output)
    if not found:
        return
    yield "Committed since the session began, newest first:"
    for commit in found[:_COMMITS]:
        yield f"  {commit}"
        names = [porcelain.shown(name) for name in commit.files]
        yield from (f"    {line}" for line in porcelain.listed(names, _COMMIT_FILES))
    if len(found) > _COMMITS:
        yield "  and earlier ones"


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at the changes that are not committed."""

    git: Git
    status: porcelain.Status
    clean: Cleaner
    changed: frozenset[str]

    def changes(self) -> Iterator[str]:
        """What changed in each file, in short; then the changes themselves, of the file that was written last first."""
        against = self.status.commit or self.git.empty_tree()
        counts: Sequence[porcelain.Count] = ()
        if against is not None:
            said = self.git.diff("--numstat", "-z", against=against, most=_LIST_BYTES)
            counts = porcelain.counts(_whole_words(said.output, whole=said.whole))
        yield from porcelain.listed([count for count in counts if self._differs(count)], _PATHS)
        new = self.status.untracked
        yield from porcelain.listed([f"{porcelain.shown(path)} | new, not added" for path in new], _PATHS)
        shown: list[tuple[float, Callable[[], str | None]]] = [(self._written(p), self._new(p)) for p in new]
        if against is not None and counts:
            shown += self._pieces(against, counts)
        room = FIELD_BYTES["diff_summary"]
        for _, text in sorted(shown, key=lambda one: -one[0]):
            if room <= 0:
                return
            if (piece := text()) is not None:
                room -= len(piece.encode("utf-8", "replace"))
                yield ""
                yield piece

    def _pieces(
        self, against: str, counts: Sequence[porcelain.Count]
    ) -> Iterator[tuple[float, Callable[[], str | None]]]:
        said = self.git.diff("--unified=2", against=against, most=_DIFF_BYTES)
        pieces = porcelain.pieces(said.output)
        if not said.whole:
            pieces = pieces[:-1]  # cut in its middle
        elif len(pieces) != len(counts):
            return  # somebody is at work there: which is which is not known
        for count, piece in zip(counts, pieces, strict=False):
            if (
                count.added is not None
                and self._differs(count)
                and not _PRIVATE.search(f"{count.path}\n{count.before or ''}")
            ):
                yield self._written(count.path), lambda piece=piece: beginning(piece, _SHOWN_BYTES, self.clean)  # type: ignore[misc]

    def _differs(self, count: porcelain.Count) -> bool:
        """A file that was only touched counts for a diff that does not refresh the index; the status knows better."""
        return count.path in self.changed

    def _new(self, path: str) -> Callable[[], str | None]:
        def text() -> str | None:
            content = None if _PRIVATE.search(path) else _small_text(self.git.root / path)
            if content is None:
                return None
            lines = "\n".join(f"+{line}" for line in content.splitlines())
            return beginning(f"new file {porcelain.shown(path)}\n{lines}", _SHOWN_BYTES, self.clean)

        return text

    def _written(self, path: str) -> float:
        try:
            return (self.git.root / path).lstat().st_mtime
        except OSError:  # removed
            return 0.0
        except ValueError:
            return 0.0


def _small_text(path: Path) -> str | None:
    """The text of a small regular file; nothing else is opened, and no link followed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _SMALL_BYTES:
            return None
        raw = file.read(_SMALL_BYTES + 1)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or len(raw) > _SMALL_BYTES else text


def _whole_words(raw: bytes, *, whole: bool) -> bytes:
    """Without the word in whose middle reading stopped."""
    return raw if whole else raw[: raw.rfind(b"\0") + 1]
