"""MCP servers are sources: URLs, commands, scripts, and the servers of an mcp.json, all or some."""

from __future__ import annotations

import sys

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.loading.servers import read
from ahvn_tools.manifest import load

SERVER = """
from fastmcp import FastMCP

mcp = FastMCP("clock")

@mcp.tool
def now() -> str:
    "Tell the time."
    return "noon"

if __name__ == "__main__":
    mcp.run(show_banner=False)
"""

CONFIG = """
{
  // as editors write it
  "mcpServers": {
    "github": {"command": "python", "args": ["-m", "github", "${TOKEN}"], "env": {"KEY": "${TOKEN}"}},
    "clock": {"type": "http", "url": "https://clock.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    "off": {"command": "nowhere", "disabled": true},
  }
}
"""


def servers(location: str, **env: str) -> dict:
    contents = read(location, ReadOptions(env={"PATH": "/usr/bin:/bin", **env}))
    return contents.servers[0].server


def refusal(location: str) -> str:
    with pytest.raises(SourceError) as caught:
        servers(location)
    return str(caught.value)


def test_all_servers_of_a_configuration_are_read_with_variables_from_the_environment(write):
    entries = servers(write(CONFIG, "mcp.json"), TOKEN="abc")
    assert {name: entry.command or entry.url for name, entry in entries.items()} == {
        "github": ("python", "-m", "github", "abc"),
        "clock": "https://clock.example/mcp",
    }
    assert (entries["github"].env, entries["clock"].headers) == ({"KEY": "abc"}, {"Authorization": "Bearer abc"})


@pytest.mark.parametrize(
    ("location", "names"),
    [("mcp.json:github", ["github"]), ("mcp.json:clock, github", ["clock", "github"]), ("x.json:a", ["a"])],
)
def test_some_servers_of_a_configuration_are_chosen_by_name(location, names, write):
    write(CONFIG, "mcp.json")
    write('{"mcp": {"servers": {"a": {"url": "http://x.example"}, "b": {"command": "${UNSET}"}}}}', "x.json")
    assert list(servers(location, TOKEN="abc")) == names


def test_the_folder_of_a_configuration_of_an_editor_is_that_of_the_project(write, tmp_path):
    write('{"servers": {"a": {"command": "${workspaceFolder}/run", "cwd": "."}}}', ".vscode/mcp.json")
    assert servers(".vscode/mcp.json")["a"].command == (f"{tmp_path}/run",)


def test_a_command_is_split_into_words(write):
    assert servers("sh -c 'exit 1'") == ["sh", "-c", "exit 1"]
    assert len(servers("sh " + "x" * 500 + ".py")) == 2


def test_a_url_stays_as_it_is():
    assert servers("https://x.example/mcp") == "https://x.example/mcp"


def test_a_script_is_started_by_its_interpreter(write, tmp_path):
    assert servers(write("", "deep/run.py")) == [sys.executable, str(tmp_path / "deep/run.py")]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("mcp.json:githup", "mcp.json has no server 'githup'. Did you mean 'github'?"),
        ("mcp.json", "mcp.json: Server 'github' needs the environment variable 'TOKEN', which is not set."),
        (
            "asks.json",
            "asks.json: Server 'a' asks for the input 'key'; pass inputs={'key': …}. Here: Toolkit.add_mcp(…",
        ),
        ("mcp.json:off", "mcp.json has no server that is not disabled."),
        ("empty.json", "empty.json: This is not an mcp.json: it has neither `mcpServers` nor `servers`."),
        ("broken.json", "'"),
        (
            "nowhere.json",
            "There is no program 'nowhere.json', which would be the command of an MCP server, and no such",
        ),
        ("no-such-program --key hidden", "There is no program 'no-such-program', which would be the command of an "),
        ("'open", '"\'open" cannot be split into words: No closing quotation.'),
        (" ", "The command of an MCP server is empty: write the program and its arguments."),
    ],
)
def test_what_is_no_server_is_refused(location, message, write):
    write(CONFIG, "mcp.json")
    write("{}", "empty.json")
    write('{"servers": {"a": {"command": "x", "args": ["${input:key}"]}}}', "asks.json")
    write("{", "broken.json")
    assert refusal(location).startswith(message)


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", ["mcp:clock.py", "command", "mcp.json:clock", "{file}"])
def test_servers_are_connected_and_called(source, write):
    file = write(SERVER, "clock.py")
    write(f'{{"mcpServers": {{"clock": {{"command": "{sys.executable}", "args": ["{file}"]}}}}}}', "mcp.json")
    kit = load({"command": f"{sys.executable} {file}", "{file}": file}.get(source, source))
    assert kit.call("now") == "noon"
    for name in list(kit.servers):
        kit.remove_mcp(name)
