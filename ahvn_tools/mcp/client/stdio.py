"""A server process and its pipes: messages of a bounded size, and an end that leaves no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, TransportOptions
from mcp import ClientSession
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, jsonrpc_message_adapter

from ahvn_tools.mcp.client.server_process import (
    get_exit_reason,
    kill_group,
    stop_process,
    track_group,
    wait_for_exit_reason,
)
from ahvn_tools.mcp.trust.json_values import JsonValueCounter
from ahvn_tools.mcp.trust.limits import Limits, RateGuard

CHUNK_BYTES = 65_536
"""Bytes read at a time, what a pipe holds."""

SHORT_CLOSE_SECONDS = 0.2
"""Seconds that a server has to end which has never said anything, or can say nothing any more."""

DELIVERY_ROUNDS = 50
"""Rounds of the loop in which a server's last answer gets to who waits for it; mcp needs about fifteen."""

Message = SessionMessage | Exception


class BoundedStdioTransport(ClientTransport):
    """Starts a server for one session, and ends it with the session. It takes part in nobody else's."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        log_file: TextIO | Path | None = None,
        limits: Limits,
        on_connection_lost: Callable[[str], None] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = {**get_default_environment(), **(env or {})}
        self._cwd = cwd
        self._log_file = log_file
        self._limits = limits
        self._on_connection_lost = on_connection_lost
        self._close_seconds = SHORT_CLOSE_SECONDS
        self._stray_lines = 0
        self._rate_guard = RateGuard(limits.notifications)
        self._process: asyncio.subprocess.Process | None = None
        self._failure_reason: str | None = None
        self._is_ending = False

    def failure_reason(self) -> str | None:
        """Say why nothing can be sent any more; None while the server lives, as far as can be seen."""
        if self._failure_reason is None and self._process is not None and not self._is_ending:
            self._failure_reason = get_exit_reason(self._process)
        return self._failure_reason

    def stray_lines(self) -> int:
        """Return how many lines came that are no messages."""
        return self._stray_lines

    @contextlib.asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[ClientSession]:
        """Start the server and give the session that talks with it."""
        make = (transport_options or TransportOptions()).session_class
        process = self._process = await self._start_process()
        incoming, read = anyio.create_memory_object_stream[Message](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read_messages(process, incoming, outgoing)),
            asyncio.create_task(self._write_messages(process, outgoing, incoming)),
        ]
        try:
            async with make(read, write, **session_kwargs) as session:
                yield session
        finally:
            try:
                self._is_ending = True  # what comes of that is no fault of the server
                await stop_process(process, self._close_seconds)
            finally:
                kill_group(process.pid)
                for task in tasks:
                    task.cancel()
                for stream in (incoming, read, write, outgoing):
                    stream.close()
                _close_pipes(process)

    async def _start_process(self) -> asyncio.subprocess.Process:
        with contextlib.ExitStack() as stack:
            errors = self._log_file
            if isinstance(errors, Path):
                errors = stack.enter_context(errors.open("a"))
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        track_group(process.pid)
        return process

    async def _read_messages(
        self,
        process: asyncio.subprocess.Process,
        incoming: MemoryObjectSendStream[Message],
        outgoing: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        assert process.stdout is not None  # noqa: S101  # it was asked for
        try:
            async for line in _read_lines(process.stdout, self._limits):
                if (message := self._parse_message(line)) is not None:
                    await incoming.send(message)
            self._close_seconds = min(self._close_seconds, SHORT_CLOSE_SECONDS)
            reason = await wait_for_exit_reason(process)
            for _ in range(DELIVERY_ROUNDS):
                await asyncio.sleep(0)
            self._report_lost(reason)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._report_lost("the connection was closed")
            while await process.stdout.read(CHUNK_BYTES):  # a server that is writing does not hear that it should end
                continue
        except _StreamLimitError as error:
            self._close_seconds = 0
            self._report_lost(str(error))
        finally:
            incoming.close()
            outgoing.close()

    def _report_lost(self, reason: str) -> None:
        if self._failure_reason is None and not self._is_ending:
            self._failure_reason = reason
            if self._on_connection_lost is not None:
                self._on_connection_lost(reason)

    def _parse_message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if (identifier := _find_id(line)) is not None:
                fault = ErrorData(code=PARSE_ERROR, message="The server's answer is not a message that can be read.")
                return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=fault))
        else:
            self._close_seconds = self._limits.close
            if isinstance(message, JSONRPCNotification) and (reason := self._rate_guard.count_message()) is not None:
                raise _StreamLimitError(reason)
            return SessionMessage(message)
        self._stray_lines += 1
        if self._stray_lines > self._limits.stray_lines:
            raise _StreamLimitError(f"the server wrote more than {self._limits.stray_lines} lines that are no messages")
        return None

    async def _write_messages(
        self,
        process: asyncio.subprocess.Process,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        incoming: MemoryObjectSendStream[Message],
    ) -> None:
        assert process.stdin is not None  # noqa: S101  # it was asked for
        try:
            async for sent in outgoing:
                process.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()
        except (anyio.ClosedResourceError, OSError):
            self._report_lost(await wait_for_exit_reason(process))
        finally:
            incoming.close()
            outgoing.close()  # whoever sends now must hear of it


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close our ends of the pipes, which somebody may hold who left the server's process group."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  # asyncio has no public way; mcp does it too


class _StreamLimitError(Exception):
    """The server sent more than it may."""


async def _read_lines(stream: asyncio.StreamReader, limits: Limits) -> AsyncIterator[bytes]:
    """Yield lines of a bounded size. Raises _TooMuchError for a larger one, before it is whole."""
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


def _find_id(line: bytes) -> int | None:
    """Return the id of an answer that cannot be read: whoever waits for it must hear that."""
    found = _LEADING_ID.match(line[:200]) or _TRAILING_ID.search(line[-200:])
    return None if found is None else int(found[1])
