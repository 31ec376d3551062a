"""The options of a tool: listed once, checked once, passed through."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from pydantic_core import to_jsonable_python

from ahvn_tools.errors import DefinitionError, near_misses

JsonObject = dict[str, Any]

_SERVING = frozenset({"auth", "task"})


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
    run_in_thread: bool
    """Whether a sync body called from async code runs in a worker thread (default) or in the event loop."""
    include_var_positional: bool
    """Whether `*args` is shown, as a list."""
    include_var_keyword: bool
    """Whether `**kwargs` is shown, as an object."""


def checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options. Raises DefinitionError for an unknown one, with near misses, and for a bad value."""
    for name in options:
        if name in _SERVING:
            raise DefinitionError(f"{name!r} is an option of serving a tool, not of the tool: give it where you serve.")
        if name not in ToolOptions.__annotations__:
            raise DefinitionError(f"Unknown option {name!r}. {near_misses(name, ToolOptions.__annotations__)}")
    timeout = options.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < float("inf")):
        raise DefinitionError(f"timeout must be a number of seconds greater than 0, not {timeout!r}.")
    if timeout is not None and not options.get("run_in_thread", True):
        raise DefinitionError(
            "A timeout cannot interrupt a body that runs in the event loop's own thread: "
            "leave out run_in_thread=False, or leave out the timeout."
        )
    if isinstance(options.get("tags"), str):
        raise DefinitionError(f"tags is a set of texts; write {{{options['tags']!r}}}.")
    for example in options.get("examples") or ():
        if not isinstance(example, Mapping) or not isinstance(example.get("inputs", {}), Mapping):
            raise DefinitionError('An example is a dict of arguments, or {"inputs": {…}, "expected": …, "note": …}.')
    return options


def wire_annotations(annotations: Any) -> JsonObject | None:
    """Return MCP's hints under their wire names."""
    if annotations is None:
        return None
    return {_camel(name): value for name, value in _plain(annotations).items() if value is not None}


def wire_icons(icons: Iterable[Any] | None) -> list[JsonObject] | None:
    """Return icons as MCP writes them."""
    return None if icons is None else [_plain(icon) for icon in icons]


def _plain(value: Any) -> JsonObject:
    plain: JsonObject = (
        value.model_dump(by_alias=True, exclude_none=True, mode="json")
        if hasattr(value, "model_dump")
        else to_jsonable_python(value)
    )
    return plain


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
