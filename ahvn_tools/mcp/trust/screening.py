"""Screening: which tools of a server may come in, with every text made visible, and why the others may not.

A server's definitions are untrusted. What is too large, refers outside of itself, cannot be checked or hides something
in its name is refused; hidden characters in texts are written out. Nothing is fetched, nothing is expanded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.trust import invisible
from ahvn_tools.mcp.trust.budgets import Budgets, RefusedToolError, check_schema, check_size
from ahvn_tools.mcp.trust.wire import JsonObject, to_wire
from ahvn_tools.redaction import clip
from ahvn_tools.schema.jsonschema import SchemaInputs, compile_validator
from ahvn_tools.schema.output import Output

if TYPE_CHECKING:
    from mcp_types import Tool as WireTool

MAX_NAME_CHARS = 128
"""MCP's rule for the length of a tool's name, in characters."""

MAX_REASON_CHARS = 300
"""A reason is cut after this many characters."""


@dataclass(frozen=True, kw_only=True)
class ScreeningResult:
    """What came of a server's list."""

    tools: list[WireTool]
    """What may come in, in the server's order, with hidden characters in texts written out."""
    raw: dict[str, JsonObject] = field(default_factory=dict)
    """The wire objects of these tools as they came, by name: what is pinned."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why the others may not, by their name as it can be shown. A second tool of a name is `name (2)`."""


def screen(wire_tools: Iterable[Any], budgets: Budgets | None = None) -> ScreeningResult:
    r"""Screen a server's tools, given as `mcp.types.Tool` or as the JSON objects themselves.

    Never raises for what a server sent. A second tool of a name, or of one that looks the same, is refused, whatever
    became of the first: nobody knows which of them the server will run.

    >>> screened = screen([{"name": "a\u200bdd", "inputSchema": {"type": "object"}}])
    >>> screened.refused
    {'a\\u200bdd': 'its name has hidden characters: \\u200b'}
    """
    budgets = budgets or Budgets()
    screening = _Screening(budgets)
    for tool in wire_tools:
        screening.add_tool(tool)
    return ScreeningResult(tools=screening.tools, raw=screening.raw, refused=screening.refused)


class _Screening:
    """One list on its way in."""

    def __init__(self, budgets: Budgets) -> None:
        self.tools: list[WireTool] = []
        self.raw: dict[str, JsonObject] = {}
        self.refused: dict[str, str] = {}
        self._budgets = budgets
        self._bytes_left = budgets.total_bytes
        self._normalized_names: set[str] = set()
        self._refusal_counts: dict[str, int] = {}

    def add_tool(self, tool: Any) -> None:
        raw: JsonObject = {}
        try:
            raw = to_wire(tool)
            name = _validate_name(raw)
            look = unicodedata.normalize("NFKC", name)
            if look in self._normalized_names:
                raise RefusedToolError("another tool of this server has this name, or one that looks the same")
            self._normalized_names.add(look)
            made = self._screen_tool(raw)
        except (RefusedToolError, DefinitionError) as refusal:
            self.refused[self._to_refusal_key(raw.get("name"))] = clip(invisible.escape(str(refusal)), MAX_REASON_CHARS)
            return
        self.tools.append(made)
        self.raw[name] = raw

    def _screen_tool(self, raw: JsonObject) -> WireTool:
        if len(self.tools) >= self._budgets.tools:
            raise RefusedToolError(f"the server has more than {self._budgets.tools} tools")
        if self._bytes_left > 0:
            self._bytes_left -= check_size(raw, self._budgets)
        if self._bytes_left <= 0:
            raise RefusedToolError(f"the server's tools together have more than {self._budgets.total_bytes} bytes")
        shown = escape_texts(raw)
        _check_schemas(shown, self._budgets)
        return _parse_tool(shown)

    def _to_refusal_key(self, name: Any) -> str:
        shown = clip(invisible.escape_line(name), MAX_NAME_CHARS) if isinstance(name, str) else "(no name)"
        number = self._refusal_counts[shown] = self._refusal_counts.get(shown, int(shown in self.raw)) + 1
        while number > 1 and f"{shown} ({number})" in self.refused:
            number = self._refusal_counts[shown] = number + 1
        return shown if number == 1 else f"{shown} ({number})"


def escape_texts(value: Any) -> Any:
    """Return a JSON value with the hidden characters of every text in it written out.

    Raises Refused for a member whose name has some: what is sent under another name does not arrive.
    """
    if isinstance(value, str):
        return invisible.escape(value)
    if isinstance(value, list):
        return [escape_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    for name in value:
        if found := invisible.find(name):
            raise RefusedToolError(f"the name of a member has hidden characters: {', '.join(found)}")
    return {name: escape_texts(item) for name, item in value.items()}


def _validate_name(raw: JsonObject) -> str:
    name = raw.get("name")
    if not isinstance(name, str):
        raise RefusedToolError("it has no name")
    if not name.strip():
        raise RefusedToolError("its name is empty")
    if len(name) > MAX_NAME_CHARS:
        raise RefusedToolError(f"its name has {len(name)} characters, more than {MAX_NAME_CHARS}")
    if found := invisible.find_in_name(name):
        raise RefusedToolError(f"its name has hidden characters: {', '.join(found)}")
    return name


def _check_schemas(raw: JsonObject, budgets: Budgets) -> None:
    from mcp.shared.inbound import find_invalid_x_mcp_header

    inputs, output = raw.get("inputSchema"), raw.get("outputSchema")
    if not isinstance(inputs, dict) or inputs.get("type", "object") != "object":
        raise RefusedToolError("its input schema does not describe an object")
    check_schema(inputs, budgets)
    if fault := find_invalid_x_mcp_header(inputs):
        raise RefusedToolError(fault)
    SchemaInputs(inputs)
    if output is None:
        return
    if not isinstance(output, dict):
        raise RefusedToolError("its output schema is no object")
    check_schema(output, budgets)
    Output(schema=output)
    compile_validator(output)


def _parse_tool(raw: JsonObject) -> WireTool:
    from mcp_types import Tool

    try:
        return Tool.model_validate(raw)
    except ValidationError as error:
        places = {".".join(map(str, fault["loc"])) for fault in error.errors(include_input=False, include_url=False)}
        raise RefusedToolError(f"it is malformed: {', '.join(sorted(places))}") from None
