"""Two launches share exactly when a person would say "same account" (R-CIR-1, R-CIR-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Final

import pytest

from kandev_routing_sdk.binding import canonical
from kandev_routing_sdk.circuits import ResourceIdentity, consulted_keys
from kandev_routing_sdk.spec import LaunchPlan
from kandev_routing_sdk.types import Scope
from tests.adapters._accounts import KEY, OTHER_KEY, Row, fingerprint_of, planned
from tests.adapters._accounts_claude import CLAUDE
from tests.adapters._accounts_codex import CODEX
from tests.adapters._accounts_opencode import OPENCODE
from tests.adapters._plans import ADAPTERS

TABLE: Final[list[Row]] = [*CLAUDE, *CODEX, *OPENCODE]
Plans = Mapping[str, LaunchPlan]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Every launch of the table by its name, each on the same machine."""
    root = tmp_path_factory.mktemp("table") / "machine"
    return {row.name: planned(row, root) for row in TABLE}


def test_the_table_is_as_long_as_it_has_to_be_and_names_each_row_once() -> None:
    assert [] == [name for name, times in Counter(row.name for row in TABLE).items() if times > 1]
    by_family = Counter(row.family for row in TABLE)
    assert {"claude", "codex", "opencode"} == set(by_family)
    assert min(by_family.values()) >= 40


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_provider_is_the_service_really_addressed(row: Row, plans: Plans) -> None:
    plan = plans[row.name]
    assert (row.provider, row.account is not None) == (plan.provider_id, fingerprint_of(plan) is not None)
    known = ADAPTERS[row.family].providers
    assert plan.provider_id is None or plan.provider_id.startswith("gateway:") or plan.provider_id in known, "R-OBS-3"


def test_two_launches_share_exactly_when_they_are_of_one_account(plans: Plans) -> None:
    keys = [(row, fingerprint_of(plans[row.name])) for row in TABLE]
    wrong = []
    for (one, a), (other, b) in combinations(keys, 2):
        expected = one.account is not None and (one.family, one.account) == (other.family, other.account)
        if expected is not (a is not None and a == b):
            wrong.append(f"{'must' if expected else 'must not'} share: {one.name} | {other.name}")
    assert not wrong, "\n".join(wrong)


def test_sharing_is_an_equivalence_and_the_unprovable_share_with_nobody(plans: Plans) -> None:
    """The circuits of an account are those of everybody who shares it, so sharing has to be transitive."""
    identities = {
        name: ResourceIdentity(plan.provider_id, None, fingerprint_of(plan), name[:40], "this machine")
        for name, plan in plans.items()
    }
    accounts = {
        name: frozenset(key.key for key in consulted_keys(identity) if key.scope is Scope.ACCOUNT)
        for name, identity in identities.items()
    }
    sharing = {name: {other for other in accounts if accounts[name] & accounts[other]} for name in accounts}
    for row in TABLE:
        together = sharing[row.name]
        assert (row.name in together) is (row.account is not None), row.name
        assert [] == [other for other in together if sharing[other] != together], row.name


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_no_secret_is_in_a_descriptor(row: Row, plans: Plans) -> None:
    plan = plans[row.name]
    shown = repr(plan) + (canonical(plan.descriptor).decode() if plan.descriptor else "")
    secrets = (
        KEY,
        OTHER_KEY,
        "secret-000",
        "user:secret",
        "a1b2c3d4e5f6",
        "acct-secret",
        "proj-secret",
        "eyJ",
        "--secret",
    )
    assert [] == [secret for secret in secrets if secret in shown]
