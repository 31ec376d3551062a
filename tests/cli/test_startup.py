"""What the command imports: a short command must not wait for what it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ahvn_tools.cli.app import COMMANDS
from tests.cli.served import ENVIRONMENT, LONGEST

SLOW = (
    "asyncio", "ssl", "fastmcp", "mcp", "mcp_types", "yaml", "rich", "httpx2", "uvicorn", "cloudpickle", "sqlite3",
    "jsonschema_rs", "openai", "anthropic", "google.genai", "langchain_core",
)  # fmt: skip
"""Modules that take long to import."""

PROGRAM = """
import contextlib, io, json, sys
from ahvn_tools.cli.app import main

with contextlib.redirect_stdout(io.StringIO()):
    status = main(sys.argv[1:])
print(json.dumps([status, [name for name in sys.modules]]))
"""

TOOLS = "from ahvn_tools import tool\n@tool\ndef add(left: int, right: int = 2) -> int:\n    'Add.'\n    return left\n"


def imported(*arguments: str) -> set[str]:
    """Return the modules that a command has imported."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LONGEST, check=True)
    status, modules = json.loads(ran.stdout)
    assert status == 0, ran.stderr
    return set(modules)


@pytest.mark.parametrize("command", ["list", pytest.param("show", marks=pytest.mark.exhaustive)])
def test_a_local_file_is_read_without_slow_imports(tmp_path: Path, command: str):
    file = tmp_path / "tools.py"
    file.write_text(TOOLS)
    modules = imported(command, str(file), *(["add"] if command == "show" else []))
    assert "ahvn_tools.toolkit.toolkit" in modules
    assert sorted(modules & set(SLOW)) == []


@pytest.mark.exhaustive
def test_sources_are_loaded_with_garbage_collection_as_usual(tmp_path: Path):
    file = tmp_path / "tools.py"
    file.write_text(
        f"import gc\nthresholds, kept = gc.get_threshold(), gc.get_freeze_count()\n{TOOLS}"
        "import sys\nprint(thresholds, kept > 10_000, file=sys.stderr)\n"
    )
    program = "import gc, sys\nprint(gc.get_threshold(), True)\nsys.argv[1:] = ['list', sys.argv[1]]\n"
    program += "from ahvn_tools.__main__ import run\nrun()"
    command = [sys.executable, "-c", program, str(file)]
    ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LONGEST, check=True)
    assert ran.stderr.splitlines() == ran.stdout.splitlines()[:1]


@pytest.mark.exhaustive
def test_a_completion_needs_neither_pydantic_nor_a_toolkit():
    modules = imported("__complete", "export", "tools.py", "--format", "")
    assert not modules & {"pydantic", "ahvn_tools.toolkit", "ahvn_tools.spec"}


@pytest.mark.parametrize(
    "command",
    ["call", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in COMMANDS if name != "call")],
)
def test_a_command_line_is_parsed_without_pydantic(command: str):
    """Once pydantic is imported, cyclopts builds a schema of each option and validates with it."""
    assert "pydantic" not in imported(command, "--help")
