"""What AgentHeaven's page about tools says, section by section, and its examples as they stand."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from fastmcp.tools import Tool as FastMCPTool
from mcp.types import Tool as MCPTool
from pydantic import BaseModel

from ahvn_tools.compat import agentheaven
from ahvn_tools.compat.agentheaven import ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.errors import BindError, DefinitionError, InvalidParametersError

SPECIFICATION = Path(__file__).parents[2].parent / "shared" / "seeds" / "003-agentheaven-toolspec.md"

PSEUDO_CODE = {
    "3.2": "`{...}` stands for a schema; in Python it is a set",
    "8.3": "`def my_tool(self, ...)` is no Python",
    "10.4": "`def tool1(self, ...)` is no Python",
}
"""The examples that are no programs, with the reason."""

needs_specification = pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not beside the project"
)


def seed_blocks() -> dict[str, str]:
    """Return the code blocks of the document by the number of their section."""
    parts = re.split(r"^### (\d+\.\d+)\..*$", SPECIFICATION.read_text("utf-8"), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    blocks = {
        number: re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL) for number, text in texts.items()
    }
    assert all(len(found) <= 1 for found in blocks.values())
    return {number: found[0] for number, found in blocks.items() if found}


def search_database(query: str, limit: int = 10) -> dict:
    """Search the database for records.

    Args:
        query: What to look for.
        limit: How many records to return.

    Returns:
        dict: The records.
    """
    return {"results": [query] * limit}


def user_action(user_id: str, action: str) -> str:
    """Do something for a user.

    Args:
        user_id: Who it is for.
        action: What to do.

    Returns:
        str: What was done.
    """
    return f"User {user_id} performed: {action}"


def look_up(query: str, api_key: str) -> str:
    """Look something up."""
    return f"{query} with {api_key}"


def report(api_key: str, user_session: str) -> str:
    """Report what is bound."""
    return f"{api_key} of {user_session}"


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs the example of a section, with these names, as it stands."""
    package = types.ModuleType("ahvn")
    monkeypatch.setitem(sys.modules, "ahvn", package)
    monkeypatch.setitem(sys.modules, "ahvn.tool", agentheaven)

    async def run(section: str, text: str | None = None, **names: Any) -> dict[str, Any]:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(text or seed_blocks()[section], f"section {section}", "exec", flags=flags, dont_inherit=True)
        namespace = {"__name__": "example", **names}
        returned = eval(code, namespace)
        if inspect.isawaitable(returned):
            await returned
        return namespace

    return run


@needs_specification
class TestExamples:
    """Each example runs unchanged; only `ahvn.tool` is this facade."""

    def test_each_example_is_run_or_is_listed_as_no_program(self):
        methods = "\n".join(
            inspect.getsource(method) for name, method in vars(type(self)).items() if name[:4] == "test"
        )
        run_here = set(re.findall(r'run\("(\d+\.\d+)"', methods))
        assert run_here | PSEUDO_CODE.keys() == seed_blocks().keys()

    @pytest.mark.parametrize("section", ["8.3", "10.4"])
    def test_an_example_that_is_listed_as_no_python_is_none(self, section):
        with pytest.raises(SyntaxError):
            compile(seed_blocks()[section], section, "exec")

    async def test_3_1_from_a_function(self, run):
        tool = (await run("3.1"))["tool"]
        assert isinstance(tool, ToolSpec)
        assert tool.exec(query="tea").error.code == "invalid_result"  # its body returns an Ellipsis

    async def test_3_2_from_an_mcp_tool_with_a_schema_in_the_place_of_the_dots(self, run):
        text = seed_blocks()["3.2"].replace("{...}", '{"type": "object", "properties": {"a": {"type": "integer"}}}')
        tool = (await run("3.2", text))["tool"]
        assert (tool.name, tool.description, tool.params) == ("my_tool", "工具描述", {"a": {"type": "integer"}})

    async def test_3_3_from_code(self, run):
        tool = (await run("3.3"))["tool"]
        assert (tool.name, tool.call(a=1, b=2)) == ("calculate_sum", 3)
        assert tool.params["a"]["description"] == "第一个数字"

    async def test_4_1_to_4_4_and_9_bind_change_unbind_and_clone(self, run):
        names = await run("4.1")
        assert names["result"] == "User user123 performed: login"
        tool = names["tool"]
        assert (await run("4.2", tool=tool))["result"] == "User user456 performed: logout"
        twin = (await run("9.1", tool=tool))["new_tool"]
        assert twin(action="login") == "User different_user performed: login"
        assert tool(action="login") == "User user456 performed: login"
        binded = (await run("9.2", tool=tool))["binded"]
        assert isinstance(binded, FastMCPTool)
        assert list(binded.parameters["properties"]) == ["action"]
        await run("9.3", tool=tool)
        await run("4.4", tool=tool)
        with pytest.raises(InvalidParametersError, match="'user_id' is missing"):
            tool(action="login")

    async def test_4_3_nested_keys(self, run):
        assert (await run("4.3", tool=ToolSpec.from_function(look_up)))["result"] == "test with my_secret_key"

    async def test_4_3_on_the_tool_before_it_says_that_it_has_no_such_parameter(self, run):
        with pytest.raises(BindError, match="'user_action' has no parameter 'api_key'"):
            await run("4.3", tool=ToolSpec.from_function(user_action))

    async def test_5_1_from_sync_code(self, run):
        names = await run("5.1", tool=ToolSpec.from_function(search_database))
        assert names["full_result"].structured_content == {"results": ["test"] * 5}
        assert names["result"] == {"results": ["test"] * 10}

    async def test_5_2_from_async_code(self, run):
        names = await run("5.2", tool=ToolSpec.from_function(search_database))
        assert names["full_result"].structured_content == names["result"] == {"results": ["test"] * 5}

    async def test_6_1_schemas(self, run):
        names = await run("6.1", tool=ToolSpec.from_function(search_database))
        limit = {"default": 10, "type": "integer", "description": "How many records to return."}
        query = {"type": "string", "description": "What to look for."}
        assert names["params"] == {"query": query, "limit": limit}
        assert names["input_schema"]["properties"] == names["params"]
        assert names["input_schema"]["required"] == ["query"]
        assert names["output_schema"]["type"] == "object"

    async def test_6_2_documentation(self, run):
        names = await run("6.2", tool=ToolSpec.from_function(search_database))
        assert names["signature"] == "search_database(query='example', limit=10)"
        assert names["docstring"].startswith("Search the database for records.\n\nArgs:\n    query (str): What")
        assert names["code"].startswith("def search_database(query: str, limit: int = 10) -> Dict[str, Any]:")

    async def test_6_3_prompt(self, run):
        prompt = (await run("6.3", tool=ToolSpec.from_function(search_database)))["prompt"]
        assert prompt.startswith("- `search_database(query, limit=10)`:\n    Search the database")

    async def test_7_1_and_7_2_mcp(self, run):
        tool = ToolSpec.from_function(search_database)
        wire = (await run("7.1", tool=tool))["mcp_tool"]
        served = (await run("7.2", tool=tool))["fastmcp_tool"]
        assert isinstance(wire, MCPTool)
        assert isinstance(served, FastMCPTool)
        assert wire.name == served.name == "search_database"

    async def test_7_3_and_7_4_json_schema(self, run):
        tool = ToolSpec.from_function(search_database)
        schema = (await run("7.3", tool=tool))["schema"]
        assert schema["type"] == "function"
        custom = (await run("7.4", tool=tool))["schema"]
        assert custom == {**schema, "function": {**schema["function"], "custom_field": "value"}}

    async def test_8_1_registry(self, run):
        names = await run("8.1")
        assert names["tool_names"] == list(names["tools"]) == ["search", "add_item"]
        assert all(isinstance(spec, ToolSpec) for spec in names["tools"].values())

    async def test_10_1_type_hints(self, run):
        search = (await run("10.1", Any=Any, List=list, Dict=dict))["search"]
        assert list(ToolSpec.from_function(search).params) == ["query", "limit"]

    async def test_10_2_docstrings(self, run):
        tool = ToolSpec.from_function((await run("10.2"))["my_tool"])
        assert tool.description.startswith("工具功能的简要描述。\n\n如需要可提供更详细的解释。")
        assert tool.params["param1"]["description"] == "param1 的描述,包括有效值或格式"
        assert tool.docstring.count("Raises:") == 1

    async def test_10_3_binding(self, run):
        tool = ToolSpec.from_function(report)
        await run("10.3", tool=tool)
        tool.state = {"config": {"api_key": "k"}, "session": "s"}
        assert (tool(), tool.params) == ("k of s", {})


# 1 what a tool is


# 2 architecture


# 3 making tools


class TestMakingTools:
    @pytest.mark.parametrize("decorator", [ToolSpec(), ToolSpec(name="user_action")], ids=["bare", "named"])
    def test_a_call_of_the_class_is_a_decorator(self, decorator):
        tool = decorator(user_action)
        assert (type(tool), tool.name) == (ToolSpec, "user_action")
        assert tool(user_id="a", action="x") == "User a performed: x"

    def test_the_decorator_takes_the_options(self):
        @ToolSpec(name="act", description="Acts.", parse_docstring=False, tags={"user"})
        def action(user_id: str) -> str:
            return user_id

        assert (action.name, action.description, action.tags, action("a")) == ("act", "Acts.", {"user"}, "a")

    def test_the_decorator_knows_the_types_of_the_function_around_it(self):
        class Item(BaseModel):
            price: int

        @ToolSpec(name="cost")
        def cost(item: Item) -> int:
            return item.price

        assert cost(item={"price": 3}) == 3

    def test_the_class_without_parentheses_is_an_error_that_says_what_to_call(self):
        with pytest.raises(DefinitionError, match="from_function"):
            ToolSpec(user_action)

    def test_a_subclass_makes_its_own_tools(self):
        class Own(ToolSpec):
            pass

        own = Own(name="act")(user_action)
        assert [type(tool) for tool in (own, own.clone(), own.transform(title="A"))] == [Own] * 3


# 4 binding


# 5 execution


class Output(agentheaven.ToolSpec):
    """A subclass, as programs of the system have it."""


# 6 schemas and documentation


# 7 exports


class TestExports:
    def test_json_schema_is_nested_and_not_strict(self):
        tool = ToolSpec.from_function(search_database)
        assert tool.to_jsonschema() == {
            "type": "function",
            "function": {
                "name": "search_database",
                "description": "Search the database for records.",
                "parameters": tool.input_schema,
            },
        }

    def test_fields_are_added_to_the_function_and_win(self):
        tool = ToolSpec.from_function(search_database)
        schema = tool.to_jsonschema(custom_field="value", name="find", strict=True)
        assert list(schema) == ["type", "function"]
        function = schema["function"]
        assert (function["name"], function["custom_field"], function["strict"]) == ("find", "value", True)


# 8 registry


class KnowledgeBase(ToolRegistry):
    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    @reg_toolspec(parse_docstring=True, examples=[{"query": "tea"}])
    def search(self, query: str, limit: int = 10) -> list:
        """Search.

        Args:
            query: What to look for.
        """
        return [f"{self.prefix}{query}"][:limit]

    @reg_toolspec(name="kb_add", description="Another description.", output_schema=None)
    def add(self, title: str) -> dict:
        """Add."""
        return {"title": title}

    @reg_toolspec
    def count(self) -> int:
        """Count."""
        return 0

    def helper(self) -> None: ...


class TestRegistry:
    def test_marked_methods_are_listed_by_their_names(self):
        assert KnowledgeBase().list_toolspecs() == list(KnowledgeBase().to_toolspecs()) == ["search", "add", "count"]
        assert [spec.name for spec in KnowledgeBase().to_toolspecs().values()] == ["search", "kb_add", "count"]

    def test_a_mark_stays_readable_on_the_function(self):
        method = KnowledgeBase.add
        options = {"name": "kb_add", "description": "Another description.", "output_schema": None}
        assert (method._is_toolspec, method._toolspec_args, method._toolspec_kwargs) == (True, (), options)
        assert not hasattr(KnowledgeBase.helper, "_is_toolspec")

    def test_the_class_stores_functions_and_options(self):
        entry = KnowledgeBase._toolspecs["search"]
        assert entry.keys() == {"func", "args", "kwargs"}
        assert (entry["func"], entry["args"]) == (KnowledgeBase.search, ())
        assert entry["kwargs"] == {"parse_docstring": True, "examples": [{"query": "tea"}]}
        assert list(KnowledgeBase._toolspecs) == ["search", "add", "count"]
        assert ToolRegistry._toolspecs == {}

    def test_a_tool_is_found_by_the_name_of_the_method_or_the_tool(self):
        assert KnowledgeBase().toolspec("add").name == KnowledgeBase().toolspec("kb_add").name == "kb_add"
        with pytest.raises(KeyError, match=r"no tool 'searhc'\. Did you mean 'search'"):
            KnowledgeBase().toolspec("searhc")

    def test_the_name_of_a_method_wins_over_the_name_of_a_tool(self):
        class Renamed(ToolRegistry):
            @reg_toolspec(name="second")
            def first(self) -> int:
                return 1

            @reg_toolspec(name="third")
            def second(self) -> int:
                return 2

        assert {name: spec() for name, spec in Renamed().to_toolspecs().items()} == {"first": 1, "second": 2}
        assert Renamed().toolspec("second")() == 2

    def test_specs_are_of_the_facade(self):
        specs = [*KnowledgeBase().to_toolspecs().values(), KnowledgeBase().toolspec("count")]
        assert {type(spec) for spec in specs} == {ToolSpec}

        class Own(KnowledgeBase):
            spec_class = Output

        assert type(Own().toolspec("count")) is Output


# 9 advanced
