"""A program in a folder that a model may write is not run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools.builtins import Git, Shell, Workspace
from ahvn_tools.builtins.processes.confinement import find_trusted_program
from ahvn_tools.toolkit import Toolkit


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two others. Programs in `one`, which come first on PATH, leave a trace."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    for program in ("git", "evil"):
        (tmp_path / "one" / program).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{program}\n")
        (tmp_path / "one" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/one{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def traces(place: Path) -> list[str]:
    return [path.name for path in place.glob("ran-*")]


def test_a_program_is_found_outside_of_the_untrusted_folders(place: Path) -> None:
    assert find_trusted_program("evil", []) == str(place / "one" / "evil")
    assert find_trusted_program("evil", [place / "two"]) == str(place / "one" / "evil")
    for untrusted in (place / "one", place, Path("/")):
        assert find_trusted_program("evil", [untrusted]) is None
    assert find_trusted_program("no-such-program", []) is None


def test_a_link_into_an_untrusted_folder_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "two" / "evil").symlink_to(place / "one" / "evil")
    monkeypatch.setenv("PATH", str(place / "two"))
    assert find_trusted_program("evil", [place / "one"]) is None


def test_a_link_in_an_untrusted_folder_is_not_trusted_whatever_path_the_folder_has(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "one" / "linked").symlink_to(place / "two" / "evil")
    (place / "two" / "evil").symlink_to("/bin/sh")
    (place / "name").symlink_to(place / "one")
    for folder in (place / "name", place / "two" / ".." / "one"):
        monkeypatch.setenv("PATH", str(folder))
        assert find_trusted_program("linked", [place / "one"]) is None
        assert find_trusted_program("linked", []) == str(folder / "linked")


@pytest.mark.parametrize("path", ["", ".", "one", "relative/../one"])
def test_a_relative_folder_of_path_is_not_searched(place: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(place / "one")
    monkeypatch.setenv("PATH", path)
    assert find_trusted_program("evil", []) is None


@pytest.mark.skipif(shutil.which("sh", path="/usr/bin") is None, reason="the system has it elsewhere")
def test_a_program_of_the_system_is_found_where_everything_is_untrusted(place: Path) -> None:
    assert find_trusted_program("sh", [Path("/")]) in {"/usr/bin/sh", "/bin/sh"}


@pytest.mark.skipif(shutil.which("git", path="/usr/bin") is None, reason="git is not installed")
@pytest.mark.parametrize("call_roots", ["narrow", "replace"])
def test_no_tool_runs_a_program_that_this_or_another_session_may_have_written(place: Path, call_roots: Any) -> None:
    for own, of_call in (
        ([place / "two", place / "one"], place / "two"), ([place / "two"], place), ([place], place / "two"),
    ):  # fmt: skip
        workspace = Workspace(own, call_roots=call_roots, approve="never")
        kit = Toolkit("kit").add(workspace, Git(workspace, approve="never"))
        for name, arguments in {
            "git_cmd": {"uri": str(place / "two"), "args": "init"},
            "git_status": {"uri": str(place / "two")},
        }.items():
            if call_roots == "replace" or own != [place / "two"]:
                assert not kit.exec(name, arguments, roots=[of_call]).is_error
    assert traces(place) == []


def test_a_command_whose_program_the_call_may_have_written_needs_an_approval(place: Path) -> None:
    shutil.copy(place / "one" / "evil", place / "one" / "ls")
    workspace = Workspace(place / "two", call_roots="replace")
    kit = Toolkit("kit", approver=lambda request: "not now").add(
        Shell(workspace, environment={"PATH": os.environ["PATH"]}, allow=["ls"])
    )
    command = {"uri": str(place / "two"), "cmd": "ls"}
    for roots, is_asked in (([place], True), ([place / "two"], False)):
        assert ("not now" in kit.exec("shell_exec", command, roots=roots).text) == is_asked
