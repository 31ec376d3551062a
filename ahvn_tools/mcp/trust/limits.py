"""How much a server may take: time, pages, messages."""

from __future__ import annotations

import time
from dataclasses import dataclass

RATE_WINDOW_SECONDS = 10.0
"""Seconds over which notifications are counted."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a connection puts up with. A server that goes beyond is left, with an error that says so."""

    connect: float = 30.0
    """Seconds to start the server and to shake hands."""
    listing: float = 30.0
    """Seconds for all pages of the list of tools."""
    close: float = 2.0
    """Seconds that a server process has to end once its input is closed; then it is ended, within one more."""
    pages: int = 100
    """Pages that a list of tools may have."""
    tools: int = 10_000
    """Tools that a list may have."""
    message_bytes: int = 32 * 1024 * 1024
    """Bytes of one message."""
    tools_per_page: int = 5_000
    """Tools on one page of a list."""
    blocks: int = 1_000
    """Blocks of content in one result."""
    values_per_message: int = 250_000
    """Values in one message, those of its objects and lists."""
    stray_lines: int = 1_000
    """Lines on a server's standard output that are no messages."""
    notifications: int = 20_000
    """Notifications within ten seconds."""
    requests: int = 500
    """Requests of the server's own, questions to the user or to a model, within ten seconds."""


class RateGuard:
    """Counts messages of a kind, and says when there are too many."""

    def __init__(self, max_count: int, kind: str = "notifications") -> None:
        self._max_count = max_count
        self._kind = kind
        self._count = 0
        self._window_start = time.monotonic()

    def count_message(self) -> str | None:
        """Count one; return what is wrong when it is one too many."""
        now = time.monotonic()
        if now - self._window_start > RATE_WINDOW_SECONDS:
            self._window_start, self._count = now, 0
        self._count += 1
        if self._count <= self._max_count:
            return None
        return f"the server sent more than {self._max_count} {self._kind} within {RATE_WINDOW_SECONDS:g} s"
