"""Detection: which format an answer of a model looks like.

For this a format has a function `looks_like(data)`: whether JSON data looks like one of its answers, with calls or
without. `SDK_MODULES` are the modules of the SDK whose objects are its answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from ahvn_tools import formats
from ahvn_tools.formats.parsing import payload
from ahvn_tools.formats.sdk_objects import NATIVE_FORMATS, sdk_formats


def read_events(answer: Any) -> Any:
    """Return an answer that can be read more than once: a stream, and Bedrock's response with one, as its events."""
    if isinstance(answer, Mapping) and payload.is_stream(answer.get("stream")):
        return {**answer, "stream": read_events(answer["stream"])}
    is_response = isinstance(answer, Mapping) or hasattr(answer, "model_dump")
    return list(answer) if not is_response and payload.is_stream(answer) and isinstance(answer, Iterable) else answer


async def aread_events(answer: Any) -> Any:
    """Return an answer whose events can be read without waiting: an async stream, also Bedrock's, as its events."""
    if isinstance(answer, Mapping) and isinstance(answer.get("stream"), AsyncIterable):
        return {**answer, "stream": await aread_events(answer["stream"])}
    if not isinstance(answer, AsyncIterable) or isinstance(answer, Iterable) or hasattr(answer, "model_dump"):
        return answer
    return [event async for event in answer]


def matching_formats(answer: Any) -> list[str]:
    """Return the formats that an answer looks like: those in which it has calls or, if it has none, all of them.

    Several formats may fit a dict; an object of an SDK has one.
    """
    return sdk_formats(answer) or _preferred(_native_matches(_to_data(answer)))


def fits_without_calls(name: str, answer: Any) -> bool:
    """Return whether an answer in which a format has found no calls is one in this format nevertheless."""
    looks_like = getattr(formats.get(name), "looks_like", None)
    if looks_like is None:
        return True
    data = _to_data(answer)
    matches = _native_matches(data)
    return name in _preferred(matches) if name in NATIVE_FORMATS else looks_like(data) and not any(matches.values())


def _native_matches(data: Any) -> dict[str, bool]:
    """Return the formats that JSON data looks like, and whether it has calls in each."""
    modules: dict[str, Any] = {name: formats.get(name) for name in NATIVE_FORMATS}
    return {name: bool(module.calls(data)) for name, module in modules.items() if data == [] or module.looks_like(data)}


def _preferred(matches: Mapping[str, bool]) -> list[str]:
    return [name for name, has_calls in matches.items() if has_calls] or list(matches)


def _to_data(answer: Any) -> Any:
    """Return an answer as JSON data; text that is no JSON as a list with this text, as the format `prompt` reads it."""
    try:
        return payload.parse_payload(answer)
    except (ValueError, RecursionError):
        if not isinstance(answer, str | bytes | bytearray | memoryview):  # an answer that is nested too deep
            return {}
        return [payload.decode_text(answer, errors="replace")]
    except TypeError:  # a message that only the format `prompt` accepts
        return {"content": getattr(answer, "content", None)}
