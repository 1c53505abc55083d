"""The git work tree as a source of the continuation (R-CON-3), asked of real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.continuation import GitWorktree
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.process.group import live_members
from kandev_routing_sdk.route.continuation import NOTE_BYTES, ContinuationPackage, render_note
from kandev_routing_sdk.route.parts import ContinuationPart
from tests.continuation._repository import Repository, request_of

CANARY = "zanzibar-marmalade-77"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "work"
    root.mkdir()
    repository = Repository(root)
    repository.git("init", "-q", "-b", "main")
    return repository


@pytest.fixture
def old(repository: Repository) -> Repository:
    """One commit, from before the session."""
    repository.write("old.py", "one\ntwo\nthree\n")
    repository.commit("before", day=0)
    return repository


# --- what it says ---


def test_the_branch_the_changes_and_the_commits_of_the_session(old: Repository) -> None:
    old.write("new.py", "print(1)\n")
    old.commit("Add new", day=3)
    old.write("old.py", "one\n2\nthree\n")
    old.write("staged.py")
    old.git("add", "staged.py")
    old.write("sub/untracked.py", "u = 1\n")

    part = old.part()

    head = old.git("rev-parse", "HEAD").strip()
    short = old.git("rev-parse", "--short", "HEAD").strip()
    assert [
        f"On branch main at {head[:12]}",
        "Not committed:",
        "   M old.py",
        "  A  staged.py",
        "  ?? sub/untracked.py",
        "Committed since the session began, newest first:",
        f"  {short} Add new",
        "    new.py",
    ] == part.repository_status.splitlines()
    assert [
        "old.py | +1 -1",
        "staged.py | +1 -0",
        "sub/untracked.py | new, not added",
    ] == part.diff_summary.splitlines()[:3]
    assert "-two\n+2" in part.diff_summary
    assert "new file sub/untracked.py\n+u = 1" in part.diff_summary


def test_what_was_written_last_comes_first(old: Repository) -> None:
    """R-CON-3: the newest content is kept, and of a diff that is too long the beginning is."""
    old.write("old.py", "one\nOLD\nthree\n", written=1)
    old.write("a_newer.py", "newer\n", written=3)
    old.git("add", "a_newer.py")
    old.write("z_between.py", "between\n", written=2)
    text = old.part().diff_summary
    assert sorted([text.index("+newer"), text.index("+between"), text.index("+OLD")]) == [
        text.index("+newer"),
        text.index("+between"),
        text.index("+OLD"),
    ]


def test_nothing_changed_is_said(old: Repository) -> None:
    part = old.part()
    assert "Nothing is changed that is not committed" == part.repository_status.splitlines()[1]
    assert "" == part.diff_summary


def test_before_the_first_commit(repository: Repository) -> None:
    repository.write("staged.py", "x = 1\n")
    repository.git("add", "staged.py")
    part = repository.part()
    assert ["No commit yet", "Not committed:", "  A  staged.py"] == part.repository_status.splitlines()
    assert "staged.py | +1 -0" in part.diff_summary
    assert "+x = 1" in part.diff_summary


def test_no_branch_and_a_rebase_in_progress(old: Repository) -> None:
    old.git("checkout", "-qb", "side")
    old.write("old.py", "side\n")
    old.commit("side")
    old.git("checkout", "-q", "main")
    old.write("old.py", "main\n")
    old.commit("main")
    with pytest.raises(subprocess.CalledProcessError):
        old.git("rebase", "side")
    lines = old.part().repository_status.splitlines()
    assert lines[0].startswith("No branch, at ")
    assert lines[0].endswith("; a rebase is in progress")
    assert "  UU old.py" in lines


@pytest.mark.parametrize(
    "name",
    [
        "with space.py",
        "tab\t.py",
        "new\nline.py",
        'quo"te.py',
        "\N{SNOWMAN}.py",
        "-dash.py",
        " lead.py",
        "a -> b.py",
        "x\x1b[2J.py",
    ],
)
def test_odd_names_come_through_on_one_line(old: Repository, name: str) -> None:
    old.write(name, "odd\n")
    old.write(f"tracked {name}".replace("/", ""), "t\n")
    old.git("add", "--", f"tracked {name}")
    old.write("old.py", "one\ntwo\n")
    part = old.part()
    lines = [*part.repository_status.splitlines(), *part.diff_summary.splitlines()]
    shown = name if name.isprintable() and name == name.strip() else repr(name)
    tracked = f"tracked {name}"
    shown_tracked = tracked if tracked.isprintable() and tracked == tracked.strip() else repr(tracked)
    assert f"  ?? {shown}" in lines
    assert f"  A  {shown_tracked}" in lines
    assert f"{shown_tracked} | +1 -0" in lines
    assert f"{shown} | new, not added" in lines


def test_a_name_that_is_no_text(old: Repository) -> None:
    os.close(os.open(os.fsencode(old.root) + b"/b\xff.py", os.O_CREAT | os.O_WRONLY))
    assert "  ?? 'b\\udcff.py'" in old.part().repository_status.splitlines()


def test_a_rename(old: Repository) -> None:
    old.git("mv", "old.py", "moved to.py")
    part = old.part()
    assert "  R  old.py -> moved to.py" in part.repository_status.splitlines()
    assert "old.py -> moved to.py | +0 -0" == part.diff_summary.splitlines()[0]


def test_binary_private_and_large_files_are_only_named(old: Repository) -> None:
    old.write("image.bin", b"\0\1\2" * 100)
    old.write(".env", "TOKEN=hunter2\n")
    old.write("deploy.pem", "hunter2\n")
    old.write("large.txt", "hunter2\n" * 1000)
    old.write("latin.txt", b"hunter2 \xe9\n")
    (old.root / "link").symlink_to("/etc/hostname")
    os.mkfifo(old.root / "pipe")
    old.write("added.bin", b"\0\1\2" * 100)
    old.write("config/credentials.json", "hunter2\n")
    old.git("add", "added.bin", "config/credentials.json")
    part = old.part()
    for name in ("image.bin", ".env", "deploy.pem", "large.txt", "latin.txt", "link"):
        assert f"{name} | new, not added" in part.diff_summary.splitlines()
    assert {"added.bin | binary", "config/credentials.json | +1 -0"} <= set(part.diff_summary.splitlines())
    assert "hunter2" not in part.diff_summary
    assert Path("/etc/hostname").read_text().strip() not in part.diff_summary


def test_a_submodule_is_named_and_not_entered(old: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.root.mkdir()
    other.git("init", "-q")
    other.write("inner.py")
    other.commit("inner")
    old.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "sub")
    old.commit("With sub")
    old.write("sub/inner.py", "changed\n")
    part = old.part()
    assert "Nothing is changed that is not committed" in part.repository_status
    old.write("sub/more.py")
    Repository(old.root / "sub").commit("more")
    assert "   M sub" in old.part().repository_status.splitlines()


def test_much_is_bounded_and_counted(old: Repository) -> None:
    for n in range(60):
        old.write(f"many/{n:03}.txt", f"{n}\n" * 20)
    old.git("add", "many")
    part = old.part()
    assert "  and 20 more" in part.repository_status.splitlines()
    assert "and 20 more" in part.diff_summary.splitlines()
    assert len(part.diff_summary.encode()) < 16 * 1024


# --- where it says nothing ---


def test_no_repository(tmp_path: Path) -> None:
    assert None is GitWorktree().describe(request_of(tmp_path))
    assert None is GitWorktree().describe(request_of(tmp_path / "missing"))
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    assert None is GitWorktree().describe(request_of(tmp_path))


def test_no_git(old: Repository) -> None:
    assert None is GitWorktree(environ={"PATH": "/nonexistent"}).describe(request_of(old.root))


def test_a_subfolder_is_a_part_of_its_repository(old: Repository) -> None:
    old.write("deep/down/x.py")
    assert "  ?? deep/down/x.py" in old.part(cwd=old.root / "deep" / "down").repository_status.splitlines()


def slow_git(folder: Path, command: str) -> dict[str, str]:
    """An environment in which one command of git takes for ever."""
    folder.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    script = folder / "git"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in *" {command} "*) echo $$ >> {folder}/pids; sleep 600;; esac\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


@pytest.mark.parametrize(
    ("command", "said"), [("config", None), ("status", "git did not say in time"), ("diff", "On branch")]
)
def test_what_takes_too_long_is_ended_and_left_out(
    old: Repository, tmp_path: Path, command: str, said: str | None
) -> None:
    """R-CON-11: and nothing of it stays."""
    old.write("old.py", "changed\n")
    environ = slow_git(tmp_path / "slow", command)
    part = GitWorktree(limit_s=0.7, environ=environ).describe(request_of(old.root))
    assert (part is None) if said is None else (part is not None and said in part.repository_status)
    for pid in (tmp_path / "slow" / "pids").read_text().split():
        assert [] == live_members(int(pid))


# --- a repository that nobody should trust ---


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}


def test_looking_writes_nothing(old: Repository) -> None:
    old.write("old.py", "one\ntwo\nthree\n", written=5)  # what makes git refresh its index
    old.write("more.py")
    before = contents(old.root)
    part = old.part()
    assert ["?? more.py"] == [line.strip() for line in part.repository_status.splitlines()[2:]]
    assert "old.py" not in part.diff_summary, "it was only touched"
    assert before == contents(old.root)


def test_nothing_that_a_repository_configures_is_run(old: Repository, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/caught\ncat\n')
    trap.chmod(0o755)
    for key in (
        "core.fsmonitor", "core.pager", "pager.status", "pager.diff", "pager.log", "diff.external", "diff.bad.command",
        "diff.bad.textconv", "filter.bad.clean", "filter.bad.process", "filter.a b.clean", "gpg.program", "core.sshCommand",
        "core.editor", "alias.status", "core.askPass", "credential.helper", "remote.origin.uploadpack",
    ):  # fmt: skip
        old.git("config", key, f"!{trap}" if key.startswith("alias") else str(trap))
    old.git("config", "log.showSignature", "true")
    old.git("config", "status.submoduleSummary", "true")
    included = tmp_path / "included"
    included.write_text(f'[filter "inc"]\n\tclean = {trap}\n\trequired = true\n')
    old.git("config", "include.path", str(included))
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-auto-gc"):
        script = old.root / ".git" / "hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(trap.read_text())
        script.chmod(0o755)
    old.write(".gitattributes", "*.py diff=bad filter=bad\n*.c filter=inc\n*.h filter=a\n")
    old.write("old.py", "ONE\ntwo\nthree\n", written=9)
    old.write("x.c", "int x;\n")
    old.write("x.h", "int h;\n")
    (tmp_path / "caught").unlink(missing_ok=True)

    part = old.part()

    assert "+ONE" in part.diff_summary
    assert not (tmp_path / "caught").exists()


def test_a_repository_cannot_call_another_folder_its_work_tree(old: Repository, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "private.txt").write_text("hunter2\n")
    old.git("config", "core.worktree", str(elsewhere))
    assert None is old.describe()
    old.git("config", "core.worktree", str(tmp_path))
    assert None is old.describe()


def test_a_filter_that_cannot_be_switched_off_ends_the_look(old: Repository) -> None:
    with (old.root / ".git" / "config").open("a") as config:
        config.write('[filter "a=b"]\n\tclean = false\n')
    assert None is old.describe()


def test_secrets_in_names_changes_and_commits_do_not_come_through(old: Repository) -> None:
    """R-EVI-5; and none that is cut in half either."""
    sanitiser = Sanitiser({CANARY})
    key = "sk-ant-api03-" + "Zq7" * 30
    old.write(f"{CANARY}.py", f"x = '{CANARY}'\n")
    old.write("old.py", "x" * 2000 + CANARY + "\n" + key + "\n")
    old.write("late.py", f"{key}\n")
    old.git("add", "late.py")
    old.git("commit", "-qm", f"Use {CANARY} and {key}", day=4)
    for size in range(1900, 2100, 7):  # somewhere the cut falls into it
        old.write(
            f"edge{size}.py", "".join(f"{'y' * 60}\n" for _ in range(size // 61)) + "y" * (size % 61) + CANARY + "\n"
        )
    old.git("add", "-A")

    part = old.part(clean=sanitiser.text)
    note = render_note(_package(part), clean=sanitiser.text)

    halves = part.diff_summary.replace(CANARY, "")  # names are cleaned with the note
    for text in (note, halves):
        assert "marma" not in text
        assert "zanzi" not in text
        assert "Zq7Zq7" not in text
    assert len(note.encode()) <= NOTE_BYTES


def _package(part: ContinuationPart) -> ContinuationPackage:
    facts: dict[str, Any] = {"repository_status": part.repository_status, "diff_summary": part.diff_summary}
    return ContinuationPackage(**facts)
