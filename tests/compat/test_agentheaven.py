"""What AgentHeaven's page about tools says, section by section, and its examples as they stand."""

from __future__ import annotations

import ast
import inspect
import json
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


class TestWhatAToolIs:
    def test_a_function_becomes_a_tool_with_schemas_of_its_input_and_output(self):
        tool = ToolSpec.from_function(search_database)
        assert (tool.name, tool.description) == ("search_database", "Search the database for records.")
        assert (tool.input_schema["type"], tool.output_schema["type"]) == ("object", "object")

    def test_one_definition_is_exported_in_all_formats(self):
        tool = ToolSpec.from_function(search_database)
        parameters = tool.input_schema
        assert tool.to_mcp().input_schema == tool.to_fastmcp().parameters == parameters
        assert tool.to_jsonschema()["function"]["parameters"] == parameters
        assert "search_database(query, limit=10)" in tool.to_prompt()

    def test_methods_code_and_mcp_tools_are_tools_as_well(self):
        class Shelf:
            def size(self, name: str) -> int:
                return len(name)

        tools = [
            ToolSpec.from_function(Shelf().size),
            ToolSpec.from_code("def size(name: str) -> int:\n    return len(name)"),
            ToolSpec.from_mcp(FastMCPTool.from_function(Shelf().size)),
        ]
        assert [(tool.name, tool(name="tea")) for tool in tools] == [("size", 3)] * 3


# 2 architecture


class TestArchitecture:
    def test_tool_is_a_fastmcp_tool(self):
        assert isinstance(ToolSpec.from_function(user_action).tool, FastMCPTool)
        own = FastMCPTool.from_function(user_action)
        assert ToolSpec.from_mcp(own).tool is own

    def test_state_is_a_dict_that_may_be_changed_and_replaced(self):
        tool = ToolSpec.from_function(user_action).bind("user_id", default="a")
        assert tool.state == {"user_id": "a"}
        tool.state["user_id"] = "b"
        assert tool(action="x") == "User b performed: x"
        tool.state = {"user_id": "c"}
        assert tool(action="x") == "User c performed: x"

    def test_binds_maps_parameters_to_state_keys(self):
        tool = ToolSpec.from_function(user_action).bind("user_id", "user.id").bind("action")
        assert dict(tool.binds) == {"user_id": "user.id", "action": "action"}


# 3 making tools


class TestMakingTools:
    def test_the_function_may_be_named(self):
        assert ToolSpec.from_function(func=user_action, parse_docstring=True).name == "user_action"

    def test_the_docstring_is_parsed_unless_the_caller_says_otherwise(self):
        assert ToolSpec.from_function(user_action).params["action"]["description"] == "What to do."
        whole = ToolSpec.from_function(user_action, parse_docstring=False)
        assert whole.description == inspect.getdoc(user_action)

    def test_examples_are_the_same_object(self):
        examples = [{"user_id": "a", "action": "x"}]
        assert ToolSpec.from_function(user_action, examples=examples).examples is examples
        assert ToolSpec.from_code("def f(a: int): ...", examples=(other := ({"a": 1},))).examples is other

    def test_examples_may_be_any_iterable(self):
        tool = ToolSpec.from_function(user_action, examples=iter([{"action": "x"}]))
        assert tool.examples == tool.examples == [{"action": "x"}]

    def test_other_options_are_those_of_fastmcp(self):
        tool = ToolSpec.from_function(
            user_action, name="act", title="Act", description="Acts.", tags={"user"}, meta={"a": 1},
            output_schema={"type": "object", "properties": {"result": {"type": "string"}}},
            annotations={"readOnlyHint": True},
        )  # fmt: skip
        assert (tool.name, tool.title, tool.description, tool.tags) == ("act", "Act", "Acts.", {"user"})
        assert tool.output_schema == {"type": "object", "properties": {"result": {"type": "string"}}}
        assert (tool.to_mcp().meta["a"], tool.to_mcp().annotations.read_only_hint) == (1, True)

    def test_code_with_one_function_needs_no_name(self):
        assert ToolSpec.from_code("def one() -> int:\n    return 1")() == 1

    def test_func_name_chooses_among_several_functions(self):
        code = "def one() -> int:\n    return 1\n\ndef two() -> int:\n    return one() + 1"
        assert ToolSpec.from_code(code, "two")() == 2
        assert ToolSpec.from_code(code, "two", name="second").name == "second"
        with pytest.raises(ValueError, match="several"):
            ToolSpec.from_code(code)
        with pytest.raises(ValueError, match="three"):
            ToolSpec.from_code(code, "three")
        with pytest.raises(ValueError, match="no "):
            ToolSpec.from_code("number = 1")

    def test_env_has_names_for_the_code(self):
        assert ToolSpec.from_code("def f() -> int:\n    return number", env={"number": 7})() == 7

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


class TestBinding:
    def test_bind_and_unbind_return_the_tool(self):
        tool = ToolSpec.from_function(user_action)
        assert tool.bind("user_id", default="a").unbind("user_id").unbind("nothing") is tool

    def test_a_bound_parameter_is_in_no_schema_and_cannot_be_passed(self):
        tool = ToolSpec.from_function(user_action).bind("user_id", default="hidden")
        exported = [tool.to_jsonschema(), tool.input_schema, tool.to_mcp().model_dump(mode="json"), tool.to_prompt()]
        assert "user_id" not in json.dumps(exported)
        with pytest.raises(InvalidParametersError, match="unknown argument 'user_id'"):
            tool(action="x", user_id="root")

    def test_the_default_is_used_until_the_state_has_a_value(self):
        tool = ToolSpec.from_function(look_up).bind("api_key", "config.api.key", "default")
        assert tool(query="q") == "q with default"
        tool.state = {"config": {"api": {"key": "mine"}}}
        assert tool(query="q") == "q with mine"

    def test_a_value_in_the_state_is_kept(self):
        tool = ToolSpec.from_function(look_up)
        tool.state["api_key"] = "kept"
        assert tool.bind("api_key", default="other")(query="q") == "q with kept"

    def test_unbind_keeps_the_state(self):
        tool = ToolSpec.from_function(look_up).bind("api_key", default="a").unbind("api_key")
        assert (tool.state, list(tool.params)) == ({"api_key": "a"}, ["query", "api_key"])


# 5 execution


class Output(agentheaven.ToolSpec):
    """A subclass, as programs of the system have it."""


class TestExecution:
    def test_a_call_of_the_tool_is_call(self):
        tool = ToolSpec.from_function(user_action)
        assert tool(user_id="a", action="x") == tool.call(user_id="a", action="x") == "User a performed: x"

    async def test_the_four_ways_agree_inside_of_a_running_loop(self):
        tool = ToolSpec.from_function(user_action)
        arguments = {"user_id": "a", "action": "x"}
        values = [tool.call(**arguments), await tool.acall(**arguments)]
        results = [tool.exec(**arguments), await tool.aexec(**arguments)]
        assert values == [result.value for result in results] == ["User a performed: x"] * 2

    def test_one_property_is_the_value_and_several_are_the_object(self):
        def one() -> dict[str, int]:
            return {"n": 1}

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        assert ToolSpec.from_function(one, output_schema=schema)() == 1
        assert ToolSpec.from_function(one)() == {"n": 1}

    def test_exec_has_the_content_the_time_and_the_error(self):
        def fail(a: int) -> int:
            raise ValueError(f"no {a}")

        tool = ToolSpec.from_function(user_action)
        result = tool.exec(user_id="a", action="x")
        assert result.structured_content == {"result": "User a performed: x"}
        assert (result.content[0].text, result.error) == ("User a performed: x", None)
        assert result.meta["duration"] >= 0
        failed = ToolSpec.from_function(fail).exec(a=1)
        assert (failed.is_error, failed.error.code, failed.error.message) == (True, "tool_error", "ValueError: no 1")

    async def test_exceptions_of_the_function_are_raised_unchanged_by_call(self):
        error = ValueError("no such thing")

        def fail() -> int:
            raise error

        tool = ToolSpec.from_function(fail)
        for call in (tool, tool.call):
            with pytest.raises(ValueError, match="no such thing") as caught:
                call()
            assert caught.value is error
        with pytest.raises(ValueError, match="no such thing"):
            await tool.acall()


# 6 schemas and documentation


class TestDocumentation:
    def test_lines_of_the_docstring(self):
        def sample_tool(left: int, right: int = 10) -> int:
            """Add two numbers.

            Args:
                left: The first one.
                right: The second one.

            Returns:
                int: The sum.

            Raises:
                ValueError: Never.
            """
            return left + right

        tool = ToolSpec.from_function(sample_tool)
        assert tool.docstring == (
            "Add two numbers.\n\nRaises:\n    ValueError: Never.\n\nArgs:\n    left (int): The first one.\n"
            "    right (int): The second one. Defaults to 10.\n\nReturns:\n    int: The sum."
        )
        assert "- `sample_tool(left, right=10)`" in tool.to_prompt()
        function = tool.to_function()
        assert (function(1, 2), function(1), function(left=1)) == (3, 11, 11)

    def test_code_is_a_function_definition_with_the_docstring(self):
        names: dict[str, Any] = {"Any": Any, "Dict": dict, "List": list}
        code = ToolSpec.from_function(search_database).code
        exec(compile(code, "code", "exec", dont_inherit=True), names)
        assert list(inspect.signature(names["search_database"]).parameters) == ["query", "limit"]
        assert inspect.getdoc(names["search_database"]) == ToolSpec.from_function(search_database).docstring


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

    def test_the_fastmcp_export_is_another_object_each_time(self):
        tool = ToolSpec.from_function(search_database)
        assert tool.to_fastmcp() is not tool.to_fastmcp()
        assert tool.to_mcp() is not tool.to_mcp()


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

    def test_tools_are_made_when_they_are_asked_for(self):
        base = KnowledgeBase()
        assert base.to_toolspecs()["search"] is not base.to_toolspecs()["search"]

    def test_self_is_bound(self):
        one, two = KnowledgeBase("1 "), KnowledgeBase("2 ")
        assert one.to_toolspecs()["search"](query="q") == ["1 q"]
        assert two.toolspec("search")(query="q") == ["2 q"]
        assert list(one.toolspec("search").params) == ["query", "limit"]

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

    def test_options_of_the_decorator(self):
        tools = KnowledgeBase().to_toolspecs()
        assert (tools["add"].description, tools["add"].output_schema) == ("Another description.", None)
        assert tools["search"].examples == [{"query": "tea"}]
        with pytest.raises(DefinitionError, match="Unknown option 'desciption'"):
            reg_toolspec(desciption="x")

    def test_specs_are_of_the_facade(self):
        specs = [*KnowledgeBase().to_toolspecs().values(), KnowledgeBase().toolspec("count")]
        assert {type(spec) for spec in specs} == {ToolSpec}

        class Own(KnowledgeBase):
            spec_class = Output

        assert type(Own().toolspec("count")) is Output


# 9 advanced


class TestAdvanced:
    def test_a_clone_has_state_bindings_and_class_of_its_own(self):
        tool = ToolSpec.from_function(user_action).bind("user_id", "user.id", "a")
        twin = tool.clone()
        twin.state["user"]["id"] = "b"
        twin.bind("action", default="x")
        assert (twin(), tool(action="y")) == ("User b performed: x", "User a performed: y")
        assert type(twin) is ToolSpec

    async def test_binded_is_the_fastmcp_tool_without_the_bound_parameters(self):
        tool = ToolSpec.from_function(user_action).bind("user_id", default="a")
        assert list(tool.binded.parameters["properties"]) == ["action"]
        assert (await tool.binded.run({"action": "x"})).structured_content == {"result": "User a performed: x"}
        assert list(tool.unbind("user_id").binded.parameters["properties"]) == ["user_id", "action"]

    def test_clear_cache_changes_nothing(self):
        tool = ToolSpec.from_function(user_action).bind("user_id", default="a")
        tool._clear_cache()
        assert tool(action="x") == "User a performed: x"
