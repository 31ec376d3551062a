"""The contract of every format: shared tests, which cover a new format without changes."""

from __future__ import annotations

import json
import pkgutil
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import ImageContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec, formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import DefinitionError, ToolLookupError, ToolSpecError
from tests.formats.providers import provider

CORPORA = Path(__file__).resolve().parents[3] / "shared" / "corpora"

each_format = pytest.mark.parametrize("name", formats.BUILT_IN)

sample_formats = pytest.mark.parametrize(
    "name",
    [
        name if name in {"openai", "prompt"} else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in formats.BUILT_IN
    ],
)
"""Two formats by default and all of them with `-m exhaustive`: for tests with many random examples."""


class Address(pydantic.BaseModel):
    street: str
    zip_code: Annotated[str, pydantic.Field(pattern=r"^\d+$")] = "00000"


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


def ship(to: Address, weight: Annotated[float, pydantic.Field(gt=0)] = 1.5, note: str | None = None) -> str:
    """Ship a parcel."""
    return f"{to.street} {weight} {note}"


def plant(tree: Tree) -> int:
    return len(tree.children)


def store(pairs: dict[str, int]) -> int:
    return len(pairs)


DEFINITIONS = [
    ToolSpec.from_function(ship, name="parcels.ship").definition,
    ToolSpec.from_function(plant, name="plant a tree").definition,
    ToolSpec.from_function(store).definition,
    ToolDefinition(name="ping"),
    ToolDefinition(
        name="find",
        description="Find it.",
        input_schema={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"$ref": "#/definitions/Name"}},
            "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
            "definitions": {"Name": {"type": "string"}},
        },
    ),
]


def failed(message: str) -> ToolResult:
    return ToolResult(error=ErrorDetail(code="tool_error", message=message))


def test_every_format_module_is_built_in():
    modules = {module.name for module in pkgutil.iter_modules(formats.__path__)}
    found = {name for name in modules if hasattr(__import__(f"ahvn_tools.formats.{name}", fromlist=["_"]), "export")}
    assert found == {name.replace("-", "_") for name in formats.BUILT_IN}


# export


@each_format
@pytest.mark.parametrize("strict", [False, True])
def test_an_export_does_not_change_definitions(name, strict):
    before = [(definition.fingerprint, definition.input_schema) for definition in DEFINITIONS]
    formats.get(name).export(DEFINITIONS, strict=strict)
    assert [(ToolDefinition.fingerprint.func(d), d.input_schema) for d in DEFINITIONS] == before


@each_format
@pytest.mark.parametrize("strict", [False, True])
def test_every_export_returns_new_objects_without_shared_parts(name, strict):
    export = formats.get(name).export
    first = export(DEFINITIONS, strict=strict)
    expected = json.dumps(export(DEFINITIONS, strict=strict))
    seen: set[int] = set()
    pending: list[Any] = [first]
    while pending:
        node = pending.pop()
        if isinstance(node, dict | list):
            assert id(node) not in seen
            seen.add(id(node))
            pending.extend(node.values() if isinstance(node, dict) else node)
    first[0].clear()
    assert json.dumps(export(DEFINITIONS, strict=strict)) == expected


@each_format
@pytest.mark.parametrize("strict", [False, True])
def test_every_exported_root_is_one_plain_object_with_members(name, strict):
    for _, schema in provider(name).exported(formats.get(name).export(DEFINITIONS, strict=strict)):
        assert schema["type"] == "object"
        assert isinstance(schema["properties"], dict)
        assert not schema.keys() & {"oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref", "$schema", "definitions"}


@each_format
def test_no_definitions_export_no_tools(name):
    assert provider(name).exported(formats.get(name).export([])) == []
    assert formats.get(name).results([]) == []


@each_format
def test_definitions_can_be_a_generator(name):
    tools = formats.get(name).export(definition for definition in DEFINITIONS)
    assert len(provider(name).exported(tools)) == len(DEFINITIONS)


@each_format
def test_two_definitions_of_one_name_are_refused(name):
    with pytest.raises(DefinitionError, match="'ping' and 'ping' would both be called 'ping'"):
        formats.get(name).export([ToolDefinition(name="ping"), ToolDefinition(name="ping", description="Other.")])


# calls


@each_format
def test_calls_have_the_defined_names(name):
    module = formats.get(name)
    wire = [tool for tool, _ in provider(name).exported(module.export(DEFINITIONS))]
    response = provider(name).response([(f"c{i}", tool, "{}") for i, tool in enumerate(wire)])
    assert [call.name for call in module.calls(response, DEFINITIONS)] == [d.name for d in DEFINITIONS]
    assert [call.name for call in module.calls(response)] == wire
    assert [call.wire_name for call in module.calls(response, DEFINITIONS)] == wire


@each_format
def test_an_unknown_name_is_unchanged(name):
    (call,) = formats.get(name).calls(provider(name).response([("c1", "unknown", '{"a": 1}')]), DEFINITIONS)
    assert (call.name, call.arguments, call.error) == ("unknown", {"a": 1}, None)


@each_format
def test_a_response_is_read_as_dict_text_bytes_and_sdk_object(name):
    response = provider(name).response([("c1", "ping", '{"city": "Zürich"}'), ("c2", "ping", "{}")])
    model = sdk_object(response)
    expected = [
        ToolCall(id="c1", name="ping", arguments={"city": "Zürich"}, wire_name="ping"),
        ToolCall(id="c2", name="ping", wire_name="ping"),
    ]
    mixed = (
        {**response, "extra": model} if isinstance(response, dict) else [{**item, "extra": model} for item in response]
    )
    for form in (response, json.dumps(response), json.dumps(response).encode(), model, mixed):
        read = formats.get(name).calls(form)
        assert [(call.name, call.arguments, call.error) for call in read] == [
            (call.name, call.arguments, call.error) for call in expected
        ]
        assert is_text(name) or [call.id for call in read] == [call.id for call in expected]


def is_text(name: str) -> bool:
    return getattr(provider(name), "IS_TEXT", False)


def sdk_object(value: Any) -> Any:
    """Return JSON objects as SDKs return them: as pydantic models."""
    if isinstance(value, list):
        return [sdk_object(item) for item in value]
    return pydantic.create_model("Answer", **dict.fromkeys(value, (Any, ...)))(**value)


@each_format
def test_arguments_are_copies(name):
    response = provider(name).response([("c1", "ping", '{"a": [1]}')])
    before = json.dumps(response)
    formats.get(name).calls(response)[0].arguments["a"].append(2)
    assert json.dumps(response) == before


def frozen(value: Any) -> Any:
    """Return JSON data in immutable objects."""
    if isinstance(value, dict):
        return MappingProxyType({key: frozen(member) for key, member in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


AWKWARD = [("c1", "ping", json.dumps({"city": "a\u2028b\x85c"}, ensure_ascii=False))]
"""A call whose text contains line breaks of other formats than JSON, as providers can send it."""


def is_awkward(calls: list[ToolCall]) -> bool:
    return [(call.name, call.arguments, call.error) for call in calls] == [("ping", {"city": "a\u2028b\x85c"}, None)]


@each_format
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_response_is_read_in_any_unicode_encoding(name, encoding):
    text = json.dumps(provider(name).response(AWKWARD), ensure_ascii=False)
    for form in (text.encode(encoding), bytearray(text.encode(encoding)), memoryview(text.encode(encoding))):
        assert is_awkward(formats.get(name).calls(form))
    assert is_awkward(formats.get(name).calls(f"\ufeff{text}"))


@each_format
def test_an_immutable_response_is_read(name):
    module, events = formats.get(name), provider(name).events(AWKWARD)
    assert is_awkward(module.calls(frozen(provider(name).response(AWKWARD))))
    assert is_awkward(module.calls(frozen(events)))
    assert is_awkward(list(module.stream(frozen(events))))


def as_lines(event: dict[str, Any]) -> str:
    return "".join(f"data: {line}\n" for line in json.dumps(event, ensure_ascii=False, indent=1).split("\n"))


def as_line(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False)


SENT = {
    "events": lambda event: f"data: {as_line(event)}\n\n",
    "named events": lambda event: f"id: 1\nevent: message\nretry: 3\ndata:{as_line(event)}\n\n",
    "windows": lambda event: f"event: message\r\ndata: {as_line(event)}\r\n\r\n",
    "returns": lambda event: f"event: message\rdata: {as_line(event)}\r\r",
    "comments": lambda event: f": wait\n\ndata:\n\ndata: {as_line(event)}\n\n",
    "several lines": lambda event: f"event: message\n{as_lines(event)}\n",
    "no blank lines": lambda event: f"data: {as_line(event)}\n",
    "JSON lines": lambda event: f"{as_line(event)}\n",
    "indented JSON lines": lambda event: f"  {as_line(event)}\r\n",
}


@each_format
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT.keys())
def test_the_text_of_a_stream_is_read_in_every_form_of_hosts(name, sent):
    if is_text(name):
        return  # any text is an response
    text = "".join(map(sent, provider(name).events(AWKWARD)))
    for form in (text, f"{text}data: [DONE]\n\n", f"\ufeff{text}".encode(), text.encode("utf-16")):
        assert is_awkward(formats.get(name).calls(form))


@each_format
def test_a_call_with_lone_surrogates_can_have_a_result(name):
    response = provider(name).response([("c\ud800", "pi\ud800ng", "{}")])
    (call,) = formats.get(name).calls(json.dumps(response))
    messages = formats.get(name).results([(call, ToolResult(1))])
    assert json.dumps(messages, ensure_ascii=False).encode()


@each_format
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("  \n", {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": null}', {"a": None}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
    ],
)
def test_odd_arguments_are_read(name, text, expected):
    (call,) = formats.get(name).calls(provider(name).response([("c1", "ping", text)]))
    assert (call.arguments, call.error) == (expected, None)


@each_format
@pytest.mark.parametrize("text", ['{"secret": "s3', "{'a': 1}", "[1]", "3", "true", "nope s3", "[" * 50_000])
def test_unreadable_arguments_are_an_error_that_does_not_quote_them(name, text):
    broken, whole = formats.get(name).calls(provider(name).response([("c1", "ping", text), ("c2", "ping", "{}")]))
    assert (broken.name, broken.arguments) == ("ping", {})
    assert is_text(name) or broken.id == "c1"
    assert broken.error.startswith("The arguments are not ")
    assert "s3" not in broken.error
    assert whole.error is None


@each_format
def test_calls_without_an_id_get_a_new_one(name):
    first, second = formats.get(name).calls(provider(name).response([("", "ping", "{}"), ("", "ping", "{}")]))
    assert first.id != second.id
    assert first.id


@each_format
def test_a_call_without_a_name_is_an_error(name):
    (call,) = formats.get(name).calls(provider(name).response([("c1", "", "{}")]), DEFINITIONS)
    assert (call.name, call.error) == ("", "The call does not name a tool. Send it again with the name of the tool.")


@each_format
@pytest.mark.parametrize("text", ['{"choices": [', "", b"\xff\xfe\xff", "[" * 50_000])
def test_a_response_that_is_not_json_is_one_call_with_an_error(name, text):
    if is_text(name):
        assert formats.get(name).calls(text) == []
        return
    (call,) = formats.get(name).calls(text)
    assert (call.name, call.arguments) == ("", {})
    assert call.error.startswith("The response is not valid JSON")


ID = "FI5qQGzDE"
"""An id that every provider may have sent; Mistral sends no others."""


@each_format
@pytest.mark.parametrize("calls", [[(ID, "ping", '{"a": 1}')], []], ids=["calls", "no calls"])
def test_an_answer_looks_like_one_of_its_format(name, calls):
    module, response, events = formats.get(name), provider(name).response(calls), provider(name).events(calls)
    assert module.looks_like(response) or response == []
    assert module.looks_like(events)


@each_format
@pytest.mark.parametrize(
    "data",
    [None, {}, 3, True, [None], [3], {"error": {"message": "overloaded"}}, {"x": []}, [{"x": 1}], {"role": "user"},
     {"type": None}, [{"type": 3}], {"output": 3}],
)  # fmt: skip
def test_data_that_is_no_answer_looks_like_none(name, data):
    assert not formats.get(name).looks_like(data)


@each_format
@pytest.mark.parametrize(
    "response",
    [None, {}, [], "null", "[]", "3", {"error": {"message": "overloaded"}}, {"choices": [None, {"message": "x"}]},
     {"output": 3}, {"content": "text"}, {"choices": []}, {"content": [None, 3]}],
)  # fmt: skip
def test_a_response_without_calls_has_none(name, response):
    assert formats.get(name).calls(response) == []


@each_format
def test_an_object_that_is_no_response_raises_type_error(name):
    with pytest.raises(TypeError, match=r"object is no response\. Pass the SDK's response object"):
        formats.get(name).calls(object())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


WORDS = st.sampled_from([
    "choices", "message", "tool_calls", "function", "arguments", "name", "type", "output", "content", "input", "id",
    "candidates", "parts", "functionCall", "args", "partialArgs", "jsonPath", "$.a[0]", "stringValue", "willContinue",
    "toolUse", "toolUseId", "stopReason", "malformed_tool_use", "data", "delta", "tool_name", "done_reason", "null",
    "method", "params", "tools/call", "_meta", "steps", "thoughtSignature", "finishReason", "MAX_TOKENS", "index",
    "function_call", "tool_use", "call_id", "finish_reason", "length", "stop_reason", "max_tokens", "status",
])  # fmt: skip
ALIKE = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)


@sample_formats
@given(response=st.lists(ALIKE) | st.dictionaries(WORDS, ALIKE))
@pytest.mark.exhaustive
def test_no_similar_response_raises(name, response):
    read = formats.get(name).calls(response)
    assert all(isinstance(call.name, str) and call.id and (call.name or call.error) for call in read)
    assert len(read) == len(formats.get(name).calls(json.dumps(response)))


@sample_formats
@settings(max_examples=20)
@given(data=st.lists(ALIKE) | st.dictionaries(WORDS, ALIKE) | JSON)
@pytest.mark.exhaustive
def test_whether_data_looks_like_an_answer_never_raises(name, data):
    assert formats.get(name).looks_like(data) in {True, False}


@sample_formats
@given(arguments=st.dictionaries(st.text(), JSON, max_size=3))
def test_arguments_arrive_unchanged(name, arguments):
    (call,) = formats.get(name).calls(provider(name).response([("c1", "ping", json.dumps(arguments))]))
    assert (call.arguments, call.error) == (arguments, None)


# results


@each_format
def test_each_call_has_one_result_under_its_id_in_order(name):
    module = formats.get(name)
    tools = provider(name).exported(module.export(DEFINITIONS))
    sent = [(f"c{i}", tool, "{}") for i, (tool, _) in enumerate(tools)]
    calls = module.calls(provider(name).response(sent), DEFINITIONS)
    messages = module.results([(call, ToolResult(number)) for number, call in enumerate(calls)])
    ids, names = [sent_id for sent_id, _, _ in sent], [tool for _, tool, _ in sent]
    assert provider(name).result_ids(messages) in (ids, names)
    assert json.dumps(messages)


@each_format
def test_a_result_appears_once(name):
    call = ToolCall(id="c1", name="ping")
    for value, text in [("plain", "plain"), ({"a": "ü"}, '{"a": "ü"}'), ([1, 2], "[1, 2]"), (None, "null")]:
        messages = formats.get(name).results([(call, ToolResult(value, {"result": value}))])
        (said,) = provider(name).result_texts(messages)
        assert said in (text, value)
        leaf = value if not isinstance(value, dict | list) and said == value else text
        read = getattr(provider(name), "read", list)
        assert leaves(read(messages)).count(leaf) <= 1


@each_format
def test_a_lone_surrogate_in_a_result_can_be_sent(name):
    messages = formats.get(name).results([(ToolCall(id="c1", name="ping"), ToolResult("a\ud800b"))])
    assert provider(name).result_texts(messages) == ["a\ufffdb"]


@each_format
def test_an_error_is_recognizable(name):
    messages = formats.get(name).results([(ToolCall(id="c1", name="ping"), failed("no such city"))])
    told = leaves(messages)
    assert provider(name).result_texts(messages) == ["Error: no such city"] or (
        "no such city" in told and is_marked(messages)
    )


def is_marked(value: Any) -> bool:
    """Return whether messages flag an error in any provider's way."""
    flags = ({"is_error": True}, {"isError": True}, {"status": "error"})
    if isinstance(value, dict):
        return (
            any(flag.items() <= value.items() for flag in flags)
            or "error" in value
            or any(is_marked(member) for member in value.values())
        )
    return isinstance(value, list) and any(map(is_marked, value))


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for member in value.values() for leaf in leaves(member)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", sorted({*formats.BUILT_IN} - {"mcp"}))  # MCP carries blocks as they are
@pytest.mark.parametrize("data", ["", "no base64!", "cG5"])
def test_a_broken_image_is_named_and_not_sent(name, data):
    image = ImageContent(type="image", data=data, mime_type="image/png")
    messages = formats.get(name).results([(ToolCall(id="c1", name="ping"), ToolResult(blocks=(image,)))])
    assert "not shown]" in json.dumps(messages)
    assert "image_url" not in json.dumps(messages)


# choice


@each_format
def test_a_chosen_tool_is_named_as_it_is_exported(name):
    module, wire_format = formats.get(name), provider(name)
    if wire_format.forced_names is None:
        with pytest.raises(ToolSpecError, match="Export"):
            module.choice("parcels.ship", definitions=DEFINITIONS)
        return
    wire = wire_format.exported(module.export(DEFINITIONS))[0][0]
    assert wire_format.forced_names(module.choice("parcels.ship", definitions=DEFINITIONS)) == [wire]
    assert wire_format.forced_names(module.choice("parcels.ship")) == [wire]
    assert wire_format.forced_names(module.choice(["parcels.ship"])) == [wire]


@each_format
def test_a_choice_of_an_unknown_tool_is_refused_with_near_names(name):
    with pytest.raises(ToolLookupError, match=r"no tool 'pong' to choose\. Did you mean 'ping'\?"):
        formats.get(name).choice("pong", definitions=DEFINITIONS)


@each_format
@pytest.mark.parametrize("nothing", [[], "", ["ping", ""]])
def test_a_choice_of_nothing_is_refused(name, nothing):
    with pytest.raises(ToolSpecError, match="The choice names no tool"):
        formats.get(name).choice(nothing)


@each_format
@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_a_mode_is_the_providers_own_choice_or_refused(name, word):
    expected = provider(name).CHOICES[word]
    if expected is None:
        with pytest.raises(ToolSpecError):
            formats.get(name).choice(word)
    else:
        assert formats.get(name).choice(word) == expected


# a whole turn


@each_format
@pytest.mark.parametrize("strict", [False, True])
def test_a_call_of_an_exported_tool_runs(name, strict):
    module = formats.get(name)
    spec = ToolSpec.from_function(ship, name="parcels.ship")
    ((wire, schema),) = provider(name).exported(module.export([spec.definition], strict=strict))
    arguments: dict[str, Any] = {"to": {"street": "Elm"}}
    if strict and "weight" in schema.get("required", ()):
        arguments = {"to": {"street": "Elm", "zip_code": None}, "weight": None, "note": None}
    (call,) = module.calls(provider(name).response([("c1", wire, json.dumps(arguments))]), [spec.definition])
    result = spec.exec(**call.arguments)
    assert provider(name).result_texts(module.results([(call, result)])) == ["Elm 1.5 None"]


# streams


@each_format
def test_the_events_of_a_stream_contain_the_calls(name):
    sent = [("c1", "ping", '{"city": "Zürich"}'), ("c2", "ping", ""), ("c3", "pong", '{"a": [1, {"b": "}"}]}')]
    events = provider(name).events(sent)
    expected = [("ping", {"city": "Zürich"}, None), ("ping", {}, None), ("pong", {"a": [1, {"b": "}"}]}, None)]
    for form in (
        events,
        iter(events),
        sdk_object(events),
    ):
        read = list(formats.get(name).stream(form))
        assert [(call.name, call.arguments, call.error) for call in read] == expected
    assert [(call.name, call.arguments, call.error) for call in formats.get(name).calls(events)] == expected
    assert [(call.name, call.arguments, call.error) for call in formats.get(name).calls(iter(events))] == expected


@each_format
async def test_an_asynchronous_stream_is_read(name):
    async def arriving():
        for event in provider(name).events([("c1", "parcels_ship_650c0ead", "{}"), ("c2", "ping", '{"a": 1}')]):
            yield event

    read = [call async for call in formats.get(name).stream(arriving(), DEFINITIONS)]
    assert [(call.name, call.arguments) for call in read] == [("parcels.ship", {}), ("ping", {"a": 1})]
    with pytest.raises(TypeError, match="async for"):
        formats.get(name).calls(arriving())


@each_format
@pytest.mark.parametrize("nothing", [{"stream": []}, MappingProxyType({}), "data: {}", b"", bytearray(), None, 3])
def test_an_object_that_is_no_stream_raises_type_error(name, nothing):
    with pytest.raises(TypeError, match="is no stream of events"):
        formats.get(name).stream(nothing)


@each_format
def test_no_call_of_a_broken_stream_is_lost_or_truncated_silently(name):
    sent = [("c1", "ping", '{"a": 1}'), ("c2", "pong", '{"city": "Oslo"}')]
    events = provider(name).events(sent)
    whole = [("ping", {"a": 1}, None), ("pong", {"city": "Oslo"}, None)]
    for end in range(len(events) + 1):
        read = list(formats.get(name).stream(events[:end]))
        for call, expected in zip(read, whole, strict=False):
            assert (call.name, call.arguments, call.error) == expected or (call.arguments == {} and call.error)


@sample_formats
@given(events=st.lists(st.none() | st.dictionaries(st.text(max_size=3), st.integers())))
def test_unknown_events_contain_no_calls(name, events):
    assert list(formats.get(name).stream(events)) == []


EVENTS = st.dictionaries(
    WORDS | st.sampled_from(["content_block", "partial_json", "stop_reason", "delta", "item", "output_index", "chunk"]),
    ALIKE | st.sampled_from(["content_block_start", "content_block_delta", "content_block_stop", "message_delta",
                             "response.output_item.added", "response.output_item.done", "response.completed",
                             "response.function_call_arguments.delta"]),
)  # fmt: skip


@sample_formats
@given(events=st.lists(EVENTS))
@pytest.mark.exhaustive
def test_no_stream_of_similar_events_raises(name, events):
    read = list(formats.get(name).stream(events))
    assert all(isinstance(call.name, str) and call.id and (call.name or call.error) for call in read)


@each_format
@pytest.mark.parametrize("other", formats.BUILT_IN)
def test_the_response_of_another_provider_contains_no_call_or_the_same_one(name, other):
    wire_format, sent = provider(other), [("c1", "ping", '{"a": 1}')]
    for response in (wire_format.response(sent), wire_format.events(sent), *parts(wire_format.response(sent))):
        read = formats.get(name).calls(response)
        assert all(call.error or (call.name, call.arguments) == ("ping", {"a": 1}) for call in read)


def parts(value: Any) -> list[Any]:
    """Return the objects and lists inside of JSON data, at any depth, but for a call's own arguments."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    found = [part for part in inner if isinstance(part, dict | list) and part != {"a": 1}]
    return [*found, *(deeper for part in found for deeper in parts(part))]


# recordings


def recorded(name: str, file: str) -> list[dict[str, Any]]:
    if not (CORPORA / file).exists():
        pytest.skip(f"the recordings are not here: {file}")
    with (CORPORA / file).open(encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if provider(name).is_ours(row)]


NOT_RECORDED = {"langchain", "ollama", "mcp", "prompt"}
"""Formats of which the corpus holds no response."""


@each_format
def test_every_recorded_response_yields_its_calls(name):
    responses = [row["response"] for row in recorded(name, "provider_tool_call_responses.jsonl")]
    assert bool(responses) is (name not in NOT_RECORDED)
    for response in responses:
        held = provider(name).recorded_calls(response)
        read = formats.get(name).calls(response)
        assert [(call.name, call.arguments, call.error) for call in read] == [(*call[1:], None) for call in held]
        assert all(call.id == call_id or call_id is None for call, (call_id, _, _) in zip(read, held, strict=True))
        messages = formats.get(name).results([(call, ToolResult(1)) for call in read])
        assert len(provider(name).result_texts(messages)) == len(held)


NOT_STREAMED = NOT_RECORDED | {"bedrock", "mistral"}
"""Formats of which the corpus holds no stream."""


@each_format
def test_every_recorded_stream_yields_its_calls(name):
    streams = [row["sse"] for row in recorded(name, "provider_tool_call_streams.jsonl")]
    assert bool(streams) is (name not in NOT_STREAMED)
    for text in streams:
        read = formats.get(name).calls(text)
        assert [(call.name, call.arguments, call.error) for call in read] == [
            (*call, None) for call in provider(name).recorded_stream_calls(events_of(text))
        ]


def events_of(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
