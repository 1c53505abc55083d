"""How a table of accounts is written, and how one of its launches is planned.

A table is a list of accounts; below each stand the launches that a person would say are of that account. All launches happen on one
made-up machine, so that a path means the same place in each. ``{home}``, ``{work}`` and ``{root}`` stand for its folders.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kandev_routing_sdk.binding import fingerprint, new_installation_key
from kandev_routing_sdk.spec import LaunchPlan
from tests.adapters._plans import ACP_AGENTS, Machine

KEY: Final = "sk-ant-api03-secret-0000000000000000"
OTHER_KEY: Final = "sk-ant-api03-another-000000000000000"
INSTALLATION: Final = new_installation_key(bytes(range(32)))
WRAPPERS: Final = ("nice", "npx")


@dataclass(frozen=True)
class Launch:
    """One launch environment. ``fields`` are those of the profile; ``files`` are below the home, or anywhere with a placeholder."""

    what: str
    host: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = "this machine"


@dataclass(frozen=True)
class Account:
    """Launches that share. ``name`` is what a person would call the account; ``provider`` the service addressed."""

    name: str
    provider: str | None
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class Row:
    """One launch of the table, and the account it is expected to use; None: unprovable."""

    family: str
    account: str | None
    provider: str | None
    launch: Launch

    @property
    def name(self) -> str:
        """Family, account and launch."""
        return f"{self.family}: {self.account or 'unprovable'}: {self.launch.what}"


def launch(
    what: str,
    host: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    *,
    namespace: str = "this machine",
    **fields: Any,
) -> Launch:
    """One line of a table: what is particular, the host's variables, the files, and the fields of the profile."""
    return Launch(what, host or {}, files or {}, fields, namespace)


def account(name: str, provider: str | None, *launches: Launch) -> Account:
    """One account and everything that is it."""
    return Account(name, provider, launches)


def rows(family: str, accounts: tuple[Account, ...], unprovable: Mapping[str | None, tuple[Launch, ...]]) -> list[Row]:
    """Flatten a family's table. ``unprovable``: launches by the provider that is known nevertheless."""
    proven = [Row(family, a.name, a.provider, one) for a in accounts for one in a.launches]
    return proven + [Row(family, None, provider, one) for provider, some in unprovable.items() for one in some]


def planned(row: Row, root: Path, **changed: Any) -> LaunchPlan:
    """Plan one launch on a fresh machine at ``root``. ``changed``: fields laid over the profile's own, ``env`` merged."""
    shutil.rmtree(root, ignore_errors=True)
    machine = Machine(root, (*ACP_AGENTS, *WRAPPERS))
    given = row.launch
    for path, text in given.files.items():
        machine.file(_filled(path, machine), text.replace("{home}", str(machine.home)))
    fields = {**given.fields, **changed}
    env = {**given.fields.get("env", {}), **changed.get("env", {})}
    fields["env"] = {name: _filled(value, machine) if isinstance(value, str) else value for name, value in env.items()}
    fields["args"] = tuple(_filled(value, machine) for value in fields.get("args", ()))
    host = {name: _filled(value, machine) for name, value in given.host.items()}
    if fields.get("cwd"):
        (machine.work / fields["cwd"]).mkdir(exist_ok=True)
    try:
        return machine.plan(row.family, host, namespace=given.namespace, **fields)
    except Exception as problem:
        problem.add_note(row.name)
        raise


def fingerprint_of(plan: LaunchPlan) -> str | None:
    """The key of the account, as the conductor makes it."""
    return fingerprint(plan.descriptor, INSTALLATION) if plan.descriptor and plan.provider_id else None


def _filled(text: str, machine: Machine) -> str:
    for name in ("home", "work", "root"):
        text = text.replace(f"{{{name}}}", str(getattr(machine, name)))
    return text
