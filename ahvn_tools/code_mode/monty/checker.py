"""MontyChecker: type-checks programs against stubs, in workers that stay warm: a first check takes 30 times as long."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Final

import pydantic_monty as monty

from ahvn_tools.code_mode.monty.messages import FILE_NAME, START, to_readable
from ahvn_tools.code_mode.monty.pool import STEP_SECONDS, MontyPool
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.monty.type_errors import certain_errors
from ahvn_tools.code_mode.monty.worker import MontyWorker
from ahvn_tools.code_mode.sandbox import InvalidProgramError, SandboxError

_MAX_CHECKS_AT_ONCE: Final = 2

_MAX_WARM: Final = 4
"""How many workers stay warm, each for other stubs."""

MAX_CHECKERS: Final = _MAX_CHECKS_AT_ONCE + _MAX_WARM
"""How many workers there are for checks."""

_MAX_CHECKS: Final = 500
"""After how many checks a worker is replaced."""

_LIMITS: Final = {
    "max_feed_duration_secs": 4.0,  # Monty ends a check one second later
    "max_memory": 200_000_000,
    "max_recursion_depth": 50,
    "max_suspensions": 1_000_000,
}
_STUB: Final = f"\ndef {START}() -> None: ...\n"
_UNCHECKABLE: Final = "The check of the types takes too much time or memory. Make the program shorter or simpler."
_STOP: Final[Any] = {"exc_type": "SystemExit", "message": ""}


@dataclass(kw_only=True, eq=False)
class _WarmWorker:
    """A worker that knows the stubs of some tools."""

    worker: MontyWorker
    stubs: str
    checks: int = 0


class MontyChecker:
    """Type-checks programs. Monty has no check alone, so a program also runs to its first call, for a millisecond."""

    def __init__(self, pool: MontyPool) -> None:
        self._pool = pool
        self._slots = Slots(_MAX_CHECKS_AT_ONCE)
        self._processes = Slots(MAX_CHECKERS)
        self._warm: list[_WarmWorker] = []
        """The workers that check nothing, the last used one at the end."""

    async def check(self, code: str, stubs: str) -> None:
        """Raises InvalidProgramError for a program that does not fit the stubs, SandboxError if it is not known."""
        await self._slots.acquire(STEP_SECONDS)
        try:
            warm = self._take(stubs)
            if warm is not None:
                with contextlib.suppress(SandboxError):  # the process ended while it was idle, or is full
                    return await self._check(warm, code)
            await self._check(self._new(stubs), code)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Return the warm workers to the pool. It blocks."""
        while self._warm:
            self._warm.pop().worker.leave()

    async def _check(self, warm: _WarmWorker, code: str) -> None:
        warm.checks += 1
        try:
            await warm.worker.run(lambda session: _check(session, f"{START}()\n{code}"))
        finally:
            if warm.worker.is_alive and warm.checks < _MAX_CHECKS and not self._pool.is_closed:
                self._warm.append(warm)
                warm = self._warm.pop(0) if len(self._warm) > _MAX_WARM else warm
            if warm not in self._warm:
                warm.worker.end()

    def _take(self, stubs: str) -> _WarmWorker | None:
        for warm in reversed(list(self._warm)):
            if warm.stubs == stubs:
                with contextlib.suppress(ValueError):  # another thread has taken it
                    self._warm.remove(warm)
                    return warm
        return None

    def _new(self, stubs: str) -> _WarmWorker:
        options: Any = {"type_check": True, "type_check_stubs": stubs + _STUB, "type_check_format": "concise"}
        return _WarmWorker(
            worker=MontyWorker(self._pool, self._processes, script_name=FILE_NAME, limits=_LIMITS, **options),
            stubs=stubs,
        )


def _check(session: Any, code: str) -> None:
    try:
        state = _start(session, code)
    except monty.MontySyntaxError as error:
        raise InvalidProgramError(to_readable(error.display(), is_check=True)) from None
    except monty.MontyRuntimeError as error:
        if isinstance(error.exception(), NotImplementedError):  # what Monty's parser does not know
            raise InvalidProgramError(to_readable(error.display("type-msg"), is_check=True)) from None
        raise SandboxError(_UNCHECKABLE) from None
    except monty.MontyCrashedError as error:
        if error.timed_out:
            raise InvalidProgramError(_UNCHECKABLE) from None
        raise
    with contextlib.suppress(monty.MontyRuntimeError):  # the SystemExit
        state.resume(_STOP)


def _start(session: Any, code: str) -> Any:
    try:
        return session.feed_start(code)
    except monty.MontyTypingError as error:
        if errors := certain_errors(error.display(), code):
            raise InvalidProgramError(to_readable(errors, is_check=True)) from None
        return session.feed_start(code, skip_type_check=True)
