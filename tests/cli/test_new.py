"""`ahvn-tools new`: what it writes works in a fresh folder, and nothing is overwritten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from ahvn_tools.cli.new import MAX_NAME_CHARS
from tests.cli.served import ENVIRONMENT, LONGEST, run

FILES = {
    "tool": ["count_words.py", "test_count_words.py"],
    "registry": ["notes.py", "test_notes.py"],
    "toolkit": ["notes.py", "test_notes.py", "toolkit.yaml"],
}
CHECKS = [
    ["ruff", "check", "--isolated", "--no-cache"],
    ["ruff", "format", "--isolated", "--no-cache", "--check"],
    ["mypy", "--strict", "--config-file="],
    ["pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-o", "asyncio_default_fixture_loop_scope=function"],
]


@pytest.mark.parametrize("kind", FILES)
def test_it_writes_the_files_and_says_what_to_do_next(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES[kind]
    printed = capsys.readouterr().out
    assert all(name in printed for name in FILES[kind])
    assert f"ahvn-tools list {FILES[kind][-1] if kind == 'toolkit' else FILES[kind][0]}\n" in printed
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["new", kind]) == 1
    assert "exists: nothing was written." in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all tests share: without it, mypy reads the package each time."""
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", FILES)
def test_the_files_pass_ruff_mypy_and_their_own_tests(kind, tmp_path, mypy_cache):
    assert run("new", kind, cwd=tmp_path).returncode == 0
    for check in CHECKS:
        run_check(check, tmp_path, mypy_cache)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["ab", "a" * MAX_NAME_CHARS])
@pytest.mark.parametrize("kind", FILES)
def test_the_files_are_formatted_with_any_name(kind, name, tmp_path, mypy_cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, name]) == 0
    for check in CHECKS[:2]:
        run_check(check, tmp_path, mypy_cache)


def run_check(check: list[str], folder: Path, mypy_cache: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", *check, "."],
        cwd=folder,
        env={**ENVIRONMENT, "PATH": str(Path(sys.executable).parent), "MYPY_CACHE_DIR": str(mypy_cache)},
        capture_output=True,
        text=True,
        timeout=LONGEST * 20,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", FILES)
def test_the_commands_that_it_prints_work(kind, tmp_path):
    printed = run("new", kind, cwd=tmp_path).stdout
    source = "toolkit.yaml" if kind == "toolkit" else FILES[kind][0]
    call = ["count_words", "text=to be or not to be"] if kind == "tool" else ["find", "word=plants"]
    assert f"ahvn-tools call {source} {call[0]} " in printed
    assert run("list", source, cwd=tmp_path).returncode == 0
    assert run("call", source, *call, cwd=tmp_path).returncode == 0


def test_the_place_is_a_folder_or_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "tool", "find_note", "-o", "deep/tools"]) == 0
    assert (tmp_path / "deep" / "tools" / "test_find_note.py").is_file()
    assert main(["new", "registry", "-o", "lists/garden.py"]) == 0
    assert "class Garden(ToolRegistry)" in (tmp_path / "lists" / "garden.py").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tool", "Notes"], "must be a Python name in lower case"),
        (["tool", "two words"], "must be a Python name in lower case"),
        (["tool", "../notes"], "must be a Python name in lower case"),
        (["tool", "test_notes"], "must be a Python name in lower case"),
        (["tool", "match"], "is a word of Python"),
        (["tool", "list"], "is a word of Python"),
        (["tool", "json"], "is the name of another module"),
        (["tool", "a" * (MAX_NAME_CHARS + 1)], f"has more than {MAX_NAME_CHARS} characters"),
        (["tool", "notes", "-o", "other.py"], "The name 'notes' and the file 'other.py' differ"),
        (["tols"], "Invalid value"),
    ],
)
def test_a_name_that_does_not_fit_is_an_error(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "count_words.py").symlink_to(tmp_path / "nowhere.py")
    assert main(["new", "tool"]) == 1
    assert "exists" in capsys.readouterr().err
    assert not (tmp_path / "nowhere.py").exists()
