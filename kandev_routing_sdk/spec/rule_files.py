"""The rules that lie beside an adapter's code (R-CLS-4)."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from kandev_routing_sdk.spec.adapter import RuleText

_FILE: Final = "rules.toml"


def packaged_rules(package: str) -> tuple[RuleText, ...]:
    """Return the ``rules.toml`` of a package, for :meth:`AgentAdapter.rules`.

    Raises:
        FileNotFoundError: the package holds none.
    """
    return (RuleText(f"{package}/{_FILE}", files(package).joinpath(_FILE).read_text("utf-8")),)
