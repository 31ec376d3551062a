"""How much a server may take: time, pages, messages."""

from __future__ import annotations

from dataclasses import dataclass


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
    message: int = 32 * 1024 * 1024
    """Bytes of one message."""
    noise: int = 1_000
    """Lines on a server's standard output that are no messages."""
    notifications: int = 20_000
    """Notifications within ten seconds."""
