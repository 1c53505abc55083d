"""Routers without a configuration file, on each engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kandev_routing_sdk import Router
from kandev_routing_sdk.catalogue.classify import Catalogue
from kandev_routing_sdk.opening import load_rules
from kandev_routing_sdk.testing import FakeClock, FakeIds, ScriptedAdapter

Open = Callable[..., Router]


@pytest.fixture(scope="session")
def rules() -> Catalogue:
    return load_rules([ScriptedAdapter()], plugins=False)[1]


def _opens(url: str, rules: Catalogue, stack: ExitStack) -> Open:
    def open_one(**options: Any) -> Router:
        given = {"adapters": [ScriptedAdapter()], "dynamic_agent_routing": True, **options}
        router = Router.open(url, plugins=False, catalogue=rules, clock=FakeClock(), ids=FakeIds(), environ={}, **given)
        return stack.enter_context(router)

    return open_one


@pytest.fixture
def opens(database_url: str, rules: Catalogue) -> Iterator[Open]:
    """Opens a router on the database of this test, on each engine."""
    with ExitStack() as stack:
        yield _opens(database_url, rules, stack)


@pytest.fixture
def opens_quickly(sqlite_url: str, rules: Catalogue) -> Iterator[Open]:
    """As above, where the engine makes no difference."""
    with ExitStack() as stack:
        yield _opens(sqlite_url, rules, stack)


def concrete(profile_id: str = "sol", **fields: Any) -> dict[str, Any]:
    """The document of a concrete profile that can be launched."""
    return {"id": profile_id, "family": "scripted", "command": [sys.executable], **fields}


def dynamic(*candidates: str | dict[str, Any], profile_id: str = "frontier", **fields: Any) -> dict[str, Any]:
    """The document of a dynamic profile."""
    listed = [{"profile_id": c} if isinstance(c, str) else c for c in candidates]
    return {"id": profile_id, "kind": "dynamic", "candidates": listed, **fields}
