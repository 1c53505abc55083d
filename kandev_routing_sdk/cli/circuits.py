"""``circuits``: the shared health of providers, accounts, models and profiles."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, moment, note, print_json, print_text, table
from kandev_routing_sdk.errors import UsageError

if TYPE_CHECKING:
    from kandev_routing_sdk.circuits import Circuit
    from kandev_routing_sdk.router import Router

EPILOGUE: Final = examples(
    "kandev-routing circuits",
    "kandev-routing circuits retry KEY       after you fixed a login: let the next call try it",
    "kandev-routing circuits reset KEY       you know that it is healthy",
)

app = typer.Typer(
    help="Show and change the shared health of resources.",
    epilog=EPILOGUE,
    invoke_without_command=True,
    rich_markup_mode=None,
)

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="A key that kandev-routing circuits lists, or its beginning.", show_default=False
    ),
]


@app.callback()
def circuits(context: typer.Context, as_json: AsJson = False) -> None:
    """List every resource whose health is known to have changed."""
    if context.invoked_subcommand is not None:
        return
    from kandev_routing_sdk.clock import SystemClock

    with globals_of(context).router(read_only=True, required=False) as router:
        found = router.circuits()
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "circuits": [document(c) for c in found]})
    elif not found:
        print_text("no circuit has ever opened")
    else:
        now = SystemClock().now()
        rows = [
            (c.key.key, c.key.scope.value, c.state.value, _cause(c), _until(c, now), str(c.failures)) for c in found
        ]
        styles = ["" if c.state == "closed" else "yellow" for c in found]
        table(("key", "scope", "state", "cause", "until", "failures"), rows, styles)


@app.command(epilog=examples("kandev-routing circuits reset KEY"))
def reset(context: typer.Context, key: Key, as_json: AsJson = False) -> None:
    """Close a circuit, because you know that its resource is healthy."""
    with globals_of(context).router(required=False) as router:
        _changed(router.reset_circuit(_whole(router, key)), as_json=as_json)


@app.command(epilog=examples("kandev-routing circuits retry KEY"))
def retry(context: typer.Context, key: Key, as_json: AsJson = False) -> None:
    """Let the next call find out whether a resource is back; the circuit is not closed unseen."""
    from kandev_routing_sdk.clock import SystemClock

    with globals_of(context).router(required=False) as router:
        found = router.retry_circuit(_whole(router, key))
    _changed(found, as_json=as_json)
    if found.deadline is not None and found.deadline > SystemClock().now():
        note("nothing was changed: it waits for that time, not for a person; circuits reset closes it now")


def _whole(router: Router, key: str) -> str:
    """Return the one key that begins so: they are longer than a line of a terminal. Else what was given, to be refused."""
    found = [c.key.key for c in router.circuits() if c.key.key.startswith(key)]
    if key in found or not key:
        return key
    if len(found) > 1:
        raise UsageError(f"{len(found)} circuits have a key that begins with {key!r}; give more of it")
    return found[0] if found else key


def _changed(circuit: Circuit, *, as_json: bool) -> None:
    from kandev_routing_sdk.clock import SystemClock

    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "circuit": document(circuit)})
    else:
        until = _until(circuit, SystemClock().now())
        print_text(f"{circuit.key.key}: {circuit.state.value}{f', {until}' if until else ''}")


def document(circuit: Circuit) -> dict[str, Any]:
    """Return a circuit as JSON; its probe's token is not shown, for it is what fences the probe."""
    from kandev_routing_sdk.cli.document import utc

    key = circuit.key
    return {
        "key": key.key,
        "scope": key.scope.value,
        "provider_id": key.provider_id,
        "model_id": key.model_id,
        "profile_id": key.profile_id,
        "state": circuit.state.value,
        "code": None if circuit.code is None else circuit.code.value,
        "confidence": None if circuit.confidence is None else circuit.confidence.value,
        "failures": circuit.failures,
        "deadline": utc(circuit.deadline),
        "action_required": circuit.action_required,
        "probe_until": utc(circuit.probe_until),
        "last_success_at": utc(circuit.last_success_at),
        "updated_at": utc(circuit.updated_at),
    }


def _cause(circuit: Circuit) -> str:
    return "" if circuit.code is None else circuit.code.value


def _until(circuit: Circuit, now: datetime) -> str:
    if circuit.lease_is_live(now) and circuit.probe_until is not None:
        return f"being probed until {moment(circuit.probe_until, now)}"
    if circuit.action_required:
        return "a person has to act"
    if circuit.deadline is None:
        return ""
    return "due for a probe" if circuit.deadline <= now else f"until {moment(circuit.deadline, now)}"
