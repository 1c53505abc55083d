"""Which sources a router asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kandev_routing_sdk.continuation.transcript import Transcript
from kandev_routing_sdk.continuation.worktree import GitWorktree
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.ports import ContinuationSource


def sources_of(
    given: ContinuationSource | Sequence[ContinuationSource] | None, environ: Mapping[str, str]
) -> tuple[ContinuationSource, ...]:
    """Return a host's own sources, or the default ones. Raises :class:`~kandev_routing_sdk.errors.UsageError` for what is none."""
    if given is None:
        return (GitWorktree(environ=environ), Transcript())
    sources = tuple(given) if isinstance(given, Sequence) else (given,)
    for source in sources:
        if isinstance(source, type) or not callable(getattr(source, "describe", None)):
            raise UsageError(
                f"continuation: a {type(source).__name__} has no describe(request); give one or more ContinuationSource objects"
            )
    return sources
