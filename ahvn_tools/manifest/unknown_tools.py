"""Tools, patterns and parameters that a manifest names and that nothing has."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping

from ahvn_tools.errors import BindError, ToolLookupError, near_misses
from ahvn_tools.manifest.build import Build
from ahvn_tools.manifest.document import Path_
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.single_tools import is_pattern


def refuse_unknown_tools(build: Build, kit: Toolkit) -> None:
    """Make problems of names and patterns in `tools` and `presets` that no tool has, and of parameters of patterns.

    A part of a source that could not be loaded may have them. A server may have what fits a pattern later.
    """
    servers = kit._view.store.imported_servers.values()  # noqa: SLF001  # of another package of this project
    known = dict(build.parameters)
    for imported in servers:
        known.update({name: set() for name in imported.local_names()})
    named = list(_named_tools(build))
    used = {name for name, _, _ in named if any(fnmatch.fnmatchcase(tool, name) for tool in known)}
    for imported in servers:
        imported.tools_of_others = used  # also of those that are left out here
    if kit.load_errors or any(imported.error is not None for imported in servers):
        return
    for name, path, parameters in named:
        matching = [tool for tool in known if fnmatch.fnmatchcase(tool, name)]
        if not matching and not (servers and is_pattern(name)):
            with build.at(*path):
                what = "no tool matches" if is_pattern(name) else "there is no tool"
                raise ToolLookupError(f"{what} {name!r}. {near_misses(name, known)}")
        if matching and is_pattern(name) and not servers:
            _refuse_unknown_parameters(build, {key: known[key] for key in matching}, path, parameters)


def _refuse_unknown_parameters(
    build: Build, tools: Mapping[str, Collection[str]], path: Path_, parameters: Mapping[str, Path_]
) -> None:
    known = {parameter for own in tools.values() for parameter in own}
    for parameter, inner_path in parameters.items():
        if parameter not in known:
            with build.at(*path, *inner_path):
                raise BindError(f"none of these tools has a parameter {parameter!r}. {near_misses(parameter, known)}")


def _named_tools(build: Build) -> Iterator[tuple[str, Path_, dict[str, Path_]]]:
    """Yield each name and pattern with its path, and its parameters with their paths below that one."""
    for name, tool in build.manifest.tools.items():
        preset: dict[str, Path_] = {parameter: ("preset", parameter) for parameter in tool.preset}
        yield name, ("tools", name), preset | {parameter: ("binds", parameter) for parameter in tool.binds}
    for name, values in build.manifest.presets.items():
        yield name, ("presets", name), {parameter: (parameter,) for parameter in values}
