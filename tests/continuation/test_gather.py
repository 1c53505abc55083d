"""How sources are asked (R-CON-3): one that fails or hangs takes nothing from the others, and is named."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.continuation import Gathered, GitWorktree, gather, sources_of
from kandev_routing_sdk.errors import UsageError
from kandev_routing_sdk.ports import ContinuationRequest, ContinuationSource
from kandev_routing_sdk.route.parts import ContinuationPart
from tests.continuation._repository import request_of

REQUEST = request_of(Path("/"))


class Knows:
    """A source that knows this."""

    def __init__(self, answer: Any, name: str = "") -> None:
        self.answer, self.name = answer, name

    def describe(self, request: ContinuationRequest) -> ContinuationPart | None:
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: ContinuationPart | None = self.answer
        return answer


class Hangs:
    """A source that never answers before it is told to."""

    def __init__(self) -> None:
        self.end = threading.Event()

    def describe(self, request: ContinuationRequest) -> ContinuationPart | None:
        self.end.wait(60)
        return ContinuationPart(plan="too late")


PLAN, TASK = ContinuationPart(plan="the plan"), ContinuationPart(task_description="the task")


def test_what_all_know_in_their_order() -> None:
    more = ContinuationPart(plan="more")
    assert Gathered(ContinuationPart(plan="the plan\n\nmore")) == gather(
        [Knows(PLAN), Knows(None), Knows(more)], REQUEST
    )
    assert Gathered() == gather([], REQUEST)


@pytest.mark.parametrize(
    "bad",
    [ValueError("hunter2"), SystemExit(3), KeyboardInterrupt(), {"plan": "x"}, "a plan"],
    ids=["error", "exit", "interrupt", "dict", "text"],
)
def test_one_that_fails_is_missing(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert Gathered(PLAN, ("board",)) == gather([Knows(bad, "board"), Knows(PLAN)], REQUEST)
    assert ["board"] == [vars(record)["source"] for record in caplog.records]
    assert "hunter2" not in caplog.text, "what an exception says may be a secret"


@pytest.mark.parametrize("odd", [ContinuationPart(plan=7), ContinuationPart(completed=None)])  # type: ignore[arg-type]
def test_what_is_no_text_is_not_used(odd: ContinuationPart) -> None:
    found = gather([Knows(TASK), Knows(odd), Knows(PLAN)], REQUEST)
    assert ContinuationPart(task_description="the task", plan="the plan") == found.part
    assert 1 == len(found.missing)


def test_one_that_hangs_is_missing_and_not_waited_for() -> None:
    hangs, began = Hangs(), time.monotonic()
    found = gather([hangs, Knows(PLAN)], REQUEST, limit_s=0.2)
    assert Gathered(PLAN, ("Hangs",)) == found
    assert time.monotonic() - began < 5
    threads = [t for t in threading.enumerate() if t.name == "continuation: Hangs"]
    assert all(t.daemon for t in threads), "a host's process can end"
    hangs.end.set()
    for thread in threads:
        thread.join(10)


def test_the_default_sources_and_a_hosts_own() -> None:
    own = Knows(PLAN)
    assert GitWorktree in {type(source) for source in sources_of(None, {})}
    assert (own,) == sources_of(own, {}) == sources_of([own], {})
    assert () == sources_of([], {})


@pytest.mark.parametrize("given", [object(), [Knows(PLAN), "git"], GitWorktree])
def test_what_is_no_source_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="continuation: "):
        sources_of(given, {})


def test_the_shipped_sources_keep_the_contract() -> None:
    sources: list[ContinuationSource] = list(sources_of(None, {}))
    assert all(callable(source.describe) for source in sources)
