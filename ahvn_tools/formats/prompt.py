"""Plain text, for models without function calling: a message describes the tools, the model writes calls as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.parsing import payload
from ahvn_tools.formats.parsing.text_calls import TextReader, extract_text, has_text
from ahvn_tools.formats.parsing.tool_calls import StreamParser, parse_calls
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool_exporter import ToolExporter, export_all
from ahvn_tools.formats.turn import Turn
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import OPENAI

FORMAT = "prompt"

_EXPORTER = ToolExporter(OPENAI)
findings = _EXPORTER.findings

_PROTOCOL = """\
To call a tool, reply with JSON in this form and with nothing else:
{"name": "the tool's name", "parameters": {"parameter": "value"}}

- "name" is the name of a tool above. "parameters" is an object that matches its JSON Schema; it can be {}.
- To make several calls at once, write a list: [{"name": …, "parameters": …}, {"name": …, "parameters": …}]
- Write no text before or after the JSON, and no comments inside it. The next message contains the results.

If you do not need a tool, reply in plain text without such JSON."""

_MODE_TEXTS = {
    "auto": "",
    "none": "Do not call a tool now. Reply in plain text.",
    "required": "Now call at least one tool. Reply with the JSON only.",
}


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,  # noqa: ARG001  # as all formats
    examples: bool = True,
    instructions: str | None = None,
) -> list[JsonObject]:
    """Return one system message that describes the tools and how to call them; no message without tools.

    - `strict` has no effect: a text cannot enforce a schema.
    - `examples`: the sample calls of a definition follow its schema.
    - `instructions`: a text instead of the one about how to write a call, such as one in another language. It must ask
      for the same JSON, `{"name": …, "parameters": {…}}`.

    >>> from ahvn_tools import ToolDefinition
    >>> (system,) = export([ToolDefinition(name="ping", description="Is it there?")])
    >>> system["role"], "Is it there?" in system["content"]
    ('system', True)
    """
    tools = [tool["text"] for tool in export_all(definitions, _to_tool, examples)]
    if not tools:
        return []
    parts = ["You can call these tools.", *tools, instructions or _PROTOCOL]
    return [{"role": "system", "content": "\n\n".join(parts)}]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a model's text, or in the response of any provider that contains the text.

    - A call is an object with `name` and `parameters`: alone, in a list or a code block, or surrounded by prose. Text
      without such an object contains no call.
    - Small mistakes (quotes, commas, comments, Python's literals) are repaired. A truncated call, whose arguments would
      have to be guessed, has an `error` and no arguments.
    - With `definitions`, an object with a known name is also a call without parameters, or with a synonym for them.
    - Calls get new ids, because a text contains none.

    >>> calls("I add: {'name': 'add', 'parameters': {'a': 1, 'b': 2,}}")[0].arguments
    {'a': 1, 'b': 2}
    >>> calls("The sum is 3.")
    []
    """
    return parse_calls(_normalize_response(response), definitions, stream)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return the model's message with these calls as JSON, after the text; the inverse of `calls`.

    The JSON contains no ids. The system message of `export` asks for JSON alone: leave `text` out of sample calls.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="add", arguments={"a": 1})])
    [{'role': 'assistant', 'content': '{"name":"add","parameters":{"a":1}}'}]
    """
    written = [{"name": call.name, "parameters": call.arguments} for call in to_writable(calls, FORMAT)]
    texts = [clean_text(text), _to_compact_json(written[0] if len(written) == 1 else written) if written else None]
    parts = [part for part in texts if part is not None]
    return [{"role": "assistant", "content": "\n\n".join(parts)}] if parts else []


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    r"""Return one user message with the result of each call; append it after the model's own message.

    Order and name identify a call. The text of an error begins with "Error". A note replaces an image, because a model
    without function calling is assumed to accept only text.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'user', 'content': 'Result of call 1, `add`:\n3'}]
    """
    texts = [
        _to_result_text(position, call, result) for position, (call, result) in enumerate(content.to_readable(pairs), 1)
    ]
    return [{"role": "user", "content": "\n\n".join(texts)}] if texts else []


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:  # noqa: ARG001  # as all formats
    """Return the model's turn of a text, of a response of any provider that contains one, or of a stream.

    >>> turn("The sum is 3.").messages
    [{'role': 'assistant', 'content': 'The sum is 3.'}]
    """
    normalized = _normalize_response(response)
    text = normalized if isinstance(normalized, str) else extract_text(payload.parse_payload(normalized))
    return Turn(messages=[{"role": "assistant", "content": text}] if text else [], text=text)


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `messages` that state the choice, for the end of a request's messages; none where no choice is needed.

    The model is asked, not forced. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("add")
    {'messages': [{'role': 'system', 'content': 'Now call the tool `add`. Reply with the JSON only.'}]}
    """
    if isinstance(tools, str) and tools in CHOICE_MODES:
        instruction = _MODE_TEXTS[tools]
    else:
        names = [f"`{name}`" for name in resolve_choice(tools, definitions)]
        target = f"the tool {names[0]}" if len(names) == 1 else f"one of these tools: {', '.join(names)}"
        instruction = f"Now call {target}. Reply with the JSON only."
    if parallel is False and tools != "none":
        instruction = f"{instruction} Make at most one call.".strip()
    return {"messages": [{"role": "system", "content": instruction}] if instruction else []}


def looks_like(data: Any) -> bool:
    """Return whether JSON data contains a model's text, which may be empty: a list of texts, or any provider's answer.

    >>> looks_like(["Hello!"])
    True
    """
    return has_text(data)


def _to_tool(definition: ToolDefinition, examples: bool) -> JsonObject:
    tool = _EXPORTER.export(definition)
    name = wire_name(definition.name)
    lines = [f"### {name}", *filter(None, [tool.description])]
    lines.append(f"Parameters (JSON Schema): {_to_compact_json(tool.schema)}")
    for example in (definition.examples or ()) if examples else ():
        note = f" ({example['note']})" if example.get("note") else ""
        call = {"name": name, "parameters": example.get("inputs") or {}}
        lines.append(f"Example{note}: {_to_compact_json(call)}")
    return {"text": "\n".join(lines)}


def _to_compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_result_text(position: int, call: ToolCall, result: ToolResult) -> str:
    name = wire_name(call.name) if call.wire_name is None else call.wire_name
    parts = content.to_parts_with_error_prefix(result)
    texts = [part if isinstance(part, str) else part.note for part in parts]
    return "\n".join([f"Result of call {position}{f', `{name}`' if name else ''}:", *texts])


def _normalize_response(response: Any) -> Any:
    """Return a text as a list with one item, and the content of a message that is no pydantic model."""
    if isinstance(response, str | bytes | bytearray | memoryview):
        return [payload.decode_text(response, errors="replace")]
    if hasattr(response, "content") and not hasattr(response, "model_dump"):
        return {"content": response.content}
    return response


stream = StreamParser(TextReader, needs_definitions=True, format=FORMAT)
"""Parse the text of a stream: `for call in stream(events)`, or `async for`.

Events are fragments of text, or the events of any provider. All calls come at the end, because only the complete text
shows what is a call.
"""
