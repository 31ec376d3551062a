"""Who may call tools, and calls from programs in the sandboxes of providers: exports, calls and results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ImageContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import DefinitionError, ToolLookupError, ToolSpecError
from ahvn_tools.formats import anthropic, gemini, langchain, openai_responses
from tests.formats import rules

VERSION = "code_execution_20260120"
NEWEST = "code_execution_20260521"
OLDER = "code_execution_20250825"
TWO = [ToolDefinition(name="a.a"), ToolDefinition(name="b")]
TREE = ToolDefinition(
    name="plant",
    input_schema={
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": {"type": "object", "properties": {"branch": {"$ref": "#/$defs/Tree"}}}},
    },
)
BY_PROGRAM = {"caller": {"type": VERSION, "tool_id": "srvtoolu_1"}}
BY_OPENAI_PROGRAM = {"caller": {"type": "program", "caller_id": "call_1"}}


def callers(export):
    return [tool.get("allowed_callers") for tool in export]


@pytest.mark.parametrize(
    ("allowed", "options", "expected"),
    [
        (["direct", "programmatic"], {}, ["direct", VERSION]),
        ("programmatic", {"code_execution": True}, [VERSION]),
        ("programmatic", {"code_execution": NEWEST}, [NEWEST]),
        ([VERSION, "programmatic"], {"code_execution": True}, [VERSION]),
        ([VERSION], {"code_execution": NEWEST}, [VERSION]),
        ("programmatic", {"code_execution": OLDER}, [OLDER]),
    ],
    ids=["both", "default", "newest", "once", "interchangeable", "older"],
)
def test_anthropic_gets_the_version_that_runs_programs(allowed, options, expected):
    tools = anthropic.export(TWO, allowed_callers=allowed, **options)
    assert callers(tools)[:2] == [expected, expected]


@pytest.mark.parametrize("module", [anthropic, openai_responses])
def test_callers_can_be_set_for_single_tools(module):
    tools = module.export(TWO, allowed_callers={"a.a": ["direct"]})
    assert callers(tools) == [["direct"], None]


@pytest.mark.parametrize("module", [anthropic, openai_responses])
@pytest.mark.parametrize(
    ("allowed", "error", "message"),
    [
        ({"c": "direct"}, ToolLookupError, "no tool 'c' in this export"),
        (["directly"], ToolSpecError, "no caller 'directly'. Did you mean 'direct'"),
        ({"b": [1]}, ToolSpecError, "no caller 1"),
        ([], ToolSpecError, "names no caller"),
        (["code_execution_20990101"], ToolSpecError, "no caller 'code_execution_20990101'"),
    ],
    ids=["unknown tool", "unknown caller", "no text", "empty", "unknown version"],
)
def test_what_is_no_tool_and_no_caller_is_refused(module, allowed, error, message):
    with pytest.raises(error, match=message):
        module.export(TWO, allowed_callers=allowed)


def test_openai_does_not_know_anthropics_callers():
    with pytest.raises(ToolSpecError, match="no caller"):
        openai_responses.export(TWO, allowed_callers=[VERSION])


@pytest.mark.parametrize("version", ["code_execution_20250522", "code_execution", ""])
def test_a_version_whose_programs_call_no_tools_is_refused(version):
    with pytest.raises(ToolSpecError, match="no code execution"):
        anthropic.export(TWO, code_execution=version)


def test_a_caller_of_another_runtime_is_refused():
    with pytest.raises(ToolSpecError, match=f"no caller '{OLDER}'"):
        anthropic.export(TWO, allowed_callers=[OLDER], code_execution=True)


def test_the_providers_own_tool_is_the_last():
    assert anthropic.export(TWO, code_execution=True)[2:] == [{"type": VERSION, "name": "code_execution"}]
    assert openai_responses.export(TWO, programmatic_tool_calling=True)[2:] == [{"type": "programmatic_tool_calling"}]
    assert anthropic.export([], code_execution=NEWEST) == [{"type": NEWEST, "name": "code_execution"}]


def test_everything_up_to_the_providers_own_tool_is_cached():
    tools = anthropic.export(TWO, code_execution=True, defer_loading=True, cache_control={"type": "ephemeral"})
    assert [tool.get("cache_control") for tool in tools] == [None, None, {"type": "ephemeral"}]


def test_a_tool_with_the_name_of_the_providers_own_is_refused():
    with pytest.raises(DefinitionError, match="both be called 'code_execution'"):
        anthropic.export([ToolDefinition(name="code_execution")], code_execution=True)


def test_strict_tools_for_programs_alone_are_refused():
    with pytest.raises(ToolSpecError, match="refuses strict tools that programs call"):
        anthropic.export(TWO, strict=True, allowed_callers=["direct", "programmatic"])


def test_strict_without_any_tool_is_no_error():
    assert anthropic.export([], strict=True, allowed_callers=["programmatic"]) == []


def test_beside_tools_for_programs_the_others_stay_strict():
    tools = anthropic.export(TWO, strict=True, allowed_callers={"b": "programmatic"})
    assert [tool["strict"] for tool in tools] == [True, False]
    tools = openai_responses.export(TWO, strict=True, allowed_callers=["programmatic"])
    assert [tool["strict"] for tool in tools] == [True, True]


def test_a_recursive_tool_is_for_the_model_alone():
    tools = anthropic.export([TREE, *TWO], allowed_callers=["direct", "programmatic"])
    assert callers(tools) == [["direct"], ["direct", VERSION], ["direct", VERSION]]
    assert callers(anthropic.export([TREE, *TWO], allowed_callers={"b": "programmatic"})) == [None, None, [VERSION]]
    with pytest.raises(ToolSpecError, match="programs that call 'plant', because its schema is recursive"):
        anthropic.export([TREE], allowed_callers=["programmatic"])
    assert callers(openai_responses.export([TREE], allowed_callers=["programmatic"])) == [["programmatic"]]


@pytest.mark.parametrize("name", ["anthropic", "openai-responses"])
def test_the_export_is_as_the_providers_rules_say(name):
    for allowed in (["direct", "programmatic"], {"b": "programmatic"}):
        assert rules.linter(name)(formats.get(name).export(TWO, allowed_callers=allowed), False) == []


@pytest.mark.parametrize(
    ("provider", "caller"),
    [
        ({}, "direct"),
        ({"caller": None}, "direct"),
        ({"caller": {"type": "direct"}}, "direct"),
        (BY_PROGRAM, "programmatic"),
        ({"caller": {"type": NEWEST, "tool_id": "s"}}, "programmatic"),
        (BY_OPENAI_PROGRAM, "programmatic"),
        ({"caller": {"type": "browser"}}, "browser"),
        ({"caller": {}}, "direct"),
        ({"caller": {"tool_id": "s"}}, "{'tool_id': 's'}"),
        ({"caller": "someone"}, "someone"),
        ({"caller": {"type": 7}}, "7"),
        ({"caller": ["direct"]}, "['direct']"),
    ],
)
def test_a_call_says_who_calls(provider, caller):
    assert ToolCall(id="c1", name="a", provider=provider).caller == caller


EVENTS = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t1", "name": "b", "input": {}, **BY_PROGRAM},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"x": 1}'}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
]
MESSAGE = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "…"}},
        {"type": "tool_use", "id": "t1", "name": "b", "input": {"x": 1}, **BY_PROGRAM},
        {"type": "code_execution_tool_result", "tool_use_id": "s0", "content": {"type": "code_execution_result"}},
        {"type": "container_upload", "file_id": "f1"},
    ],
}


@pytest.mark.parametrize("answer", [MESSAGE, EVENTS, MESSAGE["content"]], ids=["message", "events", "content"])
def test_anthropics_call_has_its_caller_in_every_form(answer):
    [call] = anthropic.calls(answer)
    assert (call.arguments, call.provider, call.caller) == ({"x": 1}, BY_PROGRAM, "programmatic")
    assert anthropic.looks_like(answer)


TOOL_USE = {"type": "tool_use", "id": "t1", "name": "b", "input": {"x": 1}, "index": 0, **BY_PROGRAM}
LANGCHAIN_CALL = {"type": "tool_call", "id": "t1", "name": "b", "args": {"x": 1}}
LANGCHAIN = {
    "anthropic": {"type": "ai", "content": [TOOL_USE], "tool_calls": [LANGCHAIN_CALL]},
    "openai": {
        "type": "ai",
        "content": [{"type": "function_call", "id": "fc1", "call_id": "t1", **BY_PROGRAM}],
        "tool_calls": [LANGCHAIN_CALL],
    },
    "standard": {"type": "ai", "content": [{**LANGCHAIN_CALL, "extras": BY_PROGRAM}], "tool_calls": [LANGCHAIN_CALL]},
    "content": {"type": "ai", "content": [{**LANGCHAIN_CALL, "extras": BY_PROGRAM}]},
    "call": [{**LANGCHAIN_CALL, "extras": BY_PROGRAM}],
    "chunks": [
        {
            "type": "AIMessageChunk",
            "content": [{**TOOL_USE, "input": {}}],
            "tool_call_chunks": [{"id": "t1", "name": "b", "args": "", "index": 0}],
        },
        {
            "type": "AIMessageChunk",
            "content": [{"type": "input_json_delta", "partial_json": '{"x": 1}', "index": 0}],
            "tool_call_chunks": [{"id": None, "name": None, "args": '{"x": 1}', "index": 0}],
        },
        {"type": "AIMessageChunk", "content": [], "chunk_position": "last"},
    ],
}


@pytest.mark.parametrize("form", LANGCHAIN)
def test_langchains_call_has_its_caller_in_every_form(form):
    [call] = langchain.calls(LANGCHAIN[form])
    assert (call.arguments, call.caller) == ({"x": 1}, "programmatic")


@pytest.mark.parametrize("caller", ["", [], 0], ids=repr)
def test_langchains_empty_caller_is_not_the_model(caller):
    message = {"type": "ai", "content": [{**TOOL_USE, "caller": caller}], "tool_calls": [LANGCHAIN_CALL]}
    assert langchain.calls(message)[0].caller == str(caller)


def test_langchains_calls_without_a_caller_are_the_models():
    other = {"type": "tool_call", "id": "t2", "name": "a", "args": {}}
    message = {"type": "ai", "content": [TOOL_USE, "text", {"caller": 7}], "tool_calls": [LANGCHAIN_CALL, other]}
    assert [(call.name, call.caller) for call in langchain.calls(message)] == [("b", "programmatic"), ("a", "direct")]


def test_openais_program_is_no_call():
    items = [
        {"type": "program", "id": "p1", "call_id": "call_1", "code": "…", "fingerprint": "f"},
        {"type": "function_call", "call_id": "c1", "name": "b", "arguments": "{}", **BY_OPENAI_PROGRAM},
        {"type": "program_output", "id": "o1", "call_id": "call_1", "result": "", "status": "completed"},
    ]
    [call] = openai_responses.calls(items)
    assert (call.id, call.caller) == ("c1", "programmatic")
    assert openai_responses.looks_like(items[:1])


def test_geminis_own_code_is_no_call():
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {}}},
        {"functionCall": {"name": "b", "args": {}}},
    ]
    [call] = gemini.calls({"candidates": [{"content": {"role": "model", "parts": parts}}]})
    assert (call.name, call.caller) == ("b", "direct")


@pytest.mark.parametrize("module", [anthropic, openai_responses])
def test_a_message_has_the_caller_again(module):
    provider = BY_PROGRAM if module is anthropic else BY_OPENAI_PROGRAM
    call = ToolCall(id="c1", name="b", arguments={"x": 1}, provider=provider)
    [again] = module.calls(module.message([call]))
    assert (again.provider, again.arguments) == (provider, {"x": 1})


IMAGE = ImageContent(type="image", data="aGk=", mime_type="image/png")
SHOWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ToolResult(blocks=(IMAGE,)), {"content": "[image (image/png), not shown]"}),
        (ToolResult({"a": 1}), {"content": '{"a": 1}'}),
        (ToolResult(""), {"content": ""}),
        (
            ToolResult(error=ErrorDetail(code="tool_error", message="Full.")),
            {"content": "Error: Full.", "is_error": True},
        ),
        (
            ToolResult(error=ErrorDetail(code="tool_error", message="Error: x")),
            {"content": "Error: x", "is_error": True},
        ),
    ],
    ids=["image", "object", "empty", "error", "marked error"],
)
def test_a_program_of_anthropic_reads_text(result, expected):
    [message] = anthropic.results([(ToolCall(id="t1", name="b", provider=BY_PROGRAM), result)])
    assert message == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", **expected}]}


@pytest.mark.parametrize(
    ("provider", "result", "content"),
    [
        (BY_PROGRAM, ToolResult(blocks=(IMAGE,)), "[image (image/png), not shown]"),
        (BY_PROGRAM, ToolResult(error=ErrorDetail(code="tool_error", message="Full.")), "Error: Full."),
        ({}, ToolResult(blocks=(IMAGE,)), [{"type": "image", "base64": "aGk=", "mime_type": "image/png"}]),
        ({}, ToolResult(error=ErrorDetail(code="tool_error", message="Full.")), "Full."),
    ],
    ids=["image", "error", "image for the model", "error for the model"],
)
def test_a_program_reads_text_through_langchain_too(provider, result, content):
    [message] = langchain.results([(ToolCall(id="t1", name="b", provider=provider), result)])
    assert message["content"] == content


def test_only_the_results_of_programs_lack_their_images():
    pairs = [
        (ToolCall(id="t1", name="b", provider=BY_PROGRAM), ToolResult(blocks=(IMAGE,))),
        (ToolCall(id="t2", name="b", provider={"caller": {"type": "direct"}}), ToolResult(blocks=(IMAGE,))),
    ]
    [message] = anthropic.results(pairs)
    assert [block["content"] for block in message["content"]] == ["[image (image/png), not shown]", [SHOWN]]


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.one_of(
                st.builds(ToolResult, st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5)),
                st.builds(lambda text: ToolResult(error=ErrorDetail(code="tool_error", message=text)), st.text()),
                st.just(ToolResult(blocks=(IMAGE, IMAGE))),
            ),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_results_for_programs_are_texts_in_one_message_of_results(items):
    pairs = [
        (ToolCall(id=f"t{index}", name="b", provider=BY_PROGRAM if is_program else {}), result)
        for index, (is_program, result) in enumerate(items)
    ]
    [message] = anthropic.results(pairs)
    assert [block["tool_use_id"] for block in message["content"]] == [call.id for call, _ in pairs]
    for block, (call, _) in zip(message["content"], pairs, strict=True):
        assert block["type"] == "tool_result"
        assert call.caller == "direct" or isinstance(block["content"], str)
