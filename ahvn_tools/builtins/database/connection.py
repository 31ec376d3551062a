"""DatabaseConnection: performs requests on the database of a target."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ahvn_tools.builtins.database.request import Request
from ahvn_tools.builtins.database.statement import UnreachableError
from ahvn_tools.builtins.database.statement_process import perform_in_process
from ahvn_tools.builtins.database.target import Target, Url
from ahvn_tools.builtins.processes.private_folder import delete_own_folder, private_folder
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject


class DatabaseConnection:
    """Connects for each request. A database without a path is a file in a private folder.

    Pickles do not contain a URL with a password, and no such database.
    """

    _target: Target | None = None

    def __init__(self, url: Url) -> None:
        """`url` may be a function: it is called for each request, so that a pickle needs no password."""
        self._url = url if callable(url) else None
        self._target = None if callable(url) else Target.parse(url)
        self._set_up()

    def _set_up(self) -> None:
        self._temporary: Path | None = None
        self._delete_temporary: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

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
            return perform_in_process(target.engine, target.location or self._temporary_file(), request, context)
        except ToolError as error:
            explanation = error.explanation and target.mask(error.explanation)
            raise type(error)(target.mask(error.message), explanation=explanation) from None

    def _temporary_file(self) -> str:
        """Return the file of a database without a path, which is empty at first."""
        with self._lock:
            if self._temporary is None:
                folder = Path(tempfile.mkdtemp(prefix="database-", dir=private_folder.path))
                self._delete_temporary = weakref.finalize(self, delete_own_folder, folder, os.getpid())
                self._temporary = folder / "temporary.db"
                self._temporary.touch()
            return str(self._temporary)

    def close(self) -> None:
        """Delete a database without a path; the next request gets an empty one."""
        with self._lock:
            self._delete_temporary()
            self._temporary = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the URL, unless it contains a secret."""
        has_secrets = self._target is not None and self._target.secrets
        return {"url": self._url, "target": None if has_secrets else self._target}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._url, self._target = state["url"], state["target"]
        self._set_up()

    def __repr__(self) -> str:
        return f"<DatabaseConnection to {self._target or 'a database'}>"
