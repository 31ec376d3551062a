"""Where get_warning_error finds its checkers, and what it does with one that fails."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.workspace.diagnostics import DiagnosticsTools

FILES = {"a.py": "x = = 1\n", "b.py": "y = 1\n", "a.js": "let a = ;\n", "a.sh": "if\n", "A.java": "class {\n"}
NAMES = ("ruff", "pyright", "mypy", "gcc", "javac", "node", "bash")
ELSEWHERE = {
    "ruff": "echo '/etc/passwd:1:1: F821 m'",
    "pyright": "echo '/etc/passwd:1:1 - error: m (reportAny)'; exit 1",
    "mypy": "echo '/etc/passwd:1:1: error: m  [misc]'; exit 1",
    "javac": "echo '/etc/A.java:1: error: m' >&2; exit 1",
    "gcc": "echo '/etc/passwd:1:1: error: m' >&2; exit 1",
    "bash": "echo '/etc/passwd: line 1: m' >&2; exit 1",
}


class Diagnostics(DiagnosticsTools):
    pass


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    return root


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, scripts: dict[str, str]) -> None:
    """Make a folder with Python and programs the only one in which programs are found; bubblewrap was found before."""
    choose_sandbox("auto")
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (folder / "python").symlink_to(sys.executable)
    if bubblewrap := shutil.which("bwrap"):
        (folder / "bwrap").symlink_to(bubblewrap)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", f".{os.pathsep}{folder}")


def check(root: Path, **arguments: object) -> str:
    return str(Toolkit("diagnostics").add(Diagnostics(root)).call("get_warning_error", arguments))


def test_a_checker_that_fails_is_named_and_the_syntax_check_is_used_instead(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.c").write_text("int x;\n")
    install(tmp_path / "bin", monkeypatch, dict.fromkeys(NAMES, "echo failed; exit 3"))
    result = check(root)
    for name in ("ruff", "javac", "node"):
        assert f"{name} was not used for " in result
    assert "pyright was not used for b.py: it did not return its results." in result
    assert "FILE: a.py\n[Error] Line 1:5 - SyntaxError: invalid syntax (Python syntax)" in result
    assert "FILE: A.java\n[Error] Line 1:" in result
    assert "FILE: a.js\n[Error] Line 1:" in result
    assert "mypy was not used for b.py: it did not return its results." in check(root, checkers=["mypy"])


def test_problems_of_other_files_are_not_shown(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch, ELSEWHERE)
    for name in ELSEWHERE:
        result = check(root, uri="b.py", checkers=[name])
        assert "/etc" not in result
        assert result.startswith("No warnings or errors found.")


def test_a_checker_without_output_has_not_checked(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch, {"mypy": "exit 2", "ruff": "exit 2", "pyright": "exit 2"})
    for name in ("mypy", "ruff", "pyright"):
        assert f"{name} was not used for b.py: it " in check(root, uri="b.py", checkers=[name])


def test_a_checker_that_is_not_installed_is_named_if_it_was_asked_for(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", monkeypatch, {})
    assert "ruff is not installed." in check(root, checkers=["ruff"])
    result = check(root)
    assert "not installed" not in result
    assert "(Python syntax)" in result
    assert "Not checked: 1 file (.sh), for which no checker could be used." in result


def test_checkers_in_the_roots_are_never_run(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = tmp_path / "canary"
    (root / "a.c").write_text("int x;\n")
    install(root / "bin", monkeypatch, dict.fromkeys(NAMES, f"touch {canary}"))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/bash").symlink_to(root / "bin/bash")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{root}/bin{os.pathsep}{tmp_path}/linked")
    result = check(root)
    for name in NAMES:
        assert f"{name} is not used, because it is in the folders that this tool may use." in result
    assert "(Python syntax)" in result
    assert not canary.exists()


def test_a_checker_of_a_language_that_the_files_are_not_in_is_not_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(root / "bin", monkeypatch, dict.fromkeys(NAMES, "exit 1"))
    named = {name for name in NAMES if f"{name} is not used" in check(root, uri="b.py")}
    assert named == {"ruff", "pyright", "mypy"}
    assert "node is not used" in check(root, uri="b.py", checkers=["node"])
