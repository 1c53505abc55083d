"""What git prints for programs, as values: statuses, counts, commits. Pure; whatever comes, these never raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_NOT_BORN: Final = "(initial)"
_DIGITS: Final = 19
_ORDINARY, _RENAMED, _UNMERGED = 8, 9, 10
"""How many words stand before the path, and the path itself."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a status."""

    code: str
    """Index and work tree, as git writes them: ``M.``, ``.M``, ``A.``, ``UU``, ``??``."""
    path: str
    before: str | None = None
    """Where a renamed or copied one was."""

    def __str__(self) -> str:
        moved = f"{shown(self.before)} -> " if self.before is not None else ""
        return f"{self.code.replace('.', ' ')} {moved}{shown(self.path)}"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a work tree."""

    commit: str | None
    """What is checked out; None before the first commit."""
    branch: str | None
    """None when detached."""
    entries: tuple[Entry, ...]

    @property
    def untracked(self) -> tuple[str, ...]:
        """What git does not know yet."""
        return tuple(entry.path for entry in self.entries if entry.code == "??")


@dataclass(frozen=True, slots=True)
class Count:
    """What changed in one file. A binary one has no lines."""

    path: str
    added: int | None
    removed: int | None
    before: str | None = None

    def __str__(self) -> str:
        moved = f"{shown(self.before)} -> " if self.before is not None else ""
        what = "binary" if self.added is None else f"+{self.added} -{self.removed}"
        return f"{moved}{shown(self.path)} | {what}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    short: str
    subject: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.short} {shown(self.subject)}"


def status(raw: bytes) -> Status:
    """Read ``git status --porcelain=v2 --branch -z``."""
    commit = branch = None
    entries: list[Entry] = []
    words = iter(_words(raw))
    for word in words:
        if word.startswith("# branch.oid "):
            commit = word.removeprefix("# branch.oid ")
        elif word.startswith("# branch.head "):
            branch = word.removeprefix("# branch.head ")
        elif word.startswith("? "):
            entries.append(Entry("??", word[2:]))
        elif (entry := _tracked(word, next(words, "") if word.startswith("2 ") else None)) is not None:
            entries.append(entry)
    return Status(
        commit=None if commit in {None, _NOT_BORN} else commit,
        branch=None if branch in {None, "(detached)"} else branch,
        entries=tuple(entries),
    )


def _tracked(word: str, before: str | None) -> Entry | None:
    size = {"1": _ORDINARY, "2": _RENAMED, "u": _UNMERGED}.get(word[:1])
    parts = word.split(" ", size) if size is not None else []
    return Entry(parts[1], parts[-1], before) if size is not None and len(parts) == size + 1 else None


def counts(raw: bytes) -> list[Count]:
    """Read ``git diff --numstat -z``."""
    found: list[Count] = []
    words = iter(_words(raw))
    for word in words:
        added, _, rest = word.partition("\t")
        removed, tab, path = rest.partition("\t")
        if not tab:
            continue
        before = None
        if not path:  # a rename: both names follow
            before, path = next(words, ""), next(words, "")
        found.append(Count(path, _number(added), _number(removed), before))
    return found


def commits(raw: bytes) -> list[Commit]:
    """Read ``git log -z --name-only --format=%x01%h%x02%s``, which separates with NUL and names files after their commit."""
    found: list[Commit] = []
    for part in raw.decode("utf-8", "replace").split("\x01")[1:]:
        head, _, names = part.partition("\0")
        short, _, subject = head.partition("\x02")
        files = tuple(name.removeprefix("\n") for name in names.split("\0") if name.strip("\n"))
        found.append(Commit(short, subject, files))
    return found


def pieces(raw: bytes) -> list[str]:
    """Split ``git diff`` into one text per file: no line of a file begins as a header does."""
    found: list[list[str]] = []
    for line in raw.decode("utf-8", "replace").split("\n"):
        if line.startswith("diff --git "):
            found.append([])
        if found:
            found[-1].append(line)
    return ["\n".join(lines).rstrip("\n") for lines in found]


def drivers(raw: bytes) -> list[str]:
    """Return the filter drivers that ``git config --list --name-only -z`` names: each may run a command."""
    names = (word for word in _words(raw) if word.lower().startswith("filter."))
    return sorted({name.partition(".")[2].rpartition(".")[0] for name in names} - {""})


def shown(text: str) -> str:
    """Return a name on one line: what a file may be called must not look like anything else."""
    return text if text.isprintable() and text == text.strip() else repr(text)


def listed(things: Sequence[object], most: int) -> list[str]:
    """Return the first ones as lines, and how many there are besides."""
    lines = [str(thing) for thing in things[:most]]
    return lines if len(things) <= most else [*lines, f"and {len(things) - most} more"]


def _words(raw: bytes) -> list[str]:
    return raw.decode("utf-8", "surrogateescape").split("\0")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None
