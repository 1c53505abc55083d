"""The composition root: the object that a host holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.circuits import Circuit
from kandev_routing_sdk.clock import Clock, IdSource
from kandev_routing_sdk.conductor import Engine, Gate, Tell, change_circuit, in_thread, may_be_probed, survey
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.events import EventRecord
from kandev_routing_sdk.opening import POLL_S, Opening, Parts, folder_of, in_event_loop
from kandev_routing_sdk.plugins import Registry
from kandev_routing_sdk.ports import (
    AttemptRecord,
    Authorise,
    CallRecord,
    ContinuationSource,
    Operation,
    ProfileReferences,
    ProfileSource,
    SecretResolver,
    Store,
)
from kandev_routing_sdk.profile_store import Profiles
from kandev_routing_sdk.resolver import Resolution, resolve
from kandev_routing_sdk.results import CallResult, Explanation, Progress
from kandev_routing_sdk.route.model import Round
from kandev_routing_sdk.route.select import select
from kandev_routing_sdk.scheduler import Worker, WorkerOptions, WorkerReport
from kandev_routing_sdk.sessions import EventStream, Order, Session, SessionHost, Sessions
from kandev_routing_sdk.settings import Settings
from kandev_routing_sdk.spec.adapter import AgentAdapter
from kandev_routing_sdk.spec.client import ClientCapabilities, PermissionHandler
from kandev_routing_sdk.telemetry import Telemetry
from kandev_routing_sdk.types import ProfileKind
from kandev_routing_sdk.utility import CallRequest, run_call


class Router:
    """Routes prompts to profiles. Open one per process and close it; safe to use from several tasks.

    Make one with :meth:`open`. What is not awaited reads or writes the store at once: in an event loop call it in a thread, as in
    ``await asyncio.to_thread(router.explain, "frontier")``. :meth:`session` and :meth:`follow` do not block.
    """

    def __init__(self, opening: Opening, *, read_only: bool) -> None:
        self._opening = opening
        self.read_only = read_only

    @classmethod
    def open(  # noqa: PLR0913  # the composition root: each one replaces a default part
        cls,
        url: str | None = None,
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
        continuation: ContinuationSource | Sequence[ContinuationSource] | None = None,
        authorise: Authorise | None = None,
        permissions: PermissionHandler | None = None,
        client: ClientCapabilities | None = None,
        references: ProfileReferences | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        scope: str | None = None,
        dynamic_agent_routing: bool | None = None,
        poll_s: float = POLL_S,
        read_only: bool = False,
        migrate: bool = True,
    ) -> Self:
        """Open the store (migrating it unless told not to) and load adapters and rules.

        Use it as ``with`` in scripts and as ``async with`` in hosts. On a thread with a running event loop nothing is opened before
        ``async with`` (which does it in a thread), or before the router is first used.

        Args:
            url: the durable state; replaces the settings' URL. With it and without ``settings`` no file is looked for.
            settings: default: the configuration file and the environment, see :func:`~kandev_routing_sdk.load_settings`.
            profiles: a host's own profiles, instead of the file's and the stored ones (R-PRO-1).
            adapters: the host's own adapters; they replace installed ones of the same family.
            plugins: whether installed adapter plugins are loaded.
            secrets: resolves secret references; default: ``env:NAME`` from ``environ``.
            environ: the host's environment; default: the process's.
            store: a store to use instead of the settings' URL.
            key: the host's own installation key (R-CIR-3).
            catalogue: rules that were loaded already, instead of the neutral ones and the adapters'.
            continuation: who knows something of the work that a successor continues, in this order (R-CON-3); default: the git
                work tree and the stored transcript. These replace them.
            authorise: asked before every write, and raises to refuse it; default: all may be done.
            permissions: answers what agents ask leave for; default: each profile's ``permissions.default``.
            client: files and terminals that the host offers to agents; default: none.
            references: says who of the host's refers to a profile, before that one is deleted or disabled (R-PRO-8).
            clock: where time comes from.
            ids: where ids and jitter come from.
            scope: the host's availability scope (R-PRO-3, R-RES-3); None: every profile may be used.
            dynamic_agent_routing: the feature flag, instead of the settings' (R-RES-4).
            poll_s: seconds between two looks for what nobody tells: events of other processes, what a session waits for.
            read_only: write nothing, not even migrations: for ``explain`` and ``guard``.
            migrate: False refuses an older schema instead of upgrading it.

        Raises:
            ConfigError: the configuration, or a rule file of ``adapters``, cannot be used.
            StoreError: the store cannot be opened, or is of a newer version.
        """
        parts = Parts(
            url=url,
            settings=settings,
            profiles=profiles,
            adapters=adapters,
            plugins=plugins,
            secrets=secrets,
            environ=environ,
            store=store,
            key=key,
            catalogue=catalogue,
            continuation=continuation,
            authorise=authorise,
            permissions=permissions,
            client=client,
            references=references,
            clock=clock,
            ids=ids,
            scope=scope,
            dynamic_agent_routing=dynamic_agent_routing,
            poll_s=poll_s,
            read_only=read_only,
            migrate=migrate,
        )
        opening = Opening(parts.open)
        if not in_event_loop():
            opening.opened()
        return cls(opening, read_only=read_only)

    @property
    def _engine(self) -> Engine:
        return self._opening.opened().engine

    @property
    def _gate(self) -> Gate:
        return Gate(self._engine, self.read_only)

    @property
    def settings(self) -> Settings:
        """What it was opened with."""
        return self._opening.opened().settings

    def __enter__(self) -> Self:
        self._opening.opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await in_thread(self._opening.opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):  # whoever is cancelled leaves nothing open either
            await self.aclose()

    def close(self) -> None:
        """Give back the store's connections. Calls that still run fail with a store error.

        Streams of events end, and so do agents that are driven here, on their event loop and without being waited for; their
        sessions are left to others once their lease is over. :meth:`aclose` waits, and leaves them at once.
        """
        if self._opening.is_done:
            opened = self._opening.opened()
            opened.crew.dismiss()
            opened.host.feed.close()
            opened.engine.store.close()

    async def aclose(self) -> None:
        """End what is driven here (its agents are stopped, its sessions left to others), every stream of events, and close."""
        if self._opening.is_done:
            opened = self._opening.opened()
            await opened.crew.close()
        await in_thread(self.close)

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
        self._gate(Operation.CALL, profile_id)
        return await run_call(
            self._engine, CallRequest(profile_id, prompt, folder_of(cwd), timeout, on_progress, cancel)
        )

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
        """Return at most ``limit`` durable events behind the cursor ``after`` (an event's ``sequence``), in order (R-CON-6)."""
        return self._engine.store.events(session_id=session_id, after=after, limit=limit)

    def follow(self, *, session_id: str | None = None, after: int = 0) -> EventStream:
        """Return durable events behind the cursor ``after``, of one session or of all, and then those that come (R-CON-6)."""
        return self._host.feed.follow(session_id=session_id, after=after)

    # Profiles ---------------------------------------------------------------------------------------------------------------

    @property
    def profiles(self) -> Profiles:
        """The profiles of this router: those of the configuration, read-only, and those of the store (R-PRO)."""
        return self._opening.opened().profiles

    # Sessions ---------------------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sessions:
        """The durable sessions of this router's store."""
        return Sessions(self._engine, read_only=self.read_only)

    @property
    def _host(self) -> SessionHost:
        return self._opening.opened().host

    async def start_session(self, profile_id: str, *, cwd: str | Path, prompt: str | None = None) -> Session:
        """Begin a durable session that is driven in this process.

        Args:
            profile_id: a concrete or dynamic profile.
            cwd: where the agents work; stored with the session.
            prompt: its first message, which is stored until it is answered (R-CON-10). Returns once it is durable; without one,
                once the session can be asked, or waits for something; where that fails, it is stopped again.

        Raises:
            UsageError: no such folder, or an empty message; the router is read-only or closed.
            RoutingError: another child when the profile may not be used, or the store refuses.
        """
        self._gate(Operation.SESSION_START, profile_id)
        route = await self._host.start(Order(profile_id, prompt, Path(cwd)))
        return self.session(route.session_id)

    def session(self, session_id: str) -> Session:
        """Return the handle of a stored session, whoever began it. That there is none is told when it is used."""
        return Session(self._host, session_id, read_only=self.read_only)

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
        self._gate.writable()
        options = WorkerOptions(max_sessions=max_sessions, poll_s=poll_s, grace_s=grace_s, until_idle=until_idle)
        tell = on_progress or _nobody_listens
        return await Worker(self._engine, options, lambda session_id: partial(tell, session_id), stop, report).run()

    def credentials_changed(self, profile_ids: Sequence[str] | None = None) -> list[str]:
        """Tell that logins or settings changed: circuits that wait for a person may be probed, none is closed unseen (R-CIR-7).

        ``profile_ids``: whose; default all. Returns the keys that are due now; a worker takes up the sessions that wait for them.
        Raises :class:`~kandev_routing_sdk.errors.UsageError` when the router is read-only.
        """
        self._gate(Operation.CREDENTIALS_CHANGED, "*" if profile_ids is None else " ".join(profile_ids))
        return may_be_probed(self._engine, profile_ids, folder_of(None))

    # Decisions and health ---------------------------------------------------------------------------------------------------

    def resolve(self, profile_id: str) -> Resolution:
        """Return what stands behind a profile id now: its kind and its candidates in order, with their policies (R-RES-1).

        Raises :class:`~kandev_routing_sdk.errors.ProfileNotFound`; where it may not be used
        :class:`~kandev_routing_sdk.errors.ProfileUnusable` or :class:`~kandev_routing_sdk.errors.DynamicRoutingDisabled`.
        """
        engine = self._engine
        return resolve(engine.profiles, profile_id, dynamic_enabled=engine.dynamic_enabled, scope=engine.host_scope)

    def explain(self, profile_id: str, *, cwd: str | Path | None = None) -> Explanation:
        """Return the selection walk as it would be made now, with a reason for every candidate; changes nothing (R-ENG-3)."""
        engine = self._engine
        resolution = resolve(engine.profiles, profile_id, dynamic_enabled=True, scope=engine.host_scope)
        found = survey(engine, resolution.candidates, folder_of(cwd), listed_by=resolution.listed_by)
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
        """Close a circuit because a person knows better.

        Raises :class:`~kandev_routing_sdk.errors.UsageError` if there is none, or the router is read-only.
        """
        self._gate(Operation.CIRCUIT_RESET, key)
        return change_circuit(self._engine, key, due=False)

    def retry_circuit(self, key: str) -> Circuit:
        """Let the next call probe an action-required circuit; it is not closed unseen (R-CIR-7).

        Raises as :meth:`reset_circuit`.
        """
        self._gate(Operation.CIRCUIT_RETRY, key)
        return change_circuit(self._engine, key, due=True)

    @property
    def catalogue(self) -> Catalogue:
        """The rules this router classifies with."""
        return self._engine.catalogue

    @property
    def telemetry(self) -> Telemetry:
        """What it tells of itself; ``add_sink`` lets somebody hear it beside OpenTelemetry (R-OBS-1)."""
        return self._engine.telemetry

    @property
    def registry(self) -> Registry:
        """The adapters of this process and the plugins that could not give theirs."""
        return self._engine.registry


def _nobody_listens(session_id: str, progress: Progress) -> None:
    """Take what is told."""
