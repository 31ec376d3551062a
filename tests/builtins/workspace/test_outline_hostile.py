"""project_outline on hostile files: each ends in time with a reason, and the other files are outlined."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.workspace.diagnostics import DiagnosticsTools
from ahvn_tools.builtins.workspace.outline import OutlineTools
from ahvn_tools.errors import ToolError


class Outline(OutlineTools, DiagnosticsTools):
    pass


def wrapped(text: str | bytes) -> bytes:
    """Break a long text into lines, so that no file is left out for its long lines."""
    data = text.encode() if isinstance(text, str) else text
    return b"\n".join(data[i : i + 1000] for i in range(0, len(data), 1000))


TOO_MUCH = "takes too much time or memory to parse"
REASONS: dict[str, tuple[bytes, str | None]] = {
    # Measured without limits: more than 20 GB of memory.
    "angles.java": (wrapped("a<" * 100_000), TOO_MUCH),
    "angles.cs": (wrapped("a<" * 100_000), TOO_MUCH),
    "angles.cpp": (wrapped("a<" * 400_000), TOO_MUCH),
    "brackets.py": (b"(\n" * 100_000, "too many nested parentheses"),
    "minus.py": (b"(" + b"-\n" * 100_000 + b"1)", "nested too deeply to parse"),
    "sum.py": (b"(" + b"1+\n" * 100_000 + b"1)", "nested too deeply to parse"),
    "lambda.py": (b"(" + b"lambda:\n" * 100_000 + b"1)", "nested too deeply to parse"),
    "elif.py": (b"if 1:\n pass\n" + b"elif 1:\n pass\n" * 5_000, "nested too deeply to parse"),
    "nul.py": (b"a\0b", "not valid Python"),
    "nul.c": (b"int a\0b;" * 100, "binary"),
    "utf8.py": (b'x = "\xff"', "not valid Python"),
    "cookie.py": (b"# coding: no-such-codec\n", "not valid Python"),
    "cookie2.py": (b"# coding: unicode_escape\nx = '\\u0022\\u000aimport os'\n", None),
    "syntax.py": (b"def f(:\n", "not valid Python 3"),
    "huge.py": (b"x=1\n" * 300_000, "1,200,000 bytes, more than 1,000,000"),
    "zero.py": (b"", None),
    "newlines.js": (b"\n" * 900_000, None),
    "braces.js": (b"{\n" * 200_000, None),
    "classes.cpp": (b"namespace a{\n" * 50_000, None),
    "heredocs.rb": (b"<<A " * 2_000 + b"\n", None),
    "random.go": (bytes(range(32, 127)) * 50, None),
}


QUICK = {"angles.java", "brackets.py", "minus.py", "nul.c", "utf8.py", "huge.py", "newlines.js"}
"""The others are left to the exhaustive tests."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive) for name in REASONS]
)
@pytest.mark.default_cases(2)
def test_a_hostile_file_is_left_out_with_a_reason_and_the_others_are_outlined(name: str, tmp_path: Path) -> None:
    content, reason = REASONS[name]
    (tmp_path / "a.py").write_text("class A: pass\n")
    (tmp_path / f"m_{name}").write_bytes(content)
    (tmp_path / "z.go").write_text("package z\nfunc Z() {}\n")
    kit = Toolkit("outline").add(Outline(tmp_path))
    before = psutil.Process().children(recursive=True)
    text = str(kit.call("project_outline", {}))
    assert "File: a.py\n- Class A [1]" in text
    assert "File: z.go\n- Function Z [2]" in text
    if reason is None:
        assert f"m_{name}: {TOO_MUCH}" not in text
    else:
        (line,) = [line for line in text.splitlines() if line.startswith(f"- m_{name}: ")]
        assert reason in line
    assert not set(psutil.Process().children(recursive=True)).difference(before)


def test_a_parsing_process_that_does_not_start_is_no_fault_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("class A: pass\n")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(ToolError, match="could not be started"):
        Toolkit("outline").add(Outline(tmp_path)).call("project_outline", {})


def test_a_sparse_giant_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "giant.py").open("wb") as file:
        file.truncate(50_000_000_000)
    assert "50,000,000,000 bytes" in str(Toolkit("outline").add(Outline(tmp_path)).call("project_outline", {}))


def test_what_is_outside_of_the_root_and_what_is_no_file_is_never_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.py").write_text("class Secret: pass\n")
    (root / "file.py").symlink_to(outside / "secret.py")
    (outside / "secret.json").write_text("{Secret")
    (root / "file.json").symlink_to(outside / "secret.json")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "null.py").symlink_to("/dev/zero")
    os.mkfifo(root / "fifo.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket.py"))
    (root / "own.py").write_text("class Own: pass\n")
    kit = Toolkit("outline").add(Outline(root))
    text = str(kit.call("project_outline", {}))
    assert text.startswith("File: own.py\n- Class Own [1]")
    assert "Secret" not in text
    assert str(outside) not in text
    assert kit.call("get_warning_error", {}).startswith("No warnings or errors found.")
    for uri in ("file.py", "folder", "folder/secret.py", "../outside", "null.py", "fifo.py", "socket.py", "\0", "/"):
        for tool in ("project_outline", "get_warning_error"):
            text = kit.exec(tool, {"uri": uri}).text
            assert "Secret" not in text
            assert "Class" not in text


def test_a_root_of_the_call_narrows_what_is_outlined(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text("class M: pass\n")
    session = Toolkit("outline").add(Outline(tmp_path)).session(roots=[tmp_path / "a"])
    assert session.exec("project_outline", {}).text == "File: m.py\n- Class M [1]"
    assert session.exec("project_outline", {"uri": str(tmp_path / "b")}).is_error


SLOW = {"project_outline": (".rb", wrapped("a?b:" * 200_000)), "get_warning_error": (".yaml", b"[" * 100_000)}


@pytest.mark.parametrize("tool", SLOW)
async def test_a_cancelled_call_leaves_no_process(tool: str, tmp_path: Path) -> None:
    ending, content = SLOW[tool]
    for number in range(4):
        (tmp_path / f"slow{number}{ending}").write_bytes(content)
    kit = Toolkit("outline").add(Outline(tmp_path))
    before, open_files = psutil.Process().children(recursive=True), psutil.Process().num_fds()
    call: asyncio.Task[Any] = asyncio.create_task(kit.acall(tool, {}))
    while not set(psutil.Process().children(recursive=True)).difference(before):  # noqa: ASYNC110 - another process has no event
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    while set(psutil.Process().children(recursive=True)).difference(before):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    assert psutil.Process().num_fds() <= open_files + 8  # pipes of the event loop and its worker thread


@pytest.mark.exhaustive
@pytest.mark.timeout(200)
def test_many_slow_files_end_together_in_bounded_time(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"slow{number:02}.rb").write_bytes(wrapped("a?b:" * 200_000))
    (tmp_path / "a.py").write_text("class A: pass\n")
    before, started = psutil.Process().children(recursive=True), time.monotonic()
    text = str(Toolkit("outline").add(Outline(tmp_path)).call("project_outline", {}))
    assert time.monotonic() - started < 100
    assert text.startswith("File: a.py\n- Class A [1]")
    assert f"- slow00.rb: {TOO_MUCH}" in text
    assert "- slow19.rb: not parsed, because the others took too long" in text
    assert not set(psutil.Process().children(recursive=True)).difference(before)
