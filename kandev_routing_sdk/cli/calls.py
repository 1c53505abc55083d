"""``calls``: what was called, who answered, and how it ended. Holds no prompt and no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Globals, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, print_json, print_text, span, table
from kandev_routing_sdk.errors import UsageError

if TYPE_CHECKING:
    from kandev_routing_sdk.ports import AttemptRecord, CallRecord

EPILOGUE: Final = examples("kandev-routing calls --limit 10", "kandev-routing calls show utility:0193…")
_DEFAULT_LIMIT: Final = 50

app: typer.Typer = typer.Typer(
    help="Show past calls.", epilog=EPILOGUE, invoke_without_command=True, rich_markup_mode=None
)


@app.callback()
def calls(
    context: typer.Context,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="How many.")] = _DEFAULT_LIMIT,
    as_json: AsJson = False,
) -> None:
    """List calls, newest first."""
    if context.invoked_subcommand is None:
        _list(globals_of(context), limit, as_json=as_json)


@app.command("list", epilog=examples("kandev-routing calls list --limit 10"))
def list_calls(
    context: typer.Context,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="How many.")] = _DEFAULT_LIMIT,
    as_json: AsJson = False,
) -> None:
    """List calls, newest first."""
    _list(globals_of(context), limit, as_json=as_json)


def _list(options: Globals, limit: int, *, as_json: bool) -> None:
    with options.router(read_only=True, required=False) as router:
        found = router.calls(limit=limit)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "calls": [document(c) for c in found]})
    elif not found:
        print_text("there is no call yet")
    else:
        table(
            ("call", "started", "profile", "answered by", "outcome", "cause", "attempts", "took"),
            [_row(c) for c in found],
        )


@app.command(epilog=examples("kandev-routing calls show utility:0193… --json"))
def show(
    context: typer.Context,
    call_id: Annotated[
        str, typer.Argument(metavar="CALL_ID", help="As kandev-routing calls lists it.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Show one call."""
    with globals_of(context).router(read_only=True, required=False) as router:
        found = router.call(call_id)
        attempts = router.attempts(call_id)
    if found is None:
        raise UsageError(f"there is no call {call_id!r}; kandev-routing calls lists them")
    shown = document(found)
    history = [attempt_document(a) for a in attempts]
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "call": shown, "history": history})
        return
    for name, value in shown.items():
        if value not in (None, {}):
            print_text(f"{name}: {value}")
    for attempt in history:
        why = (
            f": {attempt['code']}, {attempt['safe_excerpt'] or 'no words'}; then {attempt['decision']}"
            if attempt["code"]
            else ""
        )
        print_text(
            f"attempt {attempt['ordinal']}: {attempt['execution_profile_id']} {attempt['outcome'] or 'running'}{why}"
        )


def document(call: CallRecord) -> dict[str, Any]:
    """Return a call as JSON."""
    from kandev_routing_sdk.cli.document import utc

    return {
        "call_id": call.call_id,
        "logical_profile_id": call.logical_profile_id,
        "execution_profile_id": call.execution_profile_id,
        "family": call.family,
        "provider_id": call.provider_id,
        "model": call.model,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "outcome": call.outcome,
        "exit_code": call.exit_code,
        "code": call.code,
        "attempts": call.attempts,
        "deadline": utc(call.deadline),
        "started_at": utc(call.started_at),
        "ended_at": utc(call.ended_at),
        "summary": call.summary,
    }


def attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    """Return an attempt as JSON."""
    found, decision = attempt.classification, attempt.decision
    return {
        "ordinal": attempt.ordinal,
        "generation": attempt.generation,
        "execution_profile_id": attempt.execution_profile_id,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "code": found.code.value if found else None,
        "classifier_rule": found.classifier_rule if found else None,
        "catalogue_version": attempt.catalogue_version,
        "safe_excerpt": found.safe_excerpt if found else None,
        "decision": decision.kind.value if decision else None,
        "because": list(decision.because) if decision else [],
        "effects": attempt.effects.model_dump(mode="json") if attempt.effects else None,
    }


def _row(call: CallRecord) -> tuple[str, ...]:
    took = span((call.ended_at - call.started_at).total_seconds()) if call.ended_at else ""
    return (
        call.call_id,
        f"{call.started_at:%Y-%m-%d %H:%M:%S} UTC",
        call.logical_profile_id,
        call.execution_profile_id or "",
        call.outcome or "running",
        call.code or "",
        str(call.attempts),
        took,
    )
