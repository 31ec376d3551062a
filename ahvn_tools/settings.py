"""The options of a tool, each with its name, type, check and text in one place; ToolSettings has those of its calls.

The checks stand in the annotations and are read from there: this module has no `from __future__ import annotations`.
"""

import importlib.util
import json
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, Literal, TypedDict, get_args

from ahvn_tools.binding import Binding
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import DefinitionError, ToolSpecError, near_misses, unknown_options
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.state import StateKey
from ahvn_tools.user_interface import UserInterface

Isolation = Literal["process", "executor"]

OutputForm = Literal["json", "raw"]
"""What the value of a result is: the JSON form of what the function returned, or that object itself."""

MAX_ITEMS: Final = 100_000
"""How many items a generator may yield in one call, by default."""

MAX_BYTES: Final = 100_000_000
"""How large they may be together, by default."""

MAX_SECONDS: Final = 1e9
"""The longest duration in seconds, about thirty years; longer ones overflow the clock of some platforms."""

_CONTEXT_RESOLVERS = frozenset({resolve_context, resolve_transport_context})

_TOOLKIT_OPTIONS = frozenset({
    "allowed_callers", "audience", "exclusive", "group", "middleware", "postprocess", "preset", "requires_approval",
    "task",
})  # fmt: skip
"""Options of `Toolkit.add` that are none of a tool itself."""


def is_duration(seconds: Any) -> bool:
    """Return whether a value is a number of seconds that a timer accepts."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds <= MAX_SECONDS


def is_count(value: Any) -> bool:
    """Return whether a value is a positive whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


Check = Callable[[str, Any], None]
"""Raises DefinitionError for a value that the option of this name cannot have. None is checked by no option."""


def must_be(words: str, is_valid: Callable[[Any], bool]) -> Check:
    """Return the check of an option whose value is described by `words`."""

    def check(name: str, value: Any) -> None:
        if not is_valid(value):
            raise DefinitionError(f"{name} must be {words}, not {reprlib.repr(value)}.")

    return check


def one_of(*choices: str) -> Check:
    """Return the check of an option that is one of these texts."""
    *first, last = map(repr, choices)
    return must_be(f"{', '.join(first)} or {last}", lambda value: value in choices)


def _is_set_of_str(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str) and all(isinstance(tag, str) for tag in value)


TEXT: Final = must_be("a str", lambda value: isinstance(value, str))
FLAG: Final = must_be("True or False", lambda value: isinstance(value, bool))
SECONDS: Final = must_be("a number of seconds greater than 0", lambda value: is_duration(value) and value > 0)
LIMIT: Final = must_be("a whole number of at least 1, or None for no limit", is_count)
OUTPUT_FORM: Final = one_of(*get_args(OutputForm))


def _check_isolation(name: str, value: Any) -> None:
    must_be("'process', 'executor' or None", lambda value: value in get_args(Isolation))(name, value)
    if value == "process" and importlib.util.find_spec("psutil") is None:
        raise DefinitionError('isolation="process" needs psutil: pip install "ahvn-tools[process]"')


_HINTS: Final = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


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


def to_list(examples: Any) -> list[Any]:
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
    for hint in to_wire_annotations(value):
        if hint not in _HINTS:
            raise DefinitionError(f"{name} has {hint!r}, which is not an MCP hint. {near_misses(hint, _HINTS)}")


class DefinitionOptions(TypedDict, total=False):
    """The options of a tool that only its definition has, and not its entry in a toolkit."""

    name: Annotated[str, TEXT]
    """The tool's name; the function's own by default."""
    title: Annotated[str, TEXT]
    """The name that user interfaces display."""
    description: Annotated[str, TEXT]
    """What the tool does; the docstring's description by default."""
    examples: Annotated[Iterable[Mapping[str, Any]], _check_examples]
    """Sample calls: dicts of arguments, or `{"inputs": …, "expected": …, "note": …}`. The tool must accept them."""
    parse_docstring: bool
    """Whether the docstring is parsed for descriptions (default) or used unchanged as the description."""
    include_long_description: bool
    """Whether the description includes the docstring's long description (default)."""
    docstring_sections: Annotated[
        Iterable[str] | None, must_be("a list of titles, such as ['Note', 'Raises']", _is_set_of_str)
    ]
    """The titles of the docstring's sections that the description includes, such as `["Note", "Raises"]`; None: all
    (default). Parameters, results and examples are always read."""
    description_separator: Annotated[str, TEXT]
    """What joins the short and the long description; a blank line by default."""
    input_schema: Annotated[JsonObject, _check_schema]
    """A JSON Schema of the arguments, exported and enforced instead of the generated one. `**kwargs` get its properties
    that have no parameter."""
    coerce_numbers_to_str: Annotated[bool, FLAG]
    """Whether a number is accepted, and made a text, where a text is wanted: models send `{"id": 1}` (default)."""
    convert: Annotated[bool, FLAG]
    """Whether the function gets values of its annotated types (default), or the validated JSON as it came."""
    output_schema: Annotated[JsonObject | None, _check_output_schema]
    """A JSON Schema of the returned object instead of the generated one; None: no output schema."""
    output: Annotated[OutputForm, OUTPUT_FORM]
    """`"raw"`: the value of a result is the very object that the function returned, and there is no output schema.
    `"json"` (default): its JSON form."""
    render: Annotated[Callable[[Any], Any], must_be("a function of the returned value", callable)]
    """Returns what models read of a raw value, or of each item of a generator: a text, a content block or a list of
    these. Sync or async. Without it they read the JSON form."""
    external: Annotated[bool, FLAG]
    """Whether the body is never called, because the result of a call is supplied later: it waits in `run.pending`."""
    annotations: Annotated[Any, _check_annotations]
    """MCP's hints: a dict (`{"readOnlyHint": True}` or `{"read_only_hint": True}`) or a ToolAnnotations."""
    meta: Annotated[JsonObject, _check_meta]
    """MCP's `_meta` of the tool: JSON data for clients, which no model reads."""
    version: Annotated[str, TEXT]
    """The version of the tool, which MCP clients read."""
    icons: Annotated[
        Iterable[Any],
        must_be(
            "a list of MCP icons", lambda value: isinstance(value, Iterable) and not isinstance(value, str | Mapping)
        ),
    ]
    """MCP icons: dicts with `src`, or Icon objects."""
    ui: str | os.PathLike[str] | Mapping[str, Any] | UserInterface
    """The page that hosts show for the tool (MCP Apps): the path of an HTML file, a `ui://` URI, or a dict with one of
    these as `html` or `resourceUri`, and `visibility`, `csp`, `permissions`, `domain`, `prefersBorder`."""
    run_in_thread: bool
    """Whether a sync body called from async code runs in a worker thread (default) or in the event loop."""
    include_var_positional: bool
    """Whether the model sees `*args`, as a list."""
    include_var_keyword: bool
    """Whether the model sees `**kwargs`, as an object."""


class RunOptions(TypedDict, total=False):
    """How the calls of a tool run. A toolkit may replace these options of the tools that are added to it."""

    timeout: Annotated[float | None, SECONDS]
    """Seconds a call may take, more than 0; None: no limit."""
    max_items: Annotated[int | None, LIMIT]
    """How many items a generator may yield in one call, 100,000 by default; None: no limit."""
    max_bytes: Annotated[int | None, LIMIT]
    """How large these items may be together, about, in bytes of memory, 100,000,000 by default; None: no limit."""
    isolation: Annotated[Isolation | None, _check_isolation]
    """`"process"`: the body runs in a worker process; a timeout or a cancellation kills its whole process tree.
    `"executor"`: it runs in a worker of the toolkit's executor."""
    ship: Annotated[Iterable[str], must_be("a list of state keys, such as ['user.locale']", _is_set_of_str)]
    """Dotted keys of the state that the ToolContext of a body in a worker of an executor gets; none by default."""
    ship_secrets: Annotated[bool, FLAG]
    """Whether secret values may be sent to a worker of an executor; not by default."""
    keep_children: Annotated[bool, FLAG]
    """Whether processes that an isolated body has started run on after its call, until its worker ends."""


class UnboundToolOptions(DefinitionOptions, RunOptions, total=False):
    """The options of a tool that keep its parameters."""

    tags: Annotated[Iterable[str], must_be("a set of strings, such as {'search', 'read-only'}", _is_set_of_str)]
    """Labels by which tools are selected. No model reads them."""


class ToolOptions(UnboundToolOptions, total=False):
    """Options that describe a tool in addition to its function. All are optional."""

    binds: Annotated[
        Mapping[str, str],
        must_be("a dict such as {'parameter': 'state.key'}", lambda value: isinstance(value, Mapping)),
    ]
    """Parameters bound from the start: parameter to dotted state key."""
    arguments: Mapping[str, ArgumentChange]
    """Changes of arguments: the argument's own name to its new `name`, `description`, `default` and so on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolSettings:
    """How the calls of a tool run: the values of `RunOptions`. A template has them, a toolkit may replace some."""

    timeout: float | None = None
    max_items: int | None = MAX_ITEMS
    max_bytes: int | None = MAX_BYTES
    isolation: Isolation | None = None
    ship: tuple[StateKey, ...] = ()
    ship_secrets: bool = False
    keep_children: bool = False
    run_in_thread: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "ToolSettings":
        """Return the settings that options say, with the defaults of the others."""
        return _DEFAULT_SETTINGS if options.keys().isdisjoint(_SETTINGS) else cls(**read_settings(options))

    def merge(self, changes: Mapping[str, Any]) -> "ToolSettings":
        """Return the settings with others in their place; of two timeouts, the shorter one."""
        if not changes or changes == {"timeout": None}:
            return self
        timeouts = [seconds for seconds in (self.timeout, changes.get("timeout")) if seconds is not None]
        return replace(self, **{**changes, "timeout": min(timeouts, default=None)})

    def changes_of(self, other: "ToolSettings") -> dict[str, Any]:
        """Return the options that make the other settings of these."""
        names = [name for name in _SETTINGS if getattr(self, name) != getattr(other, name)]
        changed = {name: getattr(other, name) for name in names}
        return {**changed, "ship": [key.text for key in other.ship]} if "ship" in changed else changed

    def find_conflict(self) -> str | None:
        """Return why these settings do not fit together; None if they do."""
        if self.timeout is not None and not self.run_in_thread:
            return (
                "A timeout cannot interrupt a body in the event loop's thread: remove run_in_thread=False or the "
                "timeout."
            )
        if self.isolation is not None and not self.run_in_thread:
            return "A body in a process does not run in the event loop's thread: remove run_in_thread=False."
        if self.keep_children and self.isolation is None:
            return 'keep_children is an option of isolated tools: add isolation="process", or remove it.'
        if self.keep_children and self.isolation == "executor":
            return 'keep_children needs isolation="process": the executor decides about its workers.'
        return None


_SETTINGS: Final = {field.name: field.default for field in fields(ToolSettings)}

_DEFAULT_SETTINGS: Final = ToolSettings()

_UNLIMITED: Final = frozenset({"max_items", "max_bytes"})
"""Settings in which None means no limit."""


def read_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among options that are set. Raises StateKeyError and DefinitionError for a key in `ship`."""
    given = given_options({name: options[name] for name in _SETTINGS if name in options})
    return {**given, "ship": tuple(map(_to_shipped_key, given["ship"]))} if "ship" in given else given


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set: None is no value, except where it means no limit."""
    return {name: value for name, value in options.items() if value is not None or name in _UNLIMITED}


def _to_shipped_key(text: str) -> StateKey:
    key = StateKey.parse(text)
    if not all(isinstance(step, str) for step in key.steps):
        raise DefinitionError(f"ship has {key.text!r}; name the whole list: a part of it would have another index.")
    return key


def refuse_unused_ship(name: str, keys: Iterable[StateKey], bindings: Mapping[str, Binding]) -> None:
    """Raise DefinitionError for the option `ship` of a tool that takes no ToolContext."""
    if keys and _CONTEXT_RESOLVERS.isdisjoint(binding.resolver for binding in bindings.values()):
        raise DefinitionError(
            f"{name!r} has the option ship, and takes no ToolContext that gets this state: add a parameter "
            "`context: ToolContext`, or remove ship. Bound parameters are sent without it."
        )


def validate_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a tool, with examples that can be read again and the page of `ui`.

    Raises DefinitionError for an unknown option, with similar names, and for a wrong value.
    """
    if not isinstance(examples := options.get("examples"), list | tuple | None):
        options = {**options, "examples": to_list(examples)}
    if options.get("ui") is not None:
        options = {**options, "ui": UserInterface.of(options["ui"])}  # a file is read once
    if options:
        if "auth" in options:
            raise DefinitionError("'auth' is an option of serving, not of a tool; pass it where you serve the tool.")
        for name in sorted(_TOOLKIT_OPTIONS.intersection(options)):
            raise DefinitionError(
                f"{name!r} is an option of Toolkit.add. Pass it where the tool is added: kit.add(thing, {name}=…), or "
                f"kit.add(thing, tools={{'tool': {{'{name}': …}}}}) for one of several tools."
            )
        check_options(options, ToolOptions)
        if (problem := ToolSettings.of(options).find_conflict()) is not None:
            raise DefinitionError(problem)
    return options


def check_options(options: Mapping[str, Any], known: type, error: type[ToolSpecError] = DefinitionError) -> None:
    """Raise an error for an option that a TypedDict class does not have, with similar ones, and for a wrong value."""
    names = known.__annotations__
    if unknown := unknown_options(options, names):
        raise error(unknown)
    for name, value in options.items():
        for check in getattr(names[name], "__metadata__", ()) if value is not None else ():
            try:
                check(name, value)
            except DefinitionError as problem:
                if error is DefinitionError:
                    raise
                raise error(str(problem)) from None


def refuse_unknown_bindings(tool: str, names: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise DefinitionError if a name is not a parameter of the tool."""
    for name in names:
        if name not in parameters:
            raise DefinitionError(f"{tool!r} has no parameter {name!r} to bind. {near_misses(name, parameters)}")


_NO_TAGS = frozenset[str]()


def to_definition_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a template that only describe the tool. Raises DefinitionError for hints and icons."""
    hints, icons = options.get("annotations"), options.get("icons")
    return {
        "title": options.get("title"),
        "tags": frozenset(tags) if (tags := options.get("tags")) else _NO_TAGS,
        "annotations": None if hints is None else to_wire_annotations(hints),
        "meta": options.get("meta") if (ui := options.get("ui")) is None else ui.add_to(options.get("meta")),
        "version": options.get("version"),
        "icons": None if icons is None else to_wire_icons(icons),
        "examples": options.get("examples"),
    }


def to_wire_annotations(annotations: Any) -> JsonObject:
    """Return MCP's hints under their wire names. Raises DefinitionError if they are not a JSON object."""
    plain = _to_json_object("annotations", annotations)
    return {_to_camel_case(name): value for name, value in plain.items() if value is not None}


def to_wire_icons(icons: Iterable[Any]) -> list[JsonObject]:
    """Return icons in MCP's wire form. Raises DefinitionError for an icon without `src`."""
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
