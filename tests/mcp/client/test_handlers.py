"""What answers a server's own requests may fail in any way: the server is told no, and nobody else is hurt."""

from __future__ import annotations

import asyncio

import pytest

from ahvn_tools.mcp.client.handlers import HandlerError, wrap_handler


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("is_async", [True, False])
async def test_whatever_a_handler_raises_the_server_hears_that_there_is_no_answer(raised, is_async):
    def fail() -> None:
        raise raised("secret")

    async def fail_later() -> None:
        fail()

    with pytest.raises(HandlerError) as told:
        await wrap_handler(fail_later if is_async else fail)()
    assert "secret" not in str(told.value)


async def test_a_handler_that_is_cancelled_from_outside_is_cancelled():
    answering = asyncio.create_task(wrap_handler(asyncio.sleep)(60))
    await asyncio.sleep(0.01)
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
