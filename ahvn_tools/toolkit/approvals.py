"""UsedApprovals: the approval requests whose calls a toolkit has resumed; each is resumed once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from ahvn_tools.errors import ToolkitError

MAX_REMEMBERED: Final = 100_000
"""How many requests are remembered; the oldest are forgotten first."""


class UsedApprovals:
    """The ids of the requests that were approved and resumed in this process."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()

    def use(self, request_ids: Sequence[str]) -> None:
        """Use all of these requests or none. Raises ToolkitError for one that is used twice."""
        with self._lock:
            if len(set(request_ids)) < len(request_ids) or not self._ids.keys().isdisjoint(request_ids):
                raise ToolkitError("This approval was used before, and its call has run. Ask for the call again.")
            self._ids.update(dict.fromkeys(request_ids))
            while len(self._ids) > MAX_REMEMBERED:
                del self._ids[next(iter(self._ids))]
