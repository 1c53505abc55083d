"""Opening: puts together what every part of a router works with, from a host's own parts and defaults."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Final, NamedTuple

from pydantic import SecretBytes

from kandev_routing_sdk.binding import InstallationKey
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.catalogue.rules import RuleSource, neutral_sources
from kandev_routing_sdk.clock import Clock, IdSource, SystemClock, SystemIds
from kandev_routing_sdk.conductor import Engine
from kandev_routing_sdk.continuation import sources_of
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.plugins import BrokenPlugin, Registry, load_registry
from kandev_routing_sdk.ports import (
    Authorise,
    ContinuationSource,
    ProfileReferences,
    ProfileSource,
    SecretResolver,
    Store,
    allow,
)
from kandev_routing_sdk.profile_store import LayeredProfiles, Profiles
from kandev_routing_sdk.sessions import Crew, EventFeed, SessionHost
from kandev_routing_sdk.settings import EnvironmentSecrets, Settings, load_settings, settings_for, working_directory
from kandev_routing_sdk.spec.adapter import AgentAdapter
from kandev_routing_sdk.spec.client import NOTHING_OFFERED, ClientCapabilities, PermissionHandler
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.telemetry import Telemetry
from kandev_routing_sdk.utility import end_orphans

_SHIPPED = ("kandev_routing_sdk", "kandev_routing_claude", "kandev_routing_codex", "kandev_routing_opencode")
"""Packages whose rules this project's own tests verify; all others are verified when they are loaded (R-CLS-4)."""


POLL_S: Final = 0.5
"""Seconds between two looks for what nobody tells: events of other processes, and what a session waits for."""


class Opened(NamedTuple):
    """What a router works with."""

    engine: Engine
    settings: Settings
    profiles: Profiles
    host: SessionHost
    """What drives sessions in this process."""
    crew: Crew
    """The tasks that the router owns."""

    @classmethod
    def of(cls, engine: Engine, settings: Settings, profiles: Profiles, *, poll_s: float = POLL_S) -> Opened:
        """Return these, with what drives sessions."""
        crew = Crew()
        feed = EventFeed(engine.store, crew, poll_s=poll_s)
        engine = replace(engine, published=feed.published)
        return cls(engine, settings, profiles, SessionHost(engine, crew, feed, poll_s=poll_s), crew)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a host gave; see :meth:`~kandev_routing_sdk.router.Router.open`. Each replaces a default part."""

    url: str | None = field(default=None, repr=False)
    settings: Settings | None = field(default=None, repr=False)
    profiles: ProfileSource | None = None
    adapters: Sequence[AgentAdapter] = ()
    plugins: bool = True
    secrets: SecretResolver | None = None
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    store: Store | None = None
    key: InstallationKey | None = None
    catalogue: Catalogue | None = None
    continuation: ContinuationSource | Sequence[ContinuationSource] | None = None
    authorise: Authorise | None = None
    permissions: PermissionHandler | None = None
    client: ClientCapabilities | None = None
    references: ProfileReferences | None = None
    clock: Clock | None = None
    ids: IdSource | None = None
    scope: str | None = None
    dynamic_agent_routing: bool | None = None
    poll_s: float = POLL_S
    read_only: bool = False
    migrate: bool = True

    def open(self) -> Opened:
        """Open the store, load adapters and rules (blocking). Raises as :meth:`~kandev_routing_sdk.router.Router.open` says."""
        environ = dict(os.environ) if self.environ is None else self.environ
        settings = self._settings(environ)
        if self.catalogue is None:
            registry, catalogue = load_rules(self.adapters, plugins=self.plugins)
        else:
            registry, catalogue = load_registry(self.adapters, entry_points_too=self.plugins), self.catalogue
        clock, ids = self.clock or SystemClock(), self.ids or SystemIds()
        namespace = _executor_namespace()
        store = self.store or open_store(settings.store_url, migrate=self.migrate, read_only=self.read_only)
        engine = Engine(
            store=store,
            registry=registry,
            profiles=self.profiles or LayeredProfiles(settings, store),
            secrets=self.secrets or EnvironmentSecrets(environ),
            catalogue=catalogue,
            clock=clock,
            ids=ids,
            key=self.key or store.installation_key(_fresh_key(ids)),
            owner_id=f"{namespace}/{ids.new('owner:')}",
            executor_namespace=namespace,
            environ=environ,
            dynamic_enabled=settings.dynamic_agent_routing,
            host_scope=self.scope,
            continuation=sources_of(self.continuation, environ),
            telemetry=Telemetry(
                families=registry.adapters.keys(),
                providers=registry.providers,
                rules=[rule.id for rule in catalogue.rules],
            ),
            authorise=allow if self.authorise is None else _strictly(self.authorise),
            permissions=self.permissions,
            client=self.client or NOTHING_OFFERED,
        )
        if not self.read_only:
            interrupted = store.interrupt_calls(now=clock.now())
            engine.telemetry.interrupted(interrupted.calls)
            end_orphans(interrupted.attempts)
        return Opened.of(engine, settings, self._kept(engine, settings), poll_s=self.poll_s)

    def _kept(self, engine: Engine, settings: Settings) -> Profiles:
        own, file = self.profiles, settings.config_path
        return Profiles(
            engine,
            settings if own is None else own,
            "the host" if own is not None else "the configuration" if file is None else str(file),
            keeps=own is None,
            read_only=self.read_only,
            references=self.references,
        )

    def _settings(self, environ: Mapping[str, str]) -> Settings:
        settings = self.settings
        if settings is None and self.url is not None:
            settings = settings_for(self.url, environ=environ)
        elif settings is None:
            settings = load_settings(environ=environ, cwd=working_directory())
        elif self.url is not None:
            settings = replace(settings, store_url=settings_for(self.url, environ={}).store_url)
        if self.dynamic_agent_routing is not None:
            settings = replace(settings, dynamic_agent_routing=self.dynamic_agent_routing)
        return settings


class Opening:
    """Opens once, when it is first needed. Safe to share between threads."""

    def __init__(self, make: Callable[[], Opened]) -> None:
        self._make, self._lock = make, Lock()
        self._opened: Opened | None = None

    @property
    def is_done(self) -> bool:
        """Whether it was opened."""
        return self._opened is not None

    def opened(self) -> Opened:
        """Return what was opened; blocks the first time, and raises what opening raises."""
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    self._opened = self._make()
        return self._opened


def in_event_loop() -> bool:
    """Whether an event loop runs on this thread: nothing may block then."""
    asyncio = sys.modules.get("asyncio")  # who has not imported it runs no loop, and need not pay for it
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001  # documented, and the only one that does not raise


def folder_of(cwd: str | Path | None) -> Path:
    """Return where agents work; raises :class:`~kandev_routing_sdk.errors.UsageError` when the current directory is gone."""
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


def _strictly(authorise: Authorise) -> Authorise:
    """Take an answer for no leave: False, and what a coroutine function returns, would let everything happen unseen."""

    def ask(action: str, subject: str, /) -> None:
        ask_it: Callable[[str, str], object] = authorise
        answer = ask_it(action, subject)
        if answer is None:
            return
        if isinstance(answer, Coroutine):
            answer.close()
        raise UsageError(
            f"authorise returned a {type(answer).__name__}; a plain function that raises to refuse and returns None is needed"
        )

    return ask


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
