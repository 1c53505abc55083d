"""Asks git about a work tree, whoever wrote what is in it: nothing is written, and nothing that it configures is run (R-CON-3).

A repository may come from anybody, and its configuration may name commands: file system monitors, hooks, pagers, external diffs and
text converters, filters, signature checkers, transports. Each is switched off here, on the command line, which outweighs every
file. Submodules are not entered: they have configurations of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from kandev_routing_sdk.continuation import porcelain
from kandev_routing_sdk.continuation.budget import Budget
from kandev_routing_sdk.continuation.command import Said, run

_KEPT: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT", "TMPDIR")
"""The user's own configuration counts (what it ignores, whom it trusts); nothing else of the environment does."""
_FIXED: Final[Mapping[str, str]] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_SSH_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
}
_OFF: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "core.untrackedCache=keep",
    "core.sshCommand=false",
    "credential.helper=",
    "diff.external=",
    "diff.autoRefreshIndex=false",  # it would write the index
    "diff.ignoreSubmodules=dirty",
    "diff.mnemonicPrefix=false",
    "diff.noprefix=false",
    "diff.orderFile=/dev/null",
    "diff.relative=false",
    "diff.submodule=short",
    "diff.renames=true",
    "color.ui=false",
    "gpg.program=false",
    "log.showSignature=false",
    "log.follow=false",
    "log.mailmap=false",
    "protocol.allow=never",
    "status.submoduleSummary=false",
    "status.relativePaths=false",
    "submodule.recurse=false",
)
_CONFIG_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Git:
    """git, for one work tree and a bounded time."""

    executable: str
    root: Path
    budget: Budget
    environ: Mapping[str, str] = field(repr=False)
    off: tuple[str, ...] = ()
    """The filters that the configuration names."""

    @classmethod
    def find(cls, folder: Path, environ: Mapping[str, str], budget: Budget) -> Self | None:
        """Return git for the work tree that ``folder`` is in; None where there is none, or no git."""
        executable = shutil.which("git", path=environ.get("PATH"))
        root = _work_tree(folder)
        if executable is None or root is None:
            return None
        ceiling = {"GIT_CEILING_DIRECTORIES": str(root.parent)}
        kept = {name: environ[name] for name in _KEPT if name in environ}
        git = cls(executable, root, budget, {**kept, **_FIXED, **ceiling})
        listed = git("config", "--list", "--name-only", "-z", most=_CONFIG_BYTES)
        if not listed.whole:
            return None  # what may be run is not known
        names = porcelain.drivers(listed.output)
        if any("=" in name or "\n" in name for name in names):
            return None  # cannot be switched off by name
        git = cls(executable, root, budget, git.environ, tuple(o for name in names for o in _no_filter(name)))
        # a configuration may call any folder the work tree of this repository
        top = git("rev-parse", "--show-toplevel", most=_CONFIG_BYTES)
        where = os.fsdecode(top.output).removesuffix("\n")
        return git if top.ok and where and Path(where).exists() and root.samefile(where) else None

    def __call__(self, command: str, *arguments: str, most: int) -> Said:
        """Run a git command in the work tree, for so many bytes at most."""
        options = [part for value in (*_OFF, *self.off) for part in ("-c", value)]
        argv = [self.executable, "--no-pager", "--literal-pathspecs", *options, command, *arguments]
        return run(argv, cwd=self.root, environ=self.environ, most=most, budget=self.budget)

    def diff(self, *arguments: str, against: str, most: int) -> Said:
        """Run ``git diff`` of the work tree against a commit, with nothing that could run something."""
        safe = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--find-renames")
        return self("diff", *safe, *arguments, against, "--", most=most)

    def empty_tree(self) -> str | None:
        """Return the name of the tree without files, of the repository's own kind of hash."""
        said = self("hash-object", "-t", "tree", "--stdin", most=1024)
        return said.output.decode("ascii", "replace").strip() if said.ok else None

    def under_way(self) -> str | None:
        """Return what was begun in the work tree and not ended: a rebase, a merge."""
        said = self("rev-parse", "--absolute-git-dir", most=_CONFIG_BYTES)
        folder = Path(os.fsdecode(said.output).removesuffix("\n")) if said.ok else None
        return next((what for name, what in _BEGUN if folder is not None and (folder / name).exists()), None)


_BEGUN: Final = (
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply", "a rebase is in progress"),
    ("MERGE_HEAD", "a merge is in progress"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
    ("BISECT_LOG", "a bisection is in progress"),
)


def _work_tree(folder: Path) -> Path | None:
    """The nearest folder with a ``.git``, which is what git finds, too."""
    try:
        here = folder.resolve(strict=True)
        return next((parent for parent in (here, *here.parents) if (parent / ".git").exists()), None)
    except OSError:
        return None


def _no_filter(name: str) -> Sequence[str]:
    return [f"filter.{name}.{part}=" for part in ("clean", "smudge", "process")] + [f"filter.{name}.required=false"]
