"""A command that is one text has the words that its platform sees."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.command_words import split_command
from ahvn_tools.mcp.client.targets import resolve_targets

WORDS = st.lists(st.text(st.sampled_from('ab\\" \t:é'), max_size=6), min_size=1, max_size=4)


@given(WORDS)
def test_words_that_windows_joins_are_the_same_after_splitting(words: list[str]) -> None:
    assert split_command(subprocess.list2cmdline(words), platform="win32") == words


@given(WORDS)
def test_words_that_a_posix_shell_joins_are_the_same_after_splitting(words: list[str]) -> None:
    assert split_command(shlex.join(words), platform="linux") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"C:\tools\python.exe C:\srv\server.py", [r"C:\tools\python.exe", r"C:\srv\server.py"]),
        (r'"C:\Program Files\node.exe" \\host\share\x.js', [r"C:\Program Files\node.exe", r"\\host\share\x.js"]),
        (r"run 'my notes' C:\O'Brien\x.py it's", ["run", "my notes", r"C:\O'Brien\x.py", "it's"]),
        ('run "it\'s "here', ["run", "it's here"]),
        ("  ", []),
        ('run ""', ["run", ""]),
    ],
)
def test_backslash_is_part_of_a_path_on_windows(text: str, words: list[str]) -> None:
    assert split_command(text, platform="win32") == words


@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_quote_that_is_not_closed_is_an_error(platform: str) -> None:
    with pytest.raises(ValueError, match="No closing quotation"):
        split_command('run "it', platform=platform)


def test_command_of_a_server_keeps_its_backslashes_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        (target,) = resolve_targets(r"uvx C:\notes\server")
    assert target.name == r"C:\notes\server"


def test_commands_are_split_in_one_place() -> None:
    files = (Path(__file__).parents[1] / "ahvn_tools").rglob("*.py")
    assert [file.name for file in files if "shlex.split(" in file.read_text("utf-8")] == ["command_words.py"]
