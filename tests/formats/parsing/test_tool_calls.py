"""Streams of many hosts: fragments that are interleaved, repeated, late or incomplete."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, Toolkit, formats
from ahvn_tools.formats import anthropic, langchain, mistral, ollama, openai, openai_responses, prompt

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


# repeats

WEATHER = [ToolDefinition(name="get_weather"), ToolDefinition(name="x"), ToolDefinition(name="y")]
AGAIN = '{"a": 1}'


@pytest.mark.parametrize(
    "deltas",
    [
        [delta(0, "c1", "x", "{}"), delta(0, arguments=AGAIN), SECOND],
        [delta(0, "c1", "x", "{}"), SECOND, delta(0, arguments='{"a"'), delta(0, arguments=": 1}")],
        [delta(0, "c1", "x", {}), SECOND, delta(0, "c1", "x", {"a": 1})],
        [delta(0, None, "x", "{}"), delta(0, None, "x", AGAIN), delta(0, None, "y", '{"b": 2}')],
        [FIRST, delta(0, arguments=AGAIN), SECOND],
        [FIRST, delta(0, arguments='{"a"'), delta(0, arguments=": 1}"), SECOND],
        [FIRST, delta(0, arguments='{"a"'), SECOND],
        [FIRST, delta(0, None, "x", AGAIN), SECOND],
        [FIRST, delta(None, None, "x", AGAIN), SECOND],
        [FIRST, delta(0, arguments=AGAIN), delta(0, None, "x", AGAIN), SECOND, SECOND, FIRST],
        [delta(0, None, "x", AGAIN), delta(0, None, "x", AGAIN), SECOND],
        [delta(0, "c1", "x", '{"a"'), delta(0, "c1", "x", '{"a": 1'), delta(0, "c1", "x", AGAIN), SECOND],
        [delta(0, "c1", "x", '{"a": 2}'), delta(0, arguments=AGAIN), SECOND],
        [delta(0, "same", "x", AGAIN), delta(0, "same", "y", '{"b": 2}')],
    ],
    ids=["placeholder", "late object", "objects", "placeholder, no ids", "again", "in parts", "cut off", "name",
         "name, no index", "often", "no ids", "growing", "replaced", "one id for all"],
)  # fmt: skip
def test_arguments_that_a_host_sends_again_replace_what_has_arrived(deltas):
    assert read(chunks(*deltas)) == [X, Y]
    assert [call.arguments for call in openai.calls(chunks(*deltas))] == [X[1], Y[1]]


@pytest.mark.parametrize(
    "deltas",
    [
        [FIRST, delta(1, "c2", "x", '{"a": 2}')],
        [FIRST, delta(0, "c2", "x", '{"a": 2}')],
        [delta(0, None, "x", AGAIN), delta(0, None, "x", '{"a": 2}')],
        [delta(None, None, "x", AGAIN), delta(None, None, "x", ""), delta(None, arguments='{"a": 2}')],
        [delta(0, None, "x", AGAIN), delta(0, None, "x", '{"a"'), delta(0, arguments=": 2}")],
        [delta(None, "c1", "x"), delta(None, "c2", "x"), delta(None, "c1", arguments=AGAIN),
         delta(None, "c2", arguments='{"a": 2}')],
    ],
    ids=["indices", "ids", "no ids", "no index, late", "no ids, in parts", "ids without indices"],
)  # fmt: skip
def test_two_calls_of_one_tool_with_different_arguments_are_two_calls(deltas):
    assert read(chunks(*deltas)) == [X, ("x", {"a": 2})]


def test_two_equal_calls_in_one_chunk_or_with_two_ids_are_two_calls():
    both = {"choices": [{"delta": {"tool_calls": [delta(None, None, "x", AGAIN)] * 2}, "finish_reason": "tool_calls"}]}
    assert read([both]) == [X, X]
    assert read(chunks(FIRST, delta(1, "c2", "x", AGAIN))) == [X, X]


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["get_", "weather"], "get_weather"),
        (["get", "_wea", "ther"], "get_weather"),
        (["get", "get_wea", "get_weather"], "get_weather"),
        (["get_", "get_", "weather"], "get_weather"),
        (["get_", "wether"], "get_"),
        (["x", "x"], "x"),
        (["x", "y"], "x"),
    ],
)
def test_a_name_in_parts_is_joined_if_the_whole_is_a_tool(names, name):
    deltas = [delta(0, "c1", names[0]), *[delta(0, None, part) for part in names[1:]], delta(0, arguments=AGAIN)]
    (call,) = openai.stream(chunks(*deltas), WEATHER)
    assert (call.name, call.id, call.arguments) == (name, "c1", {"a": 1})
    assert next(openai.stream(chunks(*deltas))).name == names[0]


OBJECTS = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.text('{}[]":,\\a', max_size=5) | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text('a{"', max_size=2), inner, max_size=2),
        max_leaves=4,
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def sent_texts(draw, arguments):
    """Draw the fragments of one call: split anywhere, and sent again in whole, as far as they go, or in part."""
    whole = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
    cuts = sorted(draw(st.sets(st.integers(1, len(whole) - 1), max_size=4)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    repeat = draw(st.sampled_from(["none", "growing", "whole", "in parts", "placeholder", "cut off"]))
    again = {
        "none": pieces,
        "growing": [whole[:end] for end in [*cuts, len(whole)]],
        "whole": [*pieces, whole],
        "in parts": [*pieces, *pieces],
        "placeholder": ["{}", *pieces],
        "cut off": [*pieces, *pieces[:-1]],
    }
    return [text for text in again[repeat] for _ in range(draw(st.integers(1, 2)) if text == whole else 1)]


@st.composite
def repeating_streams(draw):
    """Draw calls, and a stream of deltas in which the calls are interleaved and repeated."""
    expected = draw(st.lists(st.tuples(st.sampled_from("xy"), OBJECTS), min_size=1, max_size=3))
    queues = []
    for index, (name, arguments) in enumerate(expected):
        texts = draw(sent_texts(arguments))
        first = delta(index, f"c{index}", name, texts[0])
        rest = [delta(index, None, draw(st.sampled_from([None, name])), text) for text in texts[1:]]
        queues.append([first, *rest])
    order = draw(st.permutations([index for index, queue in enumerate(queues) for _ in queue[1:]]))
    deltas = [queue.pop(0) for queue in queues]
    return expected, [*deltas, *[queues[index].pop(0) for index in order]]


@given(repeating_streams())
def test_calls_do_not_depend_on_how_a_host_splits_and_repeats_them(drawn):
    expected, deltas = drawn
    assert sorted(read(chunks(*deltas)), key=repr) == sorted(expected, key=repr)


@given(OBJECTS.flatmap(lambda arguments: st.tuples(st.just(arguments), sent_texts(arguments))))
def test_other_formats_read_repeated_fragments_as_one_call(drawn):
    arguments, texts = drawn
    blocks = [start(0, "x", {}), *[fragment(0, text) for text in texts], stop(0), STOPPED]
    item = {"type": "function_call", "call_id": "c1", "name": "x", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    kind = "response.function_call_arguments.delta"
    items = [added, *[{"type": kind, "output_index": 0, "delta": text} for text in texts]]
    messages = [
        {"type": "AIMessageChunk", "content": "", "tool_call_chunks": [{"index": 0, "args": text, **named}]}
        for text, named in zip(texts, [{"id": "c1", "name": "x"}, *[{}] * (len(texts) - 1)], strict=True)
    ]
    for module, events in ((anthropic, blocks), (openai_responses, items), (langchain, messages)):
        assert read(events, module) == [("x", arguments)]


def test_a_whole_call_that_is_sent_again_is_no_second_call():
    block = [start(0, "x", {}), fragment(0, '{"a":1}'), start(0, "x", {}), stop(0)]
    assert read([*block, *block, STOPPED], anthropic) == [X]
    item = {"type": "function_call", "call_id": "c1", "name": "x", "arguments": AGAIN}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    assert read([done, done], openai_responses) == [X]
    call = {"id": "c1", "function": {"name": "x", "arguments": {"a": 1}}}
    assert read([{"message": {"tool_calls": [call]}}] * 2, ollama) == [X]
    assert read(chunks(FIRST, FIRST, delta(0, None, "x", AGAIN)), mistral) == [X]


def test_the_arguments_of_their_final_event_count():
    item = {"type": "function_call", "call_id": "c1", "name": "x", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    done = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": AGAIN}
    assert read([added, done], openai_responses) == [X]


CALL_TEXT = '{"name": "x", "parameters": {"a": 1}}'


@pytest.mark.parametrize(
    "texts",
    [
        ["{", CALL_TEXT[:9], CALL_TEXT[:20], CALL_TEXT],
        [CALL_TEXT[:9], CALL_TEXT[9:], CALL_TEXT],
        [CALL_TEXT[:9], CALL_TEXT[9:], f"I call it: {CALL_TEXT}"[11:]],
    ],
)
def test_a_text_that_is_sent_again_has_no_second_call(texts):
    assert read(texts, prompt) == [X]
    assert read([CALL_TEXT, ", ", CALL_TEXT], prompt) == [X, X]


# ids


def answers_without_ids(call_id):
    """Return an answer with two equal calls in each format; the ids of the calls are this value."""
    function = {"name": "x", "arguments": AGAIN}
    openai_call = {"id": call_id, "type": "function", "function": function}
    item = {"type": "function_call", "call_id": call_id, "name": "x", "arguments": AGAIN}
    block = {"type": "tool_use", "id": call_id, "name": "x", "input": {"a": 1}}
    use = {"toolUse": {"toolUseId": call_id, "name": "x", "input": {"a": 1}}}
    part = {"functionCall": {"id": call_id, "name": "x", "args": {"a": 1}}}
    call = {"type": "tool_call", "id": call_id, "name": "x", "args": {"a": 1}}
    return {
        "openai": {"role": "assistant", "tool_calls": [openai_call] * 2},
        "mistral": {"role": "assistant", "tool_calls": [openai_call] * 2},
        "ollama": {"role": "assistant", "tool_calls": [{**openai_call, "function": {**function, "arguments": {}}}] * 2},
        "openai-responses": {"output": [item] * 2},
        "anthropic": {"role": "assistant", "content": [block] * 2},
        "bedrock": {"output": {"message": {"role": "assistant", "content": [use] * 2}}},
        "gemini": {"candidates": [{"content": {"role": "model", "parts": [part] * 2}}]},
        "langchain": {"type": "ai", "content": "", "tool_calls": [call] * 2},
        "prompt": f"{CALL_TEXT}, {CALL_TEXT}",
    }


@pytest.mark.parametrize("call_id", ["", None, 7, 0, []], ids=repr)
@pytest.mark.parametrize("name", answers_without_ids(None))
def test_calls_without_ids_have_the_same_ids_at_each_read(name, call_id):
    answer = answers_without_ids(call_id)[name]
    module = formats.get(name)
    ids = [call.id for call in module.calls(answer)]
    assert len(set(ids)) == 2
    assert [call.id for call in module.calls(answer)] == ids
    text = answer if name == "prompt" else json.dumps(answer)
    assert [call.id for call in module.calls(text)] == ids
    run = Toolkit("kit").run(answer, format=name)
    written = module.message([call for call, _ in run.results])
    assert [call.id for call in module.calls(written)] == ids or name in {"gemini", "ollama", "prompt"}
    assert all(map(re.compile("[a-z0-9]{9}").fullmatch, ids)) or name != "mistral"


@pytest.mark.parametrize("call_id", ["", None], ids=repr)
def test_a_stream_without_ids_has_the_same_ids_at_each_read_and_other_ids_than_the_next_turn(call_id):
    def turn(number):
        return [{"id": f"chatcmpl-{number}", **chunk} for chunk in chunks(delta(0, call_id, "x", AGAIN))]

    for module in (openai, mistral):
        (first,), (again,), (listed,) = module.stream(turn(1)), module.stream(iter(turn(1))), module.calls(turn(1))
        assert first.id == again.id == listed.id
        assert next(module.stream(turn(2))).id != first.id


@pytest.mark.parametrize("field", ["id", "created"])
def test_equal_calls_of_two_answers_have_different_ids(field):
    answer = {"choices": [{"message": answers_without_ids("")["openai"], "finish_reason": "tool_calls"}]}
    ids = [call.id for number in (1, 2) for call in openai.calls({**answer, field: number})]
    assert len(set(ids)) == 4


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
