"""Plain text: calls in the text of a model."""

from __future__ import annotations

import dataclasses
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.formats import prompt
from ahvn_tools.formats.parsing.text_calls import INVALID_CALL, TRUNCATED_CALL


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = ToolSpec.from_function(add, examples=[{"inputs": {"a": 1, "b": 2}}]).definition
PING = ToolDefinition(name="ping")
SHIP = ToolDefinition(name="parcels.ship", description="Ship it.")

CALL = '{"name": "add", "parameters": {"a": 1, "b": 2}}'
READ = [("add", {"a": 1, "b": 2}, None)]


def read(response: Any, definitions=()) -> list[tuple[str, dict[str, Any], str | None]]:
    return [(call.name, call.arguments, call.error) for call in prompt.calls(response, definitions)]


# export


def test_one_system_message_describes_the_tools_and_how_to_call_them():
    look = ToolDefinition(
        name="maps.look",
        description="Look at a place.",
        input_schema={"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        examples=[{"inputs": {"place": "Zürich"}, "note": "a city"}, {"inputs": {"place": "Elm"}, "expected": 7}],
    )
    (message,) = prompt.export([look, PING])
    assert message["role"] == "system"
    assert message["content"] == snapshot("""\
You can call these tools.

### maps_look_09fbcad2
Look at a place.
Parameters (JSON Schema): {"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}
Example (a city): {"name":"maps_look_09fbcad2","parameters":{"place":"Zürich"}}
Example: {"name":"maps_look_09fbcad2","parameters":{"place":"Elm"}}

### ping
Parameters (JSON Schema): {"type":"object","properties":{},"additionalProperties":false}

To call a tool, reply with JSON in this form and with nothing else:
{"name": "the tool's name", "parameters": {"parameter": "value"}}

- "name" is the name of a tool above. "parameters" is an object that matches its JSON Schema; it can be {}.
- To make several calls at once, write a list: [{"name": …, "parameters": …}, {"name": …, "parameters": …}]
- Write no text before or after the JSON, and no comments inside it. The next message contains the results.

If you do not need a tool, reply in plain text without such JSON.\
""")


def test_instructions_replace_the_text_about_calls():
    (message,) = prompt.export([ADD], instructions="Schreibe nur JSON.")
    assert message["content"].endswith("\n\nSchreibe nur JSON.")
    assert "To call a tool" not in message["content"]
    assert "Parameters (JSON Schema): " in message["content"]
    assert prompt.export([], instructions="x") == []


def test_examples_may_be_left_out():
    (message,) = prompt.export([ADD], examples=False)
    assert "Example" not in message["content"]


def test_strict_has_no_effect():
    assert prompt.export([ADD, SHIP], strict=True) == prompt.export([ADD, SHIP])


def test_a_repeated_definition_is_no_call():
    (message,) = prompt.export([ADD, PING])
    for line in message["content"].splitlines():
        assert "Example" in line or "parameters" in line or prompt.calls(line, [ADD, PING]) == []


# calls in whatever surrounds them


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"  \n{CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}```",
        f"```tool_call\n{CALL}\n```\nDone.",
        f"I add them. {CALL} That is all.",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"[{CALL}]",
        f"[[{CALL}]]",
        f'{{"tool_calls": [{CALL}]}}',
        f'Well: {{"function_call": {CALL}}}',
        f"Sets {{like this}} and {{ don't mind. {CALL}",
        f"{{{CALL}}}",
        f"<think>Maybe {CALL}? Or {{</think>{CALL}",
        f"Maybe {CALL}.\n</think>\n\n{CALL}",
        f"<think>{CALL}</think> <Thinking>{CALL}</Thinking> {CALL}",
        f'{{"city": "Rome"}} {CALL}',
        '{"type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}}',
        '{"tool": "add", "parameters": {"a": 1, "b": 2}}',
        '{"function": "add", "arguments": {"a": 1, "b": 2}}',
        '{"tool_name": "add", "parameters": {"a": 1, "b": 2}}',
        '{"function": {"name": "add"}, "parameters": {"a": 1, "b": 2}}',
        '{"name": "add", "function": {"arguments": {"a": 1, "b": 2}}}',
        '{"name": "add", "parameters": "{\\"a\\": 1, \\"b\\": 2}"}',
        '{"thought": "They ask for a sum.", "name": "add", "parameters": {"a": 1, "b": 2}, "id": 7}',
    ],
)
def test_a_call_is_found_anywhere_in_the_text(text):
    assert read(text) == READ
    assert read(text.encode()) == READ


@pytest.mark.parametrize("between", ["\n", ", ", " and then ", "\n```\n```json\n"])
def test_several_calls_come_in_order_with_new_ids(between):
    other = CALL.replace("1", "5")
    first, second, third = prompt.calls(between.join([CALL, other, CALL]))
    assert (first.arguments["a"], second.arguments["a"], third.arguments["a"]) == (1, 5, 1)
    assert len({first.id, second.id, third.id}) == 3
    assert all(call.id.startswith("call_") for call in (first, second, third))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The sum is 3.",
        '{"city": "Rome", "parameters": {"a": 1}}',
        '{"name": "Rome"}',
        '{"name": {"first": "Ann"}, "parameters": {}}',
        '{"name": null, "parameters": {}}',
        'Here it is: {"name": "Rome", "people": 3}.',
        "{'name': 'Rome', 'people': 3,}",
        f'{{"history": [{CALL}]}}',
        f'Cut off: {{"history": [{CALL}, {{"na',
        "A set {1, 2} and a list [1, 2",
        "f(x) = {x: x > 0}",
        f"<think>{CALL}</think>The sum is 3.",
        f"<think>I could {CALL}",
        "null",
        '"text"',
        "[" * 6 + CALL + "]" * 6,
    ],
)
def test_text_without_a_call_contains_none(text):
    assert prompt.calls(text) == []
    assert prompt.calls(text, [ADD, PING]) == []


def test_a_known_name_alone_is_a_call():
    assert read('{"name": "ping"}') == []
    assert read('{"name": "ping"}', [PING]) == [("ping", {}, None)]
    assert read('Now {"name": "ping", "parameters": null}') == [("ping", {}, None)]
    assert [call.name for call in prompt.stream(['{"name": ', '"ping"}'], [PING])] == ["ping"]


@pytest.mark.parametrize("word", ["params", "args", "input"])
def test_a_known_name_with_a_synonym_for_parameters_is_a_call(word):
    text = CALL.replace("parameters", word)
    assert read(text) == []
    assert read(text, [ADD]) == READ
    assert read(f"{text[:-1]},}}", [ADD]) == READ
    both = f'{{"name": "add", "parameters": {{"a": 1, "b": 2}}, "{word}": "the rest is data"}}'
    assert read(both, [ADD]) == READ


def test_a_name_with_markdown_escapes_is_recognized():
    assert read('{"name": "parcels\\_ship_650c0ead", "parameters": {}}', [SHIP]) == [("parcels.ship", {}, None)]


def test_an_unknown_name_is_a_call():
    assert read('{"name": "pong", "parameters": {}}', [PING]) == [("pong", {}, None)]


def test_arguments_under_two_keys_are_an_error():
    for text in (
        '{"name": "add", "parameters": {}, "arguments": {"a": 1}}',
        '{"function": {"name": "add", "parameters": {}}, "parameters": {"a": 1}}',
    ):
        ((name, arguments, error),) = read(text)
        assert (name, arguments) == ("add", {})
        assert error.startswith("The call contains its arguments twice.")


# calls with mistakes


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "add", "parameters": {"a": 1, "b": 2,},}',
        "{'name': 'add', 'parameters': {'a': 1, 'b': 2}}",
        "{name: 'add', parameters: {a: 1, b: 2}}",
        "{“name”: “add”, “parameters”: {“a”: 1, “b”: 2}}",
        '{"name": "add" "parameters": {"a": 1 "b": 2}}',
        '{"name": add, "parameters": {"a": 1, "b": 2}}',
        '{\n  // the tool\n  "name": "add", # it adds\n  "parameters": {"a": 1, /* first */ "b": 2}}',
        '{ /* the tool */ "name": "add", "parameters": {"a": 1, "b": 2}} // done',
        '```json\n{"name": "add", "parameters": {"a": 1, "b": 2}\n```',
        '{"name": "add", "parameters": {"a": 1, "b": 2}',
        '{"name": "add", "parameters": {"a": 1, "b": 2},\n</tool_call>',
        '{"tool_calls": [{"name": "add", "parameters": {"a": 1, "b": 2},}]}',
        '[{"name": "add", "parameters": {"a": 1, "b": 2},},',
    ],
)
def test_unambiguous_mistakes_are_repaired(text):
    assert read(text) == READ
    assert read(f"So: {text}") == READ


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'it\\'s'", "it's"),
        ("'it's fine'", "it's fine"),
        ('\'say "hi", x: "y"\'', 'say "hi", x: "y"'),
        ('"say \\"hi\\""', 'say "hi"'),
        ('"He said "hi" to me"', 'He said "hi" to me'),
        ('"line\\nbreak\\n"', "line\nbreak\n"),
        ('"line\nbreak\n"', "line\nbreak\n"),
        ('" same "', " same "),
        ('"a\\\\n\\\\"', "a\\n\\"),
        ('"C:\\path"', "C:\\path"),
        ('"\\u00fc \\ud83d\\ude00"', "ü 😀"),
        ('"// no # comment /* here */"', "// no # comment /* here */"),
        ('"} { ] [ ``` </x>"', "} { ] [ ``` </x>"),
        ("https://a.b/c", "https://a.b/c"),
        ("''", ""),
        ("[1.50, -2e3, 'x', [], {}]", [1.5, -2000.0, "x", [], {}]),
        ("(1, 2)", [1, 2]),
        ("[True, False, None, true, null]", [True, False, None, True, None]),
        ("[TRUE, FALSE, Null, NULL, nil, undefined]", [True, False, None, None, None, None]),
        ("a/None", "a/None"),
        ("None:x", "None:x"),
        ('"\\" + \\""', '" + "'),
        ("'Ann''", "Ann'"),
        ('{"name": "x", "parameters": {}}', {"name": "x", "parameters": {}}),
    ],
)
def test_a_repaired_call_has_the_original_values(written, meant):
    assert read(f'{{"name": "add", "parameters": {{"a": {written}, }}}}') == [("add", {"a": meant}, None)]


@given(
    st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.lists(st.text() | st.booleans()), min_size=1)
)
def test_strings_are_never_mistaken_for_structure(arguments):
    """A trailing comma sends every call through the repair; its strings contain anything."""
    whole = json.loads(json.dumps(arguments).encode("utf-8", "replace"))
    for is_ascii in (True, False):
        text = json.dumps({"name": "add", "parameters": whole}, ensure_ascii=is_ascii)
        assert read(text[:-1] + ",}") == [("add", whole, None)]
        assert read(f"Python: {text[:-2]},}} }} ") == [("add", whole, None)]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": , "b": 2}',
        '{"a": 1 + 2}',
        '{"a": 1_000}',
        '{"a": [1, 2:5]}',
        '{"a": [1,, 2]}',
        '{"a": [, 2]}',
        '{"a: [1], "b": 2}',
        '{"a\\": [1], "b": 2}',
        '{"a": "x" + "y"}',
        '{"a": "x\\\\" + "y"}',
        '{"a": "x" "y"}',
        "{'a': 'x' + 'y'}",
        "{'a': 'x' 'y'}",
        "{'a': '''x'''}",
        '{"a": [1, 2}',
        '{"a": `x`}',
        '{"a": """x"""}',
        '{"a": 0x10, ]}',
        "{...}",
        '{"a": ...}',
        '{"a": two words}',
        '{"a": s3cret, ]}',
        '{"a": \ue000}',
    ],
)
def test_a_call_with_ambiguous_arguments_is_an_error(arguments):
    ((name, found, error),) = read(f'I call {{"name": "add", "parameters": {arguments}}} now.')
    assert (name, found) == ("add", {})
    assert error == "The call is not valid JSON. Send it again as one complete JSON object."


# calls that were cut off


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("around", ["", "Well: ", "```json\n", "[", '{"tool_calls": ['])
@pytest.mark.default_cases(4)
def test_a_truncated_call_is_never_run(quote, around):
    text = json.dumps({"name": "add", "parameters": {"a": 12, "b": {"c": ["x", {"d": 34}]}, "e": "y, z"}})
    text = around + text.replace('"', quote)
    whole = [("add", {"a": 12, "b": {"c": ["x", {"d": 34}]}, "e": "y, z"}, None)]
    for end in range(len(text)):
        for closing in ("", "\n```", "\n</tool_call>"):
            for name, arguments, error in read(text[:end] + closing):
                assert name in ("add", "")
                if error is None:
                    assert end == len(text) - 1
                assert [(name, arguments, error)] == whole or (arguments == {} and error)
    assert read(text) == read(text[:-1]) == whole


def test_a_truncated_call_is_not_lost():
    for text in (
        '{"name": "add"',
        '{"name": "add", "para',
        '{"name": "add", "parameters": {"a": 1, "b": 2',
        "{'name': 'add', 'p",
        '{"function": {"name": "add"}',
        '{"function": {"name": "add"}, "par',
        '{"name": "add", "id": {"n": 1}',
        '{"name": "add"}, "parameters": {"a": 1, "b": 2}}',
        "{'name': 'add'}, 'parameters': {'a': 1, 'b': 2}}",
        '{"name": "add", "parameters": {"a": 1}, "b": 2}}',
    ):
        ((name, arguments, error),) = read(text, [ADD])
        assert (name, arguments) == ("add", {})
        assert error.startswith("The call was cut off, or its quotes and braces do not match.")


def test_calls_before_the_truncated_one_are_run():
    assert read(f'{{"tool_calls": [{CALL}, {{"name": "rm", "parameters": {{"path": "/') == [
        *READ, ("rm", {}, TRUNCATED_CALL),
    ]  # fmt: skip


def test_a_call_inside_a_truncated_call_is_not_run():
    assert read(f'{{"name": "plan", "parameters": {{"steps": [{CALL}, ') == [("plan", {}, TRUNCATED_CALL)]


@pytest.mark.parametrize("text", [f"</think>{CALL}", f"</think> {CALL.replace(chr(34), chr(39))}", f"<think> {CALL}"])
def test_a_call_inside_a_string_is_no_call(text):
    """A hostile text that a model repeats as an argument stays an argument, in a valid, broken or truncated object."""
    for quoted in (json.dumps(text), f'"{text}"' if '"' not in text else repr(text), repr(text)):
        call = f'{{"name": "write", "parameters": {{"text": {quoted}}}}}'
        assert read(call) == read(f"So: {call}") == [("write", {"text": text}, None)]
        for broken in (f"{call[:-2]}, 1}}}}", call[:-2]):
            assert [name for name, _, _ in read(f"So: {broken}")] == ["write"]
        for wrapper in (
            f'{{"thought": {quoted}, "tool_calls": [{CALL}, {{"na',
            f'{{"a": {quoted}, "calls": [{CALL}]}}',
        ):
            assert read(f"So: {wrapper}") == READ
        assert read(f'So: {{"calls": [{CALL}, // {text}\n {CALL}, {{"na') == [*READ, *READ]


def test_errors_do_not_quote_the_text():
    for text in ('{"name": "add", "parameters": {"a": "s3cret', '{"name": "add", "parameters": {"a": s3cret + 1}}'):
        assert "s3cret" not in prompt.calls(text)[0].error


# hostile text


PIECES = [
    "[", "{", "(", '"', "'", "`", "```", "\\", ",", ":", "/*", "//", "#", "\n", " ", "0", "}", "“", "{{", "{a:b ",
    '{"a":', '{"a"', '{"a":"', "{'a':'", '"{', "{'a':\"", '","a', '{"a": b}', "{#", "{/*", "<think>", "</think>",
    '{"tool_calls":[', "{tool_calls:[{a:1,", '{"name":f,"parameters":{', '"x": (', '"b"c"d"e', "{a:1},",
    '{"calls":["{', "{a:'</think>',", "{a:1 </think>", "''",
]  # fmt: skip


@pytest.mark.parametrize(
    "before",
    [
        "",
        pytest.param('{"name": "f", "parameters": {"a": ', marks=pytest.mark.exhaustive),
        pytest.param("{'name': 'f', 'parameters': {'a': ['", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_hostile_text_is_read_or_refused_in_time(before):
    for piece in PIECES:
        for after in ("", '"]}}'):
            text = before + (piece * 50_000)[:50_000] + after
            start = time.process_time()
            found = prompt.calls(text)
            assert time.process_time() - start < 10, piece  # under a second; the library alone would take minutes
            assert all(call.error for call in found if call.name == "f" and call.arguments == {})


def test_a_long_call_with_a_mistake_is_read():
    text = "All that 'it' says: {\"a\": [1, 2]}, and more.\n" * 2_000
    call = json.dumps({"name": "write", "parameters": {"text": text}})
    assert read(f"Here: {call[:-1]},}}") == [("write", {"text": text}, None)]


def test_an_object_over_the_repair_limit_is_refused():
    numbers = "[1], " * 5_000
    assert read(f'{{"name": "add", "parameters": {{"a": [{numbers}]}},}}') == [("add", {}, INVALID_CALL)]


@given(st.text(alphabet=st.sampled_from("{}[]():,\"'`\\/#*<>aname 1\n")))
def test_no_text_raises(text):
    for wild in (text, f'{{"name": "f", {text}', f'{{"name": "f", "parameters": {{{text}}}}}'):
        assert all(call.error is None or call.arguments == {} for call in prompt.calls(wild))


# where the text is


THINKING = {"type": "thinking", "thinking": CALL, "text": CALL}
ANSWERS = {
    "text": CALL,
    "OpenAI": {"choices": [{"index": 0, "message": {"role": "assistant", "content": CALL}}]},
    "OpenAI, second choice": {"choices": [{"message": {"content": "No."}}, {"message": {"content": CALL}}]},
    "OpenAI, parts": {"choices": [{"message": {"content": [{"type": "text", "text": CALL}]}}]},
    "completions": {"choices": [{"text": CALL}]},
    "Responses": {
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": CALL}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": CALL}]},
        ]
    },
    "Anthropic": {"type": "message", "role": "assistant", "content": [THINKING, {"type": "text", "text": CALL}]},
    "Anthropic, content": [THINKING, {"type": "text", "text": CALL}],
    "Anthropic, what a search found": {
        "content": [{"type": "web_search_tool_result", "content": [{"text": CALL}]}, {"type": "text", "text": CALL}]
    },
    "Gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": CALL, "thought": True}, {"text": CALL}]}}]
    },
    "Bedrock": {
        "output": {
            "message": {
                "role": "assistant",
                "content": [{"reasoningContent": {"reasoningText": {"text": CALL}}}, {"text": CALL}],
            }
        }
    },
    "Mistral": {
        "choices": [
            {
                "message": {
                    "content": [{"type": "thinking", "thinking": [{"text": CALL}]}, {"type": "text", "text": CALL}]
                }
            }
        ]
    },
    "Ollama": {"message": {"role": "assistant", "content": CALL, "thinking": CALL}, "done": True},
    "Ollama, completions": {"response": CALL},
    "LangChain": {"type": "ai", "content": CALL, "tool_calls": []},
    "an object with content": SimpleNamespace(content=CALL),
    "an object with parts": SimpleNamespace(
        content=[{"type": "text", "text": CALL[:9]}, {"type": "text", "text": CALL[9:]}]
    ),
    "pieces": [CALL[:9], CALL[9:]],
    "the call": json.loads(CALL),
    "the calls": [json.loads(CALL)],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_text_is_extracted_from_any_response(answer):
    assert read(answer) == READ


def test_messages_of_other_roles_are_not_the_models_text():
    for message in (
        {"role": "user", "content": CALL},
        {"role": "tool", "content": CALL},
        {"type": "human", "content": CALL},
    ):
        assert prompt.calls(message) == prompt.calls([message]) == []


def test_an_endlessly_nested_response_contains_no_text():
    answer: Any = CALL
    for _ in range(200):
        answer = {"content": [answer]}
    assert prompt.calls(answer) == []


STREAMS = {
    "pieces": lambda text: text,
    "OpenAI": lambda text: {
        "choices": [{"index": 0, "delta": {"content": text}}, {"index": 1, "delta": {"content": "{"}}]
    },
    "Responses": lambda text: {"type": "response.output_text.delta", "delta": text},
    "Anthropic": lambda text: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
    "Gemini": lambda text: {"candidates": [{"content": {"parts": [{"text": text}, {"text": "{", "thought": True}]}}]},
    "Bedrock": lambda text: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": text}}},
    "Mistral": lambda text: {"data": {"choices": [{"index": 0, "delta": {"content": text}}]}},
    "Ollama": lambda text: {"message": {"role": "assistant", "content": text, "thinking": "{"}, "done": False},
    "LangChain": lambda text: {"type": "AIMessageChunk", "content": text},
}
BESIDES = [
    {"choices": [], "usage": {}},
    {"type": "response.output_text.done", "text": CALL},
    {"type": "response.function_call_arguments.delta", "delta": "{"},
    {"type": "response.completed", "response": {"output": [{"type": "message", "content": [{"text": CALL}]}]}},
    {"type": "message_start", "message": {"content": []}},
    {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "{"}},
    {"contentBlockDelta": {"delta": {"reasoningContent": {"text": "{"}}}},
    None,
]


@pytest.mark.parametrize("event", STREAMS.values(), ids=STREAMS)
async def test_the_text_is_collected_from_the_events_of_any_stream(event):
    events = [*BESIDES, *map(event, f"Let me see: {CALL}"), *BESIDES]
    assert [(call.name, call.arguments, call.error) for call in prompt.stream(events)] == READ

    async def arriving():
        for each in events:
            yield each

    assert [(call.name, call.arguments, call.error) async for call in prompt.stream(arriving(), [ADD])] == READ


# results and choice


def test_results_are_distinguished_by_order_and_name():
    image = ImageContent(type="image", data="cG5n", mime_type="image/png")
    calls = prompt.calls(
        '{"name": "parcels_ship_650c0ead", "parameters": {}} {"name": "add", "parameters": {}}'
        '{"name": "", "parameters": {}}',
        [SHIP, ADD],
    )
    results = [
        ToolResult(blocks=(TextContent(type="text", text="Seen."), image)),
        ToolResult({"sum": 3}),
        ToolResult(error=ErrorDetail(code="invalid_parameters", message=str(calls[2].error))),
    ]
    assert prompt.results(zip(calls, results, strict=True)) == snapshot(
        [
            {
                "role": "user",
                "content": """\
Result of call 1, `parcels_ship_650c0ead`:
Seen.
[image (image/png), not shown]

Result of call 2, `add`:
{"sum": 3}

Result of call 3:
Error: The call does not name a tool. Send it again with the name of the tool.\
""",
            }
        ]
    )
    (message,) = prompt.results([(ToolCall(id="c1", name="parcels.ship"), ToolResult(1))])
    assert message["content"] == "Result of call 1, `parcels_ship_650c0ead`:\n1"


def test_a_choice_is_stated_in_a_message():
    said = [
        prompt.choice("auto", parallel=False),
        prompt.choice("none", parallel=False),
        prompt.choice("required", parallel=False),
        prompt.choice("parcels.ship", parallel=True),
        prompt.choice(["add", "ping"], definitions=[ADD, PING]),
    ]
    assert [message["content"] for choice in said for message in choice["messages"]] == snapshot(
        [
            "Make at most one call.",
            "Do not call a tool now. Reply in plain text.",
            "Now call at least one tool. Reply with the JSON only. Make at most one call.",
            "Now call the tool `parcels_ship_650c0ead`. Reply with the JSON only.",
            "Now call one of these tools: `add`, `ping`. Reply with the JSON only.",
        ]
    )


# a whole turn


def model(messages: list[dict[str, str]]) -> str:
    """Simulate a model without function calling: read the conversation, and reply in text."""
    told, asked, last = messages[0]["content"], messages[1]["content"], messages[-1]["content"]
    if last == asked:
        assert "### parcels_ship_650c0ead" in told
        call = "{'name': 'parcels_ship_650c0ead', 'parameters': {'to': 'Elm'}}"
        return f"Sure!\n```json\n[{call},\n {{'name': 'add', 'parameters': {{'a': 1}}}},]\n```"
    if "Result of call 2, `add`:\nError" in last:
        return '{"name": "add", "parameters": {"a": 1, "b": 2}}'
    return f"It is done: {last.rpartition(':')[2].strip()}."


def test_a_model_without_function_calling_uses_tools():
    def ship(to: str, key: str) -> str:
        """Ship a parcel."""
        return f"to {to} with {key}"

    specs = [ToolSpec.from_function(ship, name="parcels.ship").bind("key", default="k3y"), ToolSpec.from_function(add)]
    tools = {spec.name: spec for spec in specs}
    definitions = [spec.definition for spec in specs]
    messages = [*prompt.export(definitions), {"role": "user", "content": "Ship it, and add."}]
    assert "key" not in messages[0]["content"]
    ran = []
    while calls := prompt.calls(said := model(messages), definitions):
        pairs = [(call, dataclasses.replace(tools[call.name].exec(**call.arguments), id=call.id)) for call in calls]
        ran += [(call.name, result.is_error) for call, result in pairs]
        messages += [{"role": "assistant", "content": said}, *prompt.results(pairs)]
    assert said == "It is done: 3."
    assert ran == [("parcels.ship", False), ("add", True), ("add", False)]
