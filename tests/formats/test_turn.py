"""What a conversation keeps of an answer: a stream gives the same turn as the whole answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolCall, Toolkit, ToolResult, formats
from ahvn_tools.formats.turn import Usage
from tests.formats.providers import provider

WITH_TURNS = [name for name in formats.BUILT_IN if hasattr(formats.get(name), "turn")]
CALLS = [("c1", "find", '{"topic": "tea"}'), ("c2", "find", "{}")]


def text_events(kind: str, key: str, *pieces: str, index: int = 0) -> list[dict[str, Any]]:
    deltas = [{"type": kind, key: piece} for piece in pieces]
    return [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def openai_chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}


def part_of(**part: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}


def bedrock_delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


DIRECT = {"type": "direct"}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"topic": "tea"}'}}
USAGE = {"prompt_tokens": 8, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
GEMINI_USAGE = {
    "promptTokenCount": 8, "candidatesTokenCount": 1, "thoughtsTokenCount": 1, "cachedContentTokenCount": 3,
}  # fmt: skip
FIND = {"id": "c1", "function": {"name": "find", "arguments": {"topic": "tea"}}}
TEXT_PART = {"type": "output_text", "text": "Let me see."}
REASONING = {"type": "reasoning", "id": "r", "summary": []}
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"topic": "tea"}'}
DETAIL = {"type": "reasoning.text", "format": "x", "index": 0}

STREAMS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "anthropic": (
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 3}}},
            begin(0, type="thinking", thinking="", signature=""),
            *text_events("thinking_delta", "thinking", "I ", "think."),
            *text_events("signature_delta", "signature", "c2ln"),
            begin(1, type="text", text="", citations=None),
            *text_events("text_delta", "text", "Let me ", "see.", index=1),
            {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {"url": "u"}}},
            begin(2, type="redacted_thinking", data="ZGF0YQ=="),
            begin(3, type="server_tool_use", id="s1", name="web_search", input={}),
            *text_events("input_json_delta", "partial_json", '{"query": ', '"tea"}', index=3),
            begin(4, type="tool_use", id="c1", name="find", input={}, caller=DIRECT),
            *text_events("input_json_delta", "partial_json", "", '{"topic":', ' "tea"}', index=4),
            begin(5, type="tool_use", id="c2", name="find", input={}),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ],
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I think.", "signature": "c2ln"},
                {"type": "text", "text": "Let me see.", "citations": [{"url": "u"}]},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tea"}},
                {"type": "tool_use", "id": "c1", "name": "find", "input": {"topic": "tea"}, "caller": DIRECT},
                {"type": "tool_use", "id": "c2", "name": "find", "input": {}},
            ],
            "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3},
        },
    ),
    "bedrock": (
        [
            {"messageStart": {"role": "assistant"}},
            bedrock_delta(0, reasoningContent={"text": "I "}),
            bedrock_delta(0, reasoningContent={"text": "think."}),
            bedrock_delta(0, reasoningContent={"signature": "c2ln"}),
            bedrock_delta(1, reasoningContent={"redactedContent": b"\x00\x01"}),
            bedrock_delta(2, text="Let me "),
            bedrock_delta(2, text="see."),
            {"contentBlockStart": {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "c1", "name": "find"}}}},
            bedrock_delta(3, toolUse={"input": '{"topic":'}),
            bedrock_delta(3, toolUse={"input": ' "tea"}'}),
            {"contentBlockStart": {"contentBlockIndex": 4, "start": {"toolUse": {"toolUseId": "c2", "name": "find"}}}},
            {"messageStop": {"stopReason": "tool_use"}},
            {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 3}}},
        ],
        {
            "output": {
                "message": {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "I think.", "signature": "c2ln"}}},
                        {"reasoningContent": {"redactedContent": b"\x00\x01"}},
                        {"text": "Let me see."},
                        {"toolUse": {"toolUseId": "c1", "name": "find", "input": {"topic": "tea"}}},
                        {"toolUse": {"toolUseId": "c2", "name": "find", "input": {}}},
                    ],
                }
            },
            "usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 3},
        },
    ),
    "gemini": (
        [
            part_of(text="I ", thought=True),
            part_of(text="think.", thought=True),
            part_of(text="Let me "),
            part_of(text="see."),
            part_of(functionCall={"name": "find", "args": {"topic": "tea"}}, thoughtSignature="c2ln"),
            part_of(functionCall={"name": "find", "args": {}}),
            part_of(text="", thoughtSignature="bGFzdA=="),
            {**part_of(text=""), "usageMetadata": GEMINI_USAGE},
        ],
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "I think.", "thought": True},
                            {"text": "Let me see."},
                            {"functionCall": {"name": "find", "args": {"topic": "tea"}}, "thoughtSignature": "c2ln"},
                            {"functionCall": {"name": "find", "args": {}}},
                            {"text": "", "thoughtSignature": "bGFzdA=="},
                        ],
                    }
                }
            ],
            "usage_metadata": {"prompt_token_count": 8, "candidates_token_count": 2, "cached_content_token_count": 3},
        },
    ),
    "openai": (
        [
            openai_chunk(role="assistant", content="", reasoning_content="I "),
            openai_chunk(reasoning_content="think.", reasoning_details=[{**DETAIL, "text": "I "}]),
            openai_chunk(reasoning_details=[{**DETAIL, "text": "think.", "signature": "c2ln"}], content="Let me "),
            openai_chunk(content="see."),
            openai_chunk(tool_calls=[{**CALL, "index": 0, "extra_content": {"google": {"thought_signature": "s"}}}]),
            openai_chunk("tool_calls"),
            {"choices": [], "usage": USAGE},
        ],
        {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": "Let me see.",
                        "reasoning_content": "I think.",
                        "reasoning_details": [{**DETAIL, "text": "I think.", "signature": "c2ln"}],
                        "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "s"}}}],
                        "refusal": None,
                        "annotations": [],
                    }
                }
            ],
            "usage": USAGE,
        },
    ),
    "mistral": (
        [
            {"data": openai_chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "I "}]}])},
            {"data": openai_chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "think."}]}])},
            {"data": openai_chunk(content="Let me ")},
            {"data": openai_chunk(content="see.")},
            {"data": {**openai_chunk("tool_calls", tool_calls=[{**CALL, "id": "abcdefghi"}]), "usage": USAGE}},
        ],
        {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]},
                            {"type": "text", "text": "Let me see."},
                        ],
                        "tool_calls": [{**CALL, "id": "abcdefghi"}],
                    }
                }
            ],
            "usage": USAGE,
        },
    ),
    "ollama": (
        [
            {"message": {"role": "assistant", "content": "", "thinking": "I "}, "done": False},
            {"message": {"role": "assistant", "content": "", "thinking": "think."}, "done": False},
            {"message": {"role": "assistant", "content": "Let me "}, "done": False},
            {"message": {"role": "assistant", "content": "see."}, "done": False},
            {"message": {"role": "assistant", "content": "", "tool_calls": [FIND]}, "done": False},
            {"message": {"role": "assistant", "content": ""}, "done": True, "prompt_eval_count": 8, "eval_count": 2},
        ],
        {
            "message": {
                "role": "assistant",
                "content": "Let me see.",
                "thinking": "I think.",
                "tool_calls": [FIND],
            },
            "done": True,
            "prompt_eval_count": 8,
            "eval_count": 2,
        },
    ),
    "openai-responses": (
        [
            {"type": "response.created", "response": {"output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
            {
                "type": "response.completed",
                "response": {
                    "output": [
                        {**REASONING, "encrypted_content": "c2ln", "status": None},
                        {"type": "message", "role": "assistant", "content": [{**TEXT_PART, "logprobs": None}]},
                        {**FUNCTION_CALL, "caller": None},
                    ],
                    "usage": {"input_tokens": 8, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 3}},
                },
            },
        ],
        {
            "output": [
                {**REASONING, "encrypted_content": "c2ln"},
                {"type": "message", "role": "assistant", "content": [TEXT_PART]},
                FUNCTION_CALL,
            ],
            "usage": {"input_tokens": 8, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 3}},
        },
    ),
}  # fmt: skip


def turn(name: str, answer: Any) -> Any:
    module = formats.get(name)
    return module.turn(answer, module.calls(answer))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_the_turn_of_the_whole_answer(name):
    events, whole = STREAMS[name]
    assert turn(name, events) == turn(name, whole)
    read = turn(name, whole)
    assert read.text == "Let me see."
    cached = 0 if name == "ollama" else 3
    assert read.usage == Usage(input_tokens=8, output_tokens=2, total_tokens=10, cached_tokens=cached)


@pytest.mark.parametrize("name", STREAMS)
def test_a_turn_has_all_that_the_model_has_sent_and_no_nulls(name):
    _, whole = STREAMS[name]
    messages = turn(name, whole).messages
    for word in ("c2ln", "I think.", "Let me see.", "ZGF0YQ==", "bGFzdA=="):
        assert (word in str(messages)) == (word in str(whole))
    assert "None" not in str(messages)
    assert "annotations" not in str(messages)


@pytest.mark.parametrize("name", sorted({*WITH_TURNS} - {"langchain", "prompt"}))
@pytest.mark.parametrize("form", ["response", "events"])
def test_the_calls_of_a_turn_are_those_of_the_answer(name, form):
    module, answer = formats.get(name), getattr(provider(name), form)(CALLS)
    calls = module.calls(answer)
    again = module.calls(turn(name, answer).messages)
    assert [(call.name, call.arguments) for call in again] == [(call.name, call.arguments) for call in calls]
    assert [call.id for call in again] == [call.id for call in calls] or name in {"gemini", "ollama"}
    json.dumps(turn(name, answer).messages)


@pytest.mark.parametrize("name", ["openai", "mistral"])
def test_a_call_without_an_id_has_that_of_its_result(name):
    module = formats.get(name)
    answer = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": ""}]}}]}
    (call,) = module.calls(answer)
    assert turn(name, answer).messages[0]["tool_calls"][0]["id"] == call.id


@pytest.mark.parametrize("name", ["openai", "mistral"])
def test_arguments_that_cannot_be_read_are_sent_back_as_none(name):
    """Hosts that parse them would refuse each later request."""
    broken = {**CALL, "id": "abcdefghi", "function": {"name": "find", "arguments": '{"topic": "te'}}
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hm.", "tool_calls": [broken, CALL]}}]}
    first, second = turn(name, answer).messages[0]["tool_calls"]
    assert (first["id"], first["function"]["arguments"]) == ("abcdefghi", "{}")
    assert json.loads(second["function"]["arguments"]) == {"topic": "tea"}


def test_a_call_in_the_older_field_is_written_in_it_again():
    answer = {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": "{}"}}
    assert turn("openai", answer).messages[0]["function_call"] == {"name": "find", "arguments": "{}"}
    assert "tool_calls" not in turn("openai", answer).messages[0]


def test_calls_of_custom_tools_stay_in_the_turn():
    custom = {"id": "c0", "type": "custom", "custom": {"name": "grep", "input": "tea"}}
    answer = {"role": "assistant", "content": None, "tool_calls": [custom, {**CALL, "id": ""}]}
    first, second = turn("openai", answer).messages[0]["tool_calls"]
    assert first == custom
    assert second["id"].startswith("call_")


@pytest.mark.parametrize("name", ["openai", "mistral", "ollama"])
def test_an_empty_list_of_calls_is_not_sent_back(name):
    """OpenAI refuses it."""
    message = {"role": "assistant", "content": "Hello!", "tool_calls": []}
    assert turn(name, {"choices": [{"message": message}], "message": message, "done": True}).messages == [
        {"role": "assistant", "content": "Hello!"}
    ]


def test_an_audio_answer_is_sent_back_by_its_id():
    answer = {"role": "assistant", "content": None, "audio": {"id": "a1", "data": "AAAA", "transcript": "Hi"}}
    assert turn("openai", answer).messages == [{"role": "assistant", "content": None, "audio": {"id": "a1"}}]


def test_a_call_that_gemini_sends_in_pieces_is_one_part():
    begun = {"name": "find", "willContinue": True}
    path = {"jsonPath": "$.topic", "stringValue": "tea"}
    events = [
        part_of(functionCall=begun, thoughtSignature="c2ln"),
        part_of(functionCall={"partialArgs": [path], "willContinue": True}),
        part_of(functionCall={}),
    ]
    call = {"functionCall": {"name": "find", "args": {"topic": "tea"}}, "thoughtSignature": "c2ln"}
    assert turn("gemini", events).messages == [{"role": "model", "parts": [call]}]


EMPTY = {
    "anthropic": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": " \n"}]},
    "bedrock": {"output": {"message": {"role": "assistant", "content": [{"text": ""}]}}},
    "gemini": {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
    "mistral": {"choices": [{"message": {"role": "assistant", "content": ""}}]},
    "ollama": {"message": {"role": "assistant", "content": ""}, "done": True},
    "openai": {"choices": [{"message": {"role": "assistant", "content": None}}]},
    "openai-responses": {"output": []},
    "prompt": "",
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_answer_adds_no_message(name):
    """Providers refuse an empty message in the next request."""
    assert turn(name, EMPTY[name]).messages == []


def test_text_of_a_call_that_is_cut_off_leaves_valid_arguments():
    events = [
        begin(0, type="tool_use", id="c1", name="find", input={}),
        *text_events("input_json_delta", "partial_json", '{"topic": "te'),
    ]
    assert turn("anthropic", events).messages[0]["content"][0]["input"] == {}


def test_a_written_call_is_no_turn_of_its_own():
    """`message` writes calls that a program has made; `turn` keeps those that a model has sent."""
    (message,) = formats.get("openai").message([ToolCall(id="c1", name="find", arguments={"topic": "tea"})])
    assert turn("openai", message).messages == [message]


ARGUMENTS = st.dictionaries(st.sampled_from(["topic", "number"]), st.text(max_size=5) | st.integers(-9, 9), max_size=2)
TURNS = st.lists(st.lists(ARGUMENTS, min_size=1, max_size=3), max_size=4)
STREAMED = sorted({name for name in WITH_TURNS if hasattr(provider(name), "events")} - {"prompt", "langchain"})


def find(topic: str = "", number: int = 0) -> str:
    """Find a note."""
    return f"{topic} {number}"


@pytest.mark.parametrize("name", STREAMED)
@given(turns=TURNS)
@settings(max_examples=20, deadline=None)
def test_a_streamed_conversation_makes_the_same_calls_as_a_whole_one(name, turns):
    """A law: each call is run and answered once, whatever form the answers have. A stream ends with its empty calls."""
    kit, last = Toolkit("notes").add(find), provider(name).response([])
    answers = [
        [(f"call{number}{index}", "find", json.dumps(arguments)) for index, arguments in enumerate(turn)]
        for number, turn in enumerate(turns)
    ]
    made = []
    for form in (provider(name).response, lambda calls: iter(provider(name).events(calls))):
        left = iter([*map(form, answers), last])
        results: list[ToolResult] = []
        for event in kit.stream_converse(lambda messages, tools, left=left: next(left), "Go.", format=name):
            results += [event] if isinstance(event, ToolResult) else []
        assert (event.stop_reason, event.turns) == ("answered", len(turns) + 1)
        made.append(sorted((str(result.value), result.is_error) for result in results))
    assert made[0] == made[1]
    assert len(made[0]) == sum(map(len, turns))
