"""Servers that misbehave, over HTTP: whatever they do ends within seconds, and credentials go to nobody else."""

from __future__ import annotations

import asyncio
import time

import pytest

from ahvn_tools.mcp.client.connection import Connection
from ahvn_tools.mcp.client.targets import resolve_targets
from tests.mcp.hostile.driver import LIMITS, LONGEST, LONGEST_STALL, came_of, is_clean
from tests.mcp.hostile.meter import measured
from tests.mcp.hostile.web import BEHAVIOURS, Web, redirects_elsewhere, serving

NO_CONNECTION = {
    "unauthorised": "HTTP 401",
    "forbidden": "HTTP 403",
    "broken": "HTTP 500",
    "redirect_loop": "Redirect",
    "redirects_elsewhere": "Redirect",
    "greets_in_another_tongue": "",
    "silent": "within",
    "html_page": "text/html",
    "slow_head": "within",
    "huge_header": "",
    "endless_headers": "",
}
"""There is never a connection, and what is said of it."""

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
"""What comes of a call of `bad`; the listing before it and the call of `echo` after it work."""

TOKEN = "token-of-the-first-server"


def connected(web: Web) -> Connection:
    """Return a connection to a server that is sent a token."""
    (target,) = resolve_targets(web.url, auth=TOKEN)
    return Connection(target, limits=LIMITS)


def test_every_behaviour_has_an_end_that_is_expected() -> None:
    assert {*NO_CONNECTION, *ANSWERS} == BEHAVIOURS.keys()


@pytest.mark.parametrize("name", NO_CONNECTION)
async def test_a_server_that_lets_nobody_in_is_a_connection_error(name: str) -> None:
    with serving(BEHAVIOURS[name]) as web:
        connection = connected(web)
        async with measured() as stalls:
            word, error = await came_of(connection.tools())
            await asyncio.wait_for(connection.aclose(), LONGEST)
    assert word == "connection"
    assert NO_CONNECTION[name] in str(error)
    assert is_clean(str(error))
    assert max(stall.worst for stall in stalls) < LONGEST_STALL


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_hostile_answer_ends_as_expected(name: str) -> None:
    """No loop stands still, the next call works, and nothing is read any more when the call is over."""
    expected = ANSWERS[name]
    with serving(BEHAVIOURS[name]) as web:
        connection = connected(web)
        async with measured() as stalls:
            told = [
                await came_of(connection.tools()),
                await came_of(connection.call("bad", {}, timeout=0.5 if expected == "timeout" else 4)),
                await came_of(connection.call("echo", {"text": "well"}, timeout=4)),
            ]
            await asyncio.wait_for(connection.aclose(), LONGEST)
        assert [word for word, _ in told] == ["echo bad", expected, "well"]
        assert all(error is None or is_clean(str(error)) for _, error in told)
        assert max(stall.worst for stall in stalls) < LONGEST_STALL
        await asyncio.to_thread(until_nobody_listens, web)


def until_nobody_listens(web: Web) -> None:
    """Wait until every connection of a server has ended."""
    until = time.monotonic() + LONGEST
    while web.open:
        assert time.monotonic() < until, "an answer that nobody waits for is still being read"
        time.sleep(0.02)


async def test_a_token_goes_to_the_server_that_it_is_for_and_to_no_other() -> None:
    with serving(Web.well) as other, serving(redirects_elsewhere, elsewhere=other.url) as first:
        connection = connected(first)
        word, _ = await came_of(connection.tools())
        await connection.aclose()
    assert word == "connection"
    assert first.seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert other.seen == []


async def test_a_place_to_log_in_that_the_server_names_is_not_asked() -> None:
    with serving(BEHAVIOURS["unauthorised"]) as web:
        connection = connected(web)
        await came_of(connection.tools())
        await connection.aclose()
    assert {request.method for request in web.seen} == {"POST"}
