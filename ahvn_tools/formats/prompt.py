"""Plain text, for models without function calling: the tools are told in a message, calls are JSON in the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.formats.parsing import json_text, payload, tool_calls
from ahvn_tools.formats.parsing.raw_call import RawCall
from ahvn_tools.formats.parsing.response_text import extract_choice_texts, extract_text
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI

TRUNCATED_CALL = (
    "The call was cut off, or its quotes and braces do not match. Send it again, as one complete JSON object."
)
INVALID_CALL = "The call is not JSON that can be read. Send it again, as one complete JSON object."
DUPLICATE_ARGUMENTS = 'The call gives its arguments twice. Send it again, with "parameters" alone.'

_PROTOCOL = """\
To call a tool, answer with JSON in this form and with nothing else:
{"name": "the tool's name", "parameters": {"parameter": "value"}}

- "name" is one of the names above. "parameters" is one object that fits the tool's JSON Schema; it may be {}.
- Several calls at once are a list of such objects: [{"name": …, "parameters": …}, {"name": …, "parameters": …}]
- Write no other text around the JSON, and no comments in it. The results come in the next message.

When you need no tool, answer in plain text, without such JSON."""

_NAME_KEYS = ("name", "tool", "function", "tool_name", "function_name")
_PARAMETER_KEYS = ("parameters", "arguments")
_PARAMETER_ALIASES = ("params", "args", "input")
"""What some models write for parameters, and others write in any data: with a known name alone, it is a call."""
_IGNORED_KEYS = frozenset({"id", "type"})
_WRAPPER_KEYS = ("tool_calls", "tool_call", "function_calls", "function_call", "calls")
_MAX_DEPTH = 4
"""A list in a wrapper in a list, and the call: nobody sends more."""


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,  # noqa: ARG001  # every format takes it; a text forces nothing
    examples: bool = True,
) -> list[JsonObject]:
    """Return the one system message that tells of the tools and of how to call them; none without tools.

    - `strict` changes nothing: there is no grammar that a text could ask for.
    - `examples`: the sample calls of a definition stand below its schema.

    >>> from ahvn_tools import ToolDefinition
    >>> (message,) = export([ToolDefinition(name="ping", description="Is it there?")])
    >>> message["role"], "Is it there?" in message["content"]
    ('system', True)
    """
    tools = [definition.memoize(_to_tool, examples)["text"] for definition in index_by_wire_name(definitions).values()]
    if not tools:
        return []
    return [{"role": "system", "content": "\n\n".join(["You can call these tools.", *tools, _PROTOCOL])}]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a model's text, or in the answer of any provider that holds the text.

    A call is an object with `name` and `parameters`, wherever it stands: alone, in a list or a code block, with prose
    around it. Text without one holds no call. Slips (quotes, commas, comments, Python's literals) are repaired. A call
    whose arguments would have to be guessed, as the answer was cut off, has an `error` and no arguments. With
    `definitions`, a known name is a call without parameters, too, or with another word for them. Ids are made here: a
    text has none.

    >>> calls("I add: {'name': 'add', 'parameters': {'a': 1, 'b': 2,}}")[0].arguments
    {'a': 1, 'b': 2}
    >>> calls("The sum is 3.")
    []
    """
    known = index_by_wire_name(definitions)
    return tool_calls.parse_calls(
        _normalize_response(response),
        lambda data: _extract_from_data(data, known),
        known.values(),
        lambda: TextReader(known),
    )


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    r"""Return the one user message that tells what came of each call; it follows the model's own message.

    Calls are told apart by their place and their name. An error's text says that it is one. Of an image there is a
    note: a model without function calling is taken for one that only reads.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'user', 'content': 'Result of call 1, `add`:\n3'}]
    """
    told = [_to_result_text(place, call, result) for place, (call, result) in enumerate(pairs, 1)]
    return [{"role": "user", "content": "\n\n".join(told)}] if told else []


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return the `messages` that say the choice in words, for the end of a request's; none for what a model may do.

    The model is asked, not forced. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("add")
    {'messages': [{'role': 'system', 'content': 'Now call the tool `add`. Answer with the JSON alone.'}]}
    """
    asked = _to_choice_text(tools, definitions)
    if parallel is False and tools != "none":
        asked = f"{asked} Make one call at most.".strip()
    return {"messages": [{"role": "system", "content": asked}] if asked else []}


def _to_tool(definition: ToolDefinition, examples: bool) -> JsonObject:
    tool = export_tool(definition, OPENAI)
    name = wire_name(definition.name)
    lines = [
        f"### {name}",
        *filter(None, [tool.description]),
        f"Parameters (JSON Schema): {_to_compact_json(tool.schema)}",
    ]
    for example in (definition.examples or ()) if examples else ():
        note = f" ({example['note']})" if example.get("note") else ""
        call = {"name": name, "parameters": example.get("inputs") or {}}
        lines.append(f"Example{note}: {_to_compact_json(call)}")
    return {"text": "\n".join(lines)}


def _to_compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_result_text(position: int, call: ToolCall, result: ToolResult) -> str:
    name = wire_name(call.name) if call.wire_name is None else call.wire_name
    parts = [
        part if isinstance(part, str) else f"[image ({part.media_type}), not shown]"
        for part in content.to_parts_with_error_prefix(result)
    ]
    return "\n".join([f"Result of call {position}{f', `{name}`' if name else ''}:", *parts])


def _to_choice_text(tools: str | Sequence[str], definitions: Iterable[ToolDefinition]) -> str:
    if isinstance(tools, str) and tools in CHOICE_MODES:
        return {
            "auto": "",
            "none": "Call no tool now. Answer in plain text.",
            "required": "Now call at least one tool. Answer with the JSON alone.",
        }[tools]
    names = [f"`{name}`" for name in resolve_choice(tools, definitions)]
    asked = f"the tool {names[0]}" if len(names) == 1 else f"one of these tools: {', '.join(names)}"
    return f"Now call {asked}. Answer with the JSON alone."


def _normalize_response(response: Any) -> Any:
    """Return a text as a list with one piece; of a message that is no model of pydantic, what it says."""
    if isinstance(response, str | bytes | bytearray | memoryview):
        return [payload.decode_text(response, errors="replace")]
    if hasattr(response, "content") and not hasattr(response, "model_dump"):
        return {"content": response.content}
    return response


class TextReader:
    """Gathers the text of a stream, given in pieces or in the events of any provider, and reads it at the end."""

    def __init__(self, known: Mapping[str, ToolDefinition]) -> None:
        """Begin with no text; `known` are the tools by wire name."""
        self._known = known
        self._texts: list[str] = []

    def feed(self, event: Any) -> Iterable[RawCall]:
        """Take an event, or a piece of text; calls come at the end."""
        self._texts.append(extract_text(event))
        return ()

    def end(self) -> Iterator[RawCall]:
        """Give all calls."""
        yield from _extract_from_text("".join(self._texts), self._known)


@overload
def stream(events: Iterable[Any], definitions: Iterable[ToolDefinition] = ()) -> Iterator[ToolCall]: ...
@overload
def stream(events: AsyncIterable[Any], definitions: Iterable[ToolDefinition] = ()) -> AsyncIterator[ToolCall]: ...
def stream(
    events: Iterable[Any] | AsyncIterable[Any], definitions: Iterable[ToolDefinition] = ()
) -> Iterator[ToolCall] | AsyncIterator[ToolCall]:
    """Yield the calls of a stream at its end, as only the whole text tells what is a call.

    Events are pieces of text, or those of any provider: `for call in stream(events)`, or `async for`.
    """
    known = index_by_wire_name(definitions)
    read = StreamParser(lambda: TextReader(known))
    return read(events, known.values())


def _extract_from_text(text: str, known: Mapping[str, ToolDefinition]) -> Iterator[RawCall]:
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        for found in json_text.iter_json_objects(text, _is_wrapper):
            yield from _extract_from_object(found, known)
        return
    if isinstance(data, dict | list):
        yield from _extract_from_data(data, known) or _extract_from_choices(data, known)


def _extract_from_data(data: Any, known: Mapping[str, ToolDefinition]) -> list[RawCall]:
    """Return the calls that data is, or else those in the text of the answer that it is."""
    if isinstance(data, list):
        return list(_extract_from_value(data, known))  # otherwise, these are events
    return list(_extract_from_value(data, known)) or _extract_from_choices(data, known)


def _extract_from_choices(data: Any, known: Mapping[str, ToolDefinition]) -> list[RawCall]:
    """Return the calls in the first choice that holds some."""
    return next(filter(None, (list(_extract_from_text(text, known)) for text in extract_choice_texts(data))), [])


def _extract_from_object(parsed: json_text.ParsedObject, known: Mapping[str, ToolDefinition]) -> Iterator[RawCall]:
    begun = _to_candidate(parsed.value, known)
    if parsed.is_exact and not (parsed.is_truncated and begun and (begun.other_keys or not begun.arguments)):
        yield from _extract_from_value(parsed.value, known)
    elif begun and begun.is_partial_call:
        yield RawCall(
            id=None, name=begun.name, arguments=None, error=TRUNCATED_CALL if parsed.is_truncated else INVALID_CALL
        )


def _extract_from_value(value: Any, known: Mapping[str, ToolDefinition], depth: int = 0) -> Iterator[RawCall]:
    """Yield the calls that a value is: a call, a list of these, or a wrapper around these."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _extract_from_value(item, known, depth + 1)
    elif isinstance(value, dict):
        sent = _to_raw_call(value, known)
        if sent is not None:
            yield sent
            return
        for key in _WRAPPER_KEYS:
            yield from _extract_from_value(value.get(key), known, depth + 1)


def _to_raw_call(value: JsonObject, known: Mapping[str, ToolDefinition]) -> RawCall | None:
    """Return the call that an object is; None for other data."""
    begun = _to_candidate(value, known)
    if begun is None:
        return None
    if begun.arguments:
        error = DUPLICATE_ARGUMENTS if len(begun.arguments) > 1 else None
        return RawCall(id=None, name=begun.name, arguments=begun.arguments[0], error=error)
    return RawCall(id=None, name=begun.name, arguments=None) if begun.name in known and not begun.other_keys else None


@dataclass(frozen=True, kw_only=True)
class _CallCandidate:
    """What an object that names a tool has of a call."""

    name: str
    arguments: list[Any]
    """All that stands where parameters do: one thing, or it is unclear."""
    other_keys: set[str]
    """The names of its other members."""

    @property
    def is_partial_call(self) -> bool:
        """Whether it is a call as far as it goes: it has parameters, or the start of the word."""
        return bool(self.arguments) or all(
            any(word.startswith(key) for word in _PARAMETER_KEYS) for key in self.other_keys
        )


def _to_candidate(value: JsonObject, known: Mapping[str, ToolDefinition]) -> _CallCandidate | None:
    """Return what an object has of a call, or the object and the function in it, as OpenAI writes an item."""
    function = value.get("function")
    parts = [function, value] if isinstance(function, dict) else [value]
    name = next((part[key] for part in parts for key in _NAME_KEYS if key in part), None)
    if not isinstance(name, str):
        return None
    name = name.replace("\\_", "_")  # Markdown's habit
    given = _get_values(parts, _PARAMETER_KEYS) or (_get_values(parts, _PARAMETER_ALIASES) if name in known else [])
    rest = {key for part in parts for key in part} - _IGNORED_KEYS - {*_NAME_KEYS, *_PARAMETER_KEYS}
    return _CallCandidate(name=name, arguments=given, other_keys=rest)


def _get_values(parts: list[JsonObject], keys: Sequence[str]) -> list[Any]:
    return [part[word] for part in parts for word in keys if word in part]


def _is_wrapper(value: JsonObject) -> bool:
    return any(key in value for key in _WRAPPER_KEYS)
