"""Google's Gemini: function declarations and contents of `generateContent`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.continuation import Continuation, read_problem
from ahvn_tools.formats.json_data import filter_objects, get_object, get_objects, to_json_data
from ahvn_tools.formats.parsing.gemini_call import NO_SIGNATURE, GeminiCallAccumulator, get_field
from ahvn_tools.formats.parsing.payload import read_field, read_first, read_items
from ahvn_tools.formats.parsing.tool_calls import (
    INTERRUPTED_CALL,
    TRUNCATED_CALL,
    RawCall,
    Reader,
    StreamParser,
    parse_calls,
)
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.calls import clean_text, get_provider_data, get_wire_name, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_choice
from ahvn_tools.formats.rendering.tool_exporter import ToolExporter, export_all, split_value_schema
from ahvn_tools.formats.turn import Model, Turn, Usage, client_function, read_answer, read_text, without_nulls
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolCall, ToolResult, whole_value
from ahvn_tools.schema.dialects.dialect import GEMINI, GEMINI_PARAMETERS
from ahvn_tools.schema.dialects.finding import Finding

FORMAT = "gemini"
SDK_MODULES = ("google.genai",)

IMAGE_MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp"})
"""The media types of images that every Gemini model accepts."""

_EXPORTERS = {"parametersJsonSchema": ToolExporter(GEMINI), "parameters": ToolExporter(GEMINI_PARAMETERS)}
_RESPONSE_FIELDS = {"parametersJsonSchema": "responseJsonSchema", "parameters": "response"}
_MODES = dict(zip(CHOICE_MODES, ("AUTO", "NONE", "ANY"), strict=True))
_INPUTS = ("promptTokenCount", "toolUsePromptTokenCount")
_OUTPUTS = ("candidatesTokenCount", "thoughtsTokenCount")
_CACHED = ("cachedContentTokenCount",)
_MAX_EXACT_DIGITS = 15
"""Gemini represents numbers as doubles, which are exact for integers of this many digits."""

_ROOT_REFERENCE = re.compile(r'"\$ref": "#(?!/(?:\$defs|definitions)/)')


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,  # noqa: ARG001  # as all formats
    form: str = "parametersJsonSchema",
    output_schema: bool = False,
) -> list[JsonObject]:
    """Return the function declarations for one entry of a request's `tools`: `[{"functionDeclarations": […]}]`.

    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - `strict` has no effect: Gemini has no strict tools. `choice("auto", validated=True)` makes the arguments of all
      tools of a request match their schemas.
    - `form="parameters"` writes the schemas in the older OpenAPI subset, for the Live API and older hosts. A tool
      without arguments then has no `parameters`.
    - `output_schema`: describe what `results` sends, for tools with an output schema.

    Raises ToolSpecError for an unknown form.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping")], form="parameters")
    [{'name': 'ping'}]
    """
    if form not in _EXPORTERS:
        raise ToolSpecError(f"Gemini has no form {form!r}. Choose one of {', '.join(map(repr, _EXPORTERS))}.")
    return export_all(definitions, _to_tool, form, output_schema)


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a response, a content, its parts or `function_calls`: SDK object, dict, JSON text or bytes.

    - The chunks of a complete stream are accepted too; `stream` yields calls while they arrive.
    - Of several candidates, the first with calls counts, whatever its finish reason. A call that ended in
      `MALFORMED_FUNCTION_CALL` leaves no part that a result could refer to: `continuation` reports it.
    - The thought signature of a call, and the id if Gemini set one, are in its `provider`.
    - Steps of the Interactions API are read as well; `results` writes contents only.

    >>> calls({"parts": [{"functionCall": {"name": "ping", "args": {}}}]})[0].name
    'ping'
    """
    return parse_calls(response, definitions, stream)


def continuation(response: Any) -> Continuation:
    """Return whether Gemini has discarded what the model has written, as the reason for finishing says.

    The first candidate counts. Chunks of a stream are read, too.

    >>> continuation({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}).problem
    'The call was malformed. Send it again with its arguments as one JSON object.'
    """
    candidates = [read_first(item, "candidates") for item in read_items(response)]
    reasons = [read_field(first, key) for first in candidates for key in ("finishReason", "finish_reason")]
    return Continuation(problem=read_problem(reasons))


def message(
    calls: Iterable[ToolCall], *, text: str | None = None, skip_signature_check: bool = False
) -> list[JsonObject]:
    """Return the model's content with this text and these calls; the inverse of `calls`.

    - The thought signature and the id that Gemini set are written. Other ids are not, as in `results`.
    - `skip_signature_check`: Gemini 3 refuses calls that it has not made, because they have no thought signature. This
      option asks it to accept them.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="c1", name="add", arguments={"a": 1})])
    [{'role': 'model', 'parts': [{'functionCall': {'name': 'add', 'args': {'a': 1}}}]}]
    """
    text = clean_text(text)
    parts: list[JsonObject] = [] if text is None else [{"text": text}]
    call_parts = [_to_call_part(call) for call in to_writable(calls, FORMAT)]
    if skip_signature_check and call_parts:  # of several calls, Gemini itself signs the first
        call_parts[0].setdefault("thoughtSignature", NO_SIGNATURE)
    parts += call_parts
    return [{"role": "model", "parts": parts}] if parts else []


def results(pairs: Iterable[tuple[ToolCall, ToolResult]], *, inline_images: bool = False) -> list[JsonObject]:
    """Return one user content for all calls of a content: a value is in `output`, an error in `error`.

    - Only an id that Gemini set is sent back; calls without one are matched by name and order.
    - Values are JSON data. Integers that a double cannot represent exactly are texts.
    - Images follow in a second user content, which every model accepts. `inline_images` puts them into the responses
      themselves, for Gemini 3 and later. A note replaces an image of a media type that Gemini does not accept.

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="c1", name="add"), ToolResult(3))])
    [{'role': 'user', 'parts': [{'functionResponse': {'name': 'add', 'response': {'output': 3}}}]}]
    """
    responses: list[JsonObject] = []
    image_parts: list[JsonObject] = []
    for number, (call, result) in enumerate(content.to_readable(pairs), 1):
        parts = [
            part if isinstance(part, str) or part.media_type in IMAGE_MEDIA_TYPES else part.note
            for part in content.to_parts(result)
        ]
        images = [{"inlineData": {"mimeType": i.media_type, "data": i.data}} for i in content.get_images(parts)]
        name = get_wire_name(call)
        call_id = get_provider_data(call, FORMAT).get("id")
        response: JsonObject = {"id": call_id} if call_id else {}
        if images and not inline_images:
            parts.append(content.IMAGES_FOLLOW_NOTE)
            image_parts += [{"text": f"Images of function response {number} ({name}):"}, *images]
        response |= {"name": name, "response": _to_response(result, parts)}
        if images and inline_images:
            response["parts"] = images
        responses.append({"functionResponse": response})
    return [{"role": "user", "parts": parts} for parts in (responses, image_parts) if parts]


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:
    """Return the model's turn of a response, a content, or all chunks of a stream. `calls` are those in it.

    The parts of the first candidate are kept, with their thought signatures; texts of a stream are joined.

    >>> turn({"candidates": [{"content": {"parts": [{"text": "Hello!"}]}}]}).messages
    [{'role': 'model', 'parts': [{'text': 'Hello!'}]}]
    """
    data, events = read_answer(response)
    first = [found[0] for item in events or [data] if (found := _get_candidates(item))]
    parts = [without_nulls(part) for candidate in first for part in get_objects(candidate.get("content"), "parts")]
    if events:
        parts = _join_parts(parts, message(calls))
    found = [usage for item in events or [data] if (usage := get_field(item, "usageMetadata"))]
    usage = Usage.read(_camel_case(found[-1]) if found else None, inputs=_INPUTS, outputs=_OUTPUTS, cached=_CACHED)
    return Turn(messages=[{"role": "model", "parts": parts}] if parts else [], text=read_text(parts), usage=usage)


def _join_parts(parts: Iterable[JsonObject], written: list[JsonObject]) -> list[JsonObject]:
    """Return the parts of a stream: texts that follow each other are one; a call in pieces is one of `written`."""
    joined: list[JsonObject] = []
    call_parts = iter(written[0]["parts"] if written else ())
    for part in parts:
        if _has_call(part):
            if not get_field(get_field(part, "functionCall"), "willContinue"):
                joined.append(next(call_parts, part))
        elif part.get("text") == "" and len(part) == 1:
            continue
        elif joined and "text" in part and joined[-1].keys() == part.keys() and part.keys() <= {"text", "thought"}:
            joined[-1] = {**joined[-1], "text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def _camel_case(fields: JsonObject) -> JsonObject:
    return {re.sub("_([a-z])", lambda letter: letter[1].upper(), key): value for key, value in fields.items()}


def add_user_text(messages: Sequence[Any], text: str) -> list[Any]:
    """Return the contents with a text of the user at the end."""
    return [*messages, {"role": "user", "parts": [{"text": text}]}]


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, config: Any = (),
    **options: Any,
) -> Model:  # fmt: skip
    """Return the model behind a Client or its `aio`, for `Toolkit.converse`.

    `config` is that of `client.models.generate_content`, a dict or the SDK's object; its `tools` are sent beside those
    of the toolkit. `options` are further ones of that function, `export` those of `export`.
    """
    settings = {"automatic_function_calling": {"disable": True}, **without_nulls(dict(config))}
    own = settings.pop("tools", [])

    def request(messages: list[Any], tools: Sequence[JsonObject]) -> JsonObject:
        declared = [*([{"functionDeclarations": tools}] if tools else ()), *own]
        return {"contents": messages, "config": {**settings, **({"tools": declared} if declared else {})}}

    return Model(
        format=FORMAT,
        send=client_function(client, "models.generate_content_stream" if stream else "models.generate_content"),
        request=request,
        options={"model": model, **options},
        export=export or {},
    )


def choice(
    tools: str | Sequence[str],
    *,
    parallel: bool | None = None,
    definitions: Iterable[ToolDefinition] = (),
    validated: bool = False,
) -> JsonObject:
    """Return `toolConfig` as a field of a request, or of the SDK's config.

    - A name forces that tool; a list of names, one of these. With `definitions`, an unknown name is a ToolLookupError.
    - `validated`: arguments match their schemas, as those of forced calls always do. The model may still answer in
      text, with "auto" and with names, which then limit the tools that it may call.

    Raises ToolSpecError for `parallel=False`, for which Gemini has no option.

    >>> choice("add")
    {'toolConfig': {'functionCallingConfig': {'mode': 'ANY', 'allowedFunctionNames': ['add']}}}
    """
    if parallel is False:
        raise ToolSpecError("Gemini has no option for one call at a time. Leave `parallel` out.")
    if isinstance(tools, str) and tools in CHOICE_MODES:
        config: JsonObject = {"mode": "VALIDATED" if validated and tools == "auto" else _MODES[tools]}
    else:
        names = resolve_choice(tools, definitions)
        config = {"mode": "VALIDATED" if validated else "ANY", "allowedFunctionNames": names}
    return {"toolConfig": {"functionCallingConfig": config}}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a response, a content, its parts or `function_calls`, or chunks of a stream.

    >>> looks_like({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello!"}]}}]})
    True
    """
    if isinstance(data, list):
        return any(_is_answer(_to_part(item)) or _is_part(_to_part(item)) for item in filter_objects(data))
    return isinstance(data, dict) and _is_answer(data)


def _is_answer(item: JsonObject) -> bool:
    is_blocked = get_field(item, "promptFeedback") is not None
    return is_blocked or not {"candidates", "parts", "steps"}.isdisjoint(item) or "parts" in get_object(item, "content")


def _is_part(item: JsonObject) -> bool:
    return _has_call(item) or ("text" in item and "type" not in item)


def findings(definition: ToolDefinition) -> list[Finding]:
    """Return what Gemini sees in another form or not at all; for `form="parameters"`, the problem says so."""
    found = _EXPORTERS["parametersJsonSchema"].findings(definition)
    known = set(found)
    older = [finding for finding in _EXPORTERS["parameters"].findings(definition) if finding not in known]
    return [*found, *(replace(finding, problem=f"{finding.problem} in form='parameters'") for finding in older)]


def _to_tool(definition: ToolDefinition, form: str, output_schema: bool) -> JsonObject:
    exporter = _EXPORTERS[form]
    declaration = exporter.to_fields(definition, form)
    if form == "parameters" and not declaration[form].get("properties"):
        del declaration[form]
    response_definition = _to_response_definition(definition) if output_schema else None
    if response_definition is not None:
        response = exporter.export(response_definition)
        if all(finding.severity != "error" for finding in response.findings):
            declaration[_RESPONSE_FIELDS[form]] = response.schema
    return declaration


def _to_response_definition(definition: ToolDefinition) -> ToolDefinition | None:
    """Return a definition whose arguments are what `results` sends; None without an output schema.

    Also None for a schema that refers to its own root, because it is not the root of the response.
    """
    output_schema = definition.output_schema
    if output_schema is None or _ROOT_REFERENCE.search(json.dumps(output_schema)):
        return None
    output, shared = split_value_schema(output_schema)
    error = {"type": "string", "description": "Why the call failed; replaces `output`."}
    schema = {"type": "object", "properties": {"output": output, "error": error}, **shared}
    return ToolDefinition(name=definition.name, input_schema=schema)


def _to_call_part(call: ToolCall) -> JsonObject:
    fields = dict(call.provider)
    call_id = {"id": fields.pop("id")} if fields.get("id") else {}
    return {"functionCall": {**call_id, "name": call.name, "args": call.arguments}, **fields}


def _to_response(result: ToolResult, parts: list[str | content.ImagePart]) -> JsonObject:
    text = content.join_texts(parts)
    if result.is_error:
        return {"error": text}
    if content.get_images(parts) or not _is_value_only(text, result):
        return {"output": text}
    return {"output": _stringify_large_integers(to_json_data(whole_value(result)))}


def _is_value_only(text: str, result: ToolResult) -> bool:
    """Return whether a result is only its value: without blocks, or with blocks that are the value as JSON text."""
    if result.blocks is None or result.is_raw:
        return result.blocks is None
    try:
        return json.loads(text) in (result.value, result.structured_content)
    except (ValueError, RecursionError):
        return False


def _stringify_large_integers(value: Any) -> Any:
    return json.loads(
        json.dumps(value), parse_int=lambda text: text if len(text.lstrip("-")) > _MAX_EXACT_DIGITS else int(text)
    )


class ResponseReader(Reader):
    """Takes the calls of a stream's first candidate with calls. A call is usually complete in one part of one chunk.

    Vertex can be asked to send one value after the other; the last part of such a call does not announce more parts.
    """

    def __init__(self) -> None:
        self._open: GeminiCallAccumulator | None = None
        self._candidate_index: Any = None

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a response, a content, its parts or its function calls."""
        yield from self.feed({"parts": [*map(_to_part, data)]} if isinstance(data, list) else data)
        yield from self.end()
        for step in get_objects(data, "steps"):
            if step.get("type") == "function_call":
                yield RawCall(id=step.get("id"), name=step.get("name"), arguments=step.get("arguments"))

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read a chunk, or a content."""
        for position, candidate in enumerate(_get_candidates(event)):
            parts = get_objects(candidate.get("content"), "parts")
            index = position if candidate.get("index") is None else candidate["index"]
            if self._candidate_index is None and any(_has_call(part) for part in parts):
                self._candidate_index = index
            if index != self._candidate_index:
                continue
            cut_off = TRUNCATED_CALL if get_field(candidate, "finishReason") == "MAX_TOKENS" else None
            for part in filter(_has_call, parts):
                yield from self._add_part(part, cut_off if part is parts[-1] else None)

    def end(self) -> Iterator[RawCall]:
        """Yield the call that was incomplete when the stream ended."""
        if self._open is not None:
            yield self._open.to_raw_call(cut_off=INTERRUPTED_CALL)
            self._open = None

    def _add_part(self, part: JsonObject, cut_off: str | None) -> Iterator[RawCall]:
        call = get_field(part, "functionCall")
        if self._open is not None and self._open.is_new_call(call):
            yield from self.end()
        self._open = self._open or GeminiCallAccumulator()
        self._open.add(part)
        if not get_field(call, "willContinue"):
            yield self._open.to_raw_call(cut_off=cut_off)
            self._open = None


def _get_candidates(event: Any) -> list[JsonObject]:
    if not isinstance(event, dict):
        return []
    return get_objects(event, "candidates") or [{"content": event} if "parts" in event else event]


def _to_part(item: Any) -> Any:
    """Return an item of a list as a part: the SDK's `function_calls` are calls without their parts."""
    is_call = isinstance(item, dict) and {"name", "args"} <= item.keys()
    return {"functionCall": item} if is_call else item


def _has_call(part: JsonObject) -> bool:
    return isinstance(get_field(part, "functionCall"), dict) and "role" not in part  # OpenAI's messages have a role


stream = StreamParser(ResponseReader, format=FORMAT)
"""Parse the chunks of a stream: `for call in stream(chunks)`, or `async for`."""
