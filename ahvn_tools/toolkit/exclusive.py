"""Exclusive: calls that must not run at once, told by a key; in one answer, in the order in which they stand."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.results import ToolResult

Exclusive = bool | str | Callable[[dict[str, Any]], Hashable]
"""True: alone. A parameter's name: alone among calls with the same value of it. Or a function of the arguments."""

ALONE: Final = ("alone",)
"""The key of a call that runs alone."""

Result = TypeVar("Result")

_held: ContextVar[frozenset[Hashable]] = ContextVar("held", default=frozenset())
"""The keys of the calls that this code runs in: a call from inside a tool does not wait for its own caller."""


def key_of(exclusive: Exclusive, arguments: dict[str, Any]) -> Hashable | None:
    """Return the key of a call; None for one that may run beside any other.

    A function of the host's that fails, or gives what cannot be a key, makes the call run alone.
    """
    if isinstance(exclusive, bool):
        return ALONE if exclusive else None
    if isinstance(exclusive, str):
        if exclusive not in arguments:
            return None
        return exclusive, json.dumps(arguments[exclusive], sort_keys=True, default=str)
    try:
        key = exclusive(arguments)
        hash(key)
    except Exception:  # noqa: BLE001  # arguments are a model's: the function may not have expected them
        return ALONE
    return None if key is None else ("by function", key)


class Keys:
    """Which keys are held, and who waits for them, first come first served. Safe over threads and loops."""

    def __init__(self) -> None:
        """Begin with no key held."""
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[concurrent.futures.Future[None]]] = {}

    async def holding(self, key: Hashable, run: Callable[[], Awaitable[Result]]) -> Result:
        """Await `run()` while this key is held."""
        turn = self._ask(key)
        if turn is not None:
            await self._wait(key, turn)
        token = _held.set(_held.get() | {key})
        try:
            return await run()
        finally:
            _held.reset(token)
            self._give_on(key)

    def _ask(self, key: Hashable) -> concurrent.futures.Future[None] | None:
        """Take a key that is free; otherwise return what tells when it is ours."""
        with self._lock:
            if key not in self._waiting:
                self._waiting[key] = deque()
                return None
            turn: concurrent.futures.Future[None] = concurrent.futures.Future()
            self._waiting[key].append(turn)
            return turn

    async def _wait(self, key: Hashable, turn: concurrent.futures.Future[None]) -> None:
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel() and not turn.cancelled():  # it became ours in this moment
                self._give_on(key)
            raise

    def _give_on(self, key: Hashable) -> None:
        with self._lock:
            waiting = self._waiting[key]
            while waiting:
                turn = waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            del self._waiting[key]


def exclusively(exclusive: Exclusive, keys: Keys) -> Middleware:
    """Return the middleware that lets a call wait until no other holds its key."""

    async def wait_for_key(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        key = key_of(exclusive, call.arguments)
        if key is None or key in _held.get():
            return await next(call)
        return await keys.holding(key, lambda: next(call))

    return wait_for_key


async def in_order(
    jobs: Sequence[Callable[[], Awaitable[Result]]], keys: Sequence[Hashable | None], limit: int
) -> list[Result]:
    """Run jobs at once, at most `limit` of them, and return what they give in their order. Jobs do not raise.

    A job with a key runs after those before it with the same key; one that runs alone, after all before it and before
    all behind it. A job takes its slot last: it never holds one while it waits for another.
    """
    slots = asyncio.Semaphore(limit)
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
