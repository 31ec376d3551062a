"""What the worker needs of a package: programs in its spelling, and a way to run them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.benchmarks.peers.worker.adapter import NotOfferedError

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


PROGRAMS = {
    "three": "first = await add(left=1, right=2)\nsecond = await add(left=first, right=3)\n"
    "await add(left=second, right=4)",
    "twenty": "total = 0\nfor number in range(20):\n    total = await add(left=total, right=number)\ntotal",
    "gathered": "import asyncio\n\nsum(await asyncio.gather(*[add(left=number, right=0) for number in range(20)]))",
}
"""The programs in plain Python: calls of async functions."""


class PackageSubject:
    """One package. What it does not have raises NotOfferedError with the text in `lacks`."""

    programs: ClassVar[Mapping[str, str]] = PROGRAMS
    """Programs by the names of SUMS."""
    lacks: ClassVar[Mapping[str, str]] = {}

    async def run(self, code: str) -> Any:
        """Run a program, and return its result."""
        raise NotImplementedError

    async def thousand(self) -> list[tuple[Any, Any]]:
        """Run 1,000 programs of 50 sessions at once; return pairs of what each should return, and what it did."""
        raise NotOfferedError(self.lacks["thousand"])

    def serve(self, transport: str, port: int) -> None:
        """Serve the tools in code mode until the client or the input ends."""
        raise NotOfferedError(self.lacks["serve"])

    def program_call(self, code: str) -> tuple[str, dict[str, Any]]:
        """Return the name and the arguments of the served tool that runs a program."""
        raise NotOfferedError(self.lacks["serve"])

    def value_of(self, result: Any) -> Any:
        """Return the result of the program of a served call, which FastMCP's client has returned."""
        raise NotOfferedError(self.lacks["serve"])

    async def read(self, corpus: Path) -> list[dict[str, Any]]:
        """Return the conversations of the task of `github_task` with the recorded tools."""
        return []

    async def close(self) -> None:
        """End what `run` has started."""
