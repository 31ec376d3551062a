"""Toolsets and agents: selections of tools in a manifest, or in files of their own."""

from __future__ import annotations

from pydantic import ConfigDict

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.manifest_model import ManifestModel, Names


class ToolsetConditions(ManifestModel):
    """Conditions on a tool. It matches when it meets all of them."""

    tools: Names = []
    """The tool has one of these names."""
    tags: Names = []
    """The tool has at least one of these tags."""
    groups: Names = []
    """The tool is in one of these groups."""
    audience: str | None = None
    """The tool is for this audience, or for everyone."""
    toolset: str | None = None
    """The tool is in this toolset."""


class Toolset(ToolsetConditions):
    """A selection of tools under a name."""

    description: str = ""
    """What the toolset is for."""
    any_of: list[str | ToolsetConditions] = []
    """The tool meets at least one of these: names of toolsets, and conditions."""
    ordered: bool = False
    """Whether the tools come in the order of `tools` and `any_of`, instead of that of the toolkit."""


class ToolsetFile(ManifestModel):
    """A file with one toolset. Its tools come in the order of the list."""

    name: str
    """The name of the toolset."""
    description: str = ""
    """What the toolset is for."""
    tools: Names
    """The names of its tools."""
    enabled: bool = True
    """`false`: the file is not used."""
    metadata: JsonObject = {}
    """For your own programs. It is not read."""


class Agent(ManifestModel):
    """The tools of one agent, in the order of the lists: single tools, then those of the toolsets, each once."""

    description: str = ""
    """What the agent is for."""
    tools: Names = []
    """Names of tools."""
    tool_sets: Names = []
    """Names of toolsets."""
    audience: str | None = None
    """Tools for other audiences are left out."""


class AgentFile(Agent):
    """The configuration of an agent. Keys that other programs read may be in it."""

    model_config = ConfigDict(extra="ignore")
