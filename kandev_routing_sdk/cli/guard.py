"""``guard``: is somebody free? The exit code says it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Profile, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, moment, print_json, print_text
from kandev_routing_sdk.errors import DynamicRoutingDisabled

EXIT_NONE_FREE: Final = 69
EPILOGUE: Final = examples(
    'kandev-routing guard frontier --quiet && kandev-routing run frontier "Nightly clean-up"',
)


def guard(
    context: typer.Context,
    profile: Profile,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Exit with 0 if a candidate is free now, with 69 if none is. Starts nothing and writes nothing."""
    from kandev_routing_sdk.cli.document import utc
    from kandev_routing_sdk.clock import SystemClock

    with globals_of(context).router(read_only=True) as router:
        found = router.explain(profile)
    if not found.enabled:
        raise DynamicRoutingDisabled
    exit_code = 0 if found.chosen_profile_id is not None else EXIT_NONE_FREE
    if as_json:
        print_json(
            {
                "schema_version": SCHEMA_VERSION,
                "profile_id": found.profile_id,
                "free": exit_code == 0,
                "chosen_profile_id": found.chosen_profile_id,
                "earliest": utc(found.earliest),
                "exit_code": exit_code,
            }
        )
    elif not quiet:
        if found.chosen_profile_id is not None:
            print_text(f"free: {found.chosen_profile_id}")
        elif found.earliest is not None:
            print_text(f"none free; the first may be back {moment(found.earliest, SystemClock().now())}")
        else:
            reasons = "; ".join(f"{e.profile_id}: {e.detail}" for e in found.walk)
            print_text(f"none free, and none comes back by itself: {reasons}")
    raise typer.Exit(exit_code)
