"""Tools, patterns and parameters that a manifest names and that nothing has."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Iterator, Mapping

from ahvn_tools.errors import BindError, ToolLookupError, ToolSpecError, near_misses
from ahvn_tools.manifest.build import Build
from ahvn_tools.manifest.document import Path_, to_text
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.entry_options import is_pattern


def refuse_unknown_tools(build: Build, kit: Toolkit) -> None:
    """Make problems of names and patterns in `tools` and `presets` that no tool has, and of parameters of patterns.

    A part of a source that could not be loaded may have them, so then `check` finds them. A server may have what fits a
    pattern later; of the tools that fit it now, one must have its parameters.
    """
    store = kit._view.store  # noqa: SLF001  # of another package of this project
    servers = store.imported_servers.values()
    known: dict[str, Collection[str]] = dict(build.parameters)
    for imported in servers:
        known |= imported.local_parameters()
    named = list(_named_tools(build))
    used = {name for name, _, _ in named if any(fnmatch.fnmatchcase(tool, name) for tool in known)}
    for imported in servers:
        imported.tools_of_others = used  # also of those that are left out here
    problems = list(_find_unknown(named, known, has_servers=bool(servers)))
    if any(imported.error is not None for imported in servers):
        return  # `check` compares the patterns with the tools that it has then
    if kit.load_errors:
        store.load_findings = tuple(_to_finding(path, error) for path, error in problems)
        return
    for path, error in problems:
        with build.at(*path):
            raise error


def _find_unknown(
    named: Iterable[tuple[str, Path_, dict[str, Path_]]], known: Mapping[str, Collection[str]], *, has_servers: bool
) -> Iterator[tuple[Path_, ToolSpecError]]:
    for name, path, parameters in named:
        matching = [tool for tool in known if fnmatch.fnmatchcase(tool, name)]
        if not matching and not (has_servers and is_pattern(name)):
            what = "no tool matches" if is_pattern(name) else "there is no tool"
            yield path, ToolLookupError(f"{what} {name!r}. {near_misses(name, known)}")
        if not (matching and is_pattern(name)):
            continue
        own = {parameter for tool in matching for parameter in known[tool]}
        for parameter, inner_path in parameters.items():
            if parameter not in own:
                problem = f"none of these tools has a parameter {parameter!r}. {near_misses(parameter, own)}"
                yield (*path, *inner_path), BindError(problem)


def _to_finding(path: Path_, error: ToolSpecError) -> Finding:
    problem, _, fix = str(error).partition(". ")
    place = f"{to_text(path)!r} of the manifest"
    return Finding(rule="unmatched-option", severity="warning", place=place, problem=problem, fix=fix)


def _named_tools(build: Build) -> Iterator[tuple[str, Path_, dict[str, Path_]]]:
    """Yield each name and pattern with its path, and its parameters with their paths below that one."""
    for name, tool in build.manifest.tools.items():
        preset: dict[str, Path_] = {parameter: ("preset", parameter) for parameter in tool.preset}
        yield name, ("tools", name), preset | {parameter: ("binds", parameter) for parameter in tool.binds}
    for name, values in build.manifest.presets.items():
        yield name, ("presets", name), {parameter: (parameter,) for parameter in values}
