"""What never changes a fingerprint, never enters it, and never shows beside it (R-CIR-3). For every account of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_routing_sdk.binding import canonical, fingerprint, new_installation_key
from kandev_routing_sdk.circuits import ResourceIdentity, consulted_keys
from kandev_routing_sdk.spec import LaunchPlan
from kandev_routing_sdk.types import Transport
from tests.adapters._accounts import INSTALLATION, KEY, OTHER_KEY, Row, fingerprint_of, planned
from tests.adapters._accounts_claude import CLAUDE
from tests.adapters._accounts_codex import CODEX
from tests.adapters._accounts_opencode import OPENCODE

PROVEN: Final[list[Row]] = [row for row in (*CLAUDE, *CODEX, *OPENCODE) if row.account is not None]
PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "claude": ("claude", "claude-agent-acp"),
    "codex": ("codex", "codex-acp"),
    "opencode": ("opencode", "opencode"),
}
"""Headless, over ACP."""
MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "claude": ("default", "plan", "acceptEdits"),
    "codex": ("read-only", "workspace-write", "bypass"),
    "opencode": ("build", "plan"),
}
OWN_LITERALS: Final[Mapping[str, str]] = {"claude": "CLAUDE_CODE_SOME_LITERAL", "codex": "CODEX_SOME_LITERAL"}
"""What a helper that prints the credential is not told by: any other variable may be meant for it."""
WORDS: Final = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=16, max_size=40)


class Accounts:
    """The table, planned once: each row's plan and fingerprint, and the folder of the machine they are on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plans: Mapping[str, LaunchPlan] = {row.name: planned(row, root) for row in PROVEN}
        self.keys: Mapping[str, str | None] = {name: fingerprint_of(plan) for name, plan in self.plans.items()}


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Accounts:
    return Accounts(tmp_path_factory.mktemp("accounts") / "machine")


def _with_secret(row: Row, secret: str) -> Row:
    """The same launch with other contents wherever a secret stands: variables, files, logins."""

    def changed(values: Mapping[str, str]) -> dict[str, str]:
        return {name: text.replace(KEY, secret).replace(OTHER_KEY, secret[::-1]) for name, text in values.items()}

    return replace(row, launch=replace(row.launch, host=changed(row.launch.host), files=changed(row.launch.files)))


def _shown(plan: LaunchPlan, profile_id: str = "p") -> str:
    """Everything that may be written down of a launch: the plan, the descriptor, the keys of its circuits."""
    identity = ResourceIdentity(plan.provider_id, plan.model_id, fingerprint_of(plan), profile_id, "this machine")
    descriptor = plan.descriptor
    return "\n".join(
        (
            repr(plan),
            repr(descriptor),
            canonical(descriptor).decode() if descriptor else "",
            repr(consulted_keys(identity)),
        )
    )


def _arguments(row: Row, word: str) -> tuple[str, ...]:
    own: tuple[str, ...] = tuple(row.launch.fields.get("args", ()))
    more = {
        "claude": f"--debug-file={word}",
        "codex": f'--config=model_verbosity="{word}"',
        "opencode": f"--file={word}.md",
    }
    return (*own, more[row.family])


@settings(max_examples=150, deadline=None)
@given(row=st.sampled_from(PROVEN), secret=WORDS)
def test_the_value_of_a_secret_changes_no_fingerprint_and_shows_nowhere(
    accounts: Accounts, row: Row, secret: str
) -> None:
    plan = planned(_with_secret(row, secret), accounts.root)
    assert (row.name, accounts.keys[row.name]) == (row.name, fingerprint_of(plan))
    shown = _shown(plan)
    assert [] == [text for text in (secret, secret[::-1]) if text in shown]


@settings(max_examples=200, deadline=None)
@given(row=st.sampled_from(PROVEN), word=WORDS, transport=st.sampled_from([*Transport, None]), mode=st.integers(0, 9))
def test_whatever_else_a_profile_says_changes_no_fingerprint_and_shows_nowhere(
    accounts: Accounts, row: Row, word: str, transport: Transport | None, mode: int
) -> None:
    """Literals, flags, mode, transport, the command's prefix, servers, names. A prompt is no part of what is planned with."""
    fields = row.launch.fields
    transport = fields.get("transport", transport)  # a row that names one does so because only that one signs in so
    headless, acp = PROGRAMS[row.family]
    descriptor = accounts.plans[row.name].descriptor
    helped = descriptor is not None and descriptor.source_kind == "helper"
    modes = MODES[row.family]
    changed: dict[str, Any] = {
        "args": _arguments(row, f"flag{word}"),
        "env": {OWN_LITERALS[row.family] if helped else "SOME_LITERAL": f"literal{word}"},
        "mode": modes[mode % len(modes)],
        "command": ("nice", f"prefix{word}", acp if transport is Transport.ACP else headless),
        "transport": transport,
        "mcp": {"docs": {"command": "serve", "args": [], "env": {"DOCS_TOKEN": f"token{word}"}}},
        "id": "another",
        "name": f"name{word}",
        "description": f"description{word}",
    }
    plan = planned(row, accounts.root, **changed)
    assert (row.name, accounts.keys[row.name]) == (row.name, fingerprint_of(plan))
    assert row.provider == plan.provider_id
    shown = _shown(plan, "another")
    where = shown.find(word)
    assert (-1, "") == (where, shown[max(0, where - 60) : where] if where >= 0 else "")


@settings(max_examples=150, deadline=None)
@given(row=st.sampled_from(PROVEN), word=WORDS)
def test_the_model_changes_no_fingerprint_and_no_descriptor(accounts: Accounts, row: Row, word: str) -> None:
    """OpenCode's model names its provider, which stays."""
    provider = str(row.launch.fields.get("model", "anthropic/")).partition("/")[0]
    model = f"{provider}/{word}" if row.family == "opencode" else word
    plan = planned(row, accounts.root, model=model)
    assert plan.descriptor is not None
    assert (row.name, accounts.keys[row.name]) == (row.name, fingerprint_of(plan))
    assert word not in canonical(plan.descriptor).decode()
    assert word == plan.model_id


@settings(max_examples=50, deadline=None)
@given(material=st.binary(min_size=32, max_size=64))
def test_another_installation_has_other_fingerprints(accounts: Accounts, material: bytes) -> None:
    """Whoever copies a store learns nothing from comparing it with another one's."""
    theirs = new_installation_key(material)
    if theirs.material == INSTALLATION.material:
        return
    ours = {key for key in accounts.keys.values() if key is not None}
    found = {fingerprint(plan.descriptor, theirs) for plan in accounts.plans.values() if plan.descriptor}
    assert set() == ours & found
    assert len(ours) == len(found)


def test_families_never_share(accounts: Accounts) -> None:
    by_family: dict[str, set[str | None]] = {}
    for row in PROVEN:
        by_family.setdefault(row.family, set()).add(accounts.keys[row.name])
    assert sum(map(len, by_family.values())) == len(set().union(*by_family.values()))


def test_a_fingerprint_says_nothing_but_its_version(accounts: Accounts) -> None:
    for row in PROVEN:
        key = accounts.keys[row.name]
        assert key is not None
        version, _, digest = key.partition(":")
        assert ("v1", 64, True) == (version, len(digest), set(digest) <= set("0123456789abcdef"))


def test_a_descriptor_has_the_named_parts_and_no_others(accounts: Accounts) -> None:
    parts = {
        "authorisation_scope", "executor_namespace", "family", "locator", "mechanism", "source_kind", "version", "workspace_scope",
    }  # fmt: skip
    for row in PROVEN:
        descriptor = accounts.plans[row.name].descriptor
        assert descriptor is not None
        assert (row.name, parts) == (row.name, set(json.loads(canonical(descriptor))))
        assert row.family == descriptor.family
