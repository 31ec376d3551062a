"""Progress messages are sent in order, in bounded memory, and never after the call has ended."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolResult
from ahvn_tools.mcp.server import progress
from ahvn_tools.mcp.server.progress import ProgressReporter

origin = contextvars.ContextVar("origin", default="none")


class Recorder:
    """Records the messages that are sent, while `gate` is open."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, float | None, str | None]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, *message: Any) -> None:
        await self.gate.wait()
        self.sent.append(message)


def chunk(value: Any, **fields: Any) -> ToolResult:
    return ToolResult(value, is_last=False, **fields)


def report(progress: Any, total: Any = None, message: str | None = None) -> ToolResult:
    return chunk(message, meta={"progress": {"progress": progress, "total": total}})


async def report_all(*chunks: ToolResult) -> list[tuple[float, float | None, str | None]]:
    recorder = Recorder()
    reporter = ProgressReporter(recorder.send)
    for each in chunks:
        await reporter.emit(each)
    await reporter.drain()
    return recorder.sent


async def test_output_is_numbered_until_the_tool_reports_progress():
    assert await report_all(chunk("a"), chunk("b"), report(10, 20)) == [(1, None, "a"), (2, None, "b"), (10, 20, None)]


async def test_values_that_json_does_not_have_are_not_sent():
    reports = report(1, float("inf"), "half \ud800"), report(float("nan"), 2, "none"), report(float("inf"), 2, "none")
    assert await report_all(*reports) == [(1, None, "half \ufffd")]
    assert await report_all(chunk("name \udcff")) == [(1, None, "name \ufffd")]
    maximum = 1.7976931348623157e308
    assert await report_all(report(maximum), chunk("a")) == [(maximum, None, None), (maximum, None, "a")]


async def test_progress_increases_with_each_output():
    sent = await report_all(report(10, 20), chunk("a"), chunk("b"), chunk("c"))
    values = [value for value, _, _ in sent]
    assert values == sorted(set(values))
    assert [(total, text) for _, total, text in sent] == [(20, None), (20, "a"), (20, "b"), (20, "c")]


async def test_only_text_output_is_sent():
    text, picture = (
        TextContent(type="text", text="seen"),
        ImageContent(type="image", data="", mime_type="image/png"),
    )
    sent = await report_all(chunk({"a": 1}), chunk(None, blocks=(text,)), chunk(None, blocks=(picture,)))
    assert [text for _, _, text in sent] == ['{"a": 1}', "seen"]


async def test_a_tool_waits_for_a_client_that_is_slower():
    recorder = Recorder()
    recorder.gate.clear()
    reporter, emitted = ProgressReporter(recorder.send), []

    async def emit_all() -> None:
        for number in range(1_000):
            await reporter.emit(chunk(number))
            emitted.append(number)

    emitting = asyncio.create_task(emit_all())
    async with asyncio.timeout(20):
        while len(emitted) < progress.MAX_QUEUED:  # noqa: ASYNC110  # the tool sets no event
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert progress.MAX_QUEUED <= len(emitted) < 2 * progress.MAX_QUEUED
    recorder.gate.set()
    await emitting
    await reporter.drain()
    assert [text for _, _, text in recorder.sent] == [str(number) for number in range(1_000)]


async def test_a_client_that_reads_nothing_blocks_no_tool_and_gets_no_more_messages(monkeypatch):
    monkeypatch.setattr(progress, "STALL_SECONDS", 0.05)
    recorder = Recorder()
    recorder.gate.clear()
    reporter = ProgressReporter(recorder.send)
    async with asyncio.timeout(5):
        for number in range(1_000):
            await reporter.emit(chunk(number))
        await reporter.drain()
    recorder.gate.set()
    await reporter.emit(chunk("late"))
    await asyncio.sleep(0.01)
    assert recorder.sent == []


async def test_a_slow_client_gets_all_messages(monkeypatch):
    monkeypatch.setattr(progress, "STALL_SECONDS", 0.05)
    sent = []

    async def send(*message: Any) -> None:
        await asyncio.sleep(0.002)
        sent.append(message[2])

    reporter = ProgressReporter(send)
    for number in range(300):
        await reporter.emit(chunk(number))
    await reporter.drain()
    assert sent == [str(number) for number in range(300)]


async def test_progress_increases_whatever_a_tool_reports():
    sent = await report_all(
        chunk("a"), chunk("b"), report(1, 3), report(2, 3), report(2, 3), report(1, 3), report(3, 3)
    )
    values = [value for value, _, _ in sent]
    assert values == sorted(set(values))
    assert values == pytest.approx([1, 2, 2, 2, 2, 2, 3])


async def test_messages_are_sent_in_the_context_of_the_request():
    seen = []

    async def send(*message: Any) -> None:
        seen.append(origin.get())

    token = origin.set("request")
    reporter = ProgressReporter(send)
    origin.reset(token)
    await reporter.emit(report(1))
    await reporter.drain()
    assert seen == ["request"]


async def test_a_disconnected_client_is_not_an_error():
    async def send(*message: Any) -> None:
        raise ConnectionError

    reporter = ProgressReporter(send)
    await reporter.emit(report(1))
    await reporter.emit(chunk("a"))
    await reporter.drain()


async def test_close_does_not_wait_for_a_client_that_does_not_read():
    recorder = Recorder()
    recorder.gate.clear()
    reporter = ProgressReporter(recorder.send)
    await reporter.emit(report(1))
    await asyncio.sleep(0.01)
    reporter.close()
    recorder.gate.set()
    await asyncio.sleep(0.01)
    assert recorder.sent == []


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), None, "much", 10**400, [1]], ids=lambda value: f"{value}"[:9]
)
async def test_an_invalid_progress_report_is_ignored(value: Any):
    assert await report_all(report(value)) == []
    assert await report_all(report(1, value)) == [(1, None, None)]
    assert await report_all(chunk("a", meta={"progress": value})) == ([(1, None, "a")] if value is None else [])
