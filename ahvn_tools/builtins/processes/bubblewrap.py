"""The sandbox: which files, processes and network a program sees under bubblewrap."""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.builtins.files import beneath
from ahvn_tools.builtins.processes.confinement import TEMPORARY_SIZE, Confinement, find_bubblewrap, isolation_arguments
from ahvn_tools.builtins.processes.private_folder import private_folder
from ahvn_tools.errors import ToolError
from ahvn_tools.roots import LinkedRoot, without_dots

Mounts = dict[Path, list[str]]
"""The arguments that make a path of the sandbox, by the path."""

_SYSTEM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store",
    "/home/linuxbrew/.linuxbrew",
)  # fmt: skip
_PYTHON_FOLDERS = {
    Path(folder).resolve() for folder in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
}
"""Resolved when this module is imported: a program could replace a part of the path by a link."""
_SEARCHED_FOR_SECRETS = (("/etc", 20), ("/opt", 3))
"""Folders, and how many levels of them: /opt may have a million files."""
_SECOND_TEMPORARY = Path("/var/tmp")  # noqa: S108
"""A link to /tmp, unless something in it is shown."""
_SYSTEM, _READ_ONLY, _WRITABLE = "--ro-bind", "--ro-bind-fd", "--bind-fd"
"""The first is for the system. The others are opened before: a program may replace them by links meanwhile."""


@dataclass(frozen=True)
class SandboxedCommand:
    """A command that runs another one in the sandbox."""

    arguments: list[str]
    descriptors: tuple[int, ...] = ()
    """Open files and folders that the command inherits; the arguments have their numbers."""


@contextmanager
def bubblewrap_command(
    command: Sequence[str], *, folder: Path, confinement: Confinement, environment: Mapping[str, str]
) -> Iterator[SandboxedCommand]:
    """Yield the command that runs another one in the sandbox. Its descriptors are closed at the end of the context.

    Visible are the system's folders, Python's own, the program itself, `folder`, and what the confinement names. Only
    its `writable` folders and /tmp, which is empty and in memory, can be written. No other process is visible. Raises
    ToolError if a part of a path has become a link.
    """
    absolute_folder = _real_path(folder, confinement)
    mounts = _mounts(Path(command[0]), absolute_folder, confinement)
    with ExitStack() as stack:
        mount_arguments, descriptors = _open_all(_in_order(mounts), stack)
        isolation, more_descriptors = isolation_arguments(stack)
        arguments = [
            _trusted_bubblewrap(confinement),
            *isolation,
            *(["--share-net"] if confinement.network else []),
            *mount_arguments,
            *_home(environment),
            *("--chdir", str(_shown_folder(absolute_folder, confinement)), "--", *command),
        ]
        yield SandboxedCommand(arguments, (*descriptors, *more_descriptors))


def _trusted_bubblewrap(confinement: Confinement) -> str:
    """Return a bwrap that the program could not have written. Raises ToolError without one."""
    bubblewrap = find_bubblewrap(untrusted=confinement.writable)
    if bubblewrap is None:
        raise ToolError(
            "Nothing can be run here: the program of the sandbox lies in the folders that may be used. Tell the user.",
            explanation="bwrap is missing, or is in a writable folder of this call. Install it in /usr/bin.",
        )
    return bubblewrap


def _open_all(arguments: Sequence[str], stack: ExitStack) -> tuple[list[str], tuple[int, ...]]:
    """Open the path after each option that takes a descriptor, and return the arguments with the descriptors."""
    replaced, descriptors = list(arguments), []
    for index, argument in enumerate(arguments):
        if argument in (_READ_ONLY, _WRITABLE):
            descriptors.append(_open(arguments[index + 1]))
            stack.callback(os.close, descriptors[-1])
            replaced[index + 1] = str(descriptors[-1])
    return replaced, tuple(descriptors)


def _open(path: str) -> int:
    root = os.open("/", beneath.FOLDER_PART)
    try:
        name = path.lstrip("/") or "."
        return beneath.open_without_links(root, name, beneath.PATH_ONLY)
    except OSError as error:
        raise ToolError(
            "The sandbox could not be started: a folder is missing or was replaced. Try again.",
            explanation=f"The sandbox cannot show {path!r}: {error.strerror}.",
        ) from error
    finally:
        os.close(root)


def _real_path(path: Path, confinement: Confinement) -> Path:
    """Return the path without links, but follow none that a program may have made: the sandbox follows those itself."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  # `resolve` would follow links
    shared = (*confinement.writable, *confinement.readable)
    return absolute if any(absolute.is_relative_to(folder) for folder in shared) else absolute.resolve()


def _shown_folder(folder: Path, confinement: Confinement) -> Path:
    """Return the name of a folder by which the host named its root, as long as it leads there."""
    shown = confinement.shown(folder)
    return shown if os.path.realpath(shown) == str(folder) else folder


def _home(environment: Mapping[str, str]) -> list[str]:
    """Use /tmp as the home folder, because the private one is not visible."""
    return ["--setenv", "HOME", "/tmp"] if environment.get("HOME") == str(private_folder.home) else []  # noqa: S108


def _in_order(mounts: Mounts) -> list[str]:
    """Return all arguments, those of upper folders first. Nothing else can be written."""
    ordered = sorted(mounts, key=lambda path: (len(path.parts), path))
    arguments = [argument for path in ordered for argument in mounts[path]]
    return arguments if Path("/") in mounts else [*arguments, "--remount-ro", "/"]


def _mounts(program: Path, folder: Path, confinement: Confinement) -> Mounts:
    links = _link_mounts(confinement)
    readable = [*_python_folders(), *_readable_paths(confinement)]
    mounts = links | _system_mounts()
    if any(_SECOND_TEMPORARY in path.parents for path in (program, folder, *readable, *confinement.writable, *links)):
        mounts[_SECOND_TEMPORARY] = [*TEMPORARY_SIZE, "--tmpfs", str(_SECOND_TEMPORARY)]
    for named in readable:
        path = _without_links(named, mounts)
        if not _is_visible(path, mounts) or path.is_relative_to(private_folder.path):
            mounts[path] = [_READ_ONLY, str(path.resolve()), str(path)]
    for path in confinement.writable:
        mounts[path] = [_WRITABLE, str(path), str(path)]
        if not confinement.writes_git_settings:
            mounts |= _git_mounts(path / ".git")
    if private_folder.path not in mounts and _is_visible(private_folder.path, mounts):
        mounts[private_folder.path] = ["--tmpfs", str(private_folder.path)]  # outputs of other sessions
    if not _is_visible(folder, mounts):
        is_writable = any(folder.is_relative_to(root) for root in confinement.writable)
        mounts[folder] = [_WRITABLE if is_writable else _READ_ONLY, str(folder), str(folder)]
    program = _without_links(program, mounts)
    if program.is_absolute() and os.access(program, os.X_OK) and program.is_file() and not _is_visible(program, mounts):
        mounts[program] = [_READ_ONLY, str(program.resolve()), str(program)]
    return _without_visible(links, mounts) | (_name_server_mounts() if confinement.network else {})


def _link_mounts(confinement: Confinement) -> Mounts:
    """Show the roots that the host named by links under these names, too. Nothing else can be seen through them."""
    linked = [root for root in (*confinement.writable, *confinement.readable) if isinstance(root, LinkedRoot)]
    return {root.link: ["--symlink", str(root), str(root.link)] for root in linked if root.link is not None}


def _without_visible(links: Mounts, mounts: Mounts) -> Mounts:
    """Return the mounts without the links that others show already, as / shows those of the system."""
    if Path("/") in mounts:
        return {path: arguments for path, arguments in mounts.items() if arguments[0] != "--symlink"}
    for link in links:
        others = {path: arguments for path, arguments in mounts.items() if path != link}
        mounts = others if _is_visible(link, others) else mounts
    return mounts


def _without_links(path: Path, mounts: Mounts) -> Path:
    """Return where a path is in the sandbox: nothing can be mounted at a path that leads through a link there."""
    link = next((place for place in path.parents if place in mounts and mounts[place][0] == "--symlink"), None)
    return path if link is None else _without_links(link.parent / mounts[link][1] / path.relative_to(link), mounts)


def _readable_paths(confinement: Confinement) -> list[Path]:
    """Return the readable paths, and what links in them lead to; none in a writable folder, which shows them already.

    Of links in a writable folder nothing is followed: a program may have made them.
    """
    named = [without_dots(path) for path in confinement.readable]
    outside = [path for path in named if not any(path.is_relative_to(folder) for folder in confinement.writable)]
    return [path for name in outside for path in (name.resolve(), name)]  # an environment may need both


def _is_visible(path: Path, mounts: Mounts) -> bool:
    """Return whether the nearest mount above the path shows the real files."""
    nearest = max(
        (mount for mount in mounts if path.is_relative_to(mount)), key=lambda mount: len(mount.parts), default=None
    )
    if nearest is not None and mounts[nearest][0] == "--symlink":
        return _is_visible(nearest.parent / mounts[nearest][1] / path.relative_to(nearest), mounts)
    return nearest is not None and mounts[nearest][0] in (_SYSTEM, _READ_ONLY, _WRITABLE)


def _system_mounts() -> Mounts:
    mounts = {
        "/tmp": [*TEMPORARY_SIZE, "--tmpfs", "/tmp"],  # noqa: S108
        str(_SECOND_TEMPORARY): ["--symlink", "/tmp", str(_SECOND_TEMPORARY)],  # noqa: S108
        "/run": ["--dir", "/run"],
        "/proc": ["--proc", "/proc"],
        "/dev": ["--dev", "/dev", *TEMPORARY_SIZE, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"],  # noqa: S108
    }
    for folder in filter(os.path.lexists, _SYSTEM_FOLDERS):
        link = Path(folder)
        mounts[folder] = ["--symlink", str(link.readlink()), folder] if link.is_symlink() else [_SYSTEM, folder, folder]
    return {Path(path): arguments for path, arguments in mounts.items()} | _secret_mounts()


@functools.cache
def _secret_mounts() -> Mounts:
    """Hide what only some users may read in /etc, and near the top of /opt: the program may run as one of them."""
    private = [path for folder, depth in _SEARCHED_FOR_SECRETS for path in _private_paths(Path(folder), depth)]
    return {path: ["--tmpfs", str(path)] if path.is_dir() else [_SYSTEM, "/dev/null", str(path)] for path in private}


def _private_paths(folder: Path, depth: int) -> Iterator[Path]:
    """Yield what this user can read below a folder, and not everybody. `depth` is how many levels are searched."""
    if not os.access(folder, os.R_OK):
        return
    for entry in os.scandir(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        is_folder = stat.S_ISDIR(mode)
        is_public = mode & (stat.S_IXOTH if is_folder else stat.S_IROTH) or stat.S_ISLNK(mode)
        if not is_public and os.access(entry.path, os.R_OK):
            yield Path(entry.path)
        elif is_folder and depth > 1:
            yield from _private_paths(Path(entry.path), depth - 1)


def _python_folders() -> list[Path]:
    """Return the folders of this Python, and never one that contains a home folder."""
    return sorted(folder for folder in _PYTHON_FOLDERS if not Path.home().is_relative_to(folder))


def _git_mounts(repository: Path) -> Mounts:
    """Make the files of a Git repository read-only that name programs which Git runs later, outside of the sandbox.

    The folder .git becomes a mount, so that it cannot be replaced by a copy.
    """
    if not repository.is_dir() or repository.is_symlink():
        return {}
    mounts = {repository: [_WRITABLE, str(repository), str(repository)]}
    hooks, settings = repository / "hooks", repository / "config"
    for path in (hooks, settings):
        if path.exists() and not path.is_symlink():
            mounts[path] = [_READ_ONLY, str(path), str(path)]
    if not os.path.lexists(hooks):
        mounts[hooks] = ["--tmpfs", str(hooks), "--remount-ro", str(hooks)]
    return mounts


def _name_server_mounts() -> Mounts:
    """Show the addresses of the name servers, to which /etc/resolv.conf may only be a link."""
    path = Path("/etc/resolv.conf").resolve()
    return {path: [_SYSTEM, str(path), str(path)]} if path.exists() and not path.is_relative_to("/etc") else {}
