"""Streams and clients under one roof: what an SDK gives back, as what `with` and `async with` take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def awaited(stream: Awaitable[Any]) -> AsyncIterator[Any]:
    """Await a stream, and close it at the end where it can be."""
    made = await stream
    try:
        yield made
    finally:
        close = getattr(made, "aclose", None) or getattr(made, "close", None)
        if close is not None:
            await close()
