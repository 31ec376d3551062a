"""Trust: what a document that others wrote may import, run, start, read, write, send and use."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Final

from ahvn_tools.errors import SourceError, near_misses

CODE: Final = "<code>"
"""The pattern for code that is a text itself."""
PRIVATE: Final = "<private>"
"""The pattern for requests to private addresses, `allow_private`."""
BUILTIN_GROUPS: Final = ("files", "text_files", "shell", "python", "git", "system", "user")
"""The groups of built-in tools that a document can name: `"<builtins:files>"`."""

_FEATURES: Final = (
    CODE, PRIVATE, "<approve:never>", "<network>", "<sandbox:none>", *(f"<builtins:{name}>" for name in BUILTIN_GROUPS),
)  # fmt: skip
"""What is trusted by a word between angle brackets."""

SOURCE_FOLDERS: Final[set[Path]] = set()
"""The folders that are in `sys.path` because a source was loaded from them."""

_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}

_ORIGIN: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/?#@\\\s]*@)?(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._~*-]+)(?::(?P<port>[0-9*]*))?",
    re.IGNORECASE | re.ASCII,
)
"""The part of a URL that says where a request is sent. Other characters in it are read differently by different
libraries, so they are no part of it."""

_ADDRESS: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*|localhost)\.?|\[.*\]")
"""A host that is an address of any form, or this machine, and no name."""

_WILDCARDS: Final = frozenset("*?[")


def require_all(checks: Iterable[Callable[[], object]]) -> None:
    """Make all checks of trust, and raise one error about all that is not trusted."""
    missing: dict[str, str] = {}
    for check in checks:
        try:
            check()
        except SourceError as error:
            if not error.untrusted:
                raise
            missing |= error.untrusted
    if missing:
        raise _refusal(missing)


def _refusal(missing: dict[str, str]) -> SourceError:
    """Return the error about things that are not trusted; `missing` has the pattern and the name of each."""
    first, *others = dict.fromkeys(missing.values())
    things = ", ".join([first, *(name[0].lower() + name[1:] for name in others)])
    verb = "are" if others else "is"
    things = " and ".join(things.rsplit(", ", 1)) if others else things
    patterns = ", ".join(map(repr, missing))
    error = SourceError(f"{things} {verb} not trusted: add {patterns} to trust=[…], or remove the source.")
    error.untrusted = missing
    return error


class Trust:
    """What documents may do; without a list, all that they name.

    A document with an empty list only defines tools. Files that a document names may be read without trust where they
    are in its own folder.
    """

    def __init__(self, patterns: Iterable[str | os.PathLike[str]] | None = None) -> None:
        """Trust what these patterns name.

        - `"tools/"`, `"./x.db"`, `"x.py"`, `"tools/*.py"`: files, and all in a folder, to be run, read and written
        - `"acme.tools"`, `"acme.*"`, `"npx"`: installed modules, and programs by their names
        - `"${API_KEY}"` or `"env:API_KEY"`: an environment variable, to be read, and to be set for a program
        - `"https://api.example"`: a server that requests may be sent to
        - `"<code>"`, `"<builtins:shell>"`, `"<approve:never>"` …: features

        `*` is any text without a `/`, `**` any folders. A `*` at the start of a host is a name, and no address. Raises
        SourceError for a pattern of no kind.
        """
        if isinstance(patterns, str | os.PathLike):
            patterns = [patterns]
        if not (patterns is None or isinstance(patterns, Iterable)):
            raise _no_pattern(patterns)
        self.is_limited = patterns is not None
        """Whether there is a list."""
        self._paths: list[_PathPattern] = []
        self._names: list[str] = []
        """Patterns of modules, programs, variables, servers and features."""
        self.refused: dict[str, None] = {}
        """The patterns of all that was refused until now."""
        for pattern in patterns or ():
            self._add(pattern)

    def _add(self, pattern: object) -> None:
        text = os.fspath(pattern) if isinstance(pattern, str | os.PathLike) else None
        if not isinstance(text, str) or not text.strip():
            raise _no_pattern(pattern)
        if text.startswith("<"):
            if not fnmatch.filter(_FEATURES, text):
                raise SourceError(f"{text!r} in trust= is no feature. {near_misses(text, _FEATURES)}")
            self._names.append(text)
        elif "://" in text:
            self._names.append(_to_origin(text, pattern=True))
        elif text.startswith("env:"):  # for shells and configurations, which replace `${…}`
            self._names.append(f"${{{text.removeprefix('env:')}}}")
        elif text.startswith("${") or not (isinstance(pattern, os.PathLike) or is_path(text)):
            self._names.append(text)
        else:
            self._paths.append(_PathPattern.parse(text))

    def require_module(self, name: str, folder: Path | None = None) -> None:
        """Raise SourceError unless the module of this name may be imported.

        One in `folder`, or in another folder of a source, needs trust in its file, too: its name is that of an
        installed one.
        """
        if self.is_limited:
            files = _find_files(name, {*SOURCE_FOLDERS, *([] if folder is None else [folder])})
            checks = (partial(self.require_file, file) for file in files)
            require_all([partial(self._require, name, f"The module {name!r}"), *checks])

    def require_program(self, program: str, folder: Path) -> None:
        """Raise SourceError unless this program may be started: by the name in the command, or by its path.

        `folder` is where the process starts, which is what a relative path refers to.
        """
        if os.sep in program or "/" in program:
            self.require_file(folder / program, program)
            return
        if self.is_limited and is_path(program):  # a name that no pattern can have
            raise SourceError(f"The program {program!r} is searched in PATH: write its path, such as './{program}'.")
        self._require(program, f"The program {program!r}")

    def require_code(self) -> None:
        """Raise SourceError unless code that is a text may be run."""
        self._require(CODE, "Code that is a text")

    def require_variable(self, name: str) -> None:
        """Raise SourceError unless this environment variable may be read, or set for a program."""
        self._require(f"${{{name}}}", f"The environment variable {name!r}")

    def require_server(self, url: str) -> None:
        """Raise SourceError unless requests may be sent to the server of this URL: its scheme, host and port."""
        if self.is_limited:
            origin = _to_origin(url)
            patterns = self._names_for(origin)
            if _ADDRESS.fullmatch(_host(origin)):
                patterns = [pattern for pattern in patterns if not _host(pattern).startswith("*")]
            self._require(origin, f"The server {origin!r}", patterns)

    def require_any_server(self) -> None:
        """Raise SourceError unless requests may be redirected to any server."""
        origins = ("https://*", "http://*")
        require_all(partial(self._require, origin, "A redirect to another server") for origin in origins)

    def require_private(self) -> None:
        """Raise SourceError unless requests may be sent to private addresses."""
        self._require(PRIVATE, "The option 'allow_private'")

    def require_builtins(self, groups: Iterable[str], *, approve: str, sandbox: str, network: bool) -> None:
        """Raise SourceError unless these groups of built-in tools may be used, with these options."""
        needed = {f"builtins:{group}": f"The group {group!r} of the built-in tools" for group in sorted(groups)}
        for is_used, feature in (
            (approve == "never", "approve:never"),
            (sandbox == "none", "sandbox:none"),
            (network, "network"),
        ):
            if is_used:
                needed[feature] = f"The option {feature.replace(':', ': ')!r}"
        require_all(partial(self._require, f"<{feature}>", thing) for feature, thing in needed.items())

    def require_file(self, file: Path, shown: str | None = None) -> None:
        """Raise SourceError unless this file may be run or written; `shown` is how it names the file.

        Links count as the files that they lead to.
        """
        shown = str(file) if shown is None else shown
        resolved = _resolve(file, f"The file {shown!r}")
        if self.is_limited and not self._trusts(resolved):
            raise self.refusal(f"The file {shown!r}", resolved)

    def require_readable(self, file: Path, own_folder: Path, shown: str | None = None) -> None:
        """Raise SourceError unless a document in `own_folder` may read this file: it is in that folder, or trusted."""
        if self.is_limited and not _resolve(file, f"The file {shown!r}").is_relative_to(own_folder.resolve()):
            self.require_file(file, shown)

    def refusal(self, thing: str, file: Path) -> SourceError:
        """Return the error about a thing that needs trust in a file or folder."""
        return self._refusal(thing, _to_pattern(file.resolve()))

    def _refusal(self, thing: str, pattern: str) -> SourceError:
        self.refused[pattern] = None
        return _refusal({pattern: thing})

    def trusts_file(self, file: Path) -> bool:
        """Return whether this file, or all in this folder, may be run."""
        return not self.is_limited or self._trusts(file.resolve())

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment as a document sees it: looking up a variable requires that it is trusted."""
        return _Environment(env, self) if self.is_limited else env

    def _require(self, name: str, thing: str, patterns: Sequence[str] | None = None) -> None:
        patterns = self._names_for(name) if patterns is None else patterns
        if self.is_limited and not any(name == one or fnmatch.fnmatchcase(name, one) for one in patterns):
            raise self._refusal(thing, name)

    def _names_for(self, name: str) -> list[str]:
        """Return the patterns of the same kind: `*` is no variable, no server and no feature."""
        return [pattern for pattern in self._names if _kind(pattern) == _kind(name)]

    def _trusts(self, resolved: Path) -> bool:
        return any(pattern.matches(resolved) for pattern in self._paths)


@dataclass(frozen=True, kw_only=True)
class _PathPattern:
    """A file or a folder, or a pattern of files below a folder."""

    base: Path
    """The part without a wildcard, where it leads to."""
    rest: tuple[str, ...]
    """The parts from the first wildcard on. They are read as they are written: a link `*` leads nowhere."""

    @classmethod
    def parse(cls, text: str) -> _PathPattern:
        parts = Path(os.path.expanduser(text)).parts  # noqa: PTH111  # Path's raises
        count = next((index for index, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts))
        place = Path(*parts[:count])
        base = _resolve(place, f"The pattern {text!r} of trust=")
        if not place.is_absolute() and (link := _find_link_out(place)) is not None:
            raise SourceError(
                f"The pattern {text!r} of trust= leads out of its folder, because {str(link)!r} is a link: write "
                f"{str(base)!r} to trust that."
            )
        return cls(base=base, rest=parts[count:])

    def matches(self, resolved: Path) -> bool:
        literal = self.base.joinpath(*self.rest)
        if resolved == literal or (literal.suffix != ".py" and resolved.is_relative_to(literal)):
            return True
        return resolved.is_relative_to(self.base) and _matches(self.rest, resolved.relative_to(self.base).parts)


def _find_files(name: str, folders: Collection[Path]) -> Iterator[Path]:
    """Yield the files in these folders that the import of a module runs. Only packages without a file are imported."""
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:count]), spec)
        if spec is None:
            return
        if spec.origin is None or not spec.has_location:
            continue
        file = Path(spec.origin)
        depth = count - (spec.submodule_search_locations is None)
        if len(file.parents) > depth and file.parents[depth] in folders:
            yield file


def _find_spec(name: str, parent: ModuleSpec | None) -> ModuleSpec | None:
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    if parent is None:
        return importlib.util.find_spec(name)
    if parent.origin is None:  # a namespace package, which contains no code
        importlib.import_module(parent.name)
    locations = parent.submodule_search_locations
    return None if locations is None else PathFinder.find_spec(name, list(locations))


class _Environment(Mapping[str, str]):
    """Environment variables, of which only trusted ones can be looked up."""

    def __init__(self, env: Mapping[str, str], trust: Trust) -> None:
        self._env = env
        self._trust = trust

    def __getitem__(self, name: str) -> str:
        self._trust.require_variable(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def _kind(text: str) -> str:
    return "server" if "://" in text else "feature" if text[:1] == "<" else "variable" if text[:2] == "${" else "name"


def is_path(text: str) -> bool:
    """Return whether a text is a path, and no name of a module or program."""
    return os.sep in text or "/" in text or text.startswith((".", "~")) or text.endswith(".py")


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern. `**` is any number of parts."""
    if not (pattern and parts):
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return _matches(pattern[1:], parts) or _matches(pattern, parts[1:])
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(pattern[1:], parts[1:])


def _to_origin(url: str, *, pattern: bool = False) -> str:
    """Return scheme, host and port of a URL, in the one form in which they are compared."""
    match = _ORIGIN.match(url)
    rest = "" if match is None else url[match.end() :]
    is_wrong = match is None or (rest not in ("", "/") if pattern else rest[:1] not in ("", "/", "?", "#"))
    if match is None or is_wrong or (pattern and "@" in match[0]) or ("*" in match[0] and not pattern):
        shown = f"The pattern {url!r} of trust=" if pattern else "The URL of a server"
        raise SourceError(f"{shown} is none: write a scheme, a host and perhaps a port, such as 'https://api.example'.")
    scheme, host, port = match["scheme"].lower(), match["host"].lower(), match["port"]
    return f"{scheme}://{host}" + (f":{port}" if port and port != _DEFAULT_PORTS.get(scheme) else "")


def _find_link_out(path: Path) -> Path | None:
    """Return the part of a relative path that is a link and leads out of the folder that it is in."""
    for part in (path, *path.parents):
        if part.is_symlink() and not part.resolve().is_relative_to(part.parent.resolve()):
            return part
    return None


def _host(origin: str) -> str:
    match = _ORIGIN.match(origin)
    return "" if match is None else match["host"]


def _to_pattern(resolved: Path) -> str:
    """Return the pattern that trusts a file: relative to the current folder if it is in there."""
    here = Path.cwd().resolve()
    text = resolved.relative_to(here).as_posix() if resolved.is_relative_to(here) else str(resolved)
    return text if is_path(text) else f"./{text}"


def _no_pattern(pattern: object) -> SourceError:
    return SourceError(
        f"trust= lists files, modules, programs, variables, servers and features as texts; {pattern!r} is none."
    )


def _resolve(path: Path, what: str) -> Path:
    """Return the file that a path leads to. Raises SourceError for one that leads nowhere, such as a link to itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"{what} cannot be found: {error}.") from None
