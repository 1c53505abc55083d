"""Finds adapters (R-PLG-1) and keeps a broken plugin from taking the router down (R-PLG-2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final, Self

import pluggy

from kandev_routing_sdk.errors import PluginError
from kandev_routing_sdk.spec import hooks
from kandev_routing_sdk.spec.adapter import AgentAdapter
from kandev_routing_sdk.types import Transport

_FAMILY: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PROVIDER: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""A word; never an address, or whose account it is."""
RESERVED_FAMILIES: Final = frozenset({"dynamic"})


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A plugin that gave nothing: its name and one sentence."""

    name: str
    problem: str

    @classmethod
    def of(cls, name: str, problem: Exception) -> Self:
        """Say in one sentence, of at most 300 characters, what a plugin raised."""
        text = " ".join(str(problem).split())
        return cls(name, f"{type(problem).__name__}: {text[:300]}" if text else type(problem).__name__)


@dataclass(frozen=True, slots=True)
class Registry:
    """The adapters of this process, by family, and the plugins that could not give theirs."""

    adapters: Mapping[str, AgentAdapter]
    broken: tuple[BrokenPlugin, ...] = ()

    @property
    def providers(self) -> frozenset[str]:
        """The upstream services that the adapters know by name."""
        return frozenset(self.adapters).union(*(adapter.providers for adapter in self.adapters.values()))

    def get(self, family: str) -> AgentAdapter | None:
        """Return the family's adapter, or None."""
        return self.adapters.get(family)


def load_registry(extra: Sequence[AgentAdapter] = (), *, entry_points_too: bool = True) -> Registry:
    """Collect adapters from ``extra`` and the installed plugins.

    Two adapters of one family among ``extra`` raise :class:`~kandev_routing_sdk.errors.PluginError`; an installed plugin that fails
    in any way is reported in ``broken`` and only its families are missing.
    """
    adapters: dict[str, AgentAdapter] = {}
    for adapter in extra:
        if isinstance(adapter, type):
            raise PluginError(f"adapters: {adapter.__name__} is a class; give an instance, {adapter.__name__}()")
        _register(adapters, adapter, "the host")
    broken: list[BrokenPlugin] = []
    if entry_points_too:
        hosts_own = frozenset(adapters)
        for name, given in _installed(broken):
            for item in given:
                try:
                    adapter = _instance(item)
                    if adapter.family not in hosts_own:  # the host's own adapter replaces an installed one
                        _register(adapters, adapter, name)
                except Exception as problem:  # noqa: BLE001  # a third party's code: whatever it raises, only its families are lost
                    broken.append(BrokenPlugin.of(name, problem))
    return Registry(MappingProxyType(adapters), tuple(broken))


def _installed(broken: list[BrokenPlugin]) -> Iterator[tuple[str, list[object]]]:
    """Yield each installed plugin's name and what its hook returned, one plugin at a time, so that faults stay apart."""
    for entry in sorted(entry_points(group=hooks.GROUP), key=lambda e: e.name):
        manager = pluggy.PluginManager(hooks.GROUP)
        manager.add_hookspecs(hooks)
        try:
            manager.register(entry.load(), name=entry.name)
            manager.check_pending()
            given: list[Iterable[object]] = manager.hook.kandev_routing_adapters()
            if not given:
                raise PluginError(f"it implements no hook of {hooks.GROUP}")  # same report as any other fault
            yield entry.name, [item for one in given for item in one]
        except Exception as problem:  # noqa: BLE001  # see above
            broken.append(BrokenPlugin.of(entry.name, problem))


def _instance(item: object) -> AgentAdapter:
    if not (isinstance(item, type) and issubclass(item, AgentAdapter)):
        raise PluginError(f"kandev_routing_adapters returned {item!r}, which is not an AgentAdapter class")
    return item()


def _register(adapters: dict[str, AgentAdapter], adapter: AgentAdapter, source: str) -> None:
    family = getattr(adapter, "family", None)
    if not isinstance(family, str) or not _FAMILY.fullmatch(family):
        raise PluginError(f"{type(adapter).__name__}.family must match {_FAMILY.pattern}, not {family!r}")
    if family in RESERVED_FAMILIES:
        raise PluginError(f"family {family!r} is built in and cannot be registered")
    if family in adapters:
        raise PluginError(f"family {family!r} is registered twice; {source} came second")
    transports = getattr(adapter, "transports", ())
    if not transports or not all(isinstance(t, Transport) for t in transports):
        raise PluginError(f"{type(adapter).__name__}.transports must name at least one Transport")
    providers: object = getattr(adapter, "providers", None)
    if not isinstance(providers, frozenset) or not all(
        isinstance(p, str) and _PROVIDER.fullmatch(p) for p in providers
    ):
        raise PluginError(
            f"{type(adapter).__name__}.providers must be a frozenset of words that match {_PROVIDER.pattern}"
        )
    adapters[family] = adapter
