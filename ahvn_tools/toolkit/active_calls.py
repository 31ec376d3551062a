"""ActiveCalls: the running calls of a toolkit, to be cancelled by their ids."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from ahvn_tools.execution.scope import CallScope

Owners = tuple[Any, ...]
"""The session of a call, the sessions around that session, and the toolkit."""


class ActiveCalls:
    """The scopes of running calls. Several may have one id: providers number the calls of each response again.

    There is no lock: each change is one atomic step.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self._calls: dict[CallScope, tuple[str, Owners]] = {}

    @contextlib.contextmanager
    def track(self, id: str, owners: Owners, scope: CallScope) -> Generator[None]:  # noqa: A002  # the id of the call
        """Let `cancel` reach the call inside this block."""
        self._calls[scope] = (id, owners)
        try:
            yield
        finally:
            del self._calls[scope]

    def cancel(self, id: str, owner: Any) -> bool:  # noqa: A002  # the id of the calls
        """Cancel the calls of an owner with this id. Return whether there are any."""
        calls = self._calls.copy().items()
        scopes = [scope for scope, (call_id, owners) in calls if call_id == id and owner in owners]
        for scope in scopes:
            scope.cancel()
        return bool(scopes)
