"""A file in memory: data that a program reads as its standard input."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def as_file(data: bytes | IO[bytes]) -> Iterator[int | IO[bytes]]:
    """Give data as a file, so that the caller need not wait until the program reads it. A file stays as it is."""
    if not isinstance(data, bytes):
        yield data
        return
    if not data:
        yield subprocess.DEVNULL
        return
    with _open_in_memory() as file:
        file.write(data)
        file.seek(0)
        yield file


def _open_in_memory() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stdin"), "w+b")
    return tempfile.TemporaryFile()
