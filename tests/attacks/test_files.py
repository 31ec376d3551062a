"""Attacks by a cloned repository: what it plants where the command, the middleware and the toolkit write or read."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Toolkit, definition_lock
from ahvn_tools.builtins.knowledge import Knowledge
from ahvn_tools.cli.app import main
from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.mcp.client.stdio import StderrWriter
from ahvn_tools.mcp.trust.pins import Pins
from ahvn_tools.middleware import record, replay
from ahvn_tools.toolkit.approval_store import SQLiteApprovalStore
from tests.attacks.attack import CANARY, Attack, Outcome, equals, raises, rows

LONGEST = 60.0
"""Seconds that a command may take at most."""
HUGE = 10 * 2**30
MINE = "the user's own file\n"
SERVER = ("mcp:http://127.0.0.1:9/mcp", "--no-check", "--name", "one", "--client")
TOOLS = '''
from ahvn_tools import tool


@tool
def echo(text: str = "a") -> str:
    """Return a text."""
    return text
'''


class Repository:
    """The current folder, beside a home folder with a file of the user."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root = folder / "home", folder / "repository"
        for made in (self.home, self.root):
            made.mkdir()
        self.victim = self.home / ".bashrc"
        self.victim.write_text(MINE)
        Path(self.root, "tools.py").write_text(TOOLS)

    def is_home_unchanged(self) -> bool:
        names = [path.name for path in self.home.iterdir()]
        return names == [".bashrc"] and self.victim.read_text() == MINE


@contextlib.contextmanager
def cloned() -> Iterator[Repository]:
    """Enter a new repository."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository(Path(folder).resolve())
        with contextlib.chdir(repository.root):
            yield repository


def in_repository(act: Callable[[Repository], Any]) -> Callable[[], Any]:
    def attack() -> Any:
        with cloned() as repository:
            return act(repository)

    return attack


def run(*words: str) -> tuple[int, str]:
    """Run the command, and return its exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = main(list(words))
    return status, printed.getvalue()


def echo(text: str = "a") -> str:
    return text


# What is at the path of a file that is written


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


PLANTS: dict[str, Callable[[Path], Any]] = {
    "a relative link": lambda path: path.symlink_to("../home/.bashrc"),
    "an absolute link": lambda path: path.symlink_to(path.parent.parent / "home" / ".bashrc"),
    "a link to nowhere": lambda path: path.symlink_to("../home/new"),
    "a chain of links": lambda path: (path.symlink_to("next"), (path.parent / "next").symlink_to("../home/.bashrc")),
    "a loop of links": lambda path: path.symlink_to(path.name),
    "a link to a folder": lambda path: path.symlink_to("../home"),
    "a link to a full device": lambda path: path.symlink_to("/dev/full"),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to an open file": lambda path: path.symlink_to("/proc/self/fd/1"),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a folder": lambda path: path.mkdir(),
}

WRITERS: dict[str, Callable[[str], Any]] = {
    "export -o": lambda path: run("export", "tools.py", "--format", "openai", "-o", path, "--force"),
    "check -o": lambda path: run("check", "tools.py", "--json", "-o", path, "--force"),
    "pin -o": lambda path: run("pin", "tools.py", "-o", path),
    "new": lambda path: run("new", "tool", "-o", f"{path}.py"),
    "install": lambda path: run("install", *SERVER, "vscode", "--config", path),
    "uninstall": lambda path: run("uninstall", "one", "--client", "vscode", "--config", path),
    "record": record,
    "pins": lambda path: Pins(path).check("server", [{"name": "a"}]),
    "approval_store": SQLiteApprovalStore,
    "Knowledge": Knowledge,
    "definition_lock.write": lambda path: definition_lock.write(path, []),
    "stderr": lambda path: StderrWriter(Path(path), 100),
}


def planted(writer: Callable[[str], Any], suffix: str = "") -> Callable[[], Any]:
    """Write where each of the things is, and return those after which the write succeeded, or changed a file."""

    def act() -> list[str]:
        through = []
        for name, plant in PLANTS.items():
            with cloned() as repository:
                plant(repository.root / f"out{suffix}")
                result: Any = None
                with contextlib.suppress(OSError, ToolSpecError, ToolkitError):
                    result = (writer("out"),)
                is_refused = result is None or (isinstance(result[0], tuple) and result[0][0] == 1)
                if not (is_refused and repository.is_home_unchanged()):
                    through.append(name)
        return through

    return act


def beside(name: str, act: Callable[[], Any]) -> Callable[[], Any]:
    """Plant a link at a name that something writes beside its file, and say whether the home folder is unchanged."""

    def attack(repository: Repository) -> bool:
        for target in ("../home/.bashrc", "../home/new"):
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            Path(name).symlink_to(target)
            with contextlib.suppress(OSError, ToolSpecError, ToolkitError, sqlite3.Error):
                act()
            if not repository.is_home_unchanged():
                return False
        return True

    return in_repository(attack)


def install_here(repository: Repository | None = None) -> tuple[int, str]:
    if not Path("mcp.json").exists():
        Path("mcp.json").write_text("{}")
    return run("install", *SERVER, "cursor", "--force", "--config", "mcp.json", "--env", f"N={time.monotonic_ns()}")


def in_a_linked_folder(repository: Repository) -> list[int]:
    """Write into folders that links lead out of, at each level."""
    Path("a").symlink_to("../home")
    Path("b/c").mkdir(parents=True)
    Path("b/c/d").symlink_to(repository.home)
    folders = ["a", "b/c/d", "a/deep", "b/../a"]
    statuses = [run("export", "tools.py", "--format", "openai", "-o", f"{folder}/out")[0] for folder in folders]
    statuses += [run("new", "tool", "-o", folder)[0] for folder in folders]
    statuses += [run("install", *SERVER, "vscode", "--config", f"{folder}/mcp.json")[0] for folder in folders]
    return [*sorted(set(statuses)), int(repository.is_home_unchanged())]


def after_many_copies(repository: Repository) -> list[Any]:
    """Plant links at the names of 2,000 copies."""
    Path("mcp.json").write_text("{}")
    Path("mcp.json.bak").symlink_to(repository.home / "new")
    for number in range(2, 2000):
        Path(f"mcp.json.bak{number}").symlink_to(repository.home / "new")
    return [install_here()[0], Path("mcp.json.bak2000").read_text(), repository.is_home_unchanged()]


# Permissions and owners


def modes_of_a_configuration(repository: Repository) -> list[str]:
    """Install into a private file, and into a new one, while the umask hides nothing."""
    Path("mcp.json").write_text("{}")
    Path("mcp.json").chmod(0o640)
    before = os.umask(0)
    try:
        install_here()
        run("install", *SERVER, "cursor", "--config", "new.json")
    finally:
        os.umask(before)
    return [f"{Path(name).stat().st_mode:o}" for name in ("mcp.json", "mcp.json.bak", "new.json")]


def modes_after_a_write(mode: int) -> Callable[[Repository], list[str]]:
    def act(repository: Repository) -> list[str]:
        for name in ("export.json", "tools.lock"):
            Path(name).write_text("old")
            Path(name).chmod(mode)
        run("export", "tools.py", "--format", "openai", "-o", "export.json", "--force")
        definition_lock.write("tools.lock", [])
        return [f"{Path(name).stat().st_mode:o}" for name in ("export.json", "tools.lock")]

    return act


def written_through_a_hard_link(repository: Repository) -> list[Any]:
    """Replace files that are hard links to a file of the user."""
    for name in ("mcp.json", "out", "tools.lock"):
        os.link(repository.victim, name)
    run("export", "tools.py", "--format", "openai", "-o", "out", "--force")
    definition_lock.write("tools.lock", [])
    with contextlib.suppress(ToolSpecError):
        record("mcp.json")
    return [install_here()[0], repository.is_home_unchanged()]


# Configurations of clients


def edited(client: str, content: str | bytes, *options: str) -> Callable[[], Any]:
    """Install into a configuration and uninstall from it. Return the exit codes, and whether it is as before."""

    def act(repository: Repository) -> list[Any]:
        before = content if isinstance(content, bytes) else content.encode()
        Path("config").write_bytes(before)
        statuses = [run("install", *SERVER, client, "--config", "config", *options)[0]]
        statuses.append(run("uninstall", "one", "--client", client, "--config", "config")[0])
        return [*statuses, Path("config").read_bytes() == before]

    return in_repository(act)


UNCHANGED = equals([1, 1, True])

ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 12)
)
SLOW_HEADER = f'[mcp_servers.one]\ncommand = "x"\na = [\n[{" " * 30_000}\n]]\n'


def servers_of_a_toml(repository: Repository) -> list[str]:
    """Install beside a text that looks like the table of the server."""
    Path("config").write_text("x = '''\n[mcp_servers.one]\n'''\n[mcp_servers.two]\ncommand = 'x'\n")
    run("install", *SERVER, "codex", "--config", "config")
    return sorted(tomllib.loads(Path("config").read_text())["mcp_servers"])


def limited(*words: str, file: str, text: str = "") -> Callable[[], Any]:
    """Run the command with little memory, on a file of 10 GB."""

    def act(repository: Repository) -> bool:
        with Path(file).open("w") as made:
            made.write(text)
            made.truncate(HUGE)
        program = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000,) * 2)\n"
        program += "import sys; from ahvn_tools.cli.app import main; sys.exit(main(sys.argv[1:]))"
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, *words], capture_output=True, text=True, check=False, timeout=LONGEST
        )
        return done.returncode in {1, 2} and "Traceback" not in done.stderr and "error: " in done.stderr

    return in_repository(act)


def huge(read: Callable[[str], Any]) -> Callable[[], Any]:
    """Read a file of 10 GB."""

    def act(repository: Repository) -> Any:
        with Path("huge").open("wb") as made:
            made.truncate(HUGE)
        return read("huge")

    return in_repository(act)


# What an entry says


def entry_of(client: str, *words: str) -> Any:
    status, printed = run("install", *words, "--client", client, "--name", "one", "--print")
    return json.loads(printed)["mcpServers"]["one"] if status == 0 else status


def variables_in_an_env_file(repository: Repository) -> list[Any]:
    """Let the values of a file name variables of the client."""
    codes = []
    for value in ("${AWS_SECRET}", "${env:AWS_SECRET}", "$AWS_SECRET", "${command:run}"):
        Path("my.env").write_text(f"A='{value}'\n")
        codes += [entry_of(name, "tools.py", "--env-file", "my.env") for name in ("claude-code", "cursor", "windsurf")]
        codes.append(entry_of("gemini-cli", "tools.py", "--env-file", "my.env"))
    return codes


def broken_env_files(repository: Repository) -> list[Any]:
    codes = []
    for content in (b"A=\xff\n", b"A=a\0b\n", b"'a=b'=c\n", b"'a b'=c\n"):
        Path("my.env").write_bytes(content)
        codes.append(entry_of("cursor", "tools.py", "--env-file", "my.env"))
    return codes


def variables_in_a_path(repository: Repository) -> list[Any]:
    folder = Path("${env:AWS_SECRET}")
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    return [entry_of(name, f"{folder}/tools.py") for name in ("claude-code", "cursor", "gemini-cli")]


def shell_in_a_path(repository: Repository) -> list[str]:
    """Name a folder after a command: it is one argument of the program."""
    folder = Path("a; touch pwned `touch pwned` && x")
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    arguments: list[str] = entry_of("claude-desktop", f"{folder}/tools.py")["args"]
    return [arguments[-1].removeprefix(f"{repository.root}/"), str(Path("pwned").exists())]


def modules_in_the_folder_of_a_client(repository: Repository) -> bool:
    """Start a server of the user in a repository with modules that have the names of libraries."""
    (repository.home / "tools.py").write_text(TOOLS)
    entry = entry_of("cursor", str(repository.home / "tools.py"))
    for name in ("cyclopts", "yaml", "pydantic", "ahvn_tools"):
        Path(f"{name}.py").write_text("open('pwned', 'w')\n")
    command = [entry["command"], *entry["args"]]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LONGEST)
    return Path("pwned").exists()


# Images and files of results


def written_files(name: str, media_type: str) -> Callable[[], Any]:
    """Call a tool of this name that returns a file, and return the names of new files."""

    def act(repository: Repository) -> list[str]:
        Path("far.py").write_text(
            "from mcp_types import BlobResourceContents, EmbeddedResource\nfrom ahvn_tools import Toolkit\n"
            "kit = Toolkit('far')\ndef get() -> EmbeddedResource:\n    '''Get.'''\n    return EmbeddedResource(\n"
            "        type='resource', resource=BlobResourceContents(uri='file:///../../home/.bashrc', blob='QUJD',\n"
            f"        mime_type={media_type!r}))\nkit.add(get, name={name!r})\n"
        )
        before = {path.name for path in repository.root.iterdir()} | {"__pycache__"}
        run("call", "far.py", name)
        return sorted({path.name for path in repository.root.iterdir()} - before)

    return in_repository(act)


# Recordings


def replayed(change: Callable[[dict[str, Any]], Any]) -> Callable[[], Any]:
    """Record a call, change its line, and replay it."""

    def act(repository: Repository) -> Any:
        Toolkit("kit", middleware=[record("calls.jsonl")]).add(echo).call("echo")
        changed = change(json.loads(Path("calls.jsonl").read_text()))
        Path("calls.jsonl").write_text(changed if isinstance(changed, str) else json.dumps(changed))
        return Toolkit("kit", middleware=[replay("calls.jsonl")]).add(echo).exec("echo").text

    return in_repository(act)


def result_with(**parts: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda line: {**line, "result": {**line["result"], **parts}}


NOT_A_RECORDING = raises(ToolSpecError, "is not a recorded call")


def recorded_while_it_is_replaced(repository: Repository) -> list[Any]:
    """Replace a recording by a link, truncate it and append to it while calls are recorded."""
    kit = Toolkit("kit", middleware=[record("calls.jsonl")]).add(echo)
    kit.call("echo")
    with Path("calls.jsonl").open("ab") as file:
        file.write(b'{"recording":2,"tool')
    kit.call("echo")
    os.truncate("calls.jsonl", 10)
    kit.call("echo")
    lines = Path("calls.jsonl").read_bytes().splitlines()
    Path("calls.jsonl").unlink()
    Path("calls.jsonl").symlink_to(repository.victim)
    return [kit.call("echo"), len(lines), repository.is_home_unchanged()]


# Stores


def hostile_store(*statements: str) -> Callable[[], Any]:
    """Use an approval store that somebody else has made."""

    def act(repository: Repository) -> Any:
        with contextlib.closing(sqlite3.connect("store.db")) as connection:
            connection.executescript(";".join(statements))
        return SQLiteApprovalStore("store.db").decide({"request": None})

    return in_repository(act)


def _table() -> str:
    with cloned(), contextlib.closing(sqlite3.connect("store.db")) as connection:
        SQLiteApprovalStore("store.db")
        return str(connection.execute("SELECT sql FROM sqlite_master WHERE name = 'approvals'").fetchone()[0])


ENDLESS = (
    "CREATE TABLE other (x); CREATE TRIGGER t AFTER INSERT ON approvals BEGIN INSERT INTO other "
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r; END"
)


def hostile_bytes(content: bytes, read: Callable[[str], Any]) -> Callable[[], Any]:
    def act(repository: Repository) -> Any:
        Path("file").write_bytes(content)
        return read("file")

    return in_repository(act)


def pins_beside_a_lock_file(repository: Repository) -> list[str]:
    """Use pins whose own lock has the name of a lock file of the user."""
    Path("uv.lock").write_text(MINE)
    Pins("uv").check("server", [{"name": "a"}])
    return [Path("uv.lock").read_text()]


# Races and concurrent commands


def _exchange(name: str, target: str, stop: Any) -> None:
    """Exchange a file and a link until it is stopped."""
    while not stop.is_set():
        with contextlib.suppress(OSError):
            Path(f"{name}.next").symlink_to(target)
            Path(f"{name}.next").replace(name)
            Path(f"{name}.next").write_text("{}")
            Path(f"{name}.next").replace(name)


def raced(write: Callable[[], Any], target: str = ".bashrc", seconds: float = 3.0) -> Callable[[], Any]:
    def act(repository: Repository) -> bool:
        Path("out").write_text("{}")
        context = multiprocessing.get_context("fork")
        stop = context.Event()
        path = str(repository.root / "out")
        process = context.Process(target=_exchange, args=(path, str(repository.home / target), stop))
        process.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                with contextlib.suppress(OSError, ToolSpecError, ToolkitError):
                    write()
        finally:
            stop.set()
            process.join(LONGEST)
        return repository.is_home_unchanged()

    return in_repository(act)


def stderr_of_three_chunks() -> None:
    writer = StderrWriter(Path("out"), 100)
    try:
        for _ in range(3):
            writer.write(b"x" * 60)
    finally:
        writer.close()


def commands_that_are_killed(repository: Repository) -> list[Any]:
    """Start 12 commands for one configuration, kill each second one, and install once more."""
    Path("mcp.json").write_text("{}")
    words = ["install", "mcp:http://127.0.0.1:9/mcp", "--no-check", "--client", "cursor", "--config", "mcp.json"]
    command = [sys.executable, "-m", "ahvn_tools", *words, "--name"]
    started = [
        subprocess.Popen([*command, f"n{number}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(12)
    ]
    for number, process in enumerate(started):
        if number % 2:
            process.kill()
    codes = [process.wait(LONGEST) for process in started]
    status = run(*words, "--name", "last")[0]
    names = json.loads(Path("mcp.json").read_text())["mcpServers"]
    lost = [number for number, code in enumerate(codes) if code == 0 and f"n{number}" not in names]
    return [status, lost, "last" in names, list(repository.root.glob(".ahvn-*.tmp"))]


def on_a_full_disk(repository: Repository) -> list[Any]:
    """Write more than a file may have."""
    Path("mcp.json").write_text(old := json.dumps({"a": "x" * 5000}))
    program = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    program += "import sys; from ahvn_tools.cli.app import main; sys.exit(main(sys.argv[1:]))"
    words = ["install", *SERVER, "cursor", "--config", "mcp.json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # it writes a file
    command = [sys.executable, "-B", "-c", program, *words]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=LONGEST)
    names = sorted(path.name for path in repository.root.iterdir())
    return [done.returncode, Path("mcp.json").read_text() == old, names]


# Texts


def terminal_escapes(repository: Repository) -> bool:
    """Put escapes into the names of files, keys and texts that messages show."""
    name = "\x1b]0;pwned\x07\x1b[2J"
    Path(name).write_text("{")
    Path("config").write_text('{"\\u001b[2J": 1, "\\u001b[2J": 2}')
    outputs = [
        run("install", *SERVER, "vscode", "--config", name),
        run("install", *SERVER, "vscode", "--config", "config"),
        run("call", "tools.py", "echo", "--state", name),
        run("pin", "tools.py", "-o", f"{name}/x"),
        run("list", name),
        run("uninstall", name, "--client", "vscode", "--config", "config"),
    ]
    return any("\x1b" in text or "\x07" in text for _, text in outputs)


def state_of(content: str, name: str = "state.yaml") -> Callable[[], Any]:
    def act(repository: Repository) -> list[Any]:
        Path(name).write_text(content)
        status, text = run("call", "tools.py", "echo", "--state", name)
        return [status, CANARY in text]

    return in_repository(act)


def temporary_names(repository: Repository) -> list[Any]:
    """Plant files with the names of temporary ones."""
    (repository.root / ".ahvn-0123456789abcdef.tmp").symlink_to(repository.victim)
    Path(".ahvn-0123456789abcdee.tmp").mkdir()
    return [install_here()[0], repository.is_home_unchanged()]


def found_nothing(outcome: Outcome) -> bool:
    return outcome.error is None and outcome.value == []


ATTACKS = [
    *(
        Attack(f"planted for {name}", planted(write, ".py" * (name == "new")), found_nothing)
        for name, write in WRITERS.items()
    ),
    Attack("linked folders", in_repository(in_a_linked_folder), equals([1, 1])),
    *(
        Attack(
            f"a link beside the approval store: {suffix}",
            beside(f"s.db{suffix}", lambda: SQLiteApprovalStore("s.db")),
            equals(True),
        )
        for suffix in ("-wal", "-shm", "-journal")
    ),
    *(
        Attack(f"a link beside Knowledge: {suffix}", beside(f"k.db{suffix}", lambda: Knowledge("k.db")), equals(True))
        for suffix in ("-wal", "-shm", "-journal")
    ),
    Attack(
        "a link in place of the lock of pins",
        beside("p.json.lock", lambda: Pins("p.json").check("s", [])),
        equals(True),
    ),
    Attack("a link in place of the copy of a configuration", beside("mcp.json.bak", install_here), equals(True)),
    Attack("a link in place of the old stderr", beside("out.1", stderr_of_three_chunks), equals(True)),
    Attack("links in place of 2,000 copies", in_repository(after_many_copies), equals([0, "{}", True])),
    Attack("temporary names", in_repository(temporary_names), equals([0, True])),
    Attack("hard links", in_repository(written_through_a_hard_link), equals([1, True])),
    Attack("a private configuration", in_repository(modes_of_a_configuration), equals(["100640", "100600", "100600"])),
    Attack("setuid and setgid", in_repository(modes_after_a_write(0o6755)), equals(["100755", "100755"])),
    Attack("a file that cannot be written", in_repository(modes_after_a_write(0o400)), equals(["100400", "100400"])),
    Attack("deep JSON", edited("vscode", '{"a": ' + "[" * 100_000), UNCHANGED),
    Attack("deep JSON that ends", edited("vscode", '{"a": ' + '{"a": ' * 5000 + "1" + "}" * 5001), UNCHANGED),
    Attack("deep TOML", edited("codex", f"a = {'[' * 5000}{']' * 5000}\n"), UNCHANGED),
    Attack("deep YAML", edited("goose", f"a: {'[' * 5000}{']' * 5000}\n"), UNCHANGED),
    Attack("aliases that repeat themselves", edited("goose", ALIAS_BOMB), UNCHANGED),
    Attack("an alias in itself", edited("goose", "a: &a [*a]\n"), UNCHANGED),
    Attack("a YAML tag", edited("goose", "a: !!python/object/apply:os.system ['touch pwned']\n"), UNCHANGED),
    Attack("a merge key", edited("goose", "a: &a {x: 1}\n<<: *a\n"), UNCHANGED),
    Attack("two documents", edited("goose", "a: 1\n---\nb: 2\n"), UNCHANGED),
    Attack("duplicate keys in YAML", edited("goose", "extensions:\n  one: 1\n  one: 2\n"), UNCHANGED),
    Attack("duplicate keys in JSON", edited("cursor", '{"mcpServers": {"one": {}, "one": {}}}'), UNCHANGED),
    Attack("no UTF-8", edited("cursor", b"\xff\xfe{\0}\0"), UNCHANGED),
    Attack("a number without end", edited("cursor", f'{{"a": {"9" * 5000}}}'), UNCHANGED),
    Attack("a comment without end", edited("vscode", "/*" * 100_000), UNCHANGED),
    Attack("another kind of section", edited("codex", "[[mcp_servers]]\n"), UNCHANGED),
    Attack("a table in a text", in_repository(servers_of_a_toml), equals(["one", "two"])),
    Attack("a header that a pattern reads slowly", edited("codex", SLOW_HEADER, "--force"), equals([0, 0, False])),
    Attack("variables in an env file", in_repository(variables_in_an_env_file), equals([2] * 16)),
    Attack("broken env files", in_repository(broken_env_files), equals([2] * 4)),
    Attack("variables in a path", in_repository(variables_in_a_path), equals([2] * 3)),
    Attack(
        "a shell in a path",
        in_repository(shell_in_a_path),
        equals(["a; touch pwned `touch pwned` && x/tools.py", "False"]),
    ),
    Attack("a file that pytest runs", written_files("test_all", "text/plain"), equals(["result-test_all.txt"])),
    Attack("a file that npm reads", written_files("package", "application/json"), equals(["result-package.json"])),
    Attack("a file that agents read", written_files("CLAUDE", "text/markdown"), equals(["result-CLAUDE.md"])),
    Attack("a file that pip reads", written_files("requirements", "text/plain"), equals(["result-requirements.txt"])),
    Attack("a device as a name", written_files("CON", "image/png"), equals(["result-CON.png"])),
    Attack("a program as a type", written_files("a", "application/x-sh"), equals(["result-a.bin"])),
    Attack(
        "a recording that is nested deeply", replayed(lambda _: '{"recording":2,"x":' + "[" * 200_000), NOT_A_RECORDING
    ),
    Attack("a recording of a tool without a name", replayed(lambda line: {**line, "tool": ["echo"]}), NOT_A_RECORDING),
    Attack("a recording with another digest", replayed(lambda line: {**line, "digest": {"a": 1}}), NOT_A_RECORDING),
    Attack("a recording with a number of chunks", replayed(lambda line: {**line, "chunks": 5}), NOT_A_RECORDING),
    Attack("a recording with a text as result", replayed(lambda line: {**line, "result": "x"}), NOT_A_RECORDING),
    Attack("a recording with an id", replayed(result_with(id="forged")), NOT_A_RECORDING),
    Attack("a recording with a rendering", replayed(result_with(rendering={})), NOT_A_RECORDING),
    Attack("a recording with unknown blocks", replayed(result_with(blocks=[{"type": "x"}])), NOT_A_RECORDING),
    Attack("a recording with half an error", replayed(result_with(error={"code": 5})), NOT_A_RECORDING),
    Attack("a recording with a text as meta", replayed(result_with(meta="x")), NOT_A_RECORDING),
    Attack("a recording that changes", in_repository(recorded_while_it_is_replaced), equals(["a", 2, True])),
    Attack(
        "a store with an endless trigger", hostile_store(_table(), ENDLESS), raises(ToolkitError, "another program")
    ),
    Attack(
        "a store that is a view", hostile_store("CREATE VIEW approvals AS SELECT 1 AS request_id"), raises(ToolkitError)
    ),
    Attack("a store with other columns", hostile_store("CREATE TABLE approvals (request_id)"), raises(ToolkitError)),
    Attack("a store that is no database", hostile_bytes(b"x" * 5000, SQLiteApprovalStore), raises(ToolkitError)),
    Attack(
        "a store that is broken",
        hostile_bytes(b"SQLite format 3\0" + b"\xff" * 5000, SQLiteApprovalStore),
        raises(ToolkitError),
    ),
    Attack("deep pins", hostile_bytes(b"[" * 100_000, Pins), raises(ToolkitError, "it is not JSON")),
    Attack("pins of another form", hostile_bytes(b'{"version": 1, "servers": {"s": 1}}', Pins), raises(ToolkitError)),
    Attack("a lock file of the user", in_repository(pins_beside_a_lock_file), equals([MINE])),
    Attack(
        "a deep lock file", hostile_bytes(b"[" * 100_000, definition_lock.read), raises(ToolSpecError, "it is not JSON")
    ),
    Attack("an alias bomb as state", state_of(f"{ALIAS_BOMB}secret: {CANARY}\n"), equals([2, False])),
    Attack("a deep state", state_of(f'{{"{CANARY}": ' + "[" * 100_000, "state.json"), equals([2, False])),
    Attack("escapes for the terminal", in_repository(terminal_escapes), equals(False)),
    Attack(
        "modules in the folder of a client",
        in_repository(modules_in_the_folder_of_a_client),
        equals(False),
        is_slow=True,
    ),
    Attack("a full disk", in_repository(on_a_full_disk), equals([1, True, ["mcp.json", "tools.py"]]), is_slow=True),
    Attack("12 commands, and kills", in_repository(commands_that_are_killed), equals([0, [], True, []]), is_slow=True),
    *(
        Attack(f"10 GB as {name}", act, equals(True), is_slow=True)
        for name, act in {
            "configuration": limited("install", *SERVER, "vscode", "--config", "f", file="f"),
            "TOML": limited("install", *SERVER, "codex", "--config", "f", file="f"),
            "YAML": limited("install", *SERVER, "goose", "--config", "f", file="f"),
            "env file": limited("install", *SERVER, "cursor", "--config", "c", "--env-file", "f", file="f"),
            "state": limited("call", "tools.py", "echo", "--state", "f", file="f"),
            "argument": limited("call", "tools.py", "echo", "text@=f", file="f"),
            "lock file": limited("pin", "tools.py", file="tools.lock"),
        }.items()
    ),
    Attack("10 GB as pins", huge(Pins), raises(ToolkitError, "more than"), is_slow=True),
    Attack("10 GB as recording", huge(replay), raises(ToolSpecError, "more than"), is_slow=True),
    Attack("10 GB to record to", huge(record), raises(ToolSpecError, "more than"), is_slow=True),
    *(
        Attack(
            f"a race for {name}, {target}", raced(lambda write=write: write("out"), target), equals(True), is_slow=True
        )
        for name, write in WRITERS.items()
        if name not in {"new", "stderr"}
        for target in (".bashrc", "new")
    ),
    Attack("a race for stderr", raced(stderr_of_three_chunks), equals(True), is_slow=True),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
