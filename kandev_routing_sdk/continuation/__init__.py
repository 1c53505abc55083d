"""The continuation's sources: what a git work tree and the stored events say of the work, and how sources are asked (R-CON-3)."""

from kandev_routing_sdk.continuation.gather import Gathered, gather
from kandev_routing_sdk.continuation.sources import sources_of
from kandev_routing_sdk.continuation.transcript import Transcript
from kandev_routing_sdk.continuation.worktree import GitWorktree

__all__ = ["Gathered", "GitWorktree", "Transcript", "gather", "sources_of"]
