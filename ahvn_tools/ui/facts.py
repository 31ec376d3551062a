"""What the pages say of a tool: never the value of a bound parameter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools import formats, lint
from ahvn_tools.errors import DefinitionError, ToolSpecError
from ahvn_tools.formats import Finding
from ahvn_tools.json_types import JsonObject
from ahvn_tools.state import MISSING

if TYPE_CHECKING:
    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.toolkit.tool import ToolkitTool

FORMATS: Final = formats.BUILT_IN
"""The formats of the pages."""

_HINTS: Final = {
    "readOnlyHint": ("only reads", "changes something"),
    "destructiveHint": ("may destroy", "destroys nothing"),
    "idempotentHint": ("may be repeated", "may not be repeated"),
    "openWorldHint": ("reaches outside", "stays inside"),
}
"""MCP's hints in words: those that are true, and those that are false."""


def list_row(tool: ToolkitTool) -> JsonObject:
    """Return a tool as a row of the list."""
    return {
        "name": tool.name,
        "title": tool.title or "",
        "summary": tool.description.strip().partition("\n")[0],
        "group": tool.group,
        "tags": sorted(tool.tags),
        "audience": sorted(tool.audience),
        "source": tool.server_name or "this process",
    }


def tool_facts(tool: ToolkitTool) -> JsonObject:
    """Return what a model sees of a tool; of one that cannot be used yet, `unusable` says why."""
    facts: JsonObject = {**list_row(tool), "origin": tool.origin, "unusable": "", "hints": _hints(tool)}
    facts |= {"prompt": "", "fingerprint": "", "input_schema": {}, "output_schema": None}
    try:
        definition = tool.definition
    except DefinitionError as error:
        return {**facts, "unusable": str(error)}
    return {
        **facts,
        "prompt": tool.to_prompt(),
        "fingerprint": definition.fingerprint,
        "input_schema": definition.input_schema,
        "output_schema": definition.output_schema,
    }


def _hints(tool: ToolkitTool) -> list[str]:
    annotations = tool.compiled.template.annotations or {}
    found = [_HINTS[key][not value] for key, value in annotations.items() if key in _HINTS and isinstance(value, bool)]
    return [*found, *(["needs an approval"] if tool.labels["requires_approval"] else [])]


def bound_rows(tool: ToolkitTool) -> list[tuple[str, str, str]]:
    """Return each bound parameter with its state key and the layer that has a value for it now."""
    return [(name, *_place(tool, name)) for name in tool.compiled.bindings if name != "self"]


def _place(tool: ToolkitTool, name: str) -> tuple[str, str]:
    binding = tool.compiled.bindings[name]
    key = "" if binding.key is None else binding.key.text
    if binding.resolver is not None:
        return key, "a function, at each call"
    if binding.key is None:
        return "", "fixed, where the tool was added"
    scopes = tool.state_scopes
    layers = [*(["session"] * (len(scopes) - 2)), "toolkit", "tool"]
    for layer, scope in zip(layers, scopes, strict=True):
        if binding.key.find((scope,)) is not MISSING:
            return key, f"the state of the {layer}"
    return key, "no state: the default, if there is one"


def verdicts(tool: ToolkitTool) -> dict[str, str]:
    """Return what each provider does with a tool; of a tool that cannot be used yet, nothing."""
    try:
        return tool.definition.share("ui", _judge)
    except DefinitionError:
        return dict.fromkeys(FORMATS, "unusable")


def _judge(definition: ToolDefinition) -> dict[str, str]:
    return dict(lint.verdicts(definition, FORMATS))


def export_facts(tool: ToolkitTool, name: str, *, strict: bool) -> JsonObject:
    """Return the lines of an export with the findings about each, or why there is none."""
    try:
        definition = tool.definition
        export = tool.to(name, strict=strict)
    except (ToolSpecError, TypeError) as error:
        return {"refusal": str(error), "lines": [], "findings": []}
    found = lint.find_by_format(definition, [name])[name]
    lines = _json_lines(export, "", 0, "")
    shown, noted = set[Finding](), list[tuple[str, list[Finding]]]()
    for line, place in lines:
        own = [finding for finding in found if finding.place == place and place and finding not in shown]
        shown.update(own)
        noted.append((line, own))
    return {"refusal": "", "lines": noted, "findings": [finding for finding in found if finding not in shown]}


def _json_lines(value: Any, place: str, depth: int, key: str, ending: str = "") -> Iterator[tuple[str, str]]:
    """Yield each line of a value as JSON, with the path of the parameter that it is about."""
    indent = "  " * depth
    label = indent + (f"{json.dumps(key, ensure_ascii=False)}: " if key else "")
    if not isinstance(value, dict | list) or not value:
        yield f"{label}{json.dumps(value, ensure_ascii=False)}{ending}", place
        return
    is_object = isinstance(value, dict)
    items = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
    yield label + ("{" if is_object else "["), place
    for number, (name, item) in enumerate(items):
        inner = place
        if key == "properties" and is_object:
            inner = f"{place}.{name}" if place else name
        elif name == "items":
            inner = f"{place}[]"
        yield from _json_lines(item, inner, depth + 1, name, "," if number < len(items) - 1 else "")
    yield indent + ("}" if is_object else "]") + ending, place
