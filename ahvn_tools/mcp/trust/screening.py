"""Screening: which tools of a server are accepted, and why the others are refused.

A server's definitions are untrusted. A tool that is too large, refers outside of its schema, cannot be checked or has
invisible characters in its name is refused. Invisible characters in texts are escaped. Nothing is fetched or expanded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError

from ahvn_tools import invisible
from ahvn_tools.errors import DefinitionError, clip
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.trust.changes import to_wire
from ahvn_tools.mcp.trust.limits import Budgets, RefusedToolError, check_schema, check_size
from ahvn_tools.schema.jsonschema import SchemaInputs, compile_validator
from ahvn_tools.schema.output import to_object_schema

if TYPE_CHECKING:
    from mcp_types import Prompt
    from mcp_types import Tool as WireTool

MAX_NAME_CHARS = 128
"""The maximum length of a tool name in MCP."""

MAX_REASON_CHARS = 300
"""The maximum length of a reason, which is cut after it."""


@dataclass(frozen=True, kw_only=True)
class ScreeningResult:
    """The accepted and the refused tools of a server."""

    tools: list[WireTool] = field(default_factory=list)
    """The accepted tools in the server's order, with escaped texts."""
    refused: dict[str, str] = field(default_factory=dict)
    """The reasons for refused tools, by escaped name. A second tool of a name is `name (2)`."""


def screen(wire_tools: Iterable[Any], budgets: Budgets | None = None) -> ScreeningResult:
    r"""Screen the tools of a server, either `mcp.types.Tool`s or wire objects.

    Never raises for what a server sent. A second tool of a name, or of one that looks the same, is refused even if the
    first was refused: it is unknown which of them the server would run.

    >>> screened = screen([{"name": "a\u200bdd", "inputSchema": {"type": "object"}}])
    >>> screened.refused
    {'a\\u200bdd': 'its name has invisible characters: \\u200b'}
    """
    screening = _Screening(budgets or Budgets())
    for tool in wire_tools:
        screening.add_tool(tool)
    return screening.result


def screen_prompts(prompts: Iterable[Prompt], budgets: Budgets | None = None) -> tuple[list[Prompt], dict[str, str]]:
    """Return the accepted prompts of a server, with escaped texts, and why the others are refused, by escaped name.

    Of a prompt, the name, the title, the description and the arguments are left.
    """
    screening = _PromptScreening(budgets or Budgets())
    for prompt in prompts:
        screening.add_tool(prompt.model_dump(mode="json", by_alias=True, exclude_none=True))
    return screening.prompts, screening.result.refused


class _Screening:
    """The screening of one list of tools."""

    _kind = "tool"

    def __init__(self, budgets: Budgets) -> None:
        self.result = ScreeningResult()
        self._budgets = budgets
        self._bytes_left = budgets.total_bytes
        self._normalized_names: set[str] = set()
        self._accepted_names: set[str] = set()
        self._refusal_counts: dict[str, int] = {}

    def add_tool(self, tool: Any) -> None:
        raw = to_wire(tool)
        try:
            name = _validate_name(raw)
            normalized_name = unicodedata.normalize("NFKC", name)
            if normalized_name in self._normalized_names:
                raise RefusedToolError(f"another {self._kind} of this server has this name, or one that looks the same")
            self._normalized_names.add(normalized_name)
            self._accept(raw)
            self._accepted_names.add(name)
        except (RefusedToolError, DefinitionError) as refusal:
            reason = clip(invisible.escape(str(refusal)), MAX_REASON_CHARS)
            self.result.refused[self._to_refusal_key(raw.get("name"))] = reason

    def _accept(self, raw: JsonObject) -> None:
        escaped = self._escape(raw)
        _refuse_hidden_values([raw.get("inputSchema"), raw.get("outputSchema")])
        _check_schemas(escaped, self._budgets)
        self.result.tools.append(_parse_tool(escaped))

    def _escape(self, raw: JsonObject) -> JsonObject:
        """Return a definition with escaped texts. Raises RefusedToolError for one that is too large."""
        if len(self._accepted_names) >= self._budgets.tools:
            raise RefusedToolError(f"the server has more than {self._budgets.tools} {self._kind}s")
        if self._bytes_left > 0:
            self._bytes_left -= check_size(raw, self._budgets)
        if self._bytes_left <= 0:
            raise RefusedToolError(
                f"the server's {self._kind}s together have more than {self._budgets.total_bytes} bytes"
            )
        escaped: JsonObject = _escape_texts(raw)
        return escaped

    def _to_refusal_key(self, name: Any) -> str:
        """Return the escaped name, with a number if it is in use."""
        key = clip(invisible.escape_line(name), MAX_NAME_CHARS) if isinstance(name, str) else "(no name)"
        number = self._refusal_counts.get(key, int(key in self._accepted_names)) + 1
        while number > 1 and f"{key} ({number})" in self.result.refused:
            number += 1
        self._refusal_counts[key] = number
        return key if number == 1 else f"{key} ({number})"


class _PromptScreening(_Screening):
    """The screening of one list of prompts."""

    _kind = "prompt"

    def __init__(self, budgets: Budgets) -> None:
        super().__init__(budgets)
        self.prompts: list[Prompt] = []

    def _accept(self, raw: JsonObject) -> None:
        from mcp_types import Prompt

        members = ("name", "title", "description", "arguments")
        escaped = self._escape({key: raw[key] for key in members if raw.get(key) is not None})
        for argument in raw.get("arguments") or ():
            if characters := invisible.find_in_name(argument["name"]):
                raise RefusedToolError(f"the name of an argument has invisible characters: {', '.join(characters)}")
        self.prompts.append(Prompt.model_validate(escaped))


def _escape_texts(value: Any) -> Any:
    """Return a JSON value with every text escaped.

    Raises RefusedToolError for a member name with invisible characters: the server would not recognize another name.
    """
    if isinstance(value, str):
        return invisible.escape(value)
    if isinstance(value, list):
        return [_escape_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    for name in value:
        if characters := invisible.find(name):
            raise RefusedToolError(f"the name of a member has invisible characters: {', '.join(characters)}")
    return {name: _escape_texts(item) for name, item in value.items()}


def _refuse_hidden_values(schemas: Any) -> None:
    """Raise RefusedToolError for an `enum` or `const` with invisible characters: the server knows no escaped value."""
    pending = [schemas]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value.values())
            enum = value.get("enum")
            for allowed in (value.get("const"), *(enum if isinstance(enum, list) else ())):
                if isinstance(allowed, str) and (characters := invisible.find(allowed)):
                    raise RefusedToolError(f"an allowed value has invisible characters: {', '.join(characters)}")


def _validate_name(raw: JsonObject) -> str:
    name = raw.get("name")
    if not isinstance(name, str):
        raise RefusedToolError("it has no name")
    if not name.strip():
        raise RefusedToolError("its name is empty")
    if len(name) > MAX_NAME_CHARS:
        raise RefusedToolError(f"its name has {len(name)} characters, more than {MAX_NAME_CHARS}")
    if characters := invisible.find_in_name(name):
        raise RefusedToolError(f"its name has invisible characters: {', '.join(characters)}")
    return name


def _check_schemas(raw: JsonObject, budgets: Budgets) -> None:
    from mcp.shared.inbound import find_invalid_x_mcp_header

    inputs, output = raw.get("inputSchema"), raw.get("outputSchema")
    if not isinstance(inputs, dict) or inputs.get("type", "object") != "object":
        raise RefusedToolError("its input schema does not describe an object")
    check_schema(inputs, budgets)
    if error := find_invalid_x_mcp_header(inputs):
        raise RefusedToolError(error)
    SchemaInputs(inputs)
    if output is None:
        return
    if not isinstance(output, dict):
        raise RefusedToolError("its output schema is not an object")
    check_schema(output, budgets)
    compile_validator(to_object_schema(output))


def _parse_tool(raw: JsonObject) -> WireTool:
    from mcp_types import Tool

    try:
        return Tool.model_validate(raw)
    except ValidationError as error:
        fields = {".".join(map(str, fault["loc"])) for fault in error.errors(include_input=False, include_url=False)}
        raise RefusedToolError(f"it is malformed: {', '.join(sorted(fields))}") from None
