"""Hostile servers in a toolkit: bad tools and answers are refused with a reason, everything else works."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.errors import ToolCallError
from ahvn_tools.mcp.client import fastmcp_clients  # noqa: F401  # its import takes a second of the time to connect
from tests.mcp.hostile.driver import (
    LIMITS,
    LONGEST,
    LONGEST_STALL,
    SHORT_LIMITS,
    command,
    is_clean,
    select_by_default,
)
from tests.mcp.hostile.listing import HIDDEN
from tests.mcp.hostile.meter import find_processes, measured
from tests.mcp.hostile.wire import SECRET

pytestmark = pytest.mark.no_cover  # it measures how long a server blocks a loop

REFUSED: dict[str, dict[str, str]] = {
    "duplicate_names": {"bad (2)": "another tool", "echo (2)": "another tool"},
    "bad_names": {
        "": "empty", " ": "empty", "x" * 100: "300 characters", r"a\u200bb": "invisible", r"a\u202eb": "invisible",
        r"a\x00b": "invisible", r"a\nb": "invisible", r"\x1b[31mred": "invisible", r"tag\U000e0041": "invisible",
        "ｅｃｈｏ": "looks the same",
    },
    "hidden_property": {"hiding": "invisible characters"},
    "remote_references": {
        "http_ref": "nothing is fetched", "file_ref": "nothing is fetched", "odd_ref": "nothing is fetched",
        "relative_ref": "nothing is fetched", "dangling_ref": "no schema",
    },
    "reference_bomb": {"bomb": "when its references are expanded"},
    "nested_definitions": {"nested": "levels deep"},
    "circular_references": {"circle0": "refers to itself", "circle1": "refers to itself"},
    "deep_schema": {"deep": "levels deep"},
    "wide_schema": {"wide": "more than"},
    "long_description": {"long": "bytes"},
    "malformed_tools": {"bare": "input schema", "listed": "input schema", "texts": "input schema", "(no name)": "name"},
    "invalid_schemas": {"typed": "JSON Schema", "pattern": "regex", "needed": "required", "counted": "minimum"},
}  # fmt: skip
"""The refused tools and a part of each reason; `echo` and `bad` are imported."""

CALLS = {
    "never_answers": "timeout",
    "deep_answer": "invalid_result",
    "not_a_number": "invalid_result",
    "unknown_content": "invalid_result",
    "bad_base64": "invalid_result",
    "bad_media_type": "invalid_result",
    "telling_failure": "tool_error",
    "loud_failure": "tool_error",
    "parrot": "tool_error",
    "breaks_its_word": "invalid_result",
    "forgets_its_structure": "invalid_result",
    "slow_output_pattern": "invalid_result",
    "many_blocks": "limit_exceeded",
    "dies_in_a_call": "connection",
    "input_for_ever": "limit_exceeded",
}
"""The error code of a call of `bad`; a call of `echo` after it works."""

HANGS = {"never_answers", "asks_for_ever", "pings_for_ever", "endless_flood"}
"""A call of `bad` may not end by itself."""


@pytest.fixture
async def imported(request: pytest.FixtureRequest) -> AsyncIterator[Toolkit]:
    """A toolkit with a hostile server. No loop is blocked while the test runs, and no process is left after it."""
    mark = uuid.uuid4().hex
    toolkit = Toolkit("hostile")
    async with measured() as stalls:
        await asyncio.wait_for(
            toolkit.aadd_mcp(
                command(request.param, mark),
                name="hostile",
                timeout=2 if request.param in HANGS else LONGEST,
                limits=LIMITS,
            ),
            LONGEST,
        )
        yield toolkit
        await asyncio.wait_for(toolkit.aremove_mcp("hostile"), LONGEST)
    assert max(stall.worst for stall in stalls) < LONGEST_STALL
    assert find_processes(mark) == []


def names(toolkit: Toolkit) -> list[str]:
    return [spec.name for spec in toolkit]


@pytest.mark.parametrize(
    ("imported", "refused"), select_by_default(REFUSED.items(), {"bad_names", "malformed_tools"}), indirect=["imported"]
)
async def test_bad_tool_is_refused_without_affecting_others(imported: Toolkit, refused: dict[str, str]) -> None:
    reasons = imported.servers["hostile"].refused
    assert names(imported)[:2] == ["echo", "bad"]
    assert not refused.keys() & names(imported)
    listed = {name[:100]: reason for name, reason in reasons.items() if not re.search(r"^\(no name\) ", name)}
    assert listed.keys() == refused.keys()
    for name, reason in refused.items():
        assert reason in listed[name], name
    assert all(is_clean(name or "-") and is_clean(reason) for name, reason in reasons.items())
    assert (await imported.aexec("bad", {})).value == "well"


@pytest.mark.parametrize(
    ("imported", "code"), select_by_default(CALLS.items(), {"breaks_its_word", "dies_in_a_call"}), indirect=["imported"]
)
async def test_bad_answer_is_an_error_and_the_next_call_works(imported: Toolkit, code: str) -> None:
    began = time.monotonic()
    result = await imported.aexec("bad", {})
    assert time.monotonic() - began < LONGEST
    assert result.error is not None
    assert result.error.code == code
    assert is_clean(result.error.message)
    assert is_clean(result.text)
    assert (await imported.aexec("echo", {"text": "well"})).value == "well"


@pytest.mark.parametrize("imported", ["bad_names"], indirect=True)
async def test_unusual_names_are_imported_unchanged_and_shortened_on_export(imported: Toolkit) -> None:
    odd = ["../x", "__class__", "two words", "a/b", "Echo"]
    assert names(imported) == ["echo", "bad", *odd]
    for tool in imported.to("openai"):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["function"]["name"])
    for name in odd:
        assert (await imported.aexec(name, {})).value == "well"


@pytest.mark.parametrize("imported", ["hidden_characters"], indirect=True)
async def test_texts_of_tools_have_no_hidden_characters(imported: Toolkit) -> None:
    """Every text in every export shows its hidden characters as escapes."""
    assert names(imported) == ["echo", "bad"]
    exports = [imported.to(name) for name in ("openai", "anthropic", "mcp", "prompt", "gemini")]
    text = json.dumps(exports, ensure_ascii=False) + imported["bad"].to_prompt() + repr(imported["bad"].definition)
    assert not set(HIDDEN) - set("[8m") & set(text)
    assert r"Read\u200b" in imported["bad"].definition.description


@pytest.mark.parametrize("imported", ["slow_input_pattern"], indirect=True)
async def test_slow_pattern_does_not_delay_the_check_of_an_argument(imported: Toolkit) -> None:
    began = time.monotonic()
    assert (await imported.aexec("bad", {"value": "a" * 40 + "!"})).error.code == "invalid_parameters"
    assert (await imported.aexec("bad", {"value": "aaa"})).value == "well"
    assert time.monotonic() - began < LONGEST


async def test_server_error_does_not_reveal_a_bound_value_to_the_model() -> None:
    """The server knows the value; where its error quotes it, the name of the parameter is shown."""
    toolkit = Toolkit("hostile")
    await toolkit.aadd_mcp(command("parrot"), name="hostile", limits=LIMITS, tools={"bad": {"preset": {"key": SECRET}}})
    try:
        result = await toolkit.aexec("bad", {"x": "open"})
        assert '"key": "<key>"' in result.error.message
        assert '"x": "open"' in result.error.message
        assert SECRET not in str(result.to_mcp())
    finally:
        await toolkit.aremove_mcp("hostile")


@pytest.mark.parametrize("imported", ["changes_its_tools"], indirect=True)
async def test_server_that_announces_changes_all_the_time_is_refreshed_with_growing_delays(imported: Toolkit) -> None:
    deadline = time.monotonic() + LONGEST
    while "new0" not in names(imported):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    before = time.process_time()
    await asyncio.sleep(0.5)
    assert time.process_time() - before < 0.25
    assert (await imported.aexec("new0", {})).value == "well"


@pytest.mark.parametrize(
    "imported",
    select_by_default(["asks_for_ever", "pings_for_ever", "endless_flood"], {"endless_flood"}),
    indirect=True,
)
async def test_endless_behaviour_ends_with_its_call(imported: Toolkit) -> None:
    """After the call the process becomes idle, at the latest when the server has reached a limit."""
    assert (await imported.aexec("bad", {})).error.code in {"timeout", "connection"}
    deadline = time.monotonic() + 2 * LONGEST
    while True:
        before = time.process_time()
        await asyncio.sleep(0.3)
        if time.process_time() - before < 0.05:
            break
        assert time.monotonic() < deadline
    while (await imported.aexec("echo", {"text": "well"})).value != "well":  # the server is started again meanwhile
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "name",
    select_by_default(
        [
            "hang_at_start",
            "garbage_for_ever",
            "exit_at_start",
            "refuses_to_start",
            "hang_at_list",
            "many_tools",
            "endless_pages",
        ],
        {"exit_at_start", "endless_pages"},
    ),
)
async def test_failed_import_leaves_no_tools_and_no_process(name: str) -> None:
    mark = uuid.uuid4().hex
    toolkit = Toolkit("hostile")
    began = time.monotonic()
    with pytest.raises(ToolCallError) as caught:
        await toolkit.aadd_mcp(command(name, mark), name="hostile", limits=SHORT_LIMITS)
    assert time.monotonic() - began < LONGEST
    assert is_clean(str(caught.value))
    assert (names(toolkit), dict(toolkit.servers)) == ([], {})
    assert find_processes(mark) == []


@pytest.mark.parametrize(
    ("hostile", "connect"),
    [
        pytest.param("exit_at_start", LONGEST, id="exit_at_start"),
        pytest.param("hang_at_start", 10.0, id="hang_at_start", marks=pytest.mark.exhaustive),
    ],
)
def test_hostile_server_does_not_prevent_the_import_of_others(hostile: str, connect: float) -> None:
    """The working servers of one configuration are imported by a sync call without an event loop."""
    mark = uuid.uuid4().hex
    servers: dict[str, Any] = {
        name: {"command": words[0], "args": words[1:]}
        for name in (hostile, "modern", "dies_after_list")
        for words in [command(name, mark)]
    }
    toolkit = Toolkit("hostile")
    began = time.monotonic()
    toolkit.add_mcp({"mcpServers": servers}, limits=replace(LIMITS, connect=connect))
    assert time.monotonic() - began < LONGEST
    try:
        assert {"modern_echo", "dies_after_list_echo"} <= set(names(toolkit))
        assert toolkit.exec("modern_echo", {"text": "well"}).value == "well"
        for _ in range(10):  # its server may end while a call is sent
            result = toolkit.exec("dies_after_list_echo", {"text": "well"})
            if not result.is_error:
                break
            assert result.error.code == "connection"
        assert result.value == "well"
    finally:
        for name in list(toolkit.servers):
            toolkit.remove_mcp(name)
    assert find_processes(mark) == []


@pytest.mark.exhaustive
async def test_good_server_answers_while_many_hostile_ones_are_connected() -> None:
    """All of these misbehave concurrently; no call of the good one waits for half a second."""
    mark = uuid.uuid4().hex
    hostile = [
        "endless_flood", "endless_answer", "asks_for_ever", "many_values", "huge_text", "log_flood", "stops_reading",
        "dies_in_a_call",
    ]  # fmt: skip
    toolkit = Toolkit("hostile")
    for name in [*hostile, "modern"]:
        timeout = LONGEST if name == "modern" else 1
        await toolkit.aadd_mcp(command(name, mark), name=name, prefix=f"{name}_", timeout=timeout, limits=LIMITS)
    longest = 0.0
    async with measured() as stalls:
        calls = asyncio.gather(*(toolkit.aexec(f"{name}_bad", {}) for name in hostile))
        while not calls.done():
            began = time.monotonic()
            assert (await toolkit.aexec("modern_echo", {"text": "well"})).value == "well"
            longest = max(longest, time.monotonic() - began)
    codes = {result.error and result.error.code for result in await calls}
    assert codes <= {None, "timeout", "connection"}
    assert longest < LONGEST_STALL
    assert max(stall.worst for stall in stalls) < LONGEST_STALL
    await asyncio.gather(*map(toolkit.aremove_mcp, list(toolkit.servers)))
    assert find_processes(mark) == []
