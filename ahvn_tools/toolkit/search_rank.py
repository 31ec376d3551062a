"""A host's own ranking of tools for a query, such as one by embeddings."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence

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
