"""What is remembered of the clients of a server, and that it is bounded."""

from __future__ import annotations

import pytest

from ahvn_tools.toolkit import guest
from ahvn_tools.toolkit.guest import Client, Clients, Guest


def test_clients_that_have_not_called_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guest, "MOST_CLIENTS", 2)
    clients = Clients()
    first, second = clients.of("a"), clients.of("b")
    assert clients.of("a") is first
    clients.of("c")
    assert clients.of("a") is first
    assert clients.of("b") is not second


def test_of_a_client_that_nothing_tells_from_others_nothing_is_remembered():
    clients = Clients()
    assert clients.of(None) is not clients.of(None)


def test_what_a_request_switches_is_its_clients_and_its_state_is_its_own():
    client = Client()
    one, two = Guest({}, "a", client), Guest({}, "a", client)
    one.switched = {1: True}
    one.state["x"] = 1
    assert (two.switched, two.state) == ({1: True}, {})
    assert (one.is_unknown, Guest({}, None, Client()).is_unknown) == (False, True)
