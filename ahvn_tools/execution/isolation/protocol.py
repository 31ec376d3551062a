"""Frames: what a process and its workers tell each other.

A frame is a length in eight bytes and that many bytes. A call comes as one frame, an empty one asks for a stream's next
chunk. Out go pickled tuples: `ready` once, then for each call `taken`, `begun` when the body is, any number of `chunk`,
`output` and `progress`, and one of `value`, `error`, `unread`, `unsent`.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahvn_tools.errors import ToolError

WORKER_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ahvn_tools.execution.isolation import worker; worker.main()"
)  # fmt: skip
"""The program of a worker process. The user's own main module is not imported, so it needs no guard."""

IDLE_EXIT_SECONDS = 1.0
"""How many seconds an idle worker has to end by itself when nobody needs it any more."""

NEXT_CHUNK = b""
"""The frame that asks for a stream's next chunk."""

FALLBACK_EXCEPTION_TYPES: tuple[type[BaseException], ...] = (
    ToolError,
    Exception,
    SystemExit,
    KeyboardInterrupt,
    BaseException,
)
"""What an exception that cannot be pickled is to its readers: the first of these that it is an instance of."""

_LENGTH_PREFIX = struct.Struct(">Q")
_MAX_READ_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True)
class ProcessEnvironment:
    """What a body finds around it: as it is where the call comes from, whatever the worker has run before."""

    directory: str | None
    sys_path: list[str]
    environment: Mapping[str, str]

    @classmethod
    def capture(cls) -> ProcessEnvironment:
        """Return those of this process."""
        try:
            directory = os.getcwd()  # noqa: PTH109  # a text goes over
        except OSError:  # it was deleted
            directory = None
        return cls(directory=directory, sys_path=get_sys_path(), environment=dict(os.environ))

    def apply(self) -> None:
        """Take them over."""
        sys.path[:] = self.sys_path
        if self.environment != dict(os.environ):
            os.environ.clear()
            os.environ.update(self.environment)
        if self.directory is not None:
            with contextlib.suppress(OSError):  # it was deleted since
                os.chdir(self.directory)


@dataclass(frozen=True, kw_only=True)
class CallRequest:
    """One call as it goes over."""

    body: Any
    positional: list[Any]
    named: dict[str, Any]
    is_async: bool
    has_reader: bool
    """Whether somebody reads the chunks."""


@dataclass(frozen=True, kw_only=True)
class ContextSnapshot:
    """Stands for the ToolContext that the body asks for; its state does not go over."""

    call_id: str | None
    tool: str | None
    run_id: str | None
    session_id: str | None
    roots: tuple[Path, ...]
    is_approved: bool


def get_sys_path() -> list[str]:
    """Return where modules are looked for."""
    entries: list[Any] = sys.path  # some put paths there that are no texts
    return [entry for entry in entries if isinstance(entry, str)]


def read_frame(descriptor: int) -> bytes | None:
    """Read one frame; None where there is no more."""
    head = _read_exactly(descriptor, _LENGTH_PREFIX.size)
    return None if head is None else _read_exactly(descriptor, _LENGTH_PREFIX.unpack(head)[0])


def write_frame(descriptor: int, frame: bytes) -> None:
    """Write one frame. Raises OSError when nobody reads any more."""
    for part in (_LENGTH_PREFIX.pack(len(frame)), frame):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _read_exactly(descriptor: int, length: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        part = os.read(descriptor, min(length - len(parts), _MAX_READ_BYTES))
        if not part:
            return None
        parts += part
    return bytes(parts)
