"""What a successor is told, by real workers and agents (R-CON-3, R-CON-4, R-CON-10, R-SAFE-4, R-SAFE-5)."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kandev_routing_sdk.conductor.parting import REQUEST
from kandev_routing_sdk.continuation import GitWorktree, gather
from kandev_routing_sdk.events import EventKind
from kandev_routing_sdk.ports import ContinuationPart, ContinuationRequest
from kandev_routing_sdk.profiles import Profile
from kandev_routing_sdk.route.continuation import LEAST_NOTE_BYTES, OPENING
from kandev_routing_sdk.route.snapshot import Snapshot
from kandev_routing_sdk.testing import ScriptBuilder
from kandev_routing_sdk.types import AttemptOutcome, CircuitState
from tests.routes._world import answers
from tests.sessions._home import Home

WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


class Source:
    """A host's source that knows this, fails, or hangs."""

    name = "task board"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[ContinuationRequest] = []

    def describe(self, request: ContinuationRequest) -> ContinuationPart | None:
        self.asked.append(request)
        if isinstance(self.answer, threading.Event):
            self.answer.wait(60)
            return None
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: ContinuationPart | None = self.answer
        return answer


def work_tree(home: Home) -> Path:
    """Where the agents work: a repository with one commit."""
    folder = home.folder / "work"
    folder.mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.folder), **WHO}
    (folder / "old.py").write_text("old = 1\n")
    for command in (("init", "-q", "-b", "trunk"), ("add", "-A"), ("commit", "-qm", "before")):
        subprocess.run(["git", *command], cwd=folder, env=environ, check=True)
    return folder


def begin(home: Home, text: str, cwd: Path) -> str:
    begun: Snapshot = home.async_with(lambda r: r.sessions.start("frontier", text, cwd=cwd))
    return begun.session_id


def told(home: Home, name: str) -> str:
    """The last prompt that an agent really got."""
    return home.agents[name].prompts[-1].prompt


def two_turns(home: Home, **options: Any) -> str:
    """Fable answers, and its limit is reached between the turns; Codex answers the second."""
    home.agent(
        "fable", answers().tool("Write made.py", line="made = 'by fable'").say("I made it"), answers().fail_quota(3600)
    )
    home.agent("codex", answers().say("done"))
    cwd = work_tree(home)
    home.agents["fable"].set(effects=str(cwd / "made.py"))
    session = begin(home, "make a file", cwd)
    home.work()
    home.async_with(lambda r: r.sessions.prompt(session, "now use it"), **options)
    home.async_with(lambda r: r.run_worker(until_idle=True, poll_s=0.01), **options)
    return session


def test_the_successor_is_told_of_the_file_that_its_predecessor_made_and_its_diff(lite_home: Home) -> None:
    """R-CON-3, R-CON-4: the request first and whole, then what is there."""
    session = two_turns(lite_home)
    assert ["fable", "fable", "codex"] == lite_home.by(session)
    prompt = told(lite_home, "codex")
    assert prompt.startswith(f"now use it\n\n{OPENING}\n")
    for part in (
        "You continue existing work",
        "This request was given to another agent (fable) first, which failed before it did anything",
        "Why the agent changed: quota_limited (hard).",
        "> On branch trunk at ",
        ">   ?? made.py",
        "> made.py | new, not added",
        "> new file made.py\n> +made = 'by fable'",
        "Earlier messages of the user, oldest first:\n> - make a file",
        "Conversation so far:\n> fable, to message 1 (ended: succeeded):\n> I made it",
        "Tools and results:\n> fable, for message 1: Write made.py: done",
    ):
        assert part in prompt
    assert 1 == prompt.count("now use it"), "it is not its own past"

    # what was stored is what the agents got, to the letter
    got = [
        *(p.prompt for p in lite_home.agents["fable"].prompts),
        *(p.prompt for p in lite_home.agents["codex"].prompts),
    ]
    kept = lite_home.async_with(_prompts(session))
    assert got == [p.text for p in kept]
    assert [row.attempt_id for row in lite_home.rows(session)] == [p.attempt_id for p in kept]


def _prompts(session: str) -> Any:
    async def read(router: Any) -> Any:
        return router.sessions.prompts(session)

    return read


def test_a_call_keeps_no_prompt(lite_home: Home) -> None:
    """R-UTL-4."""
    lite_home.agent("fable", answers().fail_quota(60))
    lite_home.agent("codex", answers().say("done"))
    call = lite_home.call("a secret wish")
    (record,) = lite_home.store.calls()
    assert call.call_id == record.call_id
    assert 2 == len(lite_home.rows(record.session_id))
    assert [] == lite_home.store.prompts(record.session_id)


def test_a_replay_of_the_first_request_is_told_no_history(lite_home: Home) -> None:
    """R-CON-10: provably nothing happened, so nobody is asked and nothing is made up."""
    source = Source(ContinuationPart(plan="a plan"))
    lite_home.agent("fable", answers().fail_quota(3600))
    lite_home.agent("codex", answers().say("done"))
    begin(lite_home, "do it", work_tree(lite_home))
    lite_home.async_with(lambda r: r.run_worker(until_idle=True, poll_s=0.01), continuation=source)
    assert [] == source.asked
    note = told(lite_home, "codex").removeprefix("do it\n\n")
    assert "failed before it did anything" in note
    assert 5 == len(note.splitlines())


@pytest.mark.parametrize("fault", ["raises", "hangs"])
def test_a_source_that_fails_holds_nothing_up(lite_home: Home, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-CON-3: the switch goes on with what the others gave, and the note says what is missing."""
    monkeypatch.setattr("kandev_routing_sdk.conductor.handover.gather", partial(gather, limit_s=1.0))
    hung = threading.Event()
    bad = Source(ValueError("hunter2") if fault == "raises" else hung)
    two_turns(lite_home, continuation=[bad, GitWorktree(environ=os.environ)])
    hung.set()
    prompt = told(lite_home, "codex")
    assert "Could not be found out, so look for yourself: task board." in prompt.splitlines()
    assert ">   ?? made.py" in prompt
    assert "hunter2" not in prompt


def test_what_a_host_knows_is_told_and_what_it_is_asked(lite_home: Home) -> None:
    part = ContinuationPart(
        task_description="Ship it", plan="1. make\n2. use", completed=("made it",), user_messages=("make a file",)
    )
    source = Source(part)
    session = two_turns(lite_home, continuation=source)
    prompt = told(lite_home, "codex")
    for text in (
        "Task:\n> Ship it",
        "Plan:\n> 1. make\n> 2. use",
        "Completed, do not repeat:\n> - made it",
        "> - make a file",
    ):
        assert text in prompt
    asked = source.asked[-1]
    assert (session, lite_home.folder / "work", "fable", 2, "now use it") == (
        asked.session_id,
        asked.cwd,
        asked.profile_id,
        asked.prompt_number,
        asked.request,
    )


def test_after_effects_the_successor_is_told_what_to_verify(lite_home: Home) -> None:
    """R-SAFE-4, R-CON-10: a person tries the next one, and it inspects before it repeats anything."""
    lite_home.agent("fable", answers().tool(line="once").fail_quota(60))
    lite_home.agent("codex", answers().say("done"))
    cwd = work_tree(lite_home)
    lite_home.agents["fable"].set(effects=str(cwd / "made.txt"))
    session = begin(lite_home, "do it", cwd)
    lite_home.work()
    assert "unsafe_effects" == lite_home.see(session).reason
    lite_home.act(lite_home.see(session), "skip_now")
    lite_home.work()
    prompt = told(lite_home, "codex")
    assert prompt.startswith("do it\n\n")
    assert "Inspect the present state first, and repeat nothing before you have verified" in prompt
    assert (
        "Must not be repeated before it is verified:\n> - whatever attempt 1 (fable) did: it ended as failed, and a tool ran"
        in prompt
    )
    assert "Completed, do not repeat:\n> - Append a line (attempt 1, fable)" in prompt
    assert ">   ?? made.txt" in prompt
    assert "failed before it did anything" not in prompt


def test_a_note_that_cannot_be_built_launches_nobody(lite_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-SAFE-5."""

    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    lite_home.agent("fable", answers().say("hi"), answers().fail_quota(3600))
    lite_home.agent("codex", answers().say("done"))
    session = begin(lite_home, "do it", lite_home.folder)
    lite_home.work()
    with monkeypatch.context() as patch:
        patch.setattr("kandev_routing_sdk.conductor.handover.render_note", broken)
        lite_home.say(session, "and then")
        lite_home.work()
    seen = lite_home.see(session)
    assert ("action_required", "handover_failed", True) == (seen.state, seen.reason, seen.has_prompt)
    assert 0 == lite_home.agents["codex"].starts

    lite_home.act(seen, "skip_now")
    lite_home.work()
    assert "active" == lite_home.see(session).state


def test_the_note_is_fitted_to_the_successors_window(lite_home: Home) -> None:
    source = Source(ContinuationPart(plan="p" * 4000, task_description="t" * 4000, conversation_summary="c" * 8000))
    lite_home.agent("fable", answers().say("hi"), answers().fail_quota(3600))
    lite_home.agent("codex", answers().say("done"), options={"context_tokens": 2000})
    session = begin(lite_home, "do it", lite_home.folder)
    lite_home.work()
    lite_home.say(session, "and then")
    lite_home.async_with(lambda r: r.run_worker(until_idle=True, poll_s=0.01), continuation=source)
    prompt = told(lite_home, "codex")
    assert prompt.startswith("and then\n\n")
    assert len(prompt.encode()) - len("and then\n\n") <= LEAST_NOTE_BYTES
    assert "Left out for length: " in prompt


# --- last words ---


class Edited:
    """Profiles that a person edits when something was seen."""

    def __init__(self, home: Home, seen: Callable[[], object]) -> None:
        self._home, self._seen = home, seen

    def all(self) -> Mapping[str, Profile]:
        for candidate in self._home.candidates:
            candidate["enabled"] = not (candidate["profile"] == "fable" and self._seen())
        return self._home.settings.profiles

    def get(self, profile_id: str) -> Profile | None:
        return self.all().get(profile_id)


def replaced_while_it_answers(home: Home, *answers_of_fable: ScriptBuilder) -> str:
    """Fable is disabled during its turn, which it ends; Codex gets the next message."""
    home.transport = "acp"
    home.agent("fable", *answers_of_fable)
    home.agent("codex", answers().say("done"))
    parts: dict[str, Any] = {"profiles": Edited(home, lambda: home.agents["fable"].prompts)}
    begun: Snapshot = home.async_with(lambda r: r.sessions.start("frontier", "do it", cwd=home.folder), **parts)
    home.async_with(lambda r: r.run_worker(until_idle=True, poll_s=0.01), **parts)
    home.async_with(lambda r: r.sessions.prompt(begun.session_id, "and then"), **parts)
    home.async_with(lambda r: r.run_worker(until_idle=True, poll_s=0.01), **parts)
    return begun.session_id


def test_an_agent_that_is_replaced_while_it_answers_is_asked_to_hand_over(lite_home: Home) -> None:
    """R-CON-3: and what it says is no part of the user's turn."""
    summary = answers().say("I did the half; do not repeat it")
    session = replaced_while_it_answers(lite_home, answers().say("half done"), summary)

    first, second = lite_home.agents["fable"].prompts
    assert ("do it", REQUEST) == (first.prompt, second.prompt)
    assert first.pid == second.pid
    assert ["and then"] == [p.prompt.partition("\n")[0] for p in lite_home.agents["codex"].prompts]
    prompt = told(lite_home, "codex")
    assert "You continue existing work: another agent (fable) worked in this session before you" in prompt
    assert "Why the agent changed: candidate_removed." in prompt
    assert "What the agent before you says:\n> I did the half; do not repeat it" in prompt
    assert "> half done" in prompt
    outputs = [e.params for e in lite_home.store.events(session_id=session) if e.kind is EventKind.TURN_OUTPUT]
    assert [("text", "half done"), ("handover", "I did the half; do not repeat it")] == [
        (p["type"], p["text"]) for p in outputs[:2]
    ]


@pytest.mark.parametrize("fault", ["hangs", "fails", "dies", "says nothing"])
def test_an_agent_that_gives_no_summary_holds_nothing_up(
    lite_home: Home, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kandev_routing_sdk.conductor.parting.LIMIT_S", 0.5)
    last = {
        "hangs": answers().hang(),
        "fails": answers().fail_quota(60),
        "dies": answers().die(),
        "says nothing": answers(),
    }[fault]
    session = replaced_while_it_answers(lite_home, answers().say("half done"), last)
    assert 1 == len(lite_home.agents["codex"].prompts)
    assert AttemptOutcome.SUCCESS is lite_home.rows(session)[0].outcome
    assert "What the agent before you says" not in told(lite_home, "codex")
    assert [] == [c for c in lite_home.circuits() if c.state is not CircuitState.CLOSED], (
        "it says nothing of the provider's health"
    )


def test_what_an_agent_does_when_it_hands_over_counts(lite_home: Home) -> None:
    session = replaced_while_it_answers(lite_home, answers().say("half done"), answers().tool(line="x").say("all done"))
    effects = lite_home.rows(session)[0].effects
    assert effects is not None
    assert effects.tool_effect


@pytest.mark.parametrize("failure", ["quota", "auth", "network", "overloaded", "context"])
def test_an_agent_that_its_provider_refused_is_asked_nothing_more(lite_home: Home, failure: str) -> None:
    lite_home.transport = "acp"
    script = answers().say("half")
    lite_home.agent("fable", getattr(script, f"fail_{failure}")())
    lite_home.run()
    assert 1 == len(lite_home.agents["fable"].prompts)
