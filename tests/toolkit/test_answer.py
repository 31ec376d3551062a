"""What `run` takes as an answer: in the format that is passed, in one that it finds out, or refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from ahvn_tools import Toolkit, formats
from ahvn_tools.errors import ToolkitError
from tests.formats.providers import provider
from tests.formats.test_detection import of_sdk

each_format = pytest.mark.parametrize("name", formats.BUILT_IN)


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("k")

    @kit.tool
    def ping() -> str:
        return "pong"

    return kit


def answer_of(name: str, count: int = 1) -> Any:
    """Return an answer with calls as this provider sends it."""
    ids = ["FI5qQGzDE", "AI5qQGzDE"] if name == "mistral" else ["call_1", "call_2"]
    return provider(name).response([(ids[number], "ping", "{}") for number in range(count)])


CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
CUSTOM_CALL = {"id": "c1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
CUSTOM_CALLS = {
    "a message": ("openai", {"role": "assistant", "content": None, "tool_calls": [CUSTOM_CALL]}),
    "a response": ("openai", {"choices": [{"message": {"role": "assistant", "tool_calls": [CUSTOM_CALL]}}]}),
    "a stream": ("openai", [{"choices": [{"delta": {"tool_calls": [{"index": 0, **CUSTOM_CALL}]}}]}]),
    "an item": (
        "openai-responses",
        {"output": [{"type": "custom_tool_call", "call_id": "c1", "name": "shell", "input": "ls"}]},
    ),
}


@pytest.mark.parametrize(("name", "answer"), CUSTOM_CALLS.values(), ids=CUSTOM_CALLS)
def test_an_answer_with_a_call_of_a_custom_tool_alone_is_not_final(kit, name, answer):
    run = kit.run(answer, format=name)
    assert run.results == []
    assert run.problem is not None
    assert run.problem.startswith("The call was discarded, because no such tool can be called.")


@pytest.mark.parametrize("call_id", [5, None])
def test_an_answer_that_fits_two_formats_names_both(kit, call_id):
    call = {"id": call_id, "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    with pytest.raises(ToolkitError, match="Say which it is: format='mistral' or format='openai'"):
        kit.run({"role": "assistant", "content": None, "tool_calls": [call]})


CLIENTS = {
    "openai": "chat.completions.create",
    "openai-responses": "responses.create",
    "anthropic": "messages.create",
    "gemini": "models.generate_content",
    "mistral": "chat.complete",
    "bedrock": "converse",
    "ollama": "chat",
    "langchain": "invoke",
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_of_another_format_is_refused_with_the_one_that_fits(name):
    other = "anthropic" if name != "anthropic" else "openai"
    *parents, last = CLIENTS[other].split(".")
    client: Any = SimpleNamespace(**{last: print})
    for parent in reversed(parents):
        client = SimpleNamespace(**{parent: client})
    with pytest.raises(TypeError, match=rf"with the function '{CLIENTS[name]}', which .* Use formats\.{other}\.model"):
        formats.get(name).model(client, **({} if name == "langchain" else {"model": "m"}))


@each_format
@pytest.mark.parametrize("answer", [None, {}, {"foo": 1}, 3, [1, 2], {"error": {"message": "overloaded"}}])
def test_what_is_no_answer_is_refused(kit, name, answer):
    with pytest.raises((ToolkitError, TypeError), match=r"None is no answer|is not in the format|is no response"):
        kit.run(answer, format=name)


@each_format
def test_an_answer_in_another_format_is_refused_by_the_name_of_its_own(kit, name):
    """Of all wrong formats; those that read the calls nevertheless answer them."""
    for other in set(formats.BUILT_IN) - {name, "prompt"}:
        answer = answer_of(other)
        if formats.get(name).calls(answer):
            continue
        with pytest.raises(ToolkitError, match=f"not in the format '{name}': it looks like .*'{other}'"):
            kit.run(answer, format=name)


@each_format
def test_an_answer_without_calls_is_an_empty_run(kit, name):
    if name == "mcp":
        return  # every message of a client is a call
    for answer in (answer_of(name, 0), provider(name).events([])):
        run = kit.run(answer, format=name)
        assert (run.results, list(run), run.is_done) == ([], [], True)


@each_format
async def test_the_format_of_an_answer_is_found_out(kit, name):
    if name in {"mistral", "prompt"}:
        return
    answer = answer_of(name)
    for run in (kit.run(answer), await kit.arun(json.dumps(answer)), list(kit.stream_run(answer))[-1]):
        assert run.format == name
        assert len(run) == 1


def test_the_format_of_an_sdk_object_is_found_out(kit):
    for name, module in {"openai": "openai.types.chat", "mistral": "mistralai.client.models"}.items():
        run = kit.run(of_sdk(module, **answer_of("mistral")))
        assert (run.format, len(run)) == (name, 1)


def test_an_answer_that_fits_two_formats_needs_its_format(kit):
    with pytest.raises(ToolkitError, match=r"fits the formats 'mistral', 'openai'\. Say .*format='mistral'"):
        kit.run(answer_of("mistral"))
    assert len(kit.run(answer_of("mistral"), format="mistral")) == 1


def test_a_message_without_calls_needs_no_format(kit):
    run = kit.run({"role": "assistant", "content": "Hello!"})
    assert (run.results, run.format) == ([], None)


@pytest.mark.parametrize("answer", ["Hello!", {"foo": 1}, '{"name": "ping", "parameters": {}}'])
def test_an_answer_in_no_known_format_is_refused_with_the_way_out(kit, answer):
    with pytest.raises(ToolkitError, match=r'in no known format.*pass format="prompt"'):
        kit.run(answer)


def test_text_is_an_answer_in_the_format_of_plain_text_only(kit):
    assert kit.run("Hello!", format="prompt").results == []
    with pytest.raises(ToolkitError, match="not in the format 'openai'"):
        kit.run("Hello!", format="openai")


def test_calls_in_text_are_not_lost_in_calls_beside_it(kit):
    """The model has called a tool, and the text of its answer is empty."""
    with pytest.raises(ToolkitError, match="not in the format 'prompt': it looks like 'openai'"):
        kit.run(answer_of("openai"), format="prompt")


def test_a_message_of_an_unknown_class_is_an_answer_in_text(kit):
    assert kit.run(SimpleNamespace(content="Hello!"), format="prompt").results == []


def test_the_calls_of_a_message_that_has_none_are_no_answer(kit):
    message: dict[str, Any] = {"role": "assistant", "content": "Hello!", "tool_calls": None}
    assert kit.run(message, format="openai").results == []
    with pytest.raises(ToolkitError, match="None is no answer"):
        kit.run(message["tool_calls"], format="openai")
    assert kit.run([], format="openai").results == []


def test_a_registered_format_without_the_function_takes_every_answer(kit, monkeypatch):
    monkeypatch.setattr(formats, "_registered", {})
    own = SimpleNamespace(
        export=lambda definitions, **_: [], calls=lambda answer, _=(): [], results=lambda pairs: [], choice=dict
    )
    formats.register("own", own)
    assert kit.run({"foo": 1}, format="own").results == []


def test_a_stream_of_events_is_read_once(kit):
    answer = provider("openai").events([("call_1", "ping", "{}")])
    for format_name in (None, "openai"):
        assert kit.run(iter(answer), format=format_name)[0]["content"] == "pong"


async def test_arun_takes_an_async_stream_and_other_methods_say_how_to_read_it(kit):
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}

    async def stream() -> AsyncIterator[Any]:
        yield chunk

    (message,) = await kit.arun(stream(), format="openai")
    assert message["content"] == "pong"
    with pytest.raises(TypeError, match=r"Pass `\[event async for event in stream\]`"):
        kit.run(stream(), format="openai")


async def test_arun_takes_the_async_stream_of_bedrocks_response(kit):
    start = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "c1", "name": "ping"}}}}
    events = [start, {"contentBlockStop": {"contentBlockIndex": 0}}, {"messageStop": {"stopReason": "tool_use"}}]

    async def stream() -> AsyncIterator[Any]:
        for event in events:
            yield event

    run = await kit.arun({"stream": stream()}, format="bedrock")
    assert [result.value for _, result in run.results] == ["pong"]
