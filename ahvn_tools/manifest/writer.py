"""Write a toolkit as a manifest."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from ahvn_tools import atomic_file
from ahvn_tools.errors import ToolkitError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping import built_toolkit, loaded_toolkit
from ahvn_tools.manifest.dumping.problems import Problems
from ahvn_tools.manifest.dumping.yaml_text import to_yaml
from ahvn_tools.toolkit import Toolkit


def dump(toolkit: Toolkit, path: str | PathLike[str] | None = None) -> str:
    """Return a manifest that makes such a toolkit, as YAML; with a path, write it to that file, whole or not at all.

    A toolkit that was loaded gets its own manifest, of the profile that was loaded, with what has changed since; the
    file must be in the folder of that manifest, because its paths are relative. Of another toolkit the functions,
    classes and servers are named, so they need an import path, a URL or a command; paths are relative to the folder of
    the file, by default the current one. No state, no default of a binding and no secret is written; a credential is
    written as the environment variable that has its value. Comments are lost.

    Raises ToolkitError with all parts that cannot be written, each with the fix; the file is unchanged then. Raises
    OSError for a file that cannot be written, and for a link.
    """
    if not toolkit._view.is_toolkit:  # noqa: SLF001  # of this package
        raise ToolkitError("A session or a selection is a view of its toolkit: dump the toolkit itself.")
    file = None if path is None else Path(path).parent.resolve() / Path(path).name
    text = to_yaml(_to_data(toolkit, file))
    if file is not None:
        atomic_file.write_text(file, text)
    return text


def _to_data(toolkit: Toolkit, file: Path | None) -> JsonObject:
    problems = Problems()
    folder = Path.cwd() if file is None else file.parent
    manifest = toolkit._view.store.manifest  # noqa: SLF001  # of this package
    if manifest is None:
        data = built_toolkit.to_data(toolkit, folder.resolve(), problems)
    else:
        if file is not None and manifest.file.parent != folder:
            raise ToolkitError(
                f"The paths of the manifest are relative to its folder: dump it in {manifest.file.parent}."
            )
        data = loaded_toolkit.to_data(toolkit, manifest, problems)
    problems.refuse(toolkit.name)
    return data
