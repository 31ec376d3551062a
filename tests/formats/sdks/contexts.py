"""Asynchronous context managers for the streams of SDKs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def awaited_stream(stream: Awaitable[Any]) -> AsyncIterator[Any]:
    """Await a stream and close it at the end if it has a method for that."""
    opened = await stream
    try:
        yield opened
    finally:
        close = getattr(opened, "aclose", None) or getattr(opened, "close", None)
        if close is not None:
            await close()
