"""The Python signature of a tool, made from its definition, and its HTML for notebooks."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from ahvn_tools import html
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.inputs import ParameterKind
from ahvn_tools.schema.refs import resolve_ref
from ahvn_tools.text import parameter_names

MAX_DEPTH = 4
"""In how many nested lists, objects and alternatives a type is spelled out."""

MAX_CHOICES = 10
"""How many values a Literal lists at most."""

_TYPES: Final[Mapping[str, Any]] = {
    "integer": int,
    "number": float,
    "string": str,
    "boolean": bool,
    "null": type(None),
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
    return inspect.Signature(parameters, return_annotation=_return_type(definition))


def python_type(node: Any, root: JsonObject, depth: int = MAX_DEPTH) -> Any:
    """Return the Python type of the JSON values that a schema describes; Any where it has none."""
    node = resolve_ref(node, root) if isinstance(node, dict) else {}
    choices = node.get("enum", [node["const"]] if "const" in node else [])
    if choices and len(choices) <= MAX_CHOICES and all(isinstance(each, str | int | None) for each in choices):
        return Literal[tuple(choices)]
    if not depth:
        return Any
    alternatives = node.get("anyOf") or node.get("oneOf")
    if isinstance(alternatives, list):
        return _union(python_type(each, root, depth - 1) for each in alternatives)
    kind = node.get("type")
    if isinstance(kind, list):
        return _union(python_type({**node, "type": each}, root, depth - 1) for each in kind)
    if kind == "array":
        return list[python_type(node.get("items"), root, depth - 1)]  # type: ignore[misc]  # built at run time
    if kind == "object":
        member = node.get("additionalProperties") if not node.get("properties") else None
        return dict[str, python_type(member, root, depth - 1)]  # type: ignore[misc]  # as above
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _union(types: Iterable[Any]) -> Any:
    types = list(types)
    return Any if not types or Any in types else functools.reduce(operator.or_, types)


def _default(node: Any) -> Any:
    return node["default"] if isinstance(node, dict) and "default" in node else UNSTATED


def _return_type(definition: ToolDefinition) -> Any:
    """Return the type of the value: that of the only property, if the object has no other member."""
    schema = definition.output_schema
    if schema is None:
        return Any
    properties = schema.get("properties", {})
    if len(properties) != 1:
        return python_type(schema, schema)
    only = python_type(next(iter(properties.values())), schema)
    return only if schema.get("additionalProperties", False) is False else _union([only, python_type(schema, schema)])


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
