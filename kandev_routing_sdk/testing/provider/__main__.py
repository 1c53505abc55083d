"""``python -m kandev_routing_sdk.testing.provider``: the loopback provider for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from kandev_routing_sdk.testing.provider.record import RequestRecord
from kandev_routing_sdk.testing.provider.scenarios import SCENARIOS
from kandev_routing_sdk.testing.provider.server import LoopbackProvider


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kandev_routing_sdk.testing.provider",
        description="A model provider on 127.0.0.1 that fails as told (Anthropic Messages, OpenAI Responses and Chat Completions). "
        "Prints its base URL, then one JSON line per request, without headers or bodies. Ctrl-C ends it.",
    )
    parser.add_argument("--scenario", default="success", choices=sorted(SCENARIOS), metavar="NAME",
                        help="what requests get whose path does not begin with /s/NAME (default: success)")  # fmt: skip
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: a free one)")
    parser.add_argument("--fail-times", type=int, help="give the scenario's failure only so often, then answer")
    parser.add_argument("--list", action="store_true", help="list the scenarios and end")
    return parser


def _line(record: RequestRecord) -> str:
    shown = {"method": record.method, "path": record.path, "scenario": record.scenario, "auth": record.auth.value}
    return json.dumps({"at": record.at.isoformat(), **shown, "status": record.status})


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.list:
        for name, scenario in SCENARIOS.items():
            _say(f"{name:24} {scenario.summary}")
        return 0
    provider = LoopbackProvider(options.scenario, port=options.port)
    if options.fail_times is not None:
        provider.set(options.scenario, fail_times=options.fail_times)
    try:
        with provider:
            _say(provider.url())
            for record in provider.follow():
                _say(_line(record))
    except KeyboardInterrupt:
        _say("closed")
    except OSError as problem:
        sys.stderr.write(
            f"error: port {options.port} cannot be listened on ({problem.strerror}); choose another --port\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
