"""Seed 003, sections 3 to 9: every entry works as the seed shows it, with `ahvn_tools` for `ahvn.tool`."""

from __future__ import annotations

import fastmcp.tools
import mcp.types
import pytest

from ahvn_tools import ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.errors import BindError, DefinitionError, InvalidParametersError, ToolLookupError, ToolSpecError


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
        user_id: Who it is
        action: What to do

    Returns:
        str: What came of it
    """
    return f"User {user_id} performed: {action}"


def query_api(query: str, api_key: str) -> str:
    return f"{query} with {api_key}"


@pytest.fixture
def tool() -> ToolSpec:
    return ToolSpec.from_function(search_database, parse_docstring=True)


# 3. making


def test_3_1_from_a_function(tool):
    assert tool(query="x", limit=2) == {"results": ["x", "x"]}
    assert tool.description == "Search the database for matching records."


def test_3_2_from_an_mcp_tool():
    mcp_tool = mcp.types.Tool(name="my_tool", description="What it does.", input_schema={"type": "object"})
    tool = ToolSpec.from_mcp(mcp_tool)
    assert (tool.name, tool.description) == ("my_tool", "What it does.")


def test_3_3_from_code():
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


@pytest.mark.parametrize("given", [(), (search_database,), (search_database, search_database)], ids=len)
def test_a_spec_is_made_by_a_door(given):
    with pytest.raises(DefinitionError, match=r"from_function.*@tool.*from_code, from_mcp, from_client"):
        ToolSpec(*given)


# 4. binding


def test_4_1_basic_binding():
    tool = ToolSpec.from_function(user_action)
    tool.bind(param="user_id", default="user123")
    assert tool(action="login") == "User user123 performed: login"


def test_4_2_dynamic_state():
    tool = ToolSpec.from_function(user_action).bind(param="user_id", default="user123")
    assert tool(action="login") == "User user123 performed: login"
    tool.state["user_id"] = "user456"
    assert tool(action="logout") == "User user456 performed: logout"


def test_4_3_nested_keys():
    tool = ToolSpec.from_function(query_api)
    tool.bind(param="api_key", state_key="config.api.key", default="default_key")
    assert tool.state == {"config": {"api": {"key": "default_key"}}}
    assert tool(query="test") == "test with default_key"
    tool.state = {"config": {"api": {"key": "my_secret_key"}}}
    assert tool(query="test") == "test with my_secret_key"
    tool.state = {}
    assert tool(query="test") == "test with default_key"


def test_4_4_unbinding():
    tool = ToolSpec.from_function(user_action).bind(param="user_id", default="user123")
    tool.unbind(param="user_id")
    with pytest.raises(InvalidParametersError, match="'user_id' is missing"):
        tool(action="login")
    assert tool(user_id="me", action="login") == "User me performed: login"


def test_binding_an_unknown_parameter_fails_at_once():
    with pytest.raises(BindError, match="'api_key'"):
        ToolSpec.from_function(user_action).bind(param="api_key")


# 5. calling


def test_5_1_sync(tool):
    assert tool.call(query="test", limit=1) == tool(query="test", limit=1)
    full_result = tool.exec(query="test", limit=1)
    assert full_result.structured_content == {"results": ["test"]}


async def test_5_2_async(tool):
    assert await tool.acall(query="test", limit=1) == {"results": ["test"]}
    full_result = await tool.aexec(query="test", limit=1)
    assert full_result.structured_content == {"results": ["test"]}


def test_5_3_values(tool):
    def one() -> dict: ...

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert ToolSpec.from_function(lambda: {"n": 1}, name="f", output_schema=schema)() == 1
    schema["properties"]["m"] = {"type": "integer"}
    assert ToolSpec.from_function(lambda: {"n": 1, "m": 2}, name="f", output_schema=schema)() == {"n": 1, "m": 2}
    assert ToolSpec.from_function(one)() is None
    assert tool.exec(query="x").meta["duration"] >= 0
    assert tool.exec().is_error


# 6. schemas and texts


def test_6_1_schemas(tool):
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


def test_schemas_are_copies_to_change_without_harm(tool):
    tool.input_schema["properties"].clear()
    tool.params["query"]["type"] = "number"
    tool.output_schema.clear()
    assert tool.params["query"]["type"] == "string"
    assert tool.output_schema["type"] == "object"


def test_6_2_texts(tool):
    assert tool.signature(query="example", limit=10) == "search_database(query='example', limit=10)"
    assert "    query (str): The query text" in tool.docstring.splitlines()
    assert tool.code.startswith("def search_database(query: str, limit: int = 10) -> Dict[str, Any]:")


def test_6_3_prompt(tool):
    assert tool.to_prompt().startswith("- `search_database(query, limit=10)`:\n    Search the database")


# 7. exports


def test_7_1_mcp(tool):
    mcp_tool: mcp.types.Tool = tool.to_mcp()
    assert isinstance(mcp_tool, mcp.types.Tool)
    assert mcp_tool.input_schema == tool.input_schema


def test_7_2_fastmcp(tool):
    fastmcp_tool = tool.to_fastmcp()
    assert isinstance(fastmcp_tool, fastmcp.tools.Tool)
    assert fastmcp_tool.parameters == tool.input_schema
    assert tool.to_fastmcp() is not fastmcp_tool


def test_7_3_and_7_4_json_schema(tool):
    schema = tool.to_jsonschema(custom_field="value")
    assert schema == {
        "type": "function",
        "name": "search_database",
        "description": "Search the database for matching records.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "The query text"},
                "limit": {"type": ["integer", "null"], "description": "The largest number of results Default: 10."},
            },
            "required": ["query", "limit"],
            "additionalProperties": False,
        },
        "strict": True,
        "custom_field": "value",
    }


# 8. registries


def test_8_registries():
    class MyService(ToolRegistry):
        @reg_toolspec(
            parse_docstring=True,
            description="Custom description",
            output_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
            examples=[{"a": 1}],
        )
        def my_tool(self, a: int):
            return {"n": a}

    service = MyService()
    assert service.list_toolspecs() == ["my_tool"]
    assert service.to_toolspecs()["my_tool"](a=1) == 1
    assert service.toolspec("my_tool").description == "Custom description"


# 9. more


def test_9_1_clones():
    tool = ToolSpec.from_function(user_action).bind("user_id", "session.user", "user123")
    new_tool = tool.clone()
    new_tool.state["session"]["user"] = "different_user"
    assert tool(action="x") == "User user123 performed: x"
    assert new_tool(action="x") == "User different_user performed: x"
    new_tool.unbind("user_id")
    assert list(tool.params) == ["action"]


def test_9_2_the_bound_tool():
    tool = ToolSpec.from_function(user_action).bind("user_id", default="user123")
    assert isinstance(tool.binded, fastmcp.tools.Tool)
    assert list(tool.binded.parameters["properties"]) == ["action"]


def test_9_3_the_cache():
    tool = ToolSpec.from_function(user_action).bind("user_id", default="user123")
    before = tool.definition
    tool._clear_cache()
    assert tool.definition == before
    assert tool.definition is not before
    assert tool(action="x") == "User user123 performed: x"


def test_a_spec_goes_out_in_any_format_by_one_door():
    spec = ToolSpec.from_function(lambda text: text, name="say", description="Say it.").bind("text")
    assert spec.to("openai", strict=True)["function"]["name"] == "say"
    assert spec.to("anthropic")["input_schema"]["properties"] == {}
    with pytest.raises(ToolLookupError, match="'openai'"):
        spec.to("openia")
    with pytest.raises(ToolSpecError, match="entries beside the tool"):
        spec.to("bedrock", cache_point={"type": "default"})
