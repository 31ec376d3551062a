"""A typed program with tools: mypy and pyright know what the tools take and return, and find its two mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = '''
from typing import Any

from ahvn_tools import Toolkit, ToolResult, ToolSpec, tool


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(binds={"user": "session.user"})
async def notes(topic: str, user: str) -> list[str]:
    """Find notes."""
    return [f"{user}: {topic}"]


kit = Toolkit("desk").add(add).add(notes)
total: int = add(1) + add.call(a=1, b=2)
titles: list[str] = notes(topic="tea")
result: ToolResult = kit.session(user="ann").exec("add", {"a": 1})
tools: list[dict[str, Any]] = kit.to("bedrock")
specs: list[ToolSpec] = [add, notes]


async def main() -> str:
    """Use the types in async code."""
    return (await notes.acall(topic="tea"))[0].upper()


add("1")
text: str = add(1)
'''
file = Path(tempfile.mkdtemp()) / "program.py"
file.write_text(PROGRAM)
mistakes = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line in {'add("1")', "text: str = add(1)"}]


def run(*command: str) -> str:
    """Run a type checker with this interpreter."""
    checker = [sys.executable, "-m", *command]
    return subprocess.run(checker, cwd=file.parent, capture_output=True, text=True, timeout=500, check=False).stdout


lines = run("mypy", "--strict", "--follow-imports=silent", "--no-error-summary", file.name).splitlines()
assert [int(line.split(":")[1]) for line in lines if "error:" in line] == mistakes, lines
report = json.loads(run("pyright", "--pythonpath", sys.executable, "--outputjson", file.name))["generalDiagnostics"]
assert [each["range"]["start"]["line"] + 1 for each in report] == mistakes, report
