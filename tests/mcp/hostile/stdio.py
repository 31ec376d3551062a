"""The hostile server over stdio: one behaviour per process, selected by name."""

from __future__ import annotations

import contextlib
import signal

from tests.mcp.hostile import calling, listing, living, modern, starting
from tests.mcp.hostile.behaviours import BEHAVIOURS, described
from tests.mcp.hostile.wire import LIFE, Server

BEHAVIOUR_MODULES = (starting, listing, calling, living, modern)
"""The modules with the behaviours; importing them registers these."""


def main(arguments: list[str]) -> None:
    """Serve with the behaviour of that name; without a name print the table.

    Further arguments mark the process and all its children.
    """
    if not arguments:
        print(described())
        return
    signal.alarm(LIFE)
    server = Server()
    BEHAVIOURS[arguments[0]](server)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        server.serve()
