"""StdioMessageReader: reads the messages of a client over stdio, without a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import stat
from collections.abc import AsyncGenerator
from typing import Final

from anyio import to_thread

from ahvn_tools.mcp.lone_surrogates import replace_lone_surrogates

_READ_BYTES: Final = 65_536


class StdioMessageReader:
    """An async iterable of the lines of a pipe, socket, terminal or file.

    An open file would take a thread for each line, which is most of the time of a short call. Empty lines are dropped:
    mcp takes a quarter of a millisecond for each.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_stopped = False
        self._waiting: asyncio.Future[bool] | None = None

    async def __aiter__(self) -> AsyncGenerator[str]:
        """Yield each line, without its end, until the client closes its end or this is stopped."""
        parts: list[bytes] = []
        while data := await self._read():
            *ends, start = data.split(b"\n")
            for end in ends:
                line = b"".join([*parts, end])
                parts.clear()
                if line.strip():
                    yield await _decode(line)
            parts.append(start)
        if line := b"".join(parts).strip():
            yield await _decode(line)

    def stop(self) -> None:
        """End the iteration, from the thread of its event loop."""
        self._is_stopped = True
        self._wake(is_ready=False)

    async def _read(self) -> bytes:
        """Wait for data; return none when there is no more."""
        while not self._is_stopped and await self._is_ready():
            with contextlib.suppress(BlockingIOError):  # the pipe is non-blocking, and another process reads it, too
                return os.read(self._descriptor, _READ_BYTES)
        return b""

    async def _is_ready(self) -> bool:
        """Wait until a read does not block, or until this is stopped."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        try:
            loop.add_reader(self._descriptor, self._wake)
        except OSError:  # a file or the null device, which is always ready
            return True
        try:
            return await self._waiting
        finally:
            loop.remove_reader(self._descriptor)

    def _wake(self, *, is_ready: bool = True) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(is_ready)


async def _decode(line: bytes) -> str:
    """Return a message as text. A lone surrogate costs its character: mcp would drop the message, unanswered."""
    return (await replace_lone_surrogates(line)).decode()


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
