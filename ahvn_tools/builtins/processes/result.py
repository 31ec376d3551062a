"""What a process wrote, the beginning and the end of it in memory and more in a file; and how it ended."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from ahvn_tools.builtins.processes.private_folder import private_folder


@dataclass(frozen=True, kw_only=True)
class ProcessOutput:
    """What a process wrote to one of its streams."""

    head: str
    """The beginning; all of it if it is short."""
    tail: str = ""
    """The end of a longer one."""
    size: int
    """Bytes in all."""
    omitted: int = 0
    """Bytes between head and tail."""
    spool: Path | None = None
    """The file with the first `spooled_bytes`, if more was written than is returned. Its reader deletes it; what is
    left is deleted when Python ends."""

    @property
    def text(self) -> str:
        """Head and tail, and between them how much is missing."""
        return _join(self.head, self.omitted, self.tail)


def _join(head: str, omitted: int, tail: str) -> str:
    return f"{head}\n[… {omitted:,} bytes left out …]\n{tail}" if omitted else head + tail


class Ends:
    """The beginning and the end of what was added, in at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._head_limit = limit // 2
        self.clear()

    def clear(self) -> None:
        """Start again with nothing."""
        self._head, self._tail, self.size = bytearray(), bytearray(), 0

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left out."""
        return self.size <= self.limit

    def add(self, data: bytes) -> None:
        """Append data, and drop what is too much from the middle."""
        self.size += len(data)
        fitting = max(self._head_limit - len(self._head), 0)
        self._head += data[:fitting]
        self._tail += data[fitting:]
        tail_limit = self.limit - self._head_limit
        if len(self._tail) > 2 * tail_limit + 65_536:  # not each time: it copies the tail
            del self._tail[: len(self._tail) - tail_limit]

    def parts(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end. The second is empty if nothing is left out."""
        if self.is_complete:
            return bytes(self._head + self._tail), b""
        tail = bytes(self._tail[len(self._tail) - (self.limit - self._head_limit) :])
        return _without_partial_end(bytes(self._head)), _without_partial_start(tail)


def _without_partial_end(data: bytes) -> bytes:
    """Return UTF-8 without the first bytes of a character that is cut off."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


def _without_partial_start(data: bytes) -> bytes:
    """Return UTF-8 without the last bytes of a character that is cut off."""
    rest = data[:3].lstrip(bytes(range(0x80, 0xC0)))
    return rest + data[3:]


class RecordedStream:
    """What a process wrote to one stream so far. Only one thread may use it at a time."""

    def __init__(self, name: str, *, kept_bytes: int, spooled_bytes: int, news_bytes: int) -> None:
        """`news_bytes` is the most that `take_news` returns."""
        self._all, self._news = Ends(kept_bytes), Ends(news_bytes)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._spool = SpoolFile(name, limit=spooled_bytes)

    def add(self, data: bytes) -> None:
        """Record what the process wrote."""
        if not self._spool.is_open and self._all.size + len(data) > self._all.limit:
            self._spool.open(b"".join(self._all.parts()))
        self._spool.write(data)
        self._all.add(data)
        self._news.add(data)

    @property
    def news_size(self) -> int:
        """How many bytes were written since the last `take_news`."""
        return self._news.size

    def take_news(self, *, is_last: bool = False) -> str:
        """Return the text since the last call. A character whose last bytes are not written yet comes later."""
        head, tail = self._news.parts()
        omitted = self._news.size - len(head) - len(tail)
        self._news.clear()
        text = self._decoder.decode(head, is_last or omitted > 0)
        return _join(text, omitted, self._decoder.decode(tail, is_last))

    def close(self) -> ProcessOutput:
        """Return what was written in all."""
        head, tail = self._all.parts()
        return ProcessOutput(
            head=head.decode(errors="replace"),
            tail=tail.decode(errors="replace"),
            size=self._all.size,
            omitted=self._all.size - len(head) - len(tail),
            spool=self._spool.close(),
        )


class SpoolFile:
    """The first bytes of a long output, in a file that only this user can read."""

    def __init__(self, name: str, *, limit: int) -> None:
        """Without a limit above 0, nothing is written."""
        self._name = name
        self._left = limit
        self._file: BinaryIO | None = None

    @property
    def is_open(self) -> bool:
        """Whether something is written."""
        return self._file is not None

    def open(self, data: bytes) -> None:
        """Make the file, with its first data."""
        if self._left > 0:
            self._file = private_folder.new_file(self._name)
            self.write(data)

    def write(self, data: bytes) -> None:
        """Append data, as far as the limit allows. A full disk ends the file, and not the process."""
        if self._file is not None and self._left > 0:
            try:
                self._file.write(data[: self._left])
                self._left -= len(data)
            except OSError:
                self._left = 0

    def close(self) -> Path | None:
        """Return the path of the file, if there is one."""
        if self._file is None:
            return None
        self._file.close()
        return Path(self._file.name)


EndReason = Literal["exit", "timeout", "cancelled", "stopped"]


@dataclass(frozen=True, kw_only=True)
class ProcessResult:
    """How a process ended, and what it wrote."""

    exit_code: int | None
    """None if it was killed because of its timeout, a cancellation or `stop`; negative: the signal that ended it. In a
    sandbox an exit code above 128 counts as a signal, as a shell reports it."""
    ended_by: EndReason
    """`stopped`: by `RunningProcess.stop`, or because the process killed its supervisor."""
    stdout: ProcessOutput
    stderr: ProcessOutput
    duration: float
    """Seconds."""
    has_left_processes: bool = False
    """Whether others that it had started were still running when it had ended by itself: they were ended with it."""
