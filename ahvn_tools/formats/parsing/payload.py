"""A response, or an event of a stream, as JSON data, from SDK objects, dicts, text or bytes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

_BYTE_ORDER_MARK = "\ufeff"
"""The first character of some texts, which marks their encoding."""


def parse_payload(response: Any) -> Any:
    """Return a response as JSON data; a stream of events, or the text of one, as the list of its events.

    Raises ValueError or RecursionError for invalid text, and TypeError for any other object.
    """
    if isinstance(response, str | bytes | bytearray | memoryview):
        text = decode_text(response)
        try:
            return json.loads(text, strict=False)
        except ValueError:
            if events := _parse_events(text):
                return events
            raise
    if response is None or isinstance(response, Mapping | list | tuple) or hasattr(response, "model_dump"):
        return dump_models(response)
    if isinstance(response, Iterable):
        return [dump_models(event) for event in response]
    if isinstance(response, AsyncIterable):
        raise TypeError(
            "An asynchronous stream cannot be read here. Pass `[event async for event in stream]`, or read its calls "
            "as they come with `async for call in FORMAT.stream(events, definitions)`."
        )
    raise TypeError(
        f"{type(response).__name__} is no response. Pass the SDK's response object, its dict, or its JSON text."
    )


def dump_models(value: Any) -> Any:
    """Return a copy as JSON data, in which an SDK's objects (pydantic models) at any depth are dicts."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if isinstance(value, dict):
        return {key: dump_models(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [dump_models(item) for item in value]
    return dump_models(dict(value)) if isinstance(value, Mapping) else value


def read_field(source: Any, name: str) -> Any:
    """Return a field of an SDK's object or of a dict, without a copy of the rest; None where there is none."""
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def read_first(source: Any, name: str) -> Any:
    """Return the first item of a list in a field of an SDK's object or of a dict; None where there is none."""
    items = read_field(source, name)
    return items[0] if isinstance(items, list | tuple) and items else None


def read_items(response: Any) -> list[Any]:
    """Return the items of a list or of a text with one, and anything else as the only item; none of invalid text."""
    if isinstance(response, str | bytes | bytearray | memoryview):
        try:
            response = parse_payload(response)
        except (ValueError, RecursionError):
            return []
    return list(response) if isinstance(response, list | tuple) else [response]


def is_stream(value: Any) -> bool:
    """Return whether a value can be a stream of events: an iterable, but no text, bytes or mapping."""
    if isinstance(value, Mapping | str | bytes | bytearray | memoryview):
        return False
    return isinstance(value, Iterable | AsyncIterable)


def decode_text(text: str | bytes | bytearray | memoryview, errors: str = "surrogatepass") -> str:
    """Return text without a byte order mark; bytes can be in any Unicode encoding."""
    if not isinstance(text, str):
        data = bytes(text)
        text = data.decode(json.detect_encoding(data), errors)
    return text.removeprefix(_BYTE_ORDER_MARK)


def _parse_events(text: str) -> list[Any]:
    """Return the data of server-sent events, or of one JSON text per line. JSON has other line breaks than these."""
    events = []
    for block in text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line.strip() for line in block.split("\n")]
        data = [line.removeprefix("data:").strip() for line in lines if line.startswith(("data:", "{"))]
        data = [line for line in data if line not in ("", "[DONE]")]
        try:
            events += [json.loads("\n".join(data), strict=False)] if data else []
        except ValueError:  # one event per line
            events += [json.loads(line, strict=False) for line in data]
    return events
