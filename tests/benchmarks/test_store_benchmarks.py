"""The benchmarks of the store measure something, say so, and tell by their exit status whether the limits are kept (PRF).

What they measure here is too little to mean anything, so the limits are ones that are always kept, or never.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks import contention, decision, scale
from tests import _postgres
from tests._postgres import PostgresServer

ROOT = Path(__file__).parents[2]
KEPT = 1e9


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(
    request: pytest.FixtureRequest, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """The options that say where; PostgreSQL is the server that all tests share."""
    if engine == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        monkeypatch.setattr(_postgres, "running_server", lambda: nullcontext(server))
    yield ["--engine", engine, "--folder", str(tmp_path)]
    assert [] == list(tmp_path.iterdir()), "it cleans up"


def test_a_decision(
    place: list[str], engine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-PRF-1."""
    small = [*place, "--rounds", "1", "--commits", "2"]
    if engine == "sqlite":
        monkeypatch.setattr(decision, "MOST", dict.fromkeys(decision.MOST, KEPT))
        assert 0 == decision.main(small)
        shown = capsys.readouterr().out
        assert "all sides wrote the same rows" in shown
        assert 2 == shown.count("at most 1e+09×, kept")
    else:
        monkeypatch.setattr(decision, "MOST", dict.fromkeys(decision.MOST, 0.0))
        assert 1 == decision.main([*small, "--json"])
        told = json.loads(capsys.readouterr().out)
        assert ["store", "store from a loop"] == [row["side"] for row in told["rows"]]
        assert ["store"] == [row["side"] for row in told["missed"]], "the only one with a limit there"


def test_contention(
    place: list[str], engine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-PRF-6."""
    monkeypatch.setattr(contention, "PROCESSES", 2)
    monkeypatch.setattr(contention, "MOST", KEPT if engine == "sqlite" else 0.0)
    small = ["--rounds", "1", "--commits", "6", "--sessions", "3", "--probes", "2"]
    assert (0 if engine == "sqlite" else 1) == contention.main([*place, *small])
    shown = capsys.readouterr().out
    assert "1 session(s), 6 generations each: every generation exactly once" in shown
    assert "3 session(s), 2 generations each: every generation exactly once" in shown
    assert "one probe: 2 expired circuits, each one probed by exactly one" in shown
    assert 2 == shown.count("kept" if engine == "sqlite" else "MISSED")


def test_scale(
    place: list[str], engine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-PRF-5. What a session takes is no matter of time, and is as it has to be."""
    monkeypatch.setattr(scale, "MOST", KEPT if engine == "sqlite" else 0.0)
    status = scale.main([*place, "--sessions", "5000", "--rounds", "1", "--json"])
    rows: dict[str, dict[str, Any]] = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {*scale.CLAIMS, *scale.TICKS, "bytes for a session"} == set(rows)
    assert rows.pop("bytes for a session")["holds"]
    assert {engine == "sqlite"} == {row["holds"] for row in rows.values()}
    assert (0 if engine == "sqlite" else 1) == status


@pytest.mark.parametrize("benchmark", [contention, decision, scale])
def test_help_says_what_is_measured_and_the_readme_how(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["--help"])
    assert 0 == ended.value.code
    shown = capsys.readouterr().out
    assert (benchmark.__doc__ or "").strip() in shown
    name = Path(benchmark.__file__).name
    assert f"python benchmarks/{name}" in (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    assert f"python benchmarks/{name}" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
