"""Target: a file or folder that a call is about to change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.risky_paths import is_risky
from ahvn_tools.builtins.workspace.folder_tools import shown


@dataclass(frozen=True, kw_only=True)
class Target:
    """A file or folder that a call is about to change."""

    uri: str
    """As the model wrote it."""
    place: Path
    """Its absolute path without links."""
    name: str
    """The path as models and persons read it."""
    is_risky: bool
    """Whether another program executes or obeys the file later, whichever root it is seen from."""

    @classmethod
    def located(cls, folders: ConfinedFolders, uri: str, all_folders: ConfinedFolders) -> Target:
        """Return the target that a path means in the folders of a call, perhaps outside of all folders."""
        place, base = folders.locate(uri), folders.base
        name = place.relative_to(base) if place.is_relative_to(base) else place
        roots = (*all_folders.roots, *folders.roots)  # those of a call may lie outside of the others
        seen = (place.relative_to(root) for root in roots if place.is_relative_to(root))
        return cls(
            uri=uri,
            place=place,
            name=shown(name.as_posix()),
            is_risky=is_risky(uri) or any(is_risky(path.as_posix()) for path in seen),
        )
