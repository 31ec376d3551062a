"""StoredOutputs: long outputs of commands on disk, until they are too many or too large."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.processes.process import Output, ProcessResult
from ahvn_tools.builtins.processes.terminal_text import overwritten_note, to_readable
from ahvn_tools.errors import ToolError

MAX_OUTPUTS: Final = 32
MAX_STORED_BYTES: Final = 500_000_000


@dataclass(frozen=True)
class _StoredOutput:
    session_id: str | None
    streams: Mapping[str, Output]

    @property
    def stored_bytes(self) -> int:
        return sum(_size_of(output.spool) for output in self.streams.values())

    def delete(self) -> None:
        for output in self.streams.values():
            if output.spool is not None:
                output.spool.unlink(missing_ok=True)


class StoredOutputs:
    """The outputs of which a result has only the beginning and the end. A new one may drop the oldest ones."""

    def __init__(self, *, max_outputs: int = MAX_OUTPUTS, max_bytes: int = MAX_STORED_BYTES) -> None:
        """`max_bytes`: of all outputs together, on disk."""
        self._max_outputs = max_outputs
        self._max_bytes = max_bytes
        self._outputs: OrderedDict[str, _StoredOutput] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, result: ProcessResult, session_id: str | None) -> str | None:
        """Return the id under which the session can read the output; None if the result has all of it."""
        stored = _StoredOutput(session_id, {"stdout": result.stdout, "stderr": result.stderr})
        if result.stdout.spool is None and result.stderr.spool is None:
            return None
        output_id = secrets.token_hex(8)
        with self._lock:
            self._outputs[output_id] = stored
            while len(self._outputs) > self._max_outputs or self._is_too_large():
                self._outputs.popitem(last=False)[1].delete()
        return output_id

    def read(
        self, output_id: str, session_id: str | None, *, stream: Literal["stdout", "stderr"], start: int, size: int
    ) -> str:
        """Return a page of at most `size` bytes that begins at the byte `start`, and how to read the next one."""
        with self._lock:  # also while reading: no other thread deletes the file meanwhile
            stored = self._outputs.get(output_id)
            if stored is None or stored.session_id != session_id:
                raise ToolError(f"There is no output {output_id!r}: old ones are deleted. Run the command again.")
            output = stored.streams[stream]
            if output.spool is None:
                return _page(output.text, stream, 0, output.size, output.size, output.size)
            available = _size_of(output.spool)
            if not available:
                raise ToolError(f"The output {output_id!r} was deleted. Run the command again.")
            if not 0 <= start < available:
                raise ToolError(f"`start` must be from 0 to {available - 1}: so much of the output was stored.")
            content = _read_whole_characters(output.spool, start, size, available)
        text = content.decode(errors="replace")
        return _page(text, stream, start, start + len(content), output.size, available)

    def close(self) -> None:
        """Delete all files."""
        with self._lock:
            while self._outputs:
                self._outputs.popitem()[1].delete()

    def _is_too_large(self) -> bool:
        return sum(stored.stored_bytes for stored in self._outputs.values()) > self._max_bytes


def delete_output(result: ProcessResult) -> None:
    """Delete what a process has left on disk."""
    _StoredOutput(None, {"stdout": result.stdout, "stderr": result.stderr}).delete()


def _page(text: str, stream: str, start: int, end: int, size: int, available: int) -> str:  # noqa: PLR0917
    if end < available:
        rest = f"Continue with start={end}."
    elif available < size:
        rest = f"Only the first {available:,} bytes were stored."
    else:
        rest = "This is the end."
    text, count = to_readable(text)
    note = overwritten_note(**{stream: count})
    return f"{text}\n[{stream}: bytes {start:,} to {end:,} of {size:,}. {f'{note} ' if note else ''}{rest}]"


def _read_whole_characters(path: Path, start: int, size: int, available: int) -> bytes:
    """Return at most `size` bytes, without the beginning of a character that ends after them."""
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(size)
    if start + len(content) >= available:
        return content
    for back in range(1, min(4, len(content))):
        byte = content[-back]
        if byte >= 0xC0:  # noqa: PLR2004  # the first byte of a character in UTF-8
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4  # noqa: PLR2004
            return content[:-back] if length > back else content
        if byte < 0x80:  # noqa: PLR2004  # a character of one byte
            return content
    return content


def _size_of(path: Path | None) -> int:
    return 0 if path is None or not path.exists() else path.stat().st_size
