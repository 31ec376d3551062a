"""ToolManager where the specification is silent: what went wrong in Agently works, and what worked still does."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import inspect
import json
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from fastmcp import FastMCP
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from ahvn_tools import Secret, ToolContext, Toolkit
from ahvn_tools.compat.agently import AgentlyToolManager, DataFormatter, FunctionShifter, ToolManager
from ahvn_tools.errors import DefinitionError

SERVER = Path(__file__).with_name("agently_server.py")
from_schema = DataFormatter.from_schema_to_kwargs_format
to_schema = DataFormatter.from_kwargs_format_to_schema


@pytest.fixture
def manager() -> ToolManager:
    return ToolManager()


def properties_of(manager: ToolManager, name: str) -> dict[str, Any]:
    return manager.toolkit[name].input_schema["properties"]


class Point(BaseModel):
    x: int
    label: str = Field("", description="its name")


class Counter:
    """An object whose methods are tools."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, n: int) -> int:
        """Add to the total."""
        self.total += n
        return self.total

    async def aadd(self, n: int) -> int:
        return self.add(n)

    def __call__(self, n: int) -> int:
        return self.add(n)


# The kwargs format, from JSON Schema


class TestFromSchema:
    @pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"type": "object", "properties": {}},
                                        {"type": "object", "properties": None}],
                             ids=["none", "empty", "no-properties", "empty-properties", "null"])  # fmt: skip
    def test_a_schema_without_arguments_is_none(self, schema):
        assert from_schema(schema) is None

    def test_a_schema_without_a_type_is_a_key_error(self):
        with pytest.raises(KeyError, match=re.escape("Cannot find key 'type' in input schema: {'properties': {}}")):
            from_schema({"properties": {}})

    def test_a_schema_of_another_type_is_a_type_error(self):
        with pytest.raises(TypeError, match="Input schema type is not 'object' but: array"):
            from_schema({"type": "array"})

    @pytest.mark.parametrize(
        ("extra", "expected"),
        [
            ({"additionalProperties": False}, {}),
            ({"additionalProperties": True}, {"<*>": (Any, "")}),
            ({"additionalProperties": None}, {"<*>": (Any, "")}),
            ({"additionalProperties": {"type": "integer", "minimum": 1}}, {"<*>": ("integer", "minimum: 1")}),
            ({}, {}),
        ],
        ids=["false", "true", "null", "schema", "absent"],
    )
    def test_additional_properties(self, extra, expected):
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, **extra}
        assert from_schema(schema) == {"a": ("string", ""), **expected}

    def test_the_text_has_all_keywords_but_type_and_title(self):
        schema = {"type": "integer", "title": "N", "description": "how many", "minimum": 1, "default": 2}
        assert from_schema({"type": "object", "properties": {"n": schema}}) == {
            "n": ("integer", "description: how many;minimum: 1;default: 2")
        }

    def test_a_property_without_a_type_is_any(self):
        schema = {"type": "object", "properties": {"a": {"enum": [1]}, "b": True, "c": False}}
        assert from_schema(schema) == {"a": (Any, "enum: [1]"), "b": (Any, "")}

    def test_the_schema_is_not_changed(self):
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string", "title": "A"}},
            "additionalProperties": {"type": "integer", "title": "More"},
        }
        before = copy.deepcopy(schema)
        from_schema(schema)
        assert schema == before


# The kwargs format, to JSON Schema


class TestToSchema:
    @pytest.mark.parametrize(
        ("described", "expected"),
        [
            ((int, "how many"), {"type": "integer", "description": "how many"}),
            ((int, ""), {"type": "integer"}),
            ((int,), {"type": "integer"}),
            (int, {"type": "integer"}),
            (("string", "a word"), {"type": "string", "description": "a word"}),
            (("str", ""), {"type": "string"}),
            ((["integer", "null"], ""), {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            ((Any, "whatever"), {"description": "whatever"}),
            ((Literal["a", "b"], ""), {"enum": ["a", "b"], "type": "string"}),
            ({"x": (int, "")}, {"type": "object", "properties": {"x": {"type": "integer"}}}),
            ([(int, "")], {"type": "array", "items": {"type": "integer"}}),
            ((inspect.Parameter.empty, "untyped"), {"description": "untyped"}),
            ((Counter, "a counter"), {"description": "a counter"}),
            (("no type", ""), {}),
        ],
    )  # fmt: skip
    def test_the_schema_of_an_argument(self, described, expected):
        assert to_schema({"it": described})["properties"]["it"] == expected

    def test_other_names_are_refused_unless_they_are_described(self):
        assert to_schema({})["additionalProperties"] is False
        schema = to_schema({"a": (int, ""), "<*>": (str, "more")})
        assert schema["additionalProperties"] == {"type": "string", "description": "more"}
        assert list(schema["properties"]) == ["a"]

    def test_models_keep_their_definitions(self):
        schema = to_schema({"at": (Point, ""), "<*>": (list[Point], "")})
        assert schema["properties"]["at"] == schema["additionalProperties"]["items"] == {"$ref": "#/$defs/Point"}
        assert list(schema["$defs"]) == ["Point"]


json_types = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
property_names = st.text(max_size=5).filter(lambda name: name != "<*>")
described_arguments = st.dictionaries(property_names, st.tuples(json_types, st.just("")), min_size=1, max_size=5)


@given(described_arguments, st.booleans())
def test_types_survive_the_way_through_json_schema(kwargs, is_open):
    kwargs = {**kwargs, "<*>": (Any, "")} if is_open else kwargs
    kinds = {name: kind for name, (kind, _) in from_schema(to_schema(kwargs)).items()}
    assert kinds == {name: kind for name, (kind, _) in kwargs.items()}


# DataFormatter.sanitize


class TestSanitize:
    @pytest.mark.parametrize("value", ["tea", 1, 1.5, True, None], ids=repr)
    def test_a_simple_value_stays(self, value):
        assert DataFormatter.sanitize(value) == value

    def test_dates_become_texts_at_any_depth(self):
        assert DataFormatter.sanitize({"on": [date(2024, 2, 29)]}) == {"on": ["2024-02-29"]}

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            (int, "int"),
            (list[int], "list[int]"),
            (int | None, "int | None"),
            (list, "list"),
            (Literal["a", 1], "Literal['a', 1]"),
        ],
        ids=str,
    )
    def test_a_type_becomes_its_text(self, kind, expected):
        assert DataFormatter.sanitize(kind) == expected

    @pytest.mark.parametrize("kind", [int, list[int], int | None, Literal["a"], type(None), Counter], ids=str)
    def test_with_remain_type_a_type_stays(self, kind):
        assert DataFormatter.sanitize(kind, remain_type=True) is kind

    def test_a_model_becomes_its_fields(self):
        assert DataFormatter.sanitize(Point) == {"x": ("int",), "label": ("str", "its name")}
        assert DataFormatter.sanitize(Point, remain_type=True) == {"x": (int,), "label": (str, "its name")}

    def test_containers_stay_what_they_are(self):
        fields = {"x": ("int",), "label": ("str", "its name")}
        output = {"steps": ([(str,)], "how"), 1: {int}, "at": (Point, date(2024, 2, 29))}
        assert DataFormatter.sanitize(output) == {
            "steps": ([("str",)], "how"),
            "1": {"int"},
            "at": (fields, "2024-02-29"),
        }
        assert DataFormatter.sanitize(output, remain_type=True) == {
            "steps": ([(str,)], "how"),
            "1": {int},
            "at": ({"x": (int,), "label": (str, "its name")}, "2024-02-29"),
        }


class PluginManager:
    """The part of Agently's plugin manager that reads a plugin class."""

    def __init__(self) -> None:
        self.plugins: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}

    def register(self, plugin_type: str, plugin_class: Any) -> None:
        self.plugins[plugin_type, plugin_class.name] = plugin_class
        self.settings[f"plugins.{plugin_type}.{plugin_class.name}"] = plugin_class.DEFAULT_SETTINGS.copy()


def test_the_manager_is_a_plugin_of_agently():
    plugins = PluginManager()
    plugins.register("ToolManager", AgentlyToolManager)
    assert plugins.settings == {"plugins.ToolManager.AgentlyToolManager": {}}
    assert plugins.plugins["ToolManager", "AgentlyToolManager"](plugins.settings).settings is plugins.settings


# register


def test_another_registration_replaces_everything(manager):
    manager.register("f", "First.", {"a": (int, "")}, lambda a: a, returns=int, tags=["old"])
    manager.register("f", "Second.", {}, lambda: "second", tags=["new"])
    assert dict(manager.tool_info) == {"f": {"name": "f", "desc": "Second.", "kwargs": {}}}
    assert dict(manager.tag_mappings) == {"new": {"f"}}
    assert manager.call_tool("f", {}) == "second"


@pytest.mark.parametrize("kwargs", [None, {}], ids=["none", "empty"])
def test_without_kwargs_the_parameters_of_the_function_are_described(manager, kwargs):
    def find(query: Annotated[str, "what to look for"], limit: int = 3) -> Any:
        return query, limit

    manager.register("find", "", kwargs, find)
    assert manager.tool_info["find"]["kwargs"] == {"query": (str, "what to look for"), "limit": (int, "Default: 3")}
    assert manager.call_tool("find", {"query": "tea"}) == ("tea", 3)


def test_kwargs_may_describe_what_a_signature_does_not_name(manager):
    def search(**arguments: Any) -> Any:
        return arguments

    manager.register("search", "", {"query": (str, ""), "page-size": (int, "")}, search)
    assert manager.call_tool("search", {"page-size": 3}) == {"page-size": 3}
    assert manager.call_tool("search", {"pages": 3}).startswith("Error: Invalid arguments: unknown argument 'pages'")


@pytest.mark.parametrize(
    ("kwargs", "function", "message"),
    [
        ({"b": (int, "")}, lambda a=1: a, "has the property 'b', which is not a parameter"),
        ({"a": (int, "")}, lambda a, b: a, "requires 'b', which is no property"),
        ({"obj": (list, "")}, len, "cannot take the property 'obj' by name"),
        ({"a": (int, "")}, max, "has no readable signature; wrap it in a function"),
        ({"a": (int, "")}, "no function", "are names in a list, or a function"),
        ({}, len, "cannot take the property 'obj' by name"),
        ({}, Counter, "is a class; use a function that creates an instance"),
    ],
    ids=["unknown", "missing", "positional-only", "no-signature", "no-function", "not-described", "class"],
)
def test_kwargs_that_the_function_cannot_take_are_refused(manager, kwargs, function, message):
    with pytest.raises(DefinitionError, match=message):
        manager.register("f", "", kwargs, function)
    assert dict(manager.tool_info) == {}


def test_an_argument_is_required_if_its_parameter_has_no_default(manager):
    def find(query: str, limit: int = 3) -> None: ...

    manager.register("find", "", {"limit": (int, ""), "query": (str, "")}, find)
    assert manager.toolkit["find"].input_schema["required"] == ["query"]


@pytest.mark.parametrize(
    ("function", "kwargs", "arguments", "expected"),
    [
        (Counter().add, {"n": (int, "")}, {"n": 2}, 2),
        (Counter().aadd, {"n": (int, "")}, {"n": 2}, 2),
        (Counter(), {"n": (int, "")}, {"n": 2}, 2),
        (functools.partial(Counter().add, 5), {}, {}, 5),
        (functools.partial(round, ndigits=1), {"number": (float, "")}, {"number": 1.26}, 1.3),
        (round, {"number": (float, ""), "ndigits": (int, "")}, {"number": 1.26, "ndigits": 1}, 1.3),
        ("a b".split, {"sep": (str, "")}, {"sep": " "}, ["a", "b"]),
    ],
    ids=["method", "async-method", "instance", "partial", "partial-builtin", "builtin", "builtin-method"],
)
def test_every_kind_of_callable_works_in_both_ways(function, kwargs, arguments, expected):
    for call in (ToolManager.call_tool, lambda *args: asyncio.run(ToolManager.async_call_tool(*args))):
        manager = ToolManager()
        manager.register("f", "", kwargs, copy.deepcopy(function))
        assert call(manager, "f", arguments) == expected


# tool_func


def test_annotations_as_texts_are_resolved(manager):
    @manager.tool_func
    def move(to: Annotated[Point, "where"]) -> Point: ...

    assert move.__annotations__["return"] == "Point"
    assert manager.tool_info["move"]["kwargs"] == {"to": (Point, "where")}
    assert manager.tool_info["move"]["returns"] == {"x": (int,), "label": (str, "its name")}


def test_an_annotation_that_cannot_be_resolved_is_a_name_error(manager):
    def move(to: Nowhere) -> None: ...  # noqa: F821  # it is not defined

    with pytest.raises(NameError, match="'Nowhere' is not defined"):
        manager.tool_func(move)


def test_the_description_of_a_field_is_used(manager):
    @manager.tool_func
    def find(limit: Annotated[int, "up to 9", Field(description="how many"), object()] = 3) -> None: ...

    assert manager.tool_info["find"]["kwargs"] == {"limit": (int, "up to 9;how many;Default: 3")}


def test_parameters_that_no_caller_sets_are_left_out(manager):
    class Shelf:
        def put(self, book: str, *rest: str, context: ToolContext, **more: int) -> str:
            return f"{book} {more} {context.tool}"

    manager.tool_func(Shelf().put)
    assert manager.tool_info["put"]["kwargs"] == {"book": (str, ""), "<*>": (int, "")}
    assert manager.call_tool("put", {"book": "a", "pages": 3}) == "a {'pages': 3} put"
    assert manager.call_tool("put", {"book": "a", "pages": "many"}).startswith("Error: Invalid arguments: ")


@pytest.mark.parametrize("kind", [ToolContext, ToolContext | None, Annotated[ToolContext, "of the call"]], ids=str)
def test_a_context_is_described_to_no_one_however_it_is_annotated(manager, kind):
    def where(place: str, context: Any = None) -> str:
        return f"{place} {context.tool}"

    where.__annotations__["context"] = kind
    manager.tool_func(where)
    assert manager.tool_info["where"]["kwargs"] == {"place": (str, "")}
    assert manager.call_tool("where", {"place": "here"}) == "here where"


def test_an_unannotated_parameter_accepts_anything(manager):
    manager.tool_func(lambda a: a)
    assert manager.tool_info["<lambda>"]["kwargs"] == {"a": (Any, "")}
    assert [manager.call_tool("<lambda>", {"a": value}) for value in (1, "x", [None])] == [1, "x", [None]]


def test_the_default_of_a_secret_is_not_shown(manager):
    @manager.tool_func
    def sign_in(phrase: Annotated[str, "the phrase", Secret] = "hunter2") -> str:
        return phrase[:3]

    assert manager.tool_info["sign_in"]["kwargs"] == {"phrase": (str, "the phrase")}
    assert "hunter2" not in json.dumps(manager.toolkit.to("openai"))
    assert manager.call_tool("sign_in", {}) == "hun"


def test_a_default_of_a_secret_inside_of_another_type_is_not_shown(manager):
    @manager.tool_func
    def sign_in(phrase: Annotated[str, Secret] | None = "hunter2", key: SecretStr = SecretStr("hunter3")) -> None:
        raise ValueError(f"{phrase} is wrong")

    shown = str(manager.tool_info), json.dumps(manager.toolkit.to("openai")), manager.call_tool("sign_in", {})
    assert "hunter" not in str(shown)
    assert "Default" not in str(shown)
    assert shown[2] == "Error: <phrase> is wrong"


def test_a_type_without_a_json_form_accepts_anything(manager):
    @manager.tool_func
    def draw(shape: Annotated[Counter, "what to draw"], done: Callable[[], None]) -> Any:
        return shape, done

    assert properties_of(manager, "draw") == {"shape": {"description": "what to draw"}, "done": {}}
    assert manager.call_tool("draw", {"shape": {"a": 1}, "done": None}) == ({"a": 1}, None)


# Tags


def test_tag_adds_tags_to_tools(manager):
    manager.register("f", "", {}, lambda: 1, tags="a")
    manager.register("g", "", {}, lambda: 1)
    manager.tag("f", "b")
    manager.tag(["f", "g"], ["c", "d"])
    assert {tag: set(names) for tag, names in manager.tag_mappings.items()} == {
        "a": {"f"}, "b": {"f"}, "c": {"f", "g"}, "d": {"f", "g"},
    }  # fmt: skip


def test_tag_refuses_an_unknown_tool_and_adds_nothing(manager):
    manager.register("f", "", {}, lambda: 1)
    with pytest.raises(ValueError, match=r"^Cannot find tool named 'nothing'$"):
        manager.tag(["f", "nothing"], "a")
    assert dict(manager.tag_mappings) == {}


def test_tools_of_a_tag_come_in_the_order_of_their_registration(manager):
    names = [f"tool_{number}" for number in range(20)]
    for name in reversed(names):
        manager.register(name, "", {}, lambda: 1, tags="all")
    assert list(manager.get_tool_info("all")) == names[::-1]


# Views


@pytest.mark.parametrize("view", ["tool_funcs", "tool_info", "tag_mappings"])
def test_the_three_mappings_cannot_be_changed(manager, view):
    manager.register("f", "", {}, lambda: 1, tags="a")
    with pytest.raises(TypeError):
        getattr(manager, view)["g"] = None


def test_what_is_returned_is_a_copy(manager):
    kwargs = {"a": {"b": (int, "")}}
    manager.register("f", "", kwargs, lambda a=None: a, returns={"r": (int,)})
    for info in (kwargs, manager.get_tool_info(), manager.tool_info["f"], manager.get_tool_list()[0]["kwargs"]["a"]):
        info.clear()
    manager.tool_info["f"]["returns"].clear()
    expected = {"name": "f", "desc": "", "kwargs": {"a": {"b": (int, "")}}, "returns": {"r": (int,)}}
    assert manager.tool_info["f"] == expected


def test_a_tool_can_be_removed(manager):
    manager.register("f", "", {}, lambda: 1, tags="a")
    manager.toolkit.remove("f")
    assert (dict(manager.tool_info), dict(manager.tool_funcs), dict(manager.tag_mappings)) == ({}, {}, {})
    assert manager.call_tool("f", {}) == "Can not find tool named 'f'"


def test_a_bound_parameter_is_not_described(manager):
    manager.register("f", "", {"user": (str, ""), "topic": (str, "")}, lambda user, topic: f"{topic} of {user}")
    manager.toolkit.bind("user")
    manager.toolkit.state["user"] = "ann"
    assert manager.tool_info["f"]["kwargs"] == {"topic": (str, "")}
    assert manager.call_tool("f", {"topic": "tea"}) == "tea of ann"


def test_tools_that_are_added_to_the_toolkit_are_described_by_their_schemas(manager):
    @manager.toolkit.tool(tags={"own"})
    def find(query: str, limit: int = 3) -> list[str]:
        """Find."""
        return [query] * limit

    assert manager.get_tool_list("own") == [
        {
            "name": "find",
            "desc": "Find.",
            "kwargs": {"query": ("string", ""), "limit": ("integer", "default: 3")},
            "returns": {"result": ("array", "items: {'type': 'string'}")},
        }
    ]
    assert manager.tool_funcs["find"] is find
    assert manager.call_tool("find", {"query": "a", "limit": 1}) == ["a"]


# Calls


def test_the_result_is_the_object_that_the_function_returned(manager):
    made = object()
    manager.register("f", "", {}, lambda: made)
    assert manager.call_tool("f", {}) is made
    assert asyncio.run(manager.async_call_tool("f", {})) is made


def test_arguments_are_passed_on_as_json(manager):
    manager.tool_func(lambda: None)

    @manager.tool_func
    def move(to: Point, on: date) -> Any:
        return to, on

    assert manager.call_tool("move", {"to": {"x": 1}, "on": "2024-02-29"}) == ({"x": 1}, "2024-02-29")
    assert manager.call_tool("move", {"to": {"x": "one"}, "on": ""}).startswith("Error: Invalid arguments: 'to.x'")


def test_a_structured_result_says_whether_the_call_failed(manager):
    manager.register("lie", "", {}, lambda: "Error: not at all")
    manager.register("fail", "", {}, lambda: 1 // 0)
    assert (manager.call_tool("lie", {}), manager.call_tool("fail", {})) == (
        "Error: not at all", "Error: integer division or modulo by zero",
    )  # fmt: skip
    assert [manager.toolkit.exec(name).is_error for name in ("lie", "fail")] == [False, True]
    assert isinstance(manager.toolkit.exec("fail").exception, ZeroDivisionError)


def test_a_toolkit_of_your_own_says_whether_texts_are_shown():
    manager = ToolManager(toolkit=Toolkit("own"))
    manager.register("fail", "", {}, lambda: 1 // 0)
    assert manager.call_tool("fail", {}) == "Error: Error calling tool 'fail'"


# get_tool_func, FunctionShifter


@pytest.mark.parametrize("name", ["f", "nothing"])
def test_an_unknown_shift_is_an_error_that_names_the_others(manager, name):
    manager.register("f", "", {}, lambda: 1)
    with pytest.raises(ValueError, match="shift is 'sync', 'async' or None, not 'both'"):
        manager.get_tool_func(name, shift="both")


def test_calls_of_the_function_are_not_checked(manager):
    manager.register("f", "", {"a": (int, "")}, lambda a: a)
    assert manager.get_tool_func("f", shift="sync")(a="x") == "x"


user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no one")


async def test_context_variables_reach_shifted_functions():
    async def who() -> str:
        return user.get()

    token = user.set("ann")
    try:
        assert FunctionShifter.syncify(who)() == await FunctionShifter.asyncify(user.get)() == "ann"
    finally:
        user.reset(token)


# MCP


def start_scripted(folder: Path, tools: list[dict[str, Any]], results: dict[str, Any]) -> list[str]:
    script = folder / "script.json"
    listed = [{"inputSchema": {"type": "object"}, **tool} for tool in tools]
    script.write_text(json.dumps({"tools": listed, "results": results}), "utf-8")
    return [sys.executable, "-S", "-E", str(SERVER), str(script)]


def test_schemas_without_a_type_are_described(manager, tmp_path):
    properties = {"properties": {"n": {"type": "integer"}}}
    tools = [{"name": "both", "inputSchema": properties, "outputSchema": properties}]
    manager.use_mcp(start_scripted(tmp_path, tools, {}))
    assert manager.get_tool_list() == [
        {"name": "both", "desc": "", "kwargs": {"n": ("integer", "")}, "returns": {"n": ("integer", "")}}
    ]
    manager.toolkit.remove_mcp()


def server_with(**functions: Callable[..., Any]) -> FastMCP:
    server: FastMCP = FastMCP("shop")
    for name, function in functions.items():
        server.tool(function, name=name, description="A tool.")
    return server


def test_a_registration_that_replaces_another_warns_no_one(manager, caplog):
    for _ in range(2):
        manager.register("f", "", {}, lambda: 1)
    assert (caplog.text, [duplicate.name for duplicate in manager.toolkit.duplicates]) == ("", ["f"])


def test_a_server_replaces_tools_of_the_same_name_and_is_replaced(manager):
    manager.register("f", "", {}, lambda: "own")
    manager.use_mcp(server_with(f=lambda: "remote"))
    assert manager.call_tool("f", {}) == "remote"
    assert [duplicate.name for duplicate in manager.toolkit.duplicates] == ["f"]
    manager.register("f", "", {}, lambda: "own again")
    assert manager.call_tool("f", {}) == "own again"
    manager.toolkit.remove_mcp()


def test_on_duplicate_and_the_other_options_are_those_of_add_mcp(manager):
    manager.register("f", "", {}, lambda: "own")
    server = server_with(f=lambda: "remote", g=lambda: "remote g", h=lambda: "remote h")
    manager.use_mcp(server, on_duplicate="keep", exclude=["h"], name="other")
    assert (manager.call_tool("f", {}), list(manager.tool_info)) == ("own", ["f", "g"])
    assert list(manager.toolkit.servers) == ["other"]
    manager.toolkit.remove_mcp()


async def test_the_async_import_has_the_same_tags_options_and_replacements(manager):
    manager.register("f", "", {}, lambda: "own", tags=["own"])
    server = server_with(f=lambda: "remote", g=lambda: "remote g", h=lambda: "remote h")
    await manager.async_use_mcp(server, tags="shop", exclude=["h"], name="other")
    assert (list(manager.tool_info), dict(manager.tag_mappings)) == (["f", "g"], {"shop": {"f", "g"}})
    assert await manager.async_call_tool("f", {}) == "remote"
    await manager.toolkit.aremove_mcp("other")


def test_a_call_that_takes_too_long_is_none(manager, caplog):
    async def wait() -> None:
        await asyncio.sleep(60)

    manager.use_mcp(server_with(wait=wait), timeout=0.1)
    assert manager.call_tool("wait", {}) is None
    assert "The call of the MCP tool 'wait' returns None. Tool 'wait' did not finish within 0.1 seconds" in caplog.text
    manager.toolkit.remove_mcp()


def test_after_a_server_is_removed_its_functions_find_nothing(manager):
    manager.use_mcp(server_with(f=lambda: "remote"))
    function = manager.get_tool_func("f", shift="sync")
    assert function.__name__ == manager.tool_funcs["f"].__name__ == "f"
    manager.toolkit.remove_mcp()
    assert function() == manager.call_tool("f", {}) == "Can not find tool named 'f'"


def test_the_structured_result_separates_an_mcp_error_from_a_value(manager):
    def fail() -> str:
        raise ValueError("no tea")

    manager.use_mcp(server_with(fail=fail))
    assert manager.call_tool("fail", {}) == {"error": "Error calling tool 'fail': no tea"}
    assert manager.toolkit.exec("fail").is_error
    manager.toolkit.remove_mcp()
