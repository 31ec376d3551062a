"""Toolsets and agents in files of their own."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError, near_misses
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.manifest.document import Document, Problem
from ahvn_tools.manifest.toolset_model import Agent, AgentFile, ToolsetFile
from ahvn_tools.manifest.validation import read_mapping, to_model
from ahvn_tools.toolkit import Toolkit

log = logging.getLogger(__name__)


DEFAULT_FOLDERS: Final = ("configs/tool_sets", "configs/tool-sets")
"""Where toolset files are, relative to a manifest or a folder of tools; both are read."""

MAX_MESSAGES: Final = 20
"""How many unknown names of a toolset are compared with those of tools, which takes time."""

_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """A toolset file that was read."""

    shown: str
    """How messages name the file."""
    toolset: ToolsetFile


def find_files(folder: Path, places: Sequence[str] | None = None) -> list[Path]:
    """Return the toolset files of these folders and files, in the order of their names in each folder.

    Without places these are the default folders, as far as they exist. Files whose names start with `_` or `.` are left
    out. Raises SourceError for a place that does not exist.
    """
    files: list[Path] = []
    for place in DEFAULT_FOLDERS if places is None else places:
        path = folder / place
        if path.is_dir():
            files += sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.name[0] not in "._")
        elif path.is_file():
            files.append(path)
        elif places is not None:
            raise SourceError(f"{place!r} is no folder and no file of toolsets.", file=place)
    return files


def read_files(files: Iterable[Path], options: ReadOptions) -> tuple[list[FoundFile], list[SourceError]]:
    """Return the toolsets of the files that are enabled, and the errors of files that cannot be used."""
    found: dict[str, FoundFile] = {}
    errors: list[SourceError] = []
    for file in files:
        shown = file.relative_to(options.folder).as_posix() if file.is_relative_to(options.folder) else str(file)
        own = options if options.own_folder is not None else options.for_documents_in(file.parent.resolve())
        try:
            own.require_readable(os.path.join(".", shown))  # noqa: PTH118  # a name may begin with "~"
            content, document = read_mapping(file, shown, "a toolset is a mapping with `name` and `tools`")
            toolset = to_model(content, ToolsetFile, document)
            if toolset.enabled and (first := found.get(toolset.name)) is not None:
                message = (
                    f"{shown}: the toolset {toolset.name!r} is in {first.shown}, too: rename or remove one of them."
                )
                raise SourceError(message, file=shown)
        except SourceError as error:
            errors.append(error)
            continue
        if toolset.enabled:
            found[toolset.name] = FoundFile(shown=shown, toolset=toolset)
    return list(found.values()), errors


def add_toolset_files(toolkit: Toolkit, files: Iterable[Path], options: ReadOptions) -> list[SourceError]:
    """Add the toolsets of files, and return the errors of those that cannot be used.

    A tool that the toolkit does not have stays in its toolset, with a warning, and `Toolkit.check` finds it.
    """
    found, errors = read_files(files, options)
    for file in found:
        toolset = file.toolset
        toolkit.add_toolset(toolset.name, toolset.description, names=toolset.tools, ordered=True)
        for message in unknown_tools(toolkit, toolset.tools):
            log.warning("%s: the toolset %r: %s", file.shown, toolset.name, message)
    return errors


def unknown_tools(toolkit: Toolkit, names: Iterable[str]) -> Iterator[str]:
    """Yield a message for each name that no tool has, and one for all of them from the 20th on."""
    known = [tool.name for tool in toolkit]
    taken = set(known)
    unknown = [name for name in dict.fromkeys(names) if name not in taken]
    for name in unknown[:MAX_MESSAGES]:
        yield f"there is no tool {name!r}. {near_misses(name, known)}"
    if len(unknown) > MAX_MESSAGES:
        yield f"there are no tools of {len(unknown) - MAX_MESSAGES:,} more of its names."


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
