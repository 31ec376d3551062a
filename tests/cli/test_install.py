"""`ahvn-tools install` writes an entry that starts the server, and changes nothing else."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import yaml
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from inline_snapshot import snapshot

from ahvn_tools.cli.app import main
from ahvn_tools.cli.known_clients import CLIENTS, ClientName
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST

TOOLS = '''
import os

from ahvn_tools import Toolkit

kit = Toolkit("my notes")


@kit.tool
def find(query: str) -> str:
    """Find a note."""
    return f"{os.environ.get('NOTES_USER', 'nobody')} on {query}"


@kit.tool(audience="owner")
def write(text: str) -> str:
    """Write a note."""
    return text
'''

USER_FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini-cli": ".gemini/settings.json",
    "goose": ".config/goose/config.yaml",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini-cli": ".gemini/settings.json",
    "vscode": ".vscode/mcp.json",
    "zed": ".zed/settings.json",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder, and a project beside it as the current folder."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / "tools.py").write_text(TOOLS)
    return tmp_path / "home"


def install(*arguments):
    return main(["install", "tools.py", *arguments])


def read_entry(file, client, name="my-notes"):
    """Return command, arguments and variables as the client reads them."""
    parse = {".toml": tomllib.loads, ".yaml": yaml.safe_load}.get(file.suffix, json.loads)
    entry = parse(file.read_text(encoding="utf-8"))[CLIENTS[client].section][name]
    return entry.get("command", entry.get("cmd")), entry["args"], entry.get("env", entry.get("envs", {}))


def test_all_clients_of_the_command_line_are_known():
    assert set(CLIENTS) == set(get_args(ClientName)) == set(USER_FILES)
    assert {name for name, client in CLIENTS.items() if client.project_file is not None} == set(PROJECT_FILES)


@pytest.mark.parametrize("client", USER_FILES)
def test_the_entry_is_in_the_file_of_the_client(home, client):
    assert install("--client", client, "--env", "NOTES_USER=ann", "--audience", "owner") == 0
    file = home / USER_FILES[client]
    source = str(home.parent / "project" / "tools.py")
    arguments = ["-P", "-m", "ahvn_tools", "serve", source, "--audience", "owner"]
    assert read_entry(file, client) == (sys.executable, arguments, {"NOTES_USER": "ann"})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_paths_with_dots_are_written_without_them(home, monkeypatch):
    (home.parent / "elsewhere" / "deep").mkdir(parents=True)
    (home.parent / "elsewhere" / "tools.py").write_text(TOOLS)
    (home.parent / "project" / "link").symlink_to(home.parent / "elsewhere" / "deep")
    monkeypatch.setattr(sys, "executable", str(home.parent / "project" / ".." / "python"))
    assert main(["install", "link/../tools.py", "--client", "claude-code", "--name", "my-notes"]) == 0
    program, arguments, _ = read_entry(home / USER_FILES["claude-code"], "claude-code")
    assert program == str(home.parent / "python")
    assert arguments[4] == str(home.parent / "elsewhere" / "tools.py")


@pytest.mark.parametrize("client", PROJECT_FILES)
def test_the_entry_of_a_project_is_in_the_project(home, client):
    assert install("--client", client, "--scope", "project") == 0
    assert read_entry(Path(PROJECT_FILES[client]), client)[0] == sys.executable
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("platform", "client", "file"),
    [
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("darwin", "goose", ".config/goose/config.yaml"),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("win32", "vscode", "AppData/Roaming/Code/User/mcp.json"),
        ("win32", "zed", "AppData/Roaming/Zed/settings.json"),
        ("win32", "goose", "AppData/Roaming/Block/goose/config/config.yaml"),
    ],
)
def test_the_file_is_where_each_system_has_it(home, monkeypatch, platform, client, file):
    monkeypatch.setattr(sys, "platform", platform)
    assert CLIENTS[client].get_file(None) == home / file


async def start(command, arguments, env, folder):
    """Start a server as a client does: in another folder, with almost no variables."""
    small = {"PATH": os.defpath, "HOME": os.environ["HOME"], **ENVIRONMENT, **env}
    script = (
        "import os, sys; os.environ.clear(); os.environ.update(eval(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
    )
    transport = StdioTransport(sys.executable, ["-c", script, repr(small), command, *arguments], cwd=str(folder))
    async with Client(transport, init_timeout=LONGEST, timeout=LONGEST) as client:
        names = [tool.name for tool in await client.list_tools()]
        return names, (await client.call_tool("find", {"query": "tea"})).data


@pytest.mark.exhaustive
@pytest.mark.parametrize("client", USER_FILES)
async def test_the_command_that_was_written_starts_the_server(home, tmp_path, client):
    assert install("--client", client, "--env", "NOTES_USER=ann", "--audience", "owner") == 0
    (tmp_path / "elsewhere").mkdir()
    entry = read_entry(home / USER_FILES[client], client)
    assert await start(*entry, tmp_path / "elsewhere") == (["find", "write"], "ann on tea")


def test_an_entry_is_printed_and_nothing_is_written(home, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    assert install("--client", "codex", "--print", "--name", "n", "--env", "TOKEN", "--python", sys.executable) == 0
    text = capsys.readouterr().out.replace(sys.executable, "PYTHON").replace(str(home.parent), "")
    assert text == snapshot("""\
[mcp_servers.n]
command = "PYTHON"
args = ["-P", "-m", "ahvn_tools", "serve", "/project/tools.py"]
env_vars = ["TOKEN"]
""")
    assert list(home.iterdir()) == []


def test_uvx_installs_the_package_when_the_server_starts(home, capsys):
    arguments = ["--uvx", "--with", "httpx", "--with", "rich>=13", "--print"]
    assert install("--client", "claude-desktop", *arguments) == 0
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["my-notes"]
    assert entry["command"] == "uvx"
    assert entry["args"][:8] == ["--from", "ahvn-tools", "--with", "httpx", "--with", "rich>=13", "ahvn-tools", "serve"]


@pytest.mark.parametrize(
    ("client", "value"),
    [
        ("claude-code", "${TOKEN}"),
        ("cursor", "${env:TOKEN}"),
        ("gemini-cli", "${TOKEN}"),
        ("vscode", "${env:TOKEN}"),
        ("windsurf", "${env:TOKEN}"),
    ],
)
def test_a_variable_without_a_value_is_a_reference_to_the_environment_of_the_client(home, monkeypatch, client, value):
    monkeypatch.setenv("TOKEN", "s3cret-value")
    assert install("--client", client, "--env", "TOKEN") == 0
    file = home / USER_FILES[client]
    assert read_entry(file, client)[2] == {"TOKEN": value}
    assert "s3cret" not in file.read_text()


def test_a_file_with_variables_is_named_where_the_client_reads_it_and_else_read(home):
    Path("my.env").write_text('# comment\nexport A="1 2"\nB=${A}\nC=\n')
    assert install("--client", "vscode", "--env-file", "my.env") == 0
    entry = json.loads((home / USER_FILES["vscode"]).read_text())["servers"]["my-notes"]
    assert entry["envFile"] == str(Path("my.env").resolve())
    assert "env" not in entry
    assert install("--client", "cursor", "--env-file", "my.env", "--env", "B=2") == 0
    assert read_entry(home / USER_FILES["cursor"], "cursor")[2] == {"A": "1 2", "B": "2", "C": ""}


def test_the_sources_are_loaded_with_the_variables_of_the_server(home, monkeypatch):
    monkeypatch.delenv("NOTES_USER", raising=False)
    Path("tools.py").write_text(f"{TOOLS}\nos.environ['NOTES_USER'], os.environ['FROM_FILE']\n")
    Path("my.env").write_text("FROM_FILE=1\n")
    assert install("--client", "vscode", "--env-file", "my.env", "--env", "NOTES_USER=ann") == 0
    assert "NOTES_USER" not in os.environ


def test_the_rest_of_the_file_stays_and_the_old_file_is_kept(home):
    file = home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    old = (
        '// Zed settings\n{\n\t"theme": "One", // dark\n\t"context_servers": {\n\t\t"other": {"command": "x"}\n\t}\n}\n'
    )
    file.write_text(old)
    file.chmod(0o640)
    assert install("--client", "zed") == 0
    assert file.with_name("settings.json.bak").read_text() == old
    text = file.read_text()
    assert text.startswith('// Zed settings\n{\n\t"theme": "One", // dark\n')
    assert '\n\t\t"other": {"command": "x"},\n\t\t"my-notes": {\n\t\t\t"source": "custom",\n' in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in file.parent.iterdir()) == ["settings.json", "settings.json.bak"]
    assert main(["uninstall", "my-notes", "--client", "zed"]) == 0
    assert file.read_text() == old
    assert file.with_name("settings.json.bak2").read_text() == text


def test_a_link_to_a_configuration_stays_a_link(home):
    real = home / "dotfiles.json"
    real.write_text("{}")
    link = home / ".claude.json"
    link.symlink_to(real)
    assert install("--client", "claude-code") == 0
    assert link.is_symlink()
    assert read_entry(real, "claude-code")[0] == sys.executable


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", "{"),
        ("cursor", '{"mcpServers": {},}'),
        ("cursor", '{} // "strict" JSON has no comments'),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", '{"a": 1, "a": 2}'),
        ("vscode", "{'servers': {}}"),
        ("codex", "[mcp_servers"),
        ("codex", "mcp_servers = 1"),
        ("goose", "a: [1"),
        ("goose", "extensions: {one: {a: 1}}"),
        ("goose", "- 1"),
        ("goose", "extensions: 3"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(home, capsys, client, text):
    file = home / USER_FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert install("--client", client) == 1
    assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]
    captured = capsys.readouterr()
    assert "was not changed: " in captured.err
    assert str(file) in captured.err


def test_another_entry_of_the_name_is_replaced_only_with_force(home, capsys):
    assert install("--client", "cursor") == 0
    assert install("--client", "cursor") == 0
    assert "has this server already" in capsys.readouterr().out
    file = home / USER_FILES["cursor"]
    before = file.read_text()
    assert install("--client", "cursor", "--env", "A=1") == 1
    assert "Add --force to replace it, or choose another --name." in capsys.readouterr().err
    assert file.read_text() == before
    assert install("--client", "cursor", "--env", "A=1", "--force") == 0
    assert read_entry(file, "cursor")[2] == {"A": "1"}
    assert install("--client", "cursor", "--name", "second") == 0
    assert set(json.loads(file.read_text())["mcpServers"]) == {"my-notes", "second"}


@pytest.mark.parametrize(
    ("answer", "status"),
    [("y", 0), pytest.param("n", 1, marks=pytest.mark.exhaustive), pytest.param("", 1, marks=pytest.mark.exhaustive)],
)
def test_on_a_terminal_it_asks_before_it_replaces(home, answer, status):
    assert install("--client", "cursor") == 0
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "install", "tools.py", "--client", "cursor", "--env", "A=1"],
        env={**os.environ, **ENVIRONMENT}, stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    os.write(master, f"{answer}\n".encode())
    try:
        assert process.wait(LONGEST) == status
        assert "Replace it? [y/N]" in os.read(master, 10_000).decode()
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)
    assert read_entry(home / USER_FILES["cursor"], "cursor")[2] == ({"A": "1"} if status == 0 else {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--client", "emacs"], "emacs"),
        (["--client", "goose", "--scope", "project"], "goose has no configuration of projects: use --scope user."),
        (["--client", "zed", "--env", "TOKEN"], "Zed does not pass on variables of its own: write --env TOKEN=VALUE."),
        (["--client", "cursor", "--env", "a b=1"], "'a b' is no name of a variable"),
        (["--client", "cursor", "--env-file", "no.env"], "There is no file 'no.env'."),
        (["--client", "cursor", "--name", "a b"], "use letters, digits, '-' and '_', at most 64."),
        (["--client", "cursor", "--python", "no-such-python"], "There is no program 'no-such-python'."),
        (
            ["--client", "cursor", "--python", "false"],
            "'false' cannot import ahvn_tools: install ahvn-tools for it, or use --uvx.",
        ),
        (["--client", "cursor", "--with", "httpx"], "--with is for --uvx"),
    ],
)
def test_a_wrong_command_line_writes_nothing(home, capsys, arguments, message):
    assert install(*arguments) == 2
    assert message in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_a_source_that_cannot_be_loaded_is_not_installed(home, capsys):
    assert main(["install", "none.py", "--client", "cursor"]) == 1
    assert main(["install", "def f(): ...\n", "--client", "cursor"]) == 2
    assert "write it to a file" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_a_server_that_does_not_run_is_installed_without_a_check(home, capsys):
    source = "mcp:http://127.0.0.1:9/mcp"
    assert main(["install", source, "--client", "cursor", "--no-check", "--print"]) == 2
    assert "--name" in capsys.readouterr().err
    assert main(["install", source, "--client", "cursor", "--no-check", "--name", "far"]) == 0
    assert capsys.readouterr().out.startswith("Added 'far' to ")
    entry = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["far"]
    assert entry["args"][-2:] == ["serve", source]


def test_sources_mean_the_same_in_another_folder(home, capsys):
    Path("shed.py").write_text(TOOLS)
    Path("pack").mkdir()
    assert main(["install", "tools.py:kit", "shed", "--client", "cursor", "--print"]) == 0
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["my-notes"]
    project = home.parent / "project"
    assert entry["args"][4:] == [f"{project}/tools.py:kit", "shed"]
    assert entry["env"] == {"PYTHONPATH": str(project)}


def test_trust_means_the_same_in_another_folder(home, capsys):
    patterns = ["https://api.example", "tools.py", "${TEA_*}", "<code>", "acme.*"]
    trust = [word for pattern in patterns for word in ("--trust", pattern)]
    assert main(["install", "tools.py", "--client", "cursor", "--print", *trust]) == 0
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["my-notes"]
    expected = ["https://api.example", f"{home.parent}/project/tools.py", "env:TEA_*", *patterns[3:]]
    assert entry["args"][5::2] == ["--trust"] * 5
    assert entry["args"][6::2] == expected


def test_uninstalling_what_is_not_there_changes_nothing(home, capsys):
    assert main(["uninstall", "notes", "--client", "cursor"]) == 1
    assert "has no server 'notes'." in capsys.readouterr().err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("arguments", "found"), [((), "1 tool "), (("--audience", "owner"), "2 tools ")])
def test_the_tools_that_the_client_will_have_are_counted(home, capsys, arguments, found):
    assert install("--client", "cursor", *arguments) == 0
    assert f"Added 'my-notes' with {found}" in capsys.readouterr().out
