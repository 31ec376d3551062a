"""A folder as a source: all its files with tools. One that cannot be loaded is logged and skipped."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError
from ahvn_tools.loading import members
from ahvn_tools.loading.contents import Contents, ServerSource, skipping
from ahvn_tools.loading.kinds import classify_file, is_manifest, read_source
from ahvn_tools.loading.module_import import import_file
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.skills import SKILL_FILE

MAX_FILES: Final = 1_000
"""How many files with tools a folder may have."""
MAX_ENTRIES: Final = 50_000
"""How many files and folders are looked at."""
MAX_DEPTH: Final = 20

_SUFFIXES: Final = frozenset({".py", ".yaml", ".yml", ".json", ".jsonl"})
_SKIPPED_NAMES: Final = frozenset({"conftest.py", "setup.py", "node_modules", "site-packages"})

log = logging.getLogger(__name__)


def read(location: str, options: ReadOptions) -> Contents:
    """Return the tools, servers and skills in a folder and the folders in it, in the order of their paths.

    A folder with a `SKILL.md` is a skill, and no file in it is loaded. Left out are names that start with `.`, `_` or
    `test_`, `conftest.py`, `setup.py`, virtual environments, `node_modules`, manifests, and data without tools. Raises
    SourceError for a folder that is too large or has neither tools nor skills, which `allow_missing` allows.
    """
    folder = options.resolve(location)
    if not folder.is_dir():
        raise SourceError(f"There is no folder {location!r}.", file=location)
    options = options.for_documents_in(folder.resolve())
    tools: dict[int, Any] = {}  # each object once: files import them from each other
    servers: dict[int, ServerSource] = {}
    errors: list[SourceError] = []
    skills: dict[str, bool] = {}
    for file in _Search(location).find(folder):
        shown = os.path.join(location, file.relative_to(folder))  # noqa: PTH118  # in "." a name may begin with "~"
        if file.name == SKILL_FILE:
            options.require_readable(os.path.dirname(shown))  # noqa: PTH120  # as above
            named = file.parent if options.manifests else os.path.dirname(shown)  # noqa: PTH120  # as above
            skills[os.fspath(named)] = options.trust.trusts_file(file)
            continue
        with skipping(shown, errors.append):
            contents = _read_file(file, shown, options)
            for tool in contents.things:
                tools.setdefault(id(tool), tool)
            for server in contents.servers:
                servers.setdefault(id(server.server), replace(server, file=shown))
    contents = Contents(
        name=folder.resolve().name or "tools",
        tools=tuple(tools.values()),
        servers=tuple(servers.values()),
        skills=skills,
        errors=tuple(errors),
    )
    if contents.is_empty and not options.allow_missing:
        raise SourceError(f"The folder {location!r} has no file with tools and no skill.", file=location)
    return contents


def _read_file(file: Path, shown: str, options: ReadOptions) -> Contents:
    options.require_readable(shown)
    if file.suffix == ".py":
        return members.read_module(import_file(file, options, shown), shown)
    kind = classify_file(file, shown)
    if kind == "manifest" and is_manifest(file):
        log.warning("%s is a manifest, and a folder is loaded without it. To use it, load it by its path.", shown)
    if kind is None or kind == "manifest":
        return Contents(name=file.stem)
    return read_source(kind, shown, options)


class _Search:
    """Finds the files that may have tools, within limits. A folder is entered once, whatever links lead to it."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._entered: set[tuple[int, int]] = set()
        self._entries = 0
        self._files = 0

    def find(self, folder: Path, depth: int = 0) -> Iterator[Path]:
        status = folder.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in self._entered or depth > MAX_DEPTH:
            return
        self._entered.add(identity)
        if os.path.lexists(folder / SKILL_FILE):
            yield folder / SKILL_FILE
            return
        for path in self._list(folder):
            if path.is_dir():
                yield from self.find(path, depth + 1)
            elif path.suffix in _SUFFIXES and path.is_file():
                self._files += 1
                if self._files > MAX_FILES:
                    raise self._error(f"more than {MAX_FILES:,} files")
                yield path

    def _list(self, folder: Path) -> list[Path]:
        """Return what is in a folder and not left out, in the order of the names."""
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in itertools.islice(entries, MAX_ENTRIES + 1)]
        except OSError as error:
            log.warning("%s was skipped: %s", folder, error)
            return []
        self._entries += len(names)
        if self._entries > MAX_ENTRIES:
            raise self._error(f"more than {MAX_ENTRIES:,} entries")
        if "pyvenv.cfg" in names:  # a virtual environment
            return []
        return [folder / name for name in sorted(names) if not _is_skipped(name)]

    def _error(self, excess: str) -> SourceError:
        return SourceError(f"The folder {self._location!r} has {excess}: name a folder in it.", file=self._location)


def _is_skipped(name: str) -> bool:
    return name != "__init__.py" and (name.startswith((".", "_", "test_")) or name in _SKIPPED_NAMES)
