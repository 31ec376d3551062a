"""Hostile servers over stdio: each request ends within seconds, blocks no event loop and leaves no process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client import fastmcp_clients  # noqa: F401  # its import takes a second of the time to connect
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import resolve_targets
from tests.mcp.hostile import stdio
from tests.mcp.hostile.behaviours import BEHAVIOURS
from tests.mcp.hostile.driver import (
    LIMITS,
    LONGEST,
    LONGEST_STALL,
    SHORT_LIMITS,
    command,
    get_outcome,
    is_clean,
    select_by_default,
)
from tests.mcp.hostile.meter import count_resources, find_processes, measured
from tests.mcp.serving import ENVIRONMENT

pytestmark = pytest.mark.no_cover  # it measures how long a server blocks a loop

LISTED = "echo bad"

NO_CONNECTION = [
    "hang_at_start", "deaf_at_start", "garbage_at_start", "binary_at_start", "garbage_for_ever", "exit_at_start",
    "exit_when_asked", "refuses_to_start", "version_of_old", "shapeless_start",
]  # fmt: skip
"""There is never a connection, and each request raises ToolConnectionError."""

WORKS = [
    "greets_first",
    "slow_start",
    "modern",
    "will_not_end",
    "writes_to_the_end",
    "has_a_child",
    "has_a_stubborn_child",
    "has_a_runaway_child",
]
"""Everything works; the misbehaviour is before or after the requests."""

LISTINGS = {
    "hang_at_list": "timeout",
    "fails_at_list": "tool_error",
    "shapeless_list": "invalid_result",
    "endless_pages": "limit_exceeded",
    "repeated_cursor": "limit_exceeded",
    "dies_in_the_middle_of_pages": "connection",
    "dies_after_list": LISTED,
    "changes_its_tools": LISTED,
    "grows": "bad t0 t1 t2 …",
    "many_tools": "limit_exceeded",
    "duplicate_names": "echo bad bad echo",
    "bad_names": "echo bad    …",
    "broken_character": "echo bad \ufffd",
    "hidden_characters": LISTED,
    "hidden_property": "echo bad hiding",
    "remote_references": "echo bad http_ref file_ref …",
    "reference_bomb": "echo bad bomb",
    "output_reference_bomb": LISTED,
    "nested_definitions": "echo bad nested",
    "circular_references": "echo bad circle0 circle1",
    "deep_schema": "echo bad deep",
    "abysmal_schema": "invalid_result",
    "wide_schema": "echo bad wide",
    "long_description": "echo bad long",
    "malformed_tools": "echo bad dict dict …",
    "invalid_schemas": "echo bad typed pattern …",
    "slow_input_pattern": LISTED,
    "duplicate_keys": "bad",
    "forgets_its_structure": LISTED,
}
"""Results of a listing; calls work."""

ANSWERS = {
    "never_answers": "timeout",
    "answers_late": "timeout",
    "wrong_id": "timeout",
    "answers_twice": "first",
    "deep_answer": "invalid_result",
    "great_number": "invalid_result",
    "huge_text": "x" * 20,
    "endless_answer": "connection",
    "not_a_number": "invalid_result",
    "unknown_content": "invalid_result",
    "bad_base64": "invalid_result",
    "bad_media_type": "invalid_result",
    "inner_link": "resource_link resource_link",
    "shapeless_answer": "invalid_result",
    "mistyped_answer": "invalid_result",
    "shapeless_error": "invalid_result",
    "both_error_and_result": "tool_error",
    "garbage_in_answer": "at last",
    "binary_answer": "\ufffd\ufffd\ufffd(",
    "lone_surrogate": "a\ufffdb\x00c\U0010ffff",
    "bare_newline": "timeout",
    "batch": "timeout",
    "loud_failure": "failed",
    "telling_failure": "tool_error",
    "parrot": "failed",
    "odd_error_code": "connection",
    "many_blocks": "limit_exceeded",
    "many_values": "connection",
    "comma_text": "well, [{" + ',[{"\\' * 2 + ",[",
    "drops_its_tools": "tool_error",
    "breaks_its_word": "7",
    "slow_output_pattern": "slow",
    "log_flood": "after the flood",
    "progress_flood": "after the flood",
    "changed_flood": "after the flood",
    "unknown_flood": "after the flood",
    "unasked_flood": "after the flood",
    "endless_flood": "connection",
    "stderr_flood": "after the flood",
    "asks_for_ever": "connection",
    "samples_for_ever": "connection",
    "roots_for_ever": "connection",
    "pings_for_ever": "connection",
    "asks_once": 'data {"action": "dec',
    "samples_once": 'data {"code": -32600',
    "asks_nonsense": 'data {"code": -32601',
    "dies_in_a_call": "connection",
    "dies_in_an_answer": "connection",
    "closes_its_mouth": "connection",
    "input_for_ever": "limit_exceeded",
    "unknown_result_type": "well",
}
"""Results of a call of `bad`; the listing before it and the call of `echo` after it work."""

ODD = {  # the next call after a crash may reach the crashed server or the restarted one
    "dies_after_list": (LISTED, "connection or well", "well"),
    "duplicate_keys": ("bad", "which?", "well"),
    "stops_reading": (LISTED, "timeout", "timeout"),
}

EXPECTED = {
    **dict.fromkeys(NO_CONNECTION, ("connection",) * 3),
    **dict.fromkeys(WORKS, (LISTED, "well", "well")),
    **{name: (listed, "well", "well") for name, listed in LISTINGS.items()},
    **{name: (LISTED, answer, "well") for name, answer in ANSWERS.items()},
    **ODD,
}
"""Results of a listing, of a call of `bad`, and of a call of `echo` after these."""


DEFAULT = {
    "hang_at_start", "garbage_for_ever", "exit_at_start", "refuses_to_start", "modern",
    "has_a_runaway_child", "hang_at_list", "endless_pages", "malformed_tools", "never_answers", "deep_answer",
    "not_a_number", "bad_base64", "telling_failure", "many_blocks", "many_values", "slow_output_pattern",
    "changed_flood", "endless_flood", "asks_for_ever", "asks_once", "dies_in_a_call", "input_for_ever",
}  # fmt: skip
"""One behaviour of each kind; the others run with `-m exhaustive`."""


def test_every_behaviour_has_an_expected_outcome() -> None:
    assert stdio.BEHAVIOUR_MODULES
    assert EXPECTED.keys() >= DEFAULT
    assert EXPECTED.keys() == BEHAVIOURS.keys()
    assert len(BEHAVIOURS) >= 25


@pytest.mark.parametrize("name", select_by_default(EXPECTED, DEFAULT))
@pytest.mark.default_cases(10)
async def test_hostile_server_has_the_expected_outcome(name: str) -> None:
    """Each request ends within seconds with the expected result, no loop is blocked, no process is left."""
    mark = uuid.uuid4().hex
    (target,) = resolve_targets(command(name, mark))
    listed, bad, echo = EXPECTED[name]
    limits = replace(LIMITS, listing=1.0) if listed == "timeout" else LIMITS
    if name in NO_CONNECTION:
        limits = replace(SHORT_LIMITS, connect=0.4)
    connection = ConnectionPool(target, ClientSettings(limits=limits))
    async with measured() as stalls:
        outcomes = [
            await get_outcome(connection.tools()),
            await get_outcome(connection.call("bad", {}, timeout=0.5 if bad == "timeout" else LONGEST)),
            await get_outcome(connection.call("echo", {"text": "well"}, timeout=0.5 if echo == "timeout" else LONGEST)),
        ]
        await asyncio.wait_for(connection.aclose(), LONGEST)
    assert [word for word, _ in outcomes] in [[listed, word, echo] for word in bad.split(" or ")]
    for _, error in outcomes:
        assert error is None or is_clean(str(error))
    assert max(stall.worst for stall in stalls) < LONGEST_STALL
    left = find_processes(mark)
    for process in left:
        process.kill()
    assert len(left) == (name == "has_a_runaway_child")  # a process that left the server's group is not ended


@pytest.mark.exhaustive
async def test_listing_ends_after_ten_seconds_by_default() -> None:
    connection = ConnectionPool(resolve_targets(command("hang_at_list"))[0])
    with pytest.raises(ToolTimeoutError, match="took longer than 10 s"):
        await connection.tools()
    await connection.aclose()


async def test_meter_detects_a_blocked_loop() -> None:
    for _ in range(20):  # until no other virtual machine has the processors meanwhile
        async with measured() as (mine, background):
            time.sleep(0.1)  # noqa: ASYNC251  # that is the point
            background_loop.call_soon(lambda: time.sleep(0.2))
            await asyncio.sleep(0.3)
        if 0.05 < mine.worst < 0.2 <= background.worst + 0.05:
            return
    pytest.fail(f"the loops were measured as blocked for {mine.worst} and {background.worst} seconds")


FIRST = """
import asyncio
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.targets import resolve_targets
from tests.mcp.hostile.driver import command
from tests.mcp.hostile.meter import measured

async def main():
    async with measured() as stalls:
        connection = ConnectionPool(resolve_targets(command("modern"))[0])
        await connection.tools()
        await connection.aclose()
    print(max(stall.worst for stall in stalls))

asyncio.run(main())
"""


@pytest.mark.exhaustive
def test_first_connection_in_a_process_blocks_no_loop() -> None:
    """FastMCP is imported then, which takes a second."""
    ended = subprocess.run([sys.executable, "-c", FIRST], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert float(ended.stdout) < LONGEST_STALL


async def use_connection() -> None:
    """List the tools over a connection and close it."""
    (target,) = resolve_targets(command("modern"))
    connection = ConnectionPool(target)
    await connection.tools()
    await connection.aclose()


@pytest.fixture(scope="module", autouse=True)
def no_descriptor_or_task_is_left() -> Iterator[None]:
    """Compare the open file descriptors and running tasks before and after all tests."""
    asyncio.run(use_connection())
    before = asyncio.run(count_resources())
    yield
    deadline = time.monotonic() + LONGEST
    while (now := asyncio.run(count_resources())) > before:
        assert time.monotonic() < deadline, (now, before)
        time.sleep(0.05)
