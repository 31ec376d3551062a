"""Received: an answer, or an event of a stream, as JSON data, whatever it came as."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

_BYTE_ORDER_MARK = "\ufeff"
"""What some write in front of a text, to tell its encoding."""


def parse_payload(response: Any) -> Any:
    """Return an answer as JSON data; a stream of events, or its text, as the list of them.

    Raises ValueError or RecursionError for text that cannot be read, TypeError for what is no answer.
    """
    if isinstance(response, str | bytes | bytearray | memoryview):
        return _parse_text(decode_text(response))
    if response is None or isinstance(response, Mapping | list | tuple) or hasattr(response, "model_dump"):
        return dump_models(response)
    if isinstance(response, Iterable):
        return [dump_models(event) for event in response]
    if isinstance(response, AsyncIterable):
        raise TypeError("An asynchronous stream is read with `async for call in FORMAT.stream(events, definitions)`.")
    raise TypeError(
        f"{type(response).__name__} is no answer. Pass the SDK's response object, its dict, or its JSON text."
    )


def dump_models(value: Any) -> Any:
    """Return a copy as JSON data; an SDK's objects (pydantic models all) are dumped wherever they stand."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if isinstance(value, dict):
        return {key: dump_models(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [dump_models(item) for item in value]
    return dump_models(dict(value)) if isinstance(value, Mapping) else value


def decode_text(received: str | bytes | bytearray | memoryview, errors: str = "surrogatepass") -> str:
    """Return text, of bytes in any of Unicode's encodings, without a mark of the encoding in front of it."""
    if not isinstance(received, str):
        received = bytes(received)
        received = received.decode(json.detect_encoding(received), errors)
    return received.removeprefix(_BYTE_ORDER_MARK)


def _parse_text(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except ValueError:
        events = _parse_events(text)
        if not events:
            raise
        return events


def _parse_events(text: str) -> list[Any]:
    """Return what server-sent events hold, or one JSON text a line; JSON may break lines where these two do not."""
    found = []
    for block in text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line.strip() for line in block.split("\n")]
        told = [line.removeprefix("data:").strip() for line in lines if line.startswith(("data:", "{"))]
        found += _parse_block([line for line in told if line not in ("", "[DONE]")])
    return found


def _parse_block(lines: list[str]) -> list[Any]:
    """Return the one event that lines are together, or else those that each of them is."""
    try:
        return [json.loads("\n".join(lines), strict=False)] if lines else []
    except ValueError:
        return [json.loads(line, strict=False) for line in lines]
