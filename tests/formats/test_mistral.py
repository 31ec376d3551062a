"""Mistral's Chat Completions: what differs from other formats."""

from __future__ import annotations

import re

import pytest

from ahvn_tools import ToolDefinition, ToolSpec
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import mistral, openai

OWN = re.compile(r"[a-zA-Z0-9]{9}")
NO_IDS = [{}, {"id": None}, {"id": ""}, {"id": "null"}]


def look(place: str, zoom: int = 2) -> str:
    """Look at a place."""
    return place


LOOK = ToolSpec.from_function(look).definition


def item(**fields) -> dict:
    return {"function": {"name": "look", "arguments": '{"place": "Rome"}'}, **fields}


@pytest.mark.parametrize("strict", [False, True])
def test_tools_are_the_same_as_openais(strict):
    definitions = [LOOK, ToolDefinition(name="ping")]
    assert mistral.export(definitions, strict=strict) == openai.export(definitions, strict=strict)


# calls


@pytest.mark.parametrize("arguments", ['{"place": "Rome"}', {"place": "Rome"}])
def test_arguments_are_text_or_an_object(arguments):
    (call,) = mistral.calls([{"id": "FI5qQGzDE", "function": {"name": "look", "arguments": arguments}}])
    assert (call.id, call.arguments) == ("FI5qQGzDE", {"place": "Rome"})


@pytest.mark.parametrize("no_id", NO_IDS)
def test_a_call_without_an_id_gets_one_that_mistral_accepts(no_id):
    first, second = mistral.calls({"tool_calls": [item(**no_id), item(**no_id)]})
    assert OWN.fullmatch(first.id)
    assert OWN.fullmatch(second.id)
    assert first.id != second.id


def test_an_id_of_another_host_is_unchanged():
    assert mistral.calls([item(id="call_0123456789")])[0].id == "call_0123456789"


def test_the_last_call_at_the_context_limit_is_truncated():
    calls = [item(id="aaaaaaaaa"), {"id": "bbbbbbbbb", "function": {"name": "look", "arguments": '{"pl'}}]
    choices = [{"index": 0, "finish_reason": "model_length", "message": {"tool_calls": calls}}]
    first, last = mistral.calls({"choices": choices})
    assert first.error is None
    assert last.error.startswith("The call was cut off")


# streams


def chunk(*deltas: dict, reason: str | None = None) -> dict:
    delta = {"role": "assistant", "content": "", "tool_calls": list(deltas)}
    return {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


@pytest.mark.parametrize("no_id", NO_IDS)
def test_calls_with_one_index_and_no_ids_are_distinguished(no_id):
    """Mistral's SDK puts index 0 and the id "null" where a delta has none."""
    chunks = [chunk(item(index=0, **no_id), item(index=0, **no_id)), chunk(item(index=0, **no_id), reason="tool_calls")]
    read = list(mistral.stream(chunks))
    assert [(call.arguments, call.error) for call in read] == [({"place": "Rome"}, None)] * 3
    assert len({call.id for call in read if OWN.fullmatch(call.id)}) == 3


def test_a_chunk_is_read_alone_or_as_the_data_of_an_event():
    chunks = [chunk(), chunk(item(id="aaaaaaaaa", index=0), reason="tool_calls")]
    (call,) = mistral.stream(chunks)
    assert call.id == "aaaaaaaaa"
    assert list(mistral.stream([{"data": part} for part in chunks])) == [call]


def test_calls_in_fragments_are_read_as_well():
    begun = {"index": 0, "id": "aaaaaaaaa", "function": {"name": "look", "arguments": '{"place": '}}
    rest = {"index": 0, "function": {"arguments": '"Rome"}'}}
    (call,) = mistral.stream([chunk(begun), chunk(rest), chunk(reason="tool_calls")])
    assert (call.id, call.arguments) == ("aaaaaaaaa", {"place": "Rome"})


def test_chunks_are_not_changed():
    delta = item(index=0)
    part = chunk(delta, reason="tool_calls")
    reader = mistral.ResponseReader()
    assert len(list(reader.feed(part))) == 1
    assert part == chunk(item(index=0), reason="tool_calls")


# results


# choice


def test_choices():
    one = {"tool_choice": {"type": "function", "function": {"name": "look"}}}
    assert mistral.choice("look") == mistral.choice(["look"]) == one
    assert mistral.choice("auto", parallel=True) == {"tool_choice": "auto", "parallel_tool_calls": True}


def test_a_choice_of_several_tools_is_refused():
    with pytest.raises(ToolSpecError, match=r"not one of \['look', 'ping'\]\. Export only these"):
        mistral.choice(["look", "ping"])
