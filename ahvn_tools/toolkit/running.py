"""Running: the calls of a toolkit that are under way, to be cancelled by their ids."""

from __future__ import annotations

from typing import Any

from ahvn_tools.execution.fate import Fate

Owners = tuple[Any, ...]
"""Who has a call: its session, the sessions around it, and the toolkit."""


class Running:
    """Calls by their fates. An id may stand for several: providers number the calls of each answer anew.

    There is no lock: each change is one step, and a dead call ends wherever the collector finds it.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._calls: dict[Fate, tuple[str, Owners]] = {}

    def under(self, id: str, owners: Owners, fate: Fate) -> Open:  # noqa: A002  # the id of the call
        """Return what lets the call be cancelled by its id while it is open."""
        return Open(self._calls, fate, (id, owners))

    def cancel(self, id: str, owner: Any) -> bool:  # noqa: A002  # as above
        """Cancel the calls of this id that the owner has, and tell whether there are any."""
        found = [fate for fate, (own, owners) in self._calls.copy().items() if own == id and owner in owners]
        for fate in found:
            fate.cancel()
        return bool(found)


class Open:
    """One call that is under way while this is open."""

    __slots__ = ("_call", "_calls", "_fate")

    def __init__(self, calls: dict[Fate, tuple[str, Owners]], fate: Fate, call: tuple[str, Owners]) -> None:
        self._calls, self._fate, self._call = calls, fate, call

    def __enter__(self) -> None:
        self._calls[self._fate] = self._call

    def __exit__(self, *_: object) -> None:
        del self._calls[self._fate]
