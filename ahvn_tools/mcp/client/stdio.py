"""A stdio transport with messages of bounded size, which leaves no server process behind.

Can be dropped when mcp's `stdio_client` itself limits the bytes of a line, reports exit codes and bounds its shutdown.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
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
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.errors import PARSE_ERROR
from ahvn_tools.mcp.client.server_process import (
    get_exit_reason,
    kill_group,
    stop_process,
    track_group,
    wait_for_exit_reason,
)
from ahvn_tools.mcp.client.server_stderr import StderrWriter, copy_stderr
from ahvn_tools.mcp.lone_surrogates import replace_lone_surrogates
from ahvn_tools.mcp.trust.limits import JsonValueCounter, Limits, RateGuard

CHUNK_BYTES = 65_536  # bytes to read at a time: the size of a pipe's buffer
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
        self._server_name = settings.server_name
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
