"""What a model could have meant by the path of a file that does not exist."""

from __future__ import annotations

from pathlib import Path

from ahvn_tools import invisible
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.workspace.near_lines import describe_near_name
from ahvn_tools.errors import ToolError, near_misses


def similar_names(folders: ConfinedFolders, uri: str) -> str | None:
    """Return a sentence with the similar names in its folder; None if the file exists or its folder is outside."""
    try:
        missing = folders.locate(uri)
    except ToolError:
        return None
    folder = missing.parent
    while True:
        try:
            names = [entry.name for entry in folders.scan(str(folder))]
            break
        except ToolError:
            missing = folder
            folder = folder.parent
            if folder == missing:
                return None
    if missing.name in names:
        return None
    near = describe_near_name(missing.name, names)
    near = near or near_misses(invisible.escape_line(missing.name), map(invisible.escape_line, names))
    if missing == folders.locate(uri):
        return near if names else "Its folder is empty."
    return f"{_subject(folders, folder)} has no {invisible.escape_line(missing.name)!r}. {near}"


def _subject(folders: ConfinedFolders, folder: Path) -> str:
    name = folders.display(folder)
    return "The first folder" if name == "." else f"The folder {invisible.escape_line(name)!r}"
