"""Which agents are on this machine, as their adapters say."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from kandev_routing_sdk.cli.output import one_line
from kandev_routing_sdk.plugins import Registry
from kandev_routing_sdk.spec.adapter import FoundAgent

VERSION_TIMEOUT_S: Final = 10.0


def found_agents(registry: Registry, environ: Mapping[str, str]) -> list[FoundAgent]:
    """Ask every adapter; starts nothing. An adapter that fails is reported with its failure as the hint."""
    found: list[FoundAgent] = []
    for family, adapter in sorted(registry.adapters.items()):
        try:
            found += adapter.discover(environ)
        except Exception as problem:  # noqa: BLE001  # a third party's code: only its family is lost (R-PLG-2)
            hint = f"its adapter failed while looking for it ({type(problem).__name__})"
            found.append(FoundAgent(family, None, adapter.transports[0], hint=hint))
    return found


def version_of(agent: FoundAgent, inherits: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """Run an agent's version command, bounded, in its own process group and without other families' variables."""
    from kandev_routing_sdk.conductor.launch import inherited
    from kandev_routing_sdk.evidence.sanitise import Sanitiser

    argv = agent.version_argv or ((agent.executable, "--version") if agent.executable else ())
    if not argv:
        return ""
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=inherited(environ, inherits),
            start_new_session=True,
        ) as child:
            try:
                output, complaints = child.communicate(timeout=VERSION_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return f"did not answer within {VERSION_TIMEOUT_S:.0f} s"
            finally:
                with suppress(ProcessLookupError):  # with whatever it left behind
                    os.killpg(child.pid, signal.SIGKILL)
    except OSError as problem:
        return f"cannot be started: {problem.strerror}"
    lines = (output.strip() or complaints)[:4096].decode("utf-8", "replace").splitlines()
    said = one_line(Sanitiser().text(next((line for line in lines if line.strip()), "")), 100)
    return said if child.returncode == 0 else f"exits with {child.returncode}{f': {said}' if said else ''}"
