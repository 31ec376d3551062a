"""Declarations of tools: valid Python for every schema, with the types that the schema says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.code_mode.stubs import HEADER, make_stubs
from ahvn_tools.definition import ToolDefinition

CORPORA = Path(__file__).parents[3] / "shared" / "corpora"


def declare(input_schema: Any, output_schema: Any = None, **fields: Any) -> str:
    definition = ToolDefinition(name="f", input_schema=input_schema, output_schema=output_schema, **fields)
    return next(iter(make_stubs([definition]).values())).declaration()


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas, "required": list(schemas)}


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"enum": ["a", 1, None]}, "Literal['a', 1, None]"),
        ({"const": True}, "Literal[True]"),
        ({"enum": [1.5, "a"]}, "Literal['a'] | float"),
        ({"type": "array", "items": {"type": "number"}}, "Sequence[float]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Mapping[str, int]"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({"$ref": "https://example.com/x"}, "Any"),
        ({"$ref": "#/nowhere"}, "Any"),
        (True, "Any"),
    ],
    ids=[
        "text", "optional", "enum", "const", "float enum", "list", "mapping", "union", "union with anything", "allOf",
        "remote reference", "dangling reference", "true",
    ],
)  # fmt: skip
def test_a_schema_becomes_an_annotation(schema: Any, annotation: str) -> None:
    assert declare(properties(x=schema)) == f"async def f(x: {annotation}) -> Any: ..."


@pytest.mark.parametrize(
    ("default", "text"),
    [("x", "'x'"), (None, "None"), ("x" * 58, f"'{'x' * 58}'"), ("x" * 59, "...")],
    ids=["text", "null", "60 characters", "61 characters"],
)
def test_a_short_default_is_in_the_declaration(default: Any, text: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": ["string", "null"], "default": default}}}
    assert declare(schema) == f"async def f(x: str | None = {text}) -> Any: ..."


A = properties(a={"type": "integer"}) | {"required": ["a"]}
B = properties(a={"type": "string"}, b={"type": "string"}) | {"required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        ({"allOf": [A, properties(b={"type": "string"}) | {"required": []}]}, "a: int, b: str | None = ..."),
        ({"oneOf": [A, B]}, "a: int | str | None = ..., b: str | None = ..."),
        ({"anyOf": [A, properties(b={"type": "string"})]}, "a: int | None = ..., b: str | None = ..."),
        ({**B, "anyOf": [{"required": ["b"]}, {"required": ["a"]}]}, "a: str, b: str | None = ..."),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, "a: int"),
        ({"$ref": "#", "properties": {"a": {}}}, "a: Any = ..."),
        ({**A, "required": ["a", "c"]}, "a: int, c: Any"),
        ({**A, "patternProperties": {"^x-": {"type": "string"}}}, "a: int, **kwargs: Any"),
        (
            {**A, "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
            "a: int, **kwargs: str",
        ),
    ],
    ids=[
        "allOf", "oneOf", "anyOf", "anyOf of required", "$ref", "$ref to itself", "required", "patternProperties",
        "patternProperties alone",
    ],
)  # fmt: skip
def test_arguments_of_all_parts_of_a_schema_are_parameters(schema: Any, parameters: str) -> None:
    assert declare({"type": "object", **schema}) == f"async def f({parameters}) -> Any: ..."


def test_an_object_becomes_a_typed_dict() -> None:
    text = declare(properties(x=properties(a={"type": "integer"}, b={"type": "string"}) | {"required": ["a"]}))
    assert text.splitlines()[0] == "class F_X(TypedDict): a: int; b: NotRequired[str]"
    assert "x: F_X | Mapping[str, Any]" in text


def test_a_key_that_is_a_type_of_another_key_hides_none() -> None:
    text = declare(properties(x=properties(str={"type": "string"}, n={"type": "string"})))
    assert "F_X = TypedDict('F_X', {'str': str, 'n': str})" in text


def test_a_recursive_type_refers_to_itself() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    text = declare({**properties(x={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}})
    assert "class F_Node(TypedDict): next: NotRequired[F_Node | Mapping[str, Any]]" in text


def test_parameters_that_are_no_identifiers_have_another_name() -> None:
    stub = make_stubs([ToolDefinition(name="f", input_schema=properties(**{"from": {}, "per-page": {}}))])["f"]
    assert stub.parameters == {"from_": "from", "per_page": "per-page"}


def test_each_note_of_a_parameter_is_a_sentence() -> None:
    size, name = {"description": "The size (in MB)", "minimum": 1}, {"description": "The name."}
    definition = ToolDefinition(name="f", input_schema=properties(size=size, name=name, last={"description": "Last"}))
    text = make_stubs([definition])["f"].text()
    assert re.findall("# (.*)", text) == ["The size (in MB). At least 1.", "The name", "Last"]


def test_a_description_cannot_end_its_docstring() -> None:
    text = next(iter(make_stubs([ToolDefinition(name="f", description='x """\nimport os\n\\')]).values())).text()
    namespace: dict[str, Any] = {}
    exec(HEADER + text, namespace)
    assert "os" not in namespace


NAMES = st.sampled_from(
    [
        "get_a",
        "getA",
        "GetA",
        "GetA_X",
        "GetA_Result",
        "getA__X",
        "getA__",
        "GetA__X",
        "get__a",
        "get-a",
        "x",
        "X_",
        "x_X",
    ]
)


@given(st.lists(NAMES, unique=True))
def test_no_declared_name_of_a_tool_is_that_of_another(names: list[str]) -> None:
    schema = properties(x=properties(y={}), result=properties(y={}), x_=properties(y={}))
    definitions = [ToolDefinition(name=name, input_schema=schema, output_schema=schema) for name in names]
    lines = "\n".join(stub.declaration() for stub in make_stubs(definitions).values()).splitlines()
    declared = [line.split("(")[0].split()[-1] for line in lines if line.startswith(("class ", "async "))]
    assert len(declared) == 8 * len(names)
    assert len(set(declared)) == len(declared)


def test_a_hostile_schema_is_declared_in_part() -> None:
    parts = {f"d{n}": {"type": "object", "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    branch = {"type": "object", "properties": {f"k{n}": {"anyOf": [properties(q={})] * 40} for n in range(40)}}
    schema = {**properties(x={"$ref": "#/$defs/d0"}, y={"anyOf": [branch] * 30}), "$defs": parts}
    text = declare(schema, schema)
    compile(HEADER + text, "stubs", "exec")
    assert len(text) < 200_000


def test_types_that_refer_to_each_other_are_a_union() -> None:
    def node(kind: str, **others: Any) -> Any:
        return properties(kind={"const": kind}, **others)

    parts = {"A": node("a", next={"$ref": "#/$defs/B"}), "B": node("b")}
    output = properties(found={"anyOf": [{"$ref": f"#/$defs/{name}"} for name in parts]}, more={}) | {"$defs": parts}
    assert ": found: F_A | F_B;" in declare({}, output)
    parts["B"]["properties"]["next"] = {"type": "array", "items": {"$ref": "#/$defs/A"}}
    assert ": found: Any;" in declare({}, output)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
)
KEYWORDS = st.sampled_from(["type", "properties", "items", "anyOf", "enum", "const", "required", "$ref", "default"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
SCHEMAS = st.recursive(
    st.booleans() | st.builds(lambda kind: {"type": kind}, TYPES) | st.dictionaries(KEYWORDS, JSON, max_size=3),
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda members: {"type": "object", "properties": members}, st.dictionaries(st.text(), inner)),
    ),
    max_leaves=8,
)


@given(members=st.dictionaries(st.text(), SCHEMAS, max_size=4), output=SCHEMAS)
def test_every_schema_gives_valid_python(members: Any, output: Any) -> None:
    schema = {"type": "object", "properties": members, "required": [*members][:2]}
    text = declare(schema, output if isinstance(output, dict) else None)
    compile(HEADER + text, "stubs", "exec")


@pytest.mark.skipif(not CORPORA.exists(), reason="the recorded tools are not part of this repository")
def test_recorded_tools_give_valid_python_in_less_text() -> None:
    recorded = [json.loads(line) for line in (CORPORA / "github_mcp_tools.jsonl").read_text().splitlines()]
    definitions = [
        ToolDefinition(name=tool["name"], description=tool["description"], input_schema=tool["inputSchema"])
        for tool in recorded
    ]
    stubs = make_stubs(definitions)
    for texts, share in (
        ([stub.declaration() for stub in stubs.values()], 0.25),
        ([stub.text(has_descriptions=False) for stub in stubs.values()], 0.2),
        ([stub.text() for stub in stubs.values()], 0.45),
        ([stub.text("full") for stub in stubs.values()], 0.65),
    ):
        text = "\n".join(texts)
        exec(compile(HEADER + text, "stubs", "exec"), {})
        assert len(text) < len(json.dumps(recorded)) * share
    assert len(stubs) == len(recorded)
