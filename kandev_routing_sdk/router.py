"""The composition root: the object that a host holds."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import anyio
from pydantic import SecretBytes

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.circuits import Circuit, make_due, reset
from kandev_routing_sdk.clock import Clock, IdSource, SystemClock, SystemIds
from kandev_routing_sdk.conductor import Engine, Tell, survey
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.events import EventRecord
from kandev_routing_sdk.plugins import BrokenPlugin, Registry, load_registry
from kandev_routing_sdk.ports import AttemptRecord, CallRecord, ProfileSource, SecretResolver, Store
from kandev_routing_sdk.profiles import Candidate
from kandev_routing_sdk.resolver import resolve
from kandev_routing_sdk.results import CallResult, Explanation, Progress
from kandev_routing_sdk.route.model import Round
from kandev_routing_sdk.route.select import select
from kandev_routing_sdk.scheduler import Worker, WorkerOptions, WorkerReport
from kandev_routing_sdk.sessions import Sessions
from kandev_routing_sdk.settings import EnvironmentSecrets, Settings, load_settings, working_directory
from kandev_routing_sdk.spec.adapter import AgentAdapter
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.types import ProfileKind
from kandev_routing_sdk.utility import CallRequest, end_orphans, run_call

_SHIPPED = ("kandev_routing_sdk", "kandev_routing_claude", "kandev_routing_codex", "kandev_routing_opencode")
"""Packages whose rules this project's own tests verify; all others are verified when they are loaded (R-CLS-4)."""


class Router:
    """Routes prompts to profiles. Open one per process and close it; safe to use from several tasks.

    Make one with :meth:`open`.
    """

    def __init__(self, engine: Engine, settings: Settings, *, read_only: bool) -> None:
        self._engine = engine
        self.settings = settings
        self.read_only = read_only

    @classmethod
    def open(  # noqa: PLR0913  # the composition root: each one replaces a default part
        cls,
        settings: Settings | None = None,
        *,
        profiles: ProfileSource | None = None,
        adapters: Sequence[AgentAdapter] = (),
        plugins: bool = True,
        secrets: SecretResolver | None = None,
        environ: Mapping[str, str] | None = None,
        store: Store | None = None,
        key: InstallationKey | None = None,
        catalogue: Catalogue | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        scope: str | None = None,
        read_only: bool = False,
        migrate: bool = True,
    ) -> Self:
        """Open the store (migrating it unless told not to) and load adapters and rules.

        Args:
            settings: default: the configuration file and the environment, see :func:`~kandev_routing_sdk.load_settings`.
            profiles: a host's own profiles, instead of the file's (R-PRO-1).
            adapters: the host's own adapters; they replace installed ones of the same family.
            plugins: whether installed adapter plugins are loaded.
            secrets: resolves secret references; default: ``env:NAME`` from ``environ``.
            environ: the host's environment; default: the process's.
            store: a store to use instead of the settings' URL.
            key: the host's own installation key (R-CIR-3).
            catalogue: rules that were loaded already, instead of the neutral ones and the adapters'.
            clock: where time comes from.
            ids: where ids and jitter come from.
            scope: the host's availability scope (R-PRO-3).
            read_only: write nothing, not even migrations: for ``explain`` and ``guard``.
            migrate: False refuses an older schema instead of upgrading it.

        Raises:
            ConfigError: the configuration, or a rule file of ``adapters``, cannot be used.
            StoreError: the store cannot be opened, or is of a newer version.
        """
        environ = dict(os.environ) if environ is None else environ
        settings = settings or load_settings(environ=environ, cwd=_folder(None))
        if catalogue is None:
            registry, catalogue = load_rules(adapters, plugins=plugins)
        else:
            registry = load_registry(adapters, entry_points_too=plugins)
        clock, ids = clock or SystemClock(), ids or SystemIds()
        namespace = _executor_namespace()
        opened = store or open_store(settings.store_url, migrate=migrate, read_only=read_only)
        engine = Engine(
            store=opened,
            registry=registry,
            profiles=profiles or settings,
            secrets=secrets or EnvironmentSecrets(environ),
            catalogue=catalogue,
            clock=clock,
            ids=ids,
            key=key or opened.installation_key(_fresh_key(ids)),
            owner_id=f"{namespace}/{ids.new('owner:')}",
            executor_namespace=namespace,
            environ=environ,
            dynamic_enabled=settings.dynamic_agent_routing,
            host_scope=scope,
        )
        if not read_only:
            end_orphans(opened.interrupt_calls(now=clock.now()).attempts)
        return cls(engine, settings, read_only=read_only)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the store's connections. Calls that still run fail with a store error."""
        self._engine.store.close()

    # Calls ----------------------------------------------------------------------------------------------------------------

    def route_once(
        self,
        profile_id: str,
        prompt: str,
        *,
        timeout: float | None = None,
        on_progress: Tell | None = None,
        cwd: str | Path | None = None,
    ) -> CallResult:
        """Get one prompt answered by the first candidate that can (R-UTL); blocks until then.

        Args:
            profile_id: a concrete or dynamic profile.
            prompt: what to do.
            timeout: seconds for everything, policy waits included; None for no limit.
            on_progress: called with each :data:`~kandev_routing_sdk.results.Progress`, in order, on the calling thread.
            cwd: where the agents work; default: the current directory.

        Raises:
            CallFailed: and its children, with ``result``: what happened, attempt by attempt, and any partial output.
            RoutingError: another child when nothing could be started.
        """
        call = partial(self.route_once_async, profile_id, prompt, timeout=timeout, on_progress=on_progress, cwd=cwd)
        try:
            return anyio.run(call)
        except RuntimeError as problem:
            if "running" in str(problem):
                raise UsageError(
                    "route_once blocks; inside a running event loop await route_once_async instead"
                ) from None
            raise

    async def route_once_async(
        self,
        profile_id: str,
        prompt: str,
        *,
        timeout: float | None = None,  # part of the call's contract: its policy waits count too
        on_progress: Tell | None = None,
        cwd: str | Path | None = None,
        cancel: anyio.Event | None = None,
    ) -> CallResult:
        """:meth:`route_once` for async code (asyncio). Set ``cancel`` to end the call and still get its result, in a
        :class:`~kandev_routing_sdk.results.CallCancelled`; cancelling the task ends the agents as well.
        """
        if self.read_only:
            raise UsageError("this router was opened with read_only=True and can route nothing; open one without it")
        folder = _folder(cwd)
        return await run_call(self._engine, CallRequest(profile_id, prompt, folder, timeout, on_progress, cancel))

    def calls(self, *, limit: int = 50) -> list[CallRecord]:
        """Return utility calls, newest first (R-UTL-4)."""
        return self._engine.store.calls(limit=limit)

    def call(self, call_id: str) -> CallRecord | None:
        """Return one utility call, or None."""
        return self._engine.store.call(call_id)

    def attempts(self, call_id: str) -> list[AttemptRecord]:
        """Return a call's attempts as they were written down, in order; history, never relabelled (R-ENG-11)."""
        return self._engine.store.attempts(call_id)

    def events(self, *, session_id: str | None = None, after: int = 0, limit: int = 500) -> list[EventRecord]:
        """Return durable route events in order, from the cursor ``after`` (an event's ``sequence``) on (R-CON-6)."""
        return self._engine.store.events(session_id=session_id, after=after, limit=limit)

    # Sessions ---------------------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sessions:
        """The durable sessions of this router's store."""
        return Sessions(self._engine, read_only=self.read_only)

    async def run_worker(
        self,
        *,
        max_sessions: int = 8,
        poll_s: float = 1.0,
        grace_s: float = 30.0,
        until_idle: bool = False,
        stop: anyio.Event | None = None,
        on_progress: Callable[[str, Progress], None] | None = None,
        report: WorkerReport | None = None,
    ) -> WorkerReport:
        """Move sessions on: those that are due, whose owner died, or whose resource is back (R-DUR-4).

        Args:
            max_sessions: how many are driven at once.
            poll_s: seconds between two looks at the store.
            grace_s: seconds that a stopping worker gives running turns before it ends their agents.
            until_idle: return once there is nothing to do now.
            stop: set it to end gracefully; cancelling the task ends the agents at once.
            on_progress: called with a session's id and each :data:`~kandev_routing_sdk.results.Progress`.
            report: counted up while it works, for whoever cancels it and still wants to know.

        Raises:
            UsageError: the router is read-only, or an argument is out of its bounds.
            StoreError: the durable state cannot be reached at the start.
        """
        if self.read_only:
            raise UsageError("this router was opened with read_only=True and can move nothing; open one without it")
        options = WorkerOptions(max_sessions=max_sessions, poll_s=poll_s, grace_s=grace_s, until_idle=until_idle)
        tell = on_progress or _nobody_listens
        return await Worker(self._engine, options, lambda session_id: partial(tell, session_id), stop, report).run()

    def credentials_changed(self, profile_ids: Sequence[str] | None = None) -> list[str]:
        """Tell that logins or settings changed: circuits that wait for a person may be probed, none is closed unseen (R-CIR-7).

        ``profile_ids``: whose; default all. Returns the keys that are due now; a worker takes up the sessions that wait for them.
        """
        engine = self._engine
        wanted = tuple(engine.profiles.all()) if profile_ids is None else tuple(profile_ids)
        found = survey(engine, [Candidate(profile_id=i) for i in wanted], _folder(None))
        mine = {key.key for key in found.keys}
        due = [c.key.key for c in self.circuits() if c.action_required and c.key.key in mine]
        for key in due:
            self.retry_circuit(key)
        return due

    # Decisions and health ---------------------------------------------------------------------------------------------------

    def explain(self, profile_id: str, *, cwd: str | Path | None = None) -> Explanation:
        """Return the selection walk as it would be made now, with a reason for every candidate; changes nothing (R-ENG-3)."""
        engine = self._engine
        resolution = resolve(engine.profiles, profile_id, dynamic_enabled=True, scope=engine.host_scope)
        found = survey(engine, resolution.candidates, _folder(cwd))
        # as a call would: health does not keep a concrete profile from being asked (R-CIR-8)
        health = engine.store.circuit_view(found.keys) if resolution.kind is ProfileKind.DYNAMIC else {}
        selection = select(found.views, health, round=Round(), now=engine.clock.now())
        return Explanation(
            profile_id=profile_id,
            kind=resolution.kind,
            enabled=engine.dynamic_enabled or resolution.kind is ProfileKind.CONCRETE,
            walk=selection.walk,
            chosen_profile_id=selection.chosen.profile_id if selection.chosen else None,
            earliest=selection.earliest,
            policies={c.profile_id: c.policy for c in resolution.candidates},
            argv={i: tuple(p.cleaner.text(a) for a in p.plan.argv) for i, p in found.prepared.items()},
        )

    def circuits(self) -> list[Circuit]:
        """Return the stored health of every resource, open or closed."""
        return self._engine.store.circuits()

    def reset_circuit(self, key: str) -> Circuit:
        """Close a circuit because a person knows better. Raises :class:`~kandev_routing_sdk.errors.UsageError` if there is none."""
        return self._change_circuit(key, due=False)

    def retry_circuit(self, key: str) -> Circuit:
        """Let the next call probe an action-required circuit; it is not closed unseen (R-CIR-7)."""
        return self._change_circuit(key, due=True)

    def _change_circuit(self, key: str, *, due: bool) -> Circuit:
        while True:
            before = next((c for c in self.circuits() if c.key.key == key), None)
            if before is None:
                raise UsageError(f"no circuit has the key {key!r}; kandev-routing circuits lists them")
            after = (make_due if due else reset)(before, self._engine.clock.now())
            if after == before or self._engine.store.put_circuit(before, after):
                return after

    @property
    def catalogue(self) -> Catalogue:
        """The rules this router classifies with."""
        return self._engine.catalogue

    @property
    def registry(self) -> Registry:
        """The adapters of this process and the plugins that could not give theirs."""
        return self._engine.registry


def _nobody_listens(session_id: str, progress: Progress) -> None:
    """Take what is told."""


def _folder(cwd: str | Path | None) -> Path:
    return working_directory() if cwd is None else Path(cwd)


def load_rules(
    adapters: Sequence[AgentAdapter] = (), *, plugins: bool = True, extra: Sequence[RuleSource] = ()
) -> tuple[Registry, Catalogue]:
    """Return the adapters and the neutral rules with all of theirs, without opening a store.

    ``extra``: more rules, to be tried; with them, every fixture is verified, so that they break no other rule unseen.

    An installed plugin whose rules may not load is reported as broken, and only its family is missing (R-PLG-2); for the host's own
    ``adapters`` that is a :class:`~kandev_routing_sdk.errors.CatalogueError`.
    """
    registry = load_registry(adapters, entry_points_too=plugins)
    sound, broken = dict(registry.adapters), list(registry.broken)
    sources = [*neutral_sources()]
    for family, adapter in sorted(registry.adapters.items(), key=lambda item: (not _is_shipped(item[1]), item[0])):
        try:
            own = [RuleSource(name=text.name, text=text.text) for text in adapter.rules()]
            if own and not _is_shipped(adapter):
                Catalogue.load([*sources, *own], verify=True)
        except Exception as problem:  # a third party's code: whatever it raises, only its family is lost
            if adapter in adapters or _is_shipped(adapter):
                raise
            del sound[family]
            broken.append(BrokenPlugin.of(family, problem))
            continue
        sources += own
    return Registry(MappingProxyType(sound), tuple(broken)), Catalogue.load([*sources, *extra], verify=bool(extra))


def _is_shipped(adapter: AgentAdapter) -> bool:
    return type(adapter).__module__.partition(".")[0] in _SHIPPED


def _fresh_key(ids: IdSource) -> InstallationKey:
    return InstallationKey(1, SecretBytes(hashlib.sha256(ids.token().encode()).digest()))


def _executor_namespace() -> str:
    """Where paths, variables and the network mean what they mean here: this machine and this user, as an opaque word."""
    try:
        machine = Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        machine = ""
    words = f"{machine or socket.gethostname()}/{os.getuid()}"
    return f"local-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
