"""SQLiteApprovalStore: remembers in a file which approval requests were decided, for several processes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Generator
from os import PathLike
from pathlib import Path
from typing import Final

from ahvn_tools.errors import ToolkitError
from ahvn_tools.regular_file import open_regular
from ahvn_tools.toolkit.approval_store import KEPT_SECONDS, MIN_KEPT, Requests

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

    def __init__(self, path: str | PathLike[str]) -> None:
        """Create the file unless it exists; only its owner can read it. Raises ToolkitError for an unusable path.

        A link is unusable: what another program has put at the path must not say which file is written.
        """
        self.path = Path(path).parent.resolve() / Path(path).name
        with self._errors():
            os.close(open_regular(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with self._transaction(in_wal_mode=True) as connection:
                query = "SELECT sql FROM sqlite_master WHERE tbl_name IN ('approvals', 'forgotten') COLLATE NOCASE"
                known = {sql for (sql,) in connection.execute(query) if sql is not None}
                if known - {*_SCHEMA}:  # such as a trigger, which runs with each decision
                    raise sqlite3.DatabaseError("its table 'approvals' or 'forgotten' is that of another program")
                for statement in _SCHEMA:
                    if statement not in known:
                        connection.execute(statement)

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
    def _transaction(self, *, in_wal_mode: bool = False) -> Generator[sqlite3.Connection]:
        """Open a connection for one short transaction: none is shared by threads, or by a forked child."""
        database = f"{self.path.as_uri()}?mode=rw"  # SQLite never makes a file where a link has just been put
        connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None, uri=True)
        try:
            if in_wal_mode:
                _set_wal_mode(connection)
            connection.execute("PRAGMA synchronous = FULL")  # a decision survives a power failure
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
        finally:
            connection.close()  # this undoes a transaction that was not committed

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise ToolkitError(
                f"The approval_store {str(self.path)!r} cannot be used ({error}). Pass the path of a SQLite file on a "
                "local disk that this process may write to."
            ) from error


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


def _set_wal_mode(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at once. SQLite does not wait for other processes here, so this does."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
