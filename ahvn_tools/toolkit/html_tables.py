"""A toolkit and a run as tables in a notebook: names, parameters and results, and no value that is bound."""

from __future__ import annotations

from collections.abc import Iterable

from ahvn_tools import html
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.toolkit.tool import ToolkitTool


def tools_table(title: str, tools: Iterable[ToolkitTool]) -> html.Html:
    """Return a table of tools: what each takes, what is bound, and its labels."""
    rows = [
        (
            html.code(tool.name),
            _parameters(tool),
            html.bindings(tool.binds),
            tool.group,
            ", ".join(sorted(tool.tags)),
            tool.description.partition("\n")[0],
        )
        for tool in tools
    ]
    return html.lines([title, html.table(("tool", "parameters", "bound", "group", "tags", "description"), rows)])


def _parameters(tool: ToolkitTool) -> html.Html:
    if (unbound := tool.compiled.plan.unbound_parameter) is not None:
        return html.text(f"{unbound.name!r} must be bound")
    return html.code(", ".join(tool.params))


def run_table(title: str, results: Iterable[tuple[ToolCall, ToolResult]]) -> html.Html:
    """Return a table of calls: names of arguments without their values, which may be secret, result and duration."""
    rows = [
        (
            html.code(f"{call.name}({', '.join(call.arguments)})"),
            html.Html(result._repr_html_()),
            _milliseconds(result),
        )
        for call, result in results
    ]
    return html.lines([title, html.table(("call", "result", "ms"), rows)])


def _milliseconds(result: ToolResult) -> str:
    duration = result.meta.get("duration")
    return f"{duration * 1000:.1f}" if isinstance(duration, int | float) else ""
