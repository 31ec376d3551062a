"""What the worker needs of a package: programs in its spelling, and a way to run them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

SUMS = {"three": 10, "twenty": 190, "gathered": 190}
"""The results of the programs, which add numbers with calls of `add`."""
SESSIONS = 50


async def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


class Subject(Protocol):
    """One package."""

    programs: Mapping[str, str]
    """Programs by the names of SUMS."""

    async def run(self, code: str) -> Any:
        """Run a program, and return its result."""
        ...

    async def thousand(self) -> list[tuple[Any, Any]]:
        """Run 1,000 programs of 50 sessions at once; return pairs of what each should return, and what it did."""
        ...

    def serve(self, transport: str, port: int) -> None:
        """Serve the tools in code mode until the client or the input ends."""
        ...

    def program_call(self, code: str) -> tuple[str, dict[str, Any]]:
        """Return the name and the arguments of the served tool that runs a program."""
        ...

    def value_of(self, result: Any) -> Any:
        """Return the result of the program of a served call, which FastMCP's client has returned."""
        ...

    async def read(self, corpus: Path) -> list[dict[str, Any]]:
        """Return the conversations of the task of `github_task` with the recorded tools."""
        ...

    async def close(self) -> None:
        """End what `run` has started."""
        ...
