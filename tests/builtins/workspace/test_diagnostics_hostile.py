"""get_warning_error on hostile projects: nothing of them is executed, and nothing outside of them is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.workspace.diagnostics import DiagnosticsTools

needs_bubblewrap = pytest.mark.skipif(choose_sandbox("auto") == "none", reason="bubblewrap does not work here")
PROGRAMS = ("ruff", "pyright", "mypy", "node", "bash", "python", "python3", "git")
MODULES = ("conftest", "sitecustomize", "usercustomize", "plugin", "ast", "json", "os", "encodings", "parser_program")
SETTINGS = {
    "mypy.ini": "[mypy]\nplugins = ./plugin.py\npython_executable = ./python\n",
    "setup.cfg": "[mypy]\nplugins = ./plugin.py\n",
    "pyproject.toml": '[tool.mypy]\nplugins = ["./plugin.py"]\n[tool.pyright]\nvenvPath = "."\nvenv = "bin"\n',
    "pyrightconfig.json": '{"pythonPath": "./python", "venvPath": ".", "venv": "bin"}',
    "package.json": '{"type": "module", "main": "./run.js"}',
    ".npmrc": "node-options=--require=./run.js\n",
    "Makefile": "$(shell touch canary)\n",
}


class Diagnostics(DiagnosticsTools):
    pass


def check(root: Path, **arguments: object) -> str:
    return str(Toolkit("diagnostics").add(Diagnostics(root)).call("get_warning_error", arguments))


def make_hostile(root: Path, canary: Path) -> None:
    """Write a project in which everything that could be executed makes the canary."""
    root.mkdir()
    (root / "bin").mkdir()
    for program in PROGRAMS:
        for place in (root, root / "bin"):
            (place / program).write_text(f"#!/bin/sh\ntouch {canary}\n")
            (place / program).chmod(0o755)
    for module in MODULES:
        (root / f"{module}.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
    for name, text in SETTINGS.items():
        (root / name).write_text(text)
    (root / "evil.pth").write_text(f"import os; open({str(canary)!r}, 'w').close()\n")
    (root / "main.py").write_text("# mypy: plugins=./plugin.py\nimport plugin\nprint(undefined)\n")
    (root / "cookie.py").write_text("# -*- coding: plugin -*-\nx = 1\n")
    (root / "run.js").write_text(f"require('fs').writeFileSync({str(canary)!r}, '');\nlet x = ;\n")
    (root / "run.sh").write_text(f"touch {canary}\n$(touch {canary})\nif\n")


def check_in_new_process(root: Path, path: str) -> str:
    """Return the result of a process that runs in the project itself, with another PATH."""
    code = textwrap.dedent("""
        import sys
        sys.path.insert(0, sys.argv[2])
        from ahvn_tools import Toolkit
        from ahvn_tools.builtins.workspace.diagnostics import DiagnosticsTools

        class Diagnostics(DiagnosticsTools):
            pass

        kit = Toolkit("diagnostics").add(Diagnostics(sys.argv[1]))
        print(kit.call("get_warning_error", {}))
        print(kit.call("get_warning_error", {"checkers": ["mypy"]}))
    """)
    package = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(root), package], capture_output=True, text=True, check=False, cwd=root,
        env={**os.environ, "PATH": path}, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def folder_of_programs(folder: Path, names: tuple[str, ...]) -> str:
    folder.mkdir()
    for name in names:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "sandbox", [pytest.param("bubblewrap", marks=[needs_bubblewrap, pytest.mark.exhaustive]), "none"]
)
@pytest.mark.exhaustive
def test_nothing_of_a_hostile_project_is_executed(sandbox: str, tmp_path: Path) -> None:
    root, canary = tmp_path / "root", tmp_path / "canary"
    make_hostile(root, canary)
    names = ("node", "bash", "bwrap") if sandbox == "bubblewrap" else ("node", "bash")
    programs = folder_of_programs(tmp_path / "programs", names)
    files = sorted(root.rglob("*"))
    result = check_in_new_process(root, f".{os.pathsep}{root}{os.pathsep}{root / 'bin'}{os.pathsep}{programs}")
    assert "FILE: main.py\n" in result
    assert not canary.exists()
    assert sorted(root.rglob("*")) == files


def test_the_hostile_project_would_make_the_canary(tmp_path: Path) -> None:
    """The project of the tests above does what it is made for."""
    canary = tmp_path / "canary"
    make_hostile(tmp_path / "root", canary)
    subprocess.run([tmp_path / "root/bin/ruff"], check=True)
    assert canary.exists()


HOSTILE = {
    "deep.json": b"[" * 200_000,
    "digits.json": b"9" * 900_000,
    "deep.toml": b"a = " + b"[" * 200_000,
    "keys.toml": b".".join([b"a"] * 100_000) + b" = 1",
    "aliases.yaml": b"a0: &a0 [x, x]\n"
    + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 40)),
    "tag.yaml": b"!!python/object/apply:os.system ['touch /tmp/ahvn-canary']\n",
    "deep.py": b"(" * 100_000,
    "nul.py": b"a\0b",
    "latin.py": b'x = "\xff"\n',
    "deep.sh": b"(" * 200_000,
    "deep.js": b"[" * 500_000,
    "newlines.js": b"\n" * 900_000,
    "angles.cs": b"a<" * 100_000,
    "new\nline.json": b"{",
    "-option.json": b"{",
    "@file.java": b"-version",
    "[a]*.py": b"x = = 1",
    "\u202e.json": b"{",
}


QUICK = {"deep.json", "aliases.yaml", "tag.yaml", "newlines.js", "deep.py", "new\nline.json"}
"""The others are left to the exhaustive tests."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive) for name in HOSTILE]
)
@pytest.mark.default_cases(2)
def test_a_hostile_file_ends_in_time_and_the_others_are_checked(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name])
    (tmp_path / "own.toml").write_text("a = = 1")
    before = psutil.Process().children(recursive=True)
    result = check(tmp_path)
    assert "FILE: own.toml\n[Error] Line 1:5 - " in result
    assert "\u202e" not in result
    assert not any(line == "line.json" for line in result.splitlines())
    assert not Path("/tmp/ahvn-canary").exists()
    assert not set(psutil.Process().children(recursive=True)).difference(before)
