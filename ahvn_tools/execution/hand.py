"""Hand: gives the items of a sync generator from its thread to the loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from ahvn_tools.execution.threads import ThreadJob

EmitItem = Callable[[Any], Awaitable[None]]
"""Takes one item of a stream and returns when its reader wants the next."""

EmitItemSync = Callable[[Any], None]
"""Gives one item from a thread. Raises when nobody waits for the thread any more."""


def thread_emitter(emit: EmitItem | None, loop: asyncio.AbstractEventLoop, job: ThreadJob) -> EmitItemSync:
    """Return what gives items to `emit` in `loop`, one when the reader wants one."""

    async def given(emit: EmitItem, item: Any) -> None:
        await emit(item)

    def given_soon(emit: EmitItem, item: Any) -> Any:
        giving = given(emit, item)
        try:
            return asyncio.run_coroutine_threadsafe(giving, loop)
        except RuntimeError:  # the loop was closed under us
            giving.close()
            raise

    def give(item: Any) -> None:
        job.wait_for(None if emit is None else functools.partial(given_soon, emit, item))

    return give
