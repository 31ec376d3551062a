"""MontyChecker: type-checks programs against stubs, in workers that stay warm: a first check takes 30 times as long."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Final

import pydantic_monty as monty

from ahvn_tools.code_mode.monty.messages import END, FILE_NAME, to_readable
from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.monty.worker import MontyWorker
from ahvn_tools.code_mode.sandbox import InvalidProgramError

MAX_CHECKS_AT_ONCE: Final = 2

MAX_WARM: Final = 4
"""How many workers stay warm, each for other stubs."""

_MAX_CHECKS: Final = 500
"""After how many checks a worker is replaced: it keeps what programs define."""

_LIMITS: Final = {
    "max_feed_duration_secs": 0.001,
    "max_memory": 50_000_000,
    "max_recursion_depth": 50,
    "max_suspensions": 1_000_000,
}
_STUB: Final = f"\ndef {END}() -> None: ...\n"
_STOP: Final[Any] = {"exc_type": "SystemExit", "message": ""}


@dataclass(kw_only=True, eq=False)
class _WarmWorker:
    """A worker that knows the stubs of some tools."""

    worker: MontyWorker
    stubs: str
    checks: int = 0


class MontyChecker:
    """Type-checks programs. Monty has no check alone, so a program also runs to its first call, for a millisecond."""

    def __init__(self, pool: monty.Monty) -> None:
        self._pool = pool
        self._slots = Slots(MAX_CHECKS_AT_ONCE)
        self._warm: list[_WarmWorker] = []
        """The workers that check nothing, the last used one at the end."""

    async def check(self, code: str, stubs: str) -> None:
        """Raises InvalidProgramError for a program that does not fit the stubs."""
        async with self._slots.hold():
            warm: _WarmWorker | None
            warm = checking = self._take(stubs) or await self._start(stubs)
            checking.checks += 1
            is_reusable = False
            try:
                is_reusable = await _check(checking.worker, f"{code}\n{END}()")
            except InvalidProgramError:
                is_reusable = True
                raise
            finally:
                if is_reusable and checking.checks < _MAX_CHECKS:
                    self._warm.append(checking)
                    warm = self._warm.pop(0) if len(self._warm) > MAX_WARM else None
                if warm is not None:
                    await warm.worker.__aexit__(None, None, None)

    def close(self) -> None:
        """Return the warm workers to the pool."""
        while self._warm:
            self._warm.pop().worker.close()

    def _take(self, stubs: str) -> _WarmWorker | None:
        for warm in reversed(list(self._warm)):
            if warm.stubs == stubs:
                with contextlib.suppress(ValueError):  # another thread has taken it
                    self._warm.remove(warm)
                    return warm
        return None

    async def _start(self, stubs: str) -> _WarmWorker:
        options: Any = {"type_check": True, "type_check_stubs": stubs + _STUB, "type_check_format": "concise"}
        worker = MontyWorker(self._pool, script_name=FILE_NAME, limits=_LIMITS, **options)
        return _WarmWorker(worker=await worker.__aenter__(), stubs=stubs)


async def _check(worker: MontyWorker, code: str) -> bool:
    """Return whether the worker keeps nothing of the program: one that ends without an error is kept."""
    session = worker.session
    try:
        state = await worker.run(lambda: session.feed_start(code, print_callback=lambda _, text: None))  # noqa: ARG005  # what it prints is not needed
        while not isinstance(state, monty.MontyComplete):
            state = await worker.run(lambda state=state: _stop(state))  # type: ignore[misc]  # mypy infers no type of a default
    except (monty.MontyTypingError, monty.MontySyntaxError) as error:
        raise InvalidProgramError(to_readable(error.display())) from None
    except monty.MontyRuntimeError as error:
        if isinstance(error.exception(), NotImplementedError):  # what Monty's parser does not know
            raise InvalidProgramError(to_readable(error.display("type-msg"))) from None
        return True  # the types fit; that it fails later is not known yet
    except monty.MontyError:
        return False
    return False


def _stop(state: Any) -> Any:
    """End a program at its first call."""
    if isinstance(state, monty.NameLookupSnapshot):
        return state.resume()
    if isinstance(state, monty.FunctionSnapshot):
        return state.resume(_STOP)
    return state.resume(dict.fromkeys(state.pending_call_ids, _STOP))
