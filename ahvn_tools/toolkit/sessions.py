"""Guest: the session of one request that came over a wire, and what is remembered of its client until the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.store import GroupSwitches
from ahvn_tools.toolkit.structured_output import StructuredOutput
from ahvn_tools.toolkit.visibility import SessionState

MAX_CLIENTS: Final = 10_000
"""So many clients are remembered; of more, those are forgotten that have not called for longest."""


class ClientState(GroupSwitches):
    """What is remembered of one client: the groups that were switched for it, and which list of tools it has."""

    __slots__ = ("listed_revision",)

    def __init__(self) -> None:
        """Begin with nothing switched, and nothing listed."""
        super().__init__()
        self.listed_revision: Any = None
        """The mark of the list that it was given last, or was told of; None before it has asked for one."""


class ClientStates:
    """Clients by their session ids."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._by_session_id: OrderedDict[str, ClientState] = OrderedDict()

    def get(self, session_id: str | None) -> ClientState:
        """Return what is remembered of a client; of one that cannot be told from others that is nothing."""
        if session_id is None:
            return ClientState()
        with self._lock:
            client = self._by_session_id.get(session_id)
            if client is None:
                client = self._by_session_id[session_id] = ClientState()
            self._by_session_id.move_to_end(session_id)
            if len(self._by_session_id) > MAX_CLIENTS:
                self._by_session_id.popitem(last=False)
            return client


class RequestSession(SessionState):
    """The session of one request: a state of its own, and its client's switches."""

    __slots__ = ("client_state", "is_anonymous")

    def __init__(self, state: MutableMapping[str, Any], session_id: str | None, client_state: ClientState) -> None:
        """Take the state that is made for the request, and its client."""
        self.client_state = client_state  # it begins with what was switched for its client, and not with nothing
        self.state = state
        self._session_id = session_id
        self.is_anonymous = session_id is None
        """Whether nothing tells its client from others."""

    @property
    def group_overrides(self) -> Mapping[int, bool]:
        """The groups that were switched for the client."""
        return self.client_state.group_overrides

    @group_overrides.setter
    def group_overrides(self, group_overrides: Mapping[int, bool]) -> None:
        self.client_state.group_overrides = group_overrides

    @property
    def structured_outputs(self) -> Mapping[Entry, StructuredOutput | None]:
        """The tools that take a model's fields for the client."""
        return self.client_state.structured_outputs

    @structured_outputs.setter
    def structured_outputs(self, structured_outputs: Mapping[Entry, StructuredOutput | None]) -> None:
        self.client_state.structured_outputs = structured_outputs
