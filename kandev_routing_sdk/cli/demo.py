"""``demo``: a failover to watch, with real agent processes that follow a script; needs no configuration and leaves nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, error_line, note, print_json, print_text, silent

if TYPE_CHECKING:
    from kandev_routing_sdk.cli.calling import Ended
    from kandev_routing_sdk.results import Progress
    from kandev_routing_sdk.router import Router

EPILOGUE: Final = examples("kandev-routing demo", "kandev-routing demo --json | jq '.routes[0].attempts'")
NAMES: Final = (("fable", "Fable"), ("sol", "Sol"))
_RESET_S: Final = 3 * 3600 + 12 * 60
_RETRY_S: Final = 2
_PROMPT: Final = "Why is the sky blue?"


def demo(as_json: AsJson = False) -> None:
    """Watch a failover: one agent's plan limit, another one's overload with a retry, an answer, and what the next call learned.

    The agents are real processes that follow a script. Takes a few seconds.
    """
    with tempfile.TemporaryDirectory(prefix="kandev-routing-demo-") as folder:
        ended = _play(Path(folder), quiet=as_json)
    exit_code = next((e.exit_code for e in ended if e.exit_code), 0)
    if as_json:
        from kandev_routing_sdk.cli.document import result_document

        routes = [result_document(e.result, e.exit_code) for e in ended]
        print_json({"schema_version": SCHEMA_VERSION, "routes": routes, "exit_code": exit_code})
    raise typer.Exit(exit_code)


def _play(folder: Path, *, quiet: bool) -> list[Ended]:
    from kandev_routing_sdk.cli.calling import Order, call
    from kandev_routing_sdk.cli.progress import Narrator, attribution
    from kandev_routing_sdk.clock import SystemClock

    names = dict(NAMES)
    open_router = _stage(folder)
    say: Callable[[str, str], None] = silent if quiet else note
    narrator = Narrator(say, names, SystemClock().now)
    ended: list[Ended] = []
    for title in (
        "First call. The profile 'frontier' asks Fable first, then Sol.",
        "Second call. What the first one learned is shared: nobody asks Fable again before its reset.",
    ):
        say(title, "bold")
        tell: Callable[[Progress], None] = narrator
        one = call(open_router, Order("frontier", _PROMPT, folder), tell)
        ended.append(one)
        if one.failure is not None:
            error_line(str(one.failure))
            break
        if not quiet:
            print_text(one.result.text)
            note(attribution(one.result, names), "green")
            note("")
    return ended


def _stage(folder: Path) -> Callable[[], Router]:
    """Write the scripts; return what opens a router over a store of its own."""
    from kandev_routing_sdk.router import Router
    from kandev_routing_sdk.settings import Settings
    from kandev_routing_sdk.testing import ScriptBuilder, ScriptedAdapter, ScriptedAgent

    fable = ScriptedAgent(folder / "fable", ScriptBuilder().fail_quota(resets_in_s=_RESET_S))
    sol = ScriptedAgent(
        folder / "sol",
        ScriptBuilder().fail_overloaded(),
        ScriptBuilder().say("Air scatters blue light more than red.").usage(812, 11),
        ScriptBuilder().say("Still because of the air.").usage(640, 6),
    )
    profiles = _profiles(fable.profile(), sol.profile())
    settings = Settings(store_url=f"sqlite:///{folder / 'routing.db'}", dynamic_agent_routing=True, profiles=profiles)
    return lambda: Router.open(settings=settings, adapters=[ScriptedAdapter()], plugins=False, environ=dict(os.environ))


def _profiles(fable: dict[str, Any], sol: dict[str, Any]) -> dict[str, Any]:
    from kandev_routing_sdk.errors import ConfigInvalid
    from kandev_routing_sdk.profiles import parse_profiles

    retry = {"enabled": True, "max_retries": 2, "initial_interval_seconds": _RETRY_S}
    parsed, problems = parse_profiles(
        {
            "fable": {
                **fable,
                "name": "Fable",
                "model": "fable-1",
                "options": {"provider_id": "north", "account": "demo-1"},
            },
            "sol": {**sol, "name": "Sol", "model": "sol-1", "options": {"provider_id": "south", "account": "demo-2"}},
            "frontier": {
                "kind": "dynamic",
                "name": "Frontier",
                "candidates": [{"profile": "fable"}, {"profile": "sol", "policy": {"transient": {"retry": retry}}}],
            },
        },
        families=None,
    )
    if problems:
        raise ConfigInvalid("the demo", problems)
    return dict(parsed)
