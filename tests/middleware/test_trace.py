"""Trace: one span around each call, current inside of it, never in the reader of a stream, and without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Annotated, Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from ahvn_tools import ToolError, Toolkit
from ahvn_tools.middleware.trace import trace
from ahvn_tools.redaction.names import Secret

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("tests")


@pytest.fixture(autouse=True)
def _no_spans():
    exporter.clear()
    yield
    assert otel.get_current_span() is otel.INVALID_SPAN, "a span was left current"


def spans() -> list[ReadableSpan]:
    return list(exporter.get_finished_spans())


def only_span() -> ReadableSpan:
    (span,) = spans()
    return span


def traced(*tools: Any, content: bool = False, **options: Any) -> Toolkit:
    kit = Toolkit("k", middleware=[trace(tracer, content=content)], **options)
    for tool in tools:
        kit.add(tool)
    return kit


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def child() -> str:
    with tracer.start_as_current_span("inside"):
        return "done"


async def achild() -> str:
    with tracer.start_as_current_span("inside"):
        await asyncio.sleep(0)
        return "done"


def count(until: int):
    for number in range(until):
        with tracer.start_as_current_span("inside"):
            pass
        yield number


async def acount(until: int):
    for number in range(until):
        with tracer.start_as_current_span("inside"):
            await asyncio.sleep(0)
        yield number


def parts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# what a span says


def test_a_call_is_a_span_by_the_conventions():
    traced(add).exec("add", {"a": 1})
    span = only_span()
    assert (span.name, span.kind, span.status.status_code) == ("execute_tool add", SpanKind.INTERNAL, StatusCode.UNSET)
    message = parts(span)
    assert message.pop("gen_ai.tool.call.id").startswith("call_")
    assert message == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Add two numbers.",
    }


def test_a_span_carries_the_id_of_the_providers_call():
    answer = {"tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}]}
    traced(add).run(answer, format="openai")
    assert parts(only_span())["gen_ai.tool.call.id"] == "c1"


def test_the_span_of_a_call_in_a_session_has_the_session_id():
    traced(add).session(session_id="s-1").exec("add", {"a": 1})
    assert parts(only_span())["gen_ai.conversation.id"] == "s-1"


def test_a_span_has_no_description_if_the_tool_has_none():
    traced(child).exec("child")
    assert "gen_ai.tool.description" not in parts(spans()[-1])


def test_without_a_tracer_the_global_provider_is_used():
    kit = Toolkit("k", middleware=[trace()]).add(add)
    assert kit.call("add", {"a": 1}) == 2
    assert not spans()


# failures


def test_the_exception_of_a_tool_is_not_in_its_span():
    def fail(user: str) -> None:
        raise ValueError(f"nothing for {user}")

    kit = traced(fail, state={"user": "user-123456"}).bind("user")
    with pytest.raises(ValueError, match="user-123456"):
        kit.call("fail")
    assert "user-123456" not in only_span().to_json()
    assert not only_span().events
    assert only_span().status.description is None


# where a span is current


@pytest.mark.parametrize("tool", [child, achild])
def test_spans_that_a_tool_opens_are_its_children_in_sync_callers(tool):
    with tracer.start_as_current_span("caller"):
        traced(tool).exec(tool.__name__)
    inside, call, caller = spans()
    assert inside.parent.span_id == call.context.span_id
    assert call.parent.span_id == caller.context.span_id


@pytest.mark.parametrize("tool", [child, achild])
async def test_spans_that_a_tool_opens_are_its_children_in_async_callers(tool):
    with tracer.start_as_current_span("caller"):
        await traced(tool).aexec(tool.__name__)
    inside, call, caller = spans()
    assert inside.parent.span_id == call.context.span_id
    assert call.parent.span_id == caller.context.span_id


def test_spans_are_nested_with_middleware_that_needs_a_loop_and_with_a_timeout():
    async def wait(call, next):
        await asyncio.sleep(0)
        return await next(call)

    kit = traced(child)
    kit.use(wait)
    kit.exec("child")
    kit.exec("child", timeout=5)
    for inside, call in [spans()[:2], spans()[2:]]:
        assert inside.parent.span_id == call.context.span_id


@pytest.mark.parametrize("tool", [count, acount])
async def test_the_reader_of_an_async_stream_never_sees_the_span(tool):
    kit = traced(tool)
    with tracer.start_as_current_span("reader") as reader:
        async for _ in kit.astream(tool.__name__, {"until": 2}):
            assert otel.get_current_span() is reader
            with tracer.start_as_current_span("readers"):
                pass
    by_name = {span.name: span for span in spans()}
    call = by_name[f"execute_tool {tool.__name__}"]
    assert call.parent.span_id == by_name["reader"].context.span_id
    assert by_name["readers"].parent.span_id == by_name["reader"].context.span_id
    assert {s.parent.span_id for s in spans() if s.name == "inside"} == {call.context.span_id}


@pytest.mark.parametrize("tool", [count, acount])
def test_the_reader_of_a_sync_stream_never_sees_the_span(tool):
    kit = traced(tool)
    with tracer.start_as_current_span("reader") as reader:
        for _ in kit.stream(tool.__name__, {"until": 2}):
            assert otel.get_current_span() is reader
    by_name = {span.name: span for span in spans()}
    call = by_name[f"execute_tool {tool.__name__}"]
    assert call.parent.span_id == by_name["reader"].context.span_id
    assert {s.parent.span_id for s in spans() if s.name == "inside"} == {call.context.span_id}


async def test_two_streams_read_in_turn_have_separate_spans_and_no_log(caplog):
    kit = traced(acount)
    first, second = kit.astream("acount", {"until": 3}), kit.astream("acount", {"until": 3})
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            await anext(first)
            await anext(second)
        await first.aclose()
        await second.aclose()
    calls = [span for span in spans() if span.name.startswith("execute_tool")]
    assert [span.status.status_code for span in calls] == [StatusCode.UNSET] * 2
    assert not caplog.records


async def test_a_reader_that_leaves_ends_the_span_even_from_another_task(caplog):
    results = traced(acount).astream("acount", {"until": 3})
    await anext(results)
    with caplog.at_level(logging.WARNING):
        await asyncio.create_task(results.aclose())
    call = next(span for span in spans() if span.name.startswith("execute_tool"))
    assert parts(call)["error.type"] == "cancelled"
    assert not caplog.records


def test_a_sync_reader_that_leaves_ends_the_span():
    results = traced(count).stream("count", {"until": 3})
    next(results)
    results.close()
    call = next(span for span in spans() if span.name.startswith("execute_tool"))
    assert parts(call)["error.type"] == "cancelled"


def test_calls_from_many_threads_have_spans_under_their_own_caller():
    kit = traced(child)

    def work(number: int) -> None:
        for _ in range(20):
            with tracer.start_as_current_span(f"caller {number}"):
                kit.exec("child")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_id = {span.context.span_id: span for span in spans()}
    calls = [span for span in spans() if span.name == "execute_tool child"]
    assert len(calls) == 80
    assert all(by_id[span.parent.span_id].name.startswith("caller") for span in calls)
    assert len({span.parent.span_id for span in calls}) == 80


# content


def greet(name: str, key: Annotated[str, Secret], user: str) -> str:
    """Greet."""
    return f"{name}, {key}, {user}"


def test_content_is_off_by_default():
    traced(add).exec("add", {"a": 1})
    assert not {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"} & parts(only_span()).keys()


def test_content_adds_arguments_and_result():
    traced(add, content=True).exec("add", {"a": 1})
    assert json.loads(parts(only_span())["gen_ai.tool.call.arguments"]) == {"a": 1}
    assert parts(only_span())["gen_ai.tool.call.result"] == "2"


def test_content_masks_secrets_and_bound_values():
    kit = traced(greet, content=True, state={"user": "user-123456"}).bind("user")
    kit.exec("greet", {"name": "ann", "key": "sesame-open"})
    assert json.loads(parts(only_span())["gen_ai.tool.call.arguments"]) == {"name": "ann", "key": "***"}
    assert parts(only_span())["gen_ai.tool.call.result"] == "ann, <key>, <user>"
    assert "sesame-open" not in only_span().to_json()
    assert "user-123456" not in only_span().to_json()


def test_content_adds_the_text_of_an_error_and_cuts_long_texts():
    def fail(text: str) -> str:
        raise ToolError("no")

    kit = traced(fail, content=True)
    kit.exec("fail", {"text": "x" * 100_000})
    assert parts(only_span())["gen_ai.tool.call.result"] == "no"
    assert len(parts(only_span())["gen_ai.tool.call.arguments"]) < 5_000


def test_a_call_without_a_sampled_span_runs_normally():
    unsampled = TracerProvider(sampler=ALWAYS_OFF).get_tracer("tests")
    kit = Toolkit("k", middleware=[trace(unsampled, content=True)]).add(add)
    assert kit.call("add", {"a": 1}) == 2


@pytest.mark.parametrize("options", [{"requires_approval": True}, {"external": True}], ids=["approval", "result"])
def test_a_call_that_waits_has_no_error_status(options):
    kit = traced()
    kit.add(add, **options)
    kit.exec("add", {"a": 1})
    span = only_span()
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in span.attributes
    assert span.attributes["ahvn_tools.outcome"] == "waiting"
