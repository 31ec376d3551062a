"""The tests of conversations for every SDK: `Contract` and `AsyncContract` have them."""

from __future__ import annotations

import contextlib
import json
from typing import Any, ClassVar

import pytest

from ahvn_tools import Conversation, TextDelta, ToolCall, Toolkit, ToolResult, formats
from ahvn_tools.errors import MalformedAnswerError
from examples.loopback import Loopback
from tests.formats.sdks.cases import draw, forecast, sink

OSLO = {"city": "Oslo", "days": 2}
ROME = {"city": "Rome"}
SAID = "The tool said: Ann: 2 days of rain in Oslo | Ann: 1 days of rain in Rome"

each_form = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def session_of(*functions: Any, **options: Any) -> Toolkit:
    """Return a session of a toolkit with these tools; two such sessions can resume each other's calls."""
    kit = Toolkit("weather", secret_key="0123456789abcdef").add(*functions, **options).bind("user")
    return kit.session(user="Ann", session_id="ann")


def check(conversation: Conversation, server: Loopback, is_streamed: bool) -> None:
    """Check a conversation in which the model has called `forecast` for two cities."""
    assert (conversation.text, conversation.stop_reason, conversation.turns) == (SAID, "answered", 2)
    assert len(server.requests) == 2
    usage = conversation.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert Conversation.from_json(json.loads(json.dumps(conversation.to_json()))) == conversation


def check_events(events: list[Any], stream: bool) -> None:
    """Check the events of such a conversation."""
    kinds = [type(event) for event in events]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == SAID
    assert kinds == [ToolCall, ToolCall, ToolResult, ToolResult, *[TextDelta] * len(texts), Conversation]
    assert [event.arguments for event in events[:2]] == [OSLO, ROME]
    assert {event.id for event in events[:2]} == {event.id for event in events[2:4]}


class Conversing:
    """Conversations with a sync client, in sync and in async code."""

    REQUEST: ClassVar[dict[str, Any]] = {"model": "m"}

    def model(self: Any, client: Any, **options: Any) -> Any:
        """Return the model of a client."""
        return formats.get(self.FORMAT).model(client, **self.REQUEST, **options)

    @each_form
    def test_a_conversation_runs_all_calls(self: Any, server, client, stream):
        server.arguments = [OSLO, ROME]
        conversation = session_of(forecast).converse(self.model(client, stream=stream), [self.QUESTION])
        check(conversation, server, stream)
        assert conversation.usage.total_tokens == self.TOKENS

    @each_form
    def test_the_events_of_a_conversation_come_in_order(self: Any, server, client, stream):
        server.arguments = [OSLO, ROME]
        events = session_of(forecast).stream_converse(self.model(client, stream=stream), [self.QUESTION])
        check_events(list(events), stream)

    @each_form
    def test_a_conversation_goes_on_from_json_after_an_approval(self: Any, server, client, stream):
        server.arguments = [OSLO, ROME]
        model = self.model(client, stream=stream)
        waiting = session_of(forecast, requires_approval=True).converse(model, "How will it be?")
        assert (waiting.stop_reason, len(waiting.pending), len(server.requests)) == ("waiting", 2, 1)
        saved = json.dumps(waiting.to_json())
        later = session_of(forecast, requires_approval=True)
        conversation = later.converse(model, Conversation.from_json(json.loads(saved)), approved=True)
        check(conversation, server, stream)

    @each_form
    def test_a_finished_conversation_takes_another_question(self: Any, server, client, stream):
        server.arguments = [OSLO]
        model, session = self.model(client, stream=stream), session_of(forecast)
        first = session.converse(model, "How will it be?")
        server.turns = iter([("forecast", ROME)])
        restored = Conversation.from_json(json.loads(json.dumps(first.to_json())))
        second = session.converse(model, [*restored.messages, self.QUESTION])
        assert second.text == "The tool said: Ann: 1 days of rain in Rome"

    @each_form
    def test_errors_and_images_reach_the_model(self: Any, server, client, stream):
        server.turns = iter([("sink", ROME), ("draw", ROME)])
        conversation = session_of(sink, draw).converse(self.model(client, stream=stream), "What is there?")
        assert conversation.turns == 3
        assert self.seen_image() in conversation.text
        assert Conversation.from_json(json.loads(json.dumps(conversation.to_json()))).messages == conversation.messages

    @each_form
    def test_a_conversation_stops_after_its_turns_and_goes_on(self: Any, server, client, stream):
        server.turns = iter([("forecast", OSLO), ("forecast", ROME)])
        model, session = self.model(client, stream=stream), session_of(forecast)
        stopped = session.converse(model, "How will it be?", max_turns=2)
        assert (stopped.stop_reason, stopped.turns) == ("max_turns", 2)
        assert session.converse(model, stopped).turns == 3

    def test_a_reader_that_leaves_ends_the_request(self: Any, server, client):
        server.arguments = [OSLO, ROME]
        model, session = self.model(client, stream=True), session_of(forecast)
        events = session.stream_converse(model, "How will it be?")
        assert next(event for event in events if isinstance(event, TextDelta))
        events.close()
        assert session.converse(model, "How will it be?").text == SAID

    def test_an_error_of_the_sdk_keeps_the_conversation(self: Any, server, client):
        server.turns = iter([("forecast", OSLO), ("missing", {})])
        with pytest.raises(Exception, match="missing") as raised:
            session_of(forecast).converse(self.model(client), "How will it be?")
        assert not type(raised.value).__module__.startswith("ahvn_tools")
        conversation = Conversation.from_error(raised.value)
        assert (conversation.stop_reason, conversation.turns) == ("failed", 1)
        assert session_of(forecast).converse(self.model(client), conversation).text.endswith("rain in Oslo")

    def test_tools_are_exported_with_options_beside_those_of_the_request(self: Any, server, client):
        options = self.WITH_OWN_TOOL
        session_of(forecast).converse(self.model(client, **options), "How will it be?")
        assert len(self.received(server.requests[0])) == 2

    @each_form
    async def test_a_sync_client_serves_an_async_conversation(self: Any, server, client, stream):
        server.arguments = [OSLO, ROME]
        model = self.model(client, stream=stream)
        check_events([event async for event in session_of(forecast).astream_converse(model, [self.QUESTION])], stream)


class AsyncConversing:
    """Conversations with an async client, in async and in sync code."""

    @each_form
    async def test_an_async_conversation_runs_all_calls(self: Any, server, stream):
        server.arguments = [OSLO, ROME]
        async with self.connect_async(server.url(self.SERVICE)) as client:
            model = self.model(client, stream=stream)
            check(await session_of(forecast).aconverse(model, [self.QUESTION]), server, stream)

    @each_form
    async def test_the_events_of_an_async_conversation_come_in_order(self: Any, server, stream):
        server.arguments = [OSLO, ROME]
        async with self.connect_async(server.url(self.SERVICE)) as client:
            model = self.model(client, stream=stream)
            check_events(
                [event async for event in session_of(forecast).astream_converse(model, [self.QUESTION])], stream
            )

    async def test_an_async_reader_that_leaves_ends_the_request(self: Any, server):
        server.arguments = [OSLO, ROME]
        async with self.connect_async(server.url(self.SERVICE)) as client:
            model, session = self.model(client, stream=True), session_of(forecast)
            async with contextlib.aclosing(session.astream_converse(model, "How will it be?")) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
            assert (await session.aconverse(model, "How will it be?")).text == SAID

    @each_form
    async def test_an_async_client_serves_a_sync_conversation(self: Any, server, stream):
        server.arguments = [OSLO, ROME]
        async with self.connect_async(server.url(self.SERVICE)) as client:
            model = self.model(client, stream=stream)
            check_events(list(session_of(forecast).stream_converse(model, [self.QUESTION])), stream)


class ReasoningConversing:
    """Conversations with a model that reasons before its calls."""

    REASONING: ClassVar[dict[str, Any]]
    """The options with which it does."""

    @each_form
    def test_the_reasoning_of_a_model_returns_to_it_also_from_json(self: Any, server, client, stream):
        """The service refuses a call that comes back without its signed or encrypted reasoning."""
        server.arguments = [OSLO, ROME]
        model = self.model(client, stream=stream, **self.REASONING)
        waiting = session_of(forecast, requires_approval=True).converse(model, "How will it be?")
        assert len(waiting.pending) == 2
        later = Conversation.from_json(json.loads(json.dumps(waiting.to_json())))
        done = session_of(forecast, requires_approval=True).converse(model, later, approved=True)
        assert (done.text, len(server.requests)) == (SAID, 2)


class MalformedConversing:
    """Conversations with a service that discards malformed calls."""

    @each_form
    def test_a_malformed_call_is_asked_for_again(self: Any, server, client, stream):
        server.arguments, server.malformed = [OSLO, ROME], 2
        conversation = session_of(forecast).converse(self.model(client, stream=stream), "How will it be?")
        assert (conversation.text, conversation.turns, len(server.requests)) == (SAID, 2, 4)
        assert "malformed" not in str(conversation.messages)
        assert "The call was malformed" in str(server.requests[1])

    @each_form
    def test_a_call_that_stays_malformed_is_an_error_with_the_conversation(self: Any, server, client, stream):
        server.arguments, server.malformed = [OSLO, ROME], 3
        model = self.model(client, stream=stream)
        with pytest.raises(MalformedAnswerError, match="3 malformed answers") as raised:
            session_of(forecast).converse(model, "How will it be?")
        conversation = Conversation.from_error(raised.value)
        assert conversation.usage.total_tokens == 6
        assert session_of(forecast).converse(model, conversation).text == SAID
