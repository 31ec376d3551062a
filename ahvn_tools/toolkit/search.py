"""Search: the tools that fit a query, and what a model is listed where it finds the others by search."""

from __future__ import annotations

from collections.abc import Iterator

from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.view import View

_SPARE = 50


def search(view: View, query: str, k: int) -> list[Entry]:
    """Return at most `k` of the tools that are shown, best first; one of just that name comes before all others.

    Raises ToolkitError.
    """
    if not isinstance(query, str):
        raise ToolkitError(f"A query is a text, not a {type(query).__name__}.")
    if k < 1:
        raise ToolkitError(f"k is how many tools are wanted, at least 1, not {k!r}.")
    catalog, entries = view.catalog, dict(view.catalog.entries)
    mark = catalog.rebound, list(entries.values()), [entry.spec.sealed for entry in entries.values()]
    found: list[Entry] = []
    for limit in (k + _SPARE, -1):  # few are asked for first: most views show most of the tools
        names = catalog.index.ranked(query, limit, mark, lambda: map(view.sealed, entries.values()))
        whole = dict.fromkeys([query.strip(), *names])
        found = [entries[name] for name in whole if name in entries and view.shows(entries[name])]
        if len(found) >= k or len(names) < limit:
            break
    return found[:k]


def listed(view: View) -> Iterator[Entry]:
    """Yield the tools that a model is listed: all that are shown or, where it can search, the core and the pair."""
    offer = view.catalog.offer
    entries = view.catalog.entries
    if offer is None or not all(name in entries and view.shows(entries[name]) for name in offer.pair):
        return view.entries()
    kept = [entries[name] for name in dict.fromkeys((*offer.core, *offer.pair)) if name in entries]
    return (entry for entry in kept if view.shows(entry))
