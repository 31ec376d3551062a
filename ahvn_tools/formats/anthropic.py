"""Anthropic's Messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, ToolSpecError, near_misses
from ahvn_tools.formats.continuation import Container, Continuation
from ahvn_tools.formats.json_data import filter_objects, get_index, get_object, get_objects, unread_fields
from ahvn_tools.formats.parsing.payload import read_field, read_items
from ahvn_tools.formats.parsing.tool_calls import (
    INTERRUPTED_CALL,
    TRUNCATED_CALL,
    CallAccumulator,
    RawCall,
    Reader,
    StreamParser,
    parse_calls,
)
from ahvn_tools.formats.rendering import content
from ahvn_tools.formats.rendering.callers import AllowedCallers, programmatic_names, resolve_callers
from ahvn_tools.formats.rendering.calls import clean_text, to_writable
from ahvn_tools.formats.rendering.names import CHOICE_MODES, resolve_single_choice
from ahvn_tools.formats.rendering.tool_exporter import (
    ToolExporter,
    export_all,
    filter_example_inputs,
    set_provider_options,
)
from ahvn_tools.formats.turn import Model, Turn, Usage, client_function, read_answer, read_text, without_nulls
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import DIRECT, PROGRAMMATIC, ToolCall, ToolResult
from ahvn_tools.schema.dialects.dialect import ANTHROPIC
from ahvn_tools.schema.dialects.finding import Finding, not_strict
from ahvn_tools.schema.dialects.strict import to_anthropic_strict
from ahvn_tools.schema.keywords import iter_schemas
from ahvn_tools.schema.refs import find_cyclic_refs

FORMAT = "anthropic"
SDK_MODULES = ("anthropic",)

_TRUNCATION_REASONS = ("max_tokens", "model_context_window_exceeded")

_EXPORTER = ToolExporter(ANTHROPIC, to_anthropic_strict)
_MAX_STRICT_TOTALS = {"tools": 20, "optional": 24, "unions": 16}
"""The limits for all strict tools of one request together."""
_LIMIT_FIXES = {
    "optional": ("optional parameters", "Require some of them, or export the tool without strict."),
    "unions": ("unions", "Replace some by single types, or export the tool without strict."),
}
_BLOCK_TYPES = ("text", "thinking", "redacted_thinking", "container_upload")
"""The types of blocks that are neither calls nor results."""
_PAUSES = ("pause_turn", "compaction")
"""Why a turn ends that goes on with the next request."""
_NESTED = ("message", "delta")
"""Where an event of a stream has the fields of a message."""
_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_EVENTS = ("content_block_", "message_")
"""How the types of events begin."""
_MODES = dict(zip(CHOICE_MODES, ("auto", "none", "any"), strict=True))


_DEFAULT_CODE_EXECUTION: Final = "code_execution_20260120"
_INTERCHANGEABLE: Final = (_DEFAULT_CODE_EXECUTION, "code_execution_20260521")
"""Anthropic accepts one of these as a caller where the request has the other."""
_CODE_EXECUTIONS: Final = (*_INTERCHANGEABLE, "code_execution_20250825")
"""The versions whose programs can call tools."""
_CODE_EXECUTION_NAME: Final = "code_execution"
"""The name of Anthropic's own tool."""


def _to_version(code_execution: bool | str) -> str | None:
    """Return the version that an export adds; None for none. Raises ToolSpecError for an unknown one."""
    if isinstance(code_execution, bool):
        return _DEFAULT_CODE_EXECUTION if code_execution else None
    if code_execution not in _CODE_EXECUTIONS:
        near = near_misses(str(code_execution), _CODE_EXECUTIONS)
        raise ToolSpecError(f"There is no code execution {code_execution!r} that can call tools. {near}")
    return code_execution


def _caller_words(version: str | None) -> dict[str, str]:
    """Return the callers that an export with this version accepts, each with Anthropic's word for it."""
    versions: tuple[str, ...] = _CODE_EXECUTIONS if version is None else (version,)
    if version in _INTERCHANGEABLE:
        versions = _INTERCHANGEABLE
    return {DIRECT: DIRECT, PROGRAMMATIC: version or _DEFAULT_CODE_EXECUTION, **{name: name for name in versions}}


def _without_recursive(
    callers: Mapping[str, list[str]], tools: Iterable[JsonObject], definitions: Iterable[ToolDefinition]
) -> dict[str, list[str]]:
    """Return the callers of each tool; of one with a recursive schema only the model itself.

    Anthropic refuses programs that could call it. Raises ToolSpecError if the model may not call it, either.
    """
    allowed = {**callers}
    programmatic = programmatic_names(callers)
    for tool, definition in zip(tools, definitions, strict=True):
        name = definition.name
        if name in programmatic and _is_recursive(definition, tool["input_schema"]):
            if DIRECT not in allowed[name]:
                raise ToolSpecError(
                    f"Anthropic refuses programs that call {name!r}, because its schema is recursive. "
                    "Allow it the caller 'direct', too, or limit its nesting."
                )
            allowed[name] = [DIRECT]
    return allowed


def _is_recursive(definition: ToolDefinition, exported_schema: JsonObject) -> bool:
    """Return whether the exported schema of a tool is recursive."""
    return definition.share(_has_cycle, _has_cycle, exported_schema)


def _has_cycle(_: ToolDefinition, exported_schema: JsonObject) -> bool:
    return bool(find_cyclic_refs(exported_schema))


def _with_code_execution(tools: list[JsonObject], version: str) -> list[JsonObject]:
    """Return the tools and, as the last, Anthropic's own. Raises DefinitionError if one of them has its name."""
    if any(tool["name"] == _CODE_EXECUTION_NAME for tool in tools):
        raise DefinitionError(
            f"A tool and Anthropic's own would both be called {_CODE_EXECUTION_NAME!r}. Rename the tool."
        )
    return [*tools, {"type": version, "name": _CODE_EXECUTION_NAME}]


def export(
    definitions: Iterable[ToolDefinition],
    *,
    strict: bool = False,
    examples: bool = True,
    defer_loading: bool | Collection[str] = False,
    allowed_callers: AllowedCallers = None,
    code_execution: bool | str = False,
    cache_control: JsonObject | None = None,
) -> list[JsonObject]:
    """Return the tools for a request's `tools`.

    - The root of a schema is one plain object: alternatives are merged, and the description states the rule.
    - `strict`: objects are closed, optional arguments stay optional, and the description states the rules that a strict
      grammar does not enforce. A schema whose meaning that would change is exported unchanged, with `"strict": False`;
      so are the tools over a request's limits (20 strict tools, 24 optional parameters and 16 unions in total).
    - `examples`: the inputs of a tool's examples that match its schema are its `input_examples`.
    - `defer_loading`: all tools, or the tools with these names, are only found by Anthropic's tool search.
    - `allowed_callers`, such as `["direct"]`, is set on every tool; or by name, `{"find": ["programmatic"]}`.
      `"programmatic"` stands for the version of `code_execution`. Anthropic refuses programs that call strict tools or
      tools with a recursive schema: those that a program may call are not strict, and recursive ones stay direct.
      Raises ToolSpecError where nothing is left of such a choice.
    - `code_execution` adds Anthropic's own tool that runs the model's programs, as the last; or a version of it, such
      as `"code_execution_20260521"`. Programs call the tools that allow it.
    - `cache_control`, such as `{"type": "ephemeral"}`, is set on the last tool that is not deferred: Anthropic caches
      everything up to that tool. Raises ToolSpecError when all are deferred.

    >>> from ahvn_tools import ToolDefinition
    >>> export([ToolDefinition(name="ping")])
    [{'name': 'ping', 'input_schema': {'type': 'object', 'properties': {}, 'additionalProperties': False}}]
    """
    known = list(definitions)
    version = _to_version(code_execution)
    callers = resolve_callers(allowed_callers, known, _caller_words(version))
    programmatic = programmatic_names(callers)
    if strict and programmatic and programmatic == {definition.name for definition in known}:
        raise ToolSpecError("Anthropic refuses strict tools that programs call. Leave out strict, or name the tools.")
    tools = export_all(known, _to_tool, strict, examples)
    if strict:
        tools = _apply_strict_limits(tools, known, programmatic, examples=examples)
    set_provider_options(tools, known, defer_loading, _without_recursive(callers, tools, known))
    if version is not None:
        tools = _with_code_execution(tools, version)
    if tools and cache_control is not None:
        immediate = [tool for tool in tools if "defer_loading" not in tool]
        if not immediate:
            raise ToolSpecError(
                "No tool can carry `cache_control`: all are deferred. Leave one out of `defer_loading`."
            )
        immediate[-1]["cache_control"] = dict(cache_control)
    return tools


def refusal(
    definition: ToolDefinition, callers: Collection[str] = (), *, code_execution: bool | str = False, **_: Any
) -> str | None:
    """Return why an export with this tool raises, if these are its callers; None if it does not.

    >>> from ahvn_tools import ToolDefinition
    >>> refusal(ToolDefinition(name="ping"))
    """
    if code_execution and definition.name == _CODE_EXECUTION_NAME:
        return "Anthropic's own tool has its name"
    if not callers or DIRECT in callers:
        return None
    schema = definition.memoize(_to_tool, False, False)["input_schema"]
    return "programs cannot call a tool with a recursive schema" if _is_recursive(definition, schema) else None


def calls(response: Any, definitions: Iterable[ToolDefinition] = ()) -> list[ToolCall]:
    """Return the calls in a message, or in its `content`: SDK object, dict, list, JSON text or bytes.

    Calls that the provider runs itself are left out. When a message reaches its length limit, its last call may lack
    arguments without any sign of it, so that call has an `error`.

    >>> calls([{"type": "tool_use", "id": "t1", "name": "ping", "input": {}}])[0].name
    'ping'
    """
    return parse_calls(response, definitions, stream)


def continuation(response: Any) -> Continuation:
    """Return the container of a message, or of the events of a stream, and whether Anthropic has paused in its turn.

    >>> continuation({"container": {"id": "container_1", "expires_at": "2026-01-20T14:30:00Z"}}).container.id
    'container_1'
    """
    items = read_items(response)
    return read_continuation(source for item in items for source in (item, *(read_field(item, key) for key in _NESTED)))


def read_continuation(sources: Iterable[Any]) -> Continuation:
    """Return what the fields of a message, in one or more objects, say about the next request. The last one counts."""
    container, reason = None, None
    for source in sources:
        found = read_field(source, "container")
        container = Container.from_fields(read_field(found, "id"), read_field(found, "expires_at")) or container
        reason = read_field(source, "stop_reason") or reason
    return Continuation(container=container, is_paused=reason in _PAUSES)


def message(calls: Iterable[ToolCall], *, text: str | None = None) -> list[JsonObject]:
    """Return the model's message with this text and these calls; the inverse of `calls`.

    >>> from ahvn_tools import ToolCall
    >>> message([ToolCall(id="t1", name="add", arguments={"a": 1})])
    [{'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 't1', 'name': 'add', 'input': {'a': 1}}]}]
    """
    text = clean_text(text)
    blocks: list[JsonObject] = [] if text is None else [{"type": "text", "text": text}]
    blocks += [
        {**call.provider, "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in to_writable(calls, FORMAT)
    ]
    return [{"role": "assistant", "content": blocks}] if blocks else []


def results(pairs: Iterable[tuple[ToolCall, ToolResult]]) -> list[JsonObject]:
    """Return one user message with the results of all calls of a message; errors have a flag, images are included.

    A program reads only text: a note replaces an image in the result of its call, and an error begins with "Error".

    >>> from ahvn_tools import ToolCall, ToolResult
    >>> results([(ToolCall(id="t1", name="add"), ToolResult(3))])
    [{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 't1', 'content': '3'}]}]
    """
    blocks = [_to_block(call, result) for call, result in content.to_readable(pairs, FORMAT)]
    return [{"role": "user", "content": blocks}] if blocks else []


def turn(response: Any, calls: Sequence[ToolCall] = ()) -> Turn:  # noqa: ARG001  # as all formats
    """Return the model's turn of a message, its `content`, or all events of a stream.

    All blocks are kept, with their signatures; blank texts are not, because Anthropic refuses them.

    >>> turn({"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]}).text
    'Hello!'
    """
    data, events = read_answer(response)
    if any(str(read_field(event, "type")).startswith(_EVENTS) for event in events):
        blocks, usage = _collect_blocks(events)
    else:
        blocks, usage = events or get_objects(data, "content"), get_object(data, "usage")
    return to_turn(blocks, Usage.read(usage, inputs=_INPUTS, outputs=["output_tokens"], cached=_INPUTS[-1:]))


def to_turn(blocks: Iterable[JsonObject], usage: Usage) -> Turn:
    """Return the turn of a message with these blocks."""
    sent = [without_nulls(block, "parsed_output") for block in blocks]
    sent = [block for block in sent if block.get("type") != "text" or str(block.get("text")).strip()]
    messages: list[JsonObject] = [{"role": "assistant", "content": sent}] if sent else []
    return Turn(messages=messages, text=read_text(sent), usage=usage)


def _collect_blocks(events: Iterable[JsonObject]) -> tuple[list[JsonObject], JsonObject]:
    """Return the whole blocks of a stream, and its usage, whose later fields count."""
    blocks: dict[int | str | None, JsonObject] = {}
    inputs: dict[int | str | None, str] = {}
    usage: JsonObject = {}
    for event in events:
        index, delta = get_index(event, "index"), get_object(event, "delta")
        usage |= without_nulls(get_object(event, "message", "usage") or get_object(event, "usage"))
        if event.get("type") == "content_block_start":
            blocks[index] = {**get_object(event, "content_block")}
        elif event.get("type") == "content_block_delta" and index in blocks:
            if "partial_json" in delta:
                inputs[index] = inputs.get(index, "") + (delta["partial_json"] or "")
            else:
                _add_delta(blocks[index], delta)
    for index, text in inputs.items():
        blocks[index]["input"] = load_object(text)
    return list(blocks.values()), usage


def _add_delta(block: JsonObject, delta: JsonObject) -> None:
    """Add a piece to a block: to a text of the same name, or to its citations."""
    for key, value in delta.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key != "type" and isinstance(value, str):
            block[key] = (block.get(key) or "") + value


def load_object(text: str) -> JsonObject:
    """Return the arguments of a call whose text has come in pieces; none of a text that is cut off."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def model(
    client: Any, *, model: str, stream: bool = False, export: Mapping[str, Any] | None = None, **options: Any
) -> Model:
    """Return the model behind an Anthropic or AsyncAnthropic client, for `Toolkit.converse`.

    `options` are those of `client.messages.create`, which needs `max_tokens`; its `tools` are sent beside those of the
    toolkit. `export` are the options of `export`, such as `{"strict": True}`.
    """
    options |= {"model": model, **({"stream": True} if stream else {})}
    send = client_function(client, "messages.create")
    return Model.of_client(FORMAT, send, options, export=export, container_option="container")


def choice(
    tools: str | Sequence[str], *, parallel: bool | None = None, definitions: Iterable[ToolDefinition] = ()
) -> JsonObject:
    """Return `tool_choice` as a field of a request.

    A name, or a list with one name, forces that tool. Raises ToolSpecError for several names, for which Anthropic has
    no option. With `definitions`, an unknown name is a ToolLookupError.

    >>> choice("required", parallel=False)
    {'tool_choice': {'type': 'any', 'disable_parallel_tool_use': True}}
    """
    if isinstance(tools, str) and tools in CHOICE_MODES:
        tool_choice: JsonObject = {"type": _MODES[tools]}
    else:
        tool_choice = {"type": "tool", "name": resolve_single_choice("Anthropic", tools, definitions)}
    if parallel is not None and tools != "none":
        tool_choice["disable_parallel_tool_use"] = not parallel
    return {"tool_choice": tool_choice}


def looks_like(data: Any) -> bool:
    """Return whether JSON data looks like a message or its `content`, a list of messages, or the events of a stream.

    >>> looks_like({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello!"}]})
    True
    """
    if not isinstance(data, list):
        return isinstance(data, dict) and _is_message(data)
    items = filter_objects(data)
    is_turn = bool(items) and all(map(_is_message, items))
    return is_turn or any(_is_block(item) or str(item.get("type")).startswith(_EVENTS) for item in items)


def _is_message(item: JsonObject) -> bool:
    if item.get("role") != "assistant" or "tool_calls" in item:
        return False
    blocks = item.get("content")
    return isinstance(blocks, str) or (isinstance(blocks, list) and all(map(_is_block, filter_objects(blocks))))


def _is_block(item: JsonObject) -> bool:
    kind = str(item.get("type"))
    return kind in _BLOCK_TYPES or kind.endswith(("tool_use", "tool_result"))


def findings(definition: ToolDefinition) -> list[Finding]:
    """Return what Anthropic sees in another form or not at all, and what cannot be strict."""
    tool = _EXPORTER.export(definition, strict=True)
    cost = _count_strict_cost(tool.schema) if tool.is_strict else Counter[str]()
    exceeded = [
        not_strict("", f"it has more than {_MAX_STRICT_TOTALS[key]} {noun}", fix)
        for key, (noun, fix) in _LIMIT_FIXES.items()
        if cost[key] > _MAX_STRICT_TOTALS[key]
    ]
    return [*_EXPORTER.findings(definition), *exceeded]


def _to_tool(definition: ToolDefinition, strict: bool, examples: bool) -> JsonObject:
    tool = _EXPORTER.to_fields(definition, "input_schema", strict=strict)
    inputs = filter_example_inputs(definition, tool["input_schema"]) if examples else []
    return {**tool, "input_examples": inputs} if inputs else tool


def _apply_strict_limits(
    tools: list[JsonObject], definitions: list[ToolDefinition], excluded: Collection[str], *, examples: bool
) -> list[JsonObject]:
    """Return the tools, each strict as long as the request's limits allow it, without those that are `excluded`."""
    available = Counter(_MAX_STRICT_TOTALS)
    limited = []
    for tool, definition in zip(tools, definitions, strict=True):
        cost = _count_strict_cost(tool["input_schema"]) if tool["strict"] else Counter()
        if cost <= available and definition.name not in excluded:
            available -= cost
            limited.append(tool)
        else:
            limited.append({**definition.memoize(_to_tool, False, examples), "strict": False})
    return limited


def _count_strict_cost(schema: JsonObject) -> Counter[str]:
    """Return what a strict schema adds to a request's totals; definitions do not count."""
    cost = Counter(tools=1)
    for node in iter_schemas({key: value for key, value in schema.items() if key != "$defs"}):
        cost["optional"] += len(node.get("properties", {}).keys() - set(node.get("required", ())))
        cost["unions"] += "anyOf" in node or isinstance(node.get("type"), list)
    return cost


def _to_block(call: ToolCall, result: ToolResult) -> JsonObject:
    parts = content.to_parts(result) if call.caller == DIRECT else content.to_program_parts(result)
    block: JsonObject = {"type": "tool_result", "tool_use_id": call.id, "content": _to_content(parts)}
    return {**block, "is_error": True} if result.is_error else block


def _to_content(parts: list[str | content.ImagePart]) -> str | list[JsonObject]:
    if not content.get_images(parts):
        return content.join_texts(parts)
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
        for part in parts
    ]


def _to_raw_call(block: JsonObject) -> RawCall:
    return RawCall(
        id=block.get("id"),
        name=block.get("name"),
        arguments=block.get("input"),
        provider=unread_fields(block, "type", "id", "name", "input"),
    )


def to_cut_off(reason: Any) -> str | None:
    """Return why a message with this reason for stopping ended in its last call; None if it ended after it."""
    return TRUNCATED_CALL if reason in _TRUNCATION_REASONS else None


class ResponseReader(Reader):
    """Collects blocks: a start with id and name, the input as fragments of text, a stop.

    A block without any input is either a call without arguments or a truncated call: it waits until the next block or
    the reason for stopping decides which.
    """

    def __init__(self) -> None:
        self._open: dict[int | str | None, CallAccumulator] = {}
        self._stopped: list[CallAccumulator] = []

    def extract(self, data: Any) -> Iterator[RawCall]:
        """Yield the calls in a message, or in its content."""
        blocks = filter_objects(data) or get_objects(data, "content")
        cut_off = to_cut_off(data.get("stop_reason")) if isinstance(data, dict) else None
        for block in blocks:
            if block.get("type") == "tool_use":
                yield replace(_to_raw_call(block), cut_off=cut_off if block is blocks[-1] else None)

    def feed(self, event: Any) -> Iterator[RawCall]:
        """Read an event."""
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "content_block_start":
            yield from self._emit_stopped()
            block = get_object(event, "content_block")
            if block.get("type") == "tool_use":
                start = _to_raw_call({**block, "input": block.get("input") or None})
                index = get_index(event, "index")
                call = self._open.get(index)
                self._open[index] = (call if call and call.begins_again(start) else CallAccumulator()).merge(start)
        elif kind == "content_block_delta" and (call := self._open.get(get_index(event, "index"))):
            call.add(get_object(event, "delta").get("partial_json"))
        elif kind == "content_block_stop" and (call := self._open.pop(get_index(event, "index"), None)):
            self._stopped.append(call)
            if call.get_object() is not None:
                yield from self._emit_stopped()
        elif kind == "message_delta":
            reason = get_object(event, "delta").get("stop_reason")
            yield from self._emit_stopped(to_cut_off(reason))
        elif kind == "message_stop":
            yield from self._emit_stopped()

    def end(self) -> Iterator[RawCall]:
        """Yield the calls that were incomplete when the stream ended."""
        self._stopped += self._open.values()
        yield from self._emit_stopped(INTERRUPTED_CALL)

    def _emit_stopped(self, cut_off: str | None = None) -> Iterator[RawCall]:
        stopped, self._stopped = self._stopped, []
        for call in stopped:
            yield call.to_raw_call(cut_off=cut_off)


stream = StreamParser(ResponseReader, format=FORMAT)
"""Parse the events of a stream: `for call in stream(events)`, or `async for`."""
