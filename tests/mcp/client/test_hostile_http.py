"""Hostile servers over HTTP: each request ends within seconds, and credentials are sent to no other server."""

from __future__ import annotations

import asyncio
import time

import pytest

from ahvn_tools.mcp.client import fastmcp_clients  # noqa: F401  # its import takes a second of the time to connect
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import resolve_targets
from ahvn_tools.mcp.trust.limits import Limits
from tests.mcp.hostile.driver import (
    LIMITS,
    LONGEST,
    LONGEST_STALL,
    SHORT_LIMITS,
    get_outcome,
    is_clean,
    select_by_default,
)
from tests.mcp.hostile.meter import measured
from tests.mcp.hostile.web import BEHAVIOURS, Web, redirects_elsewhere, serving

pytestmark = pytest.mark.no_cover  # it measures how long a server blocks a loop

TIME_IS_UP = "there was no connection within 1 s"

NO_CONNECTION = {
    "unauthorised": "HTTP 401",
    "forbidden": "HTTP 403",
    "broken": "HTTP 500",
    "redirect_loop": "Redirect",
    "redirects_elsewhere": "Redirect",
    "greets_in_another_tongue": "",
    "silent": TIME_IS_UP,
    "html_page": "text/html",
    "slow_head": TIME_IS_UP,
    "huge_header": "",
    "endless_headers": "",
}
"""There is never a connection; a part of the error message."""

ANSWERS = {
    "odd_session_id": "well",
    "call_unauthorised": "connection",
    "call_broken": "connection",
    "limited": "connection",
    "forgetful": "well",
    "never_remembers": "connection",
    "accepted": "invalid_result",
    "slow_body": "timeout",
    "short_body": "connection",
    "endless_body": "connection",
    "bad_chunks": "connection",
    "zip_bomb": "connection",
    "countless_values": "connection",
    "countless_events": "at last",
    "events_for_ever": "timeout",
    "no_events": "timeout",
    "notices_for_ever": "connection",
    "endless_event": "connection",
    "events_end_early": "connection",
    "garbage_events": "invalid_result",
    "resets": "connection",
}
"""Results of a call of `bad`; the listing before it and the call of `echo` after it work."""

TOKEN = "token-of-the-first-server"


def make_connection(web: Web, limits: Limits = LIMITS) -> ConnectionPool:
    """Return a connection that sends a token."""
    (target,) = resolve_targets(web.url, auth=TOKEN)
    return ConnectionPool(target, ClientSettings(limits=limits))


def test_every_behaviour_has_an_expected_outcome() -> None:
    assert {*NO_CONNECTION, *ANSWERS} == BEHAVIOURS.keys()


@pytest.mark.parametrize(
    "name", select_by_default(NO_CONNECTION, {"unauthorised", "silent", "html_page", "endless_headers"})
)
async def test_server_that_refuses_connections_is_a_connection_error(name: str) -> None:
    reason = NO_CONNECTION[name]
    with serving(BEHAVIOURS[name]) as web:
        connection = make_connection(web, SHORT_LIMITS if reason in {TIME_IS_UP, ""} else LIMITS)
        async with measured() as stalls:
            word, error = await get_outcome(connection.tools())
            await asyncio.wait_for(connection.aclose(), LONGEST)
    assert word == "connection"
    assert reason in str(error)
    assert is_clean(str(error))
    assert max(stall.worst for stall in stalls) < LONGEST_STALL


@pytest.mark.parametrize(
    "name",
    select_by_default(
        ANSWERS, {"call_unauthorised", "forgetful", "accepted", "slow_body", "zip_bomb", "endless_event", "resets"}
    ),
)
@pytest.mark.default_cases(4)
async def test_hostile_answer_has_the_expected_outcome(name: str) -> None:
    """No loop is blocked, the next call works, and no answer is read after the end of its call."""
    expected = ANSWERS[name]
    with serving(BEHAVIOURS[name]) as web:
        connection = make_connection(web)
        async with measured() as stalls:
            outcomes = [
                await get_outcome(connection.tools()),
                await get_outcome(connection.call("bad", {}, timeout=0.5 if expected == "timeout" else LONGEST)),
                await get_outcome(connection.call("echo", {"text": "well"}, timeout=LONGEST)),
            ]
            await asyncio.wait_for(connection.aclose(), LONGEST)
        assert [word for word, _ in outcomes] == ["echo bad", expected, "well"]
        assert all(error is None or is_clean(str(error)) for _, error in outcomes)
        assert max(stall.worst for stall in stalls) < LONGEST_STALL
        await asyncio.to_thread(wait_for_closed_connections, web)


def wait_for_closed_connections(web: Web) -> None:
    """Wait until every connection of a server has ended."""
    deadline = time.monotonic() + LONGEST
    while web.open:
        assert time.monotonic() < deadline, "an abandoned answer is still being read"
        time.sleep(0.02)


async def test_token_is_sent_only_to_its_server() -> None:
    with serving(Web.well) as other, serving(redirects_elsewhere, elsewhere=other.url) as first:
        connection = make_connection(first)
        word, _ = await get_outcome(connection.tools())
        await connection.aclose()
    assert word == "connection"
    assert first.seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert other.seen == []


async def test_login_url_named_by_the_server_is_not_requested() -> None:
    with serving(BEHAVIOURS["unauthorised"]) as web:
        connection = make_connection(web)
        await get_outcome(connection.tools())
        await connection.aclose()
    assert {request.method for request in web.seen} == {"POST"}
