"""What a running server writes to stderr of the records of this package."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys

import pytest
from fastmcp import Client

from ahvn_tools import Toolkit, aserve
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.mcp.server.run import log_to_stderr
from ahvn_tools.middleware import log
from tests.mcp.serving import ENVIRONMENT, LONGEST, over_http

CALLS = logging.getLogger("ahvn_tools.calls")
OWN = logging.getLogger("ahvn_tools")


@pytest.fixture
def unconfigure(monkeypatch):
    """Return a function that takes away the handlers with which pytest configures logging, as each test starts."""
    return lambda: monkeypatch.setattr(logging.getLogger(), "handlers", [])


def emit() -> None:
    """Write one record of each level."""
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        CALLS.log(level, "%s", logging.getLevelName(level))


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (None, ["INFO", "WARNING", "ERROR"]),
        (logging.ERROR, ["ERROR"]),
        (logging.DEBUG, ["DEBUG", "INFO", "WARNING", "ERROR"]),
    ],
)
def test_records_of_a_level_are_written_to_stderr_while_the_server_runs(unconfigure, level, shown, capsys):
    unconfigure()
    with log_to_stderr(level):
        emit()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines] == shown
    assert all(f" {text} ahvn_tools.calls: " in line for line, text in zip(lines, shown, strict=True))
    assert (OWN.handlers, OWN.level) == ([], logging.NOTSET)
    CALLS.info("later")
    assert capsys.readouterr().err == ""


def test_a_host_that_has_configured_logging_keeps_its_handlers_and_levels(caplog, capsys):
    with log_to_stderr(None):
        emit()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    with log_to_stderr(logging.INFO):
        emit()
    assert [record.levelname for record in caplog.records[2:]] == ["INFO", "WARNING", "ERROR"]
    assert capsys.readouterr().err == ""


def test_a_level_that_the_host_has_set_is_kept(unconfigure, monkeypatch, capsys):
    unconfigure()
    monkeypatch.setattr(OWN, "level", logging.ERROR)
    with log_to_stderr(None):
        OWN.warning("hidden")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", [None, "info"])
async def test_a_served_call_is_logged_on_stderr(unconfigure, level, capsys):
    unconfigure()
    kit = Toolkit("kit", middleware=[log()]).add(lambda word: word, rename="echo")
    options = {} if level is None else {"log_level": level}
    async with over_http(kit, **options) as url, Client(url) as client:
        await client.call_tool("echo", {"word": "tea"})
    assert 'INFO ahvn_tools.calls: echo {"word": "tea"} -> ok in ' in capsys.readouterr().err


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_unknown_level_is_an_error(transport):
    with pytest.raises(ToolSpecError, match="`log_level` must be one of critical"):
        await asyncio.wait_for(aserve(Toolkit("kit"), transport, log_level="loud"), LONGEST)


@pytest.mark.parametrize(
    ("arguments", "is_logged", "is_file"),
    [
        ([], True, True),
        pytest.param([], True, False, marks=pytest.mark.exhaustive),
        pytest.param(["--log-level", "error"], False, False, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_the_command_answers_a_call_before_the_end_of_input_and_logs_it_on_stderr(
    tmp_path, arguments, is_logged, is_file
):
    file = tmp_path / "shed.py"
    file.write_text(
        "from ahvn_tools import Toolkit\nfrom ahvn_tools.middleware import log\n\n"
        "kit = Toolkit('shed', middleware=[log()])\n\n\n@kit.tool\ndef greet() -> str:\n    return 'hello'\n"
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "_meta": meta}}
    messages = tmp_path / "messages"
    messages.write_text(json.dumps(call) + "\n")
    with messages.open() as opened:
        source = {"stdin": opened} if is_file else {"input": messages.read_text()}
        served = _run([sys.executable, "-m", "ahvn_tools", "serve", str(file), *arguments], **source)
    assert json.loads(served.stdout)["result"]["structuredContent"] == {"result": "hello"}
    assert ("ahvn_tools.calls: greet {} -> ok in " in served.stderr) == is_logged


def _run(command, **source):
    return subprocess.run(
        command,
        **source,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
