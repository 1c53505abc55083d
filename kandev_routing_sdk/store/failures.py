"""Database errors as typed errors: one clear sentence and the way out (R-DUR-6).

The database's own text never travels along: it can hold rows and, at connecting, parts of the URL. Its stable code does.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

from kandev_routing_sdk.errors import StoreError, StoreReadOnly, StoreUnavailable


class Retry(Enum):
    """Whether the same transaction, made anew, may succeed."""

    NO = auto()
    SOON = auto()
    """Another transaction was in the way."""
    RECONNECT = auto()
    """The connection is gone, and so is everything that was not committed."""


class Again(Exception):
    """A transaction that was rolled back and may be made anew. Never leaves the store: ``error`` does, if that does not help."""

    def __init__(self, error: StoreError, retry: Retry = Retry.SOON) -> None:
        super().__init__(error, retry)
        self.error: StoreError = error
        self.retry: Retry = retry


_WRITE_HINT: Final = "make it writable, or choose another place with `url` under [store] in the configuration"


def busy(label: str) -> StoreUnavailable:
    """Say that others kept the database for too long."""
    return StoreUnavailable(
        f"{label} stayed locked by another process; nothing was changed: try again, or end the process that holds it"
    )


def slow(label: str) -> StoreUnavailable:
    """Say that a statement took too long, or that somebody cancelled it."""
    return StoreUnavailable(
        f"{label} took too long to answer; nothing was changed: try again, or see what keeps the server busy"
    )


UNSTORABLE: Final = (UnicodeEncodeError, OverflowError)
"""What drivers raise, besides their own errors, for a value that no column can hold."""
_UNSTORABLE: Final = frozenset({"DataError", *(kind.__name__ for kind in UNSTORABLE)})


def unstorable(label: str, name: str) -> StoreError:
    """Say that somebody gave an id or a number that cannot be stored, and so is not there either."""
    return StoreError(
        f"{label} can hold no such value ({name}); nothing was changed: give ids as text in UTF-8 without NUL, and numbers "
        "from 0 to 9223372036854775807"
    )


def from_os_error(error: OSError, label: str) -> StoreError:
    """Say why the database's file or folder could not be made, or a connection not be used."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreReadOnly(f"{label} cannot be created or written ({name}): {_WRITE_HINT}")
    if error.errno in {errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST}:
        return StoreUnavailable(
            f"{label} is not a place for a database ({name}): choose another with `url` under [store] in the configuration"
        )
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreUnavailable(
            f"{label} cannot be written, the disk is full ({name}); nothing was changed: free some space"
        )
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return StoreUnavailable(f"{label} needs more open files than are allowed here ({name}): raise that limit")
    return StoreUnavailable(f"{label} cannot be opened ({name}): check the path and its folder")


# --- SQLite: the primary result code is the low byte ---

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_READ_ONLY: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})


def from_sqlite(error: BaseException, label: str) -> tuple[StoreError, Retry]:
    """Judge an error of ``sqlite3``."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    if code in _BUSY:
        return busy(label), Retry.SOON
    if code in _READ_ONLY:
        return StoreReadOnly(f"{label} cannot be written ({name}); nothing was changed: {_WRITE_HINT}"), Retry.NO
    said = {
        sqlite3.SQLITE_FULL: "cannot be written, the disk is full ({}); nothing was changed: free some space",
        sqlite3.SQLITE_NOTADB: "is not an SQLite database ({}): choose another file with `url` under [store] in the configuration",
        sqlite3.SQLITE_CORRUPT: "is damaged ({}): restore it from a backup, or move it away to start anew",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened ({}): check the path, its folder, permissions, and the limit on open files",
        sqlite3.SQLITE_IOERR: "could not be read or written ({}); nothing was changed: check the disk and the limits on its use",
        sqlite3.SQLITE_NOMEM: "needs more memory than there is ({}); nothing was changed: free some, then try again",
        sqlite3.SQLITE_ERROR: "is not as this version left it ({}): restore it from a backup, or move it away to start anew",
    }.get(code)
    if said is not None:
        return StoreUnavailable(f"{label} {said.format(name)}"), Retry.NO
    return _refused(label, name), Retry.NO


# --- PostgreSQL: SQLSTATE ---

_IN_THE_WAY: Final[Mapping[str, Callable[[str], StoreUnavailable]]] = {
    "40001": busy,
    "40P01": busy,
    "55P03": busy,
    "57014": slow,
}
# Shut down, crashed, starting up, idle for too long (in a transaction, or at all).
_GONE: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
_STATES: Final[Mapping[str, str]] = {
    "3D000": "does not exist: create it, or correct `url` under [store] in the configuration",
    "53100": "cannot be written, the disk is full; nothing was changed: free some space on the server",
    "53200": "has no memory left; nothing was changed: give the server more, or close connections to it",
    "53300": "takes no more connections: raise max_connections, or close some",
    "57P04": "was dropped: create it again, or correct `url` under [store] in the configuration",
    "42P01": "lacks tables that its version promises: restore it from a backup, or use an empty database",
    "42703": "lacks columns that its version promises: restore it from a backup, or use an empty database",
}
# The first two letters: resources, the system below, the server itself.
_KINDS: Final[Mapping[str, str]] = {
    "53": "has too little of something; nothing was changed: see the server's log",
    "58": "could not be read or written; nothing was changed: check the server's disk",
    "XX": "met a fault of its own; nothing was changed: see the server's log",
}


def from_postgresql(error: BaseException, label: str, *, lost: bool) -> tuple[StoreError, Retry]:
    """Judge an error of ``psycopg``; ``lost``: the connection is gone."""
    state: str = getattr(error, "sqlstate", None) or ""
    if state in _IN_THE_WAY:
        return _IN_THE_WAY[state](label), Retry.SOON
    if state == "25006":
        return StoreReadOnly(
            f"{label} only takes reads ({state}); nothing was changed: connect to the primary, or let this user write"
        ), Retry.NO
    if state == "42501":
        return (
            StoreReadOnly(f"{label} does not let this user do that ({state}); nothing was changed: grant the rights"),
            Retry.NO,
        )
    if state.startswith("28"):
        return StoreUnavailable(f"{label} refused the login ({state}): check user and password"), Retry.NO
    if state in _STATES:
        return StoreUnavailable(f"{label} {_STATES[state]} ({state})"), Retry.NO
    if lost or state in _GONE or state.startswith("08") or (not state and _is_operational(error)):
        return StoreUnavailable(
            f"{label} cannot be reached, or refused the login; nothing was changed: check that it runs, and the URL"
        ), Retry.RECONNECT
    if state[:2] in _KINDS:
        return StoreUnavailable(f"{label} {_KINDS[state[:2]]} ({state})"), Retry.NO
    return _refused(label, state or type(error).__name__), Retry.NO


def _is_operational(error: BaseException) -> bool:
    return type(error).__name__ in {"OperationalError", "ConnectionTimeout"}


def _refused(label: str, name: str) -> StoreError:
    if name.startswith("22") or name in _UNSTORABLE:
        return unstorable(label, name)
    return StoreError(f"{label} refused a row ({name}); nothing was changed: please report this, with the log")


def unreadable(label: str) -> StoreError:
    """Say that a row is not what this version writes."""
    return StoreError(f"{label} holds a row that this version cannot read: upgrade the package, or restore a backup")


def lost_in_commit(label: str) -> StoreUnavailable:
    """Say that nobody knows whether the last transaction counts."""
    return StoreUnavailable(
        f"{label} was lost while it confirmed a change, which may or may not be stored: read the session again before going on"
    )
