"""The interpreter of smolagents, `LocalPythonExecutor`, which runs in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smolagents import tool
from smolagents.local_python_executor import LocalPythonExecutor

from tests.benchmarks.peers.worker.adapter import NotOfferedError


@tool
def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


class Subject:
    """An interpreter with the tools as functions."""

    programs = {
        "three": "first = add(left=1, right=2)\nsecond = add(left=first, right=3)\nadd(left=second, right=4)",
        "twenty": "total = 0\nfor number in range(20):\n    total = add(left=total, right=number)\ntotal",
    }

    def __init__(self) -> None:
        self._executor = LocalPythonExecutor(additional_authorized_imports=[])
        self._executor.send_tools({"add": add})

    async def run(self, code: str) -> Any:
        return self._executor(code).output

    async def thousand(self) -> list[tuple[Any, Any]]:
        raise NotOfferedError("has no sessions")

    def serve(self, transport: str, port: int) -> None:
        raise NotOfferedError("does not serve tools")

    def program_call(self, code: str) -> tuple[str, dict[str, Any]]:
        raise NotOfferedError("does not serve tools")

    def value_of(self, result: Any) -> Any:
        raise NotOfferedError("does not serve tools")

    async def read(self, corpus: Path) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        """Nothing is left of a program."""
