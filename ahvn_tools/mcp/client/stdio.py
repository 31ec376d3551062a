"""A stdio transport with messages of bounded size, which leaves no server process behind.

Can be dropped when mcp's `stdio_client` itself limits the bytes of a line, reports exit codes and bounds its shutdown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, TextIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, TransportOptions
from mcp import ClientSession
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter

from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.invisible import escape
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.errors import PARSE_ERROR, StderrFileError
from ahvn_tools.mcp.client.server_process import (
    get_exit_reason,
    kill_group,
    stop_process,
    track_group,
    wait_for_exit_reason,
)
from ahvn_tools.mcp.lone_surrogates import replace_lone_surrogates
from ahvn_tools.mcp.trust.limits import JsonValueCounter, Limits, RateGuard
from ahvn_tools.redaction.texts import SecretTexts
from ahvn_tools.regular_file import open_regular

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


SHORT_CLOSE_SECONDS = 0.2  # to exit, for a server that has never sent a message or cannot send one any more
STDERR_GRACE_SECONDS = 0.2  # to copy the last output of a server that has ended
DELIVERY_ROUNDS = 50  # iterations of the loop until a server's last answer has reached its caller; mcp needs about 15

Message = SessionMessage | Exception


class BoundedStdioTransport(ClientTransport):
    """Starts a server process for one session, and ends it with the session."""

    def __init__(
        self,
        command: Sequence[str],
        settings: ClientSettings,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        log_file: TextIO | Path | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = {**get_default_environment(), **(env or {})}
        self._cwd = cwd
        self._log_file = log_file
        self._limits = settings.limits
        self._server_name = settings.requests.server_name
        self._secrets = settings.secrets
        self._status = settings.status
        self._on_connection_lost = settings.on_connection_lost
        self._close_seconds = SHORT_CLOSE_SECONDS
        self._rate_guard = RateGuard(self._limits.notifications)
        self._is_ending = False

    @contextlib.asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[ClientSession]:
        """Start the server and yield a session with it."""
        session_class = (transport_options or TransportOptions()).session_class
        process, stderr_task = await self._start_process()
        self._status.find_exit_reason = lambda: None if self._is_ending else get_exit_reason(process)
        incoming, read = anyio.create_memory_object_stream[Message](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read_messages(process, incoming, outgoing)),
            asyncio.create_task(self._write_messages(process, outgoing, incoming)),
        ]
        try:
            async with session_class(read, write, **session_kwargs) as session:
                yield session
        finally:
            try:
                self._is_ending = True  # what follows is not the server's failure
                await stop_process(process, self._close_seconds)
                await asyncio.wait({stderr_task}, timeout=STDERR_GRACE_SECONDS)
            finally:
                kill_group(process.pid)
                for task in (*tasks, stderr_task):
                    task.cancel()
                for stream in (incoming, read, write, outgoing):
                    stream.close()
                # A process that left the group may hold the pipes open. asyncio has no public way to close them.
                process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  # mcp does it too

    async def _start_process(self) -> tuple[asyncio.subprocess.Process, asyncio.Task[None]]:
        """Start the server, and a task that copies its stderr."""
        max_bytes = self._limits.stderr_bytes
        writer: StderrWriter = (await run_in_thread(lambda _: StderrWriter(self._log_file, max_bytes))).get()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        except BaseException:
            writer.close()
            raise
        track_group(process.pid)
        assert process.stderr is not None  # noqa: S101  # it was requested
        return process, asyncio.create_task(copy_stderr(self._server_name, process.stderr, writer, self._secrets))

    async def _read_messages(
        self,
        process: asyncio.subprocess.Process,
        incoming: MemoryObjectSendStream[Message],
        outgoing: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        assert process.stdout is not None  # noqa: S101  # it was requested
        try:
            async for line in _read_lines(process.stdout, self._limits):
                if (message := await self._parse_message(line)) is not None:
                    await incoming.send(message)
            self._close_seconds = min(self._close_seconds, SHORT_CLOSE_SECONDS)
            reason = await wait_for_exit_reason(process)
            for _ in range(DELIVERY_ROUNDS):
                await asyncio.sleep(0)
            self._report_lost(reason)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._report_lost("the connection was closed")
            while await process.stdout.read(CHUNK_BYTES):  # a server that is blocked in a write cannot exit
                continue
        except _StreamLimitError as error:
            self._close_seconds = 0
            self._report_lost(str(error))
        finally:
            incoming.close()
            outgoing.close()

    def _report_lost(self, reason: str) -> None:
        if self._status.failure_reason is None and not self._is_ending:
            self._status.failure_reason = reason
            self._on_connection_lost(reason)

    async def _parse_message(self, line: bytes) -> SessionMessage | None:
        """Return the message of a line. Raises _StreamLimitError for too many notifications or stray lines."""
        if not line.strip():
            return None
        try:
            message = _read_message(line)
        except ValueError:
            try:
                message = _read_message(await replace_lone_surrogates(line))
            except ValueError:
                return self._parse_stray_line(line)
        self._close_seconds = self._limits.close
        if isinstance(message, JSONRPCNotification) and (reason := self._rate_guard.count_message()) is not None:
            raise _StreamLimitError(reason)
        return SessionMessage(message)

    def _parse_stray_line(self, line: bytes) -> SessionMessage | None:
        """Return an error message for an unreadable answer, so that its request ends; None for any other line."""
        if (match := _LEADING_ID.match(line[:200]) or _TRAILING_ID.search(line[-200:])) is not None:
            error = ErrorData(code=PARSE_ERROR, message="The server's answer is not a message that can be read.")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error))
        self._status.stray_lines += 1
        if self._status.stray_lines > self._limits.stray_lines:
            raise _StreamLimitError(
                f"the server wrote more than {self._limits.stray_lines} lines that are not messages"
            )
        return None

    async def _write_messages(
        self,
        process: asyncio.subprocess.Process,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        incoming: MemoryObjectSendStream[Message],
    ) -> None:
        assert process.stdin is not None  # noqa: S101  # it was requested
        try:
            async for item in outgoing:
                process.stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
        except (anyio.ClosedResourceError, OSError):
            self._report_lost(await wait_for_exit_reason(process))
        finally:
            incoming.close()
            outgoing.close()  # a later send raises


def _read_message(line: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


class _StreamLimitError(Exception):
    """The server has exceeded a limit."""


async def _read_lines(stream: asyncio.StreamReader, limits: Limits) -> AsyncIterator[bytes]:
    """Yield lines of bounded size. Raises _StreamLimitError for a larger one, before all of it is read."""
    parts: list[bytes] = []
    size, values = 0, JsonValueCounter()
    while chunk := await stream.read(CHUNK_BYTES):
        first, *others = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        if size > limits.message_bytes:
            raise _StreamLimitError(f"the server sent a message of more than {limits.message_bytes} bytes")
        if values.add(first) > limits.values_per_message:
            raise _StreamLimitError(f"the server sent a message of more than {limits.values_per_message} values")
        for other in others:
            yield b"".join(parts)
            parts, size, values = [other], len(other), JsonValueCounter()
            values.add(other)


_LEADING_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_TRAILING_ID = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*\}\s*$')
