"""``doctor``: can this machine route, and if not, what is missing?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kandev_routing_sdk.cli.common import AsJson, Globals, examples, globals_of
from kandev_routing_sdk.cli.output import SCHEMA_VERSION, one_line, print_json, styled
from kandev_routing_sdk.errors import CatalogueError, ConfigNotFound, RoutingError

if TYPE_CHECKING:
    from kandev_routing_sdk.plugins import Registry
    from kandev_routing_sdk.settings import Settings

EPILOGUE: Final = examples("kandev-routing doctor", "kandev-routing doctor --versions", "kandev-routing doctor --json")
_CONFIG, _STORE, _NOBODY = 78, 73, 69
_WORST_FIRST: Final = (_CONFIG, _STORE, _NOBODY)
_DISTRIBUTIONS: Final = (
    "kandev-routing-sdk", "kandev-routing-claude", "kandev-routing-codex", "kandev-routing-opencode", "sqlalchemy", "pydantic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``exit_code``: 0 is fine, or a mere remark."""

    section: str
    text: str
    exit_code: int = 0
    remark: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def doctor(
    context: typer.Context,
    versions: Annotated[
        bool, typer.Option("--versions", help="Also run each agent's --version, at most 10 s each.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check configuration, state database, adapters, agents and profiles.

    Starts nothing (but --versions) and writes nothing. Exits with 0 if routing can work, else with the code of the worst finding.
    """
    findings = list(_examine(globals_of(context), versions=versions))
    codes = {f.exit_code for f in findings}
    exit_code = next((code for code in _WORST_FIRST if code in codes), 0)
    if as_json:
        shown = [
            {"section": f.section, "ok": f.exit_code == 0, "exit_code": f.exit_code, "text": f.text, **f.facts}
            for f in findings
        ]
        print_json({"schema_version": SCHEMA_VERSION, "findings": shown, "exit_code": exit_code})
    else:
        for finding in findings:
            mark, style = (
                ("fail", "red") if finding.exit_code else ("note", "yellow") if finding.remark else ("ok", "green")
            )
            styled(sys.stdout, f"{mark:4}  {finding.section}: {one_line(finding.text, 1000)}", style)
    raise typer.Exit(exit_code)


def _examine(options: Globals, *, versions: bool) -> Iterator[Finding]:
    from kandev_routing_sdk.opening import load_rules

    yield _python()
    settings: Settings | None = None
    try:
        settings = options.settings(required=False)
        yield from _configuration(settings)
    except RoutingError as problem:
        yield Finding("configuration", str(problem), _CONFIG)
    registry, _ = load_rules()
    yield from _adapters(registry)
    yield from _agents(registry, versions=versions)
    if settings is not None:
        yield from _state(settings)
        yield from _profiles(options, settings)


def _python() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    python = ".".join(map(str, sys.version_info[:3]))
    return Finding(
        "versions",
        ", ".join([f"Python {python}", *(f"{n} {v}" for n, v in found.items())]),
        facts={"python": python, "packages": found},
    )


def _configuration(settings: Settings) -> Iterator[Finding]:
    if settings.config_path is None:
        missing = ConfigNotFound("there is no kandev-routing.toml; write one with kandev-routing init")
        yield Finding("configuration", str(missing), _CONFIG)
    values = {
        "config": None if settings.config_path is None else str(settings.config_path),
        "features.dynamic_agent_routing": settings.dynamic_agent_routing,
        "store.url": _url(settings.store_url),
    }
    for name, value in values.items():
        source = settings.provenance.get(name, "default")
        if value is not None:
            shown = str(value).lower() if isinstance(value, bool) else value
            yield Finding(
                "setting", f"{name} = {shown} (from: {source})", facts={"name": name, "value": value, "source": source}
            )
    if settings.config_path is not None and not settings.dynamic_agent_routing:
        yield Finding(
            "setting", "dynamic profiles are refused: set dynamic_agent_routing = true under [features]", remark=True
        )


def _url(url: str) -> str:
    """The URL without a password."""
    if url.startswith("sqlite:"):
        return url
    import sqlalchemy

    return sqlalchemy.make_url(url).set(query={}).render_as_string(hide_password=True)


def _adapters(registry: Registry) -> Iterator[Finding]:
    for family, adapter in sorted(registry.adapters.items()):
        best, *others = adapter.transports
        also = f", also {', '.join(others)}" if others else ""
        facts = {"family": family, "transports": list(adapter.transports)}
        yield Finding("adapter", f"{family}: {adapter.label} (best transport {best}{also})", facts=facts)
    for broken in registry.broken:
        yield Finding(
            "adapter",
            f"plugin {broken.name} could not be loaded: {broken.problem}",
            remark=True,
            facts={"plugin": broken.name},
        )
    if not registry.adapters:
        yield Finding(
            "adapter",
            "no adapter is installed; install kandev-routing-claude, kandev-routing-codex or kandev-routing-opencode",
            _NOBODY,
        )


def _agents(registry: Registry, *, versions: bool) -> Iterator[Finding]:
    from kandev_routing_sdk.cli.agents import found_agents, version_of

    chosen: set[str] = set()  # a profile that names no transport takes the first that is there
    for agent in found_agents(registry, os.environ):
        default = agent.executable is not None and agent.family not in chosen
        facts = {
            "family": agent.family,
            "executable": agent.executable,
            "transport": agent.transport.value,
            "default": default,
        }
        if agent.executable is None:
            hint = agent.hint or "install it, or name its command in the profile"
            yield Finding("agent", f"{agent.family} ({agent.transport}): not found; {hint}", remark=True, facts=facts)
            continue
        chosen.add(agent.family)
        text = f"{agent.family} ({agent.transport}{', default' if default else ''}): {agent.executable}"
        if versions:
            adapter = registry.get(agent.family)
            said = version_of(agent, adapter.inherits if adapter else (), os.environ)
            text, facts = f"{text}, {said}", {**facts, "version": said}
        yield Finding("agent", text, facts=facts)


def _state(settings: Settings) -> Iterator[Finding]:
    from kandev_routing_sdk.store import open_store
    from kandev_routing_sdk.store.migrate import HEAD

    problem = _unwritable(settings.store_url)
    if problem is not None:
        yield Finding("state", problem, _STORE)
        return
    try:
        open_store(settings.store_url, read_only=True).close()
    except RoutingError as failure:
        yield Finding("state", str(failure), failure.exit_code if failure.exit_code in _WORST_FIRST else _STORE)
        return
    path = _sqlite_path(settings.store_url)
    there = "reachable and writable" if path is None or path.exists() else "will be made by the first run"
    yield Finding("state", f"{_url(settings.store_url)}: {there} (schema {HEAD})", facts={"schema": HEAD})


def _sqlite_path(url: str) -> Path | None:
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def _unwritable(url: str) -> str | None:
    """Say why an SQLite file could not be written, without touching it; of another database the first run will tell."""
    path = _sqlite_path(url)
    if path is None:
        return None
    folder = next(p for p in path.absolute().parents if p.exists())
    places = (folder, path) if path.exists() else (folder,)
    for place in places:
        if not os.access(place, os.W_OK) or (place is folder and not folder.is_dir()):
            return (
                f"the database {path} cannot be written ({place} is read-only or no folder); "
                "choose another place with url under [store]"
            )
    return None


def _profiles(options: Globals, settings: Settings) -> Iterator[Finding]:
    try:
        with options.router(read_only=True, required=False) as router:
            walks = {entry.id: _walk(router.explain, entry.id) for entry in router.profiles.list()}
    except RoutingError as problem:
        if problem.exit_code != _STORE:  # that one is told already
            what = "rules" if isinstance(problem, CatalogueError) else "profile"
            yield Finding(what, str(problem), problem.exit_code if problem.exit_code in _WORST_FIRST else _CONFIG)
        return
    if not walks and settings.config_path is not None:
        yield Finding(
            "profile",
            "neither the configuration nor the store has a profile; add one, or let kandev-routing init --force write it anew",
            _NOBODY,
        )
    usable = any(ok for ok, _ in walks.values())
    for profile_id, (ok, text) in walks.items():
        yield Finding(
            "profile",
            f"{profile_id}: {text}",
            0 if ok or usable else _NOBODY,
            remark=not ok,
            facts={"profile_id": profile_id, "launchable": ok},
        )


def _walk(explain: Any, profile_id: str) -> tuple[bool, str]:  # noqa: ANN401  # the router's method
    """Whether anybody of a profile can be launched, and each candidate's state. Shared health does not count here."""
    try:
        found = explain(profile_id)
    except RoutingError as problem:
        return False, str(problem)
    parts = [
        # a concrete profile's own id stands before the sentence already
        ("" if e.profile_id == profile_id else f"{e.profile_id}: ")
        + (f"can be launched ({e.transport})" if _launchable(e.reason) else e.detail)
        for e in found.walk
    ]
    return any(_launchable(e.reason) for e in found.walk), "; ".join(parts)


def _launchable(reason: str) -> bool:
    return reason in {"chosen", "chosen_as_probe", "after_chosen", "circuit_open", "probe_leased", "action_required"}
