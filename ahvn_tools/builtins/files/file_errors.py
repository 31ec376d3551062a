"""Errors of the system as errors for models, which name a path only as the model wrote it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ahvn_tools.errors import ToolError

REPLACED_ROOT: Final = (
    "A folder that this tool may use was deleted or replaced since the tool was started, so nothing in it can be used. "
    "Tell the user."
)

_REASONS: Final = {
    errno.ENOENT: "does not exist. Check the path, or list the folder.",
    errno.EEXIST: "exists already.",
    errno.ENOTDIR: "is no folder, or has a part that is no folder.",
    errno.EISDIR: "is a folder.",
    errno.EACCES: "cannot be used: the system denies the permission.",
    errno.EPERM: "cannot be used: the system denies the permission.",
    errno.ENAMETOOLONG: "is too long for a path, or has a part that is too long for a name.",
    errno.ENOTEMPTY: "is a folder that is not empty. Delete its files first.",
    errno.ENOSPC: "cannot be written: the disk is full.",
    errno.EDQUOT: "cannot be written: the disk quota is used up.",
    errno.EFBIG: "is too large: the system limits the size of files.",
    errno.EROFS: "cannot be changed: the file system is read-only.",
    errno.ELOOP: "was exchanged by another program while it was opened, or is a loop of links. Try again.",
    errno.EXDEV: "cannot be moved to another file system. Create it there, then delete it here.",
    errno.EBUSY: "is in use by the system.",
    errno.EMFILE: "cannot be opened: too many files are open. Try again.",
    errno.ENFILE: "cannot be opened: too many files are open. Try again.",
}


def to_tool_error(path: str, error: OSError) -> ToolError:
    """Return an error of the system as text for a model."""
    reason = _REASONS.get(error.errno or 0)
    return ToolError(f"{path!r} {reason}" if reason else f"{path!r} cannot be used: {error.strerror}.")


@contextmanager
def tool_errors(path: str) -> Iterator[None]:
    """Raise errors of the system in this block as ToolError."""
    try:
        yield
    except OSError as error:
        raise to_tool_error(path, error) from None
