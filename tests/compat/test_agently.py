"""ToolManager and its helpers do what the specification of Agently's tool manager says, section by section."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastmcp import FastMCP
from pydantic import BaseModel, Field

from ahvn_tools.compat.agently import AgentlyToolManager, DataFormatter, FunctionShifter, ToolManager
from tests.mcp.loopback import over_http

SPECIFICATION = Path(__file__).parents[2].parent / "shared" / "seeds" / "000-agently-tool-manager.md"
SERVER = Path(__file__).with_name("agently_server.py")


@pytest.fixture
def manager() -> ToolManager:
    return ToolManager()


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def double(n: int) -> int:
    """Double a number."""
    await asyncio.sleep(0)
    return 2 * n


def register_add(manager: ToolManager, **options: Any) -> None:
    manager.register("add", "Add.", {"a": (int, "the first"), "b": (int, "the second")}, add, **options)


# 1. Data


def test_tool_funcs_has_the_functions_by_name(manager):
    register_add(manager)
    assert dict(manager.tool_funcs) == {"add": add}


def test_tool_info_has_name_desc_and_kwargs_by_name(manager):
    register_add(manager)
    assert dict(manager.tool_info) == {
        "add": {"name": "add", "desc": "Add.", "kwargs": {"a": (int, "the first"), "b": (int, "the second")}}
    }


def test_tag_mappings_has_the_names_of_tools_by_tag(manager):
    register_add(manager, tags=["math", "safe"])
    assert dict(manager.tag_mappings) == {"math": {"add"}, "safe": {"add"}}


def test_both_names_of_the_class_are_one():
    assert AgentlyToolManager is ToolManager


def test_a_manager_takes_settings(manager):
    settings = object()
    assert ToolManager(settings).settings is settings
    assert manager.settings is None


# 2. register


@pytest.mark.skipif(not SPECIFICATION.exists(), reason="the specification is not beside the project")
def test_the_signature_of_register_runs_as_it_stands(manager):
    blocks = re.findall(r"```python\n(.*?)```", SPECIFICATION.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 1
    names = {"register": manager.register, "name": "add", "desc": "Add.", "kwargs": {"a": (int, "")}, "func": add}
    exec(blocks[0], names)  # the block is the example
    assert manager.call_tool("add", {"a": 1}) == 2


def test_register_returns_none(manager):
    assert manager.register("add", "Add.", {"a": (int, "")}, add) is None


def test_returns_are_in_the_info_if_they_are_given(manager):
    register_add(manager, returns=int)
    assert manager.tool_info["add"]["returns"] is int


def test_without_returns_the_info_has_none(manager):
    register_add(manager)
    assert "returns" not in manager.tool_info["add"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [("math", {"math": {"add"}}), (["a", "b"], {"a": {"add"}, "b": {"add"}}), (None, {}), ([], {})],
    ids=["text", "list", "none", "empty"],
)
def test_tags_are_a_text_a_list_or_none(manager, tags, expected):
    register_add(manager, tags=tags)
    assert dict(manager.tag_mappings) == expected


# 3. tool_func


def test_the_decorator_returns_the_function_itself(manager):
    assert manager.tool_func(add) is add


def test_the_description_is_the_whole_docstring(manager):
    @manager.tool_func
    def documented(a: int) -> int:
        """Add one.

        Args:
            a: The number.
        """
        return a + 1

    assert manager.tool_info["documented"]["desc"] == "Add one.\n\nArgs:\n    a: The number."


def test_without_a_docstring_the_description_is_the_name(manager):
    @manager.tool_func
    def undocumented() -> None: ...

    assert manager.tool_info["undocumented"]["desc"] == "undocumented"


def test_each_parameter_has_its_type_and_text(manager):
    @manager.tool_func
    def find(query: str, exact: bool, limits: list[int]) -> None: ...

    kwargs = manager.tool_info["find"]["kwargs"]
    assert kwargs == {"query": (str, ""), "exact": (bool, ""), "limits": (list[int], "")}
    assert list(kwargs) == ["query", "exact", "limits"]


def test_a_default_is_appended_to_the_text(manager):
    @manager.tool_func
    def find(query: str = "tea", limit: Annotated[int | None, "how many"] = None) -> None: ...

    kwargs = manager.tool_info["find"]["kwargs"]
    assert kwargs == {"query": (str, "Default: tea"), "limit": (int | None, "how many;Default: None")}


class Day(BaseModel):
    month: int = Field(description="1 to 12")
    name: str


def test_returns_are_the_sanitized_annotation(manager):
    @manager.tool_func
    def today() -> Day:
        return Day(month=2, name="Monday")

    @manager.tool_func
    def count() -> Annotated[int, "how many"]:
        return 1

    assert manager.tool_info["today"]["returns"] == {"month": (int, "1 to 12"), "name": (str,)}
    assert manager.tool_info["today"]["returns"] == DataFormatter.sanitize(Day, remain_type=True)
    assert manager.tool_info["count"]["returns"] is int


def test_without_a_return_annotation_there_are_no_returns(manager):
    @manager.tool_func
    def untyped(a: int):
        return a

    assert "returns" not in manager.tool_info["untyped"]


# 4. get_tool_info, get_tool_list


@pytest.fixture
def tagged(manager) -> ToolManager:
    for name, tags in {"one": "a", "two": ["a", "b"], "three": "c", "four": None}.items():
        manager.register(name, "", {}, lambda: None, tags=tags)
    return manager


def test_without_tags_all_tools_are_returned(tagged):
    assert list(tagged.get_tool_info()) == ["one", "two", "three", "four"]
    assert [info["name"] for info in tagged.get_tool_list()] == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [("a", ["one", "two"]), (["a", "b"], ["one", "two"]), (["c", "b"], ["two", "three"]), ("none", []), ([], [])],
    ids=["one", "overlapping", "two", "unknown", "empty"],
)
def test_tags_select_the_union_once_each(tagged, tags, expected):
    assert list(tagged.get_tool_info(tags)) == expected
    assert [info["name"] for info in tagged.get_tool_list(tags)] == expected
    assert list(tagged.get_tool_info(tags=tags)) == expected


def test_without_tags_the_tools_of_agents_are_left_out(tagged):
    """An agent tags its own tools with `agent-` and its name."""
    tagged.register("secret_of_ann", "", {}, lambda: "secret", tags=["agent-ann", "a"])
    tagged.tag("four", "agent-bob")
    assert list(tagged.get_tool_info()) == ["one", "two", "three"]
    assert [info["name"] for info in tagged.get_tool_list()] == ["one", "two", "three"]
    assert list(tagged.get_tool_info("agent-ann")) == ["secret_of_ann"]
    assert list(tagged.get_tool_info(["a", "agent-bob"])) == ["one", "two", "four", "secret_of_ann"]
    assert list(tagged.tool_info) == ["one", "two", "three", "four", "secret_of_ann"]
    assert tagged.call_tool("secret_of_ann", {}) == "secret"


# 5. get_tool_func


def test_without_shift_the_function_itself_is_returned(manager):
    manager.tool_func(add)
    assert manager.get_tool_func("add") is manager.get_tool_func("add", shift=None) is add


def test_shift_sync_returns_a_function_for_sync_callers(manager):
    manager.tool_func(double)
    manager.tool_func(add)
    assert manager.get_tool_func("double", shift="sync")(4) == 8
    assert manager.get_tool_func("add", shift="sync") is FunctionShifter.syncify(add) is add


async def test_shift_async_returns_a_function_to_be_awaited(manager):
    manager.tool_func(double)
    manager.tool_func(add)
    assert await manager.get_tool_func("add", shift="async")(1, b=2) == 3
    assert manager.get_tool_func("double", shift="async") is FunctionShifter.asyncify(double) is double


@pytest.mark.parametrize("shift", [None, "sync", "async"])
def test_an_unknown_name_has_no_function(manager, shift):
    assert manager.get_tool_func("nothing", shift=shift) is None


def test_a_sync_function_runs_in_another_thread_when_it_is_awaited():
    seen = []
    asyncio.run(FunctionShifter.asyncify(lambda: seen.append(threading.current_thread()))())
    assert seen != [threading.current_thread()]


# 6. call_tool, async_call_tool


def call_in_both_ways(manager: ToolManager, name: str, kwargs: dict[str, Any]) -> Any:
    """Call from sync code, without a loop and in one, and from async code; return the answer, which is the same."""

    async def main() -> list[Any]:
        return [await manager.async_call_tool(name, kwargs), manager.call_tool(name, kwargs)]

    first, *others = manager.call_tool(name, kwargs), *asyncio.run(main())
    assert others == [first, first]
    return first


def test_an_unknown_tool_is_a_text(manager):
    assert call_in_both_ways(manager, "nothing", {}) == "Can not find tool named 'nothing'"


def test_an_exception_is_a_text(manager):
    @manager.tool_func
    def fail(reason: str) -> None:
        raise ValueError(reason)

    @manager.tool_func
    async def afail(reason: str) -> None:
        raise KeyError(reason)

    assert call_in_both_ways(manager, "fail", {"reason": "no tea"}) == "Error: no tea"
    assert call_in_both_ways(manager, "afail", {"reason": "no tea"}) == "Error: 'no tea'"


def test_sync_and_async_functions_are_called_in_both_ways(manager):
    manager.tool_func(add)
    manager.tool_func(double)
    assert call_in_both_ways(manager, "add", {"a": 1, "b": 5}) == 6
    assert call_in_both_ways(manager, "double", {"n": 4}) == 8


def test_arguments_that_do_not_fit_are_a_text(manager):
    manager.tool_func(add)
    assert call_in_both_ways(manager, "add", {"a": "one"}) == (
        "Error: Invalid arguments: 'a' should be of type integer."
    )
    assert call_in_both_ways(manager, "add", {}) == "Error: Invalid arguments: 'a' is missing."


# 7. MCP


def make_server() -> FastMCP:
    server = FastMCP("shop")

    @server.tool(tags={"math"})
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def fail(reason: str) -> str:
        """Fail."""
        raise ValueError(reason)

    return server


def test_use_mcp_registers_the_tools_of_a_server_over_http(manager):
    with over_http(make_server()) as url:
        manager.use_mcp(url)
        assert list(manager.tool_info) == ["add", "fail"]
        assert call_in_both_ways(manager, "add", {"a": 1, "b": 2}) == {"result": 3}
        manager.toolkit.remove_mcp()
    assert dict(manager.tool_info) == {}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


IMAGE = {"type": "image", "data": "YWJj", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "name": "tea", "uri": "file:///tea.txt"}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///tea.txt", "text": "hot"}}

RESULTS: dict[str, dict[str, Any]] = {
    "error": {"isError": True, "content": [text("no tea"), text("no milk")]},
    "error_without_text": {"isError": True, "content": []},
    "error_with_data": {"isError": True, "content": [text("no tea")], "structuredContent": {"code": 7}},
    "structured": {"content": [text("other")], "structuredContent": {"result": [1, {"a": None}]}},
    "structured_empty": {"content": [text("other")], "structuredContent": {}},
    "json_number": {"content": [text("42"), text("43")]},
    "json_object": {"content": [text('{"a": [1]}')]},
    "plain_text": {"content": [text("tea is hot")]},
    "nothing": {"content": []},
    "image": {"content": [IMAGE]},
    "audio": {"content": [AUDIO]},
    "link": {"content": [LINK]},
    "embedded": {"content": [EMBEDDED]},
    "does_not_fit": {"content": [], "structuredContent": {"n": "three"}},
}

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "title": "Query", "description": "what to look for"},
        "limit": {"type": "integer", "default": 3},
    },
    "required": ["query"],
    "additionalProperties": False,
}
LISTED: dict[str, dict[str, Any]] = {
    "does_not_fit": {"outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "plain_text": {"description": "Find.", "inputSchema": SCHEMA},
    "nothing": {"_meta": {"_fastmcp": {"tags": ["old"]}}},
    "image": {"_meta": {"fastmcp": {"tags": ["new", "media"]}}},
}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory) -> Iterator[ToolManager]:
    """A manager of a real server process, which lists and answers what is written above."""
    script = tmp_path_factory.mktemp("agently") / "script.json"
    tools = [{"name": name, "inputSchema": {"type": "object"}, **LISTED.get(name, {})} for name in [*RESULTS, "crash"]]
    script.write_text(json.dumps({"tools": tools, "results": RESULTS}), "utf-8")
    manager = ToolManager()
    manager.use_mcp([sys.executable, "-S", "-E", str(SERVER), str(script)], tags=["mine", "scripted"])
    yield manager
    manager.toolkit.remove_mcp()


class TestImport:
    """7.1"""

    def test_name_and_description_are_those_of_the_server(self, scripted):
        info = scripted.tool_info["plain_text"]
        assert (info["name"], info["desc"]) == ("plain_text", "Find.")

    def test_kwargs_are_made_of_the_input_schema(self, scripted):
        expected = DataFormatter.from_schema_to_kwargs_format(SCHEMA)
        assert scripted.tool_info["plain_text"]["kwargs"] == expected
        assert expected == {"query": ("string", "description: what to look for"), "limit": ("integer", "default: 3")}

    def test_returns_are_made_of_the_output_schema(self, scripted):
        assert scripted.tool_info["does_not_fit"]["returns"] == {"n": ("integer", "")}
        assert "returns" not in scripted.tool_info["plain_text"]

    async def test_the_function_is_async_and_calls_the_server(self, scripted):
        function = scripted.tool_funcs["json_number"]
        assert asyncio.iscoroutinefunction(function)
        assert await function() == 42
        assert scripted.get_tool_func("json_number", shift="sync")() == 42

    @pytest.mark.parametrize(("tag", "tool"), [("old", "nothing"), ("new", "image"), ("media", "image")])
    def test_tags_of_the_server_are_imported(self, scripted, tag, tool):
        assert scripted.tag_mappings[tag] == {tool}

    def test_a_server_cannot_give_its_tools_to_an_agent(self, manager):
        server = FastMCP("eager")

        @server.tool(tags={"agent-ann", "shop"})
        def eager() -> str:
            return "eager"

        manager.use_mcp(server, tags=["agent-bob"])
        assert list(manager.get_tool_info("agent-ann")) == []
        assert "agent-ann" not in manager.tag_mappings
        assert list(manager.get_tool_info("agent-bob")) == list(manager.get_tool_info("shop")) == ["eager"]
        assert list(manager.get_tool_info()) == []
        manager.toolkit.remove_mcp()
        manager.use_mcp(server)
        assert list(manager.get_tool_info()) == ["eager"]
        manager.toolkit.remove_mcp()

    def test_every_tool_has_the_tags_of_the_import(self, scripted):
        assert scripted.tag_mappings["mine"] == scripted.tag_mappings["scripted"] == {*RESULTS, "crash"}

    def test_one_tag_may_be_a_text(self, manager):
        manager.use_mcp(make_server(), tags="shop")
        assert dict(manager.tag_mappings) == {"shop": {"add", "fail"}, "math": {"add"}}
        manager.toolkit.remove_mcp()


class TestValues:
    """7.2"""

    @pytest.mark.parametrize(
        ("tool", "expected"),
        [
            ("error", {"error": "no tea\nno milk"}),
            ("error_without_text", {"error": "The tool failed."}),
            ("error_with_data", {"error": "no tea"}),
            ("structured", {"result": [1, {"a": None}]}),
            ("structured_empty", {}),
            ("json_number", 42),
            ("json_object", {"a": [1]}),
            ("nothing", None),
        ],
    )
    def test_the_value_of_a_result(self, scripted, tool, expected):
        assert call_in_both_ways(scripted, tool, {}) == expected

    def test_a_text_that_is_no_json_stays_a_text(self, scripted):
        assert call_in_both_ways(scripted, "plain_text", {"query": "tea"}) == "tea is hot"

    @pytest.mark.parametrize(
        ("tool", "expected"),
        [
            ("image", {"type": "image", "data": "YWJj", "mime_type": "image/png"}),
            ("audio", {"type": "audio", "data": "YWJj", "mime_type": "audio/wav"}),
            ("link", {"type": "resource_link", "name": "tea", "uri": "file:///tea.txt"}),
        ],
    )
    def test_media_are_dicts(self, scripted, tool, expected):
        value = call_in_both_ways(scripted, tool, {})
        assert {key: part for key, part in value.items() if part is not None} == expected

    def test_an_embedded_resource_is_a_dict(self, scripted):
        value = call_in_both_ways(scripted, "embedded", {})
        assert (value["type"], value["resource"]["uri"], value["resource"]["text"]) == (
            "resource", "file:///tea.txt", "hot",
        )  # fmt: skip

    def test_an_exception_is_none(self, scripted, caplog):
        assert scripted.call_tool("crash", {}) is None
        assert "The call of the MCP tool 'crash' returns None. " in caplog.text

    def test_a_result_that_does_not_fit_its_schema_is_none(self, scripted, caplog):
        assert scripted.call_tool("does_not_fit", {}) is None
        assert "does not fit its output schema" in caplog.text

    def test_refused_arguments_are_an_error_of_the_tool(self, scripted):
        assert scripted.call_tool("plain_text", {"limit": 1}) == {"error": "Invalid arguments: 'query' is missing."}


def test_without_fastmcp_the_import_is_an_error_and_nothing_is_asked(manager, monkeypatch):
    """7.3"""

    def ask(*_question: str) -> str:
        raise AssertionError("it asked")

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setitem(sys.modules, "fastmcp", None)
    with pytest.raises(ImportError, match="MCP servers need fastmcp: pip install"):
        manager.use_mcp("http://127.0.0.1:1/mcp")
