"""Handlers of a server's requests may fail without harm to the connection."""

from __future__ import annotations

import asyncio

import pytest

from ahvn_tools.mcp.client.client_settings import wrap_handler


@pytest.mark.parametrize("is_async", [True, False])
async def test_exception_of_a_handler_becomes_an_error_without_details(is_async):
    def fail() -> None:
        raise ValueError("secret")

    async def fail_later() -> None:
        fail()

    with pytest.raises(RuntimeError, match="could not answer") as caught:
        await wrap_handler(fail_later if is_async else fail)()
    assert "secret" not in str(caught.value)


async def test_cancelled_handler_raises_cancelled_error():
    answering = asyncio.create_task(wrap_handler(asyncio.sleep)(60))
    await asyncio.sleep(0.01)
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
