"""AgentHeaven's `ToolSpec`, `ToolRegistry`, `reg_toolspec` and SQL tool, with the surface of its release 0.9.2."""

from __future__ import annotations

from typing import Any, ClassVar

from ahvn_tools import ToolContext, reg_toolspec, tool
from ahvn_tools import ToolRegistry as CoreToolRegistry
from ahvn_tools import ToolSpec as CoreToolSpec
from ahvn_tools.builtins import Database
from ahvn_tools.errors import ToolError

__all__ = ["ToolRegistry", "ToolSpec", "execute_sql", "reg_toolspec", "toolspec_factory_builtins_execute_sql"]


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

    def to_jsonschema(self, **fields: Any) -> dict[str, Any]:
        """Return the tool as a nested function-calling object, not strict, with `fields` in its `function`."""
        flat = super().to_jsonschema(strict=False)
        function = {name: flat[name] for name in ("name", "description", "parameters")}
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


def execute_sql(db: Database, query: str, context: ToolContext) -> str:
    """Execute a SQL query on the database and return the results as a formatted table."""
    try:
        return db.exec_sql(query, context).text
    except ToolError as error:
        return f"Database query execution failed.\nError Type: {error.code}\nError: {error.message}\nQuery: {query}"


def toolspec_factory_builtins_execute_sql(
    db: Any, max_rows: int = 64, max_width: int = 64, name: str = "exec_sql"
) -> CoreToolSpec:
    """Return a tool that runs SQL statements, with `db` bound: a Database, or a path or URL, which it only reads.

    `max_rows` and `max_width`, in characters of a value, apply to a path or URL. A Database has its own limits.
    """
    database = db if isinstance(db, Database) else Database(db, max_rows=max_rows, max_width=max_width)
    hints = {"readOnlyHint": database.read_only, "openWorldHint": False}
    return ToolSpec.from_function(execute_sql, name=name, annotations=hints).bind("db", default=database)
