"""What is remembered of the clients of a server, and that it is bounded."""

from __future__ import annotations

import pytest

from ahvn_tools.toolkit import sessions
from ahvn_tools.toolkit.sessions import ClientState, ClientStates, RequestSession


def test_clients_that_have_not_called_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_CLIENTS", 2)
    clients = ClientStates()
    first, second = clients.get("a"), clients.get("b")
    assert clients.get("a") is first
    clients.get("c")
    assert clients.get("a") is first
    assert clients.get("b") is not second


def test_of_a_client_that_nothing_tells_from_others_nothing_is_remembered():
    clients = ClientStates()
    assert clients.get(None) is not clients.get(None)


def test_what_a_request_switches_is_its_clients_and_its_state_is_its_own():
    client = ClientState()
    one, two = RequestSession({}, "a", client), RequestSession({}, "a", client)
    one.group_overrides = {1: True}
    one.state["x"] = 1
    assert (two.group_overrides, two.state) == ({1: True}, {})
    assert (one.is_anonymous, RequestSession({}, None, ClientState()).is_anonymous) == (False, True)
