"""The tools that the tests of the toolkit are about."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ahvn_tools import Toolkit, ToolRegistry, ToolResult, reg_toolspec
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.middleware import Call, Middleware, Next
from ahvn_tools.schema.dialects.finding import Finding


def search(query: str, user: str = "guest", limit: int = 3) -> str:
    """Search the notes.

    Args:
        query: What to look for.
        user: Whose notes.
        limit: How many.
    """
    return f"{user}:{query}:{limit}"


async def asearch(query: str, user: str = "guest") -> str:
    """Search the notes in a loop."""
    await asyncio.sleep(0)
    return f"{user}:{query}"


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def fail(user: str = "guest") -> str:
    """Fail."""
    raise ValueError(f"nothing for {user}")


def count(until: int, user: str = "guest") -> Iterator[str]:
    """Count."""
    for number in range(until):
        yield f"{user}{number}"


async def acount(until: int, user: str = "guest") -> AsyncIterator[str]:
    """Count in a loop."""
    for number in range(until):
        yield f"{user}{number}"


class Notes(ToolRegistry):
    """Two tools that share a list."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @reg_toolspec(tags={"write"})
    def put(self, text: str) -> int:
        """Put a note."""
        self.texts.append(text)
        return len(self.texts)

    @reg_toolspec(tags={"read"})
    def get(self, number: int = 0) -> str:
        """Get a note."""
        return self.texts[number]


class Gauge:
    """How many are inside of it at once, now and at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = self.entered = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.entered += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1

    def work(self, seconds: float = 0.01) -> str:
        """Work in a thread."""
        with self():
            time.sleep(seconds)
        return "worked"

    async def awork(self, seconds: float = 0.01) -> str:
        """Work in a loop."""
        with self():
            await asyncio.sleep(seconds)
        return "worked"


async def passing(call: Call, next: Next) -> ToolResult:
    """Wrap a call, and await nothing else."""
    return await next(call)


async def waiting(call: Call, next: Next) -> ToolResult:
    """Wrap a call, and wait before it."""
    await asyncio.sleep(0)
    return await next(call)


def noting(log: list[Any], see: Callable[[Call], Any] = lambda call: call.name) -> Middleware:
    """Return a middleware that notes something of each call, by default its tool."""

    async def note(call: Call, next: Next) -> ToolResult:
        log.append(see(call))
        return await next(call)

    return note


def is_running(clock: Deadline) -> bool:
    """Return whether the clock of a call runs."""
    return clock._resumed_at is not None


def in_threads(works: Iterable[Callable[[], object]], seconds: float = 60) -> None:
    """Do each of these in its own thread, all at once, and wait for their ends."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)


def check(kit: Toolkit) -> list[Finding]:
    """Return the findings about a toolkit, without those of formats and about single parameters."""
    return kit.check(formats=[], ignore=["undocumented-parameter"])
