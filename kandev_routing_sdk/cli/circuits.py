"""``circuits``: the shared health of providers, accounts, models and profiles."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Globals, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, moment, note, one_line, print_json, print_text, table
from kandev_routing_sdk.errors import UsageError

if TYPE_CHECKING:
    from kandev_routing_sdk.circuits import Circuit
    from kandev_routing_sdk.router import Router

EPILOGUE: Final = examples(
    "kandev-routing circuits",
    "kandev-routing circuits retry --profile fable       after you fixed its login: let the next call try it",
    "kandev-routing circuits reset KEY       you know that it is healthy",
)

app: typer.Typer = typer.Typer(
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
    if context.invoked_subcommand is None:
        _list(globals_of(context), as_json=as_json)


@app.command("list", epilog=examples("kandev-routing circuits list --json | jq .circuits"))
def list_circuits(context: typer.Context, as_json: AsJson = False) -> None:
    """List every resource whose health is known to have changed."""
    _list(globals_of(context), as_json=as_json)


def _list(options: Globals, *, as_json: bool) -> None:
    from kandev_routing_sdk.clock import SystemClock

    with options.router(read_only=True, required=False) as router:
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


@app.command(epilog=examples("kandev-routing circuits show account:north"))
def show(context: typer.Context, key: Key, as_json: AsJson = False) -> None:
    """Show everything that is known of one resource's health."""
    with globals_of(context).router(read_only=True, required=False) as router:
        wanted = _whole(router, key)
        found = next((c for c in router.circuits() if c.key.key == wanted), None)
    if found is None:
        raise UsageError(f"no circuit has the key {key!r}; kandev-routing circuits lists them")
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "circuit": document(found)})
        return
    for label, text in _facts(found):
        print_text(f"{label:<12} {one_line(text, 500)}")


def _facts(circuit: Circuit) -> Iterator[tuple[str, str]]:
    from kandev_routing_sdk.catalogue.codes import CODES
    from kandev_routing_sdk.clock import SystemClock

    key, now = circuit.key, SystemClock().now()
    yield "circuit", key.key
    yield "of", ", ".join(part for part in (key.scope.value, key.provider_id, key.model_id, key.profile_id) if part)
    until = _until(circuit, now)
    yield "state", f"{circuit.state.value}{f', {until}' if until else ''}"
    if circuit.code is not None:
        yield "cause", f"{circuit.code.value}: {CODES[circuit.code].meaning}"
        if circuit.state != "closed":
            yield "advice", CODES[circuit.code].advice
    yield "failures", f"{circuit.failures} since it was last closed"
    if circuit.last_success_at is not None:
        yield "last answer", moment(circuit.last_success_at, now)
    yield "changed", moment(circuit.updated_at, now)


@app.command(epilog=examples("kandev-routing circuits reset KEY"))
def reset(context: typer.Context, key: Key, as_json: AsJson = False) -> None:
    """Close a circuit, because you know that its resource is healthy."""
    with globals_of(context).router(required=False) as router:
        _changed(router.reset_circuit(_whole(router, key)), as_json=as_json)


@app.command(
    epilog=examples(
        "kandev-routing circuits retry KEY",
        "kandev-routing circuits retry --profile fable        you signed in again, or mended its settings",
    )
)
def retry(
    context: typer.Context,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY", help="A key that kandev-routing circuits lists, or its beginning.", show_default=False
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROFILE",
            help="Every resource of this profile that waits for a person; may be given again.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let the next call find out whether a resource is back; the circuit is not closed unseen."""
    from kandev_routing_sdk.clock import SystemClock

    if (key is None) is (not profile):
        raise UsageError("say which: either the KEY of a circuit, or --profile PROFILE")
    if profile:
        _retry_profiles(globals_of(context), profile, as_json=as_json)
        return
    with globals_of(context).router(required=False) as router:
        found = router.retry_circuit(_whole(router, key or ""))
    _changed(found, as_json=as_json)
    if found.deadline is not None and found.deadline > SystemClock().now():
        note("nothing was changed: it waits for that time, not for a person; circuits reset closes it now")


def _retry_profiles(options: Globals, profiles: list[str], *, as_json: bool) -> None:
    """A login or a setting was changed (R-CIR-7)."""
    from kandev_routing_sdk.profiles import DynamicProfile

    concrete = list[str]()
    with options.router() as router:
        for profile in [router.profiles.get(profile_id).profile for profile_id in profiles]:
            concrete += (
                [c.profile_id for c in profile.candidates] if isinstance(profile, DynamicProfile) else [profile.id]
            )
        keys = router.credentials_changed(concrete)
        found = [circuit for circuit in router.circuits() if circuit.key.key in keys]
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "circuits": [document(c) for c in found]})
    elif not found:
        print_text("no resource of it waits for a person")
    else:
        for circuit in found:
            _changed(circuit, as_json=False)


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
        if circuit.probe_since is not None and circuit.probe_since > now:  # an armed retry
            return f"kept for a retry at {moment(circuit.probe_since, now)}"
        return f"being probed until {moment(circuit.probe_until, now)}"
    if circuit.action_required:
        return "a person has to act"
    if circuit.deadline is None:
        return ""
    return "due for a probe" if circuit.deadline <= now else f"until {moment(circuit.deadline, now)}"
