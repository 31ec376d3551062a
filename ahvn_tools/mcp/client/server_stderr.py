"""The stderr of a server process: a bounded part goes to a file or, with escaped characters, to our own stderr."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from io import FileIO
from pathlib import Path
from typing import TextIO

from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.invisible import escape
from ahvn_tools.mcp.client.errors import StderrFileError
from ahvn_tools.regular_file import open_regular
from ahvn_tools.secret_texts import SecretTexts

log = logging.getLogger(__name__)

CHUNK_BYTES = 65_536  # bytes to read at a time: the size of a pipe's buffer
MAX_LINE_BYTES = 8_192  # a longer line is written in parts that end with a space
FLOOD_PAUSE = 0.01  # seconds between the chunks of a server that has reached the limit: 6 MB/s
OLD_SUFFIX = ".1"  # of the previous file
MAX_WARNING_LINES = 500
PROBE_METHOD = b"server/discover"

_PROBE_WARNING = b"Failed to validate request"
_WARNING_LINE = re.compile(rb"[ \t]+(?!\s|DEBUG|INFO|WARNING|ERROR|CRITICAL)|\w+Request(?:\.|\r?\n)")
"""A line of pydantic's, or one that rich has broken; it indents the next record, too."""


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
    def is_file(self) -> bool:
        """Whether the destination is a regular file that the host has named, and no terminal."""
        return self._path is not None

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


class _ProbeWarning:
    """Leaves out what older Python servers log about the first request of a client.

    mcp's client asks by `server/discover` for the revision of the protocol. Servers made with mcp 1 refuse it, as they
    should, and warn of it in about 94 lines, one for each request that they know. Can be dropped with those servers.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._is_over = False

    def leave_out(self, lines: bytes, *, is_last: bool) -> bytes:
        """Return lines without the first warning about an unknown request, if that is `server/discover`."""
        if self._is_over or not (self._held or is_last or _PROBE_WARNING in lines):
            return lines
        kept: list[bytes] = []
        for line in lines.splitlines(keepends=True):
            if not self._is_part(line):
                kept += [*self._end(), line]
            else:
                self._held.append(line)
        return b"".join([*kept, *(self._end() if is_last else ())])

    def _is_part(self, line: bytes) -> bool:
        if not self._held:
            return not self._is_over and _PROBE_WARNING in line
        return len(self._held) < MAX_WARNING_LINES and _WARNING_LINE.match(line) is not None

    def _end(self) -> list[bytes]:
        """Return what was held, unless it is the warning."""
        held, self._held = self._held, []
        self._is_over |= bool(held)
        return [] if any(PROBE_METHOD in line for line in held) else held


class SafeLines:
    """Makes whole lines of what a server writes, without the credentials of the connection.

    A line waits for its end, because its last characters may be the beginning of a credential.
    """

    def __init__(self, secrets: SecretTexts, *, is_escaped: bool) -> None:
        """`is_escaped`: no character of the lines controls a terminal."""
        self._secrets = secrets
        self._is_escaped = is_escaped
        self._unfinished = b""
        self._warning = _ProbeWarning()

    def add(self, chunk: bytes) -> bytes:
        """Take the next chunk, empty for the end, and return the lines that are complete with it."""
        data = self._unfinished + chunk
        end = data.rfind(b"\n") + 1
        if len(data) - end > MAX_LINE_BYTES:
            end = data.rfind(b" ") + 1
        if not chunk or len(data) - end > MAX_LINE_BYTES:
            end = len(data)
        self._unfinished = data[end:]
        lines = self._warning.leave_out(data[:end], is_last=not chunk)
        masked = self._secrets.mask_bytes(lines, is_error=True)
        return escape(masked.decode("utf-8", "backslashreplace")).encode() if self._is_escaped else masked


async def copy_stderr(
    server_name: str, stream: asyncio.StreamReader, writer: StderrWriter, secrets: SecretTexts
) -> None:
    """Copy the lines of a server's stderr to its end, and close the writer. What cannot be written is dropped.

    The log says once that the limit is reached or that a write has failed.
    """
    is_reported, is_open = False, True
    lines = SafeLines(secrets, is_escaped=not writer.is_file)
    try:
        while is_open:
            chunk = await stream.read(CHUNK_BYTES)
            is_open = bool(chunk)
            problem = await _write_in_thread(writer, lines, chunk)
            if problem is not None and not is_reported:
                is_reported = True
                log.warning("The stderr of the MCP server %r %s", server_name, problem)
            if is_reported:
                await asyncio.sleep(FLOOD_PAUSE)
    finally:
        writer.close()


def _write(writer: StderrWriter, data: bytes) -> bool:
    """Write data in parts of bounded size, and return whether the limit is reached."""
    is_full = False
    for start in range(0, len(data), CHUNK_BYTES):
        is_full = writer.write(data[start : start + CHUNK_BYTES]) or is_full
    return is_full


async def _write_in_thread(writer: StderrWriter, lines: SafeLines, chunk: bytes) -> str | None:
    """Write the lines that a chunk completes, and return what the host should know about it."""
    outcome = await run_in_thread(lambda _: _write(writer, lines.add(chunk)))
    if isinstance(outcome.error, OSError | ValueError):
        return f"cannot be written: {outcome.error}"
    return writer.description if outcome.get() else None
