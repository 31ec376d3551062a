"""What the calling process and a worker process send each other, and the frames in which they send it.

A frame is the id of its call, which is random, a length in eight bytes and that many bytes. The worker sends the frame
READY once. A request is one frame: a pickled ProcessEnvironment and CallRequest. The worker replies with the frame
ACCEPTED and then with `replies`. After a chunk it waits for NEXT_CHUNK, after a question for ANSWER with the pickled
exception that `ask` raises, or None. At the end of the call it sends REUSABLE or LEFTOVERS.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ahvn_tools.execution.isolation import slots

WORKER_PROGRAM = """
import json, sys
sys.path[:], keeps_children = json.loads(sys.argv[1])
from ahvn_tools.execution.isolation import worker
worker.main(keeps_children=keeps_children)
"""
"""The program of a worker process. It does not import the user's main module, so that needs no `__main__` guard."""

IDLE_EXIT_SECONDS = 1.0
"""How many seconds an idle worker has to exit when it is no longer needed."""

READY = b"ready"
ACCEPTED = b"accepted"
NEXT_CHUNK = b""
ANSWER = b"answer "
"""The beginning of a frame; no pickled request begins so."""
REUSABLE = b"reusable"
LEFTOVERS = b"leftovers"

NO_CALL = bytes(16)
"""The id in frames that belong to no call."""

_HEAD = struct.Struct(">16sQ")
_MAX_READ_BYTES = 1 << 24
_MAX_JOINED_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class ProcessEnvironment:
    """The directory, import path and environment variables of the calling process, which the body runs with."""

    directory: str | None
    sys_path: list[str]
    variables: Mapping[str, str] = field(repr=False)
    max_processes: int
    """How many isolated calls of the body run at once."""

    @classmethod
    def capture(cls) -> ProcessEnvironment:
        """Return the environment of this process."""
        directory = None
        with contextlib.suppress(OSError):  # it was deleted
            directory = os.getcwd()  # noqa: PTH109  # a string is pickled
        return cls(
            directory=directory,
            sys_path=get_sys_path(),
            variables=dict(os.environ),
            max_processes=slots.process_slots.max_processes,
        )

    def apply(self) -> None:
        """Make it the environment of this process."""
        sys.path[:] = self.sys_path
        slots.process_slots.max_processes = self.max_processes
        if self.variables != dict(os.environ):
            os.environ.clear()
            os.environ.update(self.variables)
        if self.directory is not None:
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                os.chdir(self.directory)


def get_sys_path() -> list[str]:
    """Return the folders that modules are imported from."""
    entries: list[Any] = sys.path  # some programs add Path objects
    return [entry for entry in entries if isinstance(entry, str)]


def get_import_options() -> list[str]:
    """Return the options with which an interpreter imports nothing from folders that this one does not trust.

    Bytecode of another text, which says that it is not to be compared with it, is not run either.
    """
    options = ["--check-hash-based-pycs", "always"]
    if sys.flags.isolated:
        return [*options, "-I"]
    return [*options, "-P", "-E"] if sys.flags.ignore_environment else [*options, "-P"]


class Frame(NamedTuple):
    """The id of a call and what is sent."""

    call_id: bytes
    content: bytes


class ForeignFrameError(Exception):
    """A frame belongs to another call, or is no frame."""


def make_call_id() -> bytes:
    """Return an id that a body of another call cannot guess."""
    return os.urandom(len(NO_CALL))


def read_frame(descriptor: int, call_id: bytes | None = None) -> Frame | None:
    """Read one frame. Return None at the end of the stream. Raises ForeignFrameError for one with another call id."""
    head = read_exactly(descriptor, _HEAD.size)
    if head is None:
        return None
    found_id, length = _HEAD.unpack(head)
    if call_id not in (None, found_id):
        raise ForeignFrameError
    content = read_exactly(descriptor, length)
    return None if content is None else Frame(found_id, content)


def write_frames(descriptor: int, call_id: bytes, *contents: bytes) -> None:
    """Write frames of a call. Raises OSError when the other process has closed its end."""
    parts = [part for content in contents for part in (_HEAD.pack(call_id, len(content)), content)]
    if sum(map(len, parts)) <= _MAX_JOINED_BYTES:
        parts = [b"".join(parts)]  # the reader wakes up once
    for part in parts:
        write_all(descriptor, part)


def write_all(descriptor: int, content: bytes) -> None:
    """Write to a pipe. Raises OSError when the other process has closed its end."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_exactly(descriptor: int, length: int) -> bytes | None:
    """Read from a pipe. Return None if it ends before."""
    content = bytearray()
    while len(content) < length:
        part = os.read(descriptor, min(length - len(content), _MAX_READ_BYTES))
        if not part:
            return None
        content += part
    return bytes(content)
