"""get_warning_error: what each checker finds, in one form."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ahvn_tools import Toolkit
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.processes.private_folder import private_folder
from ahvn_tools.builtins.workspace.diagnostics import DiagnosticsTools
from ahvn_tools.errors import ToolError


class Diagnostics(DiagnosticsTools):
    pass


def check(*roots: Path, **arguments: object) -> str:
    return str(Toolkit("diagnostics").add(Diagnostics(roots)).call("get_warning_error", arguments))


def needs(program: str) -> pytest.MarkDecorator:
    found = shutil.which(program) or shutil.which(program, path=Path(sys.executable).parent)
    return pytest.mark.skipif(not found, reason=f"{program} is not installed")


def test_problems_are_sorted_by_file_and_line_in_one_form(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/b.json").write_text('{"a": 1,\n"b": 2,}\n')
    (tmp_path / "data/a.toml").write_text("x = 1\ny = = 2\n")
    (tmp_path / "c.yaml").write_text("a: [1\nb: 2\n")
    (tmp_path / "d.rb").write_text("def f(\nend\n")
    (tmp_path / "e.go").write_text("package main\nfunc main( {\n}\n")
    (tmp_path / "f.json").write_text("{}")
    assert check(tmp_path) == snapshot("""\
Found 5 problems in 5 files:

FILE: c.yaml
[Error] Line 2:2 - expected ',' or ']', but got ':' (YAML syntax)

FILE: d.rb
[Error] Line 1:1 - Syntax error at 'def f( end'. (Ruby syntax)

FILE: data/a.toml
[Error] Line 2:5 - Invalid value (TOML syntax)

FILE: data/b.json
[Error] Line 2:8 - Expecting property name enclosed in double quotes (JSON syntax)

FILE: e.go
[Error] Line 2:11 - Syntax error: ')' is missing. (Go syntax)

Checked by syntax check: 6 files.\
""")


WRONG = 'def f(x: int) -> str:\n    return x\n\n\nf("a")\n'
CHECKED = {
    "ruff": ("import os\n\nprint(undefined)\n", ["[Warning] Line 1:8 - ", "[Error] Line 3:7 - "]),
    "pyright": (WRONG, ["[Error] Line 2:12 - ", "[Error] Line 5:3 - "]),
    "mypy": (WRONG, ["[Error] Line 2:12 - ", "[Error] Line 5:3 - "]),
}
SLOW = {"pyright": pytest.mark.exhaustive}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[needs(n), *([SLOW[n]] if n in SLOW else [])]) for n in CHECKED]
)
def test_each_checker_that_is_installed_finds_the_errors_of_python(name: str, tmp_path: Path) -> None:
    text, expected = CHECKED[name]
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "correct.py").write_text("x = 1\n")
    result = check(tmp_path, checkers=[name])
    lines = [line for line in result.splitlines() if line.startswith("[")]
    assert len(lines) == len(expected)
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start)
        assert f"({name}" in line
    assert result.startswith(f"Found {len(expected)} problems in 1 files:\n\nFILE: a.py\n")
    assert f"Checked by {name}: 2 files." in result
    assert {path.name for path in tmp_path.iterdir()} == {"a.py", "correct.py"}


def test_other_languages_have_a_syntax_check_or_are_said_to_be_unchecked(tmp_path: Path) -> None:
    for name in ("a.c", "b.cpp", "c.h"):
        (tmp_path / name).write_text("int main( {")
    (tmp_path / "d.js").write_text("let a = 1;\nlet b = ;\n")
    (tmp_path / "E.java").write_text("class E {\n  int x = ;\n}\n")
    (tmp_path / "f.sh").write_text("if\n")
    result = check(tmp_path)
    assert "FILE: E.java\n[Error] Line 2:9 - " in result
    assert "FILE: d.js\n[Error] Line 2:7 - " in result
    assert "Checked by syntax check: 2 files." in result
    assert "Not checked: 2 files (.c, .cpp), for which no checker could be used." in result
    assert check(tmp_path, uri="f.sh") == check(tmp_path, uri="c.h") == "No files that can be checked."


@needs("ruff")
@needs("pyright")
def test_python_is_checked_for_types_unless_its_syntax_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(x: int) -> str:\n    return undefined\n")
    (tmp_path / "b.py").write_text("def f(:\n")
    (tmp_path / "c.py").write_text('import unknown_package\nfrom a import f\nf("a")\nunknown_package.x()\n')
    result = check(tmp_path)
    assert "Checked by ruff: 3 files.\nChecked by pyright: 2 files." in result
    assert result.count("FILE: a.py\n[Error] Line 2:12 - ") == 1  # both find it
    assert "FILE: c.py\n[Error] Line 3:3 - " in result
    assert "unknown_package" not in result


@needs("pyright")
@pytest.mark.exhaustive
def test_imports_are_found_in_the_root_and_in_src_whatever_is_checked(tmp_path: Path) -> None:
    for folder in ("src/lib", "tests", "pkg"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/lib/__init__.py").write_text("def f(x: int) -> int:\n    return x\n")
    (tmp_path / "pkg/m.py").write_text("def g(x: int) -> int:\n    return x\n")
    (tmp_path / "tests/test_a.py").write_text('from lib import f\nfrom pkg.m import g\n\nf("a")\ng("a")\n')
    for uri in ("tests/test_a.py", "tests"):
        result = check(tmp_path, uri=uri, checkers=["pyright"])
        assert result.startswith("Found 2 problems in 1 files:\n\nFILE: tests/test_a.py\n[Error] Line 4:3 - ")


@needs("ruff")
def test_the_settings_of_the_project_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(undefined)\n")
    (tmp_path / "ruff.toml").write_text('lint.ignore = ["F821"]\nexclude = ["*.py"]\n')
    (tmp_path / ".ruff.toml").write_text("not toml")
    assert "[Error] Line 1:7 - Undefined name `undefined` (ruff F821)" in check(tmp_path, checkers=["ruff"])


def test_a_file_a_folder_and_a_file_uri_can_be_checked(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "a.json").write_text("{")
        (tmp_path / name / "sub/b.json").write_text("{")
    one, two = tmp_path / "one", tmp_path / "two"
    assert check(one, two).count("FILE: ") == 2
    assert "\nFILE: sub/b.json\n" in check(one, two, uri="sub")
    assert "\nFILE: a.json\n" in check(one, two, uri=(one / "a.json").as_uri())
    assert f"\nFILE: {two}/sub/b.json\n" in check(one, two, uri=str(two / "sub"))


def test_ignored_and_hidden_files_and_settings_with_comments_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("build/a.json", ".hidden/b.json", "tsconfig.json", "notes.txt", "a.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{ // comment")
    assert check(tmp_path) == "No files that can be checked."
    assert "Found 1 problems" in check(tmp_path, uri="build/a.json")


def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"{}" + b" " * 2_000_000)
    (tmp_path / "b.json").write_bytes(b"\0\0\0")
    (tmp_path / "c.cpp").write_text("int x;")
    result = check(tmp_path, checkers=["ruff"])
    assert result.startswith("No warnings or errors found.\n\n")
    assert "Not checked: 2 files (.cpp, .json), for which no checker could be used." in result
    assert "a.json is not checked: 'a.json' has 2,000,002 bytes" in result
    assert "b.json is not checked: it is no text." in check(tmp_path, uri="b.json")


@pytest.mark.exhaustive
def test_more_problems_are_shown_by_skip(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"f{number:03}.json").write_text("{")
    first, second, third = (check(tmp_path, skip=skip) for skip in (0, 200, 300))
    assert first.count("[Error]") == 200
    assert "(Limit reached: showing problems 1 to 200. Go on with skip=200, or pass a file as uri.)" in first
    assert second.count("[Error]") == 50
    assert "FILE: f200.json" in second
    assert "(There are no more problems: skip=300 leaves out all.)" in third
    kit = Toolkit("diagnostics").add(Diagnostics(tmp_path, max_output_chars=2_000))
    assert len(str(kit.call("get_warning_error", {}))) < 2_500


def test_bad_arguments_and_missing_files_are_errors_for_the_model(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="skip of at least 0"):
        check(tmp_path, skip=-1)
    with pytest.raises(ToolError, match=r"no file or folder 'missing\.py'"):
        check(tmp_path, uri="missing.py")
    with pytest.raises(ToolError, match="outside of the folders"):
        check(tmp_path, uri="/etc")


def test_the_copy_of_the_files_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({}))
    assert "No warnings" in check(tmp_path)
    assert not list(private_folder.path.glob("check-*"))


@pytest.mark.exhaustive
def test_five_hundred_files_are_checked_and_the_rest_is_said(tmp_path: Path) -> None:
    for number in range(510):
        (tmp_path / f"f{number:03}.py").write_text("print(undefined)\n" if number == 499 else "x = 1\n")
    result = check(tmp_path)
    assert "Found 1 problems in 1 files:\n\nFILE: f499.py" in result
    assert "Not checked: files after the first 500. Pass a smaller folder, or a file, as uri." in result


# The programs: where they are found, and what is done with one that fails.

ELSEWHERE = {
    "ruff": "echo '/etc/passwd:1:1: F821 m'",
    "pyright": "echo '/etc/passwd:1:1 - error: m (reportAny)'; exit 1",
    "mypy": "echo '/etc/passwd:1:1: error: m  [misc]'; exit 1",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_text("x = = 1\n")
    (root / "b.py").write_text("y = 1\n")
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


def test_a_checker_that_fails_is_named_and_the_syntax_check_is_used_instead(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", monkeypatch, dict.fromkeys(CHECKED, "echo failed; exit 3"))
    result = check(root)
    assert "ruff was not used for 2 files: it did not return its results." in result
    assert "pyright was not used for b.py: it did not return its results." in result
    assert "FILE: a.py\n[Error] Line 1:5 - SyntaxError: invalid syntax (Python syntax)" in result
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


def test_checkers_in_the_roots_are_never_run(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = tmp_path / "canary"
    install(root / "bin", monkeypatch, dict.fromkeys(CHECKED, f"touch {canary}"))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/ruff").symlink_to(root / "bin/ruff")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{root}/bin{os.pathsep}{tmp_path}/linked")
    (root / "a.json").write_text("{}")
    assert "is not used" not in check(root, uri="a.json")
    result = check(root)
    for name in CHECKED:
        assert f"{name} is not used, because it is in the folders that this tool may use." in result
    assert "(Python syntax)" in result
    assert not canary.exists()
