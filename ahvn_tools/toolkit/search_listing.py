"""SearchListing: what is listed to a model that finds the other tools by search."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, quote_name

Rank = Callable[[str, Sequence[ToolDefinition]], Iterable[str] | Awaitable[Iterable[str]]]
"""Returns, for a query, the names of the tools that fit, best first; sync or async. It may leave tools out."""


def rank_names(rank: Rank, query: str, definitions: Sequence[ToolDefinition]) -> list[str]:
    """Return the names that the host's function returns. Raises ToolkitError for anything but names of these tools."""
    if inspect.iscoroutinefunction(rank) or inspect.iscoroutinefunction(getattr(rank, "__call__", None)):  # noqa: B004  # the method itself
        from ahvn_tools.execution import background_loop
        from ahvn_tools.execution.runner import capture_outcome

        names = background_loop.run(capture_outcome, rank, query, definitions).get()
    else:
        names = rank(query, definitions)
    known = {definition.name for definition in definitions}
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ToolkitError(f"`rank` returns the names of tools, best first, not a {type(names).__name__}.")
    ranked = list(names)
    for name in ranked:
        if not (isinstance(name, str) and name in known):
            raise ToolkitError(f"`rank` returned {quote_name(name)}, which is no name of a tool that it received.")
    return ranked


Describe = Callable[[Any, ToolDefinition], ToolDefinition]
"""Takes the view of one toolkit, session or selection, and returns the definition of a tool as that shows it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchListing:
    """The tools that are listed to a model which finds the others by search."""

    core: tuple[str, ...]
    """The names of tools that are listed nevertheless."""
    search_tool_names: tuple[str, ...]
    """The names of the tools that find and call the others."""
    rank: Rank | None = None
    """The host's own ranking; None: by words."""
    describe: Describe | None = None
    """Completes the definition of the last of these tools; None: it is complete."""


def refuse_second_listing(listing: SearchListing | None, names: Container[str]) -> None:
    """Raise ToolkitError if a toolkit with tools of these `names` has `add_search` or `add_code_mode` already."""
    if listing is not None and (left := [name for name in listing.search_tool_names if name in names]):
        raise ToolkitError(
            "A toolkit has one `add_search` or one `add_code_mode`. Remove the tools of the first before: "
            f"{', '.join(map(repr, left))}."
        )


def refuse_taken_names(wanted: Iterable[str], names: Container[str]) -> None:
    """Raise ToolkitError for a name of a tool for models that another tool of the toolkit has."""
    for name in wanted:
        if name in names:
            raise ToolkitError(f"There is a tool {name!r} already: give one of them another `name`.")
