"""The Python signature of a tool, made from its definition, functions with it, and its HTML for notebooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from ahvn_tools import html
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.inputs import ParameterKind
from ahvn_tools.text import docstring, identifier, parameter_names, return_type, type_name

_NAMES: Final[Mapping[str, Any]] = {
    **{kind.__name__: kind for kind in (str, int, float, bool)},
    "Any": Any,
    "Dict": dict,
    "List": list,
    "Literal": Literal,
    "__builtins__": {},
}


class _UnstatedDefault:
    """The default of an optional parameter whose schema states none."""

    def __repr__(self) -> str:
        return "..."


UNSTATED: Final = _UnstatedDefault()


def python_signature(definition: ToolDefinition) -> inspect.Signature:
    """Return the parameters in their order; a required one after an optional one is keyword-only."""
    schema, names = definition.input_schema, parameter_names(definition)
    required = schema.get("required", ())
    parameters: list[inspect.Parameter] = []
    kind: ParameterKind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, node in schema.get("properties", {}).items():
        default = inspect.Parameter.empty if name in required else _default(node)
        if name in required and any(known.default is not known.empty for known in parameters):
            kind = inspect.Parameter.KEYWORD_ONLY
        annotation = python_type(node, schema)
        parameters.append(inspect.Parameter(names[name], kind, default=default, annotation=annotation))
    return inspect.Signature(parameters, return_annotation=_return_annotation(definition))


def _return_annotation(definition: ToolDefinition) -> Any:
    """Return the type of the value: that of the only property, or of the object if it may have other members."""
    schema, only = definition.output_schema or {}, _evaluate(return_type(definition))
    is_closed = len(schema.get("properties", ())) != 1 or schema.get("additionalProperties", False) is False
    return only if is_closed or only is Any else only | python_type(schema, schema)


def to_function(definition: ToolDefinition, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the definition's signature and docstring that passes its arguments to `call`."""
    signature = python_signature(definition)
    own_names = {python: name for name, python in parameter_names(definition).items()}

    def function(*positional: Any, **named: Any) -> Any:
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        return call(**{own_names[name]: value for name, value in bound.arguments.items() if value is not UNSTATED})

    types = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    function.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it first
    function.__annotations__ = {**types, "return": signature.return_annotation}
    function.__name__ = function.__qualname__ = identifier(definition.name)
    function.__doc__ = docstring(definition) or None
    return function


def python_type(node: Any, root: JsonObject) -> Any:
    """Return the Python type of the JSON values that a schema describes; Any where it has none."""
    return _evaluate(type_name(node, root))


def _evaluate(annotation: str) -> Any:
    return eval(annotation, dict(_NAMES))  # noqa: S307  # safe: `text` makes it of these names, integers and plain texts


def _default(node: Any) -> Any:
    return node["default"] if isinstance(node, dict) and "default" in node else UNSTATED


def definition_html(definition: ToolDefinition, binds: Mapping[str, str]) -> html.Html:
    """Return the signature, the description, a table of the parameters, and what is bound to which state key."""
    signature = python_signature(definition)
    parts = [html.code(f"{definition.name}{signature}"), definition.description]
    if rows := _parameter_rows(definition, signature):
        parts.append(html.table(("parameter", "type", "default", "description"), rows))
    if binds:
        parts.append(html.Html(f"bound: {html.bindings(binds)}"))
    return html.lines(filter(None, parts))


def _parameter_rows(definition: ToolDefinition, signature: inspect.Signature) -> list[list[str]]:
    names, rows = parameter_names(definition), []
    for name, node in definition.input_schema.get("properties", {}).items():
        parameter = signature.parameters[names[name]]
        default = "" if parameter.default is parameter.empty else repr(parameter.default)
        description = str(node.get("description", "")) if isinstance(node, dict) else ""
        annotation = inspect.formatannotation(parameter.annotation)
        rows.append([html.code(name), html.code(annotation), html.code(default), description])
    return rows
