"""The ways in which a family's agent can be driven, and which of them a launch takes (R-PLG-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, NamedTuple

from kandev_routing_sdk.errors import ExecutableNotFound, LaunchError
from kandev_routing_sdk.profiles import ConcreteProfile
from kandev_routing_sdk.spec.adapter import FoundAgent, LaunchRequest
from kandev_routing_sdk.spec.executables import find_executable, require_executable
from kandev_routing_sdk.types import Transport

_SUFFIXES: Final = (".exe", ".cmd", ".js", ".mjs", ".cjs")


class LaunchWay(NamedTuple):
    """One way to drive a family. An adapter lists its ways, the best first."""

    transport: Transport
    command: tuple[str, ...]
    """The executable, then the arguments that make it speak this transport: ``("opencode", "acp")``."""
    hint: str
    """What to do when it is not installed."""
    aliases: tuple[str, ...] = ()
    """Other names of the program in a profile's ``command``: those of its npm package, say."""


@dataclass(frozen=True, slots=True)
class ChosenWay:
    """The way that a launch takes."""

    transport: Transport
    argv: tuple[str, ...]
    """The executable (absolute) and the arguments that make it speak the transport."""


def choose_way(request: LaunchRequest, ways: Sequence[LaunchWay]) -> ChosenWay:
    """Return how a profile is launched.

    Its own ``transport`` decides; else a ``command`` that names one way's program (``["npx", "claude-agent-acp"]``), and one that
    names none is taken to wrap the agent itself; else the first way whose executable is on the child's ``PATH``; else the best, so
    that its absence is what the user is told.

    Raises:
        ExecutableNotFound: nothing is there to launch; the message says what to do.
        LaunchError: transport and command contradict each other.
    """
    way = _way_of(request, ways)
    command = request.profile.command
    if not command:
        executable = require_executable(way.command[0], request.environ, request.cwd, hint=way.hint)
        return ChosenWay(way.transport, (executable, *way.command[1:]))
    executable = require_executable(
        command[0], request.environ, request.cwd, hint="correct `command` in the profile, or remove it"
    )
    given = command[_place(command, way) :]
    added = (word for word in way.command[1:] if word not in given)
    return ChosenWay(way.transport, (executable, *command[1:], *added))


def asked_transport(profile: ConcreteProfile, ways: Sequence[LaunchWay]) -> Transport | None:
    """Return the transport that a profile is written for: its own, or its command's; None: whichever is installed.

    For :meth:`AgentAdapter.validate`, which may not look at the machine.
    """
    if profile.transport is not None or not profile.command:
        return profile.transport
    return _named_by(profile.command, profile.family, ways).transport


def discovered(family: str, ways: Sequence[LaunchWay], environ: Mapping[str, str]) -> tuple[FoundAgent, ...]:
    """Return which ways this machine has, in their order, starting nothing; for :meth:`AgentAdapter.discover`."""
    found = [(way, find_executable(way.command[0], environ)) for way in ways]
    return tuple(
        FoundAgent(family, path, way.transport, (path, "--version") if path else (), "" if path else way.hint)
        for way, path in found
    )


def _way_of(request: LaunchRequest, ways: Sequence[LaunchWay]) -> LaunchWay:
    wanted, command = request.profile.transport, request.profile.command
    if wanted is not None:
        for way in ways:
            if way.transport is wanted:
                _agree(request.profile, way, ways)
                return way
        known = " or ".join(way.transport for way in ways)
        raise ExecutableNotFound(
            f"profile {request.profile.id!r} wants {wanted}, which this agent does not speak; use {known}"
        )
    if command:
        return _named_by(command, request.profile.family, ways)
    installed = (way for way in ways if find_executable(way.command[0], request.environ, request.cwd))
    return next(installed, ways[0])


def _agree(profile: ConcreteProfile, way: LaunchWay, ways: Sequence[LaunchWay]) -> None:
    command = profile.command or ()
    other = max(ways, key=lambda each: _likeness(command, each))
    if _likeness(command, other) > _likeness(command, way):
        raise LaunchError(
            f"profile {profile.id!r} has transport = {way.transport.value!r}, but its command names what speaks "
            f"{other.transport}; correct one of them"
        )


def _named_by(command: Sequence[str], family: str, ways: Sequence[LaunchWay]) -> LaunchWay:
    own = [way for way in ways if way.command[0] == family]
    return max([*own, *ways], key=lambda way: _likeness(command, way))  # the first of the most alike


def _likeness(command: Sequence[str], way: LaunchWay) -> int:
    """How many words of the way's own stand in the command behind its program; 0 when that does not."""
    given = command[_place(command, way) :]
    return 1 + sum(word in given for word in way.command[1:]) if given else 0


def _place(command: Sequence[str], way: LaunchWay) -> int:
    """Where the way's program stands in a command; at its end when it does not."""
    names = {way.command[0], *way.aliases}
    return next((n for n, word in enumerate(command) if _program(word) in names), len(command))


def _program(word: str) -> str:
    """``/opt/bin/codex-acp.js`` and ``@vendor/codex-acp@2`` are both ``codex-acp``."""
    name = PurePath(word).name.partition("@")[0]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
