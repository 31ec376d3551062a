"""What an answer says about the next request: the container of a program, and pauses of the provider."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import Run, Toolkit, ToolSpecError, formats
from ahvn_tools.formats.continuation import NO_CONTINUATION, Container, Continuation
from ahvn_tools.formats.json_data import to_objects

TIME = datetime(2026, 1, 20, 14, 30, tzinfo=UTC)
CONTAINER = {"id": "container_1", "expires_at": "2026-01-20T14:30:00Z"}
FOUND = Container(id="container_1", expires_at=TIME)


def anthropic(answer) -> Continuation:
    return formats.get("anthropic").continuation(answer)  # type: ignore[attr-defined]  # not every format has it


def langchain(answer) -> Continuation:
    return formats.get("langchain").continuation(answer)  # type: ignore[attr-defined]  # as above


def openai(answer) -> Continuation:
    return formats.get("openai-responses").continuation(answer)  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "assistant", "content": [], "container": CONTAINER},
        json.dumps({"container": CONTAINER}),
        json.dumps({"container": CONTAINER}).encode(),
        [{"role": "assistant", "content": [], "container": CONTAINER}],
        [{"type": "message_start", "message": {"container": CONTAINER}}],
        [{"type": "message_start", "message": {}}, {"type": "message_delta", "delta": {"container": CONTAINER}}],
    ],
    ids=["message", "text", "bytes", "messages", "start", "delta"],
)
def test_the_container_is_found_in_every_form(answer):
    assert anthropic(answer) == Continuation(container=FOUND)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"container": None},
        {"container": {}},
        {"container": {"id": ""}},
        {"container": {"id": 7}},
        {"container": "c"},
        [],
        [None],
        [[]],
        "",
        "{",
        b"\xff",
        None,
        3,
    ],
    ids=repr,
)
def test_without_a_container_there_is_none(answer):
    assert anthropic(answer) == NO_CONTINUATION
    assert langchain(answer) == NO_CONTINUATION
    assert openai(answer) == NO_CONTINUATION


METADATA = {"stop_reason": "pause_turn", "container": CONTAINER}
MESSAGE_OF_LANGCHAIN = {"type": "ai", "content": "", "response_metadata": METADATA}
CHUNK = {"type": "AIMessageChunk", "content": ""}


@pytest.mark.parametrize(
    "answer",
    [
        MESSAGE_OF_LANGCHAIN,
        json.dumps(MESSAGE_OF_LANGCHAIN),
        {"type": "ai", "data": MESSAGE_OF_LANGCHAIN},
        {"type": "constructor", "kwargs": MESSAGE_OF_LANGCHAIN},
        [{"type": "human", "content": "How much?"}, MESSAGE_OF_LANGCHAIN],
        [CHUNK, {**CHUNK, "response_metadata": METADATA}, {**CHUNK, "chunk_position": "last"}],
        [CHUNK, {"type": "AIMessageChunk", "data": {**CHUNK, "response_metadata": METADATA}}],
    ],
    ids=["fields", "text", "dict", "serialized", "last", "chunks", "dicts of chunks"],
)
def test_langchains_message_has_the_container_and_the_pause_of_anthropic(answer):
    assert langchain(answer) == Continuation(container=FOUND, is_paused=True)


def test_of_several_messages_of_langchain_the_last_counts():
    assert langchain([MESSAGE_OF_LANGCHAIN, {"type": "ai", "content": "Done."}]) == NO_CONTINUATION


def test_of_several_messages_of_anthropic_the_last_says_whether_it_has_paused():
    paused, ended = {"stop_reason": "pause_turn", "container": CONTAINER}, {"stop_reason": "end_turn"}
    assert anthropic([paused, ended]) == Continuation(container=FOUND)
    assert anthropic([ended, paused]).is_paused


@pytest.mark.parametrize(
    ("expires_at", "expected"),
    [
        ("2026-01-20T15:30:00+01:00", TIME),
        ("2026-01-20T14:30:00", TIME),
        (TIME.replace(tzinfo=None), TIME),
        (TIME.astimezone(timezone(timedelta(hours=5))), TIME),
        ("soon", None),
        (17, None),
        (None, None),
    ],
)
def test_the_end_of_a_container_is_a_time_with_a_zone(expires_at, expected):
    assert Container.from_fields("c1", expires_at) == Container(id="c1", expires_at=expected)


@pytest.mark.parametrize(
    ("answer", "is_paused"),
    [
        ({"stop_reason": "pause_turn", "content": []}, True),
        ([{"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}], True),
        ({"stop_reason": "compaction", "content": []}, True),
        ({"stop_reason": ["pause_turn"], "content": []}, False),
        ({"stop_reason": "end_turn", "content": []}, False),
        ({"stop_reason": "tool_use", "content": []}, False),
    ],
)
def test_anthropic_says_that_it_has_paused(answer, is_paused):
    assert anthropic(answer).is_paused is is_paused


PROGRAM, OUTPUT = {"type": "program"}, {"type": "program_output"}
CALL, MESSAGE = {"type": "function_call"}, {"type": "message"}
COMMENTARY, FINAL = {**MESSAGE, "phase": "commentary"}, {**MESSAGE, "phase": "final_answer"}


@pytest.mark.parametrize(
    ("items", "is_paused"),
    [
        ([PROGRAM, OUTPUT], True),
        ([OUTPUT], True),
        ([PROGRAM], True),
        ([PROGRAM, CALL], False),
        ([OUTPUT, MESSAGE], False),
        ([MESSAGE, PROGRAM, OUTPUT], True),
        ([COMMENTARY, PROGRAM, OUTPUT], True),
        ([PROGRAM, OUTPUT, COMMENTARY], True),
        ([PROGRAM, OUTPUT, COMMENTARY, FINAL], False),
        ([COMMENTARY], False),
        ([PROGRAM, OUTPUT, {"type": "reasoning"}], True),
        ([{"type": "reasoning"}], False),
        ([], False),
    ],
)
def test_openai_has_paused_after_a_program_without_calls_and_message(items, is_paused):
    response = {"object": "response", "status": "completed", "output": items}
    assert openai(response).is_paused is is_paused
    assert openai(items).is_paused is is_paused
    events = [
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.completed", "response": response},
    ]
    assert openai(events).is_paused is is_paused


@pytest.mark.parametrize(
    "kind",
    [
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "computer_call",
        "mcp_approval_request",
    ],
)
def test_openai_has_not_paused_while_the_host_has_to_answer(kind):
    assert not openai([OUTPUT, {"type": kind}]).is_paused
    assert not openai([{"type": kind}, PROGRAM]).is_paused
    assert openai([{"type": f"{kind}_output"}, PROGRAM]).is_paused


def test_openai_has_paused_after_a_program_that_used_the_shell_of_openai():
    call, output = {"type": "shell_call", "call_id": "c1"}, {"type": "shell_call_output", "call_id": "c1"}
    assert openai([PROGRAM, call, output, OUTPUT]).is_paused
    assert not openai([PROGRAM, call, {**call, "call_id": "c2"}, output, OUTPUT]).is_paused


@pytest.mark.parametrize(("execution", "is_paused"), [("client", False), ("server", True)])
def test_openai_has_not_paused_while_the_host_searches_for_tools(execution, is_paused):
    search = {"type": "tool_search_call", "call_id": None, "execution": execution}
    assert openai([search, PROGRAM, OUTPUT]).is_paused is is_paused


@pytest.mark.parametrize("broken", [["program"], {"program": 1}, 7, None], ids=repr)
def test_fields_of_a_wrong_type_are_no_pause(broken):
    assert not openai({"status": "completed", "output": [{"type": broken}]}).is_paused
    assert not openai({"status": "completed", "output": broken}).is_paused
    assert not anthropic({"stop_reason": broken, "container": broken}).is_paused
    assert broken is None or not openai({"status": broken, "output": [PROGRAM]}).is_paused


def test_the_model_goes_on_after_an_incomplete_program():
    assert openai([{**OUTPUT, "status": "incomplete"}]).is_paused


def test_an_incomplete_response_is_no_pause():
    assert not openai({"status": "incomplete", "output": [PROGRAM]}).is_paused


@given(
    st.builds(
        Continuation,
        container=st.none() | st.builds(Container, id=st.text(min_size=1), expires_at=st.none() | st.just(TIME)),
        is_paused=st.booleans(),
        answer_by=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_a_continuation_is_json_data_and_back(continuation):
    assert Continuation.from_json(json.loads(json.dumps(continuation.to_json()))) == continuation


def test_a_program_waits_four_minutes_at_most_and_no_longer_than_its_container():
    assert NO_CONTINUATION.answer_by_for("anthropic", 1000.0) == 1240.0
    assert Continuation(container=FOUND).answer_by_for("anthropic", TIME.timestamp()) == TIME.timestamp()
    assert Continuation(container=Container(id="c")).answer_by_for("anthropic", 0.0) == 240.0
    assert Continuation(container=Container(id="c")).answer_by_for("langchain", 0.0) == 240.0
    assert NO_CONTINUATION.answer_by_for("openai-responses", 0.0) is None
    assert NO_CONTINUATION.answer_by_for(None, 0.0) is None


@pytest.mark.parametrize("name", formats.BUILT_IN)
def test_no_format_fails_at_an_answer_of_another_provider(name):
    read = getattr(formats.get(name), "continuation", None)
    assert (read is not None) == (name not in {"mcp", "mistral", "ollama", "prompt"})
    for answer in (
        {"choices": [{"message": {"content": "x"}}]},
        {"candidates": []},
        {"output": 3},
        {"output": [None, 3]},
    ):
        assert to_objects(answer)
        assert read is None or read(answer) == NO_CONTINUATION


def of_gemini(reason, **content):
    return {"candidates": [{"content": content, "finishReason": reason}]}


def of_bedrock(reason, *blocks):
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": reason}


def of_openai(reason):
    message = {"role": "assistant", "content": None}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def of_langchain(**metadata):
    return {"type": "ai", "content": "", "response_metadata": metadata}


@pytest.mark.parametrize(
    ("format_name", "answer", "beginning"),
    [
        ("gemini", of_gemini("MALFORMED_FUNCTION_CALL"), "The call was malformed"),
        ("gemini", json.dumps(of_gemini("MALFORMED_FUNCTION_CALL")), "The call was malformed"),
        ("gemini", [of_gemini(None, parts=[{"text": "I"}]), of_gemini("UNEXPECTED_TOOL_CALL")], "The call was disc"),
        ("gemini", of_gemini("TOO_MANY_TOOL_CALLS"), "The response was stopped"),
        ("gemini", of_gemini("MALFORMED_RESPONSE"), "The response was malformed"),
        ("bedrock", of_bedrock("malformed_tool_use"), "The call was malformed"),
        ("bedrock", of_bedrock("malformed_tool_use", {"text": "Let me see."}), "The call was malformed"),
        ("bedrock", of_bedrock("malformed_model_output"), "The response was malformed"),
        ("bedrock", {"stream": [{"messageStop": {"stopReason": "malformed_tool_use"}}]}, "The call was malformed"),
        ("bedrock", {"stream": iter([{"messageStop": {"stopReason": "malformed_tool_use"}}])}, "The call was malf"),
        ("openai", of_openai("function_call_filter: MALFORMED_FUNCTION_CALL"), "The call was malformed"),
        ("langchain", of_langchain(finish_reason="MALFORMED_FUNCTION_CALL"), "The call was malformed"),
        ("langchain", of_langchain(stopReason="malformed_tool_use"), "The call was malformed"),
    ],
)
def test_a_discarded_call_is_no_final_answer(format_name, answer, beginning):
    run = Toolkit("kit").run(answer, format=format_name)
    assert (run.results, list(run), run.is_done) == ([], [], True)
    assert run.problem.startswith(beginning)
    assert Run.from_json(run.to_json()).problem == run.problem


@pytest.mark.parametrize(
    ("format_name", "answer"),
    [
        ("gemini", of_gemini("STOP", parts=[{"text": "malformed_tool_use"}])),
        ("gemini", of_gemini("UNEXPECTED_TOOL_CALL", parts=[{"functionCall": {"name": "ping", "args": {}}}])),
        ("gemini", {"candidates": []}),
        ("gemini", {"candidates": {}}),
        ("bedrock", of_bedrock("end_turn", {"text": "Hello!"})),
        ("openai", of_openai("stop")),
        ("langchain", of_langchain(finish_reason="STOP")),
        ("langchain", of_langchain(finish_reason=["STOP"])),
    ],
)
def test_an_answer_whose_calls_are_all_there_has_no_problem(format_name, answer):
    assert Toolkit("kit").run(answer, format=format_name).problem is None


def test_a_saved_run_with_a_problem_that_is_no_text_is_refused():
    saved = Run(format="gemini", continuation=Continuation(problem="lost")).to_json()
    assert Run.from_json(saved).problem == "lost"
    saved["continuation"]["problem"] = 3
    with pytest.raises(ToolSpecError):
        Run.from_json(saved)
