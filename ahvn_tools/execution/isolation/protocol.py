"""What the calling process and a worker process send each other, and the frames in which they send it.

A frame is a length in eight bytes and that many bytes. The worker sends the frame READY once. A request is one frame:
a pickled ProcessEnvironment and CallRequest. The worker replies with the frame ACCEPTED and then with pickled tuples
that start with their kind: `started` when the body starts, any number of `chunk`, `output` and `progress`, and one of
`value`, `error`, `load_failed` and `unpicklable`, which ends the call. After a chunk the worker waits for NEXT_CHUNK.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.context import ToolContext

WORKER_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ahvn_tools.execution.isolation import worker
worker.main()
"""
"""The program of a worker process. It does not import the user's main module, so that needs no `__main__` guard."""

IDLE_EXIT_SECONDS = 1.0
"""How many seconds an idle worker has to exit when it is no longer needed."""

READY = b"ready"
ACCEPTED = b"accepted"
NEXT_CHUNK = b""

_LENGTH_PREFIX = struct.Struct(">Q")
_MAX_READ_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True)
class ProcessEnvironment:
    """The directory, import path and environment variables of the calling process, which the body runs with."""

    directory: str | None
    sys_path: list[str]
    variables: Mapping[str, str]

    @classmethod
    def capture(cls) -> ProcessEnvironment:
        """Return the environment of this process."""
        directory = None
        with contextlib.suppress(OSError):  # it was deleted
            directory = os.getcwd()  # noqa: PTH109  # a string is pickled
        return cls(directory=directory, sys_path=get_sys_path(), variables=dict(os.environ))

    def apply(self) -> None:
        """Make it the environment of this process."""
        sys.path[:] = self.sys_path
        if self.variables != dict(os.environ):
            os.environ.clear()
            os.environ.update(self.variables)
        if self.directory is not None:
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                os.chdir(self.directory)


@dataclass(frozen=True)
class ContextSnapshot:
    """Takes the place of a ToolContext in a request. The context's state is not sent."""

    fields: Mapping[str, Any]

    @classmethod
    def capture(cls, context: ToolContext) -> ContextSnapshot:
        """Return a snapshot of a context."""
        names = ("call_id", "tool", "run_id", "session_id", "roots", "is_approved")
        return cls({name: getattr(context, name) for name in names})

    def restore(self, send: Callable[..., None]) -> ToolContext:
        """Return a context that sends output and progress to the calling process."""
        return ToolContext(
            **self.fields,
            emit=lambda chunk: send("output", chunk.value),
            report=lambda *progress: send("progress", *progress),
        )


@dataclass(frozen=True, kw_only=True)
class CallRequest:
    """One call, as it is sent to a worker."""

    body: Any
    """The function, or its ImportPath."""
    positional: list[Any]
    named: dict[str, Any]
    is_async: bool
    has_reader: bool
    """Whether a caller reads the chunks."""


def get_sys_path() -> list[str]:
    """Return the folders that modules are imported from."""
    entries: list[Any] = sys.path  # some programs add Path objects
    return [entry for entry in entries if isinstance(entry, str)]


def read_frame(descriptor: int) -> bytes | None:
    """Read one frame. Return None at the end of the stream."""
    head = _read_exactly(descriptor, _LENGTH_PREFIX.size)
    return None if head is None else _read_exactly(descriptor, _LENGTH_PREFIX.unpack(head)[0])


def write_frame(descriptor: int, frame: bytes) -> None:
    """Write one frame. Raises OSError when the other process has closed its end."""
    for part in (_LENGTH_PREFIX.pack(len(frame)), frame):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _read_exactly(descriptor: int, length: int) -> bytes | None:
    content = bytearray()
    while len(content) < length:
        part = os.read(descriptor, min(length - len(content), _MAX_READ_BYTES))
        if not part:
            return None
        content += part
    return bytes(content)
