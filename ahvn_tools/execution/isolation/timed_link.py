"""TimedLink: a link to a caller, with a clock that stops while the body waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from types import TracebackType
from typing import Self

from ahvn_tools.execution.isolation.body_run import CallerLink


class TimedLink:
    """Calls `expire` when the body has used its seconds; None: never. Use it in a `with` block."""

    def __init__(self, link: CallerLink, seconds: float | None, expire: Callable[[], None]) -> None:
        """The clock starts with the block. `expire` is called in another thread."""
        self._link = link
        self._remaining = seconds
        self._expire = expire
        self._lock = threading.Lock()
        self._waits = 1
        self._resumed_at = 0.0
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        self._resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pause()

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """Call `cancel` when the caller no longer needs the result."""
        self._link.on_cancel(cancel)

    def send(self, reply: bytes) -> None:
        """Send a reply."""
        self._link.send(reply)

    def send_chunk(self, reply: bytes) -> None:
        """Send a chunk, and wait until the caller requests the next one."""
        with self._paused():
            self._link.send_chunk(reply)

    def ask(self, question: bytes) -> bytes:
        """Send a question and return the answer."""
        with self._paused():
            return self._link.ask(question)

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        self._pause()
        try:
            yield
        finally:
            self._resume()

    def _pause(self) -> None:
        with self._lock:
            self._waits += 1
            if self._timer is not None and self._remaining is not None:
                self._timer.cancel()
                self._timer = None
                self._remaining -= monotonic() - self._resumed_at

    def _resume(self) -> None:
        with self._lock:
            self._waits -= 1
            if self._waits > 0 or self._remaining is None:
                return
            self._resumed_at = monotonic()
            self._timer = threading.Timer(max(self._remaining, 0), self._expire)
            self._timer.daemon = True
            self._timer.start()
