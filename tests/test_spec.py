"""ToolSpec: one short example for each of its features."""

from __future__ import annotations

import fastmcp.tools
import mcp.types
import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import (
    DefinitionError,
    InvalidResultError,
    ToolLookupError,
    ToolSpecError,
)


def search_database(query: str, limit: int = 10) -> dict:
    """Search the database for matching records.

    Args:
        query: The query text
        limit: The largest number of results

    Returns:
        dict: The matching records
    """
    return {"results": [query] * limit}


def user_action(user_id: str, action: str) -> str:
    """Perform an action for a user.

    Args:
        user_id: The id of the user
        action: What to do

    Returns:
        str: The result
    """
    return f"User {user_id} performed: {action}"


@pytest.fixture
def tool() -> ToolSpec:
    return ToolSpec.from_function(search_database, parse_docstring=True)


def test_from_function_makes_a_tool_from_a_function(tool):
    assert tool(query="x", limit=2) == {"results": ["x", "x"]}
    assert tool.description == "Search the database for matching records."


def test_from_mcp_makes_a_tool_from_a_definition():
    mcp_tool = mcp.types.Tool(name="my_tool", description="What it does.", input_schema={"type": "object"})
    tool = ToolSpec.from_mcp(mcp_tool)
    assert (tool.name, tool.description) == ("my_tool", "What it does.")


def test_from_code_makes_a_tool_from_source_code():
    code = '''
def calculate_sum(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number
        b: The second number

    Returns:
        int: The sum of a and b
    """
    return a + b
'''
    tool = ToolSpec.from_code(code=code, func_name="calculate_sum", env=None)
    assert tool(a=1, b=2) == 3


@pytest.mark.parametrize("arguments", [(), (search_database,), (search_database, search_database)], ids=len)
def test_the_constructor_refers_to_the_from_methods(arguments):
    with pytest.raises(DefinitionError, match=r"from_function.*@tool.*from_code, from_mcp, afrom_client"):
        ToolSpec(*arguments)


def test_call_returns_the_value_and_exec_the_result(tool):
    assert tool.call(query="test", limit=1) == tool(query="test", limit=1)
    full_result = tool.exec(query="test", limit=1)
    assert full_result.structured_content == {"results": ["test"]}


async def test_acall_returns_the_value_and_aexec_the_result(tool):
    assert await tool.acall(query="test", limit=1) == {"results": ["test"]}
    full_result = await tool.aexec(query="test", limit=1)
    assert full_result.structured_content == {"results": ["test"]}


def test_the_value_is_that_of_the_only_property(tool):
    def one() -> dict: ...

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert ToolSpec.from_function(lambda: {"n": 1}, name="f", output_schema=schema)() == 1
    schema["properties"]["m"] = {"type": "integer"}
    assert ToolSpec.from_function(lambda: {"n": 1, "m": 2}, name="f", output_schema=schema)() == {"n": 1, "m": 2}
    with pytest.raises(InvalidResultError):
        ToolSpec.from_function(one)()
    assert tool.exec(query="x").meta["duration"] >= 0
    assert tool.exec().is_error


def test_schemas_are_json_schemas_with_descriptions(tool):
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The query text"},
            "limit": {"type": "integer", "default": 10, "description": "The largest number of results"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert tool.params == tool.input_schema["properties"]
    assert tool.output_schema == {"type": "object", "additionalProperties": True}


def test_schemas_are_copies(tool):
    tool.input_schema["properties"].clear()
    tool.params["query"]["type"] = "number"
    tool.output_schema.clear()
    assert tool.params["query"]["type"] == "string"
    assert tool.output_schema["type"] == "object"


def test_signature_docstring_and_code_are_made_from_the_definition(tool):
    assert tool.signature(query="example", limit=10) == "search_database(query='example', limit=10)"
    assert "    query (str): The query text" in tool.docstring.splitlines()
    assert tool.code.startswith("def search_database(query: str, limit: int = 10) -> Dict[str, Any]:")


def test_the_prompt_has_signature_and_docstring(tool):
    assert tool.to_prompt().startswith("- `search_database(query, limit=10)`:\n    Search the database")


def test_to_mcp_returns_an_mcp_tool(tool):
    mcp_tool: mcp.types.Tool = tool.to_mcp()
    assert isinstance(mcp_tool, mcp.types.Tool)
    assert mcp_tool.input_schema == tool.input_schema


def test_to_fastmcp_returns_a_new_fastmcp_tool(tool):
    fastmcp_tool = tool.to_fastmcp()
    assert isinstance(fastmcp_tool, fastmcp.tools.Tool)
    assert fastmcp_tool.parameters == tool.input_schema
    assert tool.to_fastmcp() is not fastmcp_tool


def test_to_jsonschema_is_strict_and_takes_additional_fields(tool):
    schema = tool.to_jsonschema(custom_field="value")
    assert schema == {
        "type": "function",
        "name": "search_database",
        "description": "Search the database for matching records.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "The query text"},
                "limit": {"type": ["integer", "null"], "description": "The largest number of results. Default: 10."},
            },
            "required": ["query", "limit"],
            "additionalProperties": False,
        },
        "strict": True,
        "custom_field": "value",
    }


def test_binded_is_a_fastmcp_tool_without_bound_parameters():
    tool = ToolSpec.from_function(user_action).bind("user_id", default="user123")
    assert isinstance(tool.binded, fastmcp.tools.Tool)
    assert list(tool.binded.parameters["properties"]) == ["action"]


def test_clearing_the_cache_changes_no_result():
    tool = ToolSpec.from_function(user_action).bind("user_id", default="user123")
    before = tool.definition
    tool._clear_cache()
    assert tool.definition == before
    assert tool.definition is not before
    assert tool(action="x") == "User user123 performed: x"


def test_to_exports_a_spec_in_any_format():
    spec = ToolSpec.from_function(lambda text: text, name="say", description="Say it.").bind("text")
    assert spec.to("openai", strict=True)["function"]["name"] == "say"
    assert spec.to("anthropic")["input_schema"]["properties"] == {}
    with pytest.raises(ToolLookupError, match="'openai'"):
        spec.to("openia")
    with pytest.raises(ToolSpecError, match="more entries than the tool"):
        spec.to("bedrock", cache_point={"type": "default"})
