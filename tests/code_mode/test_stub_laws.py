"""What the declarations of tools promise: a call that fits a schema passes the check, and a wrong one does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.code_mode.sandbox import InvalidProgramError, SandboxProgram
from ahvn_tools.code_mode.stubs import HEADER, make_stubs
from ahvn_tools.definition import ToolDefinition

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that its package is there

CORPORA = Path(__file__).parents[3] / "shared" / "corpora"
Check = Callable[..., str]
DECLARED = "Programs do not support class inheritance and metaclasses."
"""What remains of the check of declarations whose types fit: the type checker knows their classes, the sandbox not."""
LAW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def check() -> Iterator[Check]:
    """Return a function that returns the errors of a program that calls tools; empty: it fits."""
    sandbox = MontySandbox(max_processes=2)

    def errors(code: str, *definitions: ToolDefinition, stubs: str | None = None) -> str:
        made = make_stubs(definitions)
        if stubs is None:
            stubs = "\n".join([HEADER, *[stub.declaration() for stub in made.values()]])
        program = SandboxProgram(code=code, stubs=stubs, functions=made.keys(), limits=CodeLimits(), awaits=True)
        try:
            asyncio.run(sandbox.check(program))
        except InvalidProgramError as error:
            return str(error)
        return ""

    yield errors
    sandbox.close()


def tool(properties: Any, output: Any = None, *, required: Any = None, name: str = "f", **root: Any) -> ToolDefinition:
    names = list(properties) if required is None else required
    schema = {"type": "object", "properties": properties, "required": names, **root}
    return ToolDefinition(name=name, input_schema=schema, output_schema=output)


KEYS = st.sampled_from(["a", "b", "c d", "class", "str", "list", "größe", "x-1", "x_1", "items", "__d", "result"])
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "string"}, st.text(max_size=4)),
    ({"type": "string", "format": "date-time"}, st.just("2026-01-01T00:00:00Z")),
    ({"type": "string", "contentEncoding": "base64"}, st.just("YQ==")),
    ({"type": "integer"}, st.integers(-(2**70), 2**70)),
    ({"type": "number"}, st.floats(-1e9, 1e9) | st.integers(-5, 5)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "null"}, st.none()),
    ({"type": ["string", "null"]}, st.none() | st.text(max_size=4)),
    ({"enum": ["a", 1, None, True, 2.5, {"k": 1}, [1]]}, st.sampled_from(["a", 1, None, True, 2.5, {"k": 1}, [1]])),
    ({"type": "string", "enum": ["open", "closed", "'\"\\\n"]}, st.sampled_from(["open", "closed", "'\"\\\n"])),
    ({"enum": list(range(300))}, st.integers(0, 299)),
    ({"const": {"k": [1]}}, st.just({"k": [1]})),
    ({"not": {"type": "string"}}, st.integers()),
    ({"if": {"type": "string"}, "then": {"minLength": 1}}, st.just("a") | st.integers()),
    ({}, st.none() | st.integers() | st.just({"a": [1]})),
]


@st.composite
def fitting(draw: st.DrawFn, depth: int = 2) -> tuple[Any, Any]:
    """Return a schema and a value that fits it."""
    kind = draw(st.integers(0, 9 if depth else 1))
    if kind <= 1:
        schema, values = draw(st.sampled_from(SCALARS))
        return schema, draw(values)
    inner: st.SearchStrategy[tuple[Any, Any]] = fitting(depth=depth - 1)
    first, second = draw(inner), draw(inner)
    match kind:
        case 2:
            return {"type": "array", "items": first[0]}, [first[1]] * draw(st.integers(0, 2))
        case 3:
            return {"type": "array", "prefixItems": [first[0]], "items": second[0]}, [first[1], second[1]]
        case 4:
            return {"anyOf": [first[0], second[0]]}, draw(st.sampled_from([first[1], second[1]]))
        case 5:
            schema = {"type": "object", "patternProperties": {"^x": first[0]}, "additionalProperties": second[0]}
            return schema, {"x": first[1], "y": second[1]}
        case 6:
            parts = [objects({"a": first}, ["a"])[0], objects({"b": second}, [])[0]]
            return {"allOf": parts}, {"a": first[1], "b": second[1]}
        case 7:
            schema, value = objects({"a": first, "c d": second}, ["a"])
            return {**schema, "additionalProperties": True}, {**value, "another": 1}
        case 8:
            schema, value = objects({"a": first}, [])
            return {**schema, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, value
        case _:
            members = draw(st.dictionaries(KEYS, inner, max_size=3))
            return objects(members, list(members)[:1])


def objects(members: dict[str, tuple[Any, Any]], required: list[str]) -> tuple[Any, Any]:
    properties = {key: schema for key, (schema, _) in members.items()}
    value = {key: value for key, (_, value) in members.items()}
    return {"type": "object", "properties": properties, "required": required}, value


def call(definition: ToolDefinition, arguments: dict[str, Any]) -> str:
    [stub] = make_stubs([definition]).values()
    names = {tool_name: name for name, tool_name in stub.parameters.items()}
    return f"await {stub.function}({', '.join(f'{names[key]}={value!r}' for key, value in arguments.items())})"


@LAW
@given(members=st.dictionaries(KEYS, fitting(), max_size=4))
def test_arguments_that_fit_the_schema_pass_the_check(check: Check, members: dict[str, tuple[Any, Any]]) -> None:
    schema, arguments = objects(members, list(members)[:2])
    jsonschema.validate(arguments, schema)
    definition = ToolDefinition(name="f", input_schema=schema)
    assert check(call(definition, arguments), definition) == ""
    lines = [f"v{number} = {value!r}" for number, value in enumerate(arguments.values())]
    [stub] = make_stubs([definition]).values()
    names = {tool_name: name for name, tool_name in stub.parameters.items()}
    passed = ", ".join(f"{names[key]}=v{number}" for number, key in enumerate(arguments))
    assert check("\n".join([*lines, f"await f({passed})"]), definition) == ""


@LAW
@given(member=st.sampled_from(SCALARS[:7]), value=st.sampled_from(["a", 1, 1.5, [1], {"k": 1}, None]))
def test_scalars_of_a_wrong_type_and_unknown_names_are_refused(check: Check, member: Any, value: Any) -> None:
    definition = tool({"x": member[0]})
    fits = jsonschema.Draft202012Validator(member[0]).is_valid(value)
    assert (check(f"await f({value!r})", definition) == "") == fits
    assert "`y` does not match" in check(f"await f({value!r}, y=1)", definition)


def uses(value: Any, path: str) -> Iterator[str]:
    """Yield statements that use all parts of a value."""
    if isinstance(value, dict):
        yield f"[key for key in {path}]"
        for key, part in value.items():
            yield from uses(part, f"{path}[{key!r}]")
    elif isinstance(value, list):
        yield f"len({path})"
        for index, part in enumerate(value):
            yield from uses(part, f"{path}[{index}]")
    elif isinstance(value, str):
        yield f"{path}.upper()"
    elif isinstance(value, int | float):
        yield f"abs({path})"
    else:
        yield f"{path} is None"


@LAW
@given(output=fitting(), other=fitting())
def test_a_result_that_fits_the_output_schema_is_used_as_declared(check: Check, output: Any, other: Any) -> None:
    schema, value = objects({"found": output, "other": other}, ["found", "other"])
    definition = tool({}, schema)
    assert check("\n".join(["r = await f()", *uses(value, "r")]), definition) == ""


@LAW
@given(members=st.dictionaries(st.text(max_size=6) | KEYS, fitting(), max_size=5), output=fitting())
def test_declarations_have_no_error_of_their_own(check: Check, members: Any, output: Any) -> None:
    definition = tool({key: schema for key, (schema, _) in members.items()}, {"properties": {"x": output[0]}})
    text = "\n".join(stub.text("full") for stub in make_stubs([definition]).values())
    found = check(f"{HEADER}\n{text}", stubs="").splitlines()
    known = DECLARED, "Write a class without a base", "added in Python 3.15"  # it is no stub file
    assert [line for line in found if not any(text in line for text in known)] == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/Node"}, {"next": {"next": None}}),
        ({"$ref": "#/definitions/Leaf"}, {"kind": "leaf"}),
        ({"$ref": "#/$defs/Json"}, {"a": [1, {"b": None}]}),
        ({"$ref": "#/$defs/Loop"}, 1),
        ({"allOf": [{"$ref": "#/$defs/Node"}, {"type": "object", "properties": {"x": {"type": "integer"}}}]}, {"x": 1}),
        ({"type": "string", "nullable": True}, None),
        ({"type": "object"}, {"a": 1}),
        ({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
        ({"type": "array", "items": {"$ref": "#/$defs/Node"}}, [{"next": None}]),
    ],
    ids=[
        "recursive", "definitions", "recursive union", "endless", "allOf", "nullable", "object", "tuple",
        "list of $ref",
    ],
)  # fmt: skip
def test_schemas_with_references_and_old_keywords_accept_what_fits(check: Check, schema: Any, value: Any) -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
    anything = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Json"}}, {"type": "object"}, {"type": "number"}]}
    definition = tool(
        {"x": schema},
        {"properties": {"x": schema, "y": {}}, "required": ["x"]},
        **{
            "$defs": {"Node": node, "Json": anything, "Loop": {"$ref": "#/$defs/Loop"}},
            "definitions": {"Leaf": {"properties": {"kind": {"const": "leaf"}}}},
        },
    )
    assert check(f"await f({value!r})\nx = {value!r}\nr = await f(x)\nr['x']", definition) == ""


def recorded_tools() -> list[ToolDefinition]:
    if not CORPORA.exists():
        pytest.skip("the recorded tools are not part of this repository")
    definitions = []
    for file, key in (("github_mcp_tools.jsonl", "inputSchema"), ("bfcl_functions.jsonl", "parameters")):
        for number, line in enumerate((CORPORA / file).read_text().splitlines()):
            recorded = json.loads(line)
            schema = recorded.get(key) or recorded.get("input_schema") or {}
            name = f"{recorded['name']}" if key == "inputSchema" else f"{recorded['name']}.{number}"
            definitions.append(ToolDefinition(name=name, description=recorded["description"], input_schema=schema))
    return definitions


@pytest.mark.exhaustive
def test_recorded_tools_are_declared_without_errors_300_at_once(check: Check) -> None:
    definitions = recorded_tools()
    for start in range(0, len(definitions), 300):
        stubs = make_stubs(definitions[start : start + 300])
        text = "\n".join(stub.text("full") for stub in stubs.values())
        found = check(f"{HEADER}\n{text}", stubs="")
        assert found.partition(": ")[2].partition("\n")[0] in {"", DECLARED}
        names = [line.split("(")[0].split()[-1] for line in text.splitlines() if line.startswith(("class ", "async "))]
        assert len(names) == len(set(names))
