"""SearchListing: what is listed to a model that finds the other tools by search."""

from __future__ import annotations

from dataclasses import dataclass

from ahvn_tools.toolkit.search_rank import Rank


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchListing:
    """The tools that are listed to a model which finds the others by search."""

    core: tuple[str, ...]
    """The names of tools that are listed nevertheless."""
    search_tool_names: tuple[str, ...]
    """The names of the tools that find and call the others."""
    rank: Rank | None = None
    """The host's own ranking; None: by words."""
