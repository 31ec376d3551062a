"""FastMCP's `CodeMode` with a sandbox provider that keeps one pool of processes."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode, MontySandboxProvider

from tests.benchmarks.code_mode.worker.subjects import fastmcp


class PooledSandboxProvider(MontySandboxProvider):
    """As its base, with a pool that stays open."""

    pool: Any = None

    async def _run_monty(self, pydantic_monty: Any, *, code: str, inputs: Any, external_functions: Any) -> Any:
        if self.pool is None:
            self.pool = pydantic_monty.AsyncMonty()
            await self.pool.__aenter__()
        async with self.pool.checkout(limits=self.limits) as session:
            return await session.feed_run(code, inputs=inputs, external_lookup=external_functions)


class Subject(fastmcp.Subject):
    """A server whose tools are called in programs."""

    lacks = {
        "thousand": "has no sessions of the application",
    }

    def _made(self, name: str) -> FastMCP[Any]:
        self._provider = PooledSandboxProvider()
        return FastMCP(name, transforms=[CodeMode(sandbox_provider=self._provider)])

    async def close(self) -> None:
        if self._provider.pool is not None:
            await self._provider.pool.__aexit__(None, None, None)
