"""What the commands share: the global options, settings, a router, and the texts of options."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeAlias

import typer

if TYPE_CHECKING:
    from kandev_routing_sdk.profiles import Profile as ProfileValue
    from kandev_routing_sdk.router import Router
    from kandev_routing_sdk.settings import Settings


@dataclass(frozen=True, slots=True)
class Globals:
    """The global options."""

    config: str | None = None
    store: str | None = None
    debug: bool = False

    def settings(self, *, required: bool = True) -> Settings:
        """Load the configuration; raises :class:`~kandev_routing_sdk.errors.ConfigError`."""
        from kandev_routing_sdk.settings import load_settings, working_directory

        return load_settings(
            environ=os.environ, cwd=working_directory(), config=self.config, store=self.store, required=required
        )

    def router(self, *, read_only: bool = False, required: bool = True) -> Router:
        """Open a router; see :meth:`~kandev_routing_sdk.router.Router.open` for what it raises."""
        from kandev_routing_sdk.router import Router

        return Router.open(settings=self.settings(required=required), read_only=read_only)


def globals_of(context: typer.Context) -> Globals:
    """Return the global options of this run."""
    found = context.find_object(Globals)
    return found or Globals()


def examples(*lines: str) -> str:
    """Return a help epilogue; the mark keeps its lines apart."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def complete_profile(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the profiles of configuration and store; nothing when there is none that can be read."""
    from kandev_routing_sdk.errors import RoutingError

    try:
        settings = globals_of(context).settings(required=False)
    except RoutingError:
        return []
    profiles = _all_profiles(settings) or settings.profiles
    return [(i, f"{p.name} ({p.kind})") for i, p in profiles.items() if i.startswith(incomplete)]


def check_profile(settings: Settings, profile_id: str) -> dict[str, str]:
    """Return names by id, or raise :class:`~kandev_routing_sdk.errors.ProfileNotFound` before a prompt is waited for.

    The store is only looked at for a profile that is not declared.
    """
    from kandev_routing_sdk.errors import ProfileNotFound

    known = settings.profiles
    if profile_id not in known:
        found = _all_profiles(settings)
        if found is not None and profile_id not in found:
            raise ProfileNotFound(profile_id, sorted(found))
        known = found or known
    return {i: p.name for i, p in known.items()}


def _all_profiles(settings: Settings) -> Mapping[str, ProfileValue] | None:
    """Return those of configuration and store; None when the store cannot be read, which is for whoever opens it to say."""
    from kandev_routing_sdk.errors import StoreError
    from kandev_routing_sdk.profile_store import LayeredProfiles
    from kandev_routing_sdk.store import open_store

    try:
        with open_store(settings.store_url, read_only=True) as store:
            return LayeredProfiles(settings, store).all()
    except StoreError:
        return None


def complete_session(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Offer the newest sessions; nothing when there is no database that can be read."""
    from kandev_routing_sdk.errors import RoutingError
    from kandev_routing_sdk.store import open_store

    try:
        url = globals_of(context).settings(required=False).store_url
        with open_store(url, read_only=True) as store:
            found = [route for route in store.sessions(limit=100) if route.kind == "session"]
    except RoutingError:
        return []
    return [(r.session_id, f"{r.logical_profile_id}, {r.state}") for r in found if r.session_id.startswith(incomplete)]


def read_bytes(source: str) -> bytes:
    """Read a file, or standard input for ``-``; raises :class:`~kandev_routing_sdk.errors.InputDataError`."""
    from kandev_routing_sdk.errors import InputDataError

    if source == "-":
        return standard_input().read()
    try:
        return Path(source).read_bytes()
    except OSError as problem:
        raise InputDataError(
            f"{source} cannot be read: {problem.strerror}; name a file, or - for standard input"
        ) from None


def standard_input() -> BinaryIO:
    """Return standard input; raises :class:`~kandev_routing_sdk.errors.InputDataError` when whoever started us closed it."""
    from kandev_routing_sdk.errors import InputDataError

    if sys.stdin is None:  # mypy thinks that there always is one
        raise InputDataError("standard input is closed; give the text as an argument or name a file")
    return sys.stdin.buffer


def read_text(source: str) -> str:
    """Read UTF-8 text; raises :class:`~kandev_routing_sdk.errors.InputDataError`."""
    from kandev_routing_sdk.errors import InputDataError

    try:
        return read_bytes(source).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        name = "standard input" if source == "-" else source
        raise InputDataError(f"{name} is not UTF-8 text (byte {problem.start}); convert it to UTF-8") from None


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """Return the prompt from wherever it was given.

    Raises :class:`~kandev_routing_sdk.errors.UsageError` when it was given twice or not at all, and what :func:`read_text` raises.
    """
    from kandev_routing_sdk.errors import UsageError

    if file is not None:
        if prompt is not None:
            raise UsageError("the prompt was given twice: as an argument and with --prompt-file; leave one out")
        return read_text(str(file))
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("there is no prompt: give it as an argument, with --prompt-file, or on standard input")
    return read_text("-")


AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Profile: TypeAlias = Annotated[
    str, typer.Argument(metavar="PROFILE", help="A profile's id.", autocompletion=complete_profile, show_default=False)
]
Prompt: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="What to do; - or nothing: standard input.", show_default=False),
]
PromptFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read the prompt from a file (UTF-8).", show_default=False)
]
WorkFolder: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where the agents work; default: here.", show_default=False)
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only the answer, or the error.")]
Here: TypeAlias = Annotated[
    bool,
    typer.Option("--here", help="Go on with it in this process until it rests, instead of leaving it to a worker."),
]
SessionId: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="As kandev-routing sessions lists it.",
        autocompletion=complete_session,
        show_default=False,
    ),
]
