"""A tool as HTML for notebooks, made from its definition and the names of its bindings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from ahvn_tools import html
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.execution.plan import Plan
from ahvn_tools.text import parameter_names


def spec_html(definition: ToolDefinition, signature: inspect.Signature, binds: Mapping[str, str]) -> html.Html:
    """Return the signature, the description, a table of the parameters, and what is bound to which state key."""
    parts = [html.code(f"{definition.name}{signature}"), definition.description]
    if rows := _parameter_rows(definition, signature):
        parts.append(html.table(("parameter", "type", "default", "description"), rows))
    if binds:
        parts.append(html.Html(f"bound: {html.bindings(binds)}"))
    return html.lines(filter(None, parts))


def unusable_html(plan: Plan) -> html.Html:
    """Return the name of a tool that has no definition yet, and which parameter must be bound."""
    return html.lines([html.code(plan.name), plan.unbound_text])


def _parameter_rows(definition: ToolDefinition, signature: inspect.Signature) -> list[list[str]]:
    names, rows = parameter_names(definition), []
    for name, node in definition.input_schema.get("properties", {}).items():
        parameter = signature.parameters[names[name]]
        default = "" if parameter.default is parameter.empty else repr(parameter.default)
        description = str(node.get("description", "")) if isinstance(node, dict) else ""
        annotation = inspect.formatannotation(parameter.annotation)
        rows.append([html.code(name), html.code(annotation), html.code(default), description])
    return rows
