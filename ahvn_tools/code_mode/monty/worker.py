"""MontyWorker: one checked-out worker process of a pool. Its methods block, and run in threads."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pydantic_monty

from ahvn_tools.execution.threads import ThreadJob, run_in_thread


class MontyWorker:
    """One checked-out worker process. Leaving the context returns it to the pool, or kills it if it is busy."""

    def __init__(self, pool: pydantic_monty.Monty, **options: Any) -> None:
        self._checkout = pool.checkout(**options)
        self.session: Any = None
        self._process_id: int | None = None

    async def __aenter__(self) -> Self:
        """Wait for a free worker process. Raises TimeoutError if there is none in time."""

        def enter(job: ThreadJob) -> None:
            session = self._checkout.__enter__()
            try:
                job.raise_if_stopped()  # nobody waits for it any longer
            except BaseException:
                self._checkout.__exit__(None, None, None)
                raise
            self.session, self._process_id = session, session.worker_pid

        (await run_in_thread(enter)).get()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if self.session is not None:
            (await run_in_thread(lambda _: self.close())).get()

    def close(self) -> None:
        """Return the process to the pool. It blocks."""
        self.session = None
        self._checkout.__exit__(None, None, None)

    async def run(self, step: Callable[[], Any]) -> Any:
        """Return the result of one step in the worker. Cancelling it kills the process."""
        return (await run_in_thread(lambda _: step(), stop=self.kill)).get()

    def kill(self) -> None:
        """End the process, from any thread. The pool replaces it."""
        if self._process_id is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process_id, signal.SIGKILL)
