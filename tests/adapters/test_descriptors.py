"""Two launches share exactly when a person would say "same account" (R-CIR-1, R-CIR-3)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from pathlib import Path
from typing import Final

import pytest

from kandev_routing_sdk.binding import canonical
from kandev_routing_sdk.spec import LaunchPlan
from tests.adapters._accounts import KEY, OTHER_KEY, Row, fingerprint_of, planned
from tests.adapters._accounts_claude import CLAUDE
from tests.adapters._accounts_codex import CODEX
from tests.adapters._accounts_opencode import OPENCODE

TABLE: Final[list[Row]] = [*CLAUDE, *CODEX, *OPENCODE]
Plans = list[tuple[Row, LaunchPlan]]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Every launch of the table, each on the same machine."""
    root = tmp_path_factory.mktemp("table") / "machine"
    return [(row, planned(row, root)) for row in TABLE]


def test_the_table_is_as_long_as_it_has_to_be_and_names_each_row_once() -> None:
    assert [] == [name for name, times in Counter(row.name for row in TABLE).items() if times > 1]
    by_family = Counter(row.family for row in TABLE)
    assert {"claude", "codex", "opencode"} == set(by_family)
    assert min(by_family.values()) >= 40


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_provider_is_the_service_really_addressed(row: Row, tmp_path: Path) -> None:
    plan = planned(row, tmp_path / "machine")
    assert (row.provider, row.account is not None) == (plan.provider_id, fingerprint_of(plan) is not None)


def test_two_launches_share_exactly_when_they_are_of_one_account(plans: Plans) -> None:
    found = [(row, fingerprint_of(plan)) for row, plan in plans]
    wrong = []
    for (one, a), (other, b) in combinations(found, 2):
        expected = one.account is not None and (one.family, one.account) == (other.family, other.account)
        if expected is not (a is not None and a == b):
            wrong.append(f"{'must' if expected else 'must not'} share: {one.name} | {other.name}")
    assert not wrong, "\n".join(wrong)


def test_sharing_is_an_equivalence_and_the_unprovable_share_with_nobody(plans: Plans) -> None:
    """The circuits of an account are those of everybody who shares it, so sharing has to be transitive."""
    keys = [fingerprint_of(plan) for _, plan in plans]
    share = {(i, j) for i, j in product(range(len(keys)), repeat=2) if keys[i] is not None and keys[i] == keys[j]}
    proven = {i for i, key in enumerate(keys) if key is not None}
    assert proven == {i for i, j in share if i == j}
    assert share == {(j, i) for i, j in share}
    after: dict[int, set[int]] = {i: {j for a, j in share if a == i} for i in proven}
    assert [] == [(i, j) for i, j in share if after[i] != after[j]]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_no_secret_is_in_a_descriptor(row: Row, tmp_path: Path) -> None:
    plan = planned(row, tmp_path / "machine")
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
