"""DefinitionFile: the YAML file of one tool, with what all kinds of definitions have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import SourceError, ToolSpecError, near_misses
from ahvn_tools.loading.environment import expand
from ahvn_tools.loading.kinds import FOLDER_KINDS
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.loading.yaml_file import MAX_MESSAGE_CHARS, YamlDocument, read_yaml
from ahvn_tools.redaction import clip

_KINDS: Final = {
    "http": "http",
    "native": "http",
    "function": "function",
    "builtin": "function",
    "mcp": "mcp",
}
"""What `kind`, or `tool_type`, says, and the kind."""

_ALIASES: Final = {
    "tool_type": "kind", "parameters_schema": "input_schema", "parameters": "input_schema", "metadata": "meta",
}  # fmt: skip
"""Other spellings of keys."""

_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "kind": (str, "a text"),
    "name": (str, "a text"),
    "title": (str, "a text"),
    "description": (str, "a text"),
    "input_schema": (dict, "a JSON Schema"),
    "output_schema": (dict, "a JSON Schema"),
    "enabled": (bool, "true or false"),
    "meta": (dict, "a mapping"),
    "tags": (list, "a list of texts"),
    "annotations": (dict, "a mapping of hints"),
}
"""The keys of all definitions but `timeout`, with their types."""

_OBJECT_KEYWORDS: Final = frozenset({
    "type", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
    "maxProperties", "allOf", "anyOf", "oneOf", "$ref", "$schema", "$defs", "title", "description",
})  # fmt: skip
"""One of these is in each JSON Schema of arguments; the name of an argument is none."""

_TOOL_OPTIONS: Final = ("title", "description", "input_schema", "output_schema", "meta", "tags", "annotations")

_DURATION: Final = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>ms|s|m)?")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, None: 1}


@dataclass(frozen=True, kw_only=True)
class DefinitionFile:
    """The YAML file of one tool, or of one MCP server."""

    file: Path
    document: YamlDocument = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)
    """The content by canonical keys: `kind` for `tool_type`, and so on."""
    spellings: Mapping[str, str] = field(repr=False)
    """The keys as they are written, by canonical key."""
    kind: str
    """`"http"`, `"function"` or `"mcp"`."""

    @property
    def name(self) -> str:
        """The name of the tool: that of the file by default."""
        return str(self.data.get("name", self.file.stem))

    @property
    def is_enabled(self) -> bool:
        """Whether the tool is to be used."""
        return bool(self.data.get("enabled", True))

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take. Raises SourceError for what is no duration."""
        value = self.data.get("timeout")
        seconds = None if isinstance(value, bool) else to_seconds(str(value))
        if value is not None and not seconds:
            raise self.error("timeout", "it is a number of seconds above 0, such as 30, 30s or 500ms")
        return seconds

    def tool_options(self) -> dict[str, Any]:
        """Return the options of `@tool` that the file has, with its name. Raises SourceError."""
        options = {key: self.data[key] for key in _TOOL_OPTIONS if key in self.data}
        return {"name": self.name, **options, **({} if self.timeout is None else {"timeout": self.timeout})}

    def expand(self, key: str, options: ReadOptions) -> Any:
        """Return the value of a key with its variables replaced; None without it. Raises SourceError."""
        try:
            return expand(self.data.get(key), options.variables)
        except SourceError as error:
            raise self.error(key, str(error)) from None

    def check_keys(self, types: Mapping[str, tuple[type | tuple[type, ...], str]]) -> None:
        """Raise SourceError for a key that is none of these and none of all definitions, and for a wrong type.

        `types` has the types of the further keys, and what to write instead of another one.
        """
        known: dict[str, Any] = {**_TYPES, **types}
        for key, value in self.data.items():
            if key == "timeout":
                continue
            if key not in known:
                hint = near_misses(key, [*known, "timeout", *_ALIASES])
                raise self.error(key, f"a definition of the kind {self.kind!r} has no such key. {hint}")
            expected, words = known[key]
            if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
                raise self.error(key, f"it is {words}, not {_describe(value)}")
        if (schema := self.data.get("input_schema")) and _OBJECT_KEYWORDS.isdisjoint(schema):
            raise self.error("input_schema", "it is a JSON Schema: write {type: object, properties: {…}}")
        if not all(isinstance(tag, str) for tag in self.data.get("tags", ())):
            raise self.error("tags", "it is a list of texts")

    def error(self, key: str | None, message: str) -> SourceError:
        """Return an error about a key, or about the whole file, with the line."""
        spelling = None if key is None else self.spellings.get(key, key)
        line = None if spelling is None else self.document.line_of((spelling,))
        return _error(self.document.name, line, spelling, message)

    def wrap(self, error: ToolSpecError) -> SourceError:
        """Return an error about the definition for one of the tool that it makes."""
        return _error(self.document.name, None, None, str(error))


def to_seconds(duration: str) -> float | None:
    """Return the seconds of a text such as `30`, `30s`, `500ms` or `2m`; None for another text."""
    match = _DURATION.fullmatch(duration)
    return None if match is None else float(match["number"]) * _SECONDS[match["unit"]]


def read_definition(location: str, options: ReadOptions) -> DefinitionFile:
    """Read the file of a definition. The kind is that of its folder unless the file says it. Raises SourceError."""
    file = options.resolve(location)
    document = read_yaml(file, location, options.budget)
    if not isinstance(document.value, dict):
        raise _error(location, None, None, "a definition is a mapping with `name`, `kind` and so on.")
    return to_definition(file, document)


def to_definition(file: Path, document: YamlDocument, default_kind: str | None = None) -> DefinitionFile:
    """Return the definition in a document; `file` is where it is written. Raises SourceError."""
    location = document.name
    spellings: dict[str, str] = {}
    for key in document.value:
        canonical = _ALIASES.get(key, key)
        if canonical in spellings:
            line = document.line_of((key,))
            raise _error(location, line, key, f"it means the same as {spellings[canonical]!r}: keep one of them")
        spellings[canonical] = key
    data = {canonical: document.value[key] for canonical, key in spellings.items()}
    kind = data.get("kind", default_kind or FOLDER_KINDS.get(file.resolve().parent.name))
    known_kind = _KINDS.get(kind) if isinstance(kind, str) else None
    if known_kind is None:
        line = document.line_of((spellings["kind"],)) if "kind" in data else None
        found = f"it is not {kind!r}. " if isinstance(kind, str) else ""
        raise _error(location, line, spellings.get("kind", "kind"), f"{found}Known: {', '.join(map(repr, _KINDS))}")
    return DefinitionFile(file=file, document=document, data=data, spellings=spellings, kind=known_kind)


def _error(name: str, line: int | None, key: str | None, message: str) -> SourceError:
    place = name if line is None else f"{name}, line {line}"
    part = "" if key is None else f"`{key}`: "
    end = "" if message.endswith((".", "?")) else "."
    return SourceError(
        f"{place}: {clip(part, MAX_MESSAGE_CHARS)}{clip(message, MAX_MESSAGE_CHARS)}{end}", file=name, line=line
    )


def _describe(value: Any) -> str:
    """Return the type of a value in words of YAML: the value itself may be a secret."""
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")
