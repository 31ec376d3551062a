"""MontyWorker: one process of a pool, from its first step until it is returned or killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from ahvn_tools.code_mode.monty.program_process import ProgramProcess
from ahvn_tools.code_mode.sandbox import InvalidProgramError, ProgramError, SandboxBusyError, SandboxError
from ahvn_tools.execution.threads import call_in_thread, thread_pool
from ahvn_tools.execution.workers.pool import ProcessPool
from ahvn_tools.execution.workers.slots import Slots
from ahvn_tools.json_types import JsonObject

STEP_SECONDS: Final = 30.0
"""How long a step takes at most, apart from the time that the program itself may use."""

_SLOT_SECONDS: Final = 30.0
"""How long a program waits for its turn."""

_BUSY: Final = "No program can start now: {count} programs run already. Try again later."
_ENDED: Final = "its worker process ended: it was killed, or the machine has no memory left"
_STUCK: Final = "its worker process did not respond in time"
_CLOSED: Final = "its sandbox was closed"


class MontyWorker:
    """One process. Its steps block, so they run in threads, one at a time."""

    def __init__(self, pool: ProcessPool[ProgramProcess], slots: Slots | None, **arguments: Any) -> None:
        """Nothing is started before the first step, which waits for one of `slots`, if there are any."""
        self._pool, self._slots, self._arguments = pool, slots, arguments
        self._has_slot = False
        self._step_lock = threading.Lock()
        self._process: ProgramProcess | None = None
        self._is_killed = False
        self._is_started = False
        """Whether the program may have run."""
        self.requests = 0
        """How many steps it has begun."""
        self.write: Callable[[str], None] = lambda _: None
        """Receives what the program prints, from any thread."""

    async def request(self, what: str, seconds: float = 0.0, **arguments: Any) -> JsonObject:
        """Return the reply to a request.

        `seconds`: how long the program itself may run in it. Raises ProgramError if the program fails, and SandboxError
        if the process ends or does not respond, or if there is none free. Cancelling a request kills the process.
        """
        if self._slots is not None and not self._has_slot:
            await acquire_slot(self._slots)
            self._has_slot = True
        seconds += STEP_SECONDS
        self.requests += 1
        try:
            reply: JsonObject = await _run_in_time(lambda: self._request(what, seconds, arguments), seconds)
        except TimeoutError:
            self.kill()
            raise self._to_error(_STUCK) from None
        except ProgramError:
            raise
        except BaseException:
            self.kill()
            raise
        return reply

    @property
    def is_alive(self) -> bool:
        """Whether the process can run another step. Only between steps."""
        return self._process is not None and not self._is_killed

    def kill(self) -> None:
        """End the process, from any thread. The pool replaces it."""
        self._is_killed = True
        if (process := self._process) is not None:
            process.request_exit()

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

    def leave(self) -> None:
        """Return the process to the pool. It blocks until its step ends."""
        with self._step_lock:
            process, is_alive = self._process, self.is_alive
            self._process, self._is_killed = None, True
            if process is not None:
                reply = process.request("close", STEP_SECONDS, {}) if is_alive else None
                self._release(process, is_reusable=reply is not None and reply.get("is_reusable", False))
        if self._slots is not None and self._has_slot:
            self._has_slot = False
            self._slots.release()

    def _request(self, what: str, seconds: float, arguments: JsonObject) -> JsonObject:
        with self._step_lock:
            if self._is_killed:  # and perhaps returned: this thread comes late
                raise self._to_error(_ENDED)
            process = self._process or self._start()
            self._is_started = what != "check"
            reply = process.request(what, seconds, arguments)
            if reply is None or reply.get("error") == "crashed":
                self.kill()
                is_slow = process.was_too_slow() if reply is None else reply["timed_out"]
                raise self._to_error(_STUCK if is_slow else _ENDED)
            self.write(reply.get("printed", ""))
            _raise_error(reply)
            return reply

    def _start(self) -> ProgramProcess:
        """Take a process of the pool: an idle one, unless it has ended meanwhile."""
        while True:
            try:
                process = self._pool.acquire()
            except OSError as error:
                raise self._to_error(f"the system starts no worker process: {error.strerror or error}") from None
            self._process = process
            if self._is_killed:  # meanwhile, by another thread
                process.request_exit()
            reply = process.request("open", STEP_SECONDS, self._arguments)
            if reply is not None and "error" not in reply:
                return process
            if process.is_new or self._is_killed:
                self.kill()
                raise self._to_error(_ENDED)
            self._process = None
            self._release(process, is_reusable=False)

    def _release(self, process: ProgramProcess, *, is_reusable: bool) -> None:
        process.is_new = False
        self._pool.release(process, is_reusable=is_reusable)

    def _to_error(self, reason: str) -> SandboxError:
        """Return the error for the model. A program that has not started may do so later."""
        if self._pool.is_closed:
            reason = _CLOSED
        if self._is_started:
            return SandboxError(f"The program was stopped, because {reason}. The calls that it made are not undone.")
        return SandboxBusyError(f"The program was not started, because {reason}.")


async def acquire_slot(slots: Slots) -> None:
    """Wait for a slot. Raises SandboxBusyError if there is none in time."""
    try:
        async with asyncio.timeout(_SLOT_SECONDS):
            await slots.aacquire()
    except TimeoutError:
        raise SandboxBusyError(_BUSY.format(count=slots.count)) from None


def _raise_error(reply: JsonObject) -> None:
    kind = reply.get("error")
    if kind is not None:
        error = {"invalid": InvalidProgramError, "sandbox": SandboxError, "program": ProgramError}[kind]
        raise error(reply["text"])


async def _run_in_time(function: Callable[[], Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await call_in_thread(function)
