"""A stdio server: results and errors that cannot be serialized become error results."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from hypothesis import given
from hypothesis import strategies as st

import ahvn_tools
from ahvn_tools import Toolkit
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.mcp.client import stdio
from ahvn_tools.mcp.client.stdio import CHUNK_BYTES, SafeLines
from ahvn_tools.mcp.trust.limits import Limits
from ahvn_tools.redaction.texts import SecretTexts
from tests.mcp.hostile.driver import command
from tests.mcp.serving import ENVIRONMENT

LONGEST = 60.0
"""Seconds that a server may take to start, answer and end."""

SERVER = """
import os
from fastmcp import FastMCP
from ahvn_tools import ToolError, ToolResult, ToolSpec

name = os.fsdecode(b"caf\\xe9")

def listed() -> list[str]:
    return [name]

def free():
    return name

def keyed():
    return {name: 1}

def refused():
    raise ToolError("no file " + name)

def own() -> ToolResult:
    return ToolResult(name, {"size": 1})

def noted() -> ToolResult:
    return ToolResult("fine", meta={"path": name})

def great() -> int:
    return 10**5000

def deep():
    value = []
    for _ in range(400):
        value = [value]
    return value

def well() -> str:
    return "well"

server = FastMCP("odd")
for function in (listed, free, keyed, refused, own, noted, great, deep, well):
    server.add_tool(ToolSpec.from_function(function).to_fastmcp())
server.run(show_banner=False)
"""


async def answers(*names: str) -> list[Any]:
    """Call tools one after the other on one server and return what it answers."""
    environment = {"PYTHONPATH": str(Path(ahvn_tools.__file__).parents[2])}
    transport = StdioTransport(sys.executable, ["-c", SERVER], env=environment, keep_alive=False)
    async with Client(transport) as client:
        return [await client.call_tool_mcp(name, {}) for name in names]


@pytest.mark.exhaustive
async def test_result_that_cannot_be_serialized_is_an_error_and_the_server_continues() -> None:
    names = ("keyed", "great", "deep")
    *results, last = await asyncio.wait_for(answers(*names, "well"), LONGEST)
    for name, answer in zip(names, results, strict=True):
        assert (name, answer.is_error, answer.structured_content) == (name, True, None)
        assert "cannot be sent" in answer.content[0].text or "invalid result" in answer.content[0].text
    assert (last.is_error, last.structured_content) == (False, {"result": "well"})


@pytest.mark.exhaustive
async def test_result_with_a_lone_surrogate_costs_the_character() -> None:
    listed, free, own, noted = await asyncio.wait_for(answers("listed", "free", "own", "noted"), LONGEST)
    assert listed.structured_content == {"result": ["caf\ufffd"]}
    assert [answer.content[0].text for answer in (free, own, noted)] == ["caf\ufffd", "caf\ufffd", "fine"]
    assert (own.structured_content, noted.meta["path"]) == ({"size": 1}, "caf\ufffd")


@pytest.mark.exhaustive
async def test_error_text_with_surrogates_is_escaped_and_the_server_continues() -> None:
    refused, last = await asyncio.wait_for(answers("refused", "well"), LONGEST)
    assert (refused.is_error, refused.content[0].text) == (True, "no file caf\\udce9")
    assert last.structured_content == {"result": "well"}


LIMIT = 200_000
"""Bytes; `stderr_flood` writes 20 MB."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a flood as fast as possible, for tests that wait for its end."""
    monkeypatch.setattr(stdio, "FLOOD_PAUSE", 0)


def flood(stderr: Path | None, server: Any = None) -> None:
    """Call a tool that writes 20 MB to the stderr of its server, and close the connection."""
    kit = Toolkit("kit")
    limits = Limits(stderr_bytes=LIMIT)
    kit.add_mcp(server or command("stderr_flood"), name="flood", stderr=stderr, limits=limits, timeout=100)
    try:
        assert kit.call("bad") == "after the flood"
        assert kit.call("echo", {"text": "well"}) == "well"
    finally:
        kit.remove_mcp("flood")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_file_is_renamed_at_the_limit_and_keeps_the_last_output(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, old = tmp_path / "errors", tmp_path / "errors.1"
    flood(path)
    assert path.stat().st_size <= LIMIT
    assert LIMIT - CHUNK_BYTES <= old.stat().st_size <= LIMIT
    assert path.read_bytes().endswith(b"\x1b[31mnoise ")
    (warning,) = warnings_of(caplog)
    assert (
        f"server 'flood' has more than {LIMIT} bytes; only the last ones are kept, in '{path}' and '{old}'." in warning
    )


def test_file_of_an_earlier_process_counts(tmp_path: Path) -> None:
    path = tmp_path / "errors"
    path.write_bytes(b"x" * (LIMIT + 1))
    kit = Toolkit("kit")
    with pytest.raises(ToolConnectionError):
        kit.add_mcp(command("exit_at_start"), name="x", stderr=path, limits=Limits(stderr_bytes=LIMIT))
    assert path.read_text() == "no configuration\n"
    assert (tmp_path / "errors.1").stat().st_size == LIMIT + 1


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("link", "It is a link"), ("link to nowhere", "It is a link"), ("pipe", "It is no regular file")],
)
def test_only_a_regular_file_gets_the_stderr_of_a_server(tmp_path: Path, kind: str, reason: str) -> None:
    path, target = tmp_path / "errors", tmp_path / "target"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    if kind == "link":
        target.write_text("mine")
    with pytest.raises(ToolConnectionError, match=f"the file for its stderr cannot be written: {reason}"):
        Toolkit("kit").add_mcp(command("echo"), name="x", stderr=path)
    assert not target.exists() or target.read_text() == "mine"


OWN_STDERR = """
from ahvn_tools.mcp.client import stdio
from tests.mcp.client.test_stdio import flood
stdio.FLOOD_PAUSE = 0
flood(None)
"""


@pytest.mark.exhaustive
def test_own_stderr_gets_no_more_than_the_limit() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OWN_STDERR], env=ENVIRONMENT, capture_output=True, timeout=100, check=True
    )
    noise, warning = ended.stderr.count(b"noise"), ended.stderr.count(b"the rest is dropped")
    assert noise == LIMIT // len(rb"\x1b[31mnoise ")
    assert warning == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.exhaustive
def test_server_answers_although_its_stderr_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    program, *arguments = command("stderr_flood")
    with Path("/dev/full").open("w") as full:
        flood(None, StdioTransport(program, arguments, log_file=full))
    assert [text.partition(" cannot ")[0] for text in warnings_of(caplog)] == ["The stderr of the MCP server 'flood'"]


def test_last_words_of_a_server_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "errors"
    for _ in range(2):
        with pytest.raises(ToolConnectionError):
            Toolkit("kit").add_mcp(command("exit_at_start"), name="x", stderr=path)
    assert path.read_text() == "no configuration\n" * 2


def test_file_in_a_missing_folder_is_a_connection_error(tmp_path: Path) -> None:
    with pytest.raises(ToolConnectionError, match="its program or folder does not exist"):
        Toolkit("kit").add_mcp(command("echo"), name="x", stderr=tmp_path / "missing" / "errors")


PYDANTIC = b"""Failed to validate request: 2 validation errors for ClientRequest
PingRequest.method
  Input should be 'ping' [type=literal_error, input_value='server/discover', input_type=str]
    For further information visit https://errors.pydantic.dev/2.11/v/literal_error
InitializeRequest
  Field required [type=missing, input_value={'_meta': {'io.modelconte...}}}, input_type=dict]
"""
RICH = b"""[11/28/26 17:20:11] WARNING  Failed to validate request: 2 validation         session.py:383
                             errors for ClientRequest
                             PingRequest.method
                               Input should be 'ping' [type=literal_error,
                             input_value='server/discover', input_type=str]
"""
NEXT = {
    "pydantic": b"Processing request of type ListToolsRequest\n",
    "rich": b"                    INFO     Next record\n",
}


@pytest.mark.parametrize(("warning", "after"), [(PYDANTIC, NEXT["pydantic"]), (RICH, NEXT["rich"]), (RICH, b"")])
@given(data=st.data())
@pytest.mark.default_cases(1)
def test_warning_of_an_older_server_about_the_first_request_is_left_out(warning, after, data) -> None:
    lines, rest, parts = SafeLines(SecretTexts(), is_escaped=False), b"Starting\n" + warning + after, []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        parts.append(lines.add(rest[:size]))
        rest = rest[size:]
    assert b"".join([*parts, lines.add(b"")]) == b"Starting\n" + after


@pytest.mark.parametrize(
    "other", [PYDANTIC.replace(b"server/discover", b"tools/lust"), b"Failed to validate request\n"]
)
def test_warning_of_a_server_about_another_request_is_kept(other: bytes) -> None:
    lines = SafeLines(SecretTexts(), is_escaped=False)
    assert lines.add(other) + lines.add(b"  indented\nend\n") + lines.add(b"") == other + b"  indented\nend\n"


def test_second_warning_is_kept() -> None:
    lines = SafeLines(SecretTexts(), is_escaped=False)
    assert lines.add(PYDANTIC) + lines.add(b"x\n" + PYDANTIC) + lines.add(b"") == b"x\n" + PYDANTIC
