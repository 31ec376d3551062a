"""The Model Context Protocol: tools as a server lists them, calls and results as its messages carry them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.raw_call import RawCall, get_object, unread_fields
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import MCP

METHOD: Final = "tools/call"
"""The method of the requests that are calls."""

_PARAM_NAMES = {"name", "arguments", "_meta", "task", "inputResponses", "requestState"}
"""What the params of a call hold."""


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,  # noqa: ARG001  # the same word for all formats
) -> list[JsonObject]:
    """Return the tools as the answer to `tools/list` holds them.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict` changes nothing: MCP has no such mark.

    A tool that is served keeps its own name and its schema as it is: see `ToolSpec.to_mcp`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping")])
    [{'name': 'ping', 'inputSchema': {'type': 'object', 'properties': {}, 'additionalProperties': False}}]
    """
    return [definition.memoize(_to_tool) for definition in index_by_wire_name(definitions).values()]


def to_listed_tool(definition: ToolDefinition) -> JsonObject:
    """Return a definition as a server lists it, under its own name and with its schema as it is.

    Tags and version are where FastMCP keeps them.
    """
    meta = dict(definition.meta or {})
    version = {"version": definition.version} if definition.version is not None else {}
    if definition.tags or version:
        meta["fastmcp"] = {**meta.get("fastmcp", {}), "tags": sorted(definition.tags), **version}
    said = {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description or None,
        "inputSchema": definition.input_schema,
        "outputSchema": definition.output_schema,
        "annotations": definition.annotations or None,
        "icons": definition.icons or None,
        "_meta": meta or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the call of a `tools/call` request, or of its params; of a list, the calls of all.

    They may be SDK objects, dicts, JSON text or bytes. Other messages hold no calls. The id of a request as it came,
    and what its params say besides (`_meta`), are in the call's `provider`.

    >>> calls({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "ping"}})[0].id
    '7'
    """
    return tool_calls.parse_calls(response, _extract_calls, definitions, RequestReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one JSON-RPC response for each call, under the id of its request; errors are flagged.

    Structured content goes along with the text, as MCP wants it: programs read the one, models the other.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="7", name="ping"), ToolResult("pong"))])[0]["result"]
    {'content': [{'type': 'text', 'text': 'pong'}], 'resultType': 'complete'}
    """
    return [
        {"jsonrpc": "2.0", "id": call.provider.get("id", call.id), "result": _to_result(result)}
        for call, result in pairs
    ]


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `toolChoice` as a field of a sampling request; calling a tool through MCP needs no choice.

    Raises ToolSpecError for tools by name and for `parallel=False`, which MCP cannot ask for. With `definitions`, an
    unknown name is a ToolLookupError.

    >>> choice("required")
    {'toolChoice': {'mode': 'required'}}
    """
    if parallel is False:
        raise ToolSpecError("MCP cannot ask for one call at a time. Leave `parallel` out.")
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"toolChoice": {"mode": tools}}
    names = ", ".join(map(repr, resolve_choice(tools, definitions)))
    raise ToolSpecError(f"MCP cannot force tools by name, such as {names}. Export this tool alone, with 'required'.")


def _to_tool(definition: ToolDefinition) -> JsonObject:
    tool = export_tool(definition, MCP)
    said = {"description": tool.description} if tool.description else {}
    return {**to_listed_tool(definition), "name": wire_name(definition.name), **said, "inputSchema": tool.schema}


def _to_result(result: ToolResult) -> JsonObject:
    made: JsonObject = {"content": _to_blocks(result)}
    if result.structured_content is not None:
        made["structuredContent"] = content.to_json_data(result.structured_content)
    if result.is_error:
        made["isError"] = True
    if result.meta:
        made["_meta"] = content.to_json_data(result.meta)
    return {**made, "resultType": "complete"}  # revision 2026-07-28 wants it, older ones pass over it


def _to_blocks(result: ToolResult) -> list[JsonObject]:
    if result.is_error or (result.blocks is None and result.value is not None):
        return [{"type": "text", "text": content.replace_surrogates(result.text)}]
    return [content.to_json_data(block.model_dump(by_alias=True, exclude_none=True)) for block in result.blocks or ()]


def _extract_calls(data: Any) -> Iterator[RawCall]:
    reader = RequestReader()
    for message in data if isinstance(data, list) else [data]:
        yield from reader.feed(message)


class RequestReader:
    """Reads messages one by one: each holds a whole call, or none."""

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take a message, or the params of one."""
        if not isinstance(event, dict) or event.get("method", METHOD) != METHOD:
            return
        is_request = "method" in event
        params = get_object(event, "params") if is_request else event
        is_params = "name" in event and event.keys() <= _PARAM_NAMES  # else it is another's call, or a listed tool
        if is_request or is_params:
            given = event.get("id") if is_request else None
            yield RawCall(
                id=None if given is None else str(given),
                name=params.get("name"),
                arguments=params.get("arguments"),
                provider={
                    **unread_fields(params, "name", "arguments", "id"),
                    **({} if given is None else {"id": given}),
                },
            )

    def end(self) -> Iterator[RawCall]:
        """Give nothing: a message is whole when it arrives."""
        return iter(())


stream = StreamParser(RequestReader)
"""Read messages as they arrive: `for call in stream(messages)`, or `async for`."""
