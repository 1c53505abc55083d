"""Leases of owners and probes are renewed without a transition (R-ENG-8, R-CIR-8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kandev_routing_sdk.circuits import FailureFact, ResourceKey
from kandev_routing_sdk.ports import Admit, CircuitFailed, Commit
from kandev_routing_sdk.route.step import begin
from kandev_routing_sdk.store import open_store
from kandev_routing_sdk.types import Code, Confidence, Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KEY = ResourceKey("account:acme:v1:aa", Scope.ACCOUNT, provider_id="acme")
MINUTE = timedelta(minutes=1)


def test_an_owner_renews_until_it_is_too_late(database_url: str) -> None:
    """A lease is an owner's until somebody takes it over, also when it ran out unnoticed; the revision never moves."""
    with open_store(database_url) as store:
        begun = begin("s1", "frontier", now=NOW, owner_id="me", owner_until=NOW + MINUTE)
        store.commit(Commit(before=None, after=begun.after, now=NOW))

        def renew(owner: str, at: datetime) -> bool:
            return store.renew("s1", owner_id=owner, until=at + MINUTE, lease_token=None, now=at)

        assert renew("me", NOW + MINUTE / 2)
        assert not renew("you", NOW + MINUTE / 2)
        assert renew("me", NOW + MINUTE)
        assert renew("me", NOW + 60 * MINUTE), "a machine that slept for an hour"
        route = store.load("s1")
        assert route is not None
        assert (1, NOW + 61 * MINUTE) == (route.revision, route.owner_until)
        taken = route.model_copy(update={"owner_id": "you", "owner_until": NOW + 80 * MINUTE, "revision": 2})
        store.commit(Commit(before=route, after=taken, now=NOW + 70 * MINUTE))
        assert not renew("me", NOW + 71 * MINUTE)


def test_a_running_probe_keeps_its_lease_for_ten_minutes_in_all(database_url: str) -> None:
    """R-CIR-8: renewal lasts at most 10 min; other leases are left alone."""
    with open_store(database_url) as store:
        fact = FailureFact(code=Code.QUOTA_LIMITED, confidence=Confidence.HIGH, due_at=NOW + MINUTE)
        store.change_circuits([CircuitFailed(KEY, fact, 0.5)], now=NOW)
        at = NOW + 2 * MINUTE
        begun = begin("s1", "frontier", now=at, owner_id="me", owner_until=at + MINUTE)
        committed = store.commit(
            Commit(before=None, after=begun.after, now=at, admit=Admit((KEY,), "token", "me", MINUTE.total_seconds()))
        )
        assert (KEY,) == committed.leased
        for minute in range(30):
            now = at + minute * MINUTE / 2
            assert store.renew("s1", owner_id="me", until=now + MINUTE, lease_token="token", now=now)
        (circuit,) = store.circuits()
        assert at + timedelta(minutes=10) == circuit.probe_until
