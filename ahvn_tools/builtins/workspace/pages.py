"""Page: which of many results a call returns, and how to get the next ones."""

from __future__ import annotations

from typing import Final

from ahvn_tools.errors import ToolError

MAX_RESULTS: Final = 1_000
"""The most results that a model may ask for at once."""


class Page:
    """A part of a list of results."""

    def __init__(self, skip: int, size: int) -> None:
        """Raise ToolError for numbers that a model must not pass."""
        if skip < 0 or size < 1:
            raise ToolError("Pass a skip of at least 0, and a max_results of at least 1.")
        self.start = skip
        self.stop = skip + min(size, MAX_RESULTS)

    def text(self, lines: list[str], *, total: int, nothing: str, is_counted: bool = True) -> str:
        """Return the results of this page, and how to go on if there are more.

        `total` counts the results of all pages, or at least one of the next page if not all `is_counted`.
        """
        if not lines:
            return (
                nothing if not self.start else f"There are no more results: skip={self.start} leaves out all {total}."
            )
        end = self.start + len(lines)
        if end >= total:
            return "\n".join(lines)
        count = f" of {total:,}" if is_counted else ""
        return "\n".join([*lines, f"(These are the results {self.start + 1} to {end}{count}. Go on with skip={end}.)"])
