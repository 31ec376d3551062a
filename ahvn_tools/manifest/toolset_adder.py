"""ToolsetAdder: adds the toolsets and the agents of a manifest to its toolkit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.errors import SourceError, ToolkitError, ToolSpecError
from ahvn_tools.manifest.agents import agent_selection
from ahvn_tools.manifest.build import Build, NestedError
from ahvn_tools.manifest.toolset_files import add_toolset_files, find_files, unknown_tools
from ahvn_tools.toolkit import Toolkit

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ToolsetAdder:
    """The toolsets and agents of a manifest."""

    kit: Toolkit
    build: Build

    def add(self) -> None:
        """Add the toolsets of files, then those of the manifest, which replace them, then the agents."""
        build, manifest = self.build, self.build.manifest
        self._add_files()
        toolsets = {name: _to_selection(toolset) for name, toolset in manifest.toolsets.items()}
        self._add_all("toolsets", toolsets)
        for name in manifest.agents:
            if name in self.kit.toolsets:
                with build.at("agents", name):
                    raise ToolkitError(f"there is a toolset {name!r}: an agent is a toolset, so give it another name")
        agents = {name: agent_selection(agent) for name, agent in manifest.agents.items()}
        self._add_all("agents", agents)
        for name, agent in manifest.agents.items():
            for message in unknown_tools(self.kit, agent.tools):
                log.warning("The agent %r: %s", name, message)

    def _add_files(self) -> None:
        build, options = self.build, self.build.read_options
        places = build.manifest.tool_sets if "tool_sets" in build.manifest.model_fields_set else None
        with build.at("tool_sets"):
            files = find_files(options.folder, places)
            options.budget.spend_parts(len(files))
            for error in add_toolset_files(self.kit, files, options):
                with build.at("tool_sets"):
                    raise _to_nested(error)

    def _add_all(self, section: str, selections: Mapping[str, Any]) -> None:
        waiting = dict(selections)
        while waiting:  # a toolset may be made of one that comes later
            failed: dict[str, ToolSpecError] = {}
            self.build.read_options.budget.spend_parts(len(waiting))
            for name, options in waiting.items():
                try:
                    self.kit.add_toolset(name, **options)
                except ToolSpecError as error:
                    failed[name] = error
            if failed.keys() == waiting.keys():
                for name, failure in failed.items():
                    with self.build.at(section, name):
                        raise failure
                return
            waiting = {name: waiting[name] for name in failed}


def _to_nested(error: SourceError) -> NestedError:
    return NestedError(str(error), file=error.file, line=error.line)


def _to_selection(toolset: Any) -> dict[str, Any]:
    options = {"description": toolset.description, **_to_conditions(toolset), "ordered": toolset.ordered}
    if "any_of" in toolset.model_fields_set:
        options["any_of"] = [item if isinstance(item, str) else _to_conditions(item) for item in toolset.any_of]
    return options


def _to_conditions(conditions: Any) -> dict[str, Any]:
    given: Mapping[str, Any] = conditions.fields_set("tools", "tags", "groups", "audience", "toolset")
    return {"names" if key == "tools" else key: value for key, value in given.items() if value is not None}
