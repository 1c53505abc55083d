"""Plugins are found by their entry points and never trusted (R-PLG-1, R-PLG-2)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kandev_routing_sdk.errors import CatalogueError, PluginError
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.plugins import load_registry
from kandev_routing_sdk.spec import RuleText, Transport
from kandev_routing_sdk.testing import ScriptedAdapter

Install = Callable[[str, str], None]

ADAPTER = """
from kandev_routing_sdk.spec import AgentAdapter, RuleText, Transport, hookimpl

class Acme(AgentAdapter):
    family = {family!r}
    label = "Acme"
    transports = {transports}
    def plan(self, request): raise NotImplementedError
    def extractor(self, plan): raise NotImplementedError
    def rules(self): {rules}

@hookimpl
def kandev_routing_adapters():
    {before}
    return {given}
"""

GOOD = {
    "family": "acme",
    "transports": "(Transport.HEADLESS,)",
    "rules": "return ()",
    "before": "pass",
    "given": "(Acme,)",
}

FAULTS = {
    "import": ("raise ImportError('no such library')", "ImportError: no such library"),
    "syntax": ("def broken(:", "SyntaxError"),
    "no hook": ("x = 1", "implements no hook"),
    "misspelt hook": (
        ADAPTER.format(**GOOD).replace("kandev_routing_adapters", "kandev_routing_adaptors"),
        "kandev_routing_adaptors",
    ),
    "raises": (ADAPTER.format(**{**GOOD, "before": "raise KeyError('gone')"}), "KeyError"),
    "wrong type": (ADAPTER.format(**{**GOOD, "given": "('Acme',)"}), "is not an AgentAdapter class"),
    "not a list": (ADAPTER.format(**{**GOOD, "given": "3"}), "TypeError"),
    "reserved family": (ADAPTER.format(**{**GOOD, "family": "dynamic"}), "is built in"),
    "odd family": (ADAPTER.format(**{**GOOD, "family": "Acme!"}), "must match"),
    "no transports": (ADAPTER.format(**{**GOOD, "transports": "()"}), "transports must name"),
    "odd providers": (
        ADAPTER.format(**GOOD).replace("    def plan", "    providers = ['acme']\n    def plan"),
        "providers must",
    ),
    "an address": (
        ADAPTER.format(**GOOD).replace("    def plan", "    providers = frozenset({'acme.example/v1'})\n    def plan"),
        "providers must be a frozenset of words",
    ),
    "a shipped family": (ADAPTER.format(**{**GOOD, "family": "scripted"}), "registered twice"),
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a plugin as pip would: a module and its entry point."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def put(name: str, text: str) -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kandev_routing_sdk]\n{name} = {name}\n")
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        importlib.invalidate_caches()

    yield put
    for name in names:
        sys.modules.pop(name, None)


def test_an_installed_plugins_family_is_there(install: Install) -> None:
    """Beside the shipped ones."""
    install("zz_acme", ADAPTER.format(**GOOD))
    registry = load_registry()
    assert {"acme", "claude", "codex", "scripted"} <= set(registry.adapters)
    assert () == registry.broken


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_plugin_is_named_and_costs_only_its_own_families(install: Install, fault: str) -> None:
    """Whatever it does, everybody else's adapters are there."""
    text, told = FAULTS[fault]
    install("zz_acme", text)
    registry = load_registry()
    assert {"claude", "codex", "opencode", "scripted"} == set(registry.adapters)
    (broken,) = registry.broken
    assert "zz_acme" == broken.name
    assert told in broken.problem
    assert len(broken.problem) < 400


def test_the_hosts_own_adapter_replaces_an_installed_one() -> None:
    """Without an error: the host knows what it does."""
    own = ScriptedAdapter()
    assert load_registry([own]).get("scripted") is own
    assert () == load_registry([own]).broken


def test_two_adapters_of_one_family_from_the_host_are_refused() -> None:
    """That one is the host's fault, and loud."""
    with pytest.raises(PluginError, match="registered twice"):
        load_registry([ScriptedAdapter(), ScriptedAdapter()])


def test_a_class_where_the_host_gives_instances_is_told_what_to_write() -> None:
    with pytest.raises(
        PluginError, match=r"adapters: ScriptedAdapter is a class; give an instance, ScriptedAdapter\(\)"
    ):
        load_registry([ScriptedAdapter])  # type: ignore[list-item]  # the mistake


RULES = {
    "raises": "raise OSError('the file is gone')",
    "no fixtures": 'return (RuleText("acme", "[[rule]]\\nid = \\"acme.x.1\\"\\n"),)',
    "not TOML": 'return (RuleText("acme", "[[rule"),)',
}


@pytest.mark.parametrize("fault", RULES)
def test_rules_that_may_not_load_cost_only_their_own_family(install: Install, fault: str) -> None:
    """R-CLS-4: they fail at load; R-PLG-2: the router stays up, and says whose they were."""
    install("zz_acme", ADAPTER.format(**{**GOOD, "rules": RULES[fault]}))
    registry, catalogue = load_rules()
    assert {"claude", "codex", "opencode", "scripted"} == set(registry.adapters)
    assert ["acme"] == [broken.name for broken in registry.broken]
    assert any(rule.id.startswith("claude.") for rule in catalogue.rules)


def test_the_hosts_own_rules_that_may_not_load_are_loud() -> None:
    """The host gave them; nothing is quietly left out."""

    class Own(ScriptedAdapter):
        transports = (Transport.HEADLESS,)

        def rules(self) -> tuple[RuleText, ...]:
            return (RuleText("own", "[[rule"),)

    with pytest.raises(CatalogueError):
        load_rules([Own()], plugins=False)
