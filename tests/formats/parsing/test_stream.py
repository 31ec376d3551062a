"""Streams of all kinds of hosts: pieces that cross, come twice, late or without what they should say."""

from __future__ import annotations

import pytest

from ahvn_tools.formats import anthropic, mistral, openai, openai_responses

X, Y = ("x", {"a": 1}), ("y", {"b": 2})


def delta(index=None, call_id=None, name=None, arguments=None, **besides):
    """Return one of OpenAI's deltas, with what is given."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    named = {key: value for key, value in {"index": index, "id": call_id}.items() if value is not None}
    return {**named, "function": function, **besides}


def chunks(*deltas):
    """Return OpenAI's chunks, one a delta, and the one that finishes the choice."""
    sent = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in deltas]
    return [*sent, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]


def read(events, chosen=openai):
    return [(call.name, call.arguments) if call.error is None else call.error for call in chosen.stream(events)]


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
    ids=["crossing", "ids", "names", "no index", "names alone", "late name", "late id", "object", "type", "bad index"],
)  # fmt: skip
def test_calls_are_told_apart_by_whatever_a_host_says_of_them(deltas):
    assert read(chunks(*deltas)) == [X, Y]


@pytest.mark.parametrize(
    "again",
    [delta(0, arguments=""), delta(0, arguments="\n"), delta(0, "c1", "x", ""), delta(0, "c1", "x", '{"a": 1}'),
     delta(0, None, "x", "")],
    ids=["empty", "space", "with its name", "with everything", "without its id"],
)  # fmt: skip
def test_a_call_that_was_given_is_not_given_again(again):
    assert read(chunks(FIRST, SECOND, again)) == [X, Y]
    assert read(chunks(FIRST, delta(1, "c2", "y", '{"b"'), again, delta(1, arguments=": 2}"))) == [X, Y]


def test_calls_of_custom_tools_are_not_ours():
    custom = {"index": 0, "id": "c0", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    assert read(chunks(custom, delta(1, "c1", "x", '{"a": 1}'))) == [X]


def test_arguments_that_end_like_an_object_and_are_none_are_an_error():
    broken, whole = openai.stream(chunks(delta(0, "c0", "z", "{'a': 1}"), delta(1, "c1", "x", '{"a": 1}')))
    assert (broken.name, broken.arguments) == ("z", {})
    assert broken.error.startswith("The arguments are not JSON")
    assert (whole.arguments, whole.error) == ({"a": 1}, None)


def test_a_call_comes_as_soon_as_the_next_one_begins():
    events = iter(chunks(FIRST, SECOND))
    assert next(openai.stream(events)).id == "c1"
    assert len(list(events)) == 1


def test_an_id_that_comes_late_is_the_calls():
    (call,) = openai.stream(chunks(delta(0, None, "x", ""), delta(0, "c1", None, "{}")))
    assert call.id == "c1"


def test_what_a_later_piece_says_besides_is_kept():
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    (call,) = openai.stream(chunks(delta(0, "c1", "x", "{"), delta(0, arguments="}", **signed)))
    assert call.provider == signed


def test_the_events_of_openais_helper_have_their_chunk_inside():
    events = [{"type": "chunk", "chunk": each, "snapshot": {}} for each in chunks(FIRST, SECOND)]
    events.insert(1, {"type": "tool_calls.function.arguments.delta", "name": "x", "index": 0, "arguments": '{"a": 1}'})
    assert read(events) == [X, Y]


@pytest.mark.parametrize("chosen", [openai, mistral])
def test_thousands_of_calls_without_arguments_are_read(chosen):
    events = chunks(*[delta(number, f"c{number}", "x", "") for number in range(10_000)])
    assert read(events, chosen) == [("x", {})] * 10_000


# blocks


def start(index, name, given):
    block = {"type": "tool_use", "id": f"t{index}", "name": name, "input": given}
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index, text):
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


CLOSED = [stop(0), stop(1)]
STOPPED = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}


@pytest.mark.parametrize(
    "events",
    [
        [start(0, "x", {}), start(1, "y", {}), piece(0, "{"), piece(1, '{"b":2}'), piece(0, '"a":1}'), *CLOSED],
        [start(0, "x", {"a": 1}), piece(0, ""), stop(0), start(1, "y", {"b": 2}), piece(1, '{"b":2}'), stop(1)],
        [start([0], "x", {}), piece([0], '{"a":1}'), stop([0]), start(1, "y", {"b": 2}), stop(1)],
    ],
    ids=["crossing", "begun whole", "bad index"],
)  # fmt: skip
def test_blocks_are_told_apart_and_lose_nothing(events):
    assert read([*events, STOPPED], anthropic) == [X, Y]


# items


def test_calls_that_only_the_whole_response_tells_of_are_read():
    output = [{"type": "function_call", "call_id": "c1", "name": "x", "arguments": '{"a": 1}'}]
    over = {"type": "response.completed", "response": {"output": output}}
    begun = {"type": "response.output_item.added", "output_index": 0, "item": {**output[0], "arguments": ""}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": output[0]}
    for events in ([over], [begun, over], [begun, done, over]):
        assert read(events, openai_responses) == [X]
    assert [call.id for call in openai_responses.calls(over)] == ["c1"]


def test_a_call_of_which_nothing_came_to_an_end_is_not_run_and_keeps_what_was_said_besides():
    item = {"type": "function_call", "call_id": "c1", "name": "x", "arguments": "", "namespace": "crm"}
    begun = {"type": "response.output_item.added", "output_index": {}, "item": item}
    for events in ([begun], [begun, {"type": "response.completed", "response": {"output": []}}]):
        (call,) = openai_responses.stream(events)
        assert (call.arguments, call.provider) == ({}, {"namespace": "crm"})
        assert call.error.startswith("The call was cut off")
