"""The toolkit as its document describes it, section by section; the tools and the MCP clients have their own files."""

import functools
import importlib
import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ahvn_tools.compat import agentscope
from ahvn_tools.compat.agentscope import (
    StateModule,
    TextBlock,
    ToolGroup,
    Toolkit,
    ToolResponse,
    ToolUseBlock,
)
from ahvn_tools.compat.agentscope.mcp import StatefulClientBase
from tests.compat.agentscope_calls import answer_of, block, parameters_of, responses_of, sums_client, text, texts_of

SPECIFICATION = Path(__file__).parents[2].parent / "shared" / "seeds" / "001-agentscope-toolkit.md"


def add(a: int, b: int = 2) -> ToolResponse:
    """Add two numbers.

    They may be negative.

    Args:
        a (int): The first number.
        b (int): The second number.
    """
    return text(a + b)


@pytest.fixture
def toolkit() -> Toolkit:
    return Toolkit()


@pytest.fixture
async def client() -> AsyncIterator[StatefulClientBase]:
    async with sums_client() as client:
        yield client


class Verdict(BaseModel):
    is_good: bool
    reasons: list[str] = []


# 1.1 Purpose


# 1.2 Architecture: its only code block is a diagram


def test_the_document_has_no_example_in_python():
    if not SPECIFICATION.exists():
        pytest.skip("the specification is not beside the project")
    assert re.findall(r"```(\w+)", SPECIFICATION.read_text("utf-8")) == ["mermaid"]


# 1.3 Registration


def test_the_schema_comes_from_the_signature_and_the_docstring(toolkit):
    toolkit.register_tool_function(add)
    assert toolkit.get_json_schemas() == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer", "description": "The first number."},
                        "b": {"type": "integer", "description": "The second number.", "default": 2},
                    },
                    "required": ["a"],
                },
                "description": "Add two numbers.\nThey may be negative.",
            },
        }
    ]


async def test_a_partial_hides_what_it_fixes(toolkit):
    toolkit.register_tool_function(functools.partial(add, 1))
    assert list(parameters_of(toolkit, "add")["properties"]) == ["b"]
    assert await answer_of(toolkit, "add", b=5) == "6"


async def test_the_tools_of_an_mcp_client_are_registered_together(toolkit, client):
    toolkit.create_tool_group("remote", "Remote.", active=True)
    await toolkit.register_mcp_client(client, group_name="remote")
    assert {name: tool.group for name, tool in toolkit.tools.items()} == dict.fromkeys(
        ["plus", "minus", "fail", "sleep"], "remote"
    )
    assert await answer_of(toolkit, "plus", a=1, b=2) == "3"


SUB_AGENT_SCHEMA = {
    "type": "function",
    "function": {
        "name": "research_tool",
        "description": "Ask the researcher.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


async def test_an_explicit_schema_is_used_instead_of_an_empty_signature(toolkit):
    async def research_tool(**raw_input: Any) -> ToolResponse:
        return text(raw_input)

    toolkit.create_tool_group("subagents", "Helpers.", active=True)
    register_kwargs = {
        "func_description": "",
        "json_schema": SUB_AGENT_SCHEMA,
        "preset_kwargs": {},
        "group_name": "subagents",
    }
    toolkit.register_tool_function(research_tool, **register_kwargs)
    assert toolkit.get_json_schemas() == [SUB_AGENT_SCHEMA]
    assert await answer_of(toolkit, "research_tool", query="tea") == "{'query': 'tea'}"
    assert "query" in await answer_of(toolkit, "research_tool")


@pytest.mark.parametrize("schema_name", ["other", None])
def test_a_schema_gets_the_name_of_the_function(toolkit, schema_name):
    def find(q: str) -> ToolResponse:
        return text(q)

    function: dict[str, Any] = {"parameters": {"type": "object", "properties": {"q": {}}, "required": ["q"]}}
    schema = {"type": "function", "function": function | ({"name": schema_name} if schema_name else {})}
    toolkit.register_tool_function(find, json_schema=schema)
    toolkit.register_tool_function(functools.partial(find), json_schema=schema, func_name="search")
    assert list(toolkit.tools) == ["find", "search"]
    assert [one["function"]["name"] for one in toolkit.get_json_schemas()] == ["find", "search"]


@pytest.mark.parametrize("required", [["q"], ["key", "q"], None])
@pytest.mark.parametrize("key", ["token-4711", object()], ids=["text", "object"])
async def test_a_preset_is_dropped_from_an_explicit_schema(toolkit, key, required):
    def find(q: str = "all", *, key: Any) -> ToolResponse:
        return text((q, key is secret))

    secret = key
    parameters = {"type": "object", "properties": {"q": {"type": "string"}, "key": {"type": "string"}}}
    parameters |= {"required": required} if required else {}
    schema = {"type": "function", "function": {"name": "find", "parameters": parameters}}
    toolkit.register_tool_function(find, preset_kwargs={"key": key}, json_schema=schema)
    assert list(toolkit.get_json_schemas()[0]["function"]["parameters"]["properties"]) == ["q"]
    assert await answer_of(toolkit, "find", q="tea") == "('tea', True)"
    assert "'key'" in await answer_of(toolkit, "find", q="tea", key="mine")
    assert list(parameters["properties"]) == ["q", "key"]


# 1.3 Groups


def test_groups_are_created_switched_and_removed(toolkit):
    toolkit.create_tool_group("web", "The web.", notes="Cite.")
    toolkit.register_tool_function(add, group_name="web")
    assert toolkit.groups == {"web": ToolGroup("web", False, "The web.", "Cite.")}
    toolkit.update_tool_groups(["web"], True)
    assert toolkit.groups["web"].active
    toolkit.remove_tool_groups(["web"])
    assert (toolkit.groups, toolkit.tools) == ({}, {})


async def test_the_basic_group_is_always_there(toolkit):
    toolkit.register_tool_function(add)
    toolkit.update_tool_groups(["basic"], False)
    assert len(toolkit.get_json_schemas()) == 1
    assert await answer_of(toolkit, "add", a=1) == "3"


def test_notes_are_the_texts_of_active_groups(toolkit):
    toolkit.create_tool_group("web", "The web.", active=True, notes="Cite.")
    toolkit.create_tool_group("disk", "The disk.", active=True)
    toolkit.create_tool_group("math", "Sums.", active=True, notes="Be exact.")
    toolkit.create_tool_group("mail", "Mail.", notes="Be polite.")
    assert toolkit.get_tool_group_notes() == "## About Tool Group 'web'\nCite.\n## About Tool Group 'math'\nBe exact."


# 1.3 Calls


async def test_a_streaming_tool_yields_piece_by_piece_and_the_last_one_says_so(toolkit):
    async def count() -> AsyncGenerator[ToolResponse, None]:
        yield text("1", stream=True, is_last=False)
        yield text("1 2", stream=True, is_last=False)

    toolkit.register_tool_function(count)
    responses = await responses_of(toolkit, "count")
    assert [texts_of(response)[0] for response in responses] == ["1", "1 2", "1 2"]
    assert [response.is_last for response in responses] == [False, False, True]


# 1.3 Structured finish functions


async def test_a_finish_function_takes_the_fields_of_a_model(toolkit):
    def finish(response: str) -> ToolResponse:
        """Finish."""
        return text(response)

    toolkit.register_tool_function(finish)
    toolkit.set_extended_model("finish", Verdict)
    assert list(parameters_of(toolkit, "finish")["properties"]) == ["response", "is_good", "reasons"]
    (response,) = await responses_of(toolkit, "finish", response="done", is_good=True)
    assert response.metadata["response_msg"] == Verdict(is_good=True)
    assert (texts_of(response), response.is_last) == (["done"], True)


# 1.3 State


async def test_the_state_has_the_active_groups_and_the_configuration_of_tools_and_groups(toolkit):
    toolkit.create_tool_group("web", "The web.", active=True, notes="Cite.")
    toolkit.register_tool_function(add, "web", preset_kwargs={"b": 4711})
    state = toolkit.state_dict()
    assert state == {
        "active_groups": ["web"],
        "groups": [{"name": "web", "active": True, "description": "The web.", "notes": "Cite."}],
        "tools": {"add": "web"},
    }
    other = Toolkit()
    other.load_state_dict(state)
    assert other.groups == toolkit.groups
    other.register_tool_function(add, "web", preset_kwargs={"b": 4711})
    assert other.state_dict() == state


# 1.4 Patterns


# 1.5 Other components


async def test_an_agent_reads_the_answer_of_a_finish_function_from_its_metadata(toolkit):
    def finish(response: str, **fields: Any) -> ToolResponse:
        return text("Done.", metadata={"response_msg": response})

    toolkit.register_tool_function(finish)
    toolkit.set_extended_model("finish", Verdict)
    (response,) = await responses_of(toolkit, "finish", response="All is well.", is_good=True)
    assert response.metadata["response_msg"] == "All is well."
    assert response.metadata["structured_output"] == {"is_good": True, "reasons": []}


def test_a_toolkit_is_saved_as_a_part_of_an_agent():
    class Agent(StateModule):
        def __init__(self) -> None:
            super().__init__()
            self.toolkit = Toolkit()
            self.turns = 0
            self.register_state("turns")
            self.toolkit.create_tool_group("web", "The web.")

    agent, restored = Agent(), Agent()
    agent.turns = 3
    agent.toolkit.update_tool_groups(["web"], True)
    restored.load_state_dict(agent.state_dict())
    assert (restored.turns, restored.toolkit.groups["web"].active) == (3, True)


# 2 Members


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tool", ["RegisteredToolFunction", "ToolGroup", "ToolResponse", "Toolkit"]),
        ("message", ["AudioBlock", "ImageBlock", "TextBlock", "ToolUseBlock", "VideoBlock"]),
        ("module", ["StateModule"]),
    ],
    ids=["tool", "message", "module"],
)
def test_names_are_imported_from_where_they_were_and_from_the_package(module, names):
    imported = importlib.import_module(f"{agentscope.__name__}.{module}")
    assert all(getattr(imported, name) is getattr(agentscope, name) for name in names)


def test_a_registered_function_keeps_what_was_registered(toolkit):
    def postprocess(tool_call: ToolUseBlock, response: ToolResponse) -> None:
        return None

    toolkit.register_tool_function(add, preset_kwargs={"b": 1}, postprocess_func=postprocess)
    tool = toolkit.tools["add"]
    assert (tool.name, tool.group, tool.original_func, tool.preset_kwargs) == ("add", "basic", add, {"b": 1})
    assert (tool.postprocess_func, tool.extended_model, tool.mcp_name) == (postprocess, None, None)


def test_the_default_id_of_a_response_is_a_time_and_random_digits():
    ids = [ToolResponse([]).id for _ in range(2)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}_[0-9a-f]{6}", each) for each in ids)
    assert ids[0] != ids[1]


# 3 Interfaces: register_tool_function


def test_the_parameters_of_register_tool_function():
    parameters = list(inspect.signature(Toolkit.register_tool_function).parameters.values())[1:11]
    assert [(parameter.name, parameter.default) for parameter in parameters] == [
        *{
            "tool_func": inspect.Parameter.empty,
            "group_name": "basic",
            "preset_kwargs": None,
            "func_name": None,
            "func_description": None,
            "json_schema": None,
            "include_long_description": True,
            "include_var_positional": False,
            "include_var_keyword": False,
            "postprocess_func": None,
        }.items()
    ]


def test_the_long_description_may_be_left_out(toolkit):
    toolkit.register_tool_function(add, include_long_description=False)
    assert toolkit.get_json_schemas()[0]["function"]["description"] == "Add two numbers."


def test_a_description_of_its_own(toolkit):
    toolkit.register_tool_function(add, func_description="Sum.")
    assert toolkit.get_json_schemas()[0]["function"]["description"] == "Sum."


async def test_variable_parameters_may_be_included(toolkit):
    def collect(*args: int, **kwargs: str) -> ToolResponse:
        return text((args, kwargs))

    toolkit.register_tool_function(collect, func_name="bare")
    toolkit.register_tool_function(collect, include_var_positional=True, include_var_keyword=True)
    assert parameters_of(toolkit, "bare") == {"type": "object", "properties": {}}
    assert parameters_of(toolkit, "collect")["properties"] == {
        "args": {"type": "array", "items": {"type": "integer"}, "default": []},
        "kwargs": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
    }
    assert await answer_of(toolkit, "collect", args=[1, 2], kwargs={"a": "b"}) == "((1, 2), {'a': 'b'})"


def test_a_name_that_is_taken_is_a_value_error(toolkit):
    toolkit.register_tool_function(add)
    with pytest.raises(ValueError, match=r"^A function with name 'add' is already registered in the toolkit\.$"):
        toolkit.register_tool_function(add)


def test_the_basic_group_cannot_be_removed(toolkit):
    with pytest.raises(ValueError, match=r"^Cannot remove the default 'basic' tool group\.$"):
        toolkit.remove_tool_groups(["basic"])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        "add",
        {"type": "function"},
        {"type": "function", "function": {}},
        {"type": "function", "function": {"name": 3, "parameters": {}}},
        {"type": "function", "function": {"name": "add", "parameters": []}},
        {"type": "function", "function": {"name": "add", "parameters": None}},
        {"type": "function", "function": {"name": "add", "parameters": {"type": "strng"}}},
        {"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": 1}}}},
        {"type": "function", "function": {"name": "add", "parameters": {"properties": []}}},
        {"name": "add", "parameters": {}},
    ],
    ids=["empty", "text", "no-function", "no-name", "number-as-name", "list", "none", "type", "property", "properties",
         "flat"],
)  # fmt: skip
def test_a_malformed_schema_is_a_value_error(toolkit, schema):
    with pytest.raises(ValueError, match="json_schema"):
        toolkit.register_tool_function(add, json_schema=schema)
    assert toolkit.tools == {}


# 3 set_extended_model


def test_the_parameters_of_set_extended_model():
    assert list(inspect.signature(Toolkit.set_extended_model).parameters)[1:] == [
        "finish_function_name",
        "structured_model",
        "func_name",
        "model",
    ]


@pytest.mark.parametrize("names", [("finish_function_name", "structured_model"), ("func_name", "model")])
def test_the_parameters_of_set_extended_model_have_two_names(toolkit, names):
    toolkit.register_tool_function(add)
    toolkit.set_extended_model(**dict(zip(names, ("add", Verdict), strict=True)))
    assert toolkit.tools["add"].extended_model is Verdict
    assert "is_good" in toolkit.tools["add"].extended_json_schema["function"]["parameters"]["properties"]
    toolkit.set_extended_model(**dict(zip(names, ("add", None), strict=True)))
    assert toolkit.tools["add"].extended_model is None
    with pytest.raises(ValueError, match="Tool function None not found"):
        toolkit.set_extended_model(**{names[1]: Verdict})


async def test_arguments_are_validated_by_the_model(toolkit):
    toolkit.register_tool_function(add)
    toolkit.set_extended_model("add", Verdict)
    (response,) = await responses_of(toolkit, "add", a=1, is_good="maybe")
    assert texts_of(response)[0].startswith("Arguments Validation Error: ")
    assert response.metadata == {"success": False, "response_msg": None}
    (response,) = await responses_of(toolkit, "add", a=1, is_good=True, reasons=["x"])
    assert response.metadata["response_msg"] == Verdict(is_good=True, reasons=["x"])


async def test_the_response_of_a_finish_function_is_the_last_one(toolkit):
    def finish() -> ToolResponse:
        return text("done", is_last=False)

    toolkit.register_tool_function(finish)
    toolkit.set_extended_model("finish", Verdict)
    (response,) = await responses_of(toolkit, "finish", is_good=False)
    assert response.is_last


# 3 call_tool_function


async def test_the_call_is_an_async_generator(toolkit):
    toolkit.register_tool_function(add)
    call = toolkit.call_tool_function(block("add", a=1))
    assert isinstance(call, AsyncGenerator)
    assert [texts_of(response) async for response in call] == [["3"]]


async def test_an_exception_in_the_middle_is_raised(toolkit):
    def count():
        yield text(1)
        raise KeyError("gone")

    toolkit.register_tool_function(count)
    call = toolkit.call_tool_function(block("count"))
    assert texts_of(await anext(call)) == ["1"]
    with pytest.raises(KeyError, match="gone"):
        await anext(call)


# 3 get_json_schemas


def test_schemas_of_named_groups(toolkit):
    toolkit.create_tool_group("web", "The web.", active=True)
    toolkit.create_tool_group("disk", "The disk.")
    toolkit.register_tool_function(add)
    toolkit.register_tool_function(add, "web", func_name="browse")
    toolkit.register_tool_function(add, "disk", func_name="read")

    def names(groups: list[str] | None) -> list[str]:
        return [schema["function"]["name"] for schema in toolkit.get_json_schemas(groups)]

    assert names(None) == ["add", "browse"]
    assert names(["web", "disk"]) == ["browse"]
    assert names(["basic"]) == ["add"]
    assert names([]) == []
    with pytest.raises(ValueError, match="Tool group 'wbe' not found"):
        toolkit.get_json_schemas(["wbe"])


def test_schemas_have_no_titles(toolkit):
    class Book(BaseModel):
        title: str

    def put(book: Book, title: str, more: list[Book] | None = None) -> ToolResponse:
        return text(title)

    toolkit.register_tool_function(put)
    parameters = parameters_of(toolkit, "put")
    assert list(parameters["properties"]) == ["book", "title", "more"]
    assert parameters["properties"]["title"] == {"type": "string"}
    assert parameters["$defs"] == {
        "Book": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    }


# 3 register_mcp_client


def test_the_parameters_of_register_mcp_client():
    parameters = list(inspect.signature(Toolkit.register_mcp_client).parameters.values())[1:]
    assert (parameters[0].name, parameters[0].kind) == ("mcp_client", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    defaults = {parameter.name: parameter.default for parameter in parameters}
    assert (
        defaults.items()
        >= {
            "group_name": "basic",
            "enable_funcs": None,
            "disable_funcs": None,
            "preset_kwargs_mapping": None,
            "postprocess_func": None,
            "wrap_tool_result": True,
        }.items()
    )


async def test_tools_of_a_client_are_enabled_and_disabled(toolkit, client):
    await toolkit.register_mcp_client(client, enable_funcs=["plus"])
    assert list(toolkit.tools) == ["plus"]
    other = Toolkit()
    await other.register_mcp_client(client, disable_funcs=["plus"])
    assert list(other.tools) == ["minus", "fail", "sleep"]


# 3 RegisteredToolFunction.call


async def test_call_runs_the_function_with_its_presets(toolkit):
    toolkit.register_tool_function(add, preset_kwargs={"b": 10})
    (response,) = [each async for each in toolkit.tools["add"].call(arguments={"a": 1})]
    assert (texts_of(response), response.is_last) == (["11"], True)


async def test_a_single_response_becomes_the_last_one(toolkit):
    def once() -> ToolResponse:
        return text(1, is_last=False)

    toolkit.register_tool_function(once)
    (response,) = [each async for each in toolkit.tools["once"].call(arguments={})]
    assert response.is_last


async def test_call_prints_what_it_streams_on_request(toolkit, capsys):
    toolkit.register_tool_function(add)
    for stream_print in (None, False, True):
        async for _ in toolkit.tools["add"].call(arguments={"a": 1}, stream_print=stream_print):
            pass
    assert capsys.readouterr().out == "3\n"


# 3 ToolResponse


def test_the_defaults_of_a_response():
    response = ToolResponse(content=[TextBlock(type="text", text="a")])
    assert (response.metadata, response.stream, response.is_last, response.is_interrupted) == (None, False, True, False)


# 3 ToolFunction


# 4 Other modules
