"""Where a tool is defined: the file and line of its function, or of its name in a JSON or YAML file."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.errors import SourceError
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.spec import ToolSpec

_DEFINITION_SUFFIXES = {".json", ".jsonl", ".yaml", ".yml"}
_MAX_BYTES = 50_000_000
_NAMED = re.compile(r"""\b(?:name|operationId)["']?\s*:\s*(?P<quote>["']?)(?P<name>[^"'{}\[\],#\s]+)(?P=quote)""")
"""The name of a tool, or of anything else, in JSON and YAML."""
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Location:
    """A line of a file."""

    file: Path
    line: int = 1

    def __str__(self) -> str:
        return f"{to_relative(self.file)}:{self.line}"


def to_relative(file: Path) -> str:
    """Return a path relative to the current folder, if it is in it, with slashes."""
    try:
        return file.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()


class Locations:
    """Finds the locations of the tools that some sources define."""

    def __init__(self, sources: Sequence[str], specs: Iterable[ToolSpec], errors: Iterable[SourceError] = ()) -> None:
        """Find definitions that are no functions in those sources that are JSON or YAML files, or folders of them."""
        self._specs = {spec.name: spec for spec in specs}
        self._errors = {str(error): _locate_error(error) for error in errors}
        self._files = [file for source in sources for file in _iter_definition_files(source)]
        self._sources = [file for source in sources if (file := _to_file(source)) is not None]

    @functools.cache  # noqa: B019  # the object lives as long as its command
    def find(self, tool: str) -> Location | None:
        """Return where a tool is defined; None if that is unknown, as of a tool of a server."""
        spec = self._specs.get(tool)
        if spec is not None and (location := _locate_function(spec)) is not None:
            return location
        found = next((file for file in self._files if tool in _index_names(file)), None)
        return None if found is None else Location(file=found, line=_index_names(found)[tool])

    def find_finding(self, finding: Finding) -> Location | None:
        """Return where to correct what was found: at the tool, else in the only file that is a source."""
        if finding.tool is not None and (location := self.find(finding.tool)) is not None:
            return location
        if finding.problem in self._errors:
            return self._errors[finding.problem]
        return Location(file=self._sources[0]) if len(self._sources) == 1 else None


def _locate_error(error: SourceError) -> Location | None:
    """Return where a source is wrong; None if the error does not say."""
    if error.file is None or not Path(error.file).is_file():
        return None
    return Location(file=Path(error.file).resolve(), line=error.line or 1)


def _to_file(source: str) -> Path | None:
    """Return the file of a source such as `tools.py:kit`, `openapi:api.yaml`; None for any other source."""
    text = source.removeprefix("openapi:").removeprefix("mcp:")
    for name in (text, text.rpartition(":")[0]):
        with contextlib.suppress(OSError, ValueError):
            if name and Path(name).is_file():
                return Path(name).resolve()
    return None


def _iter_definition_files(source: str) -> list[Path]:
    file = _to_file(source)
    if file is not None:
        return [file] if file.suffix in _DEFINITION_SUFFIXES else []
    folder = Path(source)
    if "\n" in source or not folder.is_dir():
        return []
    return sorted(path.resolve() for path in folder.rglob("*") if path.suffix in _DEFINITION_SUFFIXES)


def _locate_function(spec: ToolSpec) -> Location | None:
    """Return the line of `def`, without the decorators; None for a function of this package or without a file."""
    try:
        function = inspect.unwrap(getattr(spec.function, "func", spec.function))
        file = Path(inspect.getsourcefile(function) or "")
        lines, first = inspect.getsourcelines(function)
    except (TypeError, OSError, ValueError):
        return None
    if not file.is_file() or file.resolve().is_relative_to(_PACKAGE):
        return None
    offset = next((index for index, line in enumerate(lines) if line.lstrip().startswith(("def ", "async def "))), 0)
    return Location(file=file.resolve(), line=first + offset)


@functools.lru_cache(maxsize=256)
def _index_names(file: Path) -> dict[str, int]:
    """Return the first lines on which a JSON or YAML file gives something a name."""
    lines: dict[str, int] = {}
    for number, line in enumerate(_read_lines(file), 1):
        for match in _NAMED.finditer(line):
            lines.setdefault(match["name"], number)
    return lines


def _read_lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > _MAX_BYTES:
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
