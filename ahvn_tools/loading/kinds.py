"""Which kind a source is, by how it is written and by what a file contains."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.contents import Contents
from ahvn_tools.loading.read_options import ReadOptions, exists, to_path
from ahvn_tools.regular_file import read_text

Kind = Literal[
    "builtins",
    "code",
    "folder",
    "http",
    "manifest",
    "module",
    "object",
    "openapi",
    "python",
    "server",
    "wire",
]
"""`"http"`: the `http` of a manifest. `"wire"`: tools as MCP lists them. `"python"`: a file, perhaps with `:NAME`.
`"builtins"`: the built-in tools, and not the module of that name; a folder is `./builtins`."""

_PREFIXES: Final[Mapping[str, Kind]] = {"mcp:": "server", "openapi:": "openapi"}

_KEYS: Final[Sequence[tuple[frozenset[str], type, Kind]]] = (
    (frozenset({"openapi", "swagger"}), str, "openapi"),
    (frozenset({"paths"}), Mapping, "openapi"),  # without a version, which its error names
    (frozenset({"mcpServers", "servers", "mcp"}), Mapping, "server"),
)
"""The top-level keys by which the content of a file is recognized, and the types of their values."""

_YAML_KEY: Final = re.compile(r"""^(["']?)(?P<key>[A-Za-z_][A-Za-z0-9_]*)\1[ \t]*:(?=\s|$)""", re.MULTILINE)

_MEMBER: Final = re.compile(r"(?P<file>.+\.(?:py|json))(?::(?P<name>[^/\\:]+))?", re.DOTALL)
"""A file, and what is meant in it."""


def classify(source: Any, folder: Path | None = None) -> tuple[Kind, Any]:
    """Return the kind of a source, and its location without a prefix. Raises SourceError.

    Paths are relative to `folder`, the current one by default.
    """
    folder = folder or Path.cwd()
    if isinstance(source, os.PathLike):
        return _classify_path(os.fspath(source), folder)
    return _classify_text(source, folder) if isinstance(source, str) else _classify_object(source)


def _classify_text(source: str, folder: Path) -> tuple[Kind, Any]:
    if not source.strip():
        raise SourceError("A source is empty: name a file, a folder, a module, an MCP server or an OpenAPI document.")
    if source == "builtins":
        return "builtins", source
    for prefix, kind in _PREFIXES.items():
        if source.startswith(prefix):
            return kind, source.removeprefix(prefix)
    if "\n" in source:
        return "code", source
    if re.match(r"https?://", source, re.IGNORECASE):
        return ("openapi" if _is_document(source) else "server"), source
    if (match := _MEMBER.fullmatch(source)) and exists(match["file"], folder):
        return _classify_path(source, folder)
    if " " in source and not exists(source, folder):
        return "server", source
    return _classify_path(source, folder)


def classify_file(file: Path, shown: str) -> Kind | None:
    """Return the kind of a YAML or JSON file by its content; None if it is none of those with tools.

    Raises SourceError for a file that cannot be read; `shown` is how it names the file.
    """
    if file.suffix == ".jsonl":
        return "wire"
    is_json = file.suffix == ".json"
    return _kind_of_json(file, shown) if is_json else _kind_of_yaml(file, shown)


def is_manifest(file: Path) -> bool:
    """Return whether a YAML file that is none of the other kinds has `sources`, as manifests have."""
    return "sources" in _yaml_keys(read_text(file, str(file)))


def _classify_path(location: str, folder: Path) -> tuple[Kind, str]:
    path = to_path(location, folder)
    match = _MEMBER.fullmatch(location)
    if path.is_dir():
        return "folder", location
    if path.suffix in {".yaml", ".yml"}:
        return _kind_of_yaml(_existing(path, location), location), location
    if path.suffix in {".json", ".jsonl"}:
        kind = classify_file(_existing(path, location), location)
        if kind is None:
            raise SourceError(
                f"{location} is neither an mcp.json, nor an OpenAPI document, nor a list of MCP tools. "
                "A prefix says what it is: mcp:FILE or openapi:FILE.",
                file=location,
            )
        return kind, location
    if match and match["file"].endswith(".json"):
        _existing(to_path(match["file"], folder), match["file"])
        return "server", location
    if path.suffix in {".js", ".mjs"}:
        return "server", location
    if match is None and path.is_file():
        raise unknown_kind(location)
    return ("python" if match or os.sep in location else "module"), location


def unknown_kind(shown: str) -> SourceError:
    """Return the error about a file whose name does not say that it has tools."""
    return SourceError(
        f"{shown} is no file with tools: a source is a .py file, a manifest or an OpenAPI document "
        "(.yaml, .yml, .json), an mcp.json, a list of MCP tools (.json, .jsonl) or the script of a server (.js, .mjs).",
        file=shown,
    )


def _existing(path: Path, location: str) -> Path:
    if not path.is_file():
        raise SourceError(f"There is no file {location!r}.", file=location)
    return path


def _classify_object(source: Any) -> tuple[Kind, Any]:
    if isinstance(source, Mapping) and all(isinstance(key, str) for key in source):
        if kind := _kind_of_content(source):
            return kind, source
    elif isinstance(source, list | tuple):
        if source and all(isinstance(item, str) for item in source):
            raise SourceError("A list of texts is no source: pass several sources as load(first, second).")
        if source and all(map(_is_wire_tool, source)):
            return "wire", source
    return "object", source


def _is_document(url: str) -> bool:
    """Return whether a URL is that of a document, and not of a server."""
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise SourceError(f"The URL of the source cannot be read: {error}.") from None
    return path.rstrip("/").lower().endswith((".json", ".yaml", ".yml", "openapi"))


def _kind_of_yaml(file: Path, shown: str) -> Kind:
    """Return the kind of a YAML file by its top-level keys, without parsing it: another reader does that."""
    text = read_text(file, shown)
    if text.lstrip().startswith("{"):
        return _kind_of_json(file, shown) or "manifest"
    keys = _yaml_keys(text)
    return next((kind for known, _, kind in _KEYS if keys & known and kind != "server"), "manifest")


def _yaml_keys(text: str) -> set[str]:
    return {match["key"] for match in _YAML_KEY.finditer(text)}


def _kind_of_json(file: Path, shown: str) -> Kind | None:
    from ahvn_tools.loading.json_file import read_json

    return _kind_of_content(read_json(file, shown))


def _kind_of_content(content: Any) -> Kind | None:
    if isinstance(content, list):
        return "wire" if content and all(map(_is_wire_tool, content)) else None
    if not isinstance(content, Mapping):
        return None
    for known, type_, kind in _KEYS:
        if any(isinstance(content.get(key), type_) for key in known):
            return kind
    answer = content.get("result", content)
    tools = answer.get("tools") if isinstance(answer, Mapping) else None
    is_wire = isinstance(tools, list) and all(map(_is_wire_tool, tools))
    return "wire" if is_wire or _is_wire_tool(content) else None


def _is_wire_tool(content: Any) -> bool:
    return isinstance(content, Mapping) and "name" in content and bool({"inputSchema", "input_schema"} & content.keys())


_READERS: Final[Mapping[Kind, str]] = {
    "builtins": "manifest.builder:read_builtins",
    "code": "loading.python_modules:read_code",
    "folder": "loading.folder:read",
    "http": "loading.openapi:read_request",
    "manifest": "manifest.builder:read",
    "module": "loading.python_modules:read",
    "object": "loading.members:read",
    "openapi": "loading.openapi:read",
    "python": "loading.python_modules:read",
    "server": "loading.servers:read",
    "wire": "loading.json_file:read",
}
"""The module that reads a kind, and its function, imported when it is needed: most are slow."""


_CHECKS: Final[Mapping[Kind, str | None]] = {
    "builtins": "manifest.builder:check_builtins",
    "code": "loading.python_modules:check_code",
    "folder": None,
    "module": "loading.python_modules:check",
    "object": None,
    "python": "loading.python_modules:check",
}
"""The kinds that are read last, because that may run code, and the functions that check their trust before. In a folder
each file is checked by itself."""


def prepare_source(kind: Kind, location: Any, options: ReadOptions) -> Callable[[], Contents]:
    """Check a source, and return the function that reads it. No code runs and no file is written before that is called.

    Raises SourceError for what is not trusted, and for what is wrong.
    """
    if kind == "manifest":
        options.require_readable(location)
        reader: Callable[[], Contents] = _find_function("manifest.builder:prepare")(location, options)
        return reader
    if kind not in _CHECKS:
        contents = read_source(kind, location, options)
        return lambda: contents
    if isinstance(location, str):
        options.require_readable(location)
    if (check := _CHECKS[kind]) is not None:
        _find_function(check)(location, options)
    return lambda: read_source(kind, location, options)


def _find_function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(f"ahvn_tools.{module}"), function)
    return found


def read_source(kind: Kind, location: Any, options: ReadOptions) -> Contents:
    """Return what a source contains. Raises SourceError when it cannot be loaded."""
    if isinstance(location, str):
        options.require_readable(location)
    contents: Contents = _find_function(_READERS[kind])(location, options)
    return contents
