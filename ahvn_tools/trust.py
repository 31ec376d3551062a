"""Trust: which code a source may run in this process, which commands it may start, and what it may send where."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ahvn_tools.errors import SourceError

CODE: Final = "<code>"
"""The pattern for code that is a text itself."""


class Trust:
    """The modules, files and programs that may be run, and what may be sent; without a list, what the source names."""

    def __init__(self, patterns: Iterable[str | os.PathLike[str]] | None = None) -> None:
        """Trust modules by name (`"acme.tools"`, `"acme.*"`), files and folders by path, programs by name (`"npx"`).

        `"<code>"` trusts code that is a text, `"${API_KEY}"` an environment variable, `"https://api.example"` a server.
        Nothing may run with an empty list. Raises SourceError for a pattern that is no text, or empty.
        """
        if isinstance(patterns, str | os.PathLike):
            patterns = [patterns]
        if not (patterns is None or isinstance(patterns, Iterable)):
            raise _no_pattern(patterns)
        self._patterns = None if patterns is None else tuple(map(_to_pattern, patterns))

    def require_module(self, name: str) -> None:
        """Raise SourceError unless the module of this name may be imported."""
        if not self._matches(name):
            raise _refusal(f"The module {name!r}", name)

    def require_file(self, file: Path, shown: str | None = None) -> None:
        """Raise SourceError unless this file may be run; `shown` is how it names the file.

        Links count as the files that they lead to.
        """
        shown = str(file) if shown is None else shown
        resolved = _resolve(file, f"The file {shown!r}")
        if self._patterns is None or any(_contains(pattern, resolved) for pattern in self._patterns):
            return
        raise _refusal(f"The file {shown!r}", shown)

    def require_program(self, program: str) -> None:
        """Raise SourceError unless this program may be started: by the name in the command, or by its path."""
        if _is_path(program):
            paths = None if self._patterns is None else [pattern for pattern in self._patterns if _is_path(pattern)]
            Trust(paths).require_file(Path(program))
        elif not self._matches(program):
            raise _refusal(f"The program {program!r}", program)

    def require_code(self) -> None:
        """Raise SourceError unless code that is a text may be run."""
        if not (self._patterns is None or CODE in self._patterns):
            raise _refusal("Code that is a text", CODE)

    def require_variable(self, name: str) -> None:
        """Raise SourceError unless this environment variable may be read."""
        if not self._matches(pattern := f"${{{name}}}"):
            raise _refusal(f"The environment variable {name!r}", pattern)

    def require_server(self, url: str) -> None:
        """Raise SourceError unless requests may be sent to the server of this URL: its scheme, host and port."""
        if not self._matches(server := _to_origin(url)):
            raise _refusal(f"The server {server!r}", server)

    def _matches(self, name: str) -> bool:
        return self._patterns is None or any(
            pattern == name or fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns
        )


def _is_path(text: str) -> bool:
    return os.sep in text or "/" in text


def _to_origin(url: str) -> str:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if parts.port is None else f":{parts.port}")


def _refusal(thing: str, pattern: str) -> SourceError:
    return SourceError(f"{thing} is not trusted: add {pattern!r} to trust=[…], or remove the source.")


def _to_pattern(pattern: object) -> str:
    text = os.fspath(pattern) if isinstance(pattern, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise _no_pattern(pattern)
    return text


def _no_pattern(pattern: object) -> SourceError:
    return SourceError(f"trust= lists modules, files, folders and programs as texts; {pattern!r} is none.")


def _resolve(path: Path, what: str) -> Path:
    """Return the file that a path leads to. Raises SourceError for one that leads nowhere, such as a link to itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"{what} cannot be found: {error}.") from None


def _contains(pattern: str, file: Path) -> bool:
    path = _resolve(Path(os.path.expanduser(pattern)), f"The pattern {pattern!r} of trust=")  # noqa: PTH111  # Path's raises
    return file.is_relative_to(path) or fnmatch.fnmatchcase(file.as_posix(), path.as_posix())
