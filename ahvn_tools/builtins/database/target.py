"""Target: the database of a URL or a path, without its secrets in any text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from ahvn_tools.errors import DefinitionError

Engine = Literal["sqlite", "duckdb", "postgresql", "other"]
Url = str | PathLike[str] | Callable[[], str]
"""A URL, the path of a SQLite or DuckDB file, or a function that returns one of them."""

DISPLAY_NAMES: Final = {"sqlite": "SQLite", "duckdb": "DuckDB", "postgresql": "PostgreSQL", "other": "SQL"}
_FILE_ENGINES: Final[dict[str, Engine]] = {"sqlite": "sqlite", "duckdb": "duckdb"}
_SERVER_ENGINES: Final[dict[str, Engine]] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "postgresql+psycopg": "postgresql",
}
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
        name = scheme[1].lower()
        if name in _FILE_ENGINES:
            return cls(engine=_FILE_ENGINES[name], location=_path_of(text[scheme.end() :]))
        if name in _SERVER_ENGINES:
            return cls(engine=_SERVER_ENGINES[name], location=f"postgresql://{text[scheme.end() :]}")
        return cls(engine="other", location=text)

    @property
    def is_file(self) -> bool:
        """Whether the database is a file."""
        return self.engine in _FILE_ENGINES.values() and bool(self.location)

    @property
    def exists(self) -> bool:
        """Whether the database is no file, or one that exists."""
        return not self.is_file or Path(self.location).exists()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password, and secret options, as they are in the URL and decoded."""
        if self.engine in _FILE_ENGINES.values():
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
