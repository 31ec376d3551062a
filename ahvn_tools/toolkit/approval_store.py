"""ApprovalStore: remembers which approval requests were decided, so that each is decided once.

Clocks may jump. A request that was forgotten because it had expired would be valid again when the clock is set back. So
a store also remembers the latest expiry of what it has forgotten: no request that expires by then can be approved.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Generator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ahvn_tools.errors import ToolkitError
from ahvn_tools.regular_file import open_regular

if TYPE_CHECKING:  # few toolkits need it
    import sqlite3

KEPT_SECONDS: Final = 24 * 3600
"""How long an expired request is remembered: a clock that is set back by less makes no request expire."""

MIN_KEPT: Final = 1_000
"""How many requests, those that expire last, are remembered whatever the clock says.

A clock that was wrong may have made requests that expire in some years. To forget one of these would make all requests
expire until then.
"""

Requests = Mapping[str, int | None]
"""Ids of requests with the time at which each expires, in seconds since 1970 (UTC); None: never."""


@runtime_checkable
class ApprovalStore(Protocol):
    """Remembers decided requests. Its methods are called from any thread, and raise when they cannot remember."""

    def decide(self, requests: Requests) -> bool:
        """Mark all of these requests as decided, and return True.

        Mark none and return False if one already is, or expires by the time that `forgotten_until` returns. What it has
        marked is stored when it returns, even if the process ends then.
        """
        ...

    def forgotten_until(self) -> int:
        """Return the latest expiry of the requests that it has forgotten, in seconds since 1970 (UTC); 0: none.

        It never becomes less, whatever the clock does.
        """
        ...

    def count_attempt(self, request_id: str, expires_at: int | None) -> int:
        """Count one more attempt to pass the secret arguments of a request, and return how many there were."""
        ...


DEFAULT_EXPIRY: Final = 7 * 24 * 3600.0
"""For how many seconds a request can be approved."""


def to_approval_store(store: Any) -> ApprovalStore:
    """Return the store of an option: in memory for None, in a file for a path. Raises ToolkitError."""
    if store is None or isinstance(store, str | PathLike):
        return SQLiteApprovalStore(store)
    if isinstance(store, ApprovalStore):
        return store
    raise ToolkitError(
        "An approval_store is the path of a SQLite file, or an object with the methods `decide`, `forgotten_until` "
        f"and `count_attempt`, not a {type(store).__name__}."
    )


LOCK_SECONDS: Final = 30.0
"""How long one process waits for another that writes to the file."""

_SCHEMA: Final = (
    (
        "CREATE TABLE approvals (request_id TEXT PRIMARY KEY, expires_at INTEGER, "
        "attempts INTEGER NOT NULL DEFAULT 0, is_decided INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"
    ),
    "CREATE INDEX expiries ON approvals (expires_at)",
    "CREATE TABLE forgotten (until INTEGER NOT NULL)",
)


class SQLiteApprovalStore:
    """Remembers the requests that any process with this file has decided. The file must be on a local disk."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        """Create the file unless it exists; only its owner can read it. None: remember in this process alone.

        Raises ToolkitError for an unusable path. A link is unusable: what another program has put at the path must not
        say which file is written.
        """
        self.path = None if path is None else Path(path).parent.resolve() / Path(path).name
        self._lock = threading.Lock()
        self._memory: sqlite3.Connection | None = None
        """The database without a file, once it is used."""
        if self.path is not None:
            with self._errors():
                os.close(open_regular(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                with self._transaction() as connection:
                    _create_tables(connection)

    def decide(self, requests: Requests) -> bool:
        """Mark all of these requests as decided, unless one already is or may have been."""
        with self._errors(), self._transaction() as connection:
            until = _forget_expired(connection)
            if any(end is not None and end <= until for end in requests.values()):
                return False
            for request in requests.items():
                marked = connection.execute(
                    "INSERT INTO approvals (request_id, expires_at, is_decided) VALUES (?, ?, 1) "
                    "ON CONFLICT (request_id) DO UPDATE SET is_decided = 1 WHERE is_decided = 0",
                    request,
                )
                if marked.rowcount != 1:
                    connection.execute("ROLLBACK")
                    return False
        return True

    def forgotten_until(self) -> int:
        """Return the latest expiry of the requests that any process has forgotten."""
        with self._errors(), self._transaction() as connection:
            return _read_forgotten(connection)

    def count_attempt(self, request_id: str, expires_at: int | None) -> int:
        """Count one more attempt of a request."""
        with self._errors(), self._transaction() as connection:
            connection.execute(
                "INSERT INTO approvals (request_id, expires_at, attempts) VALUES (?, ?, 1) "
                "ON CONFLICT (request_id) DO UPDATE SET attempts = attempts + 1",
                (request_id, expires_at),
            )
            query = "SELECT attempts FROM approvals WHERE request_id = ?"
            [(attempts,)] = connection.execute(query, (request_id,))
        return int(attempts)

    @contextlib.contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Open a connection for one short transaction: none to a file is shared by threads, or by a forked child."""
        with contextlib.ExitStack() as stack:
            if self.path is None:
                stack.enter_context(self._lock)
                connection = self._memory = self._memory or _open_memory(self)
            else:
                connection = stack.enter_context(contextlib.closing(_open_file(self.path)))
            with connection:  # commits or, after an exception, rolls back
                connection.execute("BEGIN IMMEDIATE")
                yield connection

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        import sqlite3

        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise ToolkitError(
                f"The approval_store {str(self.path)!r} cannot be used ({error}). Pass the path of a SQLite file on a "
                "local disk that this process may write to."
            ) from error


def _open_file(path: Path) -> sqlite3.Connection:
    import sqlite3

    database = f"{path.as_uri()}?mode=rw"  # SQLite never makes a file where a link has just been put
    connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None, uri=True)
    connection.execute("PRAGMA synchronous = FULL")  # a decision survives a power failure
    return connection


def _open_memory(owner: SQLiteApprovalStore) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    weakref.finalize(owner, connection.close)
    _create_tables(connection)
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables that do not exist yet. Raises DatabaseError for those of another program."""
    import sqlite3

    query = "SELECT sql FROM sqlite_master WHERE tbl_name IN ('approvals', 'forgotten') COLLATE NOCASE"
    known = {sql for (sql,) in connection.execute(query) if sql is not None}
    if known - {*_SCHEMA}:  # such as a trigger, which runs with each decision
        raise sqlite3.DatabaseError("its table 'approvals' or 'forgotten' is that of another program")
    for statement in _SCHEMA:
        if statement not in known:
            connection.execute(statement)


def _forget_expired(connection: sqlite3.Connection) -> int:
    """Forget expired requests, and return the latest expiry of all that were ever forgotten."""
    [(last,)] = connection.execute(
        "SELECT max(expires_at) FROM approvals WHERE expires_at <= ? AND expires_at < "
        "(SELECT expires_at FROM approvals WHERE expires_at IS NOT NULL ORDER BY expires_at DESC LIMIT 1 OFFSET ?)",
        (time.time() - KEPT_SECONDS, MIN_KEPT - 1),
    )
    if last is not None:
        connection.execute("DELETE FROM approvals WHERE expires_at <= ?", (last,))
        connection.execute("INSERT INTO forgotten (until) VALUES (?)", (last,))
        connection.execute("DELETE FROM forgotten WHERE until < (SELECT max(until) FROM forgotten)")
    return _read_forgotten(connection)


def _read_forgotten(connection: sqlite3.Connection) -> int:
    [(until,)] = connection.execute("SELECT coalesce(max(until), 0) FROM forgotten")
    return int(until)
