"""The tools in a lock file that the options of a command select."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from ahvn_tools import definition_lock
from ahvn_tools.cli.sources import SourceOptions
from ahvn_tools.definition import ToolDefinition


def read_lock(path: str | Path, options: SourceOptions | None) -> list[ToolDefinition]:
    """Return the definitions in a lock file that `--include`, `--exclude` and `--tag` select.

    A definition has no group and no audience: for these, the file is taken as a whole. Raises SourceError.
    """
    options = options or SourceOptions()
    include, exclude, tags = options.include or ["*"], options.exclude or [], set(options.tag or ())
    return [
        definition
        for definition in definition_lock.read(path)
        if any(fnmatchcase(definition.name, pattern) for pattern in include)
        and not any(fnmatchcase(definition.name, pattern) for pattern in exclude)
        and (not tags or tags & definition.tags)
    ]
