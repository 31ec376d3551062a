"""ReadOptions: what the reader of a source may do, and relative to which folder."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.errors import SourceError
from ahvn_tools.roots import to_roots
from ahvn_tools.sources.budget import Budget
from ahvn_tools.trust import Trust, require_all

if TYPE_CHECKING:  # slow, and few sources need it
    from concurrent.futures import Executor


MAX_BYTES: Final = 64_000_000
"""How large a file may be that is read for a document under `trust`."""

Place = tuple[str | int, ...]
"""The keys and indexes that lead to a part of a document."""

VARIABLE: Final = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^{}]*))?\}|\$\{")
"""A variable, a literal `${`, or, without a name, a `${` that is neither."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadOptions:
    """What all readers of sources need."""

    folder: Path = field(default_factory=Path.cwd)
    """The folder that relative paths refer to: the current one, or that of the manifest."""
    trust: Trust = field(default_factory=Trust)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """The environment of this process; what documents read of it are `variables`."""
    own_folder: Path | None = None
    """The folder of the document that names the sources, which it may read; None where the host names them."""
    roots: tuple[Path, ...] | None = None
    """The only folders that the roots of documents may be, or be in; None: any."""
    choices: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of one kind of source: of an OpenAPI document, of built-in tools, `inputs` of an mcp.json."""
    profile: str | None = None
    """The profile of manifests."""
    is_profile_inherited: bool = False
    """Whether a manifest that includes another one has chosen the profile, so that the other one may not have it."""
    audience: str | None = None
    """The audience of manifests."""
    manifests: tuple[Path, ...] = ()
    """The manifests that lead to this source."""
    shown_folder: Path = Path()
    """How errors name the folder of the last of them."""
    executor: Executor | None = None
    """Where the bodies of tools with `isolation="executor"` run."""
    allow_missing: bool = False
    """Whether a folder may have no file with tools."""
    max_values: int | None = None
    """The limit of the budget of each source; None: the default."""
    budget: Budget = field(default_factory=lambda: Budget("the source"), repr=False)
    """What is left for the source that the host has named, and for all that this one includes."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that documents may read. Looking up another one raises SourceError."""
        return self.trust.environment(self.env)

    def resolve(self, location: str) -> Path:
        """Return the path of a location, which is relative to the folder."""
        return to_path(location, self.folder)

    def require_readable(self, location: str) -> None:
        """Raise SourceError for a file or folder that the document which names it may not read.

        Pipes and devices are none: reading one may never end.
        """
        if self.own_folder is None or not exists(location, self.folder):
            return
        path = self.resolve(location)
        self.trust.require_readable(path, self.own_folder, location)
        if not (path.is_file() or path.is_dir()):
            raise SourceError(f"{location!r} is no file and no folder: name one.", file=location)
        if self.trust.is_limited and path.stat().st_size > MAX_BYTES:
            raise SourceError(f"{location!r} is too large: at most {MAX_BYTES:,} bytes are read.", file=location)

    def to_output(self, location: str) -> Path:
        """Return the path of a file that is written for a document. Raises SourceError unless it is trusted."""
        path = self.resolve(location)
        self.trust.require_file(path, location)
        return path

    def for_documents_in(self, folder: Path) -> ReadOptions:
        """Return the options for what the files in a folder name: they may read what is in there."""
        if self.own_folder is not None and folder.is_relative_to(self.own_folder):
            return self
        return replace(self, own_folder=folder)

    def to_roots(self, roots: Iterable[str]) -> tuple[Path, ...]:
        """Return the folders that tools of a document may use: what both the document and the host allow.

        Raises SourceError if that is nothing, and without the host's roots for folders that are not trusted.
        """
        wanted = to_roots(self.resolve(root) for root in roots)
        if self.roots is None:
            require_all(partial(self.trust.require_file, root) for root in wanted)
            return wanted
        narrowed = [
            own if own.is_relative_to(root) else root
            for own, root in product(wanted, self.roots)
            if own.is_relative_to(root) or root.is_relative_to(own)
        ]
        if wanted and not narrowed:
            raise SourceError(
                "The document's roots are all outside of roots=[…], which the host passes: change one of them."
            )
        return tuple(dict.fromkeys(narrowed))


def exists(location: str, folder: Path) -> bool:
    """Return whether a location is an existing file or folder; a text that cannot be a path is none."""
    try:
        return to_path(location, folder).exists()
    except SourceError:
        return False


def to_path(location: str, folder: Path) -> Path:
    """Return the path of a location that is relative to a folder, or begins with `~`. Raises SourceError."""
    try:
        path = folder / os.path.expanduser(location)  # noqa: PTH111  # `./~` is a folder for it, and not for Path's
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        shown = reprlib.repr(location)
        raise SourceError(f"{shown} is no path: {reason}. Code is a text with more than one line.") from None
    return path


def map_texts(value: Any, change: Callable[[str, Place], Any], place: Place = ()) -> Any:
    """Return a value with its texts changed, also in lists and dicts; `change` gets a text and where it is."""
    if isinstance(value, str):
        return change(value, place)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change, (*place, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [map_texts(item, change, (*place, index)) for index, item in enumerate(value)]
    return value


def expand(value: Any, env: Mapping[str, str]) -> Any:
    """Return a value with the variables in its texts replaced, also in lists and dicts; `$${` is a literal `${`.

    Raises SourceError, which names the variable, for one that is not set and has no default.
    """
    return map_texts(value, lambda text, _: VARIABLE.sub(lambda match: _replace(match, env), text))


def _replace(match: re.Match[str], env: Mapping[str, str]) -> str:
    name, default = match["name"], match["default"]
    if name is None:
        if match[0] == "$${":
            return "${"
        raise SourceError("A variable is ${NAME} or ${NAME:default}, and a literal ${ is $${.")
    if name in env:
        return env[name]
    if default is None:
        raise SourceError(f"The environment variable {name!r} is not set: set it, or write ${{{name}:default}}.")
    return default
