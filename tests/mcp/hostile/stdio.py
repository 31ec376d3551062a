"""The hostile server over stdio: one behaviour a process, chosen by name."""

from __future__ import annotations

import contextlib
import signal

from tests.mcp.hostile import calling, listing, living, modern, starting
from tests.mcp.hostile.behaviours import BEHAVIOURS, described
from tests.mcp.hostile.wire import LIFE, Server

ROOMS = (starting, listing, calling, living, modern)
"""Where the behaviours are; importing them fills the table."""


def main(arguments: list[str]) -> None:
    """Serve as the behaviour of that name does; without a name print the table.

    What follows the name marks the process, and every child of it.
    """
    if not arguments:
        print(described())
        return
    signal.alarm(LIFE)
    server = Server()
    BEHAVIOURS[arguments[0]](server)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        server.serve()
