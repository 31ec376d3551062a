"""The text files of a folder: which ones can be read, and why the others cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 2_000_000
"""A larger file is taken for data, not for text."""


class SkippedFileError(Exception):
    """A file is not indexed; the text says why."""


def find_files(source: Path) -> Iterator[Path]:
    """Yield the files of a folder in order of name, or the source itself if it is a file.

    Hidden files and folders are left out. A link is yielded, so that it can be reported, but never followed.
    """
    if source.is_file():
        yield source
    for folder, folders, files in os.walk(source):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files + links) if not name.startswith("."))


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; raise SkippedFileError for anything else."""
    if path.is_symlink():
        raise SkippedFileError("a link, and links are not followed")
    if not path.is_file():  # opening a named pipe would block
        raise SkippedFileError("not a regular file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SkippedFileError(f"cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise SkippedFileError(f"larger than {MAX_BYTES:,} bytes")
    return decode(data)


def decode(data: bytes) -> str:
    """Return bytes as text; raise SkippedFileError when they are not UTF-8 text."""
    if b"\0" in data:
        raise SkippedFileError("binary data, not text")
    try:
        text = data.decode("utf-8-sig")  # a byte order mark is not part of the text
    except UnicodeDecodeError as error:
        raise SkippedFileError("not UTF-8 text") from error
    if not text.strip():
        raise SkippedFileError("empty")
    return text


def name_of(path: Path, root: Path) -> str:
    """Return the path below the root as one printable line, whatever bytes the file system holds."""
    name = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
