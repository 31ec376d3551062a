"""Files that are written whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from ahvn_tools.regular_file import require_regular

_HAS_OWNERS: Final = hasattr(os, "fchown")  # not on Windows


def write_text(path: str | os.PathLike[str], text: str, *, new_mode: int | None = None) -> None:
    """Write a text as `write_bytes` does, in UTF-8."""
    write_bytes(path, text.encode(), new_mode=new_mode)


def write_bytes(path: str | os.PathLike[str], content: bytes, *, new_mode: int | None = None) -> None:
    """Write a file through a temporary one in its folder, which replaces it. Raises OSError.

    After an error the file is unchanged. Owner and permissions stay; `new_mode` are those of a file that did not exist,
    by default the usual ones. A link, a pipe and a device are errors.
    """
    target = Path(path).parent.resolve() / Path(path).name
    old = require_regular(target)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if old is not None:
                keep_owner_and_mode(file.fileno(), old)
            elif _HAS_OWNERS:
                os.fchmod(file.fileno(), _get_usual_mode() if new_mode is None else new_mode)
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner, the group and the permissions of another one, as far as the system permits it.

    Another group gets no more than everyone has. setuid and setgid are for the old content.
    """
    if not _HAS_OWNERS:
        return
    new, mode = os.fstat(descriptor), old.st_mode & 0o777
    if new.st_gid != old.st_gid:
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except PermissionError:
            mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)
    if new.st_uid != old.st_uid:
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, -1)


def _get_usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
