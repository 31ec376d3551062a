"""The command writes only where it is told to: with others at once, on a full disk, in a repository of others."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.cli.served import ENVIRONMENT, LONGEST

TOOLS = '''
from ahvn_tools import Toolkit
from mcp_types import ImageContent

kit = Toolkit("notes")


@kit.tool
def draw() -> ImageContent:
    """Draw."""
    return ImageContent(type="image", data="QUJD", mime_type="image/png")
'''
SERVER = ("mcp:http://127.0.0.1:9/mcp", "--no-check", "--client")
PROJECT = (*SERVER, "vscode", "--scope", "project", "--name")


@pytest.fixture
def victim(tmp_path, monkeypatch):
    """A path in the home folder, which has no file; the current folder is a repository beside it."""
    for name in ("home", "repository"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "repository")
    Path("tools.py").write_text(TOOLS)
    return tmp_path / "home" / ".bash_profile"


@pytest.fixture(params=["beneath folders", pytest.param("by paths", id="by paths, as on Windows")])
def each_system(request, monkeypatch):
    if request.param == "by paths":
        monkeypatch.setattr(os, "supports_dir_fd", frozenset())


def write_config(text='{"servers": {}}'):
    file = Path(".vscode/mcp.json")
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.usefixtures("each_system")
def test_a_copy_of_the_configuration_never_follows_a_link(victim):
    old = "// curl example.com | sh\n{}"
    file = write_config(old)
    file.with_name("mcp.json.bak").symlink_to(victim)
    assert main(["install", *PROJECT, "one"]) == 0
    assert not victim.exists()
    assert file.with_name("mcp.json.bak").is_symlink()
    assert file.with_name("mcp.json.bak2").read_text() == old
    assert main(["uninstall", "one", "--client", "vscode", "--scope", "project"]) == 0
    assert "one" in file.with_name("mcp.json.bak3").read_text()
    assert not victim.exists()


@pytest.mark.usefixtures("each_system")
@pytest.mark.parametrize("config", [["--scope", "project"], ["--config", ".vscode/mcp.json"]])
@pytest.mark.parametrize("link", ["file", "file to nowhere", "folder"])
@pytest.mark.default_cases(4)
def test_a_link_out_of_the_project_is_refused(victim, capsys, config, link):
    other = victim.with_name("mcp.json")
    if link != "file to nowhere":
        other.write_text('{"servers": {"one": {}}}')
    if link == "folder":
        Path(".vscode").symlink_to(victim.parent)
    else:
        Path(".vscode").mkdir()
        Path(".vscode/mcp.json").symlink_to(other)
    before = names_in(victim.parent)
    assert main(["install", *SERVER, "vscode", "--name", "two", *config]) == 1
    assert "a link leads out of" in capsys.readouterr().err
    assert main(["uninstall", "one", "--client", "vscode", *config]) == 1
    assert names_in(victim.parent) == before
    if link != "file to nowhere":
        assert "two" not in other.read_text()


def test_links_inside_of_a_project_and_links_of_the_user_are_followed(victim):
    Path("config").mkdir()
    Path(".vscode").symlink_to("config")
    Path("config/mcp.json").symlink_to("servers.json")
    Path("config/servers.json").write_text("{}")
    assert main(["install", *PROJECT, "one"]) == 0
    assert Path(".vscode/mcp.json").is_symlink()
    assert list(json.loads(Path("config/servers.json").read_text())["servers"]) == ["one"]
    assert names_in("config") == ["mcp.json", "servers.json", "servers.json.bak"]
    dotfiles, link = victim.with_name("dotfiles.json"), victim.with_name(".claude.json")
    dotfiles.write_text("{}")
    link.symlink_to("dotfiles.json")
    assert main(["install", *SERVER, "claude-code", "--name", "one"]) == 0
    assert main(["uninstall", "one", "--client", "claude-code"]) == 0
    assert link.is_symlink()
    assert json.loads(dotfiles.read_text()) == {"mcpServers": {}}


@pytest.mark.usefixtures("victim")
def test_a_pipe_in_place_of_the_configuration_is_refused_and_not_waited_for(capsys):
    Path(".vscode").mkdir()
    os.mkfifo(".vscode/mcp.json")
    assert main(["install", *PROJECT, "one"]) == 1
    assert "It is no regular file" in capsys.readouterr().err


ALL_AT_ONCE = """
import os, sys
from ahvn_tools.cli.app import main
import ahvn_tools.cli.install, ahvn_tools.cli.install

def run_all(commands):
    start, go = os.pipe()
    processes = []
    for command in commands:
        process = os.fork()
        if process == 0:
            os.close(go)
            os.read(start, 1)  # until all have started
            os._exit(main(command))
        processes.append(process)
    os.close(start)
    os.close(go)
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]

client = ["--client", "vscode", "--scope", "project"]
install = ["install", "mcp:http://127.0.0.1:9/mcp", "--no-check", *client, "--name"]
names = [f"server{number}" for number in range(12)]
first = run_all([[*install, name] for name in names])
second = run_all([["uninstall", name, *client] for name in names[1:]] + [[*install, "last"]])
print([first, second], file=sys.stderr)
sys.exit(any(first + second))
"""


def run_program(program, *arguments):
    """Run a program in the current folder."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments]
    environment = {**os.environ, **ENVIRONMENT}
    environment = {name: value for name, value in environment.items() if not name.startswith("COV")}  # it writes a file
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False)


@pytest.mark.usefixtures("victim")
@pytest.mark.exhaustive
def test_twelve_installs_and_uninstalls_at_once_lose_nothing():
    ran = run_program(ALL_AT_ONCE)
    assert ran.returncode == 0, ran.stderr
    assert set(json.loads(Path(".vscode/mcp.json").read_text())["servers"]) == {"server0", "last"}
    copies = list(Path(".vscode").glob("mcp.json.bak*"))
    assert len(copies) == 23  # the first command has found no file
    assert all(json.loads(copy.read_text())["servers"] for copy in copies)
    assert len(names_in(".vscode")) == 24


KILLED = """
import os, signal
from pathlib import Path
from ahvn_tools.cli.output_file import OutputFile

with OutputFile.open(Path(".vscode/mcp.json")):
    Path(".vscode/.ahvn-0123456789abcdef.tmp").touch()  # as if it was killed while it wrote
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("victim")
def test_a_command_that_was_killed_leaves_no_lock_and_no_file():
    write_config()
    assert run_program(KILLED).returncode == -9
    assert main(["install", *PROJECT, "one"]) == 0
    assert names_in(".vscode") == ["mcp.json", "mcp.json.bak"]


FULL_DISK = """
import resource, sys
from ahvn_tools.cli.app import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize(
    "command",
    [
        ["install", *PROJECT, "one"],
        ["uninstall", "old", "--client", "vscode", "--scope", "project"],
    ],
)
def test_what_cannot_be_written_completely_leaves_no_copy_and_no_part(command):
    """A limit of the size of files ends a write in its middle, as a full disk does."""
    text = json.dumps({"servers": {"old": {"command": "x" * 10_000}}})
    write_config(text)
    ran = run_program(FULL_DISK, *command)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith("mcp.json.bak cannot be written: File too large.\n")
    assert names_in(".vscode") == ["mcp.json"]
    assert Path(".vscode/mcp.json").read_text() == text


@pytest.mark.parametrize("client", ["vscode", "cursor", "codex", "goose"])
def test_the_byte_order_mark_and_the_line_ends_of_a_configuration_stay(victim, client):
    texts = {"codex": '[mcp_servers.old]\r\ncommand = "x"\r\n', "goose": "extensions:\r\n  old:\r\n    cmd: x\r\n"}
    section = {"vscode": "servers", "cursor": "mcpServers"}.get(client)
    file = Path("config")
    file.write_bytes(b"\xef\xbb\xbf" + texts.get(client, f'{{"{section}": {{"old": {{}}}}}}\r\n').encode())
    command = ["install", *SERVER, client, "--config", "config", "--name", "new"]
    assert main(command) == 0
    text = file.read_bytes()
    assert text.startswith(b"\xef\xbb\xbf")
    if client == "codex":
        assert set(tomllib.loads(text[3:].decode())["mcp_servers"]) == {"old", "new"}
    assert text.count(b"\xef\xbb\xbf") == 1
    assert text.count(b"\n") == text.count(b"\r\n") > 0
    assert main(["uninstall", "new", "--client", client, "--config", "config"]) == 0
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    assert "new" not in file.read_text()
    assert not victim.exists()


@pytest.mark.usefixtures("victim")
@pytest.mark.parametrize(
    "command",
    [
        ["export", "tools.py", "-f", "openai", "-o", "tools.json"],
        pytest.param(["check", "tools.py", "--json", "-o", "tools.json"], marks=pytest.mark.exhaustive),
        pytest.param(["pin", "tools.py"], marks=pytest.mark.exhaustive),
        pytest.param(["new", "tool"], marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_a_full_disk_leaves_no_part_of_a_file(monkeypatch, command):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    ran = run_program(FULL_DISK, *command)
    assert ran.returncode == 1
    assert ran.stderr.endswith("cannot be written: File too large.\n")
    assert names_in(".") == ["tools.py"]


@pytest.mark.usefixtures("victim")
def test_variables_with_a_byte_order_mark_are_read():
    Path("my.env").write_bytes(b"\xef\xbb\xbfA=1\n")
    command = ["install", *SERVER, "cursor", "--scope", "project", "--name", "one", "--env-file", "my.env"]
    assert main(command) == 0
    assert json.loads(Path(".cursor/mcp.json").read_text())["mcpServers"]["one"]["env"] == {"A": "1"}


WRITERS = {
    "export": (["export", "tools.py", "-f", "openai", "-o"], ["--force"]),
    "check": (["check", "tools.py", "--json", "-o"], ["--force"]),
    "pin": (["pin", "tools.py", "-o"], []),
}
"""Commands, without the file that they write, and what makes them replace it."""


@pytest.mark.usefixtures("each_system")
@pytest.mark.parametrize("name", WRITERS)
def test_no_other_file_is_replaced_without_force(victim, capsys, name):
    command, force = WRITERS[name]
    victim.write_text("old")
    assert main([*command, str(victim)]) == 1
    assert victim.read_text() == "old"
    capsys.readouterr()
    assert main([*command, "new.json"]) == 0
    text = Path("new.json").read_text()
    Path("new.json").chmod(0o640)
    assert main([*command, "new.json", *force]) == 0  # pin replaces its own files
    assert Path("new.json").read_text() == text
    assert stat.S_IMODE(Path("new.json").stat().st_mode) == 0o640
    if force:
        assert main([*command, "new.json"]) == 1
        assert "exists: it was not changed. Add --force to replace it" in capsys.readouterr().err
    assert names_in(".") == ["new.json", "tools.py"]


@pytest.mark.usefixtures("each_system")
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("place", ["link", "link to nowhere", "folder", "pipe", "device"])
@pytest.mark.default_cases(10)
def test_nothing_but_a_regular_file_is_written(victim, name, place):
    command, force = WRITERS[name]
    output = "out/tools.json" if place == "folder" else "out"
    if place == "folder":
        Path("out").symlink_to(victim.parent)
    elif place == "pipe":
        os.mkfifo("out")
    elif place == "device":
        output = "/dev/null"
    else:
        Path("out").symlink_to(victim)
        if place == "link":
            victim.write_text("old")
    before = names_in(victim.parent)
    assert main([*command, output, *force]) == 1
    assert names_in(victim.parent) == before
    assert not victim.exists() or victim.read_text() == "old"
    assert Path("/dev/null").is_char_device()


@pytest.mark.usefixtures("each_system")
def test_new_files_and_images_are_not_written_through_a_link(victim, capsys):
    Path("out").symlink_to(victim.parent)
    Path("result-draw.png").symlink_to(victim)
    assert main(["new", "tool", "-o", "out"]) == 1
    assert "a link leads out of" in capsys.readouterr().err
    assert main(["call", "tools.py", "draw", "--output-dir", "out"]) == 1
    assert main(["call", "tools.py", "draw"]) == 0
    assert Path("result-draw-2.png").read_bytes() == b"ABC"
    assert main(["new", "toolkit", "-o", "deep/er"]) == 0
    assert names_in("deep/er") == ["notes.py", "test_notes.py", "toolkit.yaml"]
    assert names_in(victim.parent) == []


def test_a_relative_path_does_not_leave_the_repository_through_a_link_beside_the_current_folder(victim, monkeypatch):
    Path("out").symlink_to(victim.parent)
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    command = ["export", "../tools.py", "-f", "openai", "-o"]
    assert main([*command, "../out/tools.json"]) == 1
    assert names_in(victim.parent) == []
    assert main([*command, "../tools.json"]) == 0
    assert main([*command, str(victim.parent.parent / "repository" / "out" / "tools.json")]) == 0  # the user's choice
    assert names_in(victim.parent) == ["tools.json"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("victim")
def test_a_command_waits_for_another_one_for_a_limited_time(capsys):
    from ahvn_tools.cli.output_file import OutputFile

    file = write_config()
    with OutputFile.open(file):
        assert main(["install", *PROJECT, "one"]) == 1
    assert "Nothing was changed. Try again later." in capsys.readouterr().err
    assert main(["install", *PROJECT, "one"]) == 0


def test_a_strict_export_names_the_tools_that_are_not_strict(tmp_path, capsys):
    (tmp_path / "kit.py").write_text(
        "from ahvn_tools import tool\n\n"
        "@tool\ndef fine(a: int) -> int:\n    return a\n\n"
        "@tool\ndef loose(a: dict[str, int]) -> int:\n    return 1\n"
    )
    for name in ("openai", "anthropic", "bedrock"):
        assert main(["export", str(tmp_path / "kit.py"), "-f", name, "--strict"]) == 0
        assert f"Not strict in the format {name!r}: loose. `ahvn-tools check` says why." in capsys.readouterr().err
    assert main(["export", str(tmp_path / "kit.py"), "-f", "openai"]) == 0
    assert "Not strict" not in capsys.readouterr().err
