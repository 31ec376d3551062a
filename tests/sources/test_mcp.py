"""MCP tools as a source: FastMCP's of any kind and the wire's; their schema is the truth, and binding works on it."""

from __future__ import annotations

import asyncio
import datetime as dt
import pickle
import socket
from typing import Annotated, Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult as FastMCPResult
from fastmcp.tools.tool_transform import ArgTransform
from mcp_types import Icon, ToolAnnotations
from mcp_types import Tool as WireTool
from pydantic import AfterValidator, Field

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import (
    BindError,
    DefinitionError,
    InvalidParametersError,
    ToolConnectionError,
    ToolError,
    UnboundStateError,
)
from tests.ids import named


def search(query: str, limit: int = 10, tags: list[str] | None = None) -> dict[str, Any]:
    """Search.

    Args:
        query: What to look for.
    """
    return {"query": query, "limit": limit, "tags": tags}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "tags": {"type": "array", "items": {"type": "string"}},
        "since": {"type": "string", "format": "date"},
    },
    "required": ["query"],
}


class Echo(Tool):
    """A tool with its own `run`, which returns its arguments."""

    async def run(self, arguments: dict[str, Any]) -> FastMCPResult:
        return FastMCPResult(structured_content={"arguments": arguments, "more": 1})


def echo(schema: dict[str, Any] = SCHEMA, **options: Any) -> ToolSpec:
    return ToolSpec.from_mcp(Echo(name="echo", parameters=schema), **options)


def sent(spec: ToolSpec, **arguments: Any) -> dict[str, Any]:
    return spec(**arguments)["arguments"]


# tools of every kind


def test_the_spec_of_a_function_tool_has_its_description():
    given = Tool.from_function(
        search,
        title="T",
        version="2",
        tags={"a"},
        meta={"k": 1},
        icons=[Icon(src="https://example.org/i.png")],
        annotations=ToolAnnotations(read_only_hint=True),
    )
    spec = ToolSpec.from_mcp(given)
    definition = spec.definition
    assert spec.tool is given
    assert spec.function is search
    assert (spec.name, spec.title, spec.description, spec.tags) == ("search", "T", "Search.", {"a"})
    assert (definition.version, definition.meta, definition.annotations) == ("2", {"k": 1}, {"readOnlyHint": True})
    assert definition.icons == [{"src": "https://example.org/i.png"}]
    assert spec.input_schema == given.parameters
    assert spec.output_schema == given.output_schema
    assert spec(query="x", limit="3" if False else 3) == {"query": "x", "limit": 3, "tags": None}


def test_options_take_precedence_over_the_tools_own_fields():
    spec = ToolSpec.from_mcp(
        Tool.from_function(search), name="find", description="", tags=(), title="F", binds={"limit": "limit"}
    )
    assert (spec.name, spec.description, spec.title, spec.tags) == ("find", "", "F", frozenset())
    assert list(spec.params) == ["query", "tags"]
    spec.state["limit"] = 4
    assert spec(query="x")["limit"] == 4


@pytest.mark.parametrize(
    "option",
    [
        "parse_docstring",
        "include_long_description",
        "description_separator",
        "docstring_sections",
        "include_var_positional",
        "include_var_keyword",
        "run_in_thread",
    ],
)
def test_options_of_functions_are_refused(option):
    with pytest.raises(DefinitionError, match=option):
        ToolSpec.from_mcp(Tool.from_function(search), **{option: True})


def test_a_transformed_tool_runs_its_transformation():
    inner = Tool.from_function(search)
    outer = Tool.from_tool(
        inner,
        name="look",
        transform_args={"query": ArgTransform(name="q"), "limit": ArgTransform(hide=True, default=3)},
    )
    spec = ToolSpec.from_mcp(outer)
    assert list(spec.params) == ["q", "tags"]
    assert spec(q="x") == {"query": "x", "limit": 3, "tags": None}
    assert spec.exec(q="x", limit=1).error.code == "invalid_parameters"


def test_a_custom_tool_runs_itself():
    assert echo()(query="x") == {"arguments": {"query": "x"}, "more": 1}


async def test_a_proxied_tool_works_where_it_is_served():
    server = FastMCP("inner")
    server.tool(search)
    proxy = create_proxy(server)
    spec = ToolSpec.from_mcp(await proxy.get_tool("search"), binds={"limit": "limit"})
    spec.state["limit"] = 2
    outer = FastMCP("outer")
    outer.add_tool(spec.to_fastmcp())
    async with Client(outer) as client:
        (listed,) = await client.list_tools()
        assert list(listed.input_schema["properties"]) == ["query", "tags"]
        result = await client.call_tool("search", {"query": "x"})
        assert result.structured_content == {"query": "x", "limit": 2, "tags": None}


def test_a_wire_tool_without_a_client_does_everything_except_calls():
    wire = WireTool(
        name="my_tool", description="What it does.", input_schema=SCHEMA, _meta={"fastmcp": {"tags": ["a"]}}
    )
    spec = ToolSpec.from_mcp(wire).bind("limit", default=1)
    assert (spec.name, spec.description, spec.tags) == ("my_tool", "What it does.", {"a"})
    assert list(spec.params) == ["query", "tags", "since"]
    assert spec.signature(query="x") == "my_tool(query='x')"
    assert "limit" not in spec.code + spec.docstring + spec.to_prompt()
    assert list(spec.to_mcp().input_schema["properties"]) == ["query", "tags", "since"]
    assert spec.to_jsonschema(strict=False)["parameters"] == spec.input_schema
    assert spec.exec().error.code == "invalid_parameters"
    assert spec.clone().name == "my_tool"
    assert spec.timeout is None
    with pytest.raises(ToolConnectionError, match=r"client=client.*afrom_client"):
        spec(query="x")
    assert spec.exec(query="x").error.code == "connection"
    assert pickle.loads(pickle.dumps(spec)).definition == spec.definition


async def test_a_wire_tool_is_called_through_its_client():
    server = FastMCP("test")
    server.tool(search)
    async with Client(server) as client:
        (wire,) = await client.list_tools()
        spec = ToolSpec.from_mcp(wire, client=client, binds={"limit": "limit"})
        spec.state["limit"] = 2
        assert (await spec.acall(query="x"))["limit"] == 2
        assert spec.timeout == 30
        assert ToolSpec.from_mcp(wire, client=client, timeout=None).timeout is None


@pytest.mark.parametrize("value", [search, None, {"name": "x"}])
def test_an_object_that_is_not_a_tool_is_refused(value):
    with pytest.raises(DefinitionError, match="is not an MCP tool; pass"):
        ToolSpec.from_mcp(value)


def test_a_fastmcp_tool_can_be_pickled():
    spec = ToolSpec.from_mcp(Tool.from_function(search)).bind("limit", default=4)
    assert pickle.loads(pickle.dumps(spec))(query="x")["limit"] == 4


# the schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "bogus"}}},
        {"type": "object", "required": 5},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"a": {"$ref": "nowhere.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/hostname"}}},
        {"type": "array"},
    ],
    ids=str,
)
def test_an_unusable_schema_is_refused_when_the_tool_is_made(schema):
    with pytest.raises(DefinitionError, match=r"JSON Schema|describe an object"):
        echo(schema)


def test_no_reference_is_fetched():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        with pytest.raises(DefinitionError, match="contain everything that it refers to"):
            echo({"type": "object", "properties": {"a": {"$ref": url}}})
        with pytest.raises(TimeoutError):
            listener.accept()


def test_unknown_names_are_refused_only_by_a_closed_schema():
    assert sent(echo(), query="x", more=1) == {"query": "x", "more": 1}
    closed = echo({**SCHEMA, "additionalProperties": False})
    with pytest.raises(InvalidParametersError, match="unknown argument 'more'"):
        closed(query="x", more=1)


@pytest.mark.parametrize("schema", [SCHEMA, {**SCHEMA, "additionalProperties": False}], ids=["open", "closed"])
def test_a_bound_name_is_always_refused(schema):
    spec = echo(schema).bind("limit", default=3)
    with pytest.raises(InvalidParametersError, match="unknown argument 'limit'"):
        spec(query="x", limit=1)
    assert sent(spec, query="x") == {"query": "x", "limit": 3}
    assert "limit" not in spec.params


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        ({"query": "x", "tags": '["a"]'}, {"query": "x", "tags": ["a"]}),
        ({"query": "[1]"}, {"query": "[1]"}),
        ({"query": "x", "limit": None}, {"query": "x"}),
        ({"query": "x", "limit": 3.0}, {"query": "x", "limit": 3}),
        ({"query": "x", "tags": ("a",)}, {"query": "x", "tags": ["a"]}),
        ({"query": "x", "since": dt.date(2024, 1, 2)}, {"query": "x", "since": "2024-01-02"}),
    ],
    ids=str,
)
def test_common_mistakes_of_models_are_repaired(arguments, got):
    received = sent(echo(), **arguments)
    assert received == got
    assert [type(value) for value in received.values()] == [type(value) for value in got.values()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'query' is missing"),
        ({"query": None}, "'query' must not be null"),
        ({"query": True}, "'query' should be of type string"),
        ({"query": "x", "limit": "3"}, "'limit' should be of type integer"),
        ({"query": "x", "limit": 3.5}, "'limit' should be of type integer"),
        ({"query": "x", "limit": float("nan")}, "NaN"),
        ({"query": "x", "more": object()}, "no JSON form"),
    ],
    ids=named,
)
def test_nothing_else_is_coerced(arguments, message):
    with pytest.raises(InvalidParametersError, match=message):
        echo()(**arguments)


# binding


def test_a_property_of_the_schema_can_be_bound():
    spec = ToolSpec.from_mcp(Tool.from_function(search)).bind("tags", "session.tags", ["a"])
    assert spec(query="x")["tags"] == ["a"]
    spec.state["session"]["tags"] = ["b"]
    assert spec(query="x")["tags"] == ["b"]


def test_a_name_that_is_not_in_the_schema_cannot_be_bound():
    with pytest.raises(BindError, match=r"'quer'.*'query'"):
        echo().bind("quer")
    with pytest.raises(DefinitionError, match=r"'quer'.*'query'"):
        echo(binds={"quer": "a"})


def test_a_bound_value_is_converted_to_json():
    spec = echo().bind("since", default=dt.date(2024, 1, 2))
    assert sent(spec, query="x") == {"query": "x", "since": "2024-01-02"}


def test_the_error_about_an_invalid_bound_value_does_not_contain_it():
    spec = echo().bind("limit", "user.limit", "classified")
    with pytest.raises(UnboundStateError, match=r"'limit' is bound to 'user\.limit'") as caught:
        spec(query="x")
    assert "classified" not in str(caught.value)


def test_an_optional_bound_parameter_without_a_value_is_left_out():
    assert sent(echo().bind("limit", "user.limit"), query="x") == {"query": "x"}


def test_a_required_bound_parameter_without_a_value_is_an_error():
    with pytest.raises(UnboundStateError, match=r"'query' is bound to 'user\.query'"):
        echo().bind("query", "user.query")()


def test_a_bound_value_is_checked_against_the_reference_of_its_property():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#/$defs/C"}},
        "$defs": {"C": {"type": "object", "properties": {"d": {"$ref": "#/$defs/C"}}, "additionalProperties": False}},
    }
    assert sent(echo(schema).bind("b", default=1).bind("c", default={"d": {"d": {}}})) == {
        "b": 1,
        "c": {"d": {"d": {}}},
    }
    with pytest.raises(UnboundStateError):
        echo(schema).bind("b", default="x")()
    with pytest.raises(UnboundStateError):
        echo(schema).bind("c", default={"d": {"e": 1}})()


# errors of the tool


def positive(value: int) -> int:
    if value <= 0:
        raise ValueError(f"{value} is not positive")
    return value


def test_the_error_of_the_tools_own_validation_contains_no_values():
    def pay(amount: Annotated[int, AfterValidator(positive)], token: str = Field(min_length=20)) -> int:
        return amount

    spec = ToolSpec.from_mcp(Tool.from_function(pay)).bind("token", default="classified-and-long-enough")
    result = spec.exec(amount=-44)
    assert result.error.code == "tool_error"
    assert result.error.message == "Invalid arguments: 'amount' is not valid (value_error)."
    with pytest.raises(ToolError) as caught:
        spec(amount=-44)
    assert "classified" not in str(caught.value)


def test_a_tools_exception_is_raised_unchanged():
    def fail(a: int) -> int:
        raise KeyError(a)

    spec = ToolSpec.from_mcp(Tool.from_function(fail))
    with pytest.raises(KeyError):
        spec(a=1)
    assert spec.exec(a=1).error.message == "KeyError: 1"


def test_an_error_result_of_a_tool_is_an_error():
    class Failing(Tool):
        async def run(self, arguments: dict[str, Any]) -> FastMCPResult:
            return FastMCPResult(content=f"no: {arguments['key']}", is_error=True)

    spec = ToolSpec.from_mcp(Failing(name="f", parameters={"type": "object", "properties": {"key": {}}}))
    spec.bind("key", default="classified")
    assert spec.exec().error.message == "no: <key>"
    with pytest.raises(ToolError, match=r"^no: <key>$"):
        spec()


def test_the_text_of_a_wrapped_result_is_that_of_its_value_as_of_a_function():
    server = FastMCP("s")

    def report(city: str) -> str:
        return f'the "{city}"\nline'

    def cities(city: str) -> list[str]:
        return [city]

    def facts(city: str) -> dict[str, str]:
        return {"city": city}

    for function in (report, cities, facts):
        server.tool(function)
    remote, local = Toolkit("remote").add_mcp(server), Toolkit("local").add(report, cities, facts)
    tools = Toolkit("tools").add(*asyncio.run(server.list_tools()))
    for name in ("report", "cities", "facts"):
        texts = {kit.exec(name, {"city": "Oslo"}).text for kit in (remote, local, tools)}
        assert len(texts) == 1
    assert remote.exec("report", {"city": "Oslo"}).text == 'the "Oslo"\nline'
    remote.remove_mcp("s")
