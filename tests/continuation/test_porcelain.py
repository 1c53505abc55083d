"""What git prints for programs (R-CON-3): whatever it is, reading it never fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.continuation.porcelain import (
    Commit,
    Count,
    Entry,
    Status,
    commits,
    counts,
    drivers,
    listed,
    pieces,
    shown,
    status,
)

_H = "0" * 40


def test_a_status_with_every_kind_of_entry() -> None:
    raw = "\0".join(
        [
            f"# branch.oid {_H}",
            "# branch.head main",
            "# branch.ab +1 -0",
            f"1 .M N... 100644 100644 100644 {_H} {_H} a b.py",
            f"2 R. N... 100644 100644 100644 {_H} {_H} R100 new name",
            "? not an entry but the old name",
            f"u UU N... 100644 100644 100644 100644 {_H} {_H} {_H} both",
            "? un\ntracked",
            "! ignored",
            "",
        ]
    )
    assert Status(
        commit=_H,
        branch="main",
        entries=(
            Entry(".M", "a b.py"),
            Entry("R.", "new name", "? not an entry but the old name"),
            Entry("UU", "both"),
            Entry("??", "un\ntracked"),
        ),
    ) == status(raw.encode())


def test_counts_of_text_binary_and_renamed_files() -> None:
    raw = b"3\t1\ta\tb.py\0-\t-\tx.bin\0" + b"0\t0\t\0old\0new\0"
    assert [Count("a\tb.py", 3, 1), Count("x.bin", None, None), Count("new", 0, 0, "old")] == counts(raw)
    assert ["'a\\tb.py' | +3 -1", "x.bin | binary", "old -> new | +0 -0"] == [str(c) for c in counts(raw)]


def test_commits_and_their_files() -> None:
    raw = b"\x01abc\x02Subject \xff\0\none\0two\0\0\x01def\x02Empty\0"
    assert [Commit("abc", "Subject \N{REPLACEMENT CHARACTER}", ("one", "two")), Commit("def", "Empty", ())] == commits(
        raw
    )


def test_a_diff_is_split_at_its_files_only() -> None:
    raw = b"diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+diff --git a/y b/y\n diff --git\ndiff --git a/z b/z\nBinary files differ\n"
    first, second = pieces(raw)
    assert first.endswith("+diff --git a/y b/y\n diff --git")
    assert second == "diff --git a/z b/z\nBinary files differ"


def test_the_filters_that_a_configuration_names() -> None:
    raw = b"core.bare\0filter.lfs.clean\0filter.a.b c.process\0FILTER.x.required\0filter.nothing\0filtered.y.z\0"
    assert ["a.b c", "lfs", "x"] == drivers(raw)


def test_a_list_says_how_many_it_leaves_out() -> None:
    assert ["1", "2"] == listed([1, 2], 2)
    assert ["1", "2", "and 3 more"] == listed([1, 2, 3, 4, 5], 2)


@given(st.binary() | st.text(alphabet="12u?# .MR\0\tN\x01\x02\n-").map(str.encode))
def test_nothing_that_is_read_breaks_the_reader(raw: bytes) -> None:
    for line in [*map(str, status(raw).entries), *map(str, counts(raw)), *map(str, commits(raw)), *drivers(raw)]:
        assert "\0" not in line
    pieces(raw)


@given(st.text())
def test_a_name_is_shown_on_one_line(name: str) -> None:
    assert shown(name).isprintable()
