"""The options of a tool: listed once, checked once, passed through."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.template import Isolation, is_duration

JsonObject = dict[str, Any]

_SERVING_OPTIONS = frozenset({"auth", "task"})


class ToolOptions(TypedDict, total=False):
    """What may be said about a tool beside its function. Every entry is optional."""

    name: str
    """The tool's name; the function's own by default."""
    title: str
    """The name that people are shown."""
    description: str
    """What the tool does; the docstring's description by default."""
    examples: Iterable[Mapping[str, Any]]
    """Sample calls: dicts of arguments, or `{"inputs": …, "expected": …, "note": …}`."""
    parse_docstring: bool
    """Whether the docstring is read for descriptions (default) or taken whole as the description."""
    include_long_description: bool
    """Whether the description has the docstring's long part too (default)."""
    binds: Mapping[str, str]
    """Parameters bound from the start: parameter -> dotted state key."""
    input_schema: JsonObject
    """A JSON Schema to show and to enforce instead of the generated one."""
    output_schema: JsonObject
    """A JSON Schema of the returned object instead of the generated one."""
    tags: Iterable[str]
    annotations: Any
    """MCP's hints: a dict (`{"readOnlyHint": True}` or `{"read_only_hint": True}`) or a ToolAnnotations."""
    meta: JsonObject
    version: str
    icons: Iterable[Any]
    """MCP icons: dicts with `src`, or Icon objects."""
    timeout: float | None
    """Seconds the body may take, more than 0; None: no limit."""
    isolation: Isolation | None
    """`"process"`: the body runs in a worker process, which a timeout or a cancellation ends, tree and all."""
    run_in_thread: bool
    """Whether a sync body called from async code runs in a worker thread (default) or in the event loop."""
    include_var_positional: bool
    """Whether `*args` is shown, as a list."""
    include_var_keyword: bool
    """Whether `**kwargs` is shown, as an object."""


def validate_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options. Raises DefinitionError for an unknown one, with near misses, and for a bad value."""
    for name in options:
        if name in _SERVING_OPTIONS:
            raise DefinitionError(f"{name!r} is an option of serving a tool, not of the tool: give it where you serve.")
        if name not in ToolOptions.__annotations__:
            raise DefinitionError(f"Unknown option {name!r}. {near_misses(name, ToolOptions.__annotations__)}")
        if options[name] is not None and name in _CHECKS:
            _CHECKS[name](name, options[name])
    if options.get("timeout") is not None and not options.get("run_in_thread", True):
        raise DefinitionError(
            "A timeout cannot interrupt a body that runs in the event loop's own thread: "
            "leave out run_in_thread=False, or leave out the timeout."
        )
    if options.get("isolation") is not None and not options.get("run_in_thread", True):
        raise DefinitionError("A body runs in the event loop's thread or in a process: leave out run_in_thread=False.")
    return options


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise DefinitionError(f"{name} is a text, not a {type(value).__name__}.")


def _check_seconds(_name: str, value: Any) -> None:
    if not (is_duration(value) and value > 0):
        raise DefinitionError(f"timeout must be a number of seconds greater than 0, not {value!r}.")


def check_isolation(_name: str, value: Any) -> None:
    """Refuse what is no isolation, and one that cannot be had here. Raises DefinitionError."""
    if value != "process":
        raise DefinitionError(f"isolation is 'process' or None, not {value!r}.")
    if importlib.util.find_spec("psutil") is None:
        raise DefinitionError('isolation="process" needs psutil: pip install "ahvn-tools[process]"')


def _check_object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise DefinitionError(f"{name} is a dict of JSON values, not a {type(value).__name__}.")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{name} has a value with no JSON form: {error}.") from error


def _check_output_schema(name: str, value: Any) -> None:
    _check_object(name, value)
    from ahvn_tools.schema.jsonschema import compile_validator

    compile_validator(value)


def _check_meta(name: str, value: Any) -> None:
    _check_object(name, value)
    if not isinstance(value.get("fastmcp", {}), dict):
        raise DefinitionError("meta['fastmcp'] is where FastMCP keeps tags and version: leave it out, or give a dict.")


def _check_tags(_name: str, value: Any) -> None:
    if isinstance(value, str) or not all(isinstance(tag, str) for tag in value):
        raise DefinitionError("tags is a set of texts; write {'search', 'read-only'}.")


def _check_binds(_name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError("binds is a dict, parameter -> state key; write {'db': 'session.db'}.")


def _check_examples(_name: str, value: Any) -> None:
    if isinstance(value, Iterator):
        raise DefinitionError("examples are read more than once; give a list and not an iterator.")
    for example in value:
        if not isinstance(example, Mapping) or not isinstance(example.get("inputs", {}), Mapping):
            raise DefinitionError('An example is a dict of arguments, or {"inputs": {…}, "expected": …, "note": …}.')


def _check_annotations(name: str, value: Any) -> None:
    hints = to_wire_annotations(value) or {}
    for hint in hints:
        if hint not in _HINTS:
            raise DefinitionError(f"{name} has {hint!r}, which is no hint of MCP's. {near_misses(hint, _HINTS)}")


def _check_icons(_name: str, value: Any) -> None:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise DefinitionError(f"icons is a list of MCP icons, not a {type(value).__name__}. {_ICON_HELP}")


_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ICON_HELP = "An icon is a dict such as {'src': 'https://…', 'mimeType': 'image/png'}."
_CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(("name", "title", "description", "version"), _check_text),
    "input_schema": _check_object,
    "output_schema": _check_output_schema,
    "meta": _check_meta,
    "timeout": _check_seconds,
    "isolation": check_isolation,
    "tags": _check_tags,
    "binds": _check_binds,
    "examples": _check_examples,
    "annotations": _check_annotations,
    "icons": _check_icons,
}


def to_wire_annotations(annotations: Any) -> JsonObject | None:
    """Return MCP's hints under their wire names. Raises DefinitionError for what are none."""
    if annotations is None:
        return None
    plain = _to_json_object("annotations", annotations)
    return {_to_camel_case(name): value for name, value in plain.items() if value is not None}


def to_wire_icons(icons: Iterable[Any] | None) -> list[JsonObject] | None:
    """Return icons as MCP writes them. Raises DefinitionError for what is none."""
    if icons is None:
        return None
    plain = [_to_json_object("icons", icon) for icon in icons]
    if not all(isinstance(icon.get("src"), str) for icon in plain):
        raise DefinitionError(_ICON_HELP)
    return plain


def _to_json_object(name: str, value: Any) -> JsonObject:
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, exclude_none=True, mode="json")
    _check_object(name, value)
    plain: JsonObject = value
    return plain


def _to_camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
