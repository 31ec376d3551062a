"""`trace_toolkit` records a span for each tool that a toolkit runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ahvn_tools.compat.agentscope.message import TextBlock, ToolUseBlock
from ahvn_tools.compat.agentscope.tool import Toolkit, ToolResponse
from ahvn_tools.compat.agentscope.tracing import trace_toolkit

SECRET = "sk-4711-green-tea"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans of the global tracer provider."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", provider)
    yield exporter
    assert otel.get_current_span() is otel.INVALID_SPAN, "a span was left current"
    provider.shutdown()


class OwnToolkit(Toolkit):
    """A toolkit with a traced method of its own."""

    @trace_toolkit
    async def call_tool_function(self, tool_call: ToolUseBlock) -> Any:
        """Call a tool as any toolkit does."""
        return await super().call_tool_function(tool_call)


@pytest.fixture
def toolkit() -> Toolkit:
    kit = Toolkit()
    for function in (add, fail, count, break_off, sleep):
        kit.register_tool_function(function)
    kit.register_tool_function(send, preset_kwargs={"api_key": SECRET})
    return kit


def response(text: str) -> ToolResponse:
    return ToolResponse([TextBlock(type="text", text=text)])


def add(a: int, b: int = 1) -> ToolResponse:
    """Add two numbers."""
    return response(str(a + b))


def fail(text: str) -> ToolResponse:
    """Fail."""
    raise ValueError(f"no {text}")


async def count(until: int) -> AsyncIterator[ToolResponse]:
    """Count."""
    for number in range(until):
        yield response(" ".join(map(str, range(number + 1))))


async def break_off() -> AsyncIterator[ToolResponse]:
    """Fail after the first response."""
    yield response("one")
    raise ValueError("broken")


async def sleep() -> ToolResponse:
    """Sleep."""
    await asyncio.sleep(60)
    return response("awake")


def send(text: str, api_key: str) -> ToolResponse:
    """Send a text."""
    return response(f"sent {text} with {api_key}")


async def call(toolkit: Toolkit, name: str, **arguments: Any) -> list[ToolResponse]:
    block = ToolUseBlock(type="tool_use", id="call-1", name=name, input=arguments)
    responses = []
    async for chunk in await toolkit.call_tool_function(block):
        assert otel.get_current_span() is otel.INVALID_SPAN
        responses.append(chunk)
    return responses


def only_span(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


async def test_each_call_makes_a_span_with_its_input_and_its_output(exporter, toolkit):
    await call(toolkit, "add", a=2)
    span = only_span(exporter)
    attributes = dict(span.attributes or {})
    assert span.name == "execute_tool add"
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert (attributes["gen_ai.tool.name"], attributes["gen_ai.tool.call.id"]) == ("add", "call-1")
    assert attributes["gen_ai.tool.description"] == "Add two numbers."
    assert json.loads(str(attributes["gen_ai.tool.call.arguments"])) == {"a": 2}
    assert "3" in str(attributes["gen_ai.tool.call.result"])
    assert span.status.status_code.name != "ERROR"


async def test_every_call_makes_one_span(exporter, toolkit):
    for number in range(3):
        await call(toolkit, "add", a=number)
    assert len(exporter.get_finished_spans()) == 3


async def test_a_failed_tool_has_the_status_error(exporter, toolkit):
    (failed,) = await call(toolkit, "fail", text="tea")
    assert failed.content == [{"type": "text", "text": "Error: no tea"}]
    span = only_span(exporter)
    assert span.status.status_code.name == "ERROR"
    assert (span.attributes or {})["error.type"] == "tool_error"


async def test_a_stream_is_one_span(exporter, toolkit):
    assert len(await call(toolkit, "count", until=3)) == 3
    assert "0 1 2" in str((only_span(exporter).attributes or {})["gen_ai.tool.call.result"])


async def test_a_stream_that_fails_has_the_status_error(exporter, toolkit):
    with pytest.raises(ValueError, match="broken"):
        await call(toolkit, "break_off")
    assert only_span(exporter).status.status_code.name == "ERROR"


async def test_a_cancelled_call_has_the_status_error(exporter, toolkit):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call(toolkit, "sleep"), 0.05)
    span = only_span(exporter)
    assert ((span.attributes or {})["error.type"], span.status.status_code.name) == ("cancelled", "ERROR")


async def test_presets_are_in_no_span(exporter, toolkit):
    (sent,) = await call(toolkit, "send", text="tea")
    assert SECRET in str(sent.content)
    span = only_span(exporter)
    assert SECRET not in span.to_json()
    assert "<api_key>" in str((span.attributes or {})["gen_ai.tool.call.result"])


async def test_a_span_of_a_tool_is_inside(exporter, toolkit):
    def nested() -> ToolResponse:
        """Open a span."""
        with otel.get_tracer("tests").start_as_current_span("inside"):
            return response("done")

    toolkit.register_tool_function(nested)
    await call(toolkit, "nested")
    inside, outside = exporter.get_finished_spans()
    assert (inside.name, outside.name) == ("inside", "execute_tool nested")
    assert inside.parent.span_id == outside.context.span_id


async def test_toolkits_are_traced_separately(exporter):
    kits = [Toolkit(), Toolkit()]
    for kit in kits:
        kit.register_tool_function(add)
        await call(kit, "add", a=1)
        await call(kit, "add", a=2)
    assert len(exporter.get_finished_spans()) == 4


async def test_without_a_tracer_provider_calls_work(toolkit):
    (answer,) = await call(toolkit, "add", a=2)
    assert answer.content == [{"type": "text", "text": "3"}]


async def test_a_tracer_provider_may_be_set_after_the_first_call(toolkit, request):
    await call(toolkit, "add", a=2)
    exporter = request.getfixturevalue("exporter")
    await call(toolkit, "add", a=2)
    assert only_span(exporter).name == "execute_tool add"


async def test_a_traced_method_of_a_subclass_makes_no_second_span(exporter):
    kit = OwnToolkit()
    kit.register_tool_function(add)
    (answer,) = await call(kit, "add", a=2)
    assert answer.content == [{"type": "text", "text": "3"}]
    assert only_span(exporter).name == "execute_tool add"


def test_the_decorated_method_keeps_its_name():
    assert OwnToolkit.call_tool_function.__name__ == "call_tool_function"
    assert OwnToolkit.call_tool_function.__doc__ == "Call a tool as any toolkit does."
