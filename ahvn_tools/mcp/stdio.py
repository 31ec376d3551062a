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

from ahvn_tools.mcp.limits import Flood, Limits
from ahvn_tools.mcp.processes import end, fate, has_ended, kill, watch
from ahvn_tools.mcp.values import Values

CHUNK = 65_536
"""Bytes read at a time, what a pipe holds."""

SHORT = 0.2
"""Seconds that a server has to end which has never said anything, or can say nothing any more."""

STEPS = 50
"""Rounds of the loop in which a server's last answer gets to who waits for it; mcp needs about fifteen."""

Message = SessionMessage | Exception


class Stdio(ClientTransport):
    """Starts a server for one session, and ends it with the session. It takes part in nobody else's."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        errors: TextIO | Path | None = None,
        limits: Limits,
        lost: Callable[[str], None] | None = None,
    ) -> None:
        self._command = tuple(command)
        self._env = {**get_default_environment(), **(env or {})}
        self._cwd = cwd
        self._errors = errors
        self._limits = limits
        self._lost = lost
        self._patience = SHORT
        self._noise = 0
        self._flood = Flood(limits.notifications)
        self._process: asyncio.subprocess.Process | None = None
        self._fault: str | None = None
        self._is_ending = False

    def fault(self) -> str | None:
        """Say why nothing can be sent any more; None while the server lives, as far as can be seen."""
        if self._fault is None and self._process is not None and not self._is_ending:
            self._fault = has_ended(self._process)
        return self._fault

    def noise(self) -> int:
        """Return how many lines came that are no messages."""
        return self._noise

    @contextlib.asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any
    ) -> AsyncIterator[ClientSession]:
        """Start the server and give the session that talks with it."""
        make = (transport_options or TransportOptions()).session_class
        process = self._process = await self._started()
        incoming, read = anyio.create_memory_object_stream[Message](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, incoming, outgoing)),
            asyncio.create_task(self._write(process, outgoing, incoming)),
        ]
        try:
            async with make(read, write, **session_kwargs) as session:
                yield session
        finally:
            try:
                self._is_ending = True  # what comes of that is no fault of the server
                await end(process, self._patience)
            finally:
                kill(process.pid)
                for task in tasks:
                    task.cancel()
                for stream in (incoming, read, write, outgoing):
                    stream.close()
                _close(process)

    async def _started(self) -> asyncio.subprocess.Process:
        with contextlib.ExitStack() as stack:
            errors = self._errors
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
        watch(process.pid)
        return process

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        incoming: MemoryObjectSendStream[Message],
        outgoing: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        assert process.stdout is not None  # noqa: S101  # it was asked for
        try:
            async for line in _lines(process.stdout, self._limits):
                if (message := self._message(line)) is not None:
                    await incoming.send(message)
            self._patience = min(self._patience, SHORT)
            reason = await fate(process)
            for _ in range(STEPS):
                await asyncio.sleep(0)
            self._break(reason)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._break("the connection was closed")
            while await process.stdout.read(CHUNK):  # a server that is writing does not hear that it should end
                continue
        except _TooMuchError as error:
            self._patience = 0
            self._break(str(error))
        finally:
            incoming.close()
            outgoing.close()

    def _break(self, reason: str) -> None:
        if self._fault is None and not self._is_ending:
            self._fault = reason
            if self._lost is not None:
                self._lost(reason)

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if (identifier := _id_of(line)) is not None:
                fault = ErrorData(code=PARSE_ERROR, message="The server's answer is not a message that can be read.")
                return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=fault))
        else:
            self._patience = self._limits.close
            if isinstance(message, JSONRPCNotification) and (reason := self._flood.told()) is not None:
                raise _TooMuchError(reason)
            return SessionMessage(message)
        self._noise += 1
        if self._noise > self._limits.noise:
            raise _TooMuchError(f"the server wrote more than {self._limits.noise} lines that are no messages")
        return None

    async def _write(
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
            self._break(await fate(process))
        finally:
            incoming.close()
            outgoing.close()  # whoever sends now must hear of it


def _close(process: asyncio.subprocess.Process) -> None:
    """Close our ends of the pipes, which somebody may hold who left the server's process group."""
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  # asyncio has no public way; mcp does it too


class _TooMuchError(Exception):
    """The server sent more than it may."""


async def _lines(stream: asyncio.StreamReader, limits: Limits) -> AsyncIterator[bytes]:
    """Yield lines of a bounded size. Raises _TooMuchError for a larger one, before it is whole."""
    parts: list[bytes] = []
    size, values = 0, Values()
    while chunk := await stream.read(CHUNK):
        first, *others = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        if size > limits.message:
            raise _TooMuchError(f"the server sent a message of more than {limits.message} bytes")
        if values.add(first) > limits.values:
            raise _TooMuchError(f"the server sent a message of more than {limits.values} values")
        for other in others:
            yield b"".join(parts)
            parts, size, values = [other], len(other), Values()
            values.add(other)


_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*\}\s*$')


def _id_of(line: bytes) -> int | None:
    """Return the id of an answer that cannot be read: whoever waits for it must hear that."""
    found = _FIRST.match(line[:200]) or _LAST.search(line[-200:])
    return None if found is None else int(found[1])
