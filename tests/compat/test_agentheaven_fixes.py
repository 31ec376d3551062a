"""Bugs of AgentHeaven 0.9.2 that are not repeated, and its surface where the page about tools is silent."""

from __future__ import annotations

import contextlib
import functools
import pickle
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp.types import Tool as MCPTool

from ahvn_tools import Toolkit, ToolResult
from ahvn_tools import ToolRegistry as CoreToolRegistry
from ahvn_tools import ToolSpec as CoreToolSpec
from ahvn_tools.builtins import Database, Workspace
from ahvn_tools.compat.agentheaven import (
    ToolRegistry,
    ToolSpec,
    execute_sql,
    reg_toolspec,
    toolspec_factory_builtins_execute_sql,
)
from ahvn_tools.errors import (
    DefinitionError,
    ToolConnectionError,
    ToolError,
)


def greet(name: str, tone: str = "plain") -> str:
    """Greet a person."""
    return f"{tone}: hello, {name}"


# state and clones


def test_a_clone_and_a_pickle_keep_the_class():
    class Own(ToolSpec): ...

    assert type(Own.from_function(greet).clone()) is Own
    twin = pickle.loads(pickle.dumps(ToolSpec.from_function(greet).bind("tone", default="warm")))
    assert (type(twin), twin(name="Ann")) == (ToolSpec, "warm: hello, Ann")


def test_an_input_schema_always_says_what_is_required():
    specs = [
        ToolSpec.from_function(lambda: 1, name="none"),
        ToolSpec.from_function(greet).bind("name", default="Ann"),
        ToolSpec.from_mcp(MCPTool(name="search", input_schema={"type": "object", "properties": {"query": {}}})),
        ToolSpec.from_code("def one(a: int = 1): pass"),
    ]
    for spec in specs:
        assert spec.input_schema["required"] == spec.to_jsonschema()["function"]["parameters"]["required"] == []
    assert ToolSpec.from_function(greet).input_schema["required"] == ["name"]


def test_the_names_of_release_0_9_4_are_those_of_0_9_2():
    tool = ToolSpec.from_func(func=greet, name="welcome", parse_docstring=True)
    assert type(tool) is ToolSpec
    assert tool.to_sig(name="Ann") == tool.signature(name="Ann") == "welcome(name='Ann', tone='plain')"
    assert tool.to_func()("Ann", tone="warm") == tool.to_function()("Ann", tone="warm") == "warm: hello, Ann"


# registry


class Base(ToolRegistry):
    @reg_toolspec
    def first(self) -> str:
        return "first"

    @reg_toolspec(tags={"kept"})
    def second(self) -> str:
        return "second"


class Other:
    @reg_toolspec
    def mixed(self) -> str:
        return "mixed"


def test_a_subclass_keeps_the_tools_of_its_parents():
    class Child(Base):
        @reg_toolspec
        def third(self) -> str:
            return "third"

    class Grandchild(Other, Child):
        def second(self) -> str:
            return "again"

    class Empty(Base): ...

    assert Empty().list_toolspecs() == ["first", "second"]
    assert Child().list_toolspecs() == ["first", "second", "third"]
    assert Grandchild().list_toolspecs() == ["first", "second", "third", "mixed"]
    assert Grandchild().toolspec("second")() == "again"
    assert Grandchild._toolspecs["second"]["kwargs"]["tags"] == {"kept"}
    assert Grandchild._toolspecs["second"]["func"] is Grandchild.second
    assert Grandchild._toolspecs["first"]["func"] is Base.first
    assert Base().list_toolspecs() == ["first", "second"]


def test_static_and_class_methods_are_tools():
    class Kinds(ToolRegistry):
        @reg_toolspec
        @classmethod
        def of_class(cls, a: int) -> str:
            return f"{cls.__name__} {a}"

        @staticmethod
        @reg_toolspec
        def of_none(a: int) -> str:
            return f"none {a}"

    tools = Kinds().to_toolspecs()
    assert {name: tool(a=1) for name, tool in tools.items()} == {"of_class": "Kinds 1", "of_none": "none 1"}
    assert Kinds._toolspecs["of_none"]["func"](2) == Kinds._toolspecs["of_none"]["func"](a=2) == "none 2"


@pytest.mark.parametrize("read_only", [True, False])
def test_a_registry_that_hides_tools_is_mixed_in(tmp_path, read_only):
    class Notes(ToolRegistry, Workspace):
        """Files, and a tool of its own."""

        @reg_toolspec(name="count_notes", annotations={"readOnlyHint": True})
        def count(self) -> int:
            return 2

    notes = Notes(tmp_path, read_only=read_only)
    named = {("count_notes" if name == "count" else name): spec for name, spec in notes.to_toolspecs().items()}
    assert {spec.name for spec in named.values()} == {tool.name for tool in Toolkit("k").add(notes)} == set(named)
    assert (notes.toolspec("count")(), notes.toolspec("count_notes")()) == (2, 2)
    assert ("mkdir" in notes.list_toolspecs()) is not read_only


def test_a_tool_that_a_base_class_adds_keeps_its_name():
    class Adding(CoreToolRegistry):
        def to_toolspecs(self):
            return {**super().to_toolspecs(), "greet": CoreToolSpec.from_function(greet)}

    class Both(ToolRegistry, Adding):
        @reg_toolspec(name="own_count")
        def count(self) -> int:
            return 4

    assert Both().list_toolspecs() == ["count", "greet"]
    assert Both().toolspec("greet")(name="Ann") == "plain: hello, Ann"


# MCP


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    """A client of a server in this process."""
    server: FastMCP[Any] = FastMCP("shelf")

    @server.tool
    def search(query: str, limit: int = 10, user: str = "guest") -> dict:
        """Search the shelf."""
        return {"query": query, "limit": limit, "user": user}

    @server.tool(output_schema=None)
    def text(value: str) -> str:
        """Return a text."""
        return value

    @server.tool
    def number(value: int) -> int:
        """Return a number."""
        return value

    async with Client(server) as connected:
        yield connected


def test_a_tool_that_a_server_lists_is_a_tool():
    tool = ToolSpec.from_mcp(MCPTool(name="far", description="Far.", inputSchema={"type": "object", "properties": {}}))
    assert (tool.name, tool.description, tool.to_jsonschema()["function"]["name"]) == ("far", "Far.", "far")
    assert not tool.available()
    with pytest.raises(ToolConnectionError, match="pass a connected one"):
        tool()


async def test_available_says_whether_the_client_is_connected(client):
    tool = await ToolSpec.afrom_client(client, "number")
    assert tool.available()
    assert tool.state == {}
    await client.close()
    assert not tool.available()
    assert ToolSpec.from_function(greet).available()


# SQL


@pytest.fixture
def teas(tmp_path: Path) -> Path:
    path = tmp_path / "teas.db"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE teas (id INTEGER, name TEXT)")
        connection.executemany(
            "INSERT INTO teas VALUES (?, ?)", [(number, f"tea {number}") for number in range(1, 101)]
        )
    return path


@pytest.mark.parametrize("kind", [Path, str, "sqlite:///{}".format, Database])
def test_sql_tool_takes_a_path_a_url_and_a_database(teas, kind):
    tool = toolspec_factory_builtins_execute_sql(kind(teas))
    assert (type(tool), tool.name, list(tool.params), dict(tool.binds)) == (
        ToolSpec,
        "exec_sql",
        ["query"],
        {"db": "db"},
    )
    assert tool.description == "Execute a SQL query on the database and return the results as a formatted table."
    assert tool(query="SELECT * FROM teas WHERE id = 7") == "id | name\n-- | -----\n7  | tea 7\n1 row in total."


def test_sql_tool_omits_rows_in_the_middle(teas):
    tool = toolspec_factory_builtins_execute_sql(teas, 4, None, name="query")
    text = tool(query="SELECT id FROM teas ORDER BY id")
    assert tool.name == "query"
    assert text.splitlines()[2:8] == ["1", "2", "... (96 rows omitted)", "99", "100", "100 rows in total."]
    assert len(toolspec_factory_builtins_execute_sql(teas)(query="SELECT id FROM teas").splitlines()) == 2 + 64 + 1 + 2


def test_sql_tool_cuts_long_values(teas):
    tool = toolspec_factory_builtins_execute_sql(teas, max_width=4)
    assert "tea … (5 characters)" in tool(query="SELECT name FROM teas LIMIT 2")


def test_sql_tool_shows_64_characters_of_a_value(teas):
    query = "SELECT hex(zeroblob(33)) AS zeros UNION ALL SELECT 'x'"  # the value of a single row is whole
    assert f"{'0' * 64}… (66 characters)" in toolspec_factory_builtins_execute_sql(teas)(query=query)


def test_sql_tool_without_rows(teas):
    writing = toolspec_factory_builtins_execute_sql(Database(teas, read_only=False, approve="never"))
    for query in ("SELECT id FROM teas WHERE id < 0", "DELETE FROM teas"):
        assert writing(query=query) == "Query executed successfully. But no rows returned."


async def test_sql_errors_are_texts(teas):
    tool = toolspec_factory_builtins_execute_sql(teas)
    text = tool(query="SELECT origin FROM teas")
    assert text.startswith("Database query execution failed.\nError Type: tool_error\nError: ")
    assert text.endswith("\nQuery: SELECT origin FROM teas")
    assert "origin" in text.splitlines()[2]
    assert await tool.acall(query="SELECT origin FROM teas") == text


def test_sql_tool_names_the_tables_where_one_is_unknown(teas):
    with contextlib.closing(sqlite3.connect(teas)) as connection:
        connection.execute("CREATE TABLE cups (id INTEGER)")
    tool = toolspec_factory_builtins_execute_sql(teas)
    assert tool(query="SELECT * FROM main.tea").splitlines()[1:4] == [
        "Error Type: TableNotFound",
        "Error: SQLite refuses the statement: no such table: main.tea",
        "Did you mean 'teas'? Tables: 'cups', 'teas'.",
    ]
    assert "\nKnown: 'cups', 'teas'.\n" in tool(query="SELECT * FROM shelves")


@pytest.mark.parametrize(
    "message",
    [
        "DuckDB refuses the statement: Catalog Error: Table with name tea does not exist!",
        'PostgreSQL refuses the statement: relation "shop.tea" does not exist',
        "The database refuses the statement: Table 'shop.tea' doesn't exist",
    ],
)
def test_sql_tool_knows_what_each_database_says_of_an_unknown_table(teas, message):
    class Other(Database):
        def exec_sql(self, query: str, context: Any, parameters: Any = None) -> ToolResult:
            raise ToolError(message)

        def db_info(self, context: Any, table: str | None = None) -> ToolResult:
            return ToolResult("", {"tables": [{"name": "shop.teas"}]})

    text = toolspec_factory_builtins_execute_sql(Other(teas))(query="SELECT 1")
    assert "\nError Type: TableNotFound\n" in text
    assert "\nDid you mean 'teas'? Tables: 'shop.teas'.\n" in text


def test_sql_tool_names_no_tables_of_a_database_that_cannot_be_asked_again(teas):
    class Gone(Database):
        def db_info(self, context: Any, table: str | None = None) -> ToolResult:
            raise ToolError("The database cannot be reached.")

    text = toolspec_factory_builtins_execute_sql(Gone(teas))(query="SELECT * FROM tea")
    assert text.endswith("\nError: SQLite refuses the statement: no such table: tea\nQuery: SELECT * FROM tea")


def test_sql_tool_reads_only_unless_the_database_may_write(teas):
    tool = toolspec_factory_builtins_execute_sql(teas)
    assert "read-only" in tool(query="DELETE FROM teas")
    hints = tool.to_mcp().annotations
    assert (hints.read_only_hint, hints.open_world_hint) == (True, False)
    writing = toolspec_factory_builtins_execute_sql(Database(teas, read_only=False, approve="never"))
    assert not writing.to_mcp().annotations.read_only_hint
    writing(query="DELETE FROM teas WHERE id > 1")
    assert tool(query="SELECT count(*) AS n FROM teas") == "n\n-\n1\n1 row in total."


def test_the_database_of_a_sql_tool_is_in_its_state(teas, tmp_path):
    other = tmp_path / "other.db"
    sqlite3.connect(other).close()
    tool = toolspec_factory_builtins_execute_sql(teas)
    twin = tool.clone()
    twin.state["db"] = Database(other)
    assert "no such table" in twin(query="SELECT * FROM teas")
    assert "100 rows in total." in tool(query="SELECT * FROM teas")


def test_the_function_of_the_sql_tool_returns_all_rows_as_dicts(teas):
    rows = execute_sql(teas, "SELECT * FROM teas ORDER BY id")
    assert (len(rows), rows[0], rows[99]) == (100, {"id": 1, "name": "tea 1"}, {"id": 100, "name": "tea 100"})
    database = Database(teas, read_only=False, approve="never")
    assert execute_sql(database, "UPDATE teas SET name = 'x' WHERE id < 3") == []
    assert execute_sql(database, "SELECT count(*) AS n FROM teas WHERE name = 'x'") == [{"n": 2}]


def test_the_function_of_the_sql_tool_returns_no_part_of_a_result(teas):
    with pytest.raises(ToolError, match=r"more than 64 rows.* `max_rows`"):
        execute_sql(Database(teas), "SELECT * FROM teas")
    with pytest.raises(ToolError, match="no such table"):
        execute_sql(teas, "SELECT * FROM tea")


class HeavenError:
    """What AgentHeaven's database returns for an error."""

    error_type = "TableNotFound"

    def __str__(self) -> str:
        return "Database query execution failed.\nError Type: TableNotFound"


class HeavenRows(list):
    """What AgentHeaven's database returns for rows."""

    error_type = ""

    def to_list(self, row_fmt: str) -> list[dict[str, Any]]:
        assert row_fmt == "dict"
        return [*self]


class HeavenDatabase:
    """The part of AgentHeaven's database that a tool uses; it works in its own thread alone."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.row_factory = sqlite3.Row

    def orm_execute(self, query: Any) -> Any:
        raise NotImplementedError

    def execute(self, query: str, *, autocommit: bool, safe: bool) -> Any:
        assert autocommit
        assert safe
        try:
            cursor = self._connection.execute(query)
        except sqlite3.OperationalError:
            return HeavenError()
        return HeavenRows(map(dict, cursor)) if cursor.description else None


async def test_a_database_of_agentheaven_runs_the_statements_of_the_sql_tool_itself():
    database = HeavenDatabase()
    assert execute_sql(database, "CREATE TABLE teas AS SELECT 'sencha' AS name UNION SELECT 'oolong'") == []
    assert execute_sql(database, "SELECT name FROM teas") == [{"name": "oolong"}, {"name": "sencha"}]
    assert execute_sql(database, "SELECT * FROM tea").error_type == "TableNotFound"
    tool = toolspec_factory_builtins_execute_sql(database, max_width=3)
    text = tool(query="SELECT name FROM teas")
    assert text.splitlines()[2:5] == ["ool… (6 characters)", "sen… (6 characters)", "2 rows in total."]
    assert await tool.acall(query="SELECT name FROM teas") == text
    assert tool(query="SELECT * FROM tea") == "Database query execution failed.\nError Type: TableNotFound"
    assert tool(query="DELETE FROM teas") == "Query executed successfully. But no rows returned."
    assert tool.to_mcp().annotations.read_only_hint is False


def test_what_is_no_database_is_an_error_that_says_what_is():
    for make in (toolspec_factory_builtins_execute_sql, functools.partial(execute_sql, query="SELECT 1")):
        with pytest.raises(DefinitionError, match=r"`db` is a Database .* a path or a URL, not a int"):
            make(3)


def test_a_database_that_does_not_exist_and_an_unknown_option_are_errors(tmp_path):
    with pytest.raises(DefinitionError, match="There is no database"):
        toolspec_factory_builtins_execute_sql(tmp_path / "none.db")
    with pytest.raises(TypeError, match="style"):
        toolspec_factory_builtins_execute_sql(tmp_path / "none.db", style="DEFAULT")
    with pytest.raises(TypeError, match="positional"):  # a style, which is no name
        toolspec_factory_builtins_execute_sql(tmp_path / "none.db", 64, 64, "DEFAULT")


# declared differences


def test_bindings_can_be_changed_as_a_dict():
    tool = ToolSpec.from_function(greet)
    tool.state["style"] = {"tone": "warm"}
    binds = tool.binds
    binds["tone"] = "style.tone"
    assert tool(name="Ann") == "warm: hello, Ann"
    assert (binds, repr(binds), len(binds)) == ({"tone": "style.tone"}, "{'tone': 'style.tone'}", 1)
    assert list(tool.params) == ["name"]
    assert binds.pop("tone") == "style.tone"
    assert (dict(tool.binds), tool(name="Ann")) == ({}, "plain: hello, Ann")
    with pytest.raises(KeyError):
        del binds["tone"]
