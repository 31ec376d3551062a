"""Guest: the session of one request that came over a wire, and what is remembered of its client until the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from ahvn_tools.toolkit.catalog import Switches
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.finish import Finish
from ahvn_tools.toolkit.view import Holder

MOST_CLIENTS: Final = 10_000
"""So many clients are remembered; of more, those are forgotten that have not called for longest."""


class Client(Switches):
    """What is remembered of one client: the groups that were switched for it, and which list of tools it has."""

    __slots__ = ("listed",)

    def __init__(self) -> None:
        """Begin with nothing switched, and nothing listed."""
        super().__init__()
        self.listed: Any = None
        """The mark of the list that it was given last, or was told of; None before it has asked for one."""


class Clients:
    """Clients by their session ids."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Client] = OrderedDict()

    def of(self, session_id: str | None) -> Client:
        """Return what is remembered of a client; of one that cannot be told from others that is nothing."""
        if session_id is None:
            return Client()
        with self._lock:
            client = self._known.get(session_id)
            if client is None:
                client = self._known[session_id] = Client()
            self._known.move_to_end(session_id)
            if len(self._known) > MOST_CLIENTS:
                self._known.popitem(last=False)
            return client


class Guest(Holder):
    """The session of one request: a state of its own, and its client's switches."""

    __slots__ = ("client", "is_unknown")

    def __init__(self, state: MutableMapping[str, Any], session_id: str | None, client: Client) -> None:
        """Take the state that is made for the request, and its client."""
        self.client = client  # it begins with what was switched for its client, and not with nothing
        self.state = state
        self._session_id = session_id
        self.is_unknown = session_id is None
        """Whether nothing tells its client from others."""

    @property
    def switched(self) -> Mapping[int, bool]:
        """The groups that were switched for the client."""
        return self.client.switched

    @switched.setter
    def switched(self, switched: Mapping[int, bool]) -> None:
        self.client.switched = switched

    @property
    def finishes(self) -> Mapping[Entry, Finish | None]:
        """The tools that take a model's fields for the client."""
        return self.client.finishes

    @finishes.setter
    def finishes(self, finishes: Mapping[Entry, Finish | None]) -> None:
        self.client.finishes = finishes
