"""The files, commands, outputs, configuration and clients on the pages about the command line are true."""

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
from ahvn_tools.cli.known_clients import CLIENTS
from ahvn_tools.lint import RULES
from tests.cli.served import ENVIRONMENT, LONGEST, Served

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    "how-to/command-line.md",
    "how-to/check-tools.md",
    "how-to/install-in-clients.md",
    "reference/cli.md",
    "reference/check-rules.md",
]
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)


def block(name: str) -> str:
    """Return the code or the rows of the table after the comment with that name."""
    table = r"[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)"
    found = re.search(rf"<!-- {re.escape(name)} -->\n(?:```\w+\n(.*?)```|{table})", PAGE, re.DOTALL)
    assert found is not None
    return found[1] or found[2]


def sessions() -> list[tuple[str, str]]:
    """Return the commands of the pages with their output, in their order. Each begins with `$ ahvn-tools`."""
    pairs = []
    for session in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ahvn-tools ", session, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            pairs.append((command, output))
    return pairs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the files of the pages to a folder, which is /home/ann on the pages, and go there."""
    for name in re.findall(r"<!-- ([\w/.-]+\.(?:py|yaml)) -->", PAGE):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block(name), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_pages_print_what_the_pages_say(folder, capsys):
    shown = {command.split()[0] for command, _ in sessions()}
    assert shown >= {"list", "show", "search", "call", "export", "check", "pin", "diff", "install", "new"}
    for command, output in sessions():
        main(shlex.split(command))
        printed = capsys.readouterr()
        assert (printed.out + printed.err).replace(str(folder), "/home/ann") == output, command


@pytest.mark.parametrize("line", block("commands").splitlines())
def test_a_command_of_the_pages_can_be_parsed(line):
    words = shlex.split(line.removeprefix("python -m ahvn_tools ").removeprefix("ahvn-tools "))
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert (command.__name__, bound.args[0]) == ("serve", words[1])


@pytest.mark.exhaustive
async def test_the_configuration_of_the_page_starts_its_file(tmp_path):
    file = tmp_path / "finder.py"
    file.write_text(block("finder.py"))
    config: dict[str, Any] = json.loads(block("mcp.json").replace("/home/ann/finder.py", str(file)))
    server = config["mcpServers"]["notes"]
    server["command"] = sys.executable  # the script of an installed package does just this
    server["args"][:0] = ["-m", "ahvn_tools"]
    server["env"] |= ENVIRONMENT
    async with Client(config, init_timeout=LONGEST, timeout=LONGEST) as client:
        assert [tool.name for tool in await client.list_tools()] == ["find", "write"]
        assert (await client.call_tool("find", {"query": "tea"})).data == "bob on tea"


@pytest.mark.exhaustive
async def test_a_server_over_http_is_installed_with_its_token(folder, capsys, monkeypatch):
    token, config = "canary-token-" + "x" * 20, folder / "client.json"
    arguments = ["install", "remote.json", "--client", "claude-code", "--env", "NOTES_TOKEN", "--config", str(config)]
    with Served.over_http("finder.py", "--auth-token-env", "NOTES_TOKEN", NOTES_TOKEN=token) as served:
        (folder / "remote.json").write_text(block("remote.json").replace("https://notes.example/mcp", served.url))
        assert main(["list", served.url]) == 1
        assert "HTTP 401. It wants credentials, or other ones: " in (error := capsys.readouterr().err)
        assert "`headers` in an mcp.json" in error
        monkeypatch.setenv("NOTES_TOKEN", token)
        assert main(arguments) == 0
        written = json.loads(config.read_text())
        (entry,) = written["mcpServers"].values()
        assert entry["env"] == {"NOTES_TOKEN": "${NOTES_TOKEN}"}
        entry["env"] = {**ENVIRONMENT, "NOTES_TOKEN": token}  # as the client replaces it
        with capsys.disabled():  # a process can write to the real stderr only
            async with Client(written, init_timeout=LONGEST, timeout=LONGEST) as client:
                assert [tool.name for tool in await client.list_tools()] == ["find"]
                assert (await client.call_tool("find", {"query": "tea"})).data == "ann on tea"


def test_the_page_has_all_rules():
    rows = [f"| `{name}` | {rule.severity} | {rule.summary} |" for name, rule in RULES.items()]
    assert block("rules").splitlines() == rows


def test_the_page_has_all_clients_with_their_files():
    rows = {line.split("`")[1]: line for line in block("clients").splitlines()}
    assert list(rows) == list(CLIENTS)
    for name, client in CLIENTS.items():
        reference = client.reference or ("env_vars" if client.passes_variables else None)
        _, _, user, project, passed, _ = (cell.strip() for cell in rows[name].split("|"))
        assert client.user_file().name in user
        assert project == (f"`{client.project_file}`" if client.project_file else "none")
        assert passed == (f"`{reference}`" if reference else "no")
