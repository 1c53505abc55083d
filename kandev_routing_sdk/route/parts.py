"""The host's part of the continuation: what sources know of the work, and how several of them make one (R-CON-3). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuationPart:
    """What is known of the work so far. Everything is optional: what is not known is not said.

    Texts are plain: they are cleaned of secrets, bounded and quoted when the note is made. What a source gives beyond the bounds of
    :mod:`kandev_routing_sdk.route.continuation` is only cut.
    """

    task_description: str = ""
    workflow_step: str = ""
    user_messages: tuple[str, ...] = ()
    """Earlier messages of the user, oldest first; not the request itself."""
    messages_left_out: int = 0
    """How many earlier ones there are besides."""
    conversation_summary: str = ""
    """Of a text that is too long, the end is kept: the newest comes last."""
    handover_summary: str = ""
    """What the agent that stopped said when it was asked to hand over."""
    tool_summary: str = ""
    """As ``conversation_summary``."""
    repository_status: str = ""
    diff_summary: str = ""
    """Of a text that is too long, the beginning is kept: the newest comes first."""
    plan: str = ""
    completed: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    must_verify: tuple[str, ...] = ()


def merged(parts: Iterable[ContinuationPart]) -> ContinuationPart:
    """Return one part of several, in their order: texts one after the other, lists end to end, nothing twice."""
    known = list(parts)
    values: dict[str, object] = {}
    for field in fields(ContinuationPart):
        given = [getattr(part, field.name) for part in known]
        if field.name == "messages_left_out":
            values[field.name] = max(given, default=0)
        elif isinstance(field.default, tuple):
            values[field.name] = tuple(dict.fromkeys(entry for entries in given for entry in entries))
        else:
            values[field.name] = "\n\n".join(dict.fromkeys(text for text in given if text.strip()))
    return ContinuationPart(**values)  # type: ignore[arg-type]  # each field by its own kind, above


def earlier_messages(messages: Sequence[str], request: str) -> tuple[str, ...]:
    """Return the messages before those that the request is made of: one that was not answered is carried on with the next one."""
    left, rest = list(messages), request.rstrip()
    while left and left[-1].strip() and rest.endswith(left[-1].rstrip()):
        rest = rest.removesuffix(left.pop().rstrip()).rstrip()
    return tuple(left)
