"""Streams of many hosts: fragments that are interleaved, repeated, late or incomplete."""

from __future__ import annotations

import pytest

from ahvn_tools.formats import anthropic, mistral, openai, openai_responses

X, Y = ("x", {"a": 1}), ("y", {"b": 2})


def delta(index=None, call_id=None, name=None, arguments=None, **fields):
    """Return one of OpenAI's deltas with the fields that are not None."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    named = {key: value for key, value in {"index": index, "id": call_id}.items() if value is not None}
    return {**named, "function": function, **fields}


def chunks(*deltas):
    """Return OpenAI's chunks, one a delta, and the one that finishes the choice."""
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in deltas]
    return [*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]


def read(events, module=openai):
    return [(call.name, call.arguments) if call.error is None else call.error for call in module.stream(events)]


FIRST, SECOND = delta(0, "c1", "x", '{"a": 1}'), delta(1, "c2", "y", '{"b": 2}')


@pytest.mark.parametrize(
    "deltas",
    [
        [delta(0, "c1", "x", "{"), delta(1, "c2", "y"), delta(0, arguments='"a": 1}'), delta(1, arguments='{"b": 2}')],
        [delta(0, "c1", "x", '{"a": 1}'), delta(0, "c2", "y", '{"b": 2}')],
        [delta(0, None, "x", '{"a": 1}'), delta(0, None, "y", '{"b": 2}')],
        [delta(None, "c1", "x", '{"a": 1}'), delta(None, "c2", "y", '{"b": 2}')],
        [delta(None, None, "x", '{"a": 1}'), delta(None, None, "y", '{"b": 2}')],
        [delta(0, "c1"), delta(0, None, "x", '{"a": 1}'), SECOND],
        [delta(0, None, "x", ""), delta(0, "c1", None, '{"a": 1}'), SECOND],
        [delta(0, "c1", "x", ""), delta(0, arguments={"a": 1}), SECOND],
        [delta(0, "c1", "x", '{"a": 1}', type=""), SECOND],
        [delta([0], "c1", "x", '{"a": 1}'), SECOND],
    ],
    ids=["interleaved", "ids", "names", "no index", "names only", "late name", "late id", "object", "type",
         "bad index"],
)  # fmt: skip
def test_calls_are_distinguished_by_index_id_or_name(deltas):
    assert read(chunks(*deltas)) == [X, Y]


@pytest.mark.parametrize(
    "again",
    [delta(0, arguments=""), delta(0, arguments="\n"), delta(0, "c1", "x", ""), delta(0, "c1", "x", '{"a": 1}'),
     delta(0, None, "x", "")],
    ids=["empty", "space", "with its name", "with everything", "without its id"],
)  # fmt: skip
def test_an_emitted_call_is_not_emitted_again(again):
    assert read(chunks(FIRST, SECOND, again)) == [X, Y]
    assert read(chunks(FIRST, delta(1, "c2", "y", '{"b"'), again, delta(1, arguments=": 2}"))) == [X, Y]


def test_calls_of_custom_tools_are_left_out():
    custom = {"index": 0, "id": "c0", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    assert read(chunks(custom, delta(1, "c1", "x", '{"a": 1}'))) == [X]


def test_invalid_arguments_that_end_with_a_brace_are_an_error():
    broken, whole = openai.stream(chunks(delta(0, "c0", "z", "{'a': 1}"), delta(1, "c1", "x", '{"a": 1}')))
    assert (broken.name, broken.arguments) == ("z", {})
    assert broken.error.startswith("The arguments are not valid JSON")
    assert (whole.arguments, whole.error) == ({"a": 1}, None)


def test_a_call_comes_as_soon_as_the_next_one_begins():
    events = iter(chunks(FIRST, SECOND))
    assert next(openai.stream(events)).id == "c1"
    assert len(list(events)) == 1


def test_a_late_id_belongs_to_the_call():
    (call,) = openai.stream(chunks(delta(0, None, "x", ""), delta(0, "c1", None, "{}")))
    assert call.id == "c1"


def test_provider_data_of_later_fragments_is_preserved():
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    (call,) = openai.stream(chunks(delta(0, "c1", "x", "{"), delta(0, arguments="}", **signed)))
    assert call.provider == signed


def test_the_events_of_openais_helper_contain_their_chunk():
    events = [{"type": "chunk", "chunk": each, "snapshot": {}} for each in chunks(FIRST, SECOND)]
    events.insert(1, {"type": "tool_calls.function.arguments.delta", "name": "x", "index": 0, "arguments": '{"a": 1}'})
    assert read(events) == [X, Y]


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", [openai, mistral])
def test_thousands_of_calls_without_arguments_are_read(module):
    events = chunks(*[delta(number, f"c{number}", "x", "") for number in range(10_000)])
    assert read(events, module) == [("x", {})] * 10_000


# blocks


def start(index, name, arguments):
    block = {"type": "tool_use", "id": f"t{index}", "name": name, "input": arguments}
    return {"type": "content_block_start", "index": index, "content_block": block}


def fragment(index, text):
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


STOPS = [stop(0), stop(1)]
STOPPED = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}


@pytest.mark.parametrize(
    "events",
    [
        [start(0, "x", {}), start(1, "y", {}), fragment(0, "{"), fragment(1, '{"b":2}'), fragment(0, '"a":1}'), *STOPS],
        [start(0, "x", {"a": 1}), fragment(0, ""), stop(0), start(1, "y", {"b": 2}), fragment(1, '{"b":2}'), stop(1)],
        [start([0], "x", {}), fragment([0], '{"a":1}'), stop([0]), start(1, "y", {"b": 2}), stop(1)],
    ],
    ids=["interleaved", "complete start", "bad index"],
)  # fmt: skip
def test_blocks_are_distinguished_and_complete(events):
    assert read([*events, STOPPED], anthropic) == [X, Y]


# items


def test_calls_that_only_the_final_response_contains_are_read():
    output = [{"type": "function_call", "call_id": "c1", "name": "x", "arguments": '{"a": 1}'}]
    completed = {"type": "response.completed", "response": {"output": output}}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**output[0], "arguments": ""}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": output[0]}
    for events in ([completed], [added, completed], [added, done, completed]):
        assert read(events, openai_responses) == [X]
    assert [call.id for call in openai_responses.calls(completed)] == ["c1"]


def test_a_call_without_a_final_event_is_an_error_with_its_provider_data():
    item = {"type": "function_call", "call_id": "c1", "name": "x", "arguments": "", "namespace": "crm"}
    added = {"type": "response.output_item.added", "output_index": {}, "item": item}
    for events in ([added], [added, {"type": "response.completed", "response": {"output": []}}]):
        (call,) = openai_responses.stream(events)
        assert (call.arguments, call.provider) == ({}, {"namespace": "crm"})
        assert call.error.startswith("The call was cut off")
