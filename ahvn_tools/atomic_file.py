"""Files that are written whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from ahvn_tools.regular_file import require_regular


def write_text(path: str | os.PathLike[str], text: str, *, new_mode: int | None = None) -> None:
    """Write a text as `write_bytes` does, in UTF-8."""
    write_bytes(path, text.encode(), new_mode=new_mode)


def write_bytes(path: str | os.PathLike[str], content: bytes, *, new_mode: int | None = None) -> None:
    """Write a file through a temporary one in its folder, which replaces it. Raises OSError.

    After an error the file is unchanged. The permissions stay; `new_mode` are those of a file that did not exist, by
    default the usual ones. A link, a pipe and a device are errors.
    """
    target = Path(path).parent.resolve() / Path(path).name
    require_regular(target)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if hasattr(os, "fchmod"):  # by its path, something else may have its name by now
                os.fchmod(file.fileno(), _get_mode(target, new_mode))
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _get_mode(target: Path, new_mode: int | None) -> int:
    """Return the permissions of the file that is replaced, or those of a new file."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    if new_mode is not None:
        return new_mode
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
