"""For any signature, a tool of the facade agrees with one of the core in everything but the declared differences."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

import ahvn_tools
from ahvn_tools.compat.agentheaven import ToolRegistry, ToolSpec, reg_toolspec

TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-9, 9),
    str: st.text(max_size=5),
    bool: st.booleans(),
    float: st.floats(-9, 9),
    list[int]: st.lists(st.integers(), max_size=3),
    dict[str, int]: st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
    str | None: st.none() | st.text(max_size=5),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    Any: st.none() | st.integers(),
}
"""Types of parameters, with values for them."""

NAMES = ["a", "b", "query", "limit", "self_", "class_", "état"]


def echo(**arguments: Any) -> dict[str, Any]:
    return arguments


def make_function(parameters: list[inspect.Parameter], returns: Any, docstring: str) -> Callable[..., Any]:
    """Return a function with this signature that returns its arguments."""

    def function(**arguments: Any) -> Any:
        return echo(**arguments)

    function.__name__ = "function"
    function.__doc__ = docstring
    function.__annotations__ = {
        **{each.name: each.annotation for each in parameters if each.annotation is not each.empty},
        **({} if returns is inspect.Parameter.empty else {"return": returns}),
    }
    function.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
    return function


@st.composite
def functions(draw: st.DrawFn) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Draw a function, and arguments that fit its signature."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    parameters, arguments = [], {}
    for name in names:
        kind = draw(st.sampled_from(list(TYPES)))
        default = draw(TYPES[kind] | st.just(inspect.Parameter.empty))
        annotation = draw(st.sampled_from([kind, kind, kind, inspect.Parameter.empty]))
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
        if default is inspect.Parameter.empty or draw(st.booleans()):
            arguments[name] = draw(TYPES[kind])
    described = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    lines = [f"    {name}: {draw(st.text('abc .', max_size=9))}" for name in described]
    docstring = "\n".join(["Do something.", "", *(["Args:", *lines] if lines else [])])
    returns = draw(st.sampled_from([inspect.Parameter.empty, Any, dict, dict[str, Any]]))
    return make_function(parameters, returns, docstring), arguments


def outcome(call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return the value of a call, or its error."""
    try:
        return call(**arguments)
    except ahvn_tools.ToolCallError as error:
        return type(error), str(error)


def shown(spec: ahvn_tools.ToolSpec) -> dict[str, Any]:
    """Return what can be read of a tool, without the nested schema."""
    return {
        "definition": spec.definition,
        "docstring": spec.docstring,
        "code": spec.code,
        "prompt": spec.to_prompt(),
        "signature": spec.signature(),
        "binds": dict(spec.binds),
        "state": spec.state,
        "mcp": spec.to_mcp(),
        "fastmcp": spec.to_fastmcp().parameters,
        "openai": spec.to("openai"),
        "python": str(inspect.signature(spec.to_function())),
        "examples": spec.examples,
        "is_connected": spec.is_connected,
    }


def test_the_facade_overrides_nothing_else():
    own = {
        name for name in vars(ToolSpec) if name not in ("__doc__", "__module__", "__parameters__", "__firstlineno__")
    }
    assert own - {"__static_attributes__", "__orig_bases__"} == {
        *("__new__", "to_jsonschema", "available", "input_schema", "binds", "from_func", "to_func", "to_sig"),
    }


@given(functions(), st.data())
def test_tools_of_the_same_function_agree(drawn, data):
    function, arguments = drawn
    ours, core = ToolSpec.from_function(function), ahvn_tools.ToolSpec.from_function(function)
    for name in data.draw(st.lists(st.sampled_from(sorted(arguments)), unique=True)) if arguments else []:
        default = arguments.pop(name)
        for spec in (ours, core):
            spec.bind(name, f"bound.{name}", default)
    assert shown(ours) == shown(core)
    wrong = data.draw(st.sampled_from([{}, {"other": 1}, *({name: object()} for name in arguments)]))
    for sent in (arguments, {**arguments, **wrong}):
        assert outcome(ours, sent) == outcome(core, sent)
        one, other = ours.exec(**sent), core.exec(**sent)
        assert (one.value, one.structured_content, one.error) == (other.value, other.structured_content, other.error)


@given(functions(), st.dictionaries(st.text(max_size=5).filter(lambda name: name != "self"), st.integers(), max_size=3))
def test_the_nested_schema_has_the_parts_of_the_flat_one(drawn, fields):
    ours, core = ToolSpec.from_function(drawn[0]), ahvn_tools.ToolSpec.from_function(drawn[0])
    nested, flat = ours.to_jsonschema(), core.to_jsonschema(strict=False)
    flat["parameters"].setdefault("required", [])
    assert {"type": nested["type"], **nested["function"], "strict": False} == flat
    assert ours.to_jsonschema(**fields) == {**nested, "function": {**nested["function"], **fields}}
    json.dumps(nested)


@given(functions())
def test_the_decorator_and_the_registry_make_the_same_tool(drawn):
    function, arguments = drawn
    decorated = ToolSpec(description="Text.")(function)
    assert decorated.definition == ahvn_tools.tool(description="Text.")(function).definition
    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def method(self: Any, **arguments: Any) -> Any:
        return echo(**arguments)

    method.__annotations__, method.__doc__ = function.__annotations__, "Text."
    method.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])  # type: ignore[attr-defined]
    registry = type("Registry", (ToolRegistry,), {"method": reg_toolspec(name="function")(method)})
    spec = registry().to_toolspecs()["method"]
    assert (spec.input_schema, spec.name) == (
        ToolSpec.from_function(function, parse_docstring=False).input_schema,
        "function",
    )
    assert outcome(spec, arguments) == outcome(decorated, arguments)
