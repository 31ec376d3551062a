"""The cost of a fresh interpreter: import, define a tool, call it, export it; compared with plain pydantic.

And that of the command that lists such a tool.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import side_by_side
from tests.benchmarks.rows import Row, at_most

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS = 21
FOREIGN = ("fastmcp", "mcp", "mcp_types", "openai", "anthropic", "google.genai", "langchain_core", "httpx", "httpx2")
"""Modules that a local call and export must not import."""

FUNCTION = '''
def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right
'''
OURS = f"""
from ahvn_tools import ToolSpec
{FUNCTION}
spec = ToolSpec.from_function(add)
assert spec.call(left=1, right=2) == 3
assert spec.to_jsonschema()["parameters"]["properties"]["left"]["type"] == "integer"
"""
PYDANTIC = f"""
from pydantic import TypeAdapter
{FUNCTION}
adapter = TypeAdapter(add)
assert adapter.validate_python({{"left": 1, "right": 2}}) == 3
assert adapter.json_schema()["properties"]["left"]["type"] == "integer"
"""


TOOLS = f"from ahvn_tools import tool\n\n\n@tool{FUNCTION}"


def fresh_process() -> Row:
    """Whole processes, ours and pydantic's in turn."""
    timing = side_by_side(lambda _: _duration(OURS), lambda _: _duration(PYDANTIC), number=1, rounds=PAIRS)
    return at_most(1.3, "fresh process: import, define, call, export", "the same with bare pydantic", timing)


def list_command() -> Row:
    """The command `ahvn-tools list` on a file with one tool, and pydantic's process, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tools.py"
        file.write_text(TOOLS)
        listing = (
            f"import sys\nfrom ahvn_tools.__main__ import run\nsys.argv[1:] = ['list', {str(file)!r}]\nsys.exit(run())"
        )
        timing = side_by_side(lambda _: _duration(listing), lambda _: _duration(PYDANTIC), number=1, rounds=PAIRS)
    return at_most(2.0, "the command `ahvn-tools list` on a local file", "a script with bare pydantic", timing)


def foreign_modules() -> Row:
    """The modules of other tool libraries and SDKs that such a process has loaded."""
    found = _run(f"{OURS}\nimport sys\nprint(*[name for name in {FOREIGN!r} if name in sys.modules])").split()
    return Row(
        what="… modules of fastmcp, mcp or an SDK in it",
        against="sys.modules",
        ours=", ".join(found) or "none",
        baseline="",
        measured=len(found),
        limit=0,
        unit="",
    )


def _duration(program: str) -> float:
    start = time.perf_counter()
    _run(program)
    return time.perf_counter() - start


def _run(program: str) -> str:
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"A fresh process failed:\n{finished.stderr}")
    return finished.stdout


@functools.cache
def _environment() -> dict[str, str]:
    """Let both sides find compiled modules, as installed packages do, wherever this process keeps its own."""
    compiled = tempfile.TemporaryDirectory(prefix="compiled-")
    atexit.register(compiled.cleanup)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": compiled.name}
