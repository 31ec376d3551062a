"""The options of a tool, and their checks."""

from __future__ import annotations

import importlib.util
import json
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, get_args

from ahvn_tools.binding import Binding
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.state import StateKey
from ahvn_tools.template import Isolation, is_count, is_duration

OutputForm = Literal["json", "raw"]
"""What the value of a result is: the JSON form of what the function returned, or that object itself."""

_CONTEXT_RESOLVERS = frozenset({resolve_context, resolve_transport_context})

_SERVING_OPTIONS = frozenset({"auth", "task"})


class DefinitionOptions(TypedDict, total=False):
    """The options of a tool that only its definition has, and not its entry in a toolkit."""

    name: str
    """The tool's name; the function's own by default."""
    title: str
    """The name that user interfaces display."""
    description: str
    """What the tool does; the docstring's description by default."""
    examples: Iterable[Mapping[str, Any]]
    """Sample calls: dicts of arguments, or `{"inputs": …, "expected": …, "note": …}`. The tool must accept them."""
    parse_docstring: bool
    """Whether the docstring is parsed for descriptions (default) or used unchanged as the description."""
    include_long_description: bool
    """Whether the description includes the docstring's long description (default)."""
    docstring_sections: Iterable[str] | None
    """The titles of the docstring's sections that the description includes, such as `["Note", "Raises"]`; None: all
    (default). Parameters, results and examples are always read."""
    description_separator: str
    """What joins the short and the long description; a blank line by default."""
    input_schema: JsonObject
    """A JSON Schema of the arguments, exported and enforced instead of the generated one. `**kwargs` get its properties
    that have no parameter."""
    coerce_numbers_to_str: bool
    """Whether a number is accepted, and made a text, where a text is wanted: models send `{"id": 1}` (default)."""
    convert: bool
    """Whether the function gets values of its annotated types (default), or the validated JSON as it came."""
    output_schema: JsonObject | None
    """A JSON Schema of the returned object instead of the generated one; None: no output schema."""
    output: OutputForm
    """`"raw"`: the value of a result is the very object that the function returned, and there is no output schema.
    `"json"` (default): its JSON form."""
    render: Callable[[Any], Any]
    """Returns what models read of a raw value, or of each item of a generator: a text, a content block or a list of
    these. Sync or async. Without it they read the JSON form."""
    annotations: Any
    """MCP's hints: a dict (`{"readOnlyHint": True}` or `{"read_only_hint": True}`) or a ToolAnnotations."""
    meta: JsonObject
    version: str
    icons: Iterable[Any]
    """MCP icons: dicts with `src`, or Icon objects."""
    run_in_thread: bool
    """Whether a sync body called from async code runs in a worker thread (default) or in the event loop."""
    include_var_positional: bool
    """Whether the model sees `*args`, as a list."""
    include_var_keyword: bool
    """Whether the model sees `**kwargs`, as an object."""


class UnboundToolOptions(DefinitionOptions, total=False):
    """The options of a tool that keep its parameters."""

    tags: Iterable[str]
    timeout: float | None
    """Seconds a call may take, more than 0; None: no limit."""
    max_items: int | None
    """How many items a generator may yield in one call, 100,000 by default; None: no limit."""
    max_bytes: int | None
    """How large these items may be together, about, in bytes of memory, 100,000,000 by default; None: no limit."""
    isolation: Isolation | None
    """`"process"`: the body runs in a worker process; a timeout or a cancellation kills its whole process tree.
    `"executor"`: it runs in a worker of the toolkit's executor."""
    ship: Iterable[str]
    """Dotted keys of the state that the ToolContext of a body in a worker of an executor gets; none by default."""
    ship_secrets: bool
    """Whether secret values may be sent to a worker of an executor; False by default."""
    keep_children: bool
    """Whether processes that an isolated body has started run on after its call, until its worker ends."""


class ToolOptions(UnboundToolOptions, total=False):
    """Options that describe a tool in addition to its function. All are optional."""

    binds: Mapping[str, str]
    """Parameters bound from the start: parameter to dotted state key."""
    arguments: Mapping[str, ArgumentChange]
    """Changes of arguments: the argument's own name to its new `name`, `description`, `default` and so on."""


def validate_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options, with examples that can be read again.

    Raises DefinitionError for an unknown option, with similar names, and for a wrong value.
    """
    if not isinstance(examples := options.get("examples"), list | tuple | None):
        options = {**options, "examples": _to_list(examples)}
    for name in options:
        if name in _SERVING_OPTIONS:
            raise DefinitionError(f"{name!r} is an option of serving, not of a tool; pass it where you serve the tool.")
        if name not in ToolOptions.__annotations__:
            raise DefinitionError(f"Unknown option {name!r}. {near_misses(name, ToolOptions.__annotations__)}")
        if options[name] is not None:
            check_option(name, options[name])
    if options.get("timeout") is not None and not options.get("run_in_thread", True):
        raise DefinitionError(
            "A timeout cannot interrupt a body in the event loop's thread: remove run_in_thread=False or the timeout."
        )
    if options.get("isolation") is not None and not options.get("run_in_thread", True):
        raise DefinitionError(
            "A body in a process does not run in the event loop's thread: remove run_in_thread=False."
        )
    if options.get("keep_children") and options.get("isolation") is None:
        raise DefinitionError('keep_children is an option of isolated tools: add isolation="process", or remove it.')
    if options.get("keep_children") and options.get("isolation") == "executor":
        raise DefinitionError('keep_children needs isolation="process": the executor decides about its workers.')
    return options


def check_option(name: str, value: Any) -> None:
    """Raise DefinitionError for a value that an option cannot have."""
    if name in _CHECKS:
        _CHECKS[name](name, value)


def to_shipped_keys(name: str, keys: Iterable[str] | None, bindings: Mapping[str, Binding]) -> tuple[StateKey, ...]:
    """Return the keys of the option `ship` of a tool.

    Raises StateKeyError for a malformed key, DefinitionError for an index, and for a tool that takes no ToolContext.
    """
    parsed = tuple(map(StateKey.parse, keys or ()))
    for key in parsed:
        if not all(isinstance(step, str) for step in key.steps):
            raise DefinitionError(f"ship has {key.text!r}; name the whole list: a part of it would have another index.")
    if parsed and _CONTEXT_RESOLVERS.isdisjoint(binding.resolver for binding in bindings.values()):
        raise DefinitionError(
            f"{name!r} has the option ship, and takes no ToolContext that gets this state: add a parameter "
            "`context: ToolContext`, or remove ship. Bound parameters are sent without it."
        )
    return parsed


def refuse_unknown_bindings(names: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise DefinitionError if a name is not a parameter of the tool."""
    for name in names:
        if name not in parameters:
            raise DefinitionError(f"The tool has no parameter {name!r} to bind. {near_misses(name, parameters)}")


def _check_kind(name: str, value: Any) -> None:
    is_valid, kind = _KINDS[name]
    if not is_valid(value):
        raise DefinitionError(f"{name} must be {kind}, not {reprlib.repr(value)}.")


def _is_set_of_str(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str) and all(isinstance(tag, str) for tag in value)


def check_isolation(_name: str, value: Any) -> None:
    """Raise DefinitionError for an unknown value, and if psutil is not installed for `"process"`."""
    if value not in get_args(Isolation):
        raise DefinitionError(f"isolation must be 'process', 'executor' or None, not {value!r}.")
    if value == "process" and importlib.util.find_spec("psutil") is None:
        raise DefinitionError('isolation="process" needs psutil: pip install "ahvn-tools[process]"')


def check_output(name: str, value: Any) -> None:
    """Raise DefinitionError for what is no form of results."""
    if value not in get_args(OutputForm):
        raise DefinitionError(f"{name} must be 'json' or 'raw', not {reprlib.repr(value)}.")


def _check_object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise DefinitionError(f"{name} must be a dict of JSON values, not a {type(value).__name__}.")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{name} contains a value that has no JSON form: {error}.") from error
    except RecursionError:
        raise DefinitionError(f"{name} is nested too deep.") from None


def _check_schema(name: str, value: Any) -> None:
    _check_object(name, value)
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if others := [key for key in part if not isinstance(key, str)]:
                raise DefinitionError(f"{name} has the key {others[0]!r}; the keys of a JSON object are texts.")
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part


def _check_output_schema(name: str, value: Any) -> None:
    _check_schema(name, value)
    from ahvn_tools.schema.jsonschema import compile_validator

    compile_validator(value)


def _check_meta(name: str, value: Any) -> None:
    _check_object(name, value)
    if not isinstance(value.get("fastmcp", {}), dict):
        raise DefinitionError("meta['fastmcp'] is FastMCP's object for tags and version: remove it, or pass a dict.")


def _to_list(examples: Any) -> list[Any]:
    """Return the items of any iterable, which may be an iterator. Raises DefinitionError for anything else."""
    if not isinstance(examples, Iterable):
        raise DefinitionError(f"examples are a list of sample calls, not {reprlib.repr(examples)}.")
    return list(examples)


def _check_examples(_name: str, value: Any) -> None:
    for example in value:
        if not isinstance(example, Mapping) or not isinstance(example.get("inputs", {}), Mapping):
            raise DefinitionError(
                'An example must be a dict of arguments, or {"inputs": {…}, "expected": …, "note": …}.'
            )


def _check_annotations(name: str, value: Any) -> None:
    hints = to_wire_annotations(value) or {}
    for hint in hints:
        if hint not in _HINTS:
            raise DefinitionError(f"{name} has {hint!r}, which is not an MCP hint. {near_misses(hint, _HINTS)}")


_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("name", "title", "description", "description_separator", "version"),
        (lambda value: isinstance(value, str), "a str"),
    ),
    **dict.fromkeys(
        ("coerce_numbers_to_str", "convert", "keep_children", "ship_secrets"),
        (lambda value: isinstance(value, bool), "True or False"),
    ),
    "timeout": (lambda value: is_duration(value) and value > 0, "a number of seconds greater than 0"),
    **dict.fromkeys(("max_items", "max_bytes"), (is_count, "a whole number of at least 1, or None for no limit")),
    "render": (callable, "a function of the returned value"),
    "ship": (_is_set_of_str, "a list of state keys, such as ['user.locale']"),
    "docstring_sections": (_is_set_of_str, "a list of titles, such as ['Note', 'Raises']"),
    "tags": (_is_set_of_str, "a set of strings, such as {'search', 'read-only'}"),
    "binds": (lambda value: isinstance(value, Mapping), "a dict such as {'parameter': 'state.key'}"),
    "icons": (
        lambda value: isinstance(value, Iterable) and not isinstance(value, str | Mapping),
        "a list of MCP icons",
    ),
}
"""What the value of an option must be, as a test and in words."""

_CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(_KINDS, _check_kind),
    "input_schema": _check_schema,
    "output_schema": _check_output_schema,
    "output": check_output,
    "meta": _check_meta,
    "isolation": check_isolation,
    "examples": _check_examples,
    "annotations": _check_annotations,
}


_NO_TAGS = frozenset[str]()


def to_definition_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a template that only describe the tool. Raises DefinitionError for hints and icons."""
    return {
        "title": options.get("title"),
        "tags": frozenset(tags) if (tags := options.get("tags")) else _NO_TAGS,
        "annotations": to_wire_annotations(options.get("annotations")),
        "meta": options.get("meta"),
        "version": options.get("version"),
        "icons": to_wire_icons(options.get("icons")),
        "examples": options.get("examples"),
    }


def to_wire_annotations(annotations: Any) -> JsonObject | None:
    """Return MCP's hints under their wire names. Raises DefinitionError if they are not a JSON object."""
    if annotations is None:
        return None
    plain = _to_json_object("annotations", annotations)
    return {_to_camel_case(name): value for name, value in plain.items() if value is not None}


def to_wire_icons(icons: Iterable[Any] | None) -> list[JsonObject] | None:
    """Return icons in MCP's wire form. Raises DefinitionError for an icon without `src`."""
    if icons is None:
        return None
    plain = [_to_json_object("icons", icon) for icon in icons]
    if not all(isinstance(icon.get("src"), str) for icon in plain):
        raise DefinitionError("An icon is a dict such as {'src': 'https://…', 'mimeType': 'image/png'}.")
    return plain


def _to_json_object(name: str, value: Any) -> JsonObject:
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, exclude_none=True, mode="json")
    _check_object(name, value)
    return value  # type: ignore[no-any-return]  # checked above


def _to_camel_case(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
