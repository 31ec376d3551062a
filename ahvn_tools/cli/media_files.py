"""The images, audio and files of a result, as new files in one folder.

Neither a tool nor a server chooses the name of a file: it is `result-`, the tool's name, a number, and the extension of
a known media type. So no file is one that a program looks for, such as `package.json` or pytest's `test_….txt`.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from pathlib import Path
from typing import Any, Final

from ahvn_tools.cli.errors import CommandError
from ahvn_tools.cli.output_file import OutputFile

EXTENSIONS: Final = {
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/mp3": ".mp3",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/webm": ".weba",
    "audio/x-wav": ".wav",
    "image/avif": ".avif",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
}
"""Media types that no program runs. A file of any other type ends with `.bin`."""

_MAX_NAME_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def has_file(block: Any) -> bool:
    """Return whether a content block of MCP contains a file."""
    return _encoded(block) is not None


def write_file(block: Any, folder: Path, tool: str) -> Path:
    """Write the file of a content block under a new name, and return its path. Raises CommandError."""
    try:
        data = base64.b64decode(_encoded(block) or "", validate=True)
    except binascii.Error:
        raise CommandError(f"The tool returned a {block.type} that is no base64 text: it was not written.") from None
    media_type = getattr(block, "mime_type", None) or getattr(getattr(block, "resource", None), "mime_type", None)
    extension = EXTENSIONS.get((media_type or "").partition(";")[0].strip().lower(), ".bin")
    stem = f"result-{_UNSAFE.sub('_', tool)[:_MAX_NAME_CHARS]}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}{extension}" for number in itertools.count(1))
    with OutputFile.open(folder / f"{stem}{extension}") as file:
        return folder / file.write_beside(data, names).name


def _encoded(block: Any) -> str | None:
    """Return the base64 text of an image, of audio or of an embedded file."""
    if block.type in {"image", "audio"}:
        return str(block.data)
    return getattr(block.resource, "blob", None) if block.type == "resource" else None
