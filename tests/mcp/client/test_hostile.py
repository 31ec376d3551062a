"""Servers that misbehave, over stdio: whatever they do ends within seconds, blocks no loop and leaves no process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.connection import Connection
from ahvn_tools.mcp.client.targets import resolve_targets
from tests.mcp.hostile import stdio
from tests.mcp.hostile.behaviours import BEHAVIOURS
from tests.mcp.hostile.driver import LIMITS, LONGEST, LONGEST_STALL, came_of, command, is_clean
from tests.mcp.hostile.meter import left_of, measured, standing
from tests.mcp.serving import ENVIRONMENT

LISTED = "echo bad"

NO_CONNECTION = [
    "hang_at_start", "deaf_at_start", "garbage_at_start", "binary_at_start", "garbage_for_ever", "exit_at_start",
    "exit_when_asked", "refuses_to_start", "version_of_old", "shapeless_start",
]  # fmt: skip
"""There is never a connection, and each request says so."""

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
"""Everything works, and what is wrong comes before or after."""

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
    "broken_character": "invalid_result",
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
"""What comes of a listing; calls work."""

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
    "binary_answer": "invalid_result",
    "lone_surrogate": "invalid_result",
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
    "asks_once": 'told {"action": "dec',
    "samples_once": 'told {"code": -32600',
    "asks_nonsense": 'told {"code": -32601',
    "dies_in_a_call": "connection",
    "dies_in_an_answer": "connection",
    "closes_its_mouth": "connection",
    "input_for_ever": "limit_exceeded",
    "unknown_result_type": "well",
}
"""What comes of a call of `bad`; the listing before it and the call of `echo` after it work."""

ODD = {  # where a server dies on its own, the next call may find it dead, or one that was started anew
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
"""What comes of a listing, of a call of `bad`, and of a call of `echo` after these."""


def test_every_behaviour_has_an_end_that_is_expected() -> None:
    assert stdio.ROOMS
    assert EXPECTED.keys() == BEHAVIOURS.keys()
    assert len(BEHAVIOURS) >= 25


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_hostile_server_ends_as_expected(name: str) -> None:
    """Each request ends within seconds with the right word, no loop stands still, no process is left."""
    mark = uuid.uuid4().hex
    (target,) = resolve_targets(command(name, mark))
    connection = Connection(target, limits=replace(LIMITS, connect=0.4) if name in NO_CONNECTION else LIMITS)
    listed, bad, echo = EXPECTED[name]
    async with measured() as stalls:
        told = [
            await came_of(connection.tools()),
            await came_of(connection.call("bad", {}, timeout=0.5 if bad == "timeout" else 4)),
            await came_of(connection.call("echo", {"text": "well"}, timeout=0.5 if echo == "timeout" else 4)),
        ]
        await asyncio.wait_for(connection.aclose(), LONGEST)
    assert [word for word, _ in told] in [[listed, word, echo] for word in bad.split(" or ")]
    for _, error in told:
        assert error is None or is_clean(str(error))
    assert max(stall.worst for stall in stalls) < LONGEST_STALL
    left = left_of(mark)
    for process in left:
        process.kill()
    assert len(left) == (name == "has_a_runaway_child")  # who leaves the server's process group is not ours to end


async def test_the_meter_sees_a_loop_that_stands_still() -> None:
    async with measured() as (mine, background):
        time.sleep(0.1)  # noqa: ASYNC251  # that is the point
        background_loop.call_soon(lambda: time.sleep(0.2))
        await asyncio.sleep(0.3)
    assert 0.05 < mine.worst < 0.2 <= background.worst + 0.05


FIRST = """
import asyncio
from ahvn_tools.mcp.client.connection import Connection
from ahvn_tools.mcp.client.targets import resolve_targets
from tests.mcp.hostile.driver import command
from tests.mcp.hostile.meter import measured

async def main():
    async with measured() as stalls:
        connection = Connection(resolve_targets(command("modern"))[0])
        await connection.tools()
        await connection.aclose()
    print(max(stall.worst for stall in stalls))

asyncio.run(main())
"""


def test_the_first_use_in_a_process_stops_no_loop() -> None:
    """FastMCP is imported then, which takes a second."""
    ended = subprocess.run([sys.executable, "-c", FIRST], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert float(ended.stdout) < LONGEST_STALL


async def used() -> None:
    """Use a connection as far as it goes."""
    (target,) = resolve_targets(command("modern"))
    connection = Connection(target)
    await connection.tools()
    await connection.aclose()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Compare what is open and what runs before and after all of them."""
    asyncio.run(used())
    before = asyncio.run(standing())
    yield
    until = time.monotonic() + LONGEST
    while (now := asyncio.run(standing())) > before:
        assert time.monotonic() < until, (now, before)
        time.sleep(0.05)
