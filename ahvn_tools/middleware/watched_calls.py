"""The file of watched calls: SQLite, private, with the newest calls of all processes that write to it.

A file needs no server between the processes, keeps what a killed process has written, and is protected by its
permissions; any user of the machine could connect to a socket on the loopback address.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.regular_file import open_regular

MAX_CALLS: Final = 2_000
"""How many calls the file has; the oldest are dropped."""

VIEWED_SECONDS: Final = 60.0
"""For how long processes write their calls after someone has looked."""

LOCK_SECONDS: Final = 2.0
"""How long one process waits for another that writes to the file."""

LOST: Final = "lost"
"""The outcome of a call whose process was killed, or whose end could not be written."""

_SCHEMA: Final = (
    "CREATE TABLE watched_calls (number INTEGER PRIMARY KEY AUTOINCREMENT, process TEXT NOT NULL, "
    "serial INTEGER NOT NULL, outcome TEXT, call TEXT NOT NULL, UNIQUE (process, serial))"
)
"""Each change of a call is a new row, with a new number, in place of the former one."""

_WRITE: Final = "INSERT OR REPLACE INTO watched_calls (process, serial, outcome, call) VALUES (?, ?, ?, ?)"
_END: Final = (
    "INSERT OR REPLACE INTO watched_calls (process, serial, outcome, call) SELECT process, serial, ?, call "
    "FROM watched_calls WHERE outcome IS NULL AND process = ? AND serial NOT IN (SELECT value FROM json_each(?))"
)
_DROP: Final = (
    "DELETE FROM watched_calls WHERE number <= (SELECT number FROM watched_calls ORDER BY number DESC LIMIT 1 OFFSET ?)"
)


@dataclass(slots=True, eq=False, kw_only=True)
class WatchedCall:
    """One call; `outcome` and `duration` are None while it runs."""

    serial: int
    """Its number in its process."""
    tool: str
    toolkit: str
    session: str
    """A name made of the id of the session, which it does not reveal; "" without a session."""
    run: str
    """Shared by the calls of one answer of a model; "" for a single call."""
    arguments: str
    """As JSON text, redacted and cut."""
    started: float
    """In seconds since 1970 (UTC)."""
    chunks: int = 0
    duration: float | None = None
    """In seconds."""
    outcome: str | None = None
    """`ok`, the code of an error, such as `cancelled`, or `lost`."""


_SHOWN: Final = ("tool", "toolkit", "session", "run", "arguments", "started", "chunks", "duration")


class WatchedCalls:
    """The file of watched calls, to show them. Processes write to it while `look` is called at least once a minute.

    >>> import tempfile
    >>> calls = WatchedCalls(tempfile.mkdtemp() + "/calls.sqlite")
    >>> calls.look()
    >>> calls.read()
    []
    """

    def __init__(self, path: str | PathLike[str] | None = None) -> None:
        """Name the file; without a path, the file of this user, which `watch()` uses, too. Nothing is written yet."""
        named = _default_path() if path is None else Path(path)
        self.path = named.parent.resolve() / named.name
        self._look_path = self.path.with_name(f"{self.path.name}-viewed")
        self._is_default = path is None

    def look(self) -> None:
        """Create the file unless it exists, and make processes write their calls, for a minute.

        Raises ToolSpecError for a file that cannot be used, such as one of another user or another program.
        """
        with self._errors():
            if self._is_default:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(self.path)
            with self._transaction() as connection:
                query = "SELECT sql FROM sqlite_master WHERE tbl_name = 'watched_calls' AND sql IS NOT NULL"
                known = [sql for (sql,) in connection.execute(query)]
                if not known:
                    connection.execute(_SCHEMA)
                elif known != [_SCHEMA]:
                    raise sqlite3.DatabaseError("it is that of another program or version")
            _create(self._look_path)
            os.utime(self._look_path)

    def is_viewed(self) -> bool:
        """Return whether someone has looked within the last minute."""
        try:
            viewed = self._look_path.stat().st_mtime
        except OSError:
            return False
        return abs(time.time() - viewed) < VIEWED_SECONDS

    def read(self, after: int = 0) -> list[JsonObject]:
        """Return the calls that are new or have changed since the one with the `number` `after`, by that number.

        All calls, if there is none with it any more. Calls that were running in a process that has ended are `lost`.
        Raises ToolSpecError for a file that cannot be used.
        """
        with self._errors(), self._open() as connection:
            processes = connection.execute("SELECT DISTINCT process FROM watched_calls WHERE outcome IS NULL")
            if ended := [process for (process,) in processes if process != process_name(process.partition("-")[0])]:
                with _begun(connection):
                    for process in ended:
                        connection.execute(_END, (LOST, process, "[]"))
            [(last,)] = connection.execute("SELECT coalesce(max(number), 0) FROM watched_calls")
            query = "SELECT number, process, serial, outcome, call FROM watched_calls WHERE number > ? ORDER BY number"
            rows = connection.execute(query, (after if after <= last else 0,)).fetchall()
            return [
                {"number": number, "process": process, "serial": serial, **json.loads(call), "outcome": outcome}
                for number, process, serial, outcome, call in rows
            ]

    def write(
        self, process: str, calls: Iterable[WatchedCall], lost: int = 0, running: Collection[int] | None = None
    ) -> None:
        """Write calls of a process, and drop the oldest of all. Raises OSError and sqlite3.Error.

        `lost` is how many changes the process could not write so far. With `running`, the serials of the calls that
        run, all others of the process that the file has as running are lost.
        """
        common = {"program": Path(sys.argv[0]).name, "lost": lost}
        rows = [
            (process, call.serial, call.outcome, json.dumps({name: getattr(call, name) for name in _SHOWN} | common))
            for call in calls
        ]
        with self._transaction() as connection:
            connection.executemany(_WRITE, rows)
            if running is not None:
                connection.execute(_END, (LOST, process, json.dumps([*running])))
            connection.execute(_DROP, (MAX_CALLS,))

    @contextlib.contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        """Open a connection for a short time: none is shared by threads, or by a forked child."""
        _require_private(self.path)
        database = f"{self.path.as_uri()}?mode=rw"  # SQLite never makes a file where a link has just been put
        connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None, uri=True)
        with contextlib.closing(connection):
            connection.execute("PRAGMA synchronous = NORMAL")
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._open() as connection, _begun(connection):
            yield connection

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise ToolSpecError(
                f"The file of watched calls {str(self.path)!r} cannot be used ({error}). Delete it, or name another "
                "on a local disk that this process may write to."
            ) from error


@contextlib.contextmanager
def _begun(connection: sqlite3.Connection) -> Generator[None]:
    with connection:  # commits or, after an exception, rolls back
        connection.execute("BEGIN IMMEDIATE")
        yield


def _default_path() -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".local" / "state") / "ahvn-tools" / "calls-1.sqlite"


def _create(path: Path) -> None:
    os.close(open_regular(path, os.O_CREAT | os.O_RDWR, 0o600))
    _require_private(path)


def _require_private(path: Path) -> None:
    """Raise OSError for a file that is not a regular one, or that other users own or can open."""
    status = os.lstat(path)
    is_private = os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
    if not stat.S_ISREG(status.st_mode) or not is_private:
        raise PermissionError(f"{path.name!r} must belong to this user, and no other user may read it: chmod 600")


def process_name(pid: Any) -> str:
    """Return the id of a process with its start, so that no later process has the same name; "" if it has ended.

    Where the start is not known it is 0. On Windows no process is known to have ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if Path("/proc/self/stat").exists() or not _exists(int(pid)) else f"{pid}-0"
    return "" if fields[0] in "ZX" else f"{pid}-{fields[19]}"


def _exists(pid: int) -> bool:  # pragma: no cover  # of systems without /proc
    if os.name == "posix":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
    return True
