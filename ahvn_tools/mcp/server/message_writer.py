"""MessageWriter: writes the messages of a server over stdio, most of them without a thread."""

from __future__ import annotations

import os
import select
import stat

from anyio import to_thread


class MessageWriter:
    """Has what mcp's `stdio_server` calls of an open file.

    A short message is written at once if the pipe or socket is ready: then it fits. Others are written in a thread,
    because the client may read late. An open file would take two threads for each message, which is most of the time of
    a short call.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._texts: list[str] = []
        mode = os.fstat(descriptor).st_mode
        self._max_bytes_at_once = select.PIPE_BUF if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Keep a text until `flush`."""
        self._texts.append(text)

    async def flush(self) -> None:
        """Write what was kept. Raises OSError when the client has closed its end."""
        data = "".join(self._texts).encode()
        self._texts.clear()
        if len(data) <= self._max_bytes_at_once and self._poll.poll(0):
            data = data[self._write(data) :]
        if data:
            await to_thread.run_sync(self._write_all, data)

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # the client has made its pipe non-blocking
            return 0

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[self._write(data) :]
            if data:
                self._poll.poll()
