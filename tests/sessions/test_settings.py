"""Settings that changed while nobody could answer: a worker that starts looks again, at whom that concerns (R-ENG-6)."""

from __future__ import annotations

from tests.routes._world import answers
from tests.sessions._home import Home


def test_a_session_that_nobody_could_answer_goes_on_when_its_settings_were_mended(home: Home) -> None:
    home.agent("fable", answers().say("done"), command=["/nowhere/fable"])
    stuck = home.run()
    assert ("action_required", "no_eligible_candidate") == (stuck.state, stuck.reason)

    home.agent("sol", answers().say("done"))  # somebody adds another candidate
    home.work()
    mended = home.see(stuck.session_id)
    assert ("active", ["sol"]) == (mended.state, home.by(stuck.session_id))


def test_a_worker_that_starts_writes_nothing_when_nothing_changed(home: Home) -> None:
    home.agent("fable", answers().say("done"), command=["/nowhere/fable"])
    stuck = home.run()
    home.work()
    home.work()
    assert stuck == home.see(stuck.session_id)


def test_a_change_that_frees_nobody_writes_nothing(home: Home) -> None:
    home.agent("fable", answers().say("done"), command=["/nowhere/fable"])
    stuck = home.run()
    home.agent("sol", answers().say("done"), command=["/nowhere/sol"])
    home.work()
    assert stuck == home.see(stuck.session_id)


def test_a_waiting_session_takes_a_new_candidate_before_its_time(home: Home) -> None:
    home.agent("fable", answers().fail_quota(3600))
    waiting = home.run()
    assert "waiting" == waiting.state
    home.agent("sol", answers().say("done"))
    home.work()
    assert ["fable", "sol"] == home.by(waiting.session_id)


def test_after_effects_a_person_is_asked_whatever_the_settings_say(home: Home) -> None:
    home.agent("fable", answers().tool(line="pushed").fail_quota(60))
    stuck = home.run()
    assert ("action_required", True) == (stuck.state, stuck.potentially_effectful)
    home.agent("sol", answers().say("done"))
    home.work()
    assert stuck == home.see(stuck.session_id)
