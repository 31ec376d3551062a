"""A definition as text: the exact forms, and Python code that is valid for any definition."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import keyword
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ahvn_tools import ToolDefinition, ToolSpec, tool
from ahvn_tools import text as texts
from ahvn_tools.signature import to_function


@tool
def search_database(
    query: str,
    limit: int = 10,
    tags: Optional[list[str]] = None,
    when: dict[str, int] = {"year": 1},
) -> list[str]:
    """Search the database.

    It takes a while.

    Args:
        query: What to look for.
        limit: How many at most,
            at the very most.
        tags: Only these.

    Returns:
        The records.
    """
    return [query] * limit


# the forms


def test_a_signature_has_arguments_defaults_and_names_of_required_parameters():
    assert search_database.signature(query="example", limit=10) == snapshot(
        "search_database(query='example', limit=10, tags=None, when={'year': 1})"
    )
    assert search_database.signature() == snapshot("search_database(query, limit=10, tags=None, when={'year': 1})")


def test_texts_keep_the_types_of_parameters_and_values():
    @tool
    def pay(
        to: str | None, kind: Literal["cash", "card"], cents: Decimal, day: dt.date | None = None
    ) -> list[int] | None:
        """Pay."""

    head = "def pay(to: str | None, kind: Literal['cash', 'card'], cents: float | str, day: str | None = None)"
    assert pay.code.startswith(f"{head} -> List[int] | None:")
    assert "    kind (Literal['cash', 'card'])" in pay.to_prompt()
    names = {"Any": Any, "Dict": dict, "List": list, "Literal": Literal}
    again = ToolSpec.from_code(pay.code, env=names)
    assert again.params["to"] == pay.params["to"]
    assert again.params["kind"] == pay.params["kind"]
    assert list(inspect.signature(pay.to_function()).parameters) == ["to", "kind", "cents", "day"]


def test_the_optional_parameters_of_a_schema_tool_are_shown():
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}
    spec = ToolSpec.from_schema("look", schema, lambda **arguments: arguments)
    assert spec.to_prompt().startswith("- `look(q, n=...)`")
    assert spec.code.startswith("def look(q: str, n: int | None = None)")


def test_a_signature_leaves_out_optional_parameters_without_a_default():
    definition = ToolDefinition(
        name="f",
        input_schema={"type": "object", "properties": {"a": {}, "b": {}, "c": True}, "required": ["b", "c"]},
    )
    assert texts.signature(definition, {}) == "f(b, c)"
    assert texts.signature(definition, {"a": 1, "unknown": 2}) == "f(a=1, b=b, c=c)"


def test_the_docstring_is_google_style():
    assert search_database.docstring == snapshot("""\
Search the database.

It takes a while.

Args:
    query (str): What to look for.
    limit (int): How many at most,
        at the very most. Defaults to 10.
    tags (List[str] | None): Only these. Optional.
    when (Dict[str, int]): Defaults to {'year': 1}.

Returns:
    List[str]: The records.\
""")


def test_the_code_is_a_function_definition():
    assert search_database.code == snapshot('''\
def search_database(query: str, limit: int = 10, tags: List[str] | None = None, when: Dict[str, int] = {'year': 1}) -> List[str]:
    """\\
    Search the database.

    It takes a while.

    Args:
        query (str): What to look for.
        limit (int): How many at most,
            at the very most. Defaults to 10.
        tags (List[str] | None): Only these. Optional.
        when (Dict[str, int]): Defaults to {'year': 1}.

    Returns:
        List[str]: The records.
    """
    pass\
''')  # noqa: E501


def test_the_prompt_is_the_call_and_the_docstring_below_it():
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        Carefully.
        """
        return a + b

    assert add.to_prompt() == snapshot("""\
- `add(a, b=1)`:
    Add two numbers.

    Carefully.

    Args:
        a (int)
        b (int): Defaults to 1.

    Returns:
        int\
""")


def test_the_prompt_has_no_line_that_says_nothing():
    @tool
    def look(at: Any, also: Optional[str], by: int) -> Any:
        """Look at it.

        Args:
            by: In steps.
        """

    assert look.to_prompt() == snapshot("""\
- `look(at, also, by)`:
    Look at it.

    Args:
        also (str | None)
        by (int): In steps.\
""")
    assert "at (Any):" in look.docstring

    @tool
    def point() -> Point: ...

    assert point.to_prompt() == snapshot("""\
- `point()`:
    Returns:
        Dict[str, Any]: A dictionary containing:
        - x (int)
        - y (float)\
""")


def test_a_default_that_the_description_states_is_not_repeated():
    """So the code of a tool can be the source of the same tool again and again."""

    @tool
    def count(a: int = 1, b: int = 1, c: str = "x", d: Optional[int] = None, e: int = 5) -> None:
        """Count.

        Args:
            a: How many. Defaults to 1.
            b: How many (default: 1)
            c: Which, "x" by default
            d: The last one (optional)
            e: At most 50, by default 10
        """

    assert count.to_prompt() == snapshot("""\
- `count(a=1, b=1, c='x', d=None, e=5)`:
    Count.

    Args:
        a (int): How many. Defaults to 1.
        b (int): How many (default: 1)
        c (str): Which, "x" by default
        d (int | None): The last one (optional)
        e (int): At most 50, by default 10. Defaults to 5.\
""")
    again = ToolSpec.from_code(count.code, env={"Any": Any})
    assert again.to_prompt() == count.to_prompt()


def test_the_prompt_of_a_tool_without_any_text_has_no_colon():
    assert ToolSpec.from_function(lambda: None, name="f").to_prompt() == "- `f()`"
    assert ToolSpec.from_function(lambda: None, name="f").code == "def f() -> Any:\n    pass"


class Line(BaseModel):
    sku: str = Field(description="What it is.\nIn two lines.")
    count: int = 1


class Order(BaseModel):
    lines: list[Line]
    parent: Order | None = None


def test_the_prompt_lists_the_fields_of_objects_once():
    @tool
    def place(order: Order, extra: dict[str, Line], note: str = "", key: tuple[Line, int] | None = None) -> list[Line]:
        """Place an order.

        Args:
            order: What to order.
        """

    assert place.to_prompt() == snapshot("""\
- `place(order, extra, note='', key=None)`:
    Place an order.

    Args:
        order (Dict[str, Any]): What to order.
            lines (List[Dict[str, Any]])
                sku (str): What it is.
                    In two lines.
                count (int): Defaults to 1.
            parent (Dict[str, Any] | None): Optional. The same fields as `order`.
        extra (Dict[str, Dict[str, Any]]): The same fields as `order.lines`.
        note (str): Defaults to ''.
        key (List[Any] | None): Optional. The same fields as `order.lines`.

    Returns:
        List[Dict[str, Any]]: With these fields:
        - sku (str): What it is.
            In two lines.
        - count (int)\
""")
    place.bind("order", default={"lines": []})
    assert "order" not in place.to_prompt().partition("Args:")[2]
    assert "sku (str)" in place.to_prompt()


def nested(levels: int, width: int) -> dict[str, Any]:
    """Return a schema in which each definition refers `width` times to the next one."""

    def members(level: int) -> dict[str, Any]:
        return {f"m{level}_{number}": {"$ref": f"#/$defs/d{level}"} for number in range(width)}

    definitions = {f"d{level}": {"type": "object", "properties": members(level + 1)} for level in range(levels - 1)}
    definitions[f"d{levels - 1}"] = {"type": "object", "properties": {"end": {"type": "string"}}}
    return {"type": "object", "properties": members(0), "$defs": definitions}


def test_the_prompt_of_definitions_that_refer_to_each_other_has_each_field_once():
    text = ToolSpec.from_schema("f", nested(levels=12, width=20), lambda **_arguments: None).to_prompt()
    names = [f"m{level}_{number}" for level in range(12) for number in range(20)]
    assert [text.count(f" {name} (") for name in [*names, "end"]] == [1] * 241


@dataclass
class Point:
    x: int
    y: float


def test_several_properties_are_listed_and_one_is_named():
    @tool
    def point() -> Point: ...

    assert point.docstring == snapshot("""\
Returns:
    Dict[str, Any]: A dictionary containing:
    - x (int):
    - y (float):\
""")
    assert point.code.startswith("def point() -> Dict[str, Any]:")

    @tool(output_schema={"type": "object", "properties": {"n": {"type": "null", "description": "Nothing."}}})
    def one() -> Any: ...

    assert one.docstring == "Returns:\n    None: Nothing."
    assert one.code.startswith("def one() -> None:")

    @tool
    def free() -> dict[str, int]:
        """Do.

        Returns:
            Counts by
            name.
        """

    assert free.docstring == "Do.\n\nReturns:\n    Dict[str, int]: Counts by name."

    @tool
    def unknown():
        """Do.

        Returns:
            Whatever.
        """

    assert unknown.docstring == "Do.\n\nReturns:\n    Any: Whatever."


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "string"}, "str"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": "array"}, "List[Any]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "List[List[str]]"),
        ({"type": "object"}, "Dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Dict[str, int]"),
        ({"anyOf": [{"type": "integer"}]}, "int"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "str | None"),
        ({"anyOf": [{"type": "integer"}, {}]}, "Any"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"enum": ["a b", 1, None]}, "Literal['a b', 1, None]"),
        ({"const": "a"}, "Literal['a']"),
        ({"enum": ["a: b)"], "type": "string"}, "str"),
        ({"type": "bogus"}, "Any"),
        (True, "Any"),
        ({}, "Any"),
    ],
)
def test_a_type_has_its_python_name(node, name):
    assert texts.type_name(node) == name


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("plain", "plain"),
        ("a-b.c d", "a_b_c_d"),
        ("", "_"),
        ("1st", "_1st"),
        ("class", "class_"),
        ("ｃｌａｓｓ", "class_"),
        ("__debug__", "__debug___"),
        ("é", "é"),
        ("half ৴", "_half__"),
    ],
)
def test_a_name_becomes_a_similar_identifier(name, python):
    assert texts.identifier(name) == python
    assert python.isidentifier()


def test_no_text_contains_a_bound_parameter():
    spec = search_database.clone().bind("limit", "search.limit", 98765)
    for text in (spec.signature(), spec.docstring, spec.code, spec.to_prompt()):
        assert "limit" not in text.replace("limit at most", "")
        assert "98765" not in text


# hostile definitions

NAMES = st.one_of(
    st.text(st.characters(), max_size=12),
    st.sampled_from([
        *keyword.kwlist, *keyword.softkwlist, "__debug__", "_ABSENT", "_forward", "Any", "List", "Dict", "self", "",
        "ﬁle", "file", "ﬀ", "ff", "ª", "a", "a_", "a-b", "a.b", "a b", "1", "１", "²", "½", "ｄｅｆ", "def_", "é", "é",
        "\ud800", "x\udfff", '"""', "\\", "'", "\n", "x: int = 1, y", "\u2028", "\x00", "𝐝𝐞𝐟", "·", "a·", "℘", "᧚",
    ]),
)  # fmt: skip
TEXTS = st.one_of(
    st.text(st.characters(), max_size=40),
    st.lists(
        st.sampled_from(['"', '""', '"""', "'''", "\\", "\\\\", "\\N{", "\n", "\r", "\t", "\x0c", "\x85", "\u2028",
                         "\ud800", "\\u", "\\x", "x", " ", "    ", "pass", "#", "{", "}", "\x00", "é"]),
        max_size=12,
    ).map("".join),
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NODES = st.one_of(
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["integer", "string", "array", "object", "null", "bogus", ["string", "null"]]),
            "description": TEXTS,
            "default": VALUES,
            "items": st.sampled_from([{}, True, {"type": "integer"}, {"type": "array"}]),
        },
    ),
)


@st.composite
def definitions(draw: st.DrawFn) -> ToolDefinition:
    properties = draw(st.dictionaries(NAMES, NODES, max_size=5))
    required = [name for name in properties if draw(st.booleans())]
    outputs = draw(st.none() | st.dictionaries(NAMES, NODES, max_size=3))
    return ToolDefinition(
        name=draw(NAMES),
        description=draw(TEXTS),
        input_schema={"type": "object", "properties": properties, "required": required},
        output_schema=None if outputs is None else {"type": "object", "properties": outputs},
        returns=draw(TEXTS),
    )


def hostile(**fields: Any) -> ToolDefinition:
    return ToolDefinition(**{"name": "f", **fields})


@given(definitions())
@example(hostile(description='ends with a quote"'))
@example(hostile(description="\\"))
@example(hostile(returns="\ud800"))
@example(hostile(name="__debug__", input_schema={"type": "object", "properties": {"__debug__": {}, "def": {}}}))
@example(hostile(input_schema={"type": "object", "properties": {"ﬁ": {}, "fi": {}}, "required": ["fi"]}))
def test_the_code_of_any_definition_is_python(definition):
    tree = ast.parse(texts.code(definition))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    assert len(taken) == len(definition.input_schema["properties"])
    message = texts.docstring(definition).encode("utf-8", "backslashreplace").decode("utf-8")
    shown = ast.get_docstring(function, clean=False)
    if message:
        assert [line.strip() for line in shown.split("\n")] == [
            "",
            *[line.strip() for line in message.split("\n")],
            "",
        ][1:]
    else:
        assert shown is None
    compile(tree, "<code>", "exec")


@given(definitions(), st.data())
def test_a_generated_function_passes_its_arguments(definition, data):
    properties, required = definition.input_schema["properties"], definition.input_schema.get("required", [])
    calls: list[dict[str, Any]] = []
    result = to_function(definition, lambda **arguments: calls.append(arguments))
    given_values = {
        name: data.draw(st.integers()) for name in properties if name in required or data.draw(st.booleans())
    }
    python = texts.parameter_names(definition)
    result(**{python[name]: value for name, value in given_values.items()})
    defaults = {
        name: node["default"] for name, node in properties.items() if isinstance(node, dict) and "default" in node
    }
    left = {name: value for name, value in defaults.items() if name not in required}
    assert calls == [{**left, **given_values}]


@pytest.mark.exhaustive
@given(definitions())
def test_every_text_can_be_made_of_any_definition(definition):
    assert texts.signature(definition, {}).endswith(")")
    assert texts.prompt(definition).startswith("- `")


# round trip


def test_a_generated_function_returns_what_the_spec_returns():
    function = search_database.to_function()
    assert function("tea", 2) == search_database("tea", 2) == ["tea", "tea"]
    assert function(query="tea", limit="1") == ["tea"]
    assert function.__name__ == "search_database"
    assert function.__doc__ == search_database.docstring
    assert list(inspect.signature(function).parameters) == list(search_database.params)
    with pytest.raises(TypeError):
        function(nope=1)


def test_a_generated_function_raises_what_the_spec_raises():
    @tool
    def fail(a: int) -> int:
        raise KeyError(a)

    with pytest.raises(KeyError, match="3"):
        fail.to_function()(3)


def test_a_generated_function_leaves_out_absent_arguments():
    @tool
    def count(*, given: int, **rest: int) -> int:
        return given

    definition = ToolDefinition(
        name="f", input_schema={"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"]}
    )
    calls: list[dict[str, Any]] = []
    result = to_function(definition, lambda **arguments: calls.append(arguments))
    result(b=1)
    result(None, b=1)
    assert calls == [{"b": 1}, {"a": None, "b": 1}]
    with pytest.raises(TypeError):
        result(1, 2)
    assert count.to_function()(given=1) == 1


def test_a_generated_function_can_become_a_tool():
    again = ToolSpec.from_function(search_database.to_function())
    assert again(query="tea", limit=1) == ["tea"]
    assert list(again.params) == list(search_database.params)
    assert again.params["limit"]["type"] == "integer"


def test_a_generated_function_has_real_types_as_annotations():
    function = search_database.to_function()
    assert inspect.signature(function).parameters["limit"].annotation is int
    assert inspect.signature(function).return_annotation == list[str]


def test_a_generated_function_reads_the_current_state():
    spec = search_database.clone().bind("limit", default=1)
    function = spec.to_function()
    assert function(query="tea") == ["tea"]
    spec.state["limit"] = 2
    assert function(query="tea") == ["tea", "tea"]


def test_an_unresolvable_reference_has_type_any():
    schema = {"type": "object", "properties": {"there": {"$ref": "#/$defs/There"}, "gone": {"$ref": "#/$defs/Gone"}}}
    definition = ToolDefinition(name="f", input_schema={**schema, "$defs": {"There": {"type": "integer"}}})
    assert texts.code(definition).startswith("def f(there: int | None = None, gone: Any = None)")
