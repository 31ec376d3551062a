"""Locks by key, which let exclusive calls wait for each other."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TypeVar

from ahvn_tools.errors import ToolCallError

Result = TypeVar("Result")


class Waiter:
    """One call that holds a key or waits for it. Nested calls of the same key have their own waiters."""

    __slots__ = ("holds_key", "key", "loop", "outer", "users")

    def __init__(self, key: Hashable, outer: Waiter | None) -> None:
        """Begin in the running loop; `outer` is the waiter of the call that this one is nested in."""
        import asyncio  # a toolkit without running calls does not need it

        self.loop = asyncio.get_running_loop()
        self.holds_key = asyncio.Event()
        self.outer = outer
        self.key = outer, key
        self.users = 1
        """The number of active calls that it covers: its own, and the nested ones."""

    def wake(self) -> bool:
        """Let the call run. Return False when its loop is closed."""
        try:
            self.loop.call_soon_threadsafe(self.holds_key.set)
        except RuntimeError:
            return False
        return True


_current_waiters: ContextVar[Mapping[tuple[KeyedLocks, Hashable], Waiter]] = ContextVar(
    "current_waiters", default=MappingProxyType({})
)
"""The waiters that this code runs under: a nested call does not wait for its own caller."""


def forget_held_keys() -> None:
    """Let the code in this context wait for every key, also for those of its caller, which it outlives."""
    _current_waiters.set(MappingProxyType({}))


class KeyedLocks:
    """A first-come-first-served lock for each key. Safe across threads and loops."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: the garbage collector may close an abandoned call while it is held
        self._queues: dict[Hashable, deque[Waiter]] = {}
        """For each key the waiter that holds it, then those that wait for it."""

    async def run_locked(self, key: Hashable, run: Callable[[], Awaitable[Result]]) -> Result:
        """Await `run()` while this key is held. Raises ToolCallError when waiting would be a deadlock."""
        waiter = self._enqueue(key)
        try:
            await waiter.holds_key.wait()
            token = _current_waiters.set({**_current_waiters.get(), (self, key): waiter})
            try:
                return await run()
            finally:
                with contextlib.suppress(ValueError):  # the loop was closed, and this runs outside the call's context
                    _current_waiters.reset(token)
        finally:
            with self._lock:
                self._release(waiter)

    def _enqueue(self, key: Hashable) -> Waiter:
        """Return a new waiter for the key. The first one holds it."""
        from ahvn_tools.execution import background_loop

        with self._lock:
            waiter = Waiter(key, self._current_waiter(key))
            while (queue := self._queues.get(waiter.key)) and queue[0].loop.is_closed():  # it will never be released
                self._remove(queue[0])
            queue = self._queues.setdefault(waiter.key, deque())
            if any(other.loop in background_loop.blocked_loops.get() for other in queue):
                raise ToolCallError(
                    "This call must not run at the same time as one that is active in the event loop which it blocks: "
                    "in an event loop use `await …acall(…)`, `aexec`, `astream` or `arun`."
                )
            queue.append(waiter)
            if waiter.outer is not None:
                waiter.outer.users += 1
            if queue[0] is waiter:
                waiter.holds_key.set()
            return waiter

    def _current_waiter(self, key: Hashable) -> Waiter | None:
        """Return the innermost waiter for the key that this code runs under and that is still in use."""
        waiter = _current_waiters.get().get((self, key))
        while waiter is not None and not waiter.users:  # code of a tool that continued after its call
            waiter = waiter.outer
        return waiter

    def _release(self, waiter: Waiter) -> None:
        """End one use of a waiter; the last use releases the key."""
        waiter.users -= 1
        if not waiter.users:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        """Remove a waiter from its queue; if it held the key, wake the next one whose loop still runs."""
        queue = self._queues.get(waiter.key, deque())
        if waiter not in queue:
            return
        removed = [waiter]
        held_key = queue[0] is waiter
        queue.remove(waiter)
        while held_key and queue and not queue[0].wake():
            removed.append(queue.popleft())
        if not queue:
            self._queues.pop(waiter.key, None)
        for other in removed:
            if other.outer is not None:
                self._release(other.outer)
