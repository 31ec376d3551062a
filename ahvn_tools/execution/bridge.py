"""The bridge from sync to async: one background event loop per process, in a daemon thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any

from ahvn_tools.errors import SyncCallError

log = logging.getLogger(__name__)

blocked: contextvars.ContextVar[tuple[asyncio.AbstractEventLoop, ...]] = contextvars.ContextVar("blocked", default=())
"""The loops that stand still because their thread waits on the bridge; nothing may be sent to them."""


class _Background:
    """The loop and its thread, started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._serve, args=(self._loop,), name="ahvn-tools-loop", daemon=True).start()
            return self._loop

    def is_current(self) -> bool:
        return self._loop is not None and _running() is self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001  # a task of a body's own may raise SystemExit through the loop
                log.warning("A task on the background loop raised %s; the loop goes on.", type(error).__name__)


_background = _Background()


def _forget() -> None:
    global _background  # noqa: PLW0603  # a forked child has none of its parent's threads
    _background = _Background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run(running: Coroutine[Any, Any, Any], *, backstop: float | None = None) -> Any:
    """Run a coroutine on the background loop and wait for it; Ctrl-C while waiting cancels it.

    `backstop` bounds the wait in seconds, for the case that another body blocks the loop: then a TimeoutError is
    raised. Raises SyncCallError when called on the background loop itself.
    """
    future = start(running)
    try:
        return future.result(backstop)
    except BaseException:
        future.cancel()
        raise


def start(running: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
    """Start a coroutine on the background loop. Raises SyncCallError when called on that loop itself."""
    if _background.is_current():
        running.close()
        raise SyncCallError(
            "A sync door was used on the background loop, which would wait for itself: "
            "in an async body use `await spec.acall(…)`, `aexec` or `astream`."
        )
    here = _running()
    token = blocked.set((*blocked.get(), here)) if here is not None else None
    try:
        return asyncio.run_coroutine_threadsafe(running, _background.loop())
    finally:
        if token is not None:
            blocked.reset(token)


def call_soon(function: Any) -> None:
    """Call a function on the background loop, soon."""
    _background.loop().call_soon_threadsafe(function)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
