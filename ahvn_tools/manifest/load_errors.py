"""The parts of sources that were skipped: `Toolkit.load_errors`."""

from __future__ import annotations

from collections.abc import Iterable

from ahvn_tools.errors import SourceError
from ahvn_tools.toolkit import Toolkit


def add_load_errors(kit: Toolkit, errors: Iterable[SourceError]) -> None:
    """Add errors to those of a toolkit."""
    store = kit._view.store  # noqa: SLF001  # of another package of this project
    store.load_errors = (*store.load_errors, *errors)
