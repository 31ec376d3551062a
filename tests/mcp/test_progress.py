"""Progress is sent in order, from any thread, in bounded memory, and never after the call has ended."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolResult
from ahvn_tools.mcp import progress
from ahvn_tools.mcp.progress import Progress

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


async def test_what_was_told_before_the_end_is_sent_and_nothing_after_it():
    wire = Wire()
    told = Progress(wire.send)
    told.report(1, 2, "half")
    await told.finish()
    told.report(2, 2, "late")
    await asyncio.sleep(0.01)
    assert wire.sent == [(1, 2, "half")]


async def test_output_counts_until_the_tool_has_a_measure_of_its_own():
    wire = Wire()
    told = Progress(wire.send)
    await told.emit(chunk("a"))
    await told.emit(chunk("b"))
    told.report(10, 20, None)
    await asyncio.sleep(0)
    await told.finish()
    assert wire.sent == [(1, None, "a"), (2, None, "b"), (10, 20, None)]


async def test_what_json_cannot_say_is_not_sent_for_it_would_end_the_connection():
    wire = Wire()
    told = Progress(wire.send)
    told.report(1, float("inf"), "half \ud800")
    told.report(float("nan"), None, "no number")
    told.report(float("inf"), None, "no number")
    await asyncio.sleep(0)
    await told.finish()
    assert wire.sent == [(1, None, "half \ufffd")]
    told = Progress(wire.send)
    await told.emit(chunk("name \udcff"))
    await told.finish()
    assert wire.sent[1:] == [(1, None, "name \ufffd")]


async def test_progress_grows_with_each_output():
    wire = Wire()
    told = Progress(wire.send)
    told.report(10, 20, None)
    await asyncio.sleep(0.01)
    for text in "abc":
        await told.emit(chunk(text))
    await told.finish()
    values = [value for value, _, _ in wire.sent]
    assert values == sorted(set(values))
    assert [(total, text) for _, total, text in wire.sent] == [(20, None), (20, "a"), (20, "b"), (20, "c")]


async def test_output_is_text_and_pictures_are_left_for_the_result():
    wire = Wire()
    told = Progress(wire.send)
    await told.emit(chunk({"a": 1}))
    await told.emit(chunk(None, blocks=(TextContent(type="text", text="seen"),)))
    await told.emit(chunk(None, blocks=(ImageContent(type="image", data="", mime_type="image/png"),)))
    await told.finish()
    assert [text for _, _, text in wire.sent] == ['{"a": 1}', "seen"]


async def test_a_flood_of_reports_waits_in_bounded_memory_and_the_last_one_arrives():
    wire = Wire()
    wire.gate.clear()
    told = Progress(wire.send)

    def flood() -> None:
        for number in range(10_000):
            told.report(number, None, None)

    await asyncio.to_thread(flood)
    wire.gate.set()
    await told.finish()
    assert len(wire.sent) <= 2 * progress.MOST_WAITING
    assert wire.sent[0][0] == 0
    assert wire.sent[-1][0] == 9_999


async def test_much_output_waits_for_its_client():
    wire = Wire()
    wire.gate.clear()
    told, given = Progress(wire.send), []

    async def give() -> None:
        for number in range(1_000):
            await told.emit(chunk(number))
            given.append(number)

    giving = asyncio.create_task(give())
    await asyncio.sleep(0.05)
    assert progress.MOST_WAITING <= len(given) < 2 * progress.MOST_WAITING
    wire.gate.set()
    await giving
    await told.finish()
    assert [text for _, _, text in wire.sent] == [str(number) for number in range(1_000)]


async def test_what_sends_runs_in_the_context_of_the_request_whoever_reports():
    seen = []

    async def send(*message: Any) -> None:
        seen.append(where.get())

    token = where.set("request")
    told = Progress(send)
    where.reset(token)
    other = threading.Thread(target=told.report, args=(1, None, None))
    other.start()
    other.join()
    await told.finish()
    assert seen == ["request"]


async def test_a_client_that_has_gone_is_no_error():
    async def send(*message: Any) -> None:
        raise ConnectionError

    told = Progress(send)
    told.report(1, None, None)
    await told.emit(chunk("a"))
    await told.finish()


async def test_closing_does_not_wait_for_a_client_that_does_not_read():
    wire = Wire()
    wire.gate.clear()
    told = Progress(wire.send)
    told.report(1, None, None)
    await asyncio.sleep(0.01)
    told.close()
    wire.gate.set()
    await asyncio.sleep(0.01)
    assert wire.sent == []


def test_a_report_to_a_loop_that_is_closed_goes_nowhere():
    async def made() -> Progress:
        return Progress(Wire().send)

    told = asyncio.run(made())
    told.report(1, None, None)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
async def test_what_is_no_progress_does_not_break_the_call(value: Any):
    wire = Wire()
    told = Progress(wire.send)
    told.report(value, None, None)
    await told.finish()
