"""The Model Context Protocol: tools as a server lists them, calls and results as its messages contain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.json_data import get_object, replace_surrogates, to_json_data, to_objects, unread_fields
from ahvn_tools.formats.parsing.tool_calls import RawCall, Reader, StreamParser, parse_calls
from ahvn_tools.formats.rendering.calls import clean_text, get_provider_data, to_writable
from ahvn_tools.formats.rendering.content import to_readable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice
from ahvn_tools.formats.rendering.tool_exporter import ToolExporter, export_all
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult, media_blocks, sent_meta, whole_value
from ahvn_tools.schema.dialects.dialect import MCP

METHOD: Final = "tools/call"
"""The method of a request that is a call."""

FORMAT = "mcp"
SDK_MODULES = ("mcp_types", "mcp")

_EXPORTER = ToolExporter(MCP)
findings = _EXPORTER.findings
_PARAM_NAMES = {"name", "arguments", "_meta", "task", "inputResponses", "requestState"}
"""The params that a call can have."""


def export(definitions: Iterable[ToolDefinition], *, strict: bool = False) -> list[JsonObject]:  # noqa: ARG001  # as all formats
    """Return the tools as a response to `tools/list` contains them.

    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - `strict` has no effect: MCP has no strict tools.

    A served tool keeps its own name and its schema unchanged: see `ToolSpec.to_mcp`.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping")])
    [{'name': 'ping', 'inputSchema': {'type': 'object', 'properties': {}, 'additionalProperties': False}}]
    """
    return export_all(definitions, _to_tool)


def to_listed_tool(definition: ToolDefinition) -> JsonObject:
    """Return a definition as a server lists it, under its own name and with its schema unchanged.

    Tags and version are in the fields that FastMCP uses for them.
    """
    meta = dict(definition.meta or {})
    version = {"version": definition.version} if definition.version is not None else {}
    if definition.tags or version:
        meta["fastmcp"] = {**meta.get("fastmcp", {}), "tags": sorted(definition.tags), **version}
    fields = {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description or None,
        "inputSchema": definition.input_schema,
        "outputSchema": definition.output_schema,
        "annotations": definition.annotations or None,
        "icons": definition.icons or None,
        "_meta": meta or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the call of a `tools/call` request, or of its params; for a list, the calls of all requests.

    Requests are SDK objects, dicts, JSON text or bytes. Other messages contain no calls. The remaining params (`_meta`)
    are in the call's `provider`, and so is the id of the request if it is a number.

    >>> calls({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "ping"}})[0].id
    '7'
    """
    return parse_calls(response, definitions, stream)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return one JSON-RPC request for each call; the inverse of `calls`.

    Raises ToolSpecError for a text, for which MCP has no place.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="ping")])[0]["params"]
    {'name': 'ping', 'arguments': {}}
    """
    if clean_text(text) is not None:
        raise ToolSpecError("A request of MCP contains no text of the model. Leave `text` out.")
    return [_to_request(call) for call in to_writable(calls, FORMAT)]


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one JSON-RPC response for each call, under the id of its request; errors have a flag.

    A response contains structured content and text, as MCP requires: programs read the former, models the latter.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="7", name="ping"), ToolResult("pong"))])[0]["result"]
    {'content': [{'type': 'text', 'text': 'pong'}], 'resultType': 'complete'}
    """
    return [
        {"jsonrpc": "2.0", "id": get_provider_data(call, FORMAT).get("id", call.id), "result": _to_result(result)}
        for call, result in to_readable(pairs)
    ]


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `toolChoice` as a field of a sampling request; a plain `tools/call` request needs no choice.

    Raises ToolSpecError for tools by name and for `parallel=False`, for which MCP has no option. With `definitions`, an
    unknown name is a ToolLookupError.

    >>> choice("required")
    {'toolChoice': {'mode': 'required'}}
    """
    if parallel is False:
        raise ToolSpecError("MCP has no option for one call at a time. Leave `parallel` out.")
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {"toolChoice": {"mode": tools}}
    names = ", ".join(map(repr, resolve_choice(tools, definitions)))
    raise ToolSpecError(f"MCP cannot force a tool by name: {names}. Export only that tool and choose 'required'.")


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a message, the params of a call, or a list of these.

    >>> looks_like({"jsonrpc": "2.0", "method": "notifications/initialized"})
    True
    """
    items = to_objects(data)
    return any("jsonrpc" in item or "method" in item or _is_params(item) for item in items)


def _is_params(item: JsonObject) -> bool:
    """Return whether an object is the params of a call; others with a name are tools, or calls of another format."""
    return "name" in item and item.keys() <= _PARAM_NAMES


def _to_tool(definition: ToolDefinition) -> JsonObject:
    return {**to_listed_tool(definition), **_EXPORTER.to_fields(definition, "inputSchema")}


def _to_request(call: ToolCall) -> JsonObject:
    params = dict(call.provider)
    request_id = params.pop("id", call.id)
    params |= {"name": call.name, "arguments": call.arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": METHOD, "params": params}


def _to_result(result: ToolResult) -> JsonObject:
    fields: JsonObject = {"content": _to_blocks(result)}
    if result.structured_content is not None:
        fields["structuredContent"] = to_json_data(result.structured_content)
    if result.is_error:
        fields["isError"] = True
    if meta := sent_meta(result):
        fields["_meta"] = to_json_data(meta)
    return {**fields, "resultType": "complete"}  # required by revision 2026-07-28, ignored by older ones


def _to_blocks(result: ToolResult) -> list[JsonObject]:
    texts: list[JsonObject] = []
    if result.is_error or (result.blocks is None and whole_value(result) is not None):
        texts = [{"type": "text", "text": replace_surrogates(result.text)}]
    blocks = media_blocks(result.blocks) if result.is_error else result.blocks or ()
    return [*texts, *(to_json_data(block.model_dump(by_alias=True, exclude_none=True)) for block in blocks)]


def _to_raw_call(params: JsonObject, request_id: Any) -> RawCall:
    is_call_id = request_id is None or (isinstance(request_id, str) and request_id != "")
    id_field = {} if is_call_id else {"id": request_id}
    return RawCall(
        id=None if request_id is None else str(request_id),
        name=params.get("name"),
        arguments=params.get("arguments"),
        provider={**unread_fields(params, "name", "arguments", "id"), **id_field},
    )


class RequestReader(Reader):
    """Reads messages, of which each request to call a tool is a complete call."""

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in requests, or in the params of a request."""
        for message in data if isinstance(data, list) else [data]:
            if not isinstance(message, dict) or message.get("method", METHOD) != METHOD:
                continue
            is_request = "method" in message
            if is_request or _is_params(message):
                yield _to_raw_call(get_object(message, "params") if is_request else message, message.get("id"))


stream = StreamParser(RequestReader, format=FORMAT)
"""Parse messages as they arrive: `for call in stream(messages)`, or `async for`."""
