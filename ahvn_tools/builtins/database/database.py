"""The tools of a database."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, unquote

from ahvn_tools.builtins.approval import Action, Approval, Approve
from ahvn_tools.builtins.database.rendering import fit_rows, render_description, render_rows
from ahvn_tools.builtins.database.statement import (
    NotAllowedError,
    NotReadOnlyError,
    Rows,
    StatementLimits,
    StatementRequest,
    UnreachableError,
    statement_timeout_error,
)
from ahvn_tools.builtins.processes.private_folder import as_file, delete_folder, private_folder
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.json_types import JsonObject
from ahvn_tools.registry import ArgumentKind, ToolRegistry, reg_toolspec
from ahvn_tools.results import ToolResult
from ahvn_tools.spec import ToolSpec

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
class DatabaseTarget:
    """A database: its engine, and the path or the URL with which it is opened."""

    engine: Engine
    location: str
    """An absolute path, empty for a temporary database, or a URL."""

    @classmethod
    def parse(cls, url: str | PathLike[str]) -> DatabaseTarget:
        """Return the target of a URL or a path. Raises DefinitionError, which does not contain the URL."""
        text = fspath(url)
        if not text or "\0" in text:
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


_START: Final = (
    "import sys; sys.path[:] = {path!r}; from ahvn_tools.builtins.database.statement_program import main; main()"
)
_ERRORS: Final = {kind.__name__: kind for kind in (NotAllowedError, NotReadOnlyError, UnreachableError)}
_POLL_SECONDS: Final = 0.02
"""How often a wait looks whether the call was cancelled."""
_ROLL_BACK_SECONDS: Final = 10.0
"""How long a call waits at most until its change is undone."""


def perform_in_process(engine: str, target: str, request: StatementRequest, context: ToolContext) -> JsonObject:
    """Return the answer. Raises ToolError, also if the process ends without one, and CallCancelledError."""
    output = b""
    try:
        output = _run(engine, target, request, context)
    finally:
        if not output and engine == "sqlite" and request.may_write:
            _roll_back(target, request)
    answer: JsonObject = json.loads(output)
    if "error" in answer:
        raise _ERRORS.get(answer["error"], ToolError)(answer["message"], explanation=answer["explanation"])
    return answer


def _roll_back(target: str, request: StatementRequest) -> None:
    """Let SQLite undo a change whose process was killed: no connection that only reads could open the file before."""
    limits = replace(request.limits, timeout=_ROLL_BACK_SECONDS)
    reading = replace(request, limits=limits, query="SELECT 1 FROM sqlite_master LIMIT 1", parameters=None)
    with suppress(ToolError):  # the next connection that may write undoes it
        _run("sqlite", target, reading, ToolContext())


def _run(engine: str, target: str, request: StatementRequest, context: ToolContext) -> bytes:
    """Return the output of the process, which is never empty."""
    timeout = request.limits.timeout
    end = time.monotonic() + timeout
    request = replace(request, limits=replace(request.limits, end=time.time() + timeout))
    data = json.dumps({"engine": engine, "target": target, "request": asdict(request)})
    with as_file(data.encode()) as file:  # `communicate` loses input when its timeout is over before it writes
        process = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, "-I", "-c", _START.format(path=[*map(os.path.abspath, sys.path)])],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                output, _ = process.communicate(timeout=_POLL_SECONDS)
                break
            context.check_cancelled()
            if time.monotonic() > end:
                raise statement_timeout_error(timeout, knows_locks=engine != "other")
    finally:
        process.kill()
        process.communicate()
    if not output:
        raise ToolError("The database has ended without an answer: the statement may need too much memory.")
    return output


class DatabaseConnection:
    """Connects for each request. A database without a path is a file in a private folder.

    Pickles do not contain a URL with a password, and no such database.
    """

    def __init__(self, url: Url) -> None:
        """`url` may be a function: it is called for each request, so that a pickle needs no password."""
        self.__setstate__(
            {"url": url, "target": None} if callable(url) else {"url": None, "target": DatabaseTarget.parse(url)}
        )

    @property
    def target(self) -> DatabaseTarget:
        """The target. Raises ToolError if the URL is not in the pickle that this was made of."""
        if self._url is not None:
            return DatabaseTarget.parse(self._url())
        if self._target is None:
            raise UnreachableError(
                "The database cannot be reached.",
                explanation="A pickled Database does not contain a URL with a password. Pass a function that returns "
                "the URL, such as one that reads an environment variable.",
            )
        return self._target

    def perform(self, request: StatementRequest, context: ToolContext) -> JsonObject:
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
        self._target: DatabaseTarget | None = state["target"]
        self._temporary = f"database-{uuid.uuid4().hex}"

    def __repr__(self) -> str:
        return f"<DatabaseConnection to {self._target or 'a database'}>"


Value = str | int | float | bool | None
"""The value of a parameter."""

MAX_QUERY_CHARS: Final = 100_000
_PACKAGES: Final = {
    "sqlite": ("sqlite3", ""),
    "duckdb": ("duckdb", "pip install duckdb"),
    "postgresql": ("psycopg", 'pip install "psycopg[binary]"'),
    "other": ("sqlalchemy", 'pip install "ahvn-tools[sql]"'),
}
"""The package of each engine, and how to install it."""
_WRITES: Final = {"readOnlyHint": False, "destructiveHint": True}


class Database(ToolRegistry):
    """Tools that query one database: SQLite, DuckDB, PostgreSQL, or any other that SQLAlchemy knows.

    >>> import contextlib, sqlite3, tempfile
    >>> from ahvn_tools.builtins import Database
    >>> path = tempfile.mkdtemp() + "/teas.db"
    >>> with contextlib.closing(sqlite3.connect(path)) as db:
    ...     _ = db.execute("CREATE TABLE teas AS SELECT 'sencha' AS name, 2 AS price")
    >>> query = Database(path).toolspec("exec_sql")
    >>> print(query(query="SELECT name FROM teas WHERE price = :price", parameters={"price": 2}))
    name
    ------
    sencha
    1 row in total.
    """

    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"query": "sql"}

    @suggests_options
    def __init__(
        self,
        url: Url,
        *,
        read_only: bool = True,
        approve: Approve = "risky",
        max_rows: int = 64,
        max_width: int = 64,
        timeout: float = 30.0,
        memory_bytes: int = 512_000_000,
    ) -> None:
        """Raise DefinitionError for a database that cannot be read-only, and for one that does not exist.

        - `url`: a URL (`sqlite:///path`, `duckdb:///path`, `postgresql://user:password@host/name`, or one of
          SQLAlchemy), the path of a SQLite file, or of a DuckDB file that ends in .duckdb or .ddb, or a function that
          returns one of them.
        - `read_only`: whether the database refuses what is no read.
        - `approve`: "risky" and "always" ask for each statement that is no read, "never" for none.
        - `max_rows`: how many rows a model reads.
        - `max_width`: how many characters of a value it reads.
        - `timeout`: seconds of one call.
        - `memory_bytes`: of the process of a statement.
        """
        self.read_only = read_only
        self.approval = Approval(approve)
        self.limits = StatementLimits(
            max_rows=max_rows, max_width=max_width, timeout=timeout, memory_bytes=memory_bytes
        )
        if min(max_rows, max_width, timeout, memory_bytes) <= 0:
            raise DefinitionError("`max_rows`, `max_width`, `timeout` and `memory_bytes` must be above 0.")
        self._connection = DatabaseConnection(url)
        if not callable(url):
            _check_target(self._connection.target, read_only=read_only)

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"database", "read"})
    def exec_sql(
        self, query: str, context: ToolContext, parameters: dict[str, Value] | list[Value] | None = None
    ) -> ToolResult:
        """Run one SQL statement and return the rows as a table.

        Long results are shortened: use LIMIT, WHERE or an aggregate.

        Args:
            query: One statement, with `:name` or `?` in the place of each value.
            parameters: The values: an object for `:name`, a list for `?`.
        """
        rows = fit_rows(self._rows(query, parameters, context))
        structured = {
            "columns": list(rows.columns),
            "rows": [*rows.first, *rows.last],
            "row_count": None if rows.has_more else rows.row_count,
            "truncated": bool(rows.omitted or rows.has_more or rows.has_cut_values),
        }
        return ToolResult(render_rows(rows), structured)

    @reg_toolspec(annotations={"readOnlyHint": True, "openWorldHint": False}, tags={"database", "read"})
    def db_info(self, context: ToolContext, table: str | None = None) -> ToolResult:
        """List the tables and views of the database, or describe one: columns, keys, row count and first rows.

        Args:
            table: The name of a table or view. Without it, all are listed.
        """
        if table is not None:
            _require_utf8(table)
        self._target()
        answer = self._connection.perform(StatementRequest(limits=self.limits, table=table), context)
        return ToolResult(render_description(answer), dict(answer))

    def _rows(self, query: str, parameters: Mapping[str, Value] | list[Value] | None, context: ToolContext) -> Rows:
        """Run a statement; say which ones run here if the database never runs this one."""
        _check_query(query)
        values = parameters.values() if isinstance(parameters, Mapping) else ()
        _require_utf8(query, *(parameters or ()), *values)
        request = StatementRequest(limits=self.limits, query=query, parameters=parameters)
        try:
            return Rows(**self._read_or_write(request, context))
        except NotAllowedError as error:
            runs = "read tables" if self.read_only else "read or write tables"
            raise ToolError(f"{error.message} Use statements that {runs}.") from None

    def _read_or_write(self, request: StatementRequest, context: ToolContext) -> dict[str, Any]:
        """Read; if the database says that the statement is no read and writing is allowed, ask, and write."""
        target = self._target()
        if target.engine != "other" and target.exists:
            try:
                return dict(self._connection.perform(request, context))
            except NotReadOnlyError:
                if self.read_only:
                    raise
        self.approval.require(context, _write_action(request, target))
        return dict(self._connection.perform(replace(request, may_write=True), context))

    def _target(self) -> DatabaseTarget:
        """Return the target of this call: a function may return another URL, and a file may be gone."""
        try:
            return _check_target(self._connection.target, read_only=self.read_only)
        except DefinitionError as error:
            raise UnreachableError("The database cannot be reached.", explanation=str(error)) from None

    def to_toolspecs(self) -> dict[str, ToolSpec]:
        """Return the tools; `exec_sql` says whether it may write."""
        specs = super().to_toolspecs()
        if not self.read_only and "exec_sql" in specs:
            specs["exec_sql"] = specs["exec_sql"].transform(annotations=_WRITES, tags={"database", "write"})
        return specs

    def fetch(self, query: str, parameters: dict[str, Value] | list[Value] | None = None) -> list[dict[str, Any]]:
        """Run one SQL statement for a program, and return its rows by the names of their columns.

        Raises ToolError, also for a result with more than `max_rows` rows or a value of more than `max_width`
        characters (10,000 in a single row): a part of a result is never returned.
        """
        rows = self._rows(query, parameters, ToolContext())
        if rows.omitted or rows.has_more or rows.has_cut_values:
            raise ToolError(
                f"The result has more than {self.limits.max_rows:,} rows, or a value of more than "
                f"{self.limits.max_width:,} characters. Select less, or make the Database with a larger `max_rows` and "
                "`max_width`."
            )
        return [dict(zip(rows.columns, row, strict=True)) for row in (*rows.first, *rows.last)]

    def close(self) -> None:
        """Delete the database of `sqlite://`."""
        self._connection.close()

    def __repr__(self) -> str:
        return f"<Database{', read-only' if self.read_only else ''}>"


def _check_target(target: DatabaseTarget, *, read_only: bool) -> DatabaseTarget:
    if read_only and target.engine == "other":
        raise DefinitionError(
            "Only SQLite, DuckDB and PostgreSQL can be read-only here. Pass read_only=False, and connect with an "
            "account that can only read."
        )
    if not target.location and (read_only or target.engine == "duckdb"):
        raise DefinitionError(
            "A database without a path is empty. Pass a file; 'sqlite://' also works with read_only=False."
        )
    if read_only and target.is_file and not Path(target.location).is_file():
        raise DefinitionError("There is no database at this path. Pass the path of a file, or read_only=False.")
    if importlib.util.find_spec(_PACKAGES[target.engine][0]) is None:
        package, command = _PACKAGES[target.engine]
        raise DefinitionError(f"This database needs the package {package}: {command}")
    return target


def _write_action(request: StatementRequest, target: DatabaseTarget) -> Action:
    parameters = request.parameters
    return Action(
        kind="write",
        text=f"Run on the {DISPLAY_NAMES[target.engine]} database: {(request.query or '')[:2000]}",
        is_risky=True,
        details={
            "query": request.query,
            "parameters": dict(parameters) if isinstance(parameters, Mapping) else list(parameters or ()),
        },
    )


def _check_query(query: str) -> None:
    """Raise ToolError for a query that no database takes."""
    if not query.strip():
        raise ToolError("The query is empty. Pass one SQL statement.")
    if len(query) > MAX_QUERY_CHARS:
        raise ToolError(f"The query is longer than {MAX_QUERY_CHARS:,} characters. Make it shorter.")


def _require_utf8(*values: Value) -> None:
    """Raise ToolError for a text with a NUL or a lone surrogate."""
    for text in values:
        if isinstance(text, str) and "\0" in text:
            raise ToolError("The text has a NUL character. Remove it.")
        try:
            str(text).encode()
        except UnicodeEncodeError:
            raise ToolError("The text has a character that UTF-8 cannot encode. Remove it.") from None
