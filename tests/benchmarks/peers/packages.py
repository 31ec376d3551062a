"""The packages that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The folder of the project."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One package, installed in its own environment."""

    name: str
    """The name in the index of packages, and in the table."""
    adapter: str
    """The module in `worker/adapters`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its process."""
    is_baseline: bool = False
    """It is no tool package: its numbers say what a part of the work costs."""

    @property
    def requirements(self) -> list[str]:
        """What pip installs. Ours is the checkout, so that its environment never gets old."""
        return ["-e", str(ROOT)] if self.name == OURS else [self.name]


OURS = "ahvn-tools"
PACKAGES = (
    Package(name=OURS, adapter="ahvn_tools"),
    Package(name="fastmcp", adapter="fastmcp"),
    Package(name="pydantic-ai-slim", adapter="pydantic_ai"),
    Package(name="langchain-core", adapter="langchain_core"),
    Package(name="openai-agents", adapter="openai_agents"),
    Package(name="toolregistry", adapter="toolregistry"),
    Package(name="agentscope", adapter="agentscope"),
    Package(name="smolagents", adapter="smolagents"),
    Package(name="haystack-ai", adapter="haystack", variables={"HAYSTACK_TELEMETRY_ENABLED": "False"}),
    Package(name="google-adk", adapter="google_adk"),
    Package(name="pydantic", adapter="pydantic", is_baseline=True),
)
