"""AgentHeaven's `ToolSpec`, `ToolRegistry`, `reg_toolspec` and SQL tool, as in its releases 0.9.2 and 0.9.4."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, MutableMapping
from os import PathLike
from typing import Any, ClassVar, Final, Self

from ahvn_tools import ToolContext, reg_toolspec, tool
from ahvn_tools import ToolRegistry as CoreToolRegistry
from ahvn_tools import ToolSpec as CoreToolSpec
from ahvn_tools.builtins import Database
from ahvn_tools.builtins.database import render_records
from ahvn_tools.errors import DefinitionError, ToolError, near_misses

__all__ = ["ToolRegistry", "ToolSpec", "execute_sql", "reg_toolspec", "toolspec_factory_builtins_execute_sql"]


class _Binds(MutableMapping[str, str]):
    """The keys of the bound parameters of a tool; to set or delete one binds or unbinds the parameter."""

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    def __getitem__(self, param: str) -> str:
        return super(ToolSpec, self._spec).binds[param]

    def __iter__(self) -> Iterator[str]:
        return iter(super(ToolSpec, self._spec).binds)

    def __len__(self) -> int:
        return len(super(ToolSpec, self._spec).binds)

    def __setitem__(self, param: str, state_key: str) -> None:
        self._spec.bind(param, state_key)

    def __delitem__(self, param: str) -> None:
        if param not in self:
            raise KeyError(param)
        self._spec.unbind(param)

    def __repr__(self) -> str:
        return repr(dict(self))


class ToolSpec(CoreToolSpec):
    """A tool as in `ahvn_tools`, with nested JSON schemas; `@ToolSpec(name=…)` is a decorator that makes one.

    >>> from ahvn_tools.compat.agentheaven import ToolSpec
    >>> @ToolSpec(name="sum")
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> add(a=1, b=2), add.to_jsonschema()["function"]["name"]
    (3, 'sum')
    """

    def __new__(cls, *parts: Any, **options: Any) -> Any:
        """Return a decorator that takes the options of `from_function`; for parts, a spec."""
        # Programs that come from there write `@ToolSpec(…)`.
        return super().__new__(cls) if parts else tool(spec_class=cls, **options)

    @classmethod
    def from_func(cls, func: Callable[..., Any], **options: Any) -> Self:
        """Make a spec from a function, as `from_function` does: the name since release 0.9.4."""
        return cls.from_function(func, **options)

    to_func = CoreToolSpec.to_function
    to_sig = CoreToolSpec.signature

    @property
    def binds(self) -> MutableMapping[str, str]:
        """The state keys of bound parameters, which can be changed here, too."""
        return _Binds(self)

    @property
    def input_schema(self) -> dict[str, Any]:
        """A fresh copy of the input schema, which always has `required`."""
        schema = super().input_schema
        schema.setdefault("required", [])
        return schema

    def to_jsonschema(self, **fields: Any) -> dict[str, Any]:
        """Return the tool as a nested function-calling object, not strict, with `fields` in its `function`."""
        flat = super().to_jsonschema(strict=False)
        function = {"name": flat["name"], "description": flat["description"], "parameters": self.input_schema}
        return {"type": "function", "function": {**function, **fields}}

    def available(self) -> bool:
        """Return whether the client that calls go through is connected; True for a tool that needs none."""
        return self.is_connected


class ToolRegistry(CoreToolRegistry):
    """Makes ToolSpecs from marked methods, by the names of the methods."""

    __slots__ = ()
    spec_class: ClassVar[type[CoreToolSpec]] = ToolSpec
    _toolspecs: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Store the function and the options of each tool in `_toolspecs`."""
        super().__init_subclass__(**options)
        marked = cls.marked_methods()
        cls._toolspecs = {name: {"func": getattr(cls, name), "args": (), "kwargs": marked[name]} for name in marked}

    def to_toolspecs(self) -> dict[str, CoreToolSpec]:
        """Return new specs for this instance, by the name of the method."""
        names = {tool["kwargs"].get("name") or name: name for name, tool in self._toolspecs.items()}
        return {names.get(name, name): spec for name, spec in super().to_toolspecs().items()}


_UNKNOWN_TABLE: Final = re.compile(
    r"""no such table: (.+)|Table with name (.+?) does not exist|relation "(.+?)" does not exist"""
    r"""|Table '(.+?)' doesn't exist"""
)
"""What SQLite, DuckDB, PostgreSQL and MySQL say."""


def _is_of_agentheaven(db: Any) -> bool:
    return hasattr(db, "execute") and hasattr(db, "orm_execute")


def _to_database(db: Any, max_rows: int, max_width: int) -> Database:
    if isinstance(db, Database):
        return db
    if not isinstance(db, str | PathLike) and not callable(db):
        raise DefinitionError(
            f"`db` is a Database of ahvn_tools.builtins or of AgentHeaven, a path or a URL, not a {type(db).__name__}."
        )
    return Database(db, max_rows=max_rows, max_width=max_width)


def execute_sql(db: Any, query: str) -> Any:
    """Run one SQL statement and return its rows as dicts, or an empty list if it has none.

    `db` is a Database, or a path or URL, which is only read, up to 10,000 rows and characters of a value. A statement
    that fails raises ToolError, and so does a longer result. `db` may also be a database of AgentHeaven, which runs the
    statement as it does there, and returns its own object for an error.
    """
    if not _is_of_agentheaven(db):
        return _to_database(db, 10_000, 10_000).fetch(query)
    answer = db.execute(query, autocommit=True, safe=True)
    if getattr(answer, "error_type", None):
        return answer
    return [] if answer is None else answer.to_list(row_fmt="dict")


def _exec_sql(db: Any, query: str, context: ToolContext, *, max_rows: int, max_width: int) -> str:
    """Return the rows of a statement as a table, or a text that says why there are none."""
    if _is_of_agentheaven(db):
        rows = execute_sql(db, query)
        is_table = isinstance(rows, list)
        return render_records(rows, max_rows=max_rows, max_width=max_width) if is_table else str(rows)
    try:
        result = db.exec_sql(query, context)
    except ToolError as error:
        message = error.message.removesuffix(". `db_info` lists the tables.")  # the agent may have no such tool
        found = _UNKNOWN_TABLE.search(message)
        kind, hint = ("TableNotFound", _name_tables(db, found, context)) if found else (error.code, "")
        return f"Database query execution failed.\nError Type: {kind}\nError: {message}{hint}\nQuery: {query}"
    return str(result.text if result.structured_content["row_count"] != 0 else result.text.partition("\n")[0])


def _name_tables(db: Database, unknown: re.Match[str], context: ToolContext) -> str:
    """Return the tables of a database as a hint, unless it cannot be asked."""
    try:
        described = db.db_info(context).structured_content or {}
    except ToolError:
        return ""
    tables = [table["name"] for table in described["tables"]]
    name = next(filter(None, unknown.groups())).rpartition(".")[2]
    hint = near_misses(name, [table.rpartition(".")[2] for table in tables])
    return f"\n{hint} Tables: {', '.join(map(repr, tables))}." if hint.startswith("Did") else f"\n{hint}"


def toolspec_factory_builtins_execute_sql(
    db: Any, max_rows: int | None = None, max_width: int | None = None, *, name: str = "exec_sql"
) -> CoreToolSpec:
    """Return a tool that runs SQL statements, with `db` bound.

    `db` is a Database, which has its own limits, a path or URL, which it only reads, or a database of AgentHeaven,
    which it also changes. `max_rows` and `max_width`, in characters of a value, are 64 by default.
    """
    is_own = _is_of_agentheaven(db)
    rows, width = max_rows or 64, max_width or 64
    database = db if is_own else _to_database(db, rows, width)
    return ToolSpec.from_function(
        functools.partial(_exec_sql, max_rows=rows, max_width=width),
        name=name,
        description="Execute a SQL query on the database and return the results as a formatted table.",
        annotations={"readOnlyHint": not is_own and database.read_only, "openWorldHint": False},
        run_in_thread=not is_own,  # a connection of its own may belong to the thread that opened it
    ).bind("db", default=database)
