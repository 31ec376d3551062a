"""What a call tells before its result is sent in order, in bounded memory, and never after the call has ended."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolResult
from ahvn_tools.mcp.server import progress
from ahvn_tools.mcp.server.progress import ProgressReporter

where = contextvars.ContextVar("where", default="nowhere")


class Wire:
    """Keeps what is sent; `gate` holds it up."""

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


async def told_all(*chunks: ToolResult) -> list[tuple[float, float | None, str | None]]:
    wire = Wire()
    told = ProgressReporter(wire.send)
    for each in chunks:
        await told.emit(each)
    await told.drain()
    return wire.sent


async def test_output_counts_until_the_tool_has_a_measure_of_its_own():
    assert await told_all(chunk("a"), chunk("b"), report(10, 20)) == [(1, None, "a"), (2, None, "b"), (10, 20, None)]


async def test_what_json_cannot_say_is_not_sent_for_it_would_end_the_connection():
    reports = report(1, float("inf"), "half \ud800"), report(float("nan"), 2, "none"), report(float("inf"), 2, "none")
    assert await told_all(*reports) == [(1, None, "half \ufffd")]
    assert await told_all(chunk("name \udcff")) == [(1, None, "name \ufffd")]
    most = 1.7976931348623157e308
    assert await told_all(report(most), chunk("a")) == [(most, None, None), (most, None, "a")]


async def test_progress_grows_with_each_output():
    sent = await told_all(report(10, 20), chunk("a"), chunk("b"), chunk("c"))
    values = [value for value, _, _ in sent]
    assert values == sorted(set(values))
    assert [(total, text) for _, total, text in sent] == [(20, None), (20, "a"), (20, "b"), (20, "c")]


async def test_output_is_text_and_pictures_are_left_for_the_result():
    text, picture = (
        TextContent(type="text", text="seen"),
        ImageContent(type="image", data="", mime_type="image/png"),
    )
    sent = await told_all(chunk({"a": 1}), chunk(None, blocks=(text,)), chunk(None, blocks=(picture,)))
    assert [text for _, _, text in sent] == ['{"a": 1}', "seen"]


async def test_much_output_waits_for_its_client():
    wire = Wire()
    wire.gate.clear()
    told, given = ProgressReporter(wire.send), []

    async def give() -> None:
        for number in range(1_000):
            await told.emit(chunk(number))
            given.append(number)

    giving = asyncio.create_task(give())
    await asyncio.sleep(0.05)
    assert progress.MAX_QUEUED <= len(given) < 2 * progress.MAX_QUEUED
    wire.gate.set()
    await giving
    await told.drain()
    assert [text for _, _, text in wire.sent] == [str(number) for number in range(1_000)]


async def test_a_client_that_reads_nothing_is_told_nothing_more_and_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(progress, "STALL_SECONDS", 0.05)
    wire = Wire()
    wire.gate.clear()
    told = ProgressReporter(wire.send)
    async with asyncio.timeout(5):
        for number in range(1_000):
            await told.emit(chunk(number))
        await told.drain()
    wire.gate.set()
    await told.emit(chunk("late"))
    await asyncio.sleep(0.01)
    assert wire.sent == []


async def test_a_slow_client_is_told_all(monkeypatch):
    monkeypatch.setattr(progress, "STALL_SECONDS", 0.05)
    sent = []

    async def send(*message: Any) -> None:
        await asyncio.sleep(0.002)
        sent.append(message[2])

    told = ProgressReporter(send)
    for number in range(300):
        await told.emit(chunk(number))
    await told.drain()
    assert sent == [str(number) for number in range(300)]


async def test_progress_grows_whatever_a_tool_reports():
    sent = await told_all(chunk("a"), chunk("b"), report(1, 3), report(2, 3), report(2, 3), report(1, 3), report(3, 3))
    values = [value for value, _, _ in sent]
    assert values == sorted(set(values))
    assert values == pytest.approx([1, 2, 2, 2, 2, 2, 3])


async def test_what_sends_runs_in_the_context_of_the_request_whoever_reports():
    seen = []

    async def send(*message: Any) -> None:
        seen.append(where.get())

    token = where.set("request")
    told = ProgressReporter(send)
    where.reset(token)
    await told.emit(report(1))
    await told.drain()
    assert seen == ["request"]


async def test_a_client_that_has_gone_is_no_error():
    async def send(*message: Any) -> None:
        raise ConnectionError

    told = ProgressReporter(send)
    await told.emit(report(1))
    await told.emit(chunk("a"))
    await told.drain()


async def test_closing_does_not_wait_for_a_client_that_does_not_read():
    wire = Wire()
    wire.gate.clear()
    told = ProgressReporter(wire.send)
    await told.emit(report(1))
    await asyncio.sleep(0.01)
    told.close()
    wire.gate.set()
    await asyncio.sleep(0.01)
    assert wire.sent == []


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), None, "much", 10**400, [1]], ids=lambda value: f"{value}"[:9]
)
async def test_what_is_no_progress_does_not_break_the_call(value: Any):
    assert await told_all(report(value)) == []
    assert await told_all(report(1, value)) == [(1, None, None)]
    assert await told_all(chunk("a", meta={"progress": value})) == ([(1, None, "a")] if value is None else [])
