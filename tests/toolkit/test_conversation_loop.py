"""Conversations: a model is asked and its calls run, until it answers or something has to be decided."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from ahvn_tools import Conversation, TextDelta, ToolCall, ToolContext, ToolError, Toolkit, ToolResult, formats
from ahvn_tools.errors import MalformedAnswerError, RequestUsedError, ToolkitError, ToolSpecError
from ahvn_tools.formats.turn import Turn

OPENAI = formats.get("openai")


def ask(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return an answer in OpenAI's format with these calls; their ids are c0, c1 …"""
    made = [ToolCall(id=f"c{number}", name=name, arguments=given) for number, (name, given) in enumerate(calls)]
    (message,) = OPENAI.message(made)
    return message


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Script:
    """A model that gives these answers, one after the other, raises those that are exceptions, and keeps requests."""

    def __init__(self, *answers: Any, format: str | None = None) -> None:  # the loop's word
        self.answers = iter(answers)
        self.requests: list[tuple[list[Any], list[str]]] = []
        if format is not None:
            self.format = format

    def __call__(self, messages: list[Any], tools: Any) -> Any:
        names = [tool.get("function", tool).get("name", "") for tool in tools]
        self.requests.append((messages, names))
        answer = next(self.answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def as_async(script: Script) -> Any:
    async def model(messages: list[Any], tools: Any) -> Any:
        return script(messages, tools)

    return model


def as_stream(script: Script) -> Any:
    """Return a model that sends its answers as chunks of OpenAI's."""

    def model(messages: list[Any], tools: Any) -> Iterator[Any]:
        yield from chunks_of(script(messages, tools))

    return model


def as_async_stream(script: Script) -> Any:
    async def model(messages: list[Any], tools: Any) -> AsyncIterator[Any]:
        for chunk in chunks_of(script(messages, tools)):
            yield chunk

    return model


def chunks_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(message.get("tool_calls", ())):
        yield chunk_of({"tool_calls": [{**call, "index": index}]})
    for letter in message["content"] or "":
        yield chunk_of({"content": letter})
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def chunk_of(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


MODELS: list[Callable[[Script], Any]] = [lambda script: script, as_async, as_stream, as_async_stream]
each_model = pytest.mark.parametrize("made", MODELS, ids=["sync", "async", "stream", "async-stream"])


def find(topic: str, user: str = "nobody") -> str:
    """Find a note."""
    return f"{user} on {topic}"


def remove(topic: str) -> str:
    """Remove a note."""
    return f"{topic} is gone"


def make_kit() -> Toolkit:
    kit = Toolkit("notes", secret_key="0123456789abcdef")
    kit.add(find).add(remove, requires_approval=True)
    return kit.bind("user")


@pytest.fixture
def session() -> Toolkit:
    return make_kit().session(user="Ann", session_id="ann")


def roles(conversation: Conversation) -> list[str]:
    return [message["role"] for message in conversation.messages]


TEA = ("find", {"topic": "tea"})
OLD = ("remove", {"topic": "old"})


@each_model
@pytest.mark.parametrize("is_async", [False, True], ids=["from-sync", "from-async"])
def test_a_model_of_any_kind_is_asked_until_it_answers_without_calls(session, made, is_async):
    script = Script(ask(TEA, ("find", {"topic": "rum"})), ask(TEA), say("About tea."))
    if is_async:
        conversation = asyncio.run(session.aconverse(made(script), "What do I know?"))
    else:
        conversation = session.converse(made(script), "What do I know?")
    assert (conversation.text, conversation.stop_reason, conversation.turns) == ("About tea.", "answered", 3)
    assert roles(conversation) == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert [message["content"] for message in conversation.messages[2:4]] == ["Ann on tea", "Ann on rum"]
    assert [len(messages) for messages, _ in script.requests] == [1, 4, 6]
    assert script.requests[0][1] == ["find", "remove"]


@each_model
@pytest.mark.parametrize("is_async", [False, True], ids=["from-sync", "from-async"])
def test_events_come_in_their_order(session, made, is_async):
    def read() -> list[Any]:
        model = made(Script(ask(TEA, OLD), ask(TEA), say("Hi")))
        if not is_async:
            return list(session.stream_converse(model, "Hello"))

        async def collect() -> list[Any]:
            return [event async for event in session.astream_converse(model, "Hello")]

        return asyncio.run(collect())

    first = read()
    assert [type(event) for event in first] == [ToolCall, ToolCall, ToolResult, Conversation]
    assert first[2].value == "Ann on tea"
    assert first[-1].stop_reason == "waiting"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_model_may_stream_one_answer_and_not_the_next(session, is_async):
    def read() -> list[Any]:
        script = Script(Stream(*chunks_of(ask(TEA))), say("Done."))
        if not is_async:
            return list(session.stream_converse(script, "Go."))

        async def collect() -> list[Any]:
            return [event async for event in session.astream_converse(script, "Go.")]

        return asyncio.run(collect())

    assert read()[-2] == TextDelta("Done.")


def test_the_chunks_of_tools_come_before_their_results(session):
    def count(to: int) -> Iterator[int]:
        """Count."""
        yield from range(to)

    kit = Toolkit("numbers").add(count)
    events = list(kit.stream_converse(Script(ask(("count", {"to": 2})), say("Done.")), "Count."))
    results = [event for event in events if isinstance(event, ToolResult)]
    assert [(result.value, result.is_last, result.id) for result in results] == [
        (0, False, "c0"), (1, False, "c0"), ([0, 1], True, "c0"),
    ]  # fmt: skip
    assert events[-2] == TextDelta("Done.")


def test_a_result_comes_as_soon_as_its_call_ends_and_once():
    kit, seen = Toolkit("pair"), threading.Event()

    @kit.tool
    def slow() -> str:
        """End after the result of the other tool was seen."""
        assert seen.wait(30)
        return "slow"

    @kit.tool
    def fast() -> str:
        """End at once."""
        return "fast"

    broken = ask(("slow", {}), ("fast", {}), ("fast", {}), ("missing", {}))
    broken["tool_calls"][2]["function"]["arguments"] = "{"
    results = []
    for event in kit.stream_converse(Script(broken, say("Done.")), "Go."):
        if isinstance(event, ToolResult):
            results.append((event.id, event.value))
            if event.value == "fast":
                seen.set()
    assert sorted(results) == [("c0", "slow"), ("c1", "fast"), ("c2", None), ("c3", None)]
    assert results.index(("c1", "fast")) < results.index(("c0", "slow"))


# waiting


def converse_in(way: str, session: Any, *arguments: Any, **options: Any) -> Conversation:
    """Go on in one of the four ways."""

    async def last() -> Any:
        return [event async for event in session.astream_converse(*arguments, **options)][-1]

    ways: dict[str, Callable[[], Any]] = {
        "sync": lambda: session.converse(*arguments, **options),
        "async": lambda: asyncio.run(session.aconverse(*arguments, **options)),
        "stream": lambda: [*session.stream_converse(*arguments, **options)][-1],
        "async stream": lambda: asyncio.run(last()),
    }
    conversation: Conversation = ways[way]()
    return conversation


@pytest.mark.parametrize("way", ["sync", "async", "stream", "async stream"])
def test_a_conversation_whose_process_was_killed_after_the_approval_goes_on(session, way):
    """The call may have run, and its result was never saved: it does not run again, and the model reads that."""
    waiting = session.converse(Script(ask(OLD)), "Clean up.")
    saved = json.dumps(waiting.to_json())
    session.converse(Script(say("Done.")), waiting, approved=True)  # and its process is killed before it saves that
    again = Conversation.from_json(json.loads(saved))
    with pytest.raises(
        RequestUsedError, match=r"used before.*To go on without its result, pass approved={'c0': False}\.$"
    ) as raised:
        converse_in(way, session, Script(), again, approved=True)
    assert Conversation.from_error(raised.value) is None  # who saved that could replace a newer one
    script = Script(say("I will look."))
    done = converse_in(way, session, script, again, approved={"c0": False})
    assert (done.text, done.stop_reason) == ("I will look.", "answered")
    assert done.messages[2]["content"] == (
        "Error: The call of 'remove' may have run already; its result was lost. Find out what it has done before you "
        "make it again."
    )
    reason = converse_in(way, session, Script(say("Fine.")), again, approved=False, reason="Ask me.").messages[2]
    assert reason["content"] == "Error: The call of 'remove' may have run already; its result was lost: Ask me."


@pytest.mark.parametrize("way", ["sync", "async", "stream", "async stream"])
def test_the_result_of_an_external_call_is_taken_once(way):
    def choose(question: str) -> str:
        """Let the user choose."""
        raise AssertionError

    session = make_kit().add(choose, external=True).session(user="Ann", session_id="ann")
    waiting = session.converse(Script(ask(("choose", {"question": "Which?"}))), "Go.")
    converse_in(way, session, Script(say("Done.")), waiting, results={"c0": "this one"})
    with pytest.raises(RequestUsedError):
        converse_in(way, session, Script(), waiting, results={"c0": "that one"})
    lost = {"c0": ToolError("It was lost.")}
    assert converse_in(way, session, Script(say("Fine.")), waiting, results=lost).text == "Fine."


@pytest.mark.parametrize("is_async", [False, True])
def test_leaving_a_stream_that_goes_on_ends_its_calls(is_async):
    ended = threading.Event()

    async def watch(topic: str) -> AsyncIterator[str]:
        """Watch a topic."""
        try:
            yield topic
            await asyncio.Event().wait()
        finally:
            ended.set()

    session = make_kit().add(watch, requires_approval=True).session(user="Ann", session_id="ann")
    waiting = session.converse(Script(ask(("watch", {"topic": "tea"}))), "Watch.")

    async def aleave() -> None:
        async with contextlib.aclosing(session.astream_converse(Script(), waiting, approved=True)) as events:
            async for event in events:
                if isinstance(event, ToolResult):
                    return

    if is_async:
        asyncio.run(aleave())
    else:
        with contextlib.closing(session.stream_converse(Script(), waiting, approved=True)) as events:
            assert [type(next(events)).__name__ for _ in range(2)] == ["ToolCall", "ToolResult"]
    assert ended.wait(50)


def test_the_last_line_of_a_traceback_says_why_a_conversation_has_ended(tmp_path):
    script = tmp_path / "approve.py"
    script.write_text(
        "from tests.toolkit.test_conversation_loop import OLD, Script, ask, make_kit, say\n"
        "waiting = make_kit().converse(Script(ask(OLD)), 'Clean up.')\n"
        "make_kit().session().converse(Script(), waiting, approved=True)\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    last = ran.stderr.splitlines()[-1]
    assert "Conversation.from_error(error)" in last
    assert "ToolkitError: The request was made in another session" in last


def test_a_waiting_conversation_goes_on_in_another_process(session, tmp_path):
    """Everything but the tools is in the JSON: messages, format, the calls that wait, and the usage."""
    waiting = session.converse(Script(ask(TEA, OLD)), "Clean up.")
    assert (waiting.stop_reason, [request.tool for request in waiting.pending]) == ("waiting", ["remove"])
    assert roles(waiting) == ["user", "assistant"]
    file = tmp_path / "conversation.json"
    file.write_text(json.dumps(waiting.to_json()), encoding="utf-8")
    code = f"""
        import json, pathlib
        from ahvn_tools import Conversation
        from tests.toolkit.test_conversation_loop import make_kit, say, Script
        waiting = Conversation.from_json(json.loads(pathlib.Path({str(file)!r}).read_text(encoding="utf-8")))
        script = Script(say("Both done."))
        done = make_kit().session(user="Ann", session_id="ann").converse(script, waiting, approved=True)
        print(json.dumps([done.text, done.turns, [message.get("content") for message in script.requests[0][0]]]))
    """
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.stderr == ""
    assert json.loads(finished.stdout) == ["Both done.", 2, ["Clean up.", None, "Ann on tea", "old is gone"]]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_person_decides_with_the_options_of_resume(session, is_async):
    two = [("remove", {"topic": "old"}), ("remove", {"topic": "new"})]
    waiting = session.converse(Script(ask(*two)), "Clean up.")
    decisions: Any = {
        "approved": {"c0": True, "c1": False},
        "arguments": {"c0": {"topic": "older"}},
        "reason": {"c1": "Keep it."},
    }
    script = Script(say("Done."))
    if is_async:
        done = asyncio.run(session.aconverse(script, waiting, **decisions))
    else:
        done = session.converse(script, waiting, **decisions)
    contents = [message["content"] for message in done.messages[2:4]]
    assert contents == ["older is gone", "Error: The call of 'remove' was rejected: Keep it."]
    assert done.turns == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_external_calls_and_approvals_wait_together(session, is_async):
    def choose(question: str) -> str:
        """Let the user choose."""
        raise AssertionError

    kit = make_kit().add(choose, external=True)
    session = kit.session(user="Ann", session_id="ann")
    events = list(session.stream_converse(Script(ask(TEA, OLD, ("choose", {"question": "Which?"}))), "Go."))
    assert [event.id for event in events if isinstance(event, ToolResult)] == ["c0"]  # no result of what waits
    waiting = Conversation.from_json(json.loads(json.dumps(events[-1].to_json())))
    assert [type(request).__name__ for request in waiting.pending] == ["ApprovalRequest", "ExternalCall"]
    still = session.converse(Script(), waiting, approved=True)
    assert [request.tool for request in still.pending] == ["choose"]
    script = Script(say("Done."))
    if is_async:
        done = asyncio.run(session.aconverse(script, still, results={"c2": "this one"}))
    else:
        done = session.converse(script, still, results={"c2": "this one"})
    assert [message["content"] for message in done.messages[2:5]] == ["Ann on tea", "old is gone", "this one"]


def test_some_decisions_leave_the_others_waiting(session):
    waiting = session.converse(Script(ask(OLD, ("remove", {"topic": "new"}))), "Clean up.")
    script = Script(say("Done."))
    still = session.converse(script, waiting, approved={"c0": True})
    assert (still.stop_reason, len(still.pending), script.requests) == ("waiting", 1, [])
    assert session.converse(script, still, approved={"c1": False}).stop_reason == "answered"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_saved", [False, True])
def test_a_stream_that_goes_on_has_the_events_of_an_answer(is_async, is_saved):
    """Each call that goes on, the chunks of its tool, and its result; no call that still waits, and no result again."""

    def count(topic: str) -> Iterator[str]:
        """Count up."""
        yield topic
        yield topic

    session = make_kit().add(count, requires_approval=True).session(user="Ann", session_id="ann")
    asked = ask(("count", {"topic": "rum"}), TEA, OLD, ("remove", {"topic": "new"}))
    waiting = session.converse(Script(asked), "Clean up.")
    if is_saved:
        waiting = Conversation.from_json(json.loads(json.dumps(waiting.to_json())))
    decisions: Any = {"approved": {"c0": True, "c2": False}}

    async def aread() -> list[Any]:
        return [event async for event in session.astream_converse(Script(), waiting, **decisions)]

    events = asyncio.run(aread()) if is_async else [*session.stream_converse(Script(), waiting, **decisions)]
    kinds = [
        (type(event).__name__, event.id, getattr(event, "name", None), getattr(event, "is_last", None))
        for event in events[:-1]
    ]
    assert kinds == [
        ("ToolCall", "c0", "count", None),
        ("ToolCall", "c2", "remove", None),
        ("ToolResult", "c0", None, False),
        ("ToolResult", "c0", None, False),
        ("ToolResult", "c0", None, True),
        ("ToolResult", "c2", None, True),
    ]
    assert [event.arguments for event in events[:2]] == [{"topic": "rum"}, {"topic": "old"}]
    assert (events[-1].stop_reason, [each.call_id for each in events[-1].pending]) == ("waiting", ["c3"])
    calls = list(session.stream_converse(Script(say("Done.")), events[-1], approved=True))
    assert [type(event).__name__ for event in calls] == ["ToolCall", "ToolResult", "TextDelta", "Conversation"]


def test_an_approved_call_may_be_followed_by_another_that_waits(session):
    waiting = session.converse(Script(ask(OLD)), "Clean up.")
    again = session.converse(Script(ask(TEA, OLD)), waiting, approved=True)
    assert (again.stop_reason, roles(again)) == ("waiting", ["user", "assistant", "tool", "assistant"])


@pytest.mark.parametrize("name", sorted(set(formats.BUILT_IN) - {"mcp", "prompt"}))
def test_messages_whose_calls_have_no_results_are_refused_in_each_format(name):
    """A provider refuses such messages: they are what a host makes of a waiting conversation and a new question."""
    form, kit = formats.get(name), Toolkit("k")
    made = [ToolCall(id=f"c0000000{number}", name="find", arguments={"topic": "tea"}) for number in range(2)]
    results = [form.results([(call, ToolResult("tea"))]) for call in made]

    def with_text(messages: list[Any]) -> list[Any]:
        add = getattr(form, "add_user_text", None)
        return [*messages, {"role": "user", "content": "Hm?"}] if add is None else add(messages, "Hm?")

    calls, said = [*with_text([]), *form.message(made)], form.message([], text="Tea.")
    for messages in (with_text([]), calls + results[0] + results[1], with_text(calls + results[0] + results[1])):
        answer = {"output": [{"type": "message", **said[0]}]} if name == "openai-responses" else said[0]
        for history in (messages, with_text(messages + said)):
            assert kit.converse(Script(answer, format=name), history).stop_reason == "answered"
    for messages in (calls, with_text(calls), with_text(calls + results[0])):
        for history in (messages, with_text([*with_text([]), *said]) + messages):
            with pytest.raises(ToolkitError, match=r"\['find', 'find'\] have no results in the messages"):
                kit.converse(Script(), history, format=name)


def test_decisions_that_do_not_fit_are_refused_before_the_first_event(session, monkeypatch):
    """A web server answers 400 then, and not 200 with a broken stream."""
    waiting = session.converse(Script(ask(OLD)), "Clean up.")
    other = make_kit().session(user="Ann", session_id="other")
    refused: list[tuple[Any, Any, dict[str, Any], str]] = [
        (session, waiting, {"approved": {"c9": True}}, "No call 'c9' waits"),
        (session, waiting, {"approved": "yes"}, "pass approved=True"),
        (session, waiting, {"results": {"c0": 1}}, "No call 'c0' waits for a result"),
        (session, waiting, {"reason": "No."}, "Pass approved=True or False"),
        (other, waiting, {"approved": True}, "in another session"),
    ]
    for kit, conversation, decisions, message in refused:
        for stream in (kit.stream_converse, kit.astream_converse):
            with pytest.raises(ToolkitError, match=message):
                stream(Script(), conversation, **decisions)
    monkeypatch.setattr("time.time", lambda: 1e11)
    with pytest.raises(ToolkitError, match="has expired"):
        session.stream_converse(Script(), waiting, approved=True)
    monkeypatch.undo()
    events = session.stream_converse(Script(say("Done.")), waiting, approved=True)
    assert [*events][-1].stop_reason == "answered"


def test_what_does_not_fit_is_refused_and_loses_nothing(session):
    waiting = session.converse(Script(ask(OLD)), "Clean up.")
    with pytest.raises(ToolkitError, match=r"waits for \['remove'\]. Pass approved"):
        session.converse(Script(), waiting)
    with pytest.raises(ToolkitError, match=r"waits for nothing\. Leave out approved"):
        session.converse(Script(), "Hello", approved=True)
    with pytest.raises(ToolkitError, match="another session") as raised:
        make_kit().session().converse(Script(), waiting, approved=True)
    assert Conversation.from_error(raised.value) == waiting
    with pytest.raises(TypeError, match=r"'max_turn'\. Did you mean 'max_turns'"):
        session.converse(Script(), "Hello", max_turn=3)
    with pytest.raises(ToolkitError, match="max_turns must be a whole number, at least 1"):
        session.stream_converse(Script(), "Hello", max_turns=0)
    with pytest.raises(ToolkitError, match="Pass a list of messages"):
        session.converse(Script(), {"role": "user", "content": "Hello"})
    with pytest.raises(ToolkitError, match="A model is a function of messages and tools"):
        session.converse("gpt", "Hello")
    with pytest.raises(ToolkitError, match=r"A message is a text alone\. Pass \{'role': 'user', 'content': text\}"):
        session.converse(Script(), ["Hello"])
    with pytest.raises(ToolkitError, match=r"To answer with a text, return \{'role': 'assistant', 'content': text\}"):
        session.converse(Script("Hello!"), "Hello")
    client = SimpleNamespace(messages=SimpleNamespace(create=print))
    with pytest.raises(
        ToolkitError, match=r"such as formats\.anthropic\.model\(client, model=.*, not an object of the"
    ):
        session.converse(client, "Hello")
    assert session.converse(Script(say("Done.")), waiting, approved=True).text == "Done."


def test_a_conversation_of_one_turn_at_a_time_survives_a_kill(tmp_path):
    """Each turn is saved; the process is killed in the third; another one goes on and repeats no call."""
    file, log = tmp_path / "conversation.json", tmp_path / "calls"
    code = f"""
        import json, pathlib, sys, time
        from ahvn_tools import Conversation
        from tests.toolkit.test_conversation_loop import make_logging_kit, ask, Script
        def block(messages, tools):
            print("asked again", flush=True)
            time.sleep(60)
        kit, file = make_logging_kit(pathlib.Path({str(log)!r})), pathlib.Path({str(file)!r})
        conversation, script = "Go.", Script(ask(("note", {{"text": "one"}})), ask(("note", {{"text": "two"}})))
        for model in (script, script, block):
            conversation = kit.converse(model, conversation, max_turns=1)
            file.write_text(json.dumps(conversation.to_json()), encoding="utf-8")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked again\n"
        process.kill()
    saved = Conversation.from_json(json.loads(file.read_text(encoding="utf-8")))
    assert (saved.stop_reason, saved.turns) == ("max_turns", 2)
    done = make_logging_kit(log).converse(Script(ask(("note", {"text": "three"})), say("Done.")), saved)
    assert (done.text, done.turns) == ("Done.", 4)
    assert log.read_text(encoding="utf-8").split() == ["one", "two", "three"]


def make_logging_kit(log: Path) -> Toolkit:
    kit = Toolkit("log")

    @kit.tool
    def note(text: str) -> None:
        """Note a text."""
        with log.open("a", encoding="utf-8") as lines:
            lines.write(f"{text}\n")

    return kit


# other ends


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_conversation_stops_after_max_turns_and_goes_on(session, turns):
    script = Script(*[ask(TEA)] * turns, say("Done."))
    stopped = session.converse(script, "Go.", max_turns=turns)
    assert (stopped.stop_reason, stopped.turns, roles(stopped)[-1]) == ("max_turns", turns, "tool")
    done = session.converse(script, stopped, max_turns=1)
    assert (done.stop_reason, done.turns) == ("answered", turns + 1)


class Verdict(BaseModel):
    is_good: bool


def test_a_tool_with_finish_with_ends_the_conversation(session):
    session.finish_with("find", Verdict)
    wrong, right = ("find", {"topic": "tea", "is_good": "hot"}), ("find", {"topic": "tea", "is_good": True})
    done = session.converse(Script(ask(wrong), ask(right)), "Is it good?")
    assert (done.stop_reason, done.structured, done.turns) == ("finished", Verdict(is_good=True), 2)
    assert roles(done)[-1] == "tool"
    assert Conversation.from_json(json.loads(json.dumps(done.to_json()))).structured == {"is_good": True}


def test_a_tool_can_end_the_session():
    kit = Toolkit("desk")

    @kit.tool
    def leave(context: ToolContext) -> str:
        """Leave."""
        context.end_session()
        return "Bye"

    assert kit.converse(Script(ask(("leave", {}))), "Leave.").stop_reason == "session_ended"


# exceptions


class ServiceError(Exception):
    """What an SDK raises."""


@each_model
@pytest.mark.parametrize("form", ["converse", "stream_converse", "aconverse", "astream_converse"])
def test_an_exception_of_the_model_has_the_conversation_and_it_can_go_on(session, made, form):
    script = Script(ask(TEA), ServiceError("busy"), say("Done."))

    async def collect() -> None:
        async for _ in session.astream_converse(made(script), "Go."):
            pass

    runs: dict[str, Callable[[], Any]] = {
        "converse": lambda: session.converse(made(script), "Go."),
        "stream_converse": lambda: list(session.stream_converse(made(script), "Go.")),
        "aconverse": lambda: asyncio.run(session.aconverse(made(script), "Go.")),
        "astream_converse": lambda: asyncio.run(collect()),
    }
    with pytest.raises(ServiceError, match="busy") as raised:
        runs[form]()
    conversation = Conversation.from_error(raised.value)
    assert conversation is not None
    assert (conversation.stop_reason, roles(conversation)) == ("failed", ["user", "assistant", "tool"])
    assert "Conversation.from_error(error)" in raised.value.__notes__[0]
    assert session.converse(made(script), conversation).text == "Done."


def test_an_exception_that_ends_a_tool_leaves_messages_that_can_be_sent():
    kit = Toolkit("desk").add(find)

    @kit.tool
    def leave() -> None:
        """Leave."""
        raise SystemExit(3)

    with pytest.raises(SystemExit) as raised:
        kit.converse(Script(ask(TEA), ask(("leave", {}))), "Go.")
    conversation = Conversation.from_error(raised.value)
    assert conversation is not None
    assert roles(conversation) == ["user", "assistant", "tool", "assistant", "tool"]
    assert Conversation.from_error(ValueError()) is None


class Shop:
    """A toolkit with a tool that ends at once, and one that waits until the conversation is interrupted."""

    def __init__(self, **options: Any) -> None:
        self.kit = Toolkit("shop", secret_key="b2f8c1d5e0a94f7689c35dbb1f6e4a07", middleware=[self.count])
        self.interrupt: Callable[[], Any] = press_ctrl_c
        self.paid: list[str] = []
        self.begun = self.ended = 0
        self.kit.add(self.pay).add(self.wait, **options).add(self.order, external=True)

    async def pay(self, item: str) -> str:
        """Pay for an item."""
        self.paid.append(item)
        return f"paid for {item}"

    async def wait(self) -> None:
        """Wait."""
        while self.begun - self.ended > 1:  # noqa: ASYNC110  # until the other calls have ended
            await asyncio.sleep(0)
        for _ in range(100):  # the batch takes their results
            await asyncio.sleep(0)
        self.interrupt()
        await asyncio.sleep(60)

    def order(self) -> None:
        """Order something."""

    async def count(self, call: Any, next: Any) -> ToolResult:
        self.begun += 1
        try:
            return await next(call)
        finally:
            self.ended += 1


PAY, WAIT, ORDER = ("pay", {"item": "tea"}), ("wait", {}), ("order", {})
INTERRUPTED = "Error: The call of 'wait' was interrupted. It did not finish, and may have had an effect."


async def cancel(shop: Shop, conversing: Any) -> None:
    task = asyncio.create_task(conversing)
    shop.interrupt = task.cancel
    await task


async def time_out(shop: Shop, conversing: Any) -> None:
    async with asyncio.timeout(None) as limit:
        shop.interrupt = lambda: limit.reschedule(0)
        await conversing


async def read(events: Any) -> None:
    async for _ in events:
        pass


def press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


INTERRUPTIONS: dict[str, Callable[[Shop, Any], Any]] = {
    "a cancelled task": lambda shop, model: asyncio.run(cancel(shop, shop.kit.aconverse(model, "Go."))),
    "a cancelled reader": lambda shop, model: asyncio.run(cancel(shop, read(shop.kit.astream_converse(model, "Go.")))),
    "a timeout of the caller": lambda shop, model: asyncio.run(time_out(shop, shop.kit.aconverse(model, "Go."))),
    "Ctrl-C in asyncio.run": lambda shop, model: asyncio.run(shop.kit.aconverse(model, "Go.")),
    "Ctrl-C": lambda shop, model: shop.kit.converse(model, "Go."),
    "Ctrl-C in a reader": lambda shop, model: list(shop.kit.stream_converse(model, "Go.")),
}


@pytest.mark.parametrize("interrupt", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
def test_an_interrupted_conversation_has_the_results_of_the_calls_that_had_ended(interrupt):
    shop, script = Shop(), Script(ask(PAY, WAIT), say("Done."))
    with pytest.raises((asyncio.CancelledError, TimeoutError, KeyboardInterrupt)) as raised:
        interrupt(shop, script)
    conversation = Conversation.from_error(raised.value)
    assert conversation is not None
    assert (conversation.stop_reason, conversation.turns) == ("failed", 1)
    assert [message.get("content") for message in conversation.messages[2:]] == ["paid for tea", INTERRUPTED]
    assert conversation.run is not None
    assert [result.error and result.error.code for _, result in conversation.run.results] == [None, "cancelled"]
    assert shop.kit.converse(script, conversation).text == "Done."
    assert shop.paid == ["tea"]


def test_an_error_of_a_decision_on_nothing_has_the_conversation():
    shop = Shop(requires_approval=True)
    waiting = shop.kit.converse(Script(ask(WAIT)), "Go.")
    answered = shop.kit.converse(Script(say("Done.")), "Go.")
    for conversation, decisions in ((waiting, {}), (answered, {"approved": True})):
        with pytest.raises(ToolkitError) as raised:
            shop.kit.converse(Script(), conversation, **decisions)
        assert Conversation.from_error(raised.value) == conversation


def test_an_interrupted_conversation_waits_for_a_call_that_waited_already():
    shop = Shop()
    script = Script(ask(PAY, ORDER, WAIT), say("Done."))
    with pytest.raises(asyncio.CancelledError) as raised:
        asyncio.run(cancel(shop, shop.kit.aconverse(script, "Go.")))
    waiting = Conversation.from_error(raised.value)
    assert waiting is not None
    assert (waiting.stop_reason, [request.tool for request in waiting.pending]) == ("waiting", ["order"])
    done = shop.kit.converse(script, waiting, results={"c1": "ordered"})
    assert [message["content"] for message in done.messages[2:5]] == ["paid for tea", "ordered", INTERRUPTED]


async def test_a_decided_call_that_is_interrupted_is_answered():
    shop = Shop(requires_approval=True)
    script = Script(ask(PAY, WAIT), say("Done."))
    waiting = shop.kit.converse(script, "Go.")
    with pytest.raises(asyncio.CancelledError) as raised:
        await cancel(shop, shop.kit.aconverse(script, waiting, approved=True))
    conversation = Conversation.from_error(raised.value)
    assert conversation is not None
    assert conversation.stop_reason == "failed"
    assert [message["content"] for message in conversation.messages[2:]] == ["paid for tea", INTERRUPTED]


def test_a_stream_that_breaks_keeps_what_was_before(session):
    def model(messages: list[Any], tools: Any) -> Iterator[Any]:
        yield chunk_of({"content": "Half an"})
        raise ServiceError("reset")

    events = []
    with pytest.raises(ServiceError) as raised:
        events.extend(session.stream_converse(model, "Go."))
    kept = Conversation.from_error(raised.value)
    assert kept is not None
    assert kept.messages == [{"role": "user", "content": "Go."}]


# malformed answers

MALFORMED = {
    "gemini": (
        {
            "candidates": [{"content": {"role": "model"}, "finishReason": "MALFORMED_FUNCTION_CALL"}],
            "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 1},
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP"}]},
        [{"role": "user", "parts": [{"text": "Go."}]}],
    ),
    "bedrock": (
        {
            "output": {"message": {"role": "assistant", "content": []}},
            "stopReason": "malformed_tool_use",
            "usage": {"inputTokens": 4, "outputTokens": 1},
        },
        {"output": {"message": {"role": "assistant", "content": [{"text": "Done."}]}}, "stopReason": "end_turn"},
        [{"role": "user", "content": [{"text": "Go."}]}],
    ),
}
each_malformed = pytest.mark.parametrize("name", MALFORMED)


@each_malformed
def test_a_malformed_answer_is_asked_for_again(session, name):
    bad, good, question = MALFORMED[name]
    script = Script(bad, bad, good, format=name)
    done = session.converse(script, "Go.")
    assert (done.text, done.turns, done.usage.total_tokens) == ("Done.", 1, 10)
    assert done.messages[:-1] == question  # the request to send it again is not kept
    for messages, _ in script.requests[1:]:
        assert "The call was malformed" in str(messages)
        assert [message["role"] for message in messages] in (["user"], ["user", "user"])
    assert len(script.requests[1][0]) == (1 if name == "bedrock" else 2)  # Bedrock refuses two of the user's in a row


def test_malformed_answers_count_in_a_row_alone(session):
    bad, good, _ = MALFORMED["gemini"]
    use = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "find", "args": {"topic": "tea"}}}]}}]}
    script = Script(bad, bad, use, bad, bad, good, format="gemini")
    assert session.converse(script, "Go.").turns == 2


@each_malformed
@pytest.mark.parametrize("max_retries", [0, 1])
def test_too_many_malformed_answers_are_an_error_with_the_conversation(session, name, max_retries):
    bad, good, question = MALFORMED[name]
    script = Script(*[bad] * (max_retries + 1), good, format=name)
    with pytest.raises(MalformedAnswerError, match=f"{max_retries + 1} malformed answers") as raised:
        session.converse(script, "Go.", max_retries=max_retries)
    kept = Conversation.from_error(raised.value)
    assert kept is not None
    assert kept.messages == question
    assert session.converse(script, kept).text == "Done."


def test_a_call_with_broken_arguments_is_answered_with_the_reason(session):
    broken = ask(TEA)
    broken["tool_calls"][0]["function"]["arguments"] = '{"topic": '
    done = session.converse(Script(broken, say("Sorry.")), "Go.")
    assert done.messages[2]["content"].startswith("Error: The arguments are not valid JSON")


# pauses and containers


def anthropic(stop_reason: str, *blocks: Any, container: str | None = None) -> dict[str, Any]:
    fields = {"container": {"id": container, "expires_at": "2036-01-01T00:00:00Z"}} if container else {}
    return {"type": "message", "role": "assistant", "content": [*blocks], "stop_reason": stop_reason, **fields}


def test_a_paused_turn_goes_on_and_a_container_is_passed_on(session):
    text = {"type": "text", "text": "Wait."}
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"topic": "tea"}}
    answers = iter(
        [
            anthropic("tool_use", use, container="box"),
            anthropic("pause_turn", text, container="box2"),
            {**anthropic("pause_turn", text), "container": {"id": "old", "expires_at": "2020-01-01T00:00:00Z"}},
            anthropic("end_turn", {"type": "text", "text": "Done."}),
        ]
    )
    requests: list[dict[str, Any]] = []

    def create(**request: Any) -> Any:
        requests.append(request)
        return next(answers)

    client = SimpleNamespace(messages=SimpleNamespace(create=create))
    model = formats.anthropic.model(client, model="m", max_tokens=9, system="Be brief.")
    done = session.converse(model, "Go.")
    assert roles(done) == ["user", "assistant", "user", "assistant", "assistant", "assistant"]
    assert [request.get("container") for request in requests] == [None, "box", "box2", None]
    assert all(request["system"] == "Be brief." for request in requests)


# tools that change


def test_tools_that_a_call_has_activated_are_in_the_next_request():
    kit = Toolkit("desk").add_group("more")
    kit.add(find, group="more").add(kit.groups_tool())
    session = kit.session()
    script = Script(ask(("set_groups", {"more": True})), ask(TEA), say("Done."))
    session.converse(script, "Go.")
    assert [names for _, names in script.requests] == [["set_groups"], ["find", "set_groups"], ["find", "set_groups"]]


def test_a_selection_converses_with_its_tools_alone(session):
    script = Script(ask(OLD), say("Done."))
    done = session.select(names=["find"]).converse(script, "Go.")
    assert script.requests[0][1] == ["find"]
    assert "remove" in done.messages[2]["content"]
    assert done.stop_reason == "answered"


# formats


def test_the_format_is_that_of_the_call_the_model_or_the_answer(session):
    text = anthropic("end_turn", {"type": "text", "text": "Hi"})
    use = anthropic("tool_use", {"type": "tool_use", "id": "t1", "name": "find", "input": {"topic": "tea"}})
    script = Script(use, text)
    assert session.converse(script, "Go.").format == "anthropic"
    assert script.requests[1][0][-1]["content"][0]["type"] == "tool_result"
    assert session.converse(Script(text), "Go.").text == "Hi"
    assert session.converse(Script(text, format="anthropic"), "Go.").format == "anthropic"
    assert session.converse(Script(text), "Go.", format="anthropic").format == "anthropic"
    with pytest.raises(ToolkitError, match="it looks like 'anthropic'"):
        session.converse(Script(text), "Go.", format="openai")
    done = session.converse(Script(text, format="anthropic"), "Go.")
    with pytest.raises(ToolkitError, match="is in the format 'anthropic', and the model takes 'openai'"):
        session.converse(Script(say("Hi"), format="openai"), done)


def test_calls_alone_and_text_alone_are_answers(session):
    script = Script([ToolCall(id="c0", name="find", arguments={"topic": "tea"})], say("Done."), format="openai")
    assert roles(session.converse(script, "Go.")) == ["user", "assistant", "tool", "assistant"]
    in_text = Script('{"name": "find", "parameters": {"topic": "tea"}}', "It is about tea.", format="prompt")
    done = session.converse(in_text, "Go.")
    assert done.text == "It is about tea."
    assert "Ann on tea" in done.messages[2]["content"]


def test_a_format_without_turns_is_refused_before_a_request(session):
    script = Script(format="mcp")
    with pytest.raises(ToolkitError, match="'mcp' has no function `turn"):
        session.converse(script, "Go.")
    assert script.requests == []


def test_a_format_of_another_package_needs_a_turn_alone(session):
    def turn(response: Any, calls: Any) -> Turn:
        return Turn(messages=[response], text="own")

    functions = {name: getattr(OPENAI, name) for name in ("export", "calls", "results", "choice", "message")}
    formats.register("own-format", SimpleNamespace(**functions, turn=turn))
    done = session.converse(Script(ask(TEA), say("Done."), format="own-format"), "Go.")
    assert (done.text, roles(done)) == ("own", ["user", "assistant", "tool", "assistant"])


# what is in the JSON


def test_bound_values_are_not_in_the_json_and_bytes_come_back(session):
    kit = make_kit()
    secret = kit.session(user="S3CRET")
    image = {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"\x89PNG\x00"}}}]}
    tool_use = {"toolUse": {"toolUseId": "t1", "name": "remove", "input": {"topic": "old"}}}
    answer = {"output": {"message": {"role": "assistant", "content": [tool_use]}}, "stopReason": "tool_use"}
    waiting = secret.converse(Script(answer, format="bedrock"), [image])
    text = json.dumps(waiting.to_json())
    assert "S3CRET" not in text
    assert "S3CRET" not in repr(waiting)
    restored = Conversation.from_json(json.loads(text))
    assert restored == waiting
    assert restored.messages[0] == image


@each_model
def test_half_characters_of_a_model_do_not_break_the_next_request(session, made):
    """A stream may cut a character in two; a lone half cannot be sent to a provider, nor written to a file."""
    script = Script(ask(("find", {"topic": "\ud83d\ude00"})), say("\ud83d\ude00 and \ud83d"))
    done = session.converse(made(script), "Go.")
    assert done.text == "\U0001f600 and \ufffd"
    json.dumps(done.to_json(), ensure_ascii=False).encode()
    events = session.stream_converse(made(Script(say("\ud83d"))), "Go.")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).encode()


def test_other_data_is_no_conversation():
    good = Conversation(stop_reason="answered", messages=[{"role": "user", "content": "Hi"}]).to_json()
    assert Conversation.from_json(good).messages == [{"role": "user", "content": "Hi"}]
    wrong: list[Any] = [
        {}, [], {**good, "version": 2}, {**good, "stop_reason": "done"}, {**good, "usage": {"nope": 1}},
        {**good, "bytes_at": [[7]]}, {**good, "bytes_at": [[0, "content"]]}, {**good, "bytes_at": [[]]},
        {**good, "run": {}}, {**good, "messages": {"role": "user"}}, {**good, "format": []},
        {**good, "turns": float("inf")}, {**good, "messages": None}, {**good, "turns": "x"},
    ]  # fmt: skip
    for data in wrong:
        with pytest.raises(ToolSpecError, match=r"not a saved (conversation|run)"):
            Conversation.from_json(data)
    with pytest.raises(ToolSpecError, match="contains a set"):
        Conversation(stop_reason="answered", messages=[{"role": {1}}]).to_json()


# leaving


class Stream:
    """A stream as SDKs have them: an iterator with `close`."""

    def __init__(self, *events: Any) -> None:
        self.events, self.closed = iter(events), 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        return next(self.events)

    def close(self) -> None:
        self.closed += 1


class AsyncStream(Stream):
    """An async one, whose `close` is awaited."""

    __iter__ = None  # type: ignore[assignment]

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Any:
        for event in self.events:
            return event
        raise StopAsyncIteration

    async def close(self) -> None:  # type: ignore[override]
        self.closed += 1


@pytest.mark.parametrize("kind", [Stream, AsyncStream])
@pytest.mark.parametrize("is_async", [False, True], ids=["from-sync", "from-async"])
@pytest.mark.parametrize("leaves", [False, True], ids=["reads-all", "leaves"])
def test_the_stream_of_an_sdk_is_closed(session, kind, is_async, leaves):
    stream = kind(chunk_of({"content": "a"}), chunk_of({"content": "b"}))

    async def read() -> None:
        async with contextlib.aclosing(session.astream_converse(lambda messages, tools: stream, "Go.")) as events:
            async for _ in events:
                if leaves:
                    break

    if is_async:
        asyncio.run(read())
    else:
        with contextlib.closing(session.stream_converse(lambda messages, tools: stream, "Go.")) as events:
            for _ in events:
                if leaves:
                    break
    assert stream.closed >= 1
    assert leaves or stream.closed == 1


def streaming_model(kind: str, closed: threading.Event) -> Any:
    """Return a model that streams three letters, and sets the event when its stream is closed."""

    def model(messages: list[Any], tools: Any) -> Iterator[Any]:
        try:
            for letter in "abc":
                yield chunk_of({"content": letter})
        finally:
            closed.set()

    async def amodel(messages: list[Any], tools: Any) -> AsyncIterator[Any]:
        with contextlib.closing(model(messages, tools)) as chunks:
            for chunk in chunks:
                yield chunk

    return model if kind == "sync" else amodel


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_leaving_the_loop_closes_the_models_stream(session, kind):
    closed = threading.Event()
    events = session.stream_converse(streaming_model(kind, closed), "Go.")
    assert next(events) == TextDelta("a")
    events.close()
    assert closed.wait(5)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_closing_an_async_reader_closes_the_models_stream(session, kind):
    closed = threading.Event()
    async with contextlib.aclosing(session.astream_converse(streaming_model(kind, closed), "Go.")) as events:
        async for event in events:
            assert event == TextDelta("a")
            break
    assert await asyncio.to_thread(closed.wait, 5)


async def test_cancelling_the_task_ends_a_sync_stream_after_its_next_event(session):
    begun, release, closed = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def model(messages: list[Any], tools: Any) -> Iterator[Any]:
        try:
            yield chunk_of({"content": "a"})
            loop.call_soon_threadsafe(begun.set)
            release.wait(30)
            while True:
                yield chunk_of({"content": "b"})
        finally:
            closed.set()

    task = asyncio.create_task(session.aconverse(model, "Go."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await asyncio.to_thread(closed.wait, 30)


async def test_cancelling_the_task_ends_the_request_and_keeps_the_conversation(session):
    begun, ended = asyncio.Event(), asyncio.Event()
    kept: list[Conversation | None] = []

    async def model(messages: list[Any], tools: Any) -> Any:
        if len(messages) == 1:
            return ask(TEA)
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def converse() -> None:
        try:
            await session.aconverse(model, "Go.")
        except asyncio.CancelledError as error:
            kept.append(Conversation.from_error(error))
            raise

    task = asyncio.create_task(converse())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert kept[0] is not None
    assert kept[0].turns == 1


async def test_cancelling_the_task_ends_a_tool():
    kit = Toolkit("slow")
    begun, ended = asyncio.Event(), asyncio.Event()

    @kit.tool
    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(kit.aconverse(as_async(Script(ask(("wait", {})))), "Go."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_sync_model_does_not_block_the_event_loop(session):
    loop, running, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def model(messages: list[Any], tools: Any) -> Any:
        loop.call_soon_threadsafe(running.set)
        assert release.wait(30)
        return say("Done.")

    task = asyncio.create_task(session.aconverse(model, "Go."))
    await running.wait()
    release.set()
    assert (await task).text == "Done."


def test_sessions_converse_at_once_with_one_model():
    kit = make_kit()
    model = as_async(Script(*[ask(TEA)] * 50, *[say("Done.")] * 50))

    async def converse() -> list[Conversation]:
        sessions = [kit.session(user=f"user {number}") for number in range(50)]
        return await asyncio.gather(*(session.aconverse(model, "Go.") for session in sessions))

    for number, conversation in enumerate(asyncio.run(converse())):
        contents = [message.get("content") for message in conversation.messages if message["role"] == "tool"]
        assert set(contents) <= {f"user {number} on tea"}


def test_the_messages_that_are_passed_are_not_changed(session):
    messages = [{"role": "user", "content": "Go."}]
    done = session.converse(Script(ask(TEA), say("Done.")), messages)
    assert messages == [{"role": "user", "content": "Go."}]
    again = session.converse(Script(say("Again.")), [*done.messages, {"role": "user", "content": "More."}])
    assert (len(done.messages), len(again.messages)) == (4, 6)


def test_a_program_in_the_providers_sandbox_calls_tools(session):
    """The tools allow it, the answer and the result are in its form, and the next request names its container."""
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    server_use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "…"}}
    use = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"topic": "tea"}, "caller": caller}
    answers = iter(
        [
            anthropic("tool_use", server_use, use, container="box"),
            anthropic("end_turn", {"type": "text", "text": "Done."}),
        ]
    )
    requests: list[dict[str, Any]] = []

    def create(**request: Any) -> Any:
        requests.append(request)
        return next(answers)

    kit = Toolkit("notes").add(find, allowed_callers=["programmatic"]).bind("user")
    client = SimpleNamespace(messages=SimpleNamespace(create=create))
    model = formats.anthropic.model(client, model="m", max_tokens=9, export={"code_execution": True})
    done = kit.session(user="Ann").converse(model, "Go.")
    assert [tool["name"] for tool in requests[0]["tools"]] == ["find", "code_execution"]
    assert requests[1]["messages"][1]["content"] == [server_use, use]
    assert requests[1]["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Ann on tea"}
    ]
    assert (requests[1]["container"], done.text) == ("box", "Done.")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("anthropic", [{"type": "message_start", "message": {"role": "assistant", "content": []}}, [1]]),
        ("gemini", {"candidates": [], "usageMetadata": 1.5}),
        ("bedrock", {"output": {"message": {"role": "assistant", "content": [{"text": [{}]}]}}}),
        ("bedrock", [{"contentBlockDelta": {"delta": {"text": "a"}, "contentBlockIndex": {"a": 1}}}]),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_with_the_conversation(name: str, answer: Any):
    with pytest.raises(MalformedAnswerError, match=name) as raised:
        Toolkit("empty").converse(Script(answer, format=name), "Hi")
    assert Conversation.from_error(raised.value).messages != []


@pytest.mark.parametrize("depth", [500, 900, 100_000])
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_an_answer_that_is_nested_too_deep_is_an_error_with_the_conversation(name: str, depth: int):
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    content = [{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": nested}}]
    answer = {"type": "message", "role": "assistant", "content": content, "tool_calls": nested}
    with pytest.raises(ToolSpecError) as raised:
        Toolkit("empty").converse(Script(answer, format=name), "Hi")
    assert Conversation.from_error(raised.value).messages != []


def test_what_no_json_has_is_in_no_message():
    """Python's JSON has NaN; the JSON of a database has not."""
    parts = [{"functionCall": {"id": "c1", "name": "f", "args": {"x": float("nan"), "y": [float("-inf"), 1.5]}}}]
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    conversation = Toolkit("empty").converse(Script(answer, format="gemini"), "Hi", max_turns=1)
    assert conversation.messages[1]["parts"][0]["functionCall"]["args"] == {"x": None, "y": [None, 1.5]}
    assert json.loads(json.dumps(conversation.to_json(), allow_nan=False)) == conversation.to_json()
    with pytest.raises(ToolSpecError, match="the number nan"):
        Conversation(messages=[{"content": float("nan")}], stop_reason="answered").to_json()


def test_the_options_of_an_export_are_those_of_the_model():
    with pytest.raises(TypeError, match=r"Unknown option 'export'.*anthropic\.model\(client, model=…, export="):
        Toolkit("kit").converse(lambda *_: None, "hello", export={"strict": True})
