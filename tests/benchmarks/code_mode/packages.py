"""The packages whose code mode is measured, each in an environment with the same Monty."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from tests.benchmarks.peers.packages import OURS, ROOT, Package

MONTY = f"pydantic-monty=={importlib.metadata.version('pydantic-monty')}"
TOKENIZER = "bpe-openai"
"""A package that contains the vocabulary of OpenAI's o200k_base: tiktoken downloads it."""


@dataclass(frozen=True, kw_only=True)
class CodePackage(Package):
    """One package, or one way to use it."""

    installs: tuple[str, ...]
    environment: str
    """The name of its environment's folder."""

    @property
    def requirements(self) -> list[str]:
        """What pip installs."""
        return [*self.installs, MONTY, TOKENIZER]


PACKAGES = (
    CodePackage(name=OURS, adapter="ahvn_tools", installs=("-e", f"{ROOT}[code]"), environment="code-mode-ahvn-tools"),
    CodePackage(name="fastmcp", adapter="fastmcp", installs=("fastmcp[code-mode]",), environment="code-mode-fastmcp"),
    CodePackage(
        name="fastmcp, one pool",
        adapter="fastmcp_pool",
        installs=("fastmcp[code-mode]",),
        environment="code-mode-fastmcp",
    ),
    CodePackage(
        name="pydantic-ai-harness",
        adapter="pydantic_ai",
        installs=("pydantic-ai-harness[code-mode]",),
        environment="code-mode-pydantic-ai-harness",
    ),
    CodePackage(name="smolagents", adapter="smolagents", installs=("smolagents",), environment="code-mode-smolagents"),
)
NOTES = {
    "fastmcp": "starts a worker process for each program, and checks no types before",
    "fastmcp, one pool": "`CodeMode` with a sandbox provider that keeps its pool, which FastMCP does not have",
    "pydantic-ai-harness": "measured as an agent's run of two answers, because it has no other way in",
    "smolagents": "`LocalPythonExecutor` interprets the program in the process of the application, which is no sandbox",
}
"""What has to be known beside a package's numbers."""
