"""How a call ended, as each middleware reports it that watches calls: the same code in a log, a span, a metric."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ahvn_tools import ToolError, Toolkit, ToolResult
from ahvn_tools.middleware import Middleware, log, metrics, observe, trace, watch
from ahvn_tools.middleware.watched_calls import WatchedCalls
from tests.execution.entry_points import combinations, until

Watched = tuple[Middleware, Callable[[], list[str | None]]]
"""A middleware, and what it has reported: the code of each call, None after success."""


def by_log() -> Watched:
    lines: list[str] = []

    def read() -> list[str | None]:
        outcomes = [re.search(r" -> (\w+)(?:, interrupted)? in 0\.", line)[1] for line in lines]
        return [None if outcome == "ok" else outcome for outcome in outcomes]

    return log(lines.append), read


def by_trace() -> Watched:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def read() -> list[str | None]:
        spans = exporter.get_finished_spans()
        assert all(span.status.is_ok is not ("error.type" in span.attributes) for span in spans)
        assert not any(span.events or span.status.description for span in spans)
        return [span.attributes.get("error.type") for span in spans]

    return trace(provider.get_tracer("tests")), read


def by_metrics() -> Watched:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    def read() -> list[str | None]:
        (resource,) = reader.get_metrics_data().resource_metrics
        points = {metric.name: metric.data.data_points for metric in resource.scope_metrics[0].metrics}
        provider.shutdown()
        assert [point.value for point in points["ahvn_tools.active_calls"]] == [0]
        codes = [point.attributes.get("error.type") for point in points["ahvn_tools.calls"]]
        assert codes == [point.attributes.get("error.type") for point in points["gen_ai.execute_tool.duration"]]
        return codes

    return metrics(provider.get_meter("tests")), read


def by_observe() -> Watched:
    calls: list[tuple[bool, str | None]] = []

    def read() -> list[str | None]:
        assert all(success == (code is None) for success, code in calls)
        return [code for _, code in calls]

    return observe(lambda tool, success, duration, code: calls.append((success, code))), read


def by_watch() -> Watched:
    folder = tempfile.TemporaryDirectory()
    calls = WatchedCalls(f"{folder.name}/calls.sqlite")
    calls.look()

    def read() -> list[str | None]:
        assert until(lambda: calls.read() and all(call["outcome"] for call in calls.read()))
        outcomes = [call["outcome"] for call in calls.read()]
        folder.cleanup()
        return [None if outcome == "ok" else outcome for outcome in outcomes]

    return watch(calls.path), read


def add(a: int) -> int:
    return a + 1


def fail() -> None:
    raise ToolError("no")


def leave() -> None:
    raise SystemExit(3)


async def hang() -> None:
    await asyncio.sleep(30)


async def count() -> Any:
    for number in range(9):
        yield number


async def refuse(call: Any, next: Any) -> ToolResult:
    raise RuntimeError("no")


async def interrupt(call: Any, next: Any) -> ToolResult:
    return ToolResult(is_interrupted=True)


async def end_behind(kit: Toolkit, middleware: Middleware) -> None:
    kit.use(middleware)
    await kit.aexec("add", {"a": 1})


async def end_the_program(kit: Toolkit) -> None:
    with pytest.raises(SystemExit):
        kit.exec("leave")


async def cancel(kit: Toolkit) -> None:
    task = asyncio.create_task(kit.aexec("hang"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_a_stream(kit: Toolkit) -> None:
    results = kit.astream("count")
    await anext(results)
    await results.aclose()


Ending = tuple[Callable[[Toolkit], Awaitable[Any]], str | None]
ENDINGS: dict[str, Ending] = {
    "success": (lambda kit: kit.aexec("add", {"a": 1}), None),
    "failure": (lambda kit: kit.aexec("fail"), "tool_error"),
    "refused": (lambda kit: kit.aexec("add", {"a": "x"}), "invalid_parameters"),
    "timeout": (lambda kit: kit.aexec("hang", timeout=0.02), "timeout"),
    "inner middleware": (lambda kit: end_behind(kit, refuse), "tool_error"),
    "interrupted": (lambda kit: end_behind(kit, interrupt), "cancelled"),
    "end of the program": (end_the_program, "SystemExit"),
    "cancelled": (cancel, "cancelled"),
    "a stream whose reader left": (leave_a_stream, "cancelled"),
}
WATCHES = {"log": by_log, "trace": by_trace, "metrics": by_metrics, "observe": by_observe, "watch": by_watch}


@combinations(make=WATCHES, ending=ENDINGS)
async def test_each_ending_is_reported_with_its_code(make: Callable[[], Watched], ending: Ending) -> None:
    middleware, read = make()
    kit = Toolkit("k", middleware=[middleware]).add(add, fail, leave, hang, count)
    end, code = ending
    await end(kit)
    assert read() == [code]
