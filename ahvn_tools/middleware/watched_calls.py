"""The file of watched calls: SQLite, private, with the newest calls of all processes that write to it.

A file needs no server between the processes, keeps what a killed process has written, and is protected by its
permissions; any user of the machine could connect to a socket on the loopback address.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import stat
import time
from collections.abc import Collection, Generator, Mapping
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
"""How long one process waits for another that uses the file."""

MAX_CALL_CHARS: Final = 100_000
"""How long the JSON text of a call may be: what `watch` writes is shorter."""

_MAX_SECONDS: Final = 1e12
_MAX_NUMBER: Final = 2**53
"""Larger ones a browser would not show as they are."""

_TEXTS: Final = ("tool", "toolkit", "session", "run", "program", "arguments")
_PROCESS: Final = re.compile("[0-9]{1,9}-[0-9]{1,20}")

_SCHEMA: Final = (
    "CREATE TABLE watched_calls (number INTEGER PRIMARY KEY AUTOINCREMENT, process TEXT NOT NULL, "
    "serial INTEGER NOT NULL, outcome TEXT, call TEXT NOT NULL, UNIQUE (process, serial))"
)
"""Each change of a call is a new row, with a new number, in place of the former one."""

_WRITE: Final = "INSERT OR REPLACE INTO watched_calls (process, serial, outcome, call) VALUES (?, ?, ?, ?)"
_LOSE: Final = (
    "INSERT OR REPLACE INTO watched_calls (process, serial, outcome, call) SELECT process, serial, 'lost', call "
    "FROM watched_calls WHERE outcome IS NULL AND process = ? AND serial NOT IN (SELECT value FROM json_each(?))"
)
_DROP: Final = (
    "DELETE FROM watched_calls WHERE number <= (SELECT number FROM watched_calls ORDER BY number DESC LIMIT 1 OFFSET ?)"
)


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

    def look(self) -> None:
        """Create the file unless it exists, and make processes write their calls, for a minute.

        Raises ToolSpecError for a file that cannot be used, such as one of another user or another program.
        """
        with self._transaction(creates=True) as connection:
            query = "SELECT sql FROM sqlite_master WHERE tbl_name = 'watched_calls' AND sql IS NOT NULL"
            known = [sql for (sql,) in connection.execute(query)]
            if not known:
                connection.execute(_SCHEMA)
            elif known != [_SCHEMA]:
                raise sqlite3.DatabaseError("it is that of another program or version")
            os.close(open_regular(self._look_path, os.O_CREAT | os.O_RDWR, 0o600))
            os.utime(self._look_path)

    def is_viewed(self) -> bool:
        """Return whether someone has looked within the last minute."""
        with contextlib.suppress(OSError):
            return abs(time.time() - self._look_path.stat().st_mtime) < VIEWED_SECONDS
        return False

    def read(self, after: int = 0) -> list[JsonObject]:
        """Return the calls that are new or have changed since the one with the `number` `after`, by that number.

        All calls, if there is none with it any more. Calls that were running in a process that has ended are `lost`.
        Rows that `watch` has not written are not returned.
        Raises ToolSpecError for a file that cannot be used.
        """
        with self._transaction() as connection:
            running = connection.execute("SELECT DISTINCT process FROM watched_calls WHERE outcome IS NULL").fetchall()
            for (process,) in running:
                if _is_process(process) and process != process_name(int(process.partition("-")[0])):
                    connection.execute(_LOSE, (process, "[]"))
            [(last,)] = connection.execute("SELECT coalesce(max(number), 0) FROM watched_calls")
            query = (
                "SELECT number, process, serial, outcome, call FROM watched_calls "
                "WHERE number > ? AND length(call) <= ? AND length(coalesce(outcome, '')) <= ? ORDER BY number"
            )
            start = after if after <= last else 0
            rows = connection.execute(query, (start, MAX_CALL_CHARS, MAX_CALL_CHARS)).fetchall()
        return [call for call in map(_to_call, rows) if call is not None]

    def write(self, calls: Mapping[int, JsonObject], lost: int = 0, running: Collection[int] | None = None) -> None:
        """Write calls of this process by their serials, and drop the oldest of all. Raises ToolSpecError.

        `lost` is how many changes this process could not write so far. With `running`, the serials of the calls that
        run, all others of the process that the file has as running are lost.
        """
        process = process_name(os.getpid())
        rows = [
            (process, serial, call["outcome"], json.dumps({**call, "lost": lost})) for serial, call in calls.items()
        ]
        with self._transaction() as connection:
            connection.executemany(_WRITE, rows)
            if running is not None:
                connection.execute(_LOSE, (process, json.dumps([*running])))
            connection.execute(_DROP, (MAX_CALLS,))

    @contextlib.contextmanager
    def _transaction(self, *, creates: bool = False) -> Generator[sqlite3.Connection]:
        """Open a connection for one short transaction: none is shared by threads, or by a forked child."""
        try:
            if creates:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(open_regular(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            _require_private(self.path)
            database = f"{self.path.as_uri()}?mode=rw"  # SQLite never makes a file where a link has just been put
            connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None, uri=True)
            connection.text_factory = _decode
            with contextlib.closing(connection), connection:  # commits or, after an exception, rolls back
                # without waiting for the disk: only a failure of the power can lose or break something
                connection.executescript("PRAGMA synchronous = OFF; PRAGMA secure_delete = ON; BEGIN IMMEDIATE")
                yield connection
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise ToolSpecError(
                f"The file of watched calls {str(self.path)!r} cannot be used ({error}). Name another one on a "
                "local disk that this process may write to, or delete it if it was made by `watch`."
            ) from error


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _is_process(name: Any) -> bool:
    return isinstance(name, str) and _PROCESS.fullmatch(name) is not None


def _to_call(row: tuple[Any, ...]) -> JsonObject | None:
    """Return the call of a row; None for one that `watch` has not written."""
    number, process, serial, outcome, text = row
    try:
        call = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    if not (isinstance(call, dict) and _is_process(process) and isinstance(serial, int)):
        return None
    is_valid = (
        isinstance(outcome, str | None)
        and all(isinstance(call.get(name), str) for name in _TEXTS)
        and all(type(call.get(name)) is int and 0 <= call[name] < _MAX_NUMBER for name in ("chunks", "lost"))
        and _is_seconds(call.get("started"))
        and (call.get("duration") is None or _is_seconds(call["duration"]))
    )
    names = (*_TEXTS, "chunks", "lost", "started", "duration")
    fields = {name: call.get(name) for name in names}
    return {**fields, "number": number, "process": process, "serial": serial, "outcome": outcome} if is_valid else None


def _is_seconds(value: Any) -> bool:
    return type(value) in {int, float} and abs(value) < _MAX_SECONDS


def _default_path() -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".local" / "state") / "ahvn-tools" / "calls-1.sqlite"


def _require_private(path: Path) -> None:
    """Raise OSError for a file that is not a regular one, or that other users own or can open."""
    status = os.lstat(path)
    is_private = os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
    if not stat.S_ISREG(status.st_mode) or not is_private:
        raise PermissionError(f"{path.name!r} must belong to this user, and no other user may read it: chmod 600")


def process_name(pid: int) -> str:
    """Return the id of a process with its start, so that no later process has the same name; "" if it has ended.

    Without /proc the start is not known; on Windows no process is known to have ended.
    """
    try:
        if Path("/proc/self/stat").exists():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return "" if fields[0] in "ZX" else f"{pid}-{fields[19]}"
        if os.name == "posix":  # pragma: no cover  # without /proc
            os.kill(pid, 0)
    except OSError:  # it has ended, or another user has a process with this id
        return ""
    return f"{pid}-0"  # pragma: no cover
