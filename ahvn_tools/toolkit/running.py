"""Running: the calls of a toolkit that are under way, to be cancelled by their ids."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from ahvn_tools.execution.fate import Fate

Owners = tuple[Any, ...]
"""Who has a call: its session, the sessions around it, and the toolkit."""


class Running:
    """Calls by id. An id may stand for several: providers number the calls of each answer anew."""

    def __init__(self) -> None:
        """Begin with no call."""
        self._lock = threading.Lock()
        self._calls: dict[str, list[tuple[Owners, Fate]]] = {}

    @contextlib.contextmanager
    def under(self, id: str, owners: Owners, fate: Fate) -> Generator[None]:  # noqa: A002  # the id of the call
        """Let the call be cancelled by its id while this is open."""
        call = owners, fate
        with self._lock:
            self._calls.setdefault(id, []).append(call)
        try:
            yield
        finally:
            with self._lock:
                calls = self._calls[id]
                calls[:] = [other for other in calls if other is not call]
                if not calls:
                    del self._calls[id]

    def cancel(self, id: str, owner: Any) -> bool:  # noqa: A002  # as above
        """Cancel the calls of this id that the owner has, and tell whether there are any."""
        with self._lock:
            found = [fate for owners, fate in self._calls.get(id, ()) if owner in owners]
        for fate in found:
            fate.cancel()
        return bool(found)
