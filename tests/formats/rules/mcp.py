"""MCP's rules for `tools/list`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.formats.rules import schema as common

NAME = r"[A-Za-z0-9._-]{1,128}"
KEYS = ("title", "description", "outputSchema", "annotations", "icons", "_meta")
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = [*common.json_only(export)]
    for tool in export:
        found += common.only_keys(tool, ("name", "inputSchema"), KEYS)
        found += _tool(tool)
    return [*found, *common.unique(tool.get("name") for tool in export)]


def _tool(tool: dict[str, Any]) -> Iterator[str]:
    yield from common.well_named(tool.get("name"), NAME)
    yield from common.described(tool)
    yield from common.valid(tool.get("inputSchema"))
    yield from common.object_at_root(tool.get("inputSchema"), ())
    yield from common.led_somewhere(tool.get("inputSchema"))
    if "outputSchema" in tool:
        yield from (f"outputSchema: {problem}" for problem in common.valid(tool["outputSchema"]))
    annotations = tool.get("annotations", {})
    yield from common.only_keys(annotations, (), ("title", *HINTS), "the annotations")
    for hint in HINTS:
        if isinstance(annotations, dict) and not isinstance(annotations.get(hint, True), bool):
            yield f"{hint!r} is no boolean"
    if not isinstance(tool.get("title", ""), str):
        yield "the title is no text"
    if not isinstance(tool.get("_meta", {}), dict):
        yield "'_meta' is no object"
    if not all(isinstance(icon, dict) and isinstance(icon.get("src"), str) for icon in tool.get("icons", ())):
        yield "an icon has no 'src'"
