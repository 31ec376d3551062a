"""The files, the commands with their output, and the client configuration in docs/reference/cli.md work unchanged."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from ahvn_tools.cli.app import app, main
from tests.cli.served import ENVIRONMENT, LONGEST

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    """Return the code after the comment with that name."""
    found = re.search(rf"<!-- {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def sessions() -> list[tuple[str, str]]:
    """Return the commands of the page with their output, in their order. Each begins with `$ ahvn-tools`."""
    pairs = []
    for session in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ahvn-tools ", session, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            pairs.append((command, output))
    return pairs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the files of the page to a folder, which is /home/ann on the page, and go there."""
    for name in re.findall(r"<!-- ([\w/.-]+\.(?:py|yaml)) -->", PAGE):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block(name), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_print_what_the_page_says(folder, capsys):
    for command, output in sessions():
        main(shlex.split(command))
        printed = capsys.readouterr()
        assert (printed.out + printed.err).replace(str(folder), "/home/ann") == output, command


@pytest.mark.parametrize("line", block("commands").splitlines())
def test_a_command_of_the_page_can_be_parsed(line):
    words = shlex.split(line.removeprefix("python -m ahvn_tools ").removeprefix("ahvn-tools "))
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert (command.__name__, bound.args[0]) == ("serve", words[1])


@pytest.mark.exhaustive
async def test_the_configuration_of_the_page_starts_the_file_of_the_page(tmp_path):
    file = tmp_path / "tools.py"
    file.write_text(block("tools.py"))
    config: dict[str, Any] = json.loads(block("mcp.json").replace("/home/ann/tools.py", str(file)))
    server = config["mcpServers"]["notes"]
    server["command"] = sys.executable  # the script of an installed package does just this
    server["args"][:0] = ["-m", "ahvn_tools"]
    server["env"] |= ENVIRONMENT
    async with Client(config, init_timeout=LONGEST, timeout=LONGEST) as client:
        assert [tool.name for tool in await client.list_tools()] == ["find", "write"]
        assert (await client.call_tool("find", {"query": "tea"})).data == "bob on tea"
