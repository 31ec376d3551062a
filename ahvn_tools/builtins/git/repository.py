"""Repository: where a repository is, and whether all that git would read and write of it lies in the folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.errors import ToolError

_MAX_FILE_BYTES: Final = 1_000_000
"""The maximum size of a file of git that is read here: the configuration, and files that name other folders."""

_MAX_ALTERNATES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository whose parts lie in the folders that tools may use."""

    git_dir: Path
    common_dir: Path
    """What the work trees of a repository share; `git_dir` if there is one only."""
    work_tree: Path | None
    """None for a bare repository."""
    alternates: tuple[Path, ...] = ()
    """The object folders of other repositories that it uses."""

    @property
    def top(self) -> Path:
        """The folder that a person calls the repository."""
        return self.work_tree or self.git_dir


def find_repository(folders: ConfinedFolders, folder: Path) -> Repository:
    """Return the repository that a folder belongs to. Raises ToolError without one inside of the folders."""
    if any(part.casefold() == ".git" for part in folder.parts):
        raise ToolError("The path is inside of .git. Pass a folder of the work tree.")
    for place in _inside(folders, folder):
        if os.path.lexists(place / ".git"):
            return open_repository(folders, place)
        if _is_bare(place):
            return _checked(folders, place, work_tree=None)
    raise ToolError(
        f"{folders.display(folder)!r} is in no git repository that lies in the folders that this tool may use. "
        "Pass a folder of a repository, or make one with `init`."
    )


def refuse_place(folders: ConfinedFolders, folder: Path) -> None:
    """Raise ToolError for a new repository inside of the files of git: what is in `hooks` is executed by others."""
    is_inside = any(part.casefold() == ".git" for part in folder.parts)
    if is_inside or any(map(_is_bare, _inside(folders, folder.parent))):
        raise ToolError("A repository cannot be made inside of .git or of a bare repository. Pass another folder.")


def open_repository(folders: ConfinedFolders, work_tree: Path) -> Repository:
    """Return the repository of a folder with .git, which is a folder or a file that names one."""
    entry = work_tree / ".git"
    git_dir = _locate(folders, str(entry))
    if not git_dir.is_dir():
        named = _read(folders, git_dir).removeprefix("gitdir:").strip()
        git_dir = _locate(folders, os.path.join(work_tree, named))  # noqa: PTH118  # a text of the file, unchanged
    return _checked(folders, git_dir, work_tree=work_tree)


def find_nested(
    folders: ConfinedFolders, repository: Repository, *, check_cancelled: Callable[[], None]
) -> Iterator[Repository]:
    """Yield the repositories in the work tree of another: git looks into them when they are submodules."""
    if repository.work_tree is None:
        return
    for place, names, files in os.walk(repository.work_tree):
        check_cancelled()
        if place != str(repository.work_tree) and (".git" in names or ".git" in files):
            yield open_repository(folders, Path(place))
        names[:] = [name for name in names if name != ".git"]


def refuse_shared_files(repository: Repository) -> None:
    """Raise ToolError if a file that git may write in place has another name elsewhere, as a hard link."""
    for entry in _entries(repository.git_dir, with_objects=False):
        if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink > 1:
            raise ToolError(f"{entry.name!r} in .git has several names (hard links), so git does not write here.")


def refuse_old_remotes(repository: Repository) -> None:
    """Raise ToolError for addresses in the files that git read before its configuration had remotes."""
    for name in ("remotes", "branches"):
        folder = repository.common_dir / name
        if folder.is_dir() and any(folder.iterdir()):
            raise ToolError(f"The repository has remotes in '.git/{name}', which cannot be used. Use `remote add`.")


def refuse_programs_in_todo(repository: Repository) -> None:
    """Raise ToolError if an unfinished rebase would run a program when it goes on."""
    for name in ("rebase-merge/git-rebase-todo", "sequencer/todo"):
        path = repository.git_dir / name
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        if any(line.split()[:1] in (["exec"], ["x"]) for line in lines):
            raise ToolError(
                "The rebase that is not finished would run programs (`exec`). End it with `rebase --abort`."
            )


def refuse_outside(folders: ConfinedFolders, repository: Repository, path: str) -> None:
    """Raise ToolError for the path of a file, in a configuration, that leads out of the folders."""
    if path.startswith(("~", ":")):  # a home folder, and `:(optional)`
        path = "/"
    _locate(folders, os.path.join(repository.top, path))  # noqa: PTH118


def _inside(folders: ConfinedFolders, folder: Path) -> list[Path]:
    """Return a folder and those above it, up to the last one that tools may use."""
    places = (folder, *folder.parents)
    return [place for place in places if any(place.is_relative_to(root) for root in folders.roots)]


def _is_bare(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("HEAD", "objects", "refs"))


def _checked(folders: ConfinedFolders, git_dir: Path, *, work_tree: Path | None) -> Repository:
    if not git_dir.is_dir():
        raise ToolError(
            f"The .git entry of {folders.display(work_tree or git_dir)!r} leads to no folder, so this is no "
            "repository. Remove the entry, or use another repository."
        )
    common_dir = git_dir
    if (named := _read(folders, git_dir / "commondir").strip()) != "":
        common_dir = _locate(folders, os.path.join(git_dir, named))  # noqa: PTH118
    alternates = tuple(_alternates(folders, common_dir / "objects"))
    for place in dict.fromkeys((git_dir, common_dir, *alternates)):
        for entry in _entries(place):
            if entry.is_symlink():
                _locate(folders, entry.path)
    return Repository(git_dir=git_dir, common_dir=common_dir, work_tree=work_tree, alternates=alternates)


def _alternates(folders: ConfinedFolders, objects: Path) -> Iterator[Path]:
    pending, seen = [objects], {objects}
    while pending:
        here = pending.pop()
        for line in _read(folders, here / "info/alternates").split("\n"):
            if not line or line.startswith("#"):
                continue
            other = _locate(folders, os.path.join(here, line))  # noqa: PTH118
            if other not in seen:
                seen.add(other)
                pending.append(other)
                yield other
            if len(seen) > _MAX_ALTERNATES:
                raise ToolError("The repository uses the objects of too many others. Pass another repository.")


def _entries(folder: Path, *, with_objects: bool = True) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder of git, at any depth; links are not followed."""
    pending = [folder]
    while pending:
        with (
            contextlib.suppress(FileNotFoundError),
            os.scandir(pending.pop()) as entries,
        ):  # git deletes files meanwhile
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False) and (with_objects or entry.name != "objects"):
                    pending.append(Path(entry.path))


def _locate(folders: ConfinedFolders, path: str) -> Path:
    try:
        return folders.locate(path)
    except ToolError:
        raise ToolError(
            "A part of this repository leads out of the folders that this tool may use (a link, a .git file, shared "
            "objects or a setting). Pass another repository."
        ) from None


def _read(folders: ConfinedFolders, path: Path) -> str:
    """Return the text of a small file of git, and none if it does not exist."""
    if not os.path.lexists(path):
        return ""
    content, _ = folders.read(str(path), max_bytes=_MAX_FILE_BYTES)
    return content.decode(errors="surrogateescape")


def read_configuration(folders: ConfinedFolders, repository: Repository) -> list[bytes]:
    """Return the content of each configuration file of the repository."""
    places = dict.fromkeys([repository.common_dir / "config", repository.git_dir / "config.worktree"])
    places[repository.common_dir / "config.worktree"] = None
    return [folders.read(str(path), max_bytes=_MAX_FILE_BYTES)[0] for path in places if os.path.lexists(path)]
