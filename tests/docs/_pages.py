"""The documentation as data: its pages, headings, links and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
REFERENCE: Final = DOCS / "reference"

_FENCE: Final = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*?) -->\n+)?^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_HEADING: Final = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A fenced piece of code."""

    page: str
    line: int
    language: str
    text: str
    comment: str
    """What the HTML comment right before it says."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return every Markdown page of the repository."""
    adapters = sorted((ROOT / "adapters").glob("*/*.md"))
    return [*sorted(ROOT.glob("*.md")), *adapters, *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """Return a page's path from the repository's root."""
    return page.relative_to(ROOT).as_posix()


@cache
def text_of(page: Path) -> str:
    """Return a page's text."""
    return page.read_text("utf-8")


@cache
def prose_of(page: Path) -> str:
    """Return a page's text without its code."""
    return _FENCE.sub("", text_of(page))


def headings(page: Path) -> list[str]:
    """Return the headings of a page, without their marks."""
    return [title.strip() for _, title in _HEADING.findall(prose_of(page))]


def section(page: Path, heading: str) -> str:
    """Return what stands below a heading (written without its #), down to the next one of its level; "" if there is none."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text_of(page), re.MULTILINE)
    if found is None:
        return ""
    rest = text_of(page)[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as the usual renderers make them from headings."""
    found: set[str] = set()
    for title in headings(page):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        anchor, number = words, 1
        while anchor in found:
            anchor, number = f"{words}-{number}", number + 1
        found.add(anchor)
    return found


def links(page: Path) -> list[str]:
    """Return where a page's links lead inside the repository."""
    return [to for to in _LINK.findall(prose_of(page)) if not re.match(r"[a-z]+:", to)]


def all_snippets() -> list[Snippet]:
    """Return all code, on all pages, in order."""
    return [s for page in pages() for s in _snippets(page)]


def snippets(language: str) -> list[Snippet]:
    """Return all code of a language, on all pages."""
    return [s for s in all_snippets() if s.language == language]


def _snippets(page: Path) -> Iterator[Snippet]:
    text = text_of(page)
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text"))
        yield Snippet(name_of(page), line, found["language"], found["text"], found["comment"] or "")


def snippet(page: str, language: str, comment: str = "") -> Snippet:
    """Return the first snippet of a page with this comment (the first of all when none is given)."""
    return next(s for s in snippets(language) if s.page == page and (not comment or s.comment == comment))
