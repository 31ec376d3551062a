"""The options of a toolkit for approvals: where decisions are remembered, and for how long a request is valid."""

from __future__ import annotations

from os import PathLike
from typing import Any, Final

from ahvn_tools.errors import ToolkitError
from ahvn_tools.settings import is_duration
from ahvn_tools.toolkit.approval_store import ApprovalStore, MemoryApprovalStore

DEFAULT_EXPIRY: Final = 7 * 24 * 3600.0
"""For how many seconds a request can be approved."""


def to_approval_store(store: Any) -> ApprovalStore:
    """Return the store of an option: in memory for None, in a file for a path. Raises ToolkitError."""
    if store is None:
        return MemoryApprovalStore()
    if isinstance(store, str | PathLike):
        from ahvn_tools.toolkit.sqlite_approval_store import SQLiteApprovalStore  # few toolkits need SQLite

        return SQLiteApprovalStore(store)
    if isinstance(store, ApprovalStore):
        return store
    raise ToolkitError(
        "An approval_store is the path of a SQLite file, or an object with the methods `decide`, `forgotten_until` "
        f"and `count_attempt`, not a {type(store).__name__}."
    )


def validate_expiry(seconds: Any) -> float | None:
    """Return for how long requests can be approved. Raises ToolkitError unless it is a positive number, or None."""
    if seconds is not None and not (is_duration(seconds) and seconds > 0):
        raise ToolkitError(f"approval_expiry is a number of seconds above 0, or None for never, not {seconds!r}.")
    return None if seconds is None else float(seconds)
