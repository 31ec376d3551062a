"""Google's Gemini: function declarations and contents of `generateContent`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.parsing import tool_calls
from ahvn_tools.formats.parsing.gemini_call import GeminiCallAccumulator, get_field
from ahvn_tools.formats.parsing.raw_call import RawCall, get_objects
from ahvn_tools.formats.parsing.stream import StreamParser
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.names import CHOICE_MODES, index_by_wire_name, resolve_choice, wire_name
from ahvn_tools.formats.rendering.tool import export_tool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import GEMINI, GEMINI_PARAMETERS

IMAGE_MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp"})
"""The kinds of images that every Gemini model reads."""

_FORMS = {"parametersJsonSchema": (GEMINI, "responseJsonSchema"), "parameters": (GEMINI_PARAMETERS, "response")}
_MODES = dict(zip(CHOICE_MODES, ("AUTO", "NONE", "ANY"), strict=True))
_IMAGES_FOLLOW_NOTE = "[The images of this result are in the next user content.]"
_MAX_EXACT_DIGITS = 15
"""Gemini carries numbers as doubles, which keep whole numbers of so many digits."""

_ROOT_REFERENCE = re.compile(r'"\$ref": "#(?!/(?:\$defs|definitions)/)')


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,  # noqa: ARG001  # the same word for all formats
    form: str = "parametersJsonSchema",
    output_schema: bool = False,
) -> list[JsonObject]:
    """Return the function declarations for one entry of a request's `tools`: `[{"functionDeclarations": […]}]`.

    - The root of a schema is one object: choices at the top are merged, and told in the description.
    - `strict` changes nothing: Gemini has no such mark on a tool. `choice("auto", validated=True)` holds the arguments
      of all tools of a request to their schemas.
    - `form="parameters"` says the schemas in the older part of OpenAPI, which the Live API and older hosts want. A tool
      without arguments has no `parameters` then.
    - `output_schema`: describe what `results` sends, where a tool promises something.

    Raises ToolSpecError for an unknown form.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping")], form="parameters")
    [{'name': 'ping'}]
    """
    if form not in _FORMS:
        raise ToolSpecError(f"Gemini has no form {form!r}. Choose one of {', '.join(map(repr, _FORMS))}.")
    return [
        definition.memoize(_to_tool, form, output_schema) for definition in index_by_wire_name(definitions).values()
    ]


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, a content, its parts or `function_calls`: SDK object, dict, JSON text or bytes.

    The chunks of a whole stream will do, too; `stream` gives calls while they arrive. Of several candidates, the first
    that holds calls counts, whatever its reason for finishing; a call that ended in `MALFORMED_FUNCTION_CALL` has left
    no part that could be answered. The thought signature beside a call, and an id that Gemini gave it, are in its
    `provider`. Steps of the Interactions API are read as well; `results` answers contents only.

    >>> calls({"parts": [{"functionCall": {"name": "ping", "args": {}}}]})[0].name
    'ping'
    """
    return tool_calls.parse_calls(response, _extract_calls, definitions, ChunkReader)


def results(pairs: Iterable[tuple[ToolCall, ToolResult]], *, inline_images: bool = False) -> list[JsonObject]:
    """Return the one user content that answers all calls of a content: a value under `output`, an error under `error`.

    - Only an id that Gemini gave is sent back; calls without one are matched by name and order.
    - Values are JSON data. Whole numbers that a double cannot keep are texts.
    - Images follow in a second user content, which every model reads. `inline_images` puts them into the responses
      themselves, for Gemini 3 and later. A kind of image that Gemini does not read is named only.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'user', 'parts': [{'functionResponse': {'name': 'add', 'response': {'output': 3}}}]}]
    """
    responses: list[JsonObject] = []
    following: list[JsonObject] = []
    for number, (call, result) in enumerate(pairs, 1):
        found = [_to_supported_part(part) for part in content.to_parts(result)]
        pictures = [_to_inline_data(image) for image in content.iter_images(found)]
        name = call.wire_name or wire_name(call.name)
        given = {"id": call.provider["id"]} if call.provider.get("id") else {}
        response = {
            **given,
            "name": name,
            "response": _to_response(result, found, has_separate_images=not inline_images),
        }
        if pictures and inline_images:
            response["parts"] = pictures
        elif pictures:
            following += [{"text": f"Images of function response {number} ({name}):"}, *pictures]
        responses.append({"functionResponse": response})
    return [{"role": "user", "parts": parts} for parts in (responses, following) if parts]


def choice(
    tools: str | Sequence[str],
    *,
    parallel: bool | None = None,
    definitions: Iterable[ToolDefinition] = (),
    validated: bool = False,
) -> JsonObject:
    """Return `toolConfig` as a field of a request, or of the SDK's config.

    - A name forces that tool; a list of names, one of these. With `definitions`, an unknown name is a ToolLookupError.
    - `validated`: arguments obey their schemas, as those of forced calls do anyway. With "auto" the model may still
      answer in text, and with names, too: these are the tools that it may call.

    Raises ToolSpecError for `parallel=False`, for which Gemini has no switch.

    >>> choice("add")
    {'toolConfig': {'functionCallingConfig': {'mode': 'ANY', 'allowedFunctionNames': ['add']}}}
    """
    if parallel is False:
        raise ToolSpecError("Gemini cannot be told to make one call at a time. Leave `parallel` out.")
    if isinstance(tools, str) and tools in CHOICE_MODES:
        config: JsonObject = {"mode": "VALIDATED" if validated and tools == "auto" else _MODES[tools]}
    else:
        names = resolve_choice(tools, definitions)
        config = {"mode": "VALIDATED" if validated else "ANY", "allowedFunctionNames": names}
    return {"toolConfig": {"functionCallingConfig": config}}


def _to_tool(definition: ToolDefinition, form: str, output_schema: bool) -> JsonObject:
    dialect, returned = _FORMS[form]
    tool = export_tool(definition, dialect)
    declaration: JsonObject = {"name": wire_name(definition.name)}
    if tool.description:
        declaration["description"] = tool.description
    if dialect is GEMINI or tool.schema.get("properties"):
        declaration[form] = tool.schema
    described = _to_response_definition(definition) if output_schema else None
    if described is not None:
        said = export_tool(described, dialect)
        if all(finding.severity != "error" for finding in said.findings):
            declaration[returned] = said.schema
    return declaration


def _to_response_definition(definition: ToolDefinition) -> ToolDefinition | None:
    """Return what `results` sends of a tool, described like arguments; None where nothing is promised.

    A value is the one property of an output schema that has exactly one. A schema that refers to its own root cannot
    be said inside another.
    """
    promised = definition.output_schema
    if promised is None or _ROOT_REFERENCE.search(json.dumps(promised)):
        return None
    shared = {key: promised.pop(key) for key in ("$defs", "definitions") if key in promised}
    members = list(promised.get("properties", {}).values())
    output = members[0] if len(members) == 1 else promised
    error = {"type": "string", "description": "Why the call failed, in place of an output."}
    schema = {"type": "object", "properties": {"output": output, "error": error}, **shared}
    return ToolDefinition(name=definition.name, input_schema=schema)


def _to_supported_part(part: str | content.ImagePart) -> str | content.ImagePart:
    if isinstance(part, str) or part.media_type in IMAGE_MEDIA_TYPES:
        return part
    return f"[image ({part.media_type}), not shown]"


def _to_inline_data(image: content.ImagePart) -> JsonObject:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


def _to_response(result: ToolResult, parts: list[str | content.ImagePart], *, has_separate_images: bool) -> JsonObject:
    said = "\n".join(content.iter_texts(parts))
    if result.is_error:
        return {"error": said}
    if any(content.iter_images(parts)):
        return {"output": "\n".join(filter(None, [said, _IMAGES_FOLLOW_NOTE if has_separate_images else ""]))}
    return {
        "output": _stringify_large_integers(content.to_json_data(result.value))
        if _is_value_only(said, result)
        else said
    }


def _is_value_only(text: str, result: ToolResult) -> bool:
    """Tell whether a result is its value: it has no blocks, or these hold nothing but the value as JSON text."""
    if result.blocks is None:
        return True
    try:
        return json.loads(text) in (result.value, result.structured_content)
    except (ValueError, RecursionError):
        return False


def _stringify_large_integers(value: Any) -> Any:
    """Return JSON data with texts for the whole numbers that would come out changed."""
    return json.loads(
        json.dumps(value), parse_int=lambda text: text if len(text.lstrip("-")) > _MAX_EXACT_DIGITS else int(text)
    )


def _extract_calls(data: Any) -> Iterator[RawCall]:
    reader = ChunkReader()
    yield from reader.feed({"parts": [*map(_to_part, data)]} if isinstance(data, list) else data)
    yield from reader.end()
    for step in get_objects(data, "steps"):
        if step.get("type") == "function_call":
            yield RawCall(id=step.get("id"), name=step.get("name"), arguments=step.get("arguments"))


class ChunkReader:
    """Takes the calls of a stream's first candidate that calls. A call comes whole, in one part of one chunk.

    Vertex can be asked to send one value after the other, in parts that end with one that does not announce more.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._open: GeminiCallAccumulator | None = None
        self._candidate_index: Any = None

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Take a chunk, or a content."""
        for place, candidate in enumerate(_get_candidates(event)):
            parts = get_objects(candidate.get("content"), "parts")
            index = place if candidate.get("index") is None else candidate["index"]
            if self._candidate_index is None and any(_has_call(part) for part in parts):
                self._candidate_index = index
            if index != self._candidate_index:
                continue
            ran_out = get_field(candidate, "finishReason") == "MAX_TOKENS"
            for part in filter(_has_call, parts):
                yield from self._add_part(part, is_truncated=ran_out and part is parts[-1])

    def end(self) -> Iterator[RawCall]:
        """Give what the stream broke off in."""
        if self._open is not None:
            yield self._open.to_raw_call(is_truncated=True)
            self._open = None

    def _add_part(self, part: JsonObject, *, is_truncated: bool) -> Iterator[RawCall]:
        call = get_field(part, "functionCall")
        if self._open is not None and self._open.is_new_call(call):
            yield from self.end()
        self._open = self._open or GeminiCallAccumulator()
        self._open.add(part)
        if not get_field(call, "willContinue"):
            yield self._open.to_raw_call(is_truncated=is_truncated)
            self._open = None


def _get_candidates(event: Any) -> list[JsonObject]:
    if not isinstance(event, dict):
        return []
    return get_objects(event, "candidates") or [{"content": event} if "parts" in event else event]


def _to_part(item: Any) -> Any:
    """Return an item of a list as a part: the SDK's `function_calls` are calls alone."""
    is_call = isinstance(item, dict) and {"name", "args"} <= item.keys()
    return {"functionCall": item} if is_call else item


def _has_call(part: JsonObject) -> bool:
    return isinstance(get_field(part, "functionCall"), dict)


stream = StreamParser(ChunkReader)
"""Read the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
