"""The database of a URL or a path, without its secrets in any text, and requests to it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote

from ahvn_tools.builtins.database.statement import Request, UnreachableError
from ahvn_tools.builtins.database.statement_process import perform_in_process
from ahvn_tools.builtins.processes.private_folder import delete_folder, private_folder
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.json_types import JsonObject

Engine = Literal["sqlite", "duckdb", "postgresql", "other"]
Url = str | PathLike[str] | Callable[[], str]
"""A URL, the path of a SQLite or DuckDB file, or a function that returns one of them."""

DISPLAY_NAMES: Final = {"sqlite": "SQLite", "duckdb": "DuckDB", "postgresql": "PostgreSQL", "other": "SQL"}
_FILE_ENGINES: Final = ("sqlite", "duckdb")
_ENGINES: Final[dict[str, Engine]] = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "postgresql+psycopg": "postgresql",
}
"""By the scheme of a URL."""
_SCHEME: Final = re.compile(r"([A-Za-z][\w+.-]*)://")
_DUCKDB_SUFFIXES: Final = (".duckdb", ".ddb")
_SECRET_OPTION: Final = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, repr=False)
class Target:
    """A database: its engine, and the path or the URL with which it is opened."""

    engine: Engine
    location: str
    """An absolute path, empty for a temporary database, or a URL."""

    @classmethod
    def parse(cls, url: str | PathLike[str]) -> Target:
        """Return the target of a URL or a path. Raises DefinitionError, which does not contain the URL."""
        text = fspath(url)
        if not isinstance(text, str) or not text or "\0" in text:  # type: ignore[redundant-expr]  # callers may pass anything
            raise DefinitionError("`url` is the URL of a database, or the path of a SQLite or DuckDB file.")
        scheme = _SCHEME.match(text)
        if scheme is None:
            return cls(engine=_engine_of_file(text), location=str(Path(text).absolute()))
        engine = _ENGINES.get(scheme[1].lower(), "other")
        rest = text[scheme.end() :]
        if engine in _FILE_ENGINES:
            return cls(engine=engine, location=_path_of(rest))
        return cls(engine=engine, location=f"postgresql://{rest}" if engine == "postgresql" else text)

    @property
    def is_file(self) -> bool:
        """Whether the database is a file."""
        return self.engine in _FILE_ENGINES and bool(self.location)

    @property
    def exists(self) -> bool:
        """Whether the database is no file, or one that exists."""
        return not self.is_file or Path(self.location).exists()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password, and secret options, as they are in the URL and decoded."""
        if self.engine in _FILE_ENGINES:
            return ()
        authority, _, options = self.location.partition("?")
        password = re.search(r"://[^:/@]*:(.*)@", authority)
        found = [password[1]] if password else []
        found += [value for name, value in parse_qsl(options) if _SECRET_OPTION.search(name)]
        return tuple({text for value in found for text in (value, unquote(value)) if text})

    def mask(self, text: str) -> str:
        """Return a text without the URL and its secrets."""
        for secret in (self.location, *self.secrets):
            text = text.replace(secret, "***") if secret else text
        return text

    def __repr__(self) -> str:
        return f"<Target of {DISPLAY_NAMES[self.engine]}>"


def _path_of(rest: str) -> str:
    """Return the path of `sqlite:///relative` and `sqlite:////absolute`, and nothing for `sqlite://`."""
    if "?" in rest or (rest and not rest.startswith("/")):
        raise DefinitionError(
            "The URL of a file is 'sqlite:///relative/path' or 'sqlite:////absolute/path', without options."
        )
    path = rest[1:]
    return str(Path(path).absolute()) if path and path != ":memory:" else ""


def _engine_of_file(path: str) -> Engine:
    """Return the engine of a file by its name.

    Its content is not read: closing the file would release the locks of a SQLite connection of this process.
    """
    return "duckdb" if Path(path).suffix.lower() in _DUCKDB_SUFFIXES else "sqlite"


class DatabaseConnection:
    """Connects for each request. A database without a path is a file in a private folder.

    Pickles do not contain a URL with a password, and no such database.
    """

    def __init__(self, url: Url) -> None:
        """`url` may be a function: it is called for each request, so that a pickle needs no password."""
        self.__setstate__({"url": url, "target": None} if callable(url) else {"url": None, "target": Target.parse(url)})

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
        folder = private_folder.path / self._temporary
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "temporary.db").touch()
        return str(folder / "temporary.db")

    def close(self) -> None:
        """Delete a database without a path; the next request gets an empty one."""
        delete_folder(private_folder.path / self._temporary)

    def __getstate__(self) -> dict[str, Any]:
        """Return the URL, unless it contains a secret."""
        has_secrets = self._target is not None and self._target.secrets
        return {"url": self._url, "target": None if has_secrets else self._target}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._url: Callable[[], str] | None = state["url"]
        self._target: Target | None = state["target"]
        self._temporary = f"database-{uuid.uuid4().hex}"

    def __repr__(self) -> str:
        return f"<DatabaseConnection to {self._target or 'a database'}>"
