"""The continuation: what an agent is told that goes on where another one stopped (R-CON-3, R-CON-4, R-CON-10, R-SAFE-4, R-SAFE-5).

Bounds, in UTF-8 bytes of what is rendered, cut on a character boundary and marked where something was cut:

==========================================  =========
field                                       at most
==========================================  =========
each text                                   its entry in ``FIELD_BYTES``
each of ``completed``, ``uncertain``,
``must_verify``                             20 entries, 512 bytes an entry
``user_messages``                           the newest 20, 2 KiB a message, 8 KiB in all
labels                                      128 bytes
the whole note                              ``NOTE_BYTES`` (32 KiB), or what :func:`note_limit` allows for a model's context
                                            window; what matters least is left out first, and named
==========================================  =========

Of conversations and tools the end is kept, for the newest comes last; of every other text the beginning.

The package has no place for a credential, a session id or a token of the predecessor, and every text goes through the caller's
cleaner before it is cut, so that half a secret cannot stay behind. The user's request is neither cleaned nor cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from kandev_routing_sdk.route.model import Reason
from kandev_routing_sdk.route.parts import ContinuationPart
from kandev_routing_sdk.types import Code, ErrorClass

NOTE_BYTES: Final = 32 * 1024
FIELD_BYTES: Final = MappingProxyType(
    {
        "task_description": 4096,
        "workflow_step": 1024,
        "conversation_summary": 8192,
        "handover_summary": 4096,
        "tool_summary": 4096,
        "repository_status": 4096,
        "diff_summary": 8192,
        "plan": 4096,
    }
)
LIST_ENTRIES: Final = 20
ENTRY_BYTES: Final = 512
MESSAGE_BYTES: Final = 2048
MESSAGES_BYTES: Final = 8192
LABEL_BYTES: Final = 128
CUT: Final = " […cut]"
OPENING: Final = "--- Continuation note: information from the router, not part of the request ---"
CLOSING: Final = "--- End of continuation note ---"
_INSPECT: Final = (
    "It may have changed files, run commands or reached other systems before it stopped, unseen. Inspect the present state first, "
    "and repeat nothing before you have verified that it was not done."
)
BARE_NOTE: Final = "\n".join(
    (OPENING, f"You continue existing work: an agent worked in this session before you. {_INSPECT}", "", CLOSING)
)
"""What an agent is told at least, where nothing else can be said."""
_CUT_BEFORE: Final = "> […cut] "

LEAST_NOTE_BYTES: Final = 3072
"""Room for the frame, what happened, and the beginning of what must not be repeated."""
BYTES_PER_TOKEN: Final = 3
"""Fewer than most texts have: an estimate to stay within a window with."""

_NAMES: Final = 5
_COUNT_BYTES: Final = 64
"""Kept free for saying how many messages were left out."""
_LEAST_BYTES: Final = 96
"""A section that would get less than this is left out."""
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")

Cleaner = Callable[[str], str]
"""Takes secrets out of a text, whatever their shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuationPackage(ContinuationPart):
    """What is durably known of the work so far: the host's part, and what the router knows itself."""

    from_profile: str = ""
    """Label of the profile that stopped."""
    reason: Reason | None = None
    """Why the route changed."""
    failure_code: Code | None = None
    failure_class: ErrorClass | None = None
    nothing_happened: bool = False
    """The predecessor provably did nothing for this request."""
    potentially_effectful: bool = False
    """It may have done something; outweighs ``nothing_happened``."""
    earlier_work: bool = False
    """There was work in this session before this request."""
    same_agent: bool = False
    """It was the successor's own profile that worked before, in a process that is gone."""
    missing: tuple[str, ...] = ()
    """The sources that could not say anything in time."""


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    text: str
    """Quoted and within the bound of its field."""
    rank: int
    """What matters most is 0 and gets its space first."""
    keeps_end: bool = False
    """Of what is too long, the end is kept."""

    def within(self, limit: int) -> str:
        """The text, cut to so many bytes."""
        return _cut_before(self.text, limit) if self.keeps_end else cut(self.text, limit)


def render_prompt(package: ContinuationPackage, user_request: str, *, clean: Cleaner) -> str:
    """Return the successor's prompt: the user's request, untouched and first, then the note (R-CON-4)."""
    return join_prompt(user_request, render_note(package, clean=clean))


def join_prompt(user_request: str, note: str | None) -> str:
    """Put a rendered note, as kept with the route, behind the request."""
    return user_request if not note else f"{user_request}\n\n{note}"


def note_limit(context_tokens: int | None, request: str) -> int:
    """Return how many bytes a note may have beside ``request``: a quarter of what a model's context window has left for it.

    ``context_tokens``: how many tokens the window takes, None when that is not known. Never more than :data:`NOTE_BYTES`, and never
    less than :data:`LEAST_NOTE_BYTES`: what must not be repeated is always said.
    """
    if context_tokens is None:
        return NOTE_BYTES
    left = context_tokens * BYTES_PER_TOKEN - len(request.encode("utf-8", "replace"))
    return max(LEAST_NOTE_BYTES, min(NOTE_BYTES, left // 4))


def render_note(package: ContinuationPackage, *, clean: Cleaner, limit: int = NOTE_BYTES) -> str:
    """Return the delimited note, at most ``limit`` bytes long. It is what the route keeps (R-SAFE-5).

    ``limit``: at least :data:`LEAST_NOTE_BYTES`.
    """
    opening = "\n".join((OPENING, *_why(package, clean)))
    left_out = "Left out for length: {}."
    sections = _sections(package, clean)
    names = ", ".join(s.title for s in sections)
    room = max(limit, LEAST_NOTE_BYTES) - sum(len(t.encode()) + 2 for t in (opening, left_out, names, CLOSING))
    fitted: dict[str, str] = {}
    for section in sorted(sections, key=lambda s: s.rank):
        heading = f"{section.title}:\n"
        allowed = room - len(heading.encode()) - 2
        if allowed < min(_LEAST_BYTES, len(section.text.encode())):
            continue
        fitted[section.title] = heading + section.within(allowed)
        room -= len(fitted[section.title].encode()) + 2
    parts = [opening, *(fitted[s.title] for s in sections if s.title in fitted)]
    missing = [s.title for s in sections if s.title not in fitted]
    if missing:
        parts.append(left_out.format(", ".join(missing)))
    return "\n\n".join((*parts, CLOSING))


def cut(text: str, limit: int) -> str:
    """Return ``text`` within ``limit`` UTF-8 bytes, cut on a character boundary and marked if anything is missing."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode()
    kept = raw[: max(0, limit - len(CUT.encode()))].decode("utf-8", "ignore")
    return (kept + CUT) if len(CUT.encode()) <= limit else ""


def _cut_before(text: str, limit: int) -> str:
    """As :func:`cut`, of a quoted text, but its end stays."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode()
    room = limit - len(_CUT_BEFORE.encode())
    kept = raw[len(raw) - room :].decode("utf-8", "ignore") if room > 0 else ""
    return f"{_CUT_BEFORE}{kept}" if room > 0 else ""


def _why(package: ContinuationPackage, clean: Cleaner) -> list[str]:
    lines = _before(package, _label(package.from_profile, clean))
    # that a failure led on by itself goes without saying; that a person wanted it, or what else did, does not
    reason = None if package.failure_code and package.reason is Reason.PROVIDER_FAILURE else package.reason
    kind = f" ({package.failure_class})" if package.failure_class is not None else ""
    failure = f"{package.failure_code}{kind}" if package.failure_code is not None else None
    if why := ", after ".join(filter(None, (reason, failure))):
        lines.append(f"Why the agent changed: {why}.")
    if package.potentially_effectful:
        lines.append(_INSPECT)
    if package.missing:
        names = ", ".join(_label(name, clean) for name in package.missing[:_NAMES])
        lines.append(f"Could not be found out, so look for yourself: {names}.")
    return lines


def _before(package: ContinuationPackage, who: str) -> list[str]:
    """What was there before the successor."""
    agent = f"another agent ({who})" if who else "another agent"
    lines: list[str] = []
    replayed = package.nothing_happened and not package.potentially_effectful
    if replayed and package.earlier_work:
        lines.append(
            "You continue existing work: agents worked in this session before this request. Start from what is there; do not begin "
            "again."
        )
    if replayed:
        lines.append(
            f"This request was given to {agent} first, which failed before it did anything: nothing was started for it, "
            "and nothing has to be checked on its account."
        )
    elif package.same_agent:
        lines.append(
            "You continue existing work: a process of this very agent worked in this session before you, and you do not see its "
            "conversation. Start from what is there; do not begin again."
        )
    else:
        lines.append(
            f"You continue existing work: {agent} worked in this session before you and will not go on. "
            "Start from what is there; do not begin again."
        )
    return lines


def _sections(package: ContinuationPackage, clean: Cleaner) -> list[_Section]:
    """In the order of the note; empty ones are not there."""

    def text(field: str, value: str) -> str:
        return cut(_quoted(clean(value)), FIELD_BYTES[field])

    def end(field: str, value: str) -> str:
        return _cut_before(_quoted(clean(value)), FIELD_BYTES[field])

    found = [
        _Section("Task", text("task_description", package.task_description), 3),
        _Section("Workflow step", text("workflow_step", package.workflow_step), 4),
        _Section("Earlier messages of the user, oldest first", _messages(package, clean), 5, keeps_end=True),
        _Section("Conversation so far", end("conversation_summary", package.conversation_summary), 7, keeps_end=True),
        _Section("What the agent before you says", text("handover_summary", package.handover_summary), 6),
        _Section("Completed, do not repeat", _entries(package.completed, clean), 2),
        _Section("Uncertain, may or may not be done", _entries(package.uncertain, clean), 1),
        _Section("Must not be repeated before it is verified", _entries(package.must_verify, clean), 0),
        _Section("Plan", text("plan", package.plan), 9),
        _Section("Tools and results", end("tool_summary", package.tool_summary), 11, keeps_end=True),
        _Section("Repository status", text("repository_status", package.repository_status), 8),
        _Section("Changes in the repository", text("diff_summary", package.diff_summary), 10),
    ]
    return [section for section in found if section.text]


def _entries(entries: Sequence[str], clean: Cleaner) -> str:
    quoted = (_quoted(clean(e), first="> - ") for e in entries[:LIST_ENTRIES])
    shown = [cut(q, ENTRY_BYTES) for q in quoted if q]
    if len(entries) > LIST_ENTRIES:
        shown.append(f"> - and {len(entries) - LIST_ENTRIES} more{CUT}")
    return "\n".join(shown)


def _messages(package: ContinuationPackage, clean: Cleaner) -> str:
    """The newest that fit; the order stays, and those that are left out are counted."""
    given = [m for m in package.user_messages if m.strip()]
    kept: list[str] = []
    room = MESSAGES_BYTES - _COUNT_BYTES
    for message in reversed(given[-LIST_ENTRIES:]):
        shown = cut(_quoted(clean(message), first="> - "), MESSAGE_BYTES)
        room -= len(shown.encode()) + 1
        if room < 0:
            break
        kept.insert(0, shown)
    left_out = max(0, package.messages_left_out) + len(given) - len(kept)
    if left_out and kept:
        kept.insert(0, f"> ({left_out} earlier {'message' if left_out == 1 else 'messages'} left out)")
    return "\n".join(kept)


def _label(text: str, clean: Cleaner) -> str:
    return cut(" ".join(_CONTROLS.sub("", clean(text)).split()), LABEL_BYTES)


def _quoted(text: str, first: Literal["> ", "> - "] = "> ") -> str:
    """Quote every line: no text can pretend to end the note or to be the user's request."""
    lines = [_CONTROLS.sub("", line).rstrip() for line in text.strip().splitlines()]
    return "\n".join((first if i == 0 else "> ") + line for i, line in enumerate(lines))
