"""The stderr of a server process: a bounded part of it goes to a file, or to the stderr of this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from io import FileIO
from pathlib import Path
from typing import TextIO

from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client.errors import StderrFileError
from ahvn_tools.regular_file import open_regular

log = logging.getLogger(__name__)

CHUNK_BYTES = 65_536  # bytes to read at a time: the size of a pipe's buffer
FLOOD_PAUSE = 0.01  # seconds between the chunks of a server that has reached the limit: 6 MB/s
OLD_SUFFIX = ".1"  # of the previous file


class StderrWriter:
    """Writes what a server has written to its stderr. It may block, so it is used in threads.

    A file is renamed when it reaches `max_bytes`, so the last output of a server is never lost. A stream gets
    `max_bytes`, and no more.
    """

    def __init__(self, destination: Path | TextIO | None, max_bytes: int) -> None:
        """Open the destination: a regular file to append to, or by default the stderr of this process.

        Raises OSError, also for a link: what a repository has put at the path must not say which file is written.
        """
        self._max_bytes = max_bytes
        self._written_bytes = 0
        self._file = _open(destination)
        self._path = destination if isinstance(destination, Path) else None

    @property
    def description(self) -> str:
        """What happens at the limit."""
        if self._path is None:
            return f"has more than {self._max_bytes} bytes; the rest is dropped."
        files = f"{str(self._path)!r} and {self._old_path!r}"
        return f"has more than {self._max_bytes} bytes; only the last ones are kept, in {files}."

    def write(self, chunk: bytes) -> bool:
        """Write a chunk, and return whether the limit is reached. Raises OSError."""
        if self._path is None:
            self._write(chunk[: max(0, self._max_bytes - self._written_bytes)])
            self._written_bytes += len(chunk)
            return self._written_bytes > self._max_bytes
        is_full = os.fstat(self._file.fileno()).st_size + len(chunk) > self._max_bytes
        if is_full:
            self._start_file(self._path)
        self._write(chunk)
        return is_full

    def close(self) -> None:
        """Close the destination."""
        self._file.close()

    @property
    def _old_path(self) -> str:
        return f"{self._path}{OLD_SUFFIX}"

    def _start_file(self, path: Path) -> None:
        """Rename the file, unless another writer has just done so, and start a new one."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.lstat(), os.fstat(self._file.fileno())):
                path.replace(self._old_path)
        self._file.close()
        self._file = _open(path)

    def _write(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        while left:
            left = left[self._file.write(left) or 0 :]


def _open(destination: Path | TextIO | None) -> FileIO:
    if isinstance(destination, Path):
        try:
            return FileIO(open_regular(destination, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StderrFileError(error.errno, error.strerror) from None
    try:
        return FileIO(os.dup(2 if destination is None else destination.fileno()), "a")
    except OSError:
        if destination is not None:
            raise
        return FileIO(os.devnull, "a")  # this process has no stderr


async def copy_stderr(server_name: str, stream: asyncio.StreamReader, writer: StderrWriter) -> None:
    """Copy a server's stderr to its end, and close the writer. What cannot be written is dropped.

    The log says once that the limit is reached or that a write has failed.
    """
    is_reported = False
    try:
        while chunk := await stream.read(CHUNK_BYTES):
            problem = await _write_in_thread(writer, chunk)
            if problem is not None and not is_reported:
                is_reported = True
                log.warning("The stderr of the MCP server %r %s", server_name, problem)
            if is_reported:
                await asyncio.sleep(FLOOD_PAUSE)
    finally:
        writer.close()


async def _write_in_thread(writer: StderrWriter, chunk: bytes) -> str | None:
    """Write a chunk, and return what the host should know about it."""
    outcome = await run_in_thread(lambda _: writer.write(chunk))
    if isinstance(outcome.error, OSError | ValueError):
        return f"cannot be written: {outcome.error}"
    return writer.description if outcome.get() else None
