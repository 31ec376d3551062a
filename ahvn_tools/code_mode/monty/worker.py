"""MontyWorker: one worker process of a pool, from its first step until it is returned or killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

import pydantic_monty as monty

from ahvn_tools.code_mode.monty.pool import STEP_SECONDS, MontyPool
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.sandbox import ProgramError, SandboxError
from ahvn_tools.execution.threads import run_in_thread, thread_pool

_ENDED: Final = (
    "The program was stopped, because its worker process ended: it was killed, or the machine has no memory left. The "
    "calls that it made are not undone."
)
_STUCK: Final = (
    "The program was stopped, because its worker process did not respond in time. The calls that it made are not "
    "undone."
)
_CLOSED: Final = "The program was stopped, because its sandbox was closed. The calls that it made are not undone."


class MontyWorker:
    """One worker process. Its steps block, so they run in threads, one at a time."""

    def __init__(self, pool: MontyPool, slots: Slots, **options: Any) -> None:
        """Nothing is started before the first step, which waits for one of `slots`."""
        self._pool, self._slots, self._options = pool, slots, options
        self._has_slot = False
        self._step_lock = threading.Lock()
        self._kill_lock = threading.Lock()
        self._session: Any = None
        self._process_id: int | None = None
        self._killed = threading.Event()

    async def run(self, step: Callable[[Any], Any], seconds: float = 0.0) -> Any:
        """Return what `step` returns for the Monty session of this process.

        `seconds`: how long the program itself may run in it. Raises SandboxError if the process ends or does not
        respond, or if there is none free. A step that is cancelled kills the process.
        """
        if not self._has_slot:
            await self._slots.acquire(STEP_SECONDS)
            self._has_slot = True
        try:
            return await _run_in_time(lambda: self._run(step), seconds + STEP_SECONDS)
        except TimeoutError:
            self.kill()
            if self._session is None:  # it waits for a process of the pool
                self._pool.kill_idle()
            raise SandboxError(_STUCK) from None
        except (monty.MontyError, ProgramError):
            raise
        except BaseException:
            self.kill()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the process can run another step. Only between steps."""
        return not self._killed.is_set() and self._session is not None and self._session.worker_pid is not None

    def kill(self) -> None:
        """End the process, from any thread. The pool replaces it."""
        with self._kill_lock:
            self._killed.set()
            if self._process_id is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process_id, signal.SIGKILL)

    async def give_back(self) -> None:
        """Return the process to the pool, or kill it when it does not respond."""
        try:
            await _run_in_time(self.leave, STEP_SECONDS)
        except TimeoutError:
            self.kill()
        except BaseException:
            self.kill()
            raise

    def end(self) -> None:
        """Kill the process, without waiting until it has ended."""
        self.kill()
        thread_pool.run(self.leave)

    def _run(self, step: Callable[[Any], Any]) -> Any:
        with self._step_lock:
            try:
                if self._session is None:
                    self._enter()
                return step(self._session)
            except monty.MontyCrashedError as error:
                self._killed.set()
                text = _CLOSED if self._pool.is_closed else _STUCK if error.timed_out else _ENDED
                raise SandboxError(text) from None

    def _enter(self) -> None:
        if self._killed.is_set() or not self._pool.add(self):
            raise SandboxError(_CLOSED)
        try:
            session = self._pool.monty.checkout(**self._options).__enter__()
        except (TimeoutError, RuntimeError):  # no process is free, or the pool was closed meanwhile
            raise SandboxError(_CLOSED if self._pool.is_closed else _STUCK) from None
        self._session = session
        with self._kill_lock:
            self._process_id = session.worker_pid
        self._pool.take_idle(session.worker_pid)
        if self._killed.is_set():
            self.kill()

    def leave(self) -> None:
        """Return the process to the pool. It blocks until its step ends."""
        with self._step_lock:
            session, is_alive = self._session, self.is_alive
            self._session = None
            if session is not None:
                if is_alive and not self._pool.keep_idle(session.worker_pid):
                    self.kill()
                session.__exit__(None, None, None)
            with self._kill_lock:  # the process may run another program now
                self._killed.set()
                self._process_id = None
        self._pool.remove(self)
        if self._has_slot:
            self._has_slot = False
            self._slots.release()


async def _run_in_time(function: Callable[[], Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return (await run_in_thread(lambda _: function())).get()
