"""What a LangChain tool returns: a value, content in LangChain's blocks, or a ToolMessage with an artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.encoders.binary import UNKNOWN_MIME_TYPE, bytes_block
from ahvn_tools.encoders.loaded_classes import refuse_graph_output
from ahvn_tools.encoders.rendering import Rendering
from ahvn_tools.errors import ToolError
from ahvn_tools.results import ToolResult, join_text_blocks, raw_result, result_from_content, text_block

_BLOCK_TYPES: Final = frozenset({"text", "image", "image_url", "audio", "video", "file"})
_DATA_URL: Final = "data:"


def read_output(output: Any) -> Any:
    """Return what a tool returned for a result: content as MCP blocks, the value of an artifact, any other value.

    Raises ToolError for a message with the status "error", InvalidResultError for a command to a LangGraph graph.
    """
    if hasattr(output, "tool_call_id") and hasattr(output, "content"):
        return _read_message(output)
    refuse_graph_output(output)
    return _to_blocks(output) if _is_content(output) else output


def _read_message(message: Any) -> Any:
    """Return the content of a ToolMessage, with its artifact as the value."""
    blocks = _to_blocks(message.content)
    if getattr(message, "status", None) == "error":
        raise ToolError(join_text_blocks(tuple(blocks)) or "The tool failed.")
    artifact = getattr(message, "artifact", None)
    if artifact is None:
        return message.content if isinstance(message.content, str) else blocks
    if isinstance(message.content, str):
        return ToolResult(artifact, rendering=Rendering(artifact, message.content))
    return raw_result(artifact, result_from_content(blocks))


def _is_content(value: Any) -> bool:
    """Return whether a value is a list of LangChain's content blocks."""
    return isinstance(value, list) and bool(value) and all(_is_block(item) for item in value)


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _BLOCK_TYPES and len(value) > 1


def _to_blocks(content: Any) -> list[Any]:
    """Return content as MCP blocks."""
    return [_to_block(item) for item in (content if isinstance(content, list) else [content])]


def _to_block(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return text_block(str(item))
    if isinstance(item.get("text"), str):
        return text_block(item["text"])
    mime_type, data = _read_data(item)
    if data is not None:
        return bytes_block(data, mime_type or UNKNOWN_MIME_TYPE)
    return text_block(json.dumps(item, ensure_ascii=False, default=str))


def _read_data(item: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the media type and the base64 data of a block, in each of the forms that LangChain knows."""
    if isinstance(item.get("base64"), str):
        return item.get("mime_type"), item["base64"]
    if item.get("source_type") == "base64" and isinstance(item.get("data"), str):
        return item.get("mime_type"), item["data"]
    source = item.get("source")
    if isinstance(source, Mapping) and source.get("type") == "base64" and isinstance(source.get("data"), str):
        return source.get("media_type"), source["data"]
    url = item.get("image_url", item.get("url"))
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and url.startswith(_DATA_URL) and ";base64," in url:
        mime_type, _, data = url.removeprefix(_DATA_URL).partition(";base64,")
        return mime_type, data
    return None, None
