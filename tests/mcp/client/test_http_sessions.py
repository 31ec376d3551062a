"""A session over HTTP that the server has lost, and requests that end without an answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.errors import ToolConnectionError
from tests.mcp.raw_http import RawService, Request, serving, text


@contextlib.asynccontextmanager
async def imported(service: RawService, **options: Any) -> AsyncIterator[Toolkit]:
    with serving(service):
        kit = Toolkit("kit")
        await kit.aadd_mcp(service.url, name="raw", **options)
        try:
            yield kit
        finally:
            await kit.aremove_mcp("raw")


def hi(*_: Any) -> dict[str, Any]:
    return text("hello")


Forgotten = Callable[[Request, Any], Any]

FORGOTTEN: dict[str, Forgotten] = {
    "typescript": lambda request, _: request.refuse(404, -32001, "Session not found"),
    "typescript restarted": lambda request, _: request.refuse(400, -32000, "Bad Request: No valid session ID provided"),
    "typescript fresh": lambda request, _: request.refuse(400, -32000, "Bad Request: Server not initialized"),
    "400": lambda request, _: request.refuse(400, -32001, "unknown"),
    "410": lambda request, _: request.refuse(410, -32001, "Session not found"),
    "python": lambda request, _: request.write_error(404, "server-error", -32600, "Session not found"),
    "plain": lambda request, _: request.write(404, b"no such session", "text/plain"),
    "empty": lambda request, _: request.write(410),
    "plain 400": lambda request, _: request.write(400, b"Invalid session ID", "text/plain"),
    "same id": lambda request, message: request.write_error(404, message.get("id"), -32001, "Session not found"),
}


QUICK = {"typescript", "typescript restarted", "410"}


@pytest.mark.parametrize(
    "forgotten",
    [
        pytest.param(answer, id=name, marks=() if name in QUICK else pytest.mark.exhaustive)
        for name, answer in FORGOTTEN.items()
    ],
)
@pytest.mark.default_cases(1)
async def test_call_on_a_lost_session_is_repeated_in_a_new_one(forgotten: Forgotten) -> None:
    service = RawService(hi=hi)
    service.forgotten = forgotten
    async with imported(service) as kit:
        assert await kit.acall("hi", {}) == "hello"
        service.sessions.clear()
        assert [await kit.acall("hi", {}) for _ in range(2)] == ["hello", "hello"]
        assert (len(service.started), len(service.calls)) == (2, 3)
        service.sessions.clear()
        await kit.arefresh_mcp("raw")
        assert await kit.acall("hi", {}) == "hello"
        assert len(service.started) == 3


async def test_concurrent_calls_on_a_lost_session_start_one_session() -> None:
    service = RawService(hi=hi)
    async with imported(service) as kit:
        await kit.acall("hi", {})
        service.sessions.clear()
        assert await asyncio.gather(*(kit.acall("hi", {}) for _ in range(10))) == ["hello"] * 10
        assert (len(service.started), len(service.calls)) == (2, 11)


async def test_server_that_forgets_each_session_at_once_is_an_error() -> None:
    service = RawService(hi=hi)
    async with imported(service) as kit:
        await kit.acall("hi", {})
        started = len(service.started)
        service.sessions = Forgetful()
        error = (await kit.aexec("hi", {})).error
        assert error is not None
        assert (error.code, len(service.started)) == ("connection", started + 1)
        assert "does not know this session" in error.message


class Forgetful(set[str]):
    """A server that keeps a session only until its first request."""

    def __contains__(self, _: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, -32602, "Unknown argument"),
        (404, -32601, "Method not found"),
        (404, -32602, "No such session of yours"),
        (400, -32000, "Bad session"),
    ],
)
@pytest.mark.default_cases(1)
async def test_error_about_the_call_itself_keeps_the_session(status: int, code: int, message: str) -> None:
    def refuse(request: Request, sent: Any) -> None:
        request.write_error(status, sent["id"], code, message)

    service = RawService(refuse=refuse, hi=hi)
    async with imported(service) as kit:
        error = (await kit.aexec("refuse", {})).error
        assert error is not None
        assert (error.code, error.message) == ("tool_error", message)
        assert (await kit.acall("hi", {}), len(service.started)) == ("hello", 1)


CUTS: dict[str, Callable[[Request, Any], None]] = {
    "before the answer": lambda request, _: request.cut(),
    "in the answer": lambda request, _: request.cut(b'{"jsonrpc": "2.0", '),
    "in the events": lambda request, _: request.cut(b": x\n\n", kind="text/event-stream"),
    "in an error": lambda request, _: request.cut(b'{"jsonrpc": "2.0", ', status=500),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.default_cases(2)
async def test_request_that_is_cut_fails_alone(cut: Callable[[Request, Any], None]) -> None:
    done = threading.Event()
    service = RawService(cut=cut, slow=lambda *_: done.wait(10) and text("done"))
    async with imported(service) as kit:
        other = asyncio.create_task(kit.acall("slow", {}))
        await asyncio.to_thread(service.called.wait, 10)
        error = (await kit.aexec("cut", {})).error
        assert error is not None
        assert error.code == "connection"
        assert not other.done()
        done.set()
        assert await other == "done"
        assert await kit.acall("slow", {}) == "done"
        assert [name for name, _ in service.calls] == ["slow", "cut", "slow"]


async def test_request_that_is_cut_keeps_the_session() -> None:
    service = RawService(cut=CUTS["in the answer"], hi=hi)
    async with imported(service) as kit:
        assert (await kit.aexec("cut", {})).is_error
        assert (await kit.acall("hi", {}), len(service.started)) == ("hello", 1)


async def test_request_that_is_cut_is_repeated_once_if_its_tool_is_idempotent() -> None:
    service = RawService(cut=CUTS["before the answer"])
    async with imported(service, idempotent="cut") as kit:
        assert (await kit.aexec("cut", {})).is_error
        assert len(service.calls) == 2


async def test_call_to_a_server_that_is_gone_is_an_error_and_the_next_call_reconnects() -> None:
    service = RawService(hi=hi)
    kit = Toolkit("kit")
    with serving(service):
        await kit.aadd_mcp(service.url, name="raw")
        assert await kit.acall("hi", {}) == "hello"
        port = int(service.url.partition(":")[2].partition(":")[2].partition("/")[0])
    error = (await kit.aexec("hi", {})).error
    assert error is not None
    assert error.code == "connection"
    with serving(service, port=port):
        service.sessions.clear()
        assert await kit.acall("hi", {}) == "hello"
    await kit.aremove_mcp("raw")


async def test_listing_that_is_cut_each_time_is_not_repeated_without_end() -> None:
    service = RawService(hi=hi)
    async with imported(service) as kit:
        service.listing = lambda request, _: request.cut()
        with pytest.raises(ToolConnectionError):
            await kit.arefresh_mcp("raw")
        listings = service.listing_count
        await asyncio.sleep(0.5)
        assert service.listing_count == listings
