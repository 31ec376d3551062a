"""Every format writes calls down as the model's own message, from which it reads the same calls."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolCall, ToolDefinition, Toolkit, ToolResult, formats
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import detection
from ahvn_tools.formats.rendering.names import wire_name
from tests.formats.providers import provider
from tests.formats.test_contract import each_format, sample_formats
from tests.formats.test_properties import TEXTS, VALUES, no_deadline

NAMES = ["ping", "notes.add", "plant a tree", "1st", "größe/é", "x" * 80]
DEFINITIONS = [ToolDefinition(name=name) for name in NAMES]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"city": "Zürich 🌦", "quote": 'a "b" \\ {c} </tool>\n', "": ""},
    {"deep": {"list": [1, -0.5, None, True, [], {}, [{"name": "ping", "parameters": {}}]]}},
    {"tool_calls": [{"id": "c1"}], "type": "text", "content": "x"},
]
CALLS = [
    ToolCall(id=f"call{number:05}", name=name, arguments=ARGUMENTS[number % len(ARGUMENTS)])
    for number, name in enumerate(NAMES)
]

SENDS_NO_IDS = {"gemini", "prompt"}
"""The formats whose messages contain no id, unless the provider has set it."""


def same(name: str, calls: list[ToolCall]) -> list[ToolCall]:
    """Return the calls as the format reads them, without the ids that it cannot contain."""
    return [replace(call, wire_name=wire_name(call.name), id=kept_id(name, call)) for call in calls]


def kept_id(name: str, call: ToolCall) -> str:
    return "" if name in SENDS_NO_IDS and "id" not in call.provider else call.id


def read(name: str, messages: Any, definitions: list[ToolDefinition] = DEFINITIONS) -> list[ToolCall]:
    calls = formats.get(name).calls(messages, definitions)
    assert all(call.id and call.format == name for call in calls)
    return [replace(call, id=kept_id(name, call)) for call in calls]


def with_data(name: str) -> ToolCall:
    """Return a call with the provider data of a format."""
    data = call_data(name)
    return ToolCall(id=str(data["id"]) if name == "mcp" else "call00000", name="ping", provider=data)


def call_data(name: str) -> dict[str, Any]:
    return getattr(provider(name), "CALL_DATA", {})


# the law


@each_format
def test_the_calls_of_a_message_are_those_that_it_was_made_of(name):
    before = copy.deepcopy(CALLS)
    messages = formats.get(name).message(CALLS)
    for form in (messages, json.dumps(messages), json.dumps(messages, ensure_ascii=False).encode()):
        assert read(name, form) == same(name, CALLS)
    for call in CALLS:
        assert read(name, formats.get(name).message(iter([call]))) == same(name, [call])
    assert before == CALLS


@each_format
def test_provider_data_is_written_into_the_message(name):
    call = with_data(name)
    assert read(name, formats.get(name).message([call, *CALLS[1:]])) == same(name, [call, *CALLS[1:]])


@each_format
def test_a_call_that_was_read_is_written_as_it_came(name):
    response = provider(name).response([("call00001", "ping", '{"a": 1}'), ("call00002", "ping", "{}")])
    calls = formats.get(name).calls(response)
    again = formats.get(name).calls(formats.get(name).message(calls))
    if name == "prompt":
        again = [replace(call, id=first.id) for call, first in zip(again, calls, strict=True)]
    assert again == calls


few_examples = settings(no_deadline, max_examples=20)

TOOL_NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, unique_by=wire_name)


@st.composite
def written_calls(draw: Any) -> tuple[list[ToolDefinition], list[ToolCall]]:
    """Draw tools of any name, and calls of them with any JSON data."""
    names = draw(TOOL_NAMES)
    ids = draw(st.lists(st.from_regex(r"[a-zA-Z0-9]{9}", fullmatch=True), min_size=1, max_size=4, unique=True))
    arguments = st.dictionaries(TEXTS, VALUES, max_size=3)
    calls = [ToolCall(id=i, name=draw(st.sampled_from(names)), arguments=draw(arguments)) for i in ids]
    return [ToolDefinition(name=name) for name in names], calls


@sample_formats
@few_examples
@given(drawn=written_calls())
def test_calls_of_any_tool_with_any_arguments_are_read_back(name, drawn):
    definitions, calls = drawn
    assert read(name, formats.get(name).message(calls), definitions) == same(name, calls)


PROVIDER_TEXTS = st.text(st.characters(codec="ascii", exclude_characters="-_", min_codepoint=33), min_size=1)
"""Texts that are valid as ids and as signatures; Gemini's SDK writes `-` and `_` where Gemini writes `+` and `/`."""


@sample_formats
@few_examples
@given(data=st.data())
def test_any_provider_data_is_read_back(name, data):
    keys = sorted(call_data(name))
    values = PROVIDER_TEXTS if name == "gemini" else PROVIDER_TEXTS | st.dictionaries(TEXTS, VALUES, min_size=1)
    provider_data = {key: data.draw(values, key) for key in keys if key != "id" and key != "status"}
    if name == "gemini":
        provider_data["id"] = "call00000"
    if name == "mcp":
        provider_data["id"] = data.draw(st.integers())
    call = replace(with_data(name), provider=provider_data, id=str(provider_data.get("id", "call00000")))
    assert read(name, formats.get(name).message([call])) == same(name, [call])


# text


@each_format
def test_a_message_contains_the_text(name):
    if name == "mcp":
        with pytest.raises(ToolSpecError, match=r"contains no text of the model\. Leave `text` out\."):
            formats.get(name).message(CALLS, text="Let me see.")
        return
    messages = formats.get(name).message(CALLS, text="Let me see. 🌦")
    assert "Let me see. 🌦" in json.dumps(messages, ensure_ascii=False)
    assert read(name, messages) == same(name, CALLS)
    assert "Hello!" in json.dumps(formats.get(name).message([], text="Hello!"))


@each_format
@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_blank_text_is_no_part_of_a_message(name, text):
    module = formats.get(name)
    assert module.message([], text=text) == []
    assert module.message(CALLS, text=text) == module.message(CALLS)


# ids


@each_format
def test_a_missing_id_is_made_from_the_call_and_answered_under_it(name):
    module = formats.get(name)
    calls = [ToolCall(id="", name="ping", arguments=arguments) for arguments in ({}, {}, {"a": 1})]
    messages = module.message(calls)
    assert module.message(calls) == messages
    written = module.calls(messages)
    assert len({call.id for call in written}) == len(calls)
    by_read = module.results([(call, ToolResult(1)) for call in written])
    assert module.results([(call, ToolResult(1)) for call in calls]) == by_read


def test_an_id_of_another_provider_becomes_one_that_mistral_accepts():
    mistral = formats.get("mistral")
    calls = [ToolCall(id="toolu_01", name="ping"), ToolCall(id="call00001", name="ping"), ToolCall(id="7", name="ping")]
    (message,) = mistral.message(calls)
    ids = [item["id"] for item in message["tool_calls"]]
    assert [len(each) for each in ids] == [9, 9, 9]
    assert ids[1] == "call00001"
    assert [each["tool_call_id"] for each in mistral.results([(call, ToolResult(1)) for call in calls])] == ids
    assert all(each.isalnum() for each in ids)


@pytest.mark.parametrize("call_id", ["functions.ping:0", "x" * 65], ids=["characters", "length"])
@pytest.mark.parametrize(
    ("name", "valid"),
    [("anthropic", "[a-zA-Z0-9_-]+"), ("bedrock", "[a-zA-Z0-9_-]{1,64}"), ("openai", ".{1,40}"),
     ("openai-responses", ".{1,64}"), ("mistral", "[a-zA-Z0-9]{9}")],
)  # fmt: skip
def test_an_id_of_another_provider_becomes_one_that_is_accepted(name, valid, call_id):
    module = formats.get(name)
    (call,) = formats.get("ollama").calls({"tool_calls": [{"id": call_id, "function": {"name": "ping"}}]})
    calls = [replace(call, id=call_id)]
    (written,) = module.calls(module.message(calls))
    assert re.fullmatch(valid, written.id)
    assert written.id in json.dumps(module.results([(calls[0], ToolResult(1))]))
    assert (written.id == call_id) is bool(re.fullmatch(valid, call_id))
    own = replace(call, id=call_id, format=name)
    assert module.calls(module.message([own]))[0].id == call_id
    assert call_id in json.dumps(module.results([(own, ToolResult(1))]))


def test_an_id_that_a_host_of_mistral_has_sent_stays():
    mistral = formats.get("mistral")
    calls = mistral.calls({"tool_calls": [{"id": "call_0123456789", "function": {"name": "ping", "arguments": "{}"}}]})
    assert mistral.message(calls)[0]["tool_calls"][0]["id"] == "call_0123456789"
    assert mistral.results([(calls[0], ToolResult(1))])[0]["tool_call_id"] == "call_0123456789"


# other providers


@each_format
def test_a_call_of_another_provider_is_written_without_its_data(name):
    module = formats.get(name)
    for other in set(formats.BUILT_IN) - {name}:
        (call,) = formats.get(other).calls(formats.get(other).message([with_data(other)]))
        plain = replace(call, provider={}, format=None)
        assert module.message([call]) == module.message([plain])
        assert module.results([(call, ToolResult(1))]) == module.results([(plain, ToolResult(1))])
        assert [(each.name, each.arguments, each.error) for each in read(name, module.message([call]))] == [
            ("ping", {}, None)
        ]


# mistakes


def test_mistral_answers_an_older_function_call_of_openai_as_it_answers_any_call():
    older = {"role": "assistant", "content": None, "function_call": {"name": "ping", "arguments": "{}"}}
    (call,) = formats.get("openai").calls(older)
    ((item,),) = [message["tool_calls"] for message in formats.get("mistral").message([call])]
    assert formats.get("mistral").results([(call, ToolResult("pong"))]) == [
        {"role": "tool", "tool_call_id": item["id"], "name": "ping", "content": "pong"}
    ]


@each_format
def test_a_call_with_an_error_is_written_without_arguments(name):
    (call,) = formats.get(name).calls(provider(name).response([("call00001", "ping", "[1]")]))
    (again,) = formats.get(name).calls(formats.get(name).message([call]))
    assert (again.name, again.arguments, again.error) == ("ping", {}, None)


@each_format
def test_a_call_without_a_name_can_be_sent(name):
    (call,) = formats.get(name).calls(provider(name).response([("call00001", "", "{}")]))
    (again,) = formats.get(name).calls(formats.get(name).message([call]))
    assert again.name == wire_name("")


@each_format
def test_arguments_are_written_in_their_json_form(name):
    call = ToolCall(id="call00001", name="ping", arguments={"day": date(2026, 1, 2), "pair": (1, 2), "half": "\ud800"})
    (again,) = read(name, formats.get(name).message([call]))
    assert again.arguments == {"day": "2026-01-02", "pair": [1, 2], "half": "\ufffd"}


@each_format
@pytest.mark.parametrize("value", [object(), float("nan")], ids=["object", "nan"])
def test_arguments_without_a_json_form_are_refused(name, value):
    with pytest.raises(ToolSpecError, match=r"of a call of 'ping' have no JSON form\. Pass JSON data"):
        formats.get(name).message([ToolCall(id="c1", name="ping", arguments={"secret": value})])


@each_format
def test_other_objects_than_calls_are_refused(name):
    with pytest.raises(TypeError, match=r"contains ToolCalls, not a dict\. Pass `\[ToolCall\("):
        formats.get(name).message([{"id": "c1", "name": "ping"}])


@each_format
@pytest.mark.parametrize("calls", [ToolCall(id="c1", name="ping"), None, "ping"], ids=["call", "None", "text"])
def test_calls_that_are_no_list_are_refused(name, calls):
    with pytest.raises(TypeError, match=r"contains ToolCalls, not a \w+\. Pass `\[ToolCall\("):
        formats.get(name).message(calls)


@each_format
@pytest.mark.parametrize("arguments", [None, '{"city": "Oslo"}', ["Oslo"]], ids=["None", "text", "list"])
def test_arguments_that_are_no_object_are_refused(name, arguments):
    with pytest.raises(ToolSpecError, match=r"of a call of 'ping' are a \w+\. Pass a dict"):
        formats.get(name).message([ToolCall(id="c1", name="ping", arguments=arguments)])


@each_format
@pytest.mark.parametrize("text", [5, b"hello", ["hello"]], ids=["int", "bytes", "list"])
def test_a_text_that_is_no_string_is_refused(name, text):
    with pytest.raises(TypeError, match=r"text is a \w+\. Pass a str"):
        formats.get(name).message([], text=text)


# an answer of a model


@each_format
def test_a_message_is_an_answer_that_a_toolkit_runs(name):
    kit = Toolkit("notes")

    @kit.tool(name="notes.add")
    def add(text: str) -> str:
        """Add it."""
        return f"added {text}"

    answer = formats.get(name).message([ToolCall(id="call00001", name="notes.add", arguments={"text": "tea"})])
    run = kit.run(answer, format=name)
    assert [result.value for _, result in run.results] == ["added tea"]
    assert name == "prompt" or name in detection.matching_formats(answer)
    assert [call.format for call, _ in type(run).from_json(run.to_json()).results] == [name]


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "mistral", "openai"])
def test_a_history_is_no_answer(name):
    """The calls in a whole history were run already."""
    user = {"role": "user", "content": "Hello!"}
    assert formats.get(name).calls([user, *formats.get(name).message(CALLS)]) == []
