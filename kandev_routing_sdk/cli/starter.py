"""The text of a starter configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from kandev_routing_sdk.spec.adapter import FoundAgent

FRONTIER: Final = "frontier"
_HEAD: Final = """\
# kandev-routing: which agents there are, and in which order they are asked.
# Unknown keys are errors, so a typo never goes unnoticed. See docs/reference/configuration.md for every key.
version = 1

[features]
# Dynamic profiles ship turned off; this line turns them on, in plain sight.
dynamic_agent_routing = true

# Where routes, circuits and calls are kept. Default: routing.db in the user's state directory.
# [store]
# url = "sqlite:////path/to/routing.db"
"""
_NONE: Final = """
# NOTE: no agent was found on this machine when this file was written. Install one ({install}),
# then run `kandev-routing init --force`. Or remove the `# ` of the lines below that hold a `=` or stand in brackets.
"""
_OPTIONS: Final = """\
# model = "…"                             # default: the agent's own
# env = { {variable} = { secret = "env:{variable}" } }   # secrets only by reference; the agent's own login works without
"""
_POLICY: Final = """\
# A short overload is worth waiting for: retries after 5, 10 and 20 s, then the next candidate.
policy.transient.retry = { enabled = true, max_retries = 3, initial_interval_seconds = 5 }
policy.transient.on_exhausted = "skip"
# A used-up allowance: wait for its reset if that is at most five minutes away, else the next candidate.
policy.hard.wait_for_reset = { enabled = true, max_wait_seconds = 300 }
policy.hard.on_exhausted = "skip"
"""
_VARIABLES: Final = (("claude", "ANTHROPIC_API_KEY"), ("codex", "CODEX_API_KEY"), ("opencode", "OPENAI_API_KEY"))
_EXAMPLES: Final = (("claude", "Claude Code"), ("codex", "Codex"))


def starter(found: Sequence[FoundAgent], labels: dict[str, str]) -> str:
    """Return a configuration for the agents that were found; without any, one that loads and says what to do.

    Args:
        found: agents with an executable, one for each family.
        labels: families' names for people.
    """
    if found:
        named = [(agent.family, labels.get(agent.family, agent.family)) for agent in found]
        origins = [f"# Found at {agent.executable}." for agent in found]
        return "\n".join([_HEAD, *_profiles(named, origins)])
    named = [(family, labels.get(family, label)) for family, label in _EXAMPLES]
    example = "\n".join(_profiles(named, [""] * len(named)))
    commented = "\n".join(line if line.startswith("#") or not line else f"# {line}" for line in example.splitlines())
    install = " or ".join(label for _, label in named)
    return f"{_HEAD}{_NONE.format(install=install)}\n{commented}\n"


def _profiles(named: Sequence[tuple[str, str]], origins: Sequence[str]) -> list[str]:
    parts = []
    variables = dict(_VARIABLES)
    for (family, label), origin in zip(named, origins, strict=True):
        head = f"{origin}\n" if origin else ""
        variable = variables.get(family, "API_KEY")
        parts.append(
            f"{head}[profiles.{family}]\nfamily = {_text(family)}\nname = {_text(label)}\n"
            + _OPTIONS.replace("{variable}", variable)
        )
    parts.append(
        f'# The profile to call: kandev-routing run {FRONTIER} "…"\n'
        f'[profiles.{FRONTIER}]\nkind = "dynamic"\nname = "Frontier"\n'
    )
    for number, (family, _) in enumerate(named):
        policy = _POLICY if number == 0 else ""
        parts.append(f"[[profiles.{FRONTIER}.candidates]]\nprofile = {_text(family)}\n{policy}")
    return parts


def _text(value: str) -> str:
    """Return a TOML basic string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
