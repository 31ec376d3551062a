"""MontySandbox: a pool of worker processes, one for each program that runs; and MontySession, one program in one.

MontyChecker type-checks programs in workers that stay warm: a first check takes 30 times as long.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.metadata
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.code_mode.monty.program_process import ProgramProcess, Spawner
from ahvn_tools.code_mode.monty.worker import MontyWorker, acquire_slot
from ahvn_tools.code_mode.monty_process.messages import START
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Finished,
    FunctionCall,
    Later,
    SandboxError,
    SandboxProgram,
    Value,
    Waiting,
)
from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.workers.pool import ProcessPool
from ahvn_tools.execution.workers.slots import Slots
from ahvn_tools.json_types import JsonObject
from ahvn_tools.settings import is_count

_MAX_WARM: Final = 4
"""How many workers stay warm, each for other stubs."""

_MAX_CHECKS_AT_ONCE: Final = 2

_MAX_CHECKS: Final = 500
"""After how many checks a worker is replaced."""

_CHECK_LIMITS: Final = {
    "max_feed_duration_secs": 4.0,  # Monty ends a check one second later
    "max_memory": 200_000_000,
    "max_recursion_depth": 50,
    "max_suspensions": 1_000_000,
}
_CHECK_STUB: Final = f"\ndef {START}() -> None: ...\n"


class MontyChecker:
    """Type-checks programs, without running anything of them."""

    def __init__(self, pool: ProcessPool[ProgramProcess]) -> None:
        self._pool = pool
        self._slots = Slots(_MAX_CHECKS_AT_ONCE)
        self._lock = threading.RLock()
        self._warm: list[tuple[str, MontyWorker]] = []
        """The workers that check nothing, each with the stubs that it knows; the last used one at the end."""

    async def check(self, code: str, stubs: str) -> None:
        """Raises InvalidProgramError for a program that does not fit the stubs, SandboxError if it is not known."""
        await acquire_slot(self._slots)
        try:
            if (warm := self._take(stubs)) is not None:
                with contextlib.suppress(SandboxError):  # the process ended while it was idle, or is full
                    await self._check(stubs, warm, code)
                    return
            await self._check(stubs, self._new(stubs), code)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Return the warm workers to the pool, which was closed before. It blocks."""
        with self._lock:
            warm, self._warm = self._warm, []
        for _, worker in warm:
            worker.leave()

    async def _check(self, stubs: str, worker: MontyWorker, code: str) -> None:
        try:
            await worker.request("check", code=code)
        finally:
            if (surplus := self._keep(stubs, worker)) is not None:
                surplus.end()

    def _take(self, stubs: str) -> MontyWorker | None:
        with self._lock:
            for index in reversed(range(len(self._warm))):
                if self._warm[index][0] == stubs:
                    return self._warm.pop(index)[1]
        return None

    def _keep(self, stubs: str, worker: MontyWorker) -> MontyWorker | None:
        """Keep a worker for a later check. Return the one that has to end, if any."""
        with self._lock:
            if not worker.is_alive or worker.requests >= _MAX_CHECKS or self._pool.is_closed:
                return worker
            self._warm.append((stubs, worker))
            return self._warm.pop(0)[1] if len(self._warm) > _MAX_WARM else None

    def _new(self, stubs: str) -> MontyWorker:
        options = {
            "limits": _CHECK_LIMITS,
            "type_check": True,
            "type_check_stubs": stubs + _CHECK_STUB,
            "type_check_format": "concise",
        }
        return MontyWorker(self._pool, None, options=options, value_bytes=0, output_chars=0)


_SLEEP_SECONDS: Final = 60.0


class _Processes:
    """The processes of a sandbox: for each program one, those that check programs, and the one that forks them."""

    def __init__(self) -> None:
        self._spawner = Spawner()
        self.pool = ProcessPool(lambda: ProgramProcess(self._spawner))
        self.checker = MontyChecker(self.pool)

    def close(self) -> None:
        """End them all, and the programs in them with an error."""
        self.pool.close()
        self.checker.close()
        self._spawner.close()

    def detach(self) -> None:  # pragma: no cover  # runs in child processes, which report no coverage
        """In a forked child process: forget them, which belong to the parent."""
        self.pool.detach()
        self._spawner.detach()


class MontySandbox:
    """Runs each program in a worker process of a pool. Leaving its context closes it."""

    def __init__(self, max_processes: int = 32) -> None:
        """`max_processes`: how many programs run at once; the others wait, for at most 30 seconds.

        Raises ToolkitError for a number that is not whole, or not above 0.
        """
        if not is_count(max_processes):
            raise ToolkitError(f"`max_processes` is a whole number above 0, not {max_processes!r}.")
        self._max_processes = max_processes
        self._processes: _Processes | None = None
        self.detach()
        _sandboxes.add(self)

    @property
    def version(self) -> str:
        """Monty's version: its snapshots are not compatible with other versions."""
        return f"monty {importlib.metadata.version('pydantic-monty')}"

    async def check(self, program: SandboxProgram) -> None:
        """Check a program without running it. Raises InvalidProgramError."""
        await self._start().checker.check(program.code, program.stubs)

    def open(self, limits: CodeLimits) -> AbstractAsyncContextManager[MontySession]:
        """Return the context of one program, in a worker process of its own until the context ends."""
        return self._open(limits)

    @asynccontextmanager
    async def _open(self, limits: CodeLimits) -> AsyncGenerator[MontySession]:
        worker = MontyWorker(
            self._start().pool,
            self._slots,
            options={"limits": _resource_limits(limits)},
            value_bytes=limits.value_bytes,
            output_chars=limits.output_chars,
        )
        try:
            yield MontySession(worker, limits.seconds)
        except Exception:
            await worker.give_back()
            raise
        except BaseException:  # cancelled, or the event loop was closed
            worker.end()
            raise
        await worker.give_back()

    def close(self) -> None:
        """End the worker processes, and the programs in them with an error. The next program starts them again."""
        with self._lock:
            processes, self._processes = self._processes, None
        if processes is not None:
            self._end.detach()
            processes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> _Processes:
        with self._lock:
            if self._processes is None:
                self._processes = _Processes()
                self._end = weakref.finalize(self, self._processes.close)  # also when the interpreter ends
            return self._processes

    def detach(self) -> None:
        """Begin without processes: in a forked child they belong to the parent."""
        self._lock = threading.Lock()
        self._slots = Slots(self._max_processes)
        if self._processes is not None:  # pragma: no cover  # runs in child processes, which report no coverage
            self._end.detach()
            self._processes.detach()
            self._processes = None


_sandboxes: weakref.WeakSet[MontySandbox] = weakref.WeakSet()


@reset_after_fork
def _detach() -> None:  # pragma: no cover  # as above
    for sandbox in list(_sandboxes):
        sandbox.detach()


def _resource_limits(limits: CodeLimits) -> dict[str, Any]:
    return {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": limits.recursion,
        "max_suspensions": limits.calls * 4 + 100,  # lookups of names and answers are suspensions, too
        "max_total_sleep_secs": _SLEEP_SECONDS,
    }


class MontySession:
    """One program in a worker process."""

    def __init__(self, worker: MontyWorker, seconds: float) -> None:
        """`seconds`: how long the program itself runs at most."""
        self._worker, self._seconds = worker, seconds

    async def start(self, program: SandboxProgram, write: Callable[[str], None]) -> Event:
        """Run the program to its first event."""
        self._worker.write = write
        return await self._run("start", code=program.code, functions=list(program.functions))

    async def restore(self, snapshot: bytes, functions: Collection[str], write: Callable[[str], None]) -> Event:
        """Continue a program where the snapshot was made."""
        self._worker.write = write
        data = base64.b64encode(snapshot).decode()
        return await self._run("restore", snapshot=data, functions=list(functions))

    async def answer(self, answer: Answer | Later) -> Event:
        """Answer the call, and run to the next event."""
        return await self._run("answer", answer={"later": True} if isinstance(answer, Later) else _to_json(answer))

    async def settle(self, answers: Mapping[int, Answer]) -> Event:
        """Answer calls that the program waits for, and run to the next event."""
        return await self._run("settle", answers={str(key): _to_json(answer) for key, answer in answers.items()})

    async def snapshot(self) -> bytes:
        """Return the whole state of the program."""
        reply = await self._worker.request("snapshot")
        return base64.b64decode(reply["snapshot"])

    async def _run(self, step: str, **arguments: Any) -> Event:
        return _to_event(await self._worker.request(step, self._seconds, **arguments))


def _to_event(reply: JsonObject) -> Event:
    if reply["event"] == "call":
        return FunctionCall(
            id=reply["id"],
            function=reply["function"],
            args=tuple(reply["args"]),
            kwargs=reply["kwargs"],
            is_awaited=reply["is_awaited"],
        )
    if reply["event"] == "waiting":
        return Waiting(ids=tuple(reply["ids"]))
    return Finished(value=reply["value"])


def _to_json(answer: Answer) -> JsonObject:
    return {"value": answer.value} if isinstance(answer, Value) else {"failure": answer.message}
