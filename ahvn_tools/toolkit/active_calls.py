"""Running: the calls of a toolkit that are under way, to be cancelled by their ids."""

from __future__ import annotations

from typing import Any

from ahvn_tools.execution.scope import CallScope

Owners = tuple[Any, ...]
"""Who has a call: its session, the sessions around it, and the toolkit."""


class ActiveCalls:
    """Calls by their fates. An id may stand for several: providers number the calls of each answer anew.

    There is no lock: each change is one step, and a dead call ends wherever the collector finds it.
    """

    def __init__(self) -> None:
        """Begin with no call."""
        self._calls: dict[CallScope, tuple[str, Owners]] = {}

    def track(self, id: str, owners: Owners, scope: CallScope) -> ActiveCall:  # noqa: A002  # the id of the call
        """Return what lets the call be cancelled by its id while it is open."""
        return ActiveCall(self._calls, scope, (id, owners))

    def cancel(self, id: str, owner: Any) -> bool:  # noqa: A002  # as above
        """Cancel the calls of this id that the owner has, and tell whether there are any."""
        found = [fate for fate, (own, owners) in self._calls.copy().items() if own == id and owner in owners]
        for fate in found:
            fate.cancel()
        return bool(found)


class ActiveCall:
    """One call that is under way while this is open."""

    __slots__ = ("_call", "_calls", "_scope")

    def __init__(self, calls: dict[CallScope, tuple[str, Owners]], scope: CallScope, call: tuple[str, Owners]) -> None:
        self._calls, self._scope, self._call = calls, scope, call

    def __enter__(self) -> None:
        self._calls[self._scope] = self._call

    def __exit__(self, *_: object) -> None:
        del self._calls[self._scope]
