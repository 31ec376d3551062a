"""The one event loop of a worker: adapters prepare in it, and calls run in it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

_runner = asyncio.Runner()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end."""
    return _runner.run(coroutine)


def value_of(result: Any) -> Any:
    """Return a value, awaited if it is an awaitable."""

    async def awaited() -> Any:
        return await result

    return run(awaited()) if inspect.isawaitable(result) else result
