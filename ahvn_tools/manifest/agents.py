"""Agents: the tools that one agent has, as a manifest or a file of its own says it."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError
from ahvn_tools.manifest.document import Document, Problem
from ahvn_tools.manifest.model_file import read_mapping, to_model
from ahvn_tools.manifest.toolset_files import unknown_tools
from ahvn_tools.manifest.toolset_model import Agent, AgentFile
from ahvn_tools.toolkit import Toolkit

log = logging.getLogger(__name__)

_SUFFIXES: Final = (".yaml", ".yml")

_KEYS: Final = {"tool": "tools", "tools": "tools", "toolset": "tool_sets", "toolsets": "tool_sets"}
"""How the keys may be spelled, in small letters alone: other keys are for other programs."""


def select_agent(toolkit: Toolkit, agent: str | PathLike[str] | Mapping[str, Any]) -> Toolkit:
    """Return a live view of the tools of an agent, in the order of its lists: `tools`, then `tool_sets`, each once.

    `agent` is a name among the `agents` of the manifest, the YAML file of an agent, or its content as a mapping. Keys
    for other programs are ignored there. A tool that does not exist is left out, with a warning. Raises
    ToolLookupError for an unknown agent or toolset, SourceError for a file or a mapping that cannot be used.

    >>> kit = Toolkit("k").add(sorted, input_schema={"type": "object"}).add(len, name="count")
    >>> [tool.name for tool in select_agent(kit, {"tools": ["count", "sorted"]})]
    ['count', 'sorted']
    """
    if isinstance(agent, str) and not agent.endswith(_SUFFIXES):
        return toolkit.select(toolset=agent)
    read = _read(agent)
    if not read.model_fields_set & {"tools", "tool_sets"}:
        what = "The mapping" if isinstance(agent, Mapping) else str(agent)
        raise SourceError(f"{what} has no tools: write `tools: […]`, `tool_sets: […]` or both.")
    for message in unknown_tools(toolkit, read.tools):
        log.warning("%s: %s", "The agent" if isinstance(agent, Mapping) else agent, message)
    selection = agent_selection(read)
    del selection["description"]
    return toolkit.select(**selection)


def _read(agent: str | PathLike[str] | Mapping[str, Any]) -> AgentFile:
    if isinstance(agent, Mapping):
        data, document = dict(agent), Document(file=None, folder=Path.cwd(), data={})
    else:
        data, document = read_mapping(Path(agent), str(agent), "the configuration of an agent is a mapping")
    problems = [
        Problem(path=(key,), message=f"there is no such key. Did you mean {_KEYS[plain]!r}?")
        for key in data
        if key not in _KEYS.values() and (plain := re.sub(r"[^a-z]", "", str(key).lower())) in _KEYS
    ]
    if problems:
        raise document.error(problems)
    return to_model(data, AgentFile, document)


def agent_selection(agent: Agent) -> dict[str, Any]:
    """Return the options of the toolset of an agent."""
    audience = {} if agent.audience is None else {"audience": agent.audience}
    any_of = [{"names": agent.tools}, *agent.tool_sets]
    return {"description": agent.description, "any_of": any_of, "ordered": True, **audience}
