"""Exclusive: calls that must not run at once, told by a key; in one answer, in the order in which they stand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, TypeVar

from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.results import ToolResult

Exclusive = bool | str | Callable[[dict[str, Any]], Hashable]
"""True: alone. A parameter's name: alone among calls with the same value of it. Or a function of the arguments."""

ALONE: Final = ("alone",)
"""The key of a call that runs alone."""

Result = TypeVar("Result")


def key_by_parameter(name: str, schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], Hashable]:
    """Return the function that gives one key to calls with one value of a parameter, which has this schema.

    A call that leaves it out has the default; where there is none to be seen, all such calls are one.
    """
    left_out = _to_key_text(schema["default"]) if "default" in schema else None

    def key(arguments: dict[str, Any]) -> Hashable:
        return name, _to_key_text(arguments[name]) if name in arguments else left_out

    return key


def _to_key_text(value: Any) -> str:
    """Return a text that values share which a tool may take for the same: 1, 1.0 and "1", a list and its JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(
        int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True, default=str
    )


def lock_key(exclusive: Exclusive, arguments: dict[str, Any]) -> Hashable | None:
    """Return the key of a call; None for one that may run beside any other.

    A function of the host's that fails, or gives what cannot be a key, makes the call run alone.
    """
    if isinstance(exclusive, bool):
        return ALONE if exclusive else None
    function = key_by_parameter(exclusive, {}) if isinstance(exclusive, str) else exclusive
    try:
        key = function(arguments)
        hash(key)
    except Exception:  # noqa: BLE001  # arguments are a model's: the function may not have expected them
        return ALONE
    return None if key is None else ("by function", key)


class Waiter:
    """One call that holds a key, or waits for it. Calls from inside of it take turns of their own."""

    __slots__ = ("key", "loop", "outer", "ready", "users")

    def __init__(self, key: Hashable, outer: Waiter | None) -> None:
        """Begin one in the running loop; `around` is the turn that it is inside of."""
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self.loop.create_future()
        """Tells who waits that the turn has come."""
        self.outer = outer
        self.key = os.getpid(), outer, key  # a forked child does not wait for calls of its parent
        self.users = 1
        """How many run in it: its call, and the calls from inside that are under way."""

    def wake(self) -> bool:
        """Tell that the turn has come. Return whether there is still a loop to be told."""
        try:
            self.loop.call_soon_threadsafe(_set_ready, self.ready)
        except RuntimeError:  # the loop was closed under the call
            return False
        return True


def _set_ready(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


_current_waiters: ContextVar[Mapping[tuple[KeyedLocks, Hashable], Waiter]] = ContextVar(
    "taken", default=MappingProxyType({})
)
"""The turns that this code runs in: a call from inside a tool does not wait for its own caller."""


class KeyedLocks:
    """Which keys are held, and who waits for them, first come first served. Safe over threads and loops."""

    def __init__(self) -> None:
        """Begin with no key held."""
        self._lock = threading.RLock()  # a dead call is closed wherever the collector finds it, in here, too
        self._queues: dict[Hashable, deque[Waiter]] = {}
        """By key: the turn that holds it, then those that wait for it."""

    async def run_locked(self, key: Hashable, run: Callable[[], Awaitable[Result]]) -> Result:
        """Await `run()` while this key is held. Raises ToolCallError where it would wait for ever."""
        turn, is_first = self._enqueue(key)
        try:
            if not is_first:
                await turn.ready
            token = _current_waiters.set({**_current_waiters.get(), (self, key): turn})
            try:
                return await run()
            finally:
                with contextlib.suppress(ValueError):  # a loop has died, and this runs outside of the call's context
                    _current_waiters.reset(token)
        finally:
            with self._lock:
                self._release(turn)

    def _enqueue(self, key: Hashable) -> tuple[Waiter, bool]:
        """Return a turn for the key, and whether it has come."""
        with self._lock:
            turn = Waiter(key, self._current_waiter(key))
            while (line := self._queues.get(turn.key)) and line[0].loop.is_closed():  # nobody is left to end it
                self._remove(line[0])
            line = self._queues.setdefault(turn.key, deque())
            if any(other.loop in background_loop.blocked_loops.get() for other in line):
                raise ToolCallError(
                    "This call must not run beside one that is under way in the event loop which it blocks: "
                    "in an event loop use `await …acall(…)`, `aexec`, `astream` or `arun`."
                )
            line.append(turn)
            if turn.outer is not None:
                turn.outer.users += 1
            return turn, line[0] is turn

    def _current_waiter(self, key: Hashable) -> Waiter | None:
        """Return the innermost turn for the key that this code runs in and that is not over."""
        turn = _current_waiters.get().get((self, key))
        while turn is not None and not turn.users:  # code of a tool that went on after its call
            turn = turn.outer
        return turn

    def _release(self, waiter: Waiter) -> None:
        """End one use of a turn; the key is given on with the last."""
        waiter.users -= 1
        if not waiter.users:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        """Take a turn out of its line, and give the key to the first behind it whose loop still runs."""
        line = self._queues.get(waiter.key, deque())
        if waiter not in line:
            return
        ended = [waiter]
        is_given_on = line[0] is waiter
        line.remove(waiter)
        while is_given_on and line and not line[0].wake():
            ended.append(line.popleft())
        if not line:
            self._queues.pop(waiter.key, None)
        for over in ended:
            if over.outer is not None:
                self._release(over.outer)


def lock_middleware(exclusive: Exclusive, locks: KeyedLocks) -> Middleware:
    """Return the middleware that lets a call wait until no other holds its key."""

    async def wait_for_key(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        key = lock_key(exclusive, call.arguments)
        return await (next(call) if key is None else locks.run_locked(key, lambda: next(call)))

    return wait_for_key


async def run_in_order(
    jobs: Sequence[Callable[[], Awaitable[Result]]], keys: Sequence[Hashable | None], max_concurrency: int
) -> list[Result]:
    """Run jobs at once, at most `limit` of them, and return what they give in their order. Jobs do not raise.

    A job with a key runs after those before it with the same key; one that runs alone, after all before it and before
    all behind it. A job takes its slot last: it never holds one while it waits for another.
    """
    slots = asyncio.Semaphore(max_concurrency)
    gate: list[asyncio.Event] = []
    since_gate: list[asyncio.Event] = []
    last: dict[Hashable, asyncio.Event] = {}

    async def run(job: Callable[[], Awaitable[Result]], before: list[asyncio.Event], done: asyncio.Event) -> Result:
        try:
            for event in before:
                await event.wait()
            async with slots:
                return await job()
        finally:
            done.set()

    async with asyncio.TaskGroup() as group:
        tasks = []
        for job, key in zip(jobs, keys, strict=True):
            done = asyncio.Event()
            if key == ALONE:
                before = [*gate, *since_gate]
                gate, since_gate, last = [done], [], {}
            else:
                before = [*gate, *([last[key]] if key is not None and key in last else [])]
                since_gate.append(done)
                if key is not None:
                    last[key] = done
            tasks.append(group.create_task(run(job, before, done)))
    return [task.result() for task in tasks]
