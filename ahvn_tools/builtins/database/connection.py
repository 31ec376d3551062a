"""DatabaseConnection: performs requests on the database of a target."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.builtins.database.deadline import POLL_SECONDS, Deadline
from ahvn_tools.builtins.database.request import Request
from ahvn_tools.builtins.database.sqlite import SQLiteSession, connect_file, connect_memory
from ahvn_tools.builtins.database.statement import UnreachableError
from ahvn_tools.builtins.database.statement_process import perform_in_process
from ahvn_tools.builtins.database.target import Target, Url
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject


class DatabaseConnection:
    """Connects for each request. Only a database in memory has one connection, because it ends with it.

    Pickles do not contain a URL with a password, and no connection.
    """

    _target: Target | None = None

    def __init__(self, url: Url) -> None:
        """`url` may be a function: it is called for each request, so that a pickle needs no password."""
        self._url = url if callable(url) else None
        self._target = None if callable(url) else Target.parse(url)
        self._set_up()

    def _set_up(self) -> None:
        self._memory: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        reset_after_fork(self._forget)

    def _forget(self) -> None:
        """Start without a connection in a forked process: a database in memory is that of its process."""
        self._memory, self._lock = None, threading.Lock()

    @property
    def target(self) -> Target:
        """The target. Raises ToolError if the URL is not in the pickle that this was made of."""
        if self._url is not None:
            return Target.parse(self._url())
        if self._target is None:
            raise UnreachableError(
                "The database cannot be reached.",
                explanation="A pickled Database does not contain a URL with a password. Pass a function that returns "
                "the URL, such as one that reads an environment variable.",
            )
        return self._target

    def perform(self, request: Request, context: ToolContext) -> JsonObject:
        """Return the answer. Raises ToolError with the text of the database, without the URL and the password."""
        target = self.target
        try:
            if target.engine != "sqlite":
                return perform_in_process(target.engine, target.location, request, context)
            return self._perform_here(target, request, context)
        except ToolError as error:
            explanation = error.explanation and target.mask(error.explanation)
            raise type(error)(target.mask(error.message), explanation=explanation) from None

    def _perform_here(self, target: Target, request: Request, context: ToolContext) -> JsonObject:
        deadline = Deadline(request.limits.timeout, context)
        if not target.location:
            return self._perform_in_memory(request, deadline)
        connection = connect_file(Path(target.location), may_write=request.may_write)
        try:
            return _perform(connection, request, deadline)
        finally:
            connection.close()

    def _perform_in_memory(self, request: Request, deadline: Deadline) -> JsonObject:
        while not self._lock.acquire(timeout=POLL_SECONDS):
            deadline.check()
        try:
            self._memory = self._memory or connect_memory()
            return _perform(self._memory, request, deadline)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection to a database in memory, which is empty afterwards."""
        with self._lock:
            memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the URL, unless it contains a secret."""
        has_secrets = self._target is not None and self._target.secrets
        return {"url": self._url, "target": None if has_secrets else self._target}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._url, self._target = state["url"], state["target"]
        self._set_up()

    def __repr__(self) -> str:
        return f"<DatabaseConnection to {self._target or 'a database'}>"


def _perform(connection: sqlite3.Connection, request: Request, deadline: Deadline) -> JsonObject:
    session = SQLiteSession(connection, request.limits, deadline, may_write=request.may_write)
    try:
        return request.perform(session)
    finally:
        session.close()
