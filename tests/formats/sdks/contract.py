"""The tests for every SDK. A subclass defines how its SDK is called."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ClassVar

import pytest

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec, formats
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.read_only import ReadOnlyExports
from examples.loopback import Loopback
from tests.formats.sdks.cases import DEFINITIONS, PIXEL, draw, forecast, sink, spec_of
from tests.formats.sdks.conversing import OSLO, ROME, AsyncConversing, Conversing

WORDS = ["auto", "none", "required"]


class Contract(Conversing):
    """One format with one SDK, synchronous."""

    FORMAT: ClassVar[str]
    SERVICE: ClassVar[str]
    """The loopback server's name of the service."""
    OPTIONS: ClassVar[list[dict[str, Any]]] = [{}, {"strict": True}]
    """The options that its export is called with."""
    QUESTION: ClassVar[dict[str, Any]] = {"role": "user", "content": "How will it be?"}
    REFUSED: ClassVar[set[str]] = set()
    """The choices that raise; `"name"` means any tool's name, `"one"` one call at a time."""

    # how the SDK is called: subclasses define these

    def connected(self, url: str) -> AbstractContextManager[Any]:
        """Return a client that is closed by its `with` block."""
        raise NotImplementedError

    def request(self, messages: list[Any], tools: list[Any], choice: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for the SDK's function."""
        return {"model": "m", "messages": messages, "tools": tools, **choice}

    def ask(self, client: Any, request: dict[str, Any]) -> Any:
        """Send a request; return the SDK's answer."""
        raise NotImplementedError

    def events(self, client: Any, request: dict[str, Any]) -> AbstractContextManager[Any]:
        """Send a request; return the SDK's stream."""
        raise NotImplementedError

    def turn(self, answer: Any) -> list[Any]:
        """Return the model's turn as part of the next request."""
        raise NotImplementedError

    def text(self, answer: Any) -> str:
        """Return the model's text."""
        raise NotImplementedError

    def received(self, body: dict[str, Any]) -> Any:
        """Return the tools as the server received them."""
        return body["tools"]

    def received_choice(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the request that contains the fields of a choice, as the server received it."""
        return body

    def without_dropped_fields(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the tools without the fields that the SDK drops: none by default."""
        return tools

    def check_tools(self, tools: list[dict[str, Any]]) -> None:
        """Check an export against the SDK's types."""
        raise NotImplementedError

    def check_results(self, messages: list[dict[str, Any]]) -> None:
        """Check messages against the SDK's types."""
        raise NotImplementedError

    def check_message(self, messages: list[dict[str, Any]]) -> None:
        """Check a model's written message against the SDK's types."""
        self.check_results(messages)

    def check_choice(self, fields: dict[str, Any]) -> None:
        """Check a choice against the SDK's types."""
        raise NotImplementedError

    def seen_image(self) -> str:
        """Return the server's text about the image of `draw`."""
        return f"[image/png, {len(PIXEL)} characters]"

    def seen_error(self, message: str) -> str:
        """Return the server's text about an error."""
        return f"Error: {message}"

    # shared steps

    def export(self, definitions: list[ToolDefinition], **options: Any) -> list[dict[str, Any]]:
        return formats.get(self.FORMAT).export(definitions, **options)

    def results(self, calls: list[ToolCall], spec: ToolSpec) -> list[dict[str, Any]]:
        pairs: list[tuple[ToolCall, ToolResult]] = [(call, spec.exec(**call.arguments)) for call in calls]
        return formats.get(self.FORMAT).results(pairs)

    def get_calls(self, server: Loopback, client: Any, spec: ToolSpec, *arguments: dict[str, Any]) -> list[ToolCall]:
        """Let the model call with each of the arguments; return the calls as the format reads them."""
        server.arguments = arguments
        request = self.request([self.QUESTION], self.export([spec.definition]), {})
        return formats.get(self.FORMAT).calls(self.ask(client, request), [spec.definition])

    def answer(self, server: Loopback, client: Any, spec: ToolSpec, *arguments: dict[str, Any], **options: Any) -> str:
        """Let the model call with each of the arguments, send the results, and return its final text."""
        server.arguments = arguments
        tools = self.export([spec.definition], **options)
        messages: list[Any] = [self.QUESTION]
        answer = self.ask(client, self.request(messages, tools, {}))
        calls = formats.get(self.FORMAT).calls(answer, [spec.definition])
        assert calls_of(calls) == [(spec.name, each, None) for each in arguments]
        messages += [*self.turn(answer), *self.results(calls, spec)]
        return self.text(self.ask(client, self.request(messages, tools, {})))

    def called_names(self, server: Loopback, client: Any, fields: dict[str, Any]) -> list[str]:
        """Send a request with a choice; return the names of the tools that the model calls."""
        self.check_choice(fields)
        answer = self.ask(client, self.request([self.QUESTION], self.export(DEFINITIONS), fields))
        assert fields.items() <= self.received_choice(server.requests[-1]).items()
        return [call.name for call in formats.get(self.FORMAT).calls(answer, DEFINITIONS)]

    # the tests

    @pytest.mark.parametrize("arguments", [[OSLO], [OSLO, ROME], [ROME, OSLO, ROME]], ids=["one", "two", "three"])
    @pytest.mark.parametrize("strict", [False, True])
    def test_calls_run_and_their_results_reach_the_model(self, server, client, arguments, strict):
        text = self.answer(server, client, spec_of(forecast), *arguments, strict=strict)
        expected = [f"Ann: {each.get('days', 1)} days of rain in {each['city']}" for each in arguments]
        assert [text.count(line) for line in expected] == [expected.count(line) for line in expected]
        assert text.startswith("The tool said: ")
        assert len(server.requests) == 2

    def test_a_written_message_replaces_the_models_own(self, server, client):
        spec = spec_of(forecast)
        calls = self.get_calls(server, client, spec, OSLO, ROME)
        written = formats.get(self.FORMAT).message(calls, text="Let me see.")
        self.check_message(written)
        messages = [self.QUESTION, *written, *self.results(calls, spec)]
        text = self.text(self.ask(client, self.request(messages, self.export([spec.definition]), {})))
        assert "Ann: 2 days of rain in Oslo" in text
        assert "Ann: 1 days of rain in Rome" in text
        assert "Let me see." in str(server.requests[-1])

    def test_a_bound_value_is_in_no_request(self, server, client):
        self.answer(server, client, ToolSpec.from_function(sink).bind("user", default="S3CRET"), ROME)
        assert "S3CRET" not in str(server.requests)
        assert "user" not in str(self.received(server.requests[0]))

    def test_an_error_reaches_the_model_as_one(self, server, client):
        text = self.answer(server, client, spec_of(sink), ROME)
        assert self.seen_error("There is no Rome for Ann.") in text

    def test_an_image_reaches_the_model(self, server, client):
        text = self.answer(server, client, spec_of(draw), ROME, ROME)
        assert text.count(self.seen_image()) == 2

    @pytest.mark.parametrize("function", [forecast, sink, draw], ids=["text", "error", "image"])
    def test_results_fit_the_sdks_types(self, server, client, function):
        spec = spec_of(function)
        self.check_results(self.results(self.get_calls(server, client, spec, ROME, ROME), spec))

    @pytest.mark.parametrize("arguments", [[OSLO], [OSLO, {}, ROME]], ids=["one", "three"])
    def test_the_sdks_stream_is_read(self, server, client, arguments):
        spec = spec_of(forecast)
        server.arguments = arguments
        with self.events(client, self.request([self.QUESTION], self.export([spec.definition]), {})) as events:
            calls = list(formats.get(self.FORMAT).stream(events, [spec.definition]))
        assert calls_of(calls) == [(spec.name, each, None) for each in arguments]

    def test_a_stream_of_text_contains_no_calls(self, client):
        with self.events(client, self.request([self.QUESTION], [], {})) as events:
            assert list(formats.get(self.FORMAT).stream(events)) == []

    @pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
    def test_every_tool_arrives_as_it_was_exported_and_fits_the_sdks_types(self, server, client, definition, options):
        tools = self.export([definition], **options)
        self.check_tools(tools)
        answer = self.ask(client, self.request([self.QUESTION], tools, {}))
        assert self.received(server.requests[0]) == self.without_dropped_fields(self.export([definition], **options))
        assert calls_of(formats.get(self.FORMAT).calls(answer, [definition])) == [(definition.name, {}, None)]

    def test_tools_go_together(self, server, client, options):
        tools = self.export(DEFINITIONS, **options)
        self.check_tools(tools)
        self.ask(client, self.request([self.QUESTION], tools, {}))
        assert self.received(server.requests[0]) == self.without_dropped_fields(self.export(DEFINITIONS, **options))

    def test_a_read_only_export_arrives_as_a_fresh_one(self, server, client, options):
        tools = ReadOnlyExports().export(self.FORMAT, DEFINITIONS, options)
        self.ask(client, self.request([self.QUESTION], tools, {}))
        assert self.received(server.requests[0]) == self.without_dropped_fields(self.export(DEFINITIONS, **options))
        assert tools == self.export(DEFINITIONS, **options)

    @pytest.mark.parametrize("parallel", [None, False, True])
    @pytest.mark.parametrize("word", WORDS)
    def test_a_choice_by_mode_is_applied(self, server, client, word, parallel):
        if word in self.REFUSED or (parallel is False and "one" in self.REFUSED):
            with pytest.raises(ToolSpecError):
                formats.get(self.FORMAT).choice(word, parallel=parallel)
            return
        fields = formats.get(self.FORMAT).choice(word, parallel=parallel)
        assert self.called_names(server, client, fields) == ([] if word == "none" else [DEFINITIONS[0].name])

    @pytest.mark.parametrize("tools", [DEFINITIONS[-1].name, [DEFINITIONS[-1].name]], ids=["name", "list"])
    def test_a_choice_of_a_tool_is_applied(self, server, client, tools):
        if "name" in self.REFUSED:
            with pytest.raises(ToolSpecError):
                formats.get(self.FORMAT).choice(tools, definitions=DEFINITIONS)
            return
        fields = formats.get(self.FORMAT).choice(tools, definitions=DEFINITIONS)
        assert self.called_names(server, client, fields) == [DEFINITIONS[-1].name]


def calls_of(calls: list[ToolCall]) -> list[tuple[str, dict[str, Any], str | None]]:
    """Return the calls without their ids."""
    return [(call.name, call.arguments, call.error) for call in calls]


class AsyncContract(AsyncConversing):
    """The same SDK, asynchronous."""

    def connect_async(self, url: str) -> AbstractAsyncContextManager[Any]:
        """Return a client that is closed by its `async with` block."""
        raise NotImplementedError

    async def ask_async(self, client: Any, request: dict[str, Any]) -> Any:
        """Send a request; return the SDK's answer."""
        raise NotImplementedError

    def events_async(self, client: Any, request: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Send a request; return the SDK's stream."""
        raise NotImplementedError

    async def test_calls_run_and_their_results_reach_the_model_asynchronously(self: Any, server):
        spec = spec_of(forecast)
        tools = self.export([spec.definition])
        messages: list[Any] = [self.QUESTION]
        server.arguments = [OSLO, ROME]
        async with self.connect_async(server.url(self.SERVICE)) as client:
            answer = await self.ask_async(client, self.request(messages, tools, {}))
            calls = formats.get(self.FORMAT).calls(answer, [spec.definition])
            pairs = [(call, await spec.aexec(**call.arguments)) for call in calls]
            messages += [*self.turn(answer), *formats.get(self.FORMAT).results(pairs)]
            text = self.text(await self.ask_async(client, self.request(messages, tools, {})))
        assert "Ann: 2 days of rain in Oslo" in text
        assert "Ann: 1 days of rain in Rome" in text

    async def test_the_sdks_asynchronous_stream_is_read(self: Any, server):
        spec = spec_of(forecast)
        server.arguments = [OSLO, {}]
        async with self.connect_async(server.url(self.SERVICE)) as client:
            request = self.request([self.QUESTION], self.export([spec.definition]), {})
            async with self.events_async(client, request) as events:
                calls = [call async for call in formats.get(self.FORMAT).stream(events, [spec.definition])]
        assert calls_of(calls) == [(spec.name, OSLO, None), (spec.name, {}, None)]
