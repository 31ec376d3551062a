"""ManifestDocument: the data of a manifest, with its lines, its profiles and its variables."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from ahvn_tools.errors import SourceError, clip, near_misses
from ahvn_tools.loading.read_options import VARIABLE, Place, map_texts
from ahvn_tools.redaction.texts import redact
from ahvn_tools.sources.budget import Budget
from ahvn_tools.sources.yaml_file import YamlDocument, read_yaml

MAX_PROBLEMS: Final = 100
"""An error shows at most this many problems."""

MAX_PROBLEM_CHARS: Final = 2_000
"""An error shows at most this much of a problem."""

MAX_ERROR_CHARS: Final = 100_000
"""The maximum length of an error about several problems, also those of other manifests."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A mistake in a manifest."""

    path: Place
    """The keys that lead to it."""
    message: str
    is_written: bool = False
    """Whether the path is that in the file, where a profile is merged over nothing."""
    is_complete: bool = False
    """Whether the message names a file and a line already."""


@dataclass(frozen=True, kw_only=True)
class ManifestDocument:
    """The data of a manifest, as it is written, with the parts of a profile or an audience merged over it."""

    file: Path | None
    """The file; None for the sources that `load` takes."""
    folder: Path
    """The folder that relative paths refer to."""
    data: dict[str, Any] = field(repr=False)
    """The data, with `${VARIABLE}` as it is written."""
    yaml: YamlDocument | None = field(default=None, repr=False)
    origins: Mapping[Place, Place] = field(default_factory=dict, repr=False)
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

    def _place(self, path: Place) -> tuple[int | None, str]:
        """Return the line and the key of a part, or of the innermost part around it that is written."""
        line = None
        for end in range(len(path), -1, -1):
            if self.yaml is not None and (line := self.yaml.line_of(path[:end])) is not None:
                break
        return line, to_text(path)

    def origin(self, path: Place) -> Place:
        """Return the path in the file of a part of the merged data."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.origins:
                return (*self.origins[path[:end]], *path[end:])
        return path


def to_text(path: Place) -> str:
    """Return a path as errors show it: `sources[0].timeout`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def read_document(file: Path, shown: str, budget: Budget) -> ManifestDocument:
    """Read a manifest; `shown` is how errors name the file. Raises SourceError."""
    yaml = read_yaml(file, shown, budget)
    document = ManifestDocument(file=file, folder=file.parent, data={}, yaml=yaml)
    data = {} if yaml.value is None else yaml.value
    if not isinstance(data, dict):
        raise document.error([Problem(path=(), message="a manifest is a mapping: `sources: […]`.")])
    return ManifestDocument(file=file, folder=file.parent, data=data, yaml=yaml)


def merge_part(document: ManifestDocument, kind: str, name: str | None) -> ManifestDocument:
    """Return the document with one of its `profiles` or `audiences` merged over it, and without the others.

    Mappings are merged key by key; any other value replaces the one below it, and null removes it.
    """
    parts = document.data.get(kind)
    part = parts.get(name) if isinstance(parts, dict) and name is not None else None
    origins: dict[Place, Place] = {}
    data: Any = {key: value for key, value in document.data.items() if key != kind}
    if isinstance(part, dict):
        data = _merge(data, part, (), document.origin((kind, str(name))), origins)
    kept = {
        path: origin
        for path, origin in document.origins.items()
        if not any(path[:end] in origins for end in range(len(path) + 1))
    }
    origins = kept | origins
    return ManifestDocument(file=document.file, folder=document.folder, data=data, yaml=document.yaml, origins=origins)


def unknown_part(document: ManifestDocument, kind: str, name: str) -> str | None:
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


def _merge(below: Any, above: Any, path: Place, origin: Place, origins: dict[Place, Place]) -> Any:
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


_VALUE_KEYS: Final = frozenset(
    {"preset", "env", "auth", "headers", "inputs", "http", "http_options", "variables", "server"}
)
"""Keys below which all texts are values, whatever their keys are."""

_SHOWN_KEYS: Final = frozenset(
    {
        "annotations", "arguments", "audience", "binds", "core", "description", "exclude", "group", "groups", "include",
        "key", "may_receive", "name", "notes", "prefix", "profile", "rename", "tags", "title", "toolset", "toolsets",
    }
)  # fmt: skip
"""Keys of what models, hosts and errors show."""

_MCP_JSON_PREFIXES: Final = frozenset({"env", "input"})
"""What VS Code writes before the name of a variable: `${env:NAME}`."""

_SECRET_KEY: Final[Place] = ("approval", "secret_key")
"""A value that must not be in a file, so its variable has no default."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The data of a manifest with the values of its variables."""

    data: Any = field(repr=False)
    secret_paths: frozenset[Place] = field(repr=False)
    """The texts that contain a variable."""
    values: Mapping[str, str] = field(repr=False)
    """The values from the environment, by variable."""
    problems: tuple[Problem, ...]

    def seal(self, value: Any, path: Place) -> Any:
        """Return a part of the data in which each text that contains a variable is a SecretStr."""
        return map_texts(value, lambda text, at: SecretStr(text) if at in self.secret_paths else text, path)

    def contains_secret(self, path: Place) -> bool:
        """Return whether a part of the data, or a part in it, contains a variable."""
        return path in self._paths_with_secrets

    @functools.cached_property
    def _paths_with_secrets(self) -> frozenset[Place]:
        return frozenset(path[:end] for path in self.secret_paths for end in range(len(path) + 1))

    def redact(self, text: str) -> str:
        """Return a text in which the values from the environment are replaced by the names of their variables."""
        return redact(text, self.values)


def resolve_variables(data: Any, env: Mapping[str, str], budget: Budget) -> Resolved:
    """Return the data with the values of its variables, which count. What is wrong is in `problems`."""
    resolver = _Resolver(env, budget)
    resolved = resolver.resolve(data, ())
    return Resolved(
        data=resolved,
        secret_paths=frozenset(resolver.secret_paths),
        values=resolver.values,
        problems=tuple(resolver.problems),
    )


class _Resolver:
    def __init__(self, env: Mapping[str, str], budget: Budget) -> None:
        self._env = env
        self._budget = budget
        self.secret_paths: set[Place] = set()
        self.values: dict[str, str] = {}
        self.problems: list[Problem] = []

    def resolve(self, value: Any, path: Place) -> Any:
        if isinstance(value, str):
            return self._resolve_text(value, path)
        if isinstance(value, list):
            return [self.resolve(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._resolve_member(key, item, (*path, key)) for key, item in value.items()}
        return value

    def _resolve_member(self, key: str, value: Any, path: Place) -> Any:
        if path[0] == "sources" and path[2:] == ("code",):
            return value
        if "${" in key.replace("$${", ""):
            self._add_problem(path, "a variable cannot be in a key, only in a value")
        return self.resolve(value, path)

    def _resolve_text(self, text: str, path: Place) -> str:
        is_code = "\n" in text and path[:-1] == ("sources",)
        if "${" not in text or is_code:
            return text
        names = [match["name"] for match in VARIABLE.finditer(text) if match["name"] is not None]
        if names and _is_shown(path):
            self._add_problem(
                path,
                f"`${{{names[0]}}}` cannot be used here, because this text is shown and variables count as secrets. "
                "Write `$${` for a literal `${`",
            )
            return text
        if names:
            self.secret_paths.add(path)
        return VARIABLE.sub(lambda match: self._replace(match, path), text)

    def _replace(self, match: re.Match[str], path: Place) -> str:
        name, default = match["name"], match["default"]
        if name is None and match[0] == "$${":
            return "${"
        if name is None:
            self._add_problem(path, "a variable is `${NAME}` or `${NAME:default}`, and a literal `${` is `$${`")
        elif name in _MCP_JSON_PREFIXES and default:
            self._add_problem(
                path, f"write `${{{default}}}`: `{name}:` belongs to mcp.json, and here `:` begins a default"
            )
        elif (value := self._look_up(name, path)) is not None:
            self.values[name] = value
            self._budget.spend(chars=len(value))
            return value
        elif default is not None:
            return default
        else:
            advice = "Set it" if path == _SECRET_KEY else f"Set it, or write `${{{name}:default}}`"
            self._add_problem(path, f"the environment variable {name!r} is not set. {advice}")
        return ""

    def _look_up(self, name: str, path: Place) -> str | None:
        try:
            return self._env.get(name)
        except SourceError as error:  # it is not trusted
            self._add_problem(path, str(error).removesuffix("."))
            return ""

    def _add_problem(self, path: Place, message: str) -> None:
        self.problems.append(Problem(path=path, message=f"{message}."))


def _is_shown(path: Place) -> bool:
    """Return whether models, hosts or errors see a text."""
    if path[0] == "binds" and path[2:3] == ("default",):
        return False
    for key in path[2:] if path[0] == "tools" else path:  # the second one is the name of a tool
        if key in _VALUE_KEYS:
            return False
        if key in _SHOWN_KEYS:
            return True
    return False
