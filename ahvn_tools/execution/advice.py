"""What the developer of a tool reads about an exception of another library, in the log and as a note to it."""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

_SQLITE_THREAD: Final = (
    "A SQLite connection belongs to the thread that has opened it, and tools run in several threads: open the "
    "connection in the tool, bind a function that opens it, or call run(…, run_in_thread=False)."
)


def add_advice(error: BaseException, tool: str) -> None:
    """Log how to avoid what a tool has raised, and add it to the exception, if there is advice for it."""
    is_sqlite = (type(error).__module__, type(error).__name__) == ("sqlite3", "ProgrammingError")
    if is_sqlite and "same thread" in str(error) and _SQLITE_THREAD not in getattr(error, "__notes__", ()):
        error.add_note(_SQLITE_THREAD)
        log.error("Tool %r failed. %s", tool, _SQLITE_THREAD)
