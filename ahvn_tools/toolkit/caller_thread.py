"""CallerThread: runs sync bodies in the thread that waits for the background loop, one after the other."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

from ahvn_tools.execution import background_loop
from ahvn_tools.execution.outcome import Outcome


class CallerThread:
    """The thread that waits for what it has started on the background loop."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def wait_for(self, start: background_loop.CoroutineFactory, *arguments: Any) -> Outcome:
        """Run `start(*arguments)` on the background loop; until it ends, run in this thread what is passed to `run`."""
        loop_call = background_loop.LoopCall(start, *arguments, on_end=lambda: self._jobs.put(None))
        with loop_call, loop_call:
            loop_call.start()
            while (job := self._jobs.get()) is not None:
                job()
            return loop_call.outcome()

    async def run(self, function: Callable[[], Any]) -> Outcome:
        """Call a function in the waiting thread, after those that were passed before. Runs on the background loop."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()

        def deliver(outcome: Outcome) -> None:
            if not ended.done():
                ended.set_result(outcome)

        def job() -> None:
            if ended.done():  # what waited for it was cancelled
                return
            outcome = Outcome.capture(function)
            loop.call_soon_threadsafe(deliver, outcome)
            if isinstance(outcome.error, KeyboardInterrupt):
                raise outcome.error

        self._jobs.put(job)
        return await ended
