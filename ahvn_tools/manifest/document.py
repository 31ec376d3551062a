"""Document: the data of a manifest, and where each part of it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError, near_misses
from ahvn_tools.loading.yaml_file import YamlDocument, read_yaml
from ahvn_tools.redaction import clip
from ahvn_tools.sources.budget import Budget

Path_ = tuple[str | int, ...]

MAX_PROBLEMS: Final = 100
"""An error shows at most this many problems."""

MAX_PROBLEM_CHARS: Final = 2_000
"""An error shows at most this much of a problem."""

MAX_ERROR_CHARS: Final = 100_000
"""The maximum length of an error about several problems, also those of other manifests."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A mistake in a manifest."""

    path: Path_
    """The keys that lead to it."""
    message: str
    is_written: bool = False
    """Whether the path is that in the file, where a profile is merged over nothing."""
    is_complete: bool = False
    """Whether the message names a file and a line already."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """The data of a manifest, as it is written, with the parts of a profile or an audience merged over it."""

    file: Path | None
    """The file; None for the sources that `load` takes."""
    folder: Path
    """The folder that relative paths refer to."""
    data: dict[str, Any] = field(repr=False)
    """The data, with `${VARIABLE}` as it is written."""
    yaml: YamlDocument | None = field(default=None, repr=False)
    origins: Mapping[Path_, Path_] = field(default_factory=dict, repr=False)
    """Where a part is written that was merged over another: its path -> the path in the file."""

    def error(self, problems: Sequence[Problem]) -> SourceError:
        """Return one error about these, a line for each, in the order of the file; of many, of the first."""
        places = [(self._place(p.path if p.is_written else self.origin(p.path)), p) for p in problems]
        places.sort(key=lambda item: item[0][0] or 0)
        shown = places[:MAX_PROBLEMS]
        lines = [p.message if p.is_complete else self._to_line(*place, p.message) for place, p in shown]
        if len(places) > len(shown):
            lines.append(f"There are {len(places) - len(shown):,} more problems.")
        file = None if self.yaml is None else self.yaml.name
        return SourceError(clip("\n".join(dict.fromkeys(lines)), MAX_ERROR_CHARS), file=file, line=places[0][0][0])

    def _to_line(self, line: int | None, key: str, message: str) -> str:
        file = None if self.yaml is None else self.yaml.name
        place = [file, None if line is None or file is None else str(line)]
        start = ":".join(part for part in place if part is not None)
        return clip(": ".join(part for part in (start, key, message) if part), MAX_PROBLEM_CHARS)

    def _place(self, path: Path_) -> tuple[int | None, str]:
        """Return the line and the key of a part, or of the innermost part around it that is written."""
        line = None
        for end in range(len(path), -1, -1):
            if self.yaml is not None and (line := self.yaml.line_of(path[:end])) is not None:
                break
        return line, to_text(path)

    def origin(self, path: Path_) -> Path_:
        """Return the path in the file of a part of the merged data."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.origins:
                return (*self.origins[path[:end]], *path[end:])
        return path


def to_text(path: Path_) -> str:
    """Return a path as errors show it: `sources[0].timeout`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def read_document(file: Path, shown: str, budget: Budget) -> Document:
    """Read a manifest; `shown` is how errors name the file. Raises SourceError."""
    yaml = read_yaml(file, shown, budget)
    document = Document(file=file, folder=file.parent, data={}, yaml=yaml)
    data = {} if yaml.value is None else yaml.value
    if not isinstance(data, dict):
        raise document.error([Problem(path=(), message="a manifest is a mapping: `sources: […]`.")])
    return Document(file=file, folder=file.parent, data=data, yaml=yaml)


def merge_part(document: Document, kind: str, name: str | None) -> Document:
    """Return the document with one of its `profiles` or `audiences` merged over it, and without the others.

    Mappings are merged key by key; any other value replaces the one below it, and null removes it.
    """
    parts = document.data.get(kind)
    part = parts.get(name) if isinstance(parts, dict) and name is not None else None
    origins: dict[Path_, Path_] = {}
    data: Any = {key: value for key, value in document.data.items() if key != kind}
    if isinstance(part, dict):
        data = _merge(data, part, (), document.origin((kind, str(name))), origins)
    kept = {
        path: origin
        for path, origin in document.origins.items()
        if not any(path[:end] in origins for end in range(len(path) + 1))
    }
    origins = kept | origins
    return Document(file=document.file, folder=document.folder, data=data, yaml=document.yaml, origins=origins)


def unknown_part(document: Document, kind: str, name: str) -> str | None:
    """Return what is wrong with the name of a profile or an audience; None if there is one of this name."""
    parts = document.data.get(kind)
    known = list(parts) if isinstance(parts, dict) else []
    if name in known:
        return None
    singular = kind.removesuffix("s")
    hint = near_misses(name, known) if known else f"The manifest has no {kind}."
    return f"there is no {singular} {name!r}. {hint}"


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(item) for key, item in value.items() if item is not None}


def _merge(below: Any, above: Any, path: Path_, origin: Path_, origins: dict[Path_, Path_]) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        origins[path] = origin
        return _without_nulls(above)
    merged = dict(below)
    for key, value in above.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(below.get(key), value, (*path, key), (*origin, key), origins)
    return merged
