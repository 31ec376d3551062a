"""IdleClock: ends a call when its server has sent no progress message for some time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from ahvn_tools.errors import ToolTimeoutError

T = TypeVar("T")


class IdleClock:
    """The clock of one call. It starts again with each progress message, and stands still while a person answers."""

    def __init__(self, tool: str, seconds: float | None) -> None:
        """End the call after `seconds`; None: never. For the event loop that runs now."""
        self._tool, self._seconds = tool, seconds
        self._loop = asyncio.get_running_loop()
        self._timeout: asyncio.Timeout | None = None
        self._pauses = 0

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call. Raises ToolTimeoutError."""
        try:
            async with asyncio.timeout(self._seconds) as timeout:
                self._timeout = timeout
                return await call
        except TimeoutError:
            if not timeout.expired():
                raise
            message = f"The server of tool {self._tool!r} has sent no progress for {self._seconds:g} s."
            raise ToolTimeoutError(message, tool=self._tool, timeout=self._seconds) from None
        finally:
            self._timeout = None

    def restart(self) -> None:
        """Start again; from any thread."""
        if self._seconds is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._reschedule)

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        """Stand still inside this block, in the loop of the call."""
        self._pauses += 1
        self._reschedule()
        try:
            yield
        finally:
            self._pauses -= 1
            self._reschedule()

    def _reschedule(self) -> None:
        if self._timeout is not None and self._seconds is not None and not self._timeout.expired():
            self._timeout.reschedule(None if self._pauses else self._loop.time() + self._seconds)
