"""Options: their effect on a tool, and the errors about wrong ones."""

from __future__ import annotations

import pickle
import textwrap
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from mcp_types import Icon, ToolAnnotations

from ahvn_tools import AddOptions, Toolkit, ToolOptions, ToolRegistry, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import DefinitionError, StateKeyError
from ahvn_tools.manifest.model import FunctionOptions
from ahvn_tools.settings import RunOptions, ToolSettings
from ahvn_tools.toolkit.entry_options import EntryOptions


def search(query: str, limit: int = 10) -> list[str]:
    """Search the shelf.

    All of it, from left to right.

    Args:
        query: What to look for.
        limit: How many at most.

    Returns:
        The titles.
    """
    return [query] * limit


class Db:
    """A type without a JSON form."""


NAMES = {"title": "Find", "version": "2.1", "description": "Look around.", "name": "find"}


def test_calls_have_a_setting_for_each_option_that_a_toolkit_may_replace():
    settings = {field.name for field in fields(ToolSettings)}
    assert settings == {*RunOptions.__annotations__, "run_in_thread"}
    assert RunOptions.__annotations__.keys() <= ToolOptions.__annotations__.keys() & AddOptions.__annotations__.keys()
    assert FunctionOptions.model_fields.keys() == RunOptions.__annotations__.keys() - {"timeout"}


def test_the_error_about_an_unknown_option_suggests_a_similar_one():
    with pytest.raises(DefinitionError, match=r"'desciption'.*'description'"):
        ToolSpec.from_function(search, desciption="x")


def test_an_option_of_serving_is_refused():
    with pytest.raises(DefinitionError, match="'auth' is an option of serving"):
        ToolSpec.from_function(search, auth=object())


@pytest.mark.parametrize("option", sorted(EntryOptions.__annotations__.keys() - ToolOptions.__annotations__.keys()))
def test_the_error_about_an_option_of_a_toolkit_says_where_it_belongs(option):
    text = f"{option!r} is an option of Toolkit.add. .* kit.add(thing, tools={{'tool': {{'{option}': …}}}})"
    for make in (reg_toolspec, lambda **options: ToolSpec.from_function(search, **options)):
        with pytest.raises(DefinitionError, match=text.replace("(", r"\(").replace(")", r"\)")):
            make(**{option: True})


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: ToolSpec.from_function(search, **options),
        lambda **options: tool(**options)(search),
        reg_toolspec,
        lambda **options: ToolSpec.from_code("def f(a: int): ...", **options),
        lambda **options: ToolSpec.from_mcp(ToolSpec.from_function(search).to_mcp(), **options),
    ],
)
def test_every_entry_point_refuses_an_unknown_option(make):
    with pytest.raises(DefinitionError, match="'tagz'"):
        make(tagz={"a"})


def test_from_code_refuses_an_option_before_the_code_runs():
    ran: list[int] = []
    with pytest.raises(DefinitionError, match="'tagz'"):
        ToolSpec.from_code("ran.append(1)\ndef f(): ...", env={"ran": ran}, tagz=1)
    assert ran == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_items": 0}, "at least 1"),
        ({"max_bytes": True}, "at least 1"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": -1}, "greater than 0"),
        ({"timeout": True}, "greater than 0"),
        ({"timeout": "3"}, "greater than 0"),
        ({"timeout": float("nan")}, "greater than 0"),
        ({"timeout": float("inf")}, "greater than 0"),
        ({"timeout": 1, "run_in_thread": False}, "remove run_in_thread=False"),
        ({"tags": "search"}, "set of strings"),
        ({"tags": [1]}, "set of strings"),
        ({"tags": True}, "set of strings"),
        ({"binds": "query"}, "a dict such as"),
        ({"binds": {"nope": "a"}}, "'nope'"),
        ({"binds": {"querry": "a"}}, "Did you mean 'query'"),
        ({"examples": ["x"]}, "An example must be a dict"),
        ({"examples": {"query": "x"}}, "An example must be a dict"),
        ({"examples": [{"inputs": 3}]}, "An example must be a dict"),
        ({"examples": iter(["x"])}, "An example must be a dict"),
        ({"examples": 3}, "examples are a list of sample calls, not 3"),
        ({"annotations": 5}, "annotations must be a dict"),
        ({"annotations": {"readOnly": True}}, "'readOnly', which is not an MCP hint.*'readOnlyHint'"),
        ({"annotations": {"nope": True}}, "'nope'"),
        ({"icons": ["x"]}, "icons must be a dict"),
        ({"description_separator": 3}, "description_separator must be a str, not 3"),
        ({"icons": 3}, "icons must be a list of MCP icons, not 3"),
        ({"icons": {"src": "x"}}, "icons must be a list of MCP icons, not {'src'"),
        ({"icons": [{"href": "x"}]}, "An icon is a dict"),
        ({"meta": {"a": object()}}, "no JSON form"),
        ({"meta": {"a": float("nan")}}, "no JSON form"),
        ({"meta": {"fastmcp": "x"}}, "FastMCP's object"),
        ({"name": 5}, "name must be a str"),
        ({"title": 5}, "title must be a str"),
        ({"description": 5}, "description must be a str"),
        ({"version": 5}, "version must be a str"),
        ({"output_schema": {"type": "integer"}}, "must describe an object"),
        ({"output_schema": {"type": "object", "properties": {"x": {"type": "bogus"}}}}, "Not a usable JSON Schema"),
        ({"output_schema": []}, "output_schema must be a dict"),
        ({"input_schema": []}, "input_schema must be a dict"),
        ({"input_schema": {"type": "object", "required": 5}}, "Not a usable JSON Schema"),
        ({"input_schema": {"type": "array"}}, "must describe an object"),
        ({"input_schema": {"type": "object", "properties": {"q": {}}}}, "'q', which is not a parameter"),
    ],
)
def test_a_wrong_value_is_refused_when_the_tool_is_made(options: dict[str, Any], message: str):
    with pytest.raises(DefinitionError, match=message):
        ToolSpec.from_function(search, **options)


def test_a_malformed_key_is_refused_when_the_tool_is_made():
    with pytest.raises(StateKeyError, match=r"a\.\.b"):
        ToolSpec.from_function(search, binds={"query": "a..b"})


def test_names_and_texts_are_in_every_export():
    spec = ToolSpec.from_function(search, **NAMES)
    definition, wire, served = spec.definition, spec.to_mcp(), spec.to_fastmcp()
    assert {key: getattr(definition, key) for key in NAMES} == NAMES
    assert (spec.name, spec.title, spec.description) == ("find", "Find", "Look around.")
    assert (wire.name, wire.title, wire.description) == ("find", "Find", "Look around.")
    assert (served.name, served.title, served.description, served.version) == ("find", "Find", "Look around.", "2.1")
    assert wire.meta == {"fastmcp": {"tags": [], "version": "2.1"}}


def test_an_empty_description_is_no_description():
    assert ToolSpec.from_function(search, description="").description == ""


def test_annotations_have_their_wire_names():
    wanted = {"readOnlyHint": True, "title": "T"}
    for given in (
        wanted,
        {"read_only_hint": True, "title": "T", "idempotentHint": None},
        ToolAnnotations(read_only_hint=True, title="T"),
    ):
        spec = ToolSpec.from_function(search, annotations=given)
        assert spec.definition.annotations == wanted
        assert spec.to_mcp().annotations == ToolAnnotations(read_only_hint=True, title="T")
        assert spec.to_fastmcp().annotations == ToolAnnotations(read_only_hint=True, title="T")


def test_icons_and_meta_are_in_every_export():
    icons = [{"src": "https://example.org/a.png", "mimeType": "image/png"}]
    for given in (icons, [Icon(src="https://example.org/a.png", mime_type="image/png")]):
        spec = ToolSpec.from_function(search, icons=given, meta={"team": "core"}, tags={"b", "a"})
        assert spec.definition.icons == icons
        assert spec.definition.meta == {"team": "core"}
        assert spec.definition.tags == spec.tags == {"a", "b"}
        assert spec.to_mcp().icons == spec.to_fastmcp().icons == [Icon.model_validate(icons[0])]
        assert spec.to_mcp().meta == {"team": "core", "fastmcp": {"tags": ["a", "b"]}}
        assert spec.to_fastmcp().meta == {"team": "core"}
        assert spec.to_fastmcp().tags == {"a", "b"}


def test_the_wire_form_equals_fastmcps():
    spec = ToolSpec.from_function(search, **NAMES, tags={"a"}, meta={"k": 1}, annotations={"readOnlyHint": True})
    assert spec.to_mcp() == spec.to_fastmcp().to_mcp_tool()


def test_examples_of_both_forms_do_not_contain_bound_parameters():
    given = [{"query": "x", "limit": 1}, {"inputs": {"query": "y", "limit": 2}, "expected": ["y"], "note": "n"}]
    spec = ToolSpec.from_function(search, examples=given, binds={"limit": "search.limit"})
    assert spec.examples == [{"query": "x"}, {"inputs": {"query": "y"}, "expected": ["y"], "note": "n"}]
    assert ToolSpec.from_function(search, examples=given).examples is given
    assert spec.definition.examples == [
        {"inputs": {"query": "x"}},
        {"inputs": {"query": "y"}, "expected": ["y"], "note": "n"},
    ]
    assert given[0] == {"query": "x", "limit": 1}
    spec.unbind("limit")
    assert spec.definition.examples[0] == {"inputs": {"query": "x", "limit": 1}}


def registered(examples: Any) -> ToolSpec:
    class Shelf(ToolRegistry):
        @reg_toolspec(examples=examples)
        def search(self, query: str, limit: int = 10) -> list[str]: ...

    class LowerShelf(Shelf):
        pass

    assert Shelf().toolspec("search").examples
    return LowerShelf().toolspec("search")


@pytest.mark.parametrize(
    "make",
    [
        lambda examples: ToolSpec.from_function(search, examples=examples),
        lambda examples: tool(examples=examples)(search),
        lambda examples: ToolSpec.from_function(search).transform(examples=examples),
        lambda examples: ToolSpec.from_mcp(ToolSpec.from_function(search).to_mcp(), examples=examples),
        lambda examples: ToolSpec.from_code("def f(query: str): ...", examples=examples),
        lambda examples: Toolkit("k").add(search, examples=examples)["search"],
        lambda examples: Toolkit("k").add(ToolSpec.from_function(search), examples=examples)["search"],
        registered,
    ],
)
def test_examples_are_read_once_from_any_iterable(make: Callable[[Any], ToolSpec]):
    calls = {"first": {"query": "x"}, "second": {"query": "y"}}
    for examples in (iter(calls.values()), (call for call in calls.values()), calls.values(), deque(calls.values())):
        spec = make(examples)
        assert spec.examples == [{"query": "x"}, {"query": "y"}]
        assert spec.bind("query").definition.examples == [{"inputs": {}}, {"inputs": {}}]


def test_examples_from_an_iterator_survive_changes_and_pickles():
    spec = ToolSpec.from_function(search, examples=({"query": text} for text in "ab"))
    added = Toolkit("k").add(spec, examples=iter([{"query": "c"}]))["search"]
    for twin in (spec.clone(), spec.transform(timeout=1), pickle.loads(pickle.dumps(spec))):
        assert twin.examples == [{"query": "a"}, {"query": "b"}]
    spec.bind("limit", default=1)  # the toolkit applies its options again
    assert added.definition.examples == [{"inputs": {"query": "c"}}]


def test_an_example_may_set_a_parameter_called_inputs():
    def run(inputs: dict[str, int], steps: int = 1) -> None: ...

    spec = ToolSpec.from_function(run, examples=[{"inputs": {"a": 1}, "steps": 2}])
    assert spec.definition.examples == [{"inputs": {"inputs": {"a": 1}, "steps": 2}}]


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        ({"quory": "x"}, "there is no parameter 'quory'. Did you mean 'query'?"),
        ({"inputs": {"query": "x", "max": 1}}, "there is no parameter 'max'. Known: 'query', 'limit'"),
        ({"query": "x", "limit": "many"}, "Invalid arguments: 'limit' should be a valid integer"),
        ({"inputs": {"query": ["x"]}, "note": "n"}, "Invalid arguments: 'query' should be a valid string"),
    ],
)
def test_an_example_that_the_tool_would_refuse_is_refused_when_it_is_made(example, problem):
    def make_all() -> list[Callable[..., Any]]:
        examples = [{"query": "fine"}, example]
        listed = ToolSpec.from_function(search).to_mcp()
        return [
            lambda: ToolSpec.from_function(search, examples=examples),
            lambda: tool(examples=examples)(search),
            lambda: ToolSpec.from_mcp(listed, examples=examples),
        ]

    for make in make_all():
        with pytest.raises(DefinitionError) as raised:
            make()
        assert str(raised.value).startswith("Example 2 of 'search' is no call of it: ")
        if "valid" not in problem:  # a JSON Schema has other words for types
            assert problem in str(raised.value)


def test_an_example_may_leave_out_required_parameters_and_name_bound_ones():
    def act(user: str, action: str, db: Db) -> str:
        return f"{user} {action} {db}"

    examples = [{"action": "go"}, {"user": "ann", "action": "go", "db": "any"}]
    spec = ToolSpec.from_function(act, examples=examples, binds={"db": "db"}).bind("user")
    assert [example["inputs"] for example in spec.definition.examples] == [{"action": "go"}] * 2


def test_an_example_of_an_open_schema_may_have_more_arguments():
    listed = ToolSpec.from_function(search).to_mcp()
    schema = {key: value for key, value in listed.input_schema.items() if key != "additionalProperties"}
    spec = ToolSpec.from_mcp(listed.model_copy(update={"input_schema": schema}), examples=[{"query": "x", "more": 1}])
    assert spec.definition.examples == [{"inputs": {"query": "x", "more": 1}}]


def test_no_examples_are_none():
    assert ToolSpec.from_function(search).examples is None
    assert ToolSpec.from_function(search).definition.examples is None


def test_the_docstring_provides_the_texts():
    spec = ToolSpec.from_function(search)
    assert spec.description == "Search the shelf.\n\nAll of it, from left to right."
    assert spec.params["query"]["description"] == "What to look for."
    assert spec.definition.returns == "The titles."


def test_the_long_description_can_be_left_out():
    assert ToolSpec.from_function(search, include_long_description=False).description == "Search the shelf."


@pytest.mark.parametrize("separator", [" ", "\n", ""])
def test_the_short_and_the_long_description_are_joined_by_a_separator(separator):
    spec = ToolSpec.from_function(search, description_separator=separator)
    expected = f"Search the shelf.{separator}All of it, from left to right."
    assert spec.description == expected
    assert spec.docstring.startswith(expected)
    assert spec.to("openai")["function"]["description"] == expected
    assert expected in textwrap.dedent(spec.to_prompt().partition("\n")[2])
    again = ToolSpec.from_code(spec.code, env={"List": list}, description_separator=separator)
    assert again.description == expected
    assert pickle.loads(pickle.dumps(spec)).description == expected


def test_a_separator_of_none_is_a_blank_line():
    spec = ToolSpec.from_function(search, description_separator=None)
    assert spec.description == ToolSpec.from_function(search).description


def test_without_parsing_the_whole_docstring_is_the_description():
    spec = ToolSpec.from_function(search, parse_docstring=False)
    assert spec.description.startswith("Search the shelf.")
    assert "Args:" in spec.description
    assert "description" not in spec.params["query"]


def test_an_input_schema_option_is_exported_and_enforced():
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "minLength": 3}, "limit": {"type": "integer", "maximum": 5}},
        "required": ["query"],
    }
    spec = ToolSpec.from_function(search, input_schema=schema)
    assert spec.input_schema == schema
    assert spec(query="tea", limit=2) == ["tea", "tea"]
    assert spec.exec(query="te").error.code == "invalid_parameters"
    assert spec.exec(query="tea", limit=6).error.code == "invalid_parameters"
    spec.bind("limit", default=1)
    assert spec.input_schema == {"type": "object", "properties": {"query": schema["properties"]["query"]}, **REQUIRED}
    assert spec(query="tea") == ["tea"]
    assert spec.exec(query="tea", limit=1).error.code == "invalid_parameters"


REQUIRED = {"required": ["query"]}


def test_an_output_schema_option_is_exported_and_names_the_value():
    schema = {"type": "object", "properties": {"hits": {"type": "integer"}}, "required": ["hits"]}

    def count(text: str) -> Any:
        return {"hits": len(text)}

    spec = ToolSpec.from_function(count, output_schema=schema)
    assert spec.output_schema == schema
    assert spec(text="abc") == 3
    assert spec.exec(text="abc").structured_content == {"hits": 3}


def test_variadic_parameters_are_visible_on_request():
    def total(first: int, *more: int, **named: int) -> int:
        return first + sum(more) + sum(named.values())

    plain = ToolSpec.from_function(total)
    assert list(plain.params) == ["first"]
    spec = ToolSpec.from_function(total, include_var_positional=True, include_var_keyword=True)
    assert list(spec.params) == ["first", "more", "named"]
    assert spec(first=1, more=["2", 3], named={"x": 4}) == 10
    assert spec(first=1) == 1
    assert spec.exec(first=1, named={"first": 4}).error.code == "invalid_parameters"


def test_the_same_options_work_on_methods_and_code():
    class Shelf(ToolRegistry):
        @reg_toolspec(**NAMES, tags={"a"}, examples=[{"query": "x"}])
        def search(self, query: str) -> str:
            return query

    result = Shelf().toolspec("find")
    coded = ToolSpec.from_code(
        "def search(query: str) -> str: return query", **NAMES, tags={"a"}, examples=[{"query": "x"}]
    )
    assert result.definition == coded.definition


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "rwa"}, r"^output must be 'json' or 'raw', not 'rwa'\.$"),
        ({"output": ["raw"]}, r"^output must be 'json' or 'raw', not \['raw'\]\.$"),
        ({"render": repr}, r'^render is an option of raw results: add output="raw", or remove it\.$'),
        ({"output": "json", "render": repr}, 'add output="raw"'),
        ({"output": "raw", "render": 3}, "^render must be a function of the returned value, not 3"),
        (
            {"output": "raw", "output_schema": {"type": "object"}},
            r'^A raw result has no output schema: remove output_schema, or output="raw"\.$',
        ),
    ],
)
def test_options_of_results_that_do_not_fit_are_refused(options, message):
    with pytest.raises(DefinitionError, match=message):
        ToolSpec.from_function(search, **options)
    with pytest.raises(DefinitionError, match=message):
        Toolkit("kit").add(search, **options)


def test_a_toolkit_refuses_an_unknown_form_of_results():
    with pytest.raises(DefinitionError, match="output must be 'json' or 'raw', not 'rwa'"):
        Toolkit("kit", output="rwa")


def test_an_mcp_tool_has_no_raw_results():
    with pytest.raises(DefinitionError, match="'output' is an option for Python functions, not for MCP tools"):
        ToolSpec.from_mcp(ToolSpec.from_function(search).to_mcp(), output="raw", render=repr)
