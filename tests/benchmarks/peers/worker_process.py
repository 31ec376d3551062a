"""A package's own process, which stays alive and answers one request after another over pipes."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.benchmarks.peers.packages import ROOT, Package

ANSWER_LIMIT = 240.0
"""Seconds for one answer: the slowest prepares 10,000 tools."""
CLOSE_LIMIT = 10.0
LINE_LIMIT = 1_000_000


class WorkerProcess:
    """`async with WorkerProcess(package, python) as worker`: the process ends with the block."""

    def __init__(self, package: Package, python: Path, module: str = "tests.benchmarks.peers.worker") -> None:
        self._package, self._python, self._module = package, python, module
        self._folder = tempfile.TemporaryDirectory(prefix="peer-")  # packages read `.env` and write logs where they are

    async def __aenter__(self) -> WorkerProcess:
        self._log = (Path(self._folder.name) / "stderr.txt").open("w+b")
        self._process = await asyncio.create_subprocess_exec(
            *(self._python, "-m", self._module, self._package.adapter),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            cwd=self._folder.name,
            env={**_environment(), **self._package.variables},
            limit=LINE_LIMIT,
        )
        return self

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request: `row` and `number`, or `package`."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("The process has no pipes.")
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_LIMIT)
        if not line:
            await asyncio.wait_for(self._process.wait(), CLOSE_LIMIT)
            self._log.seek(0)
            said = self._log.read().decode(errors="replace")[-4_000:]
            raise RuntimeError(f"The process of {self._package.name} has ended. It said:\n{said}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), CLOSE_LIMIT)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._log.close()
        self._folder.cleanup()


def _environment() -> dict[str, str]:
    """Let the process find the worker, and compile what it imports, as an installed program does."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}}
    return {**kept, "PYTHONPATH": str(ROOT)}
