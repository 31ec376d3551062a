"""The interpreter of smolagents, `LocalPythonExecutor`, which runs in this process."""

from __future__ import annotations

from typing import Any

from smolagents import tool
from smolagents.local_python_executor import LocalPythonExecutor

from tests.benchmarks.code_mode.worker.subject import PackageSubject


@tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


class Subject(PackageSubject):
    """An interpreter with the tools as functions."""

    lacks = {
        "thousand": "has no sessions",
        "serve": "does not serve tools",
    }

    programs = {
        "three": "first = add(left=1, right=2)\nsecond = add(left=first, right=3)\nadd(left=second, right=4)",
        "twenty": "total = 0\nfor number in range(20):\n    total = add(left=total, right=number)\ntotal",
    }

    def __init__(self) -> None:
        self._executor = LocalPythonExecutor(additional_authorized_imports=[])
        self._executor.send_tools({"add": add})

    async def run(self, code: str) -> Any:
        return self._executor(code).output
