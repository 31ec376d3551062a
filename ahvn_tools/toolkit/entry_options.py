"""The options of a tool in a toolkit, each with its check, and the functions that read them.

The checks stand in the annotations and are read from there: this module has no `from __future__ import annotations`.
"""

import fnmatch
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict, TypeVar, cast, get_args

from ahvn_tools.binding import Binding, bindable_parameters
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, near_misses
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.settings import (
    FLAG,
    TEXT,
    Check,
    DefinitionOptions,
    RunOptions,
    ToolOptions,
    check_options,
    is_count,
    is_duration,
    must_be,
    one_of,
)
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET

if TYPE_CHECKING:  # slow, and few tools need it
    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.middleware.postprocess import Postprocess
    from ahvn_tools.toolkit.exclusive import Exclusive

Value = TypeVar("Value")

TaskMode = Literal["optional", "required"]
"""How clients of a server call a tool as an MCP task."""

Caller = Literal["direct", "programmatic"]
"""Who calls a tool for a model: the model itself, or a program that it has written."""

OnDuplicate = Literal["raise", "keep", "replace", "rename"]
"""What to do with a second tool of the same name."""

BASIC_GROUP: Final = "basic"
"""The group of a tool that was added without one; always active."""


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def are_names(value: Any) -> bool:
    """Return whether a value is a name, or some names."""
    return _is_name(value) or (
        isinstance(value, Iterable) and not isinstance(value, str | Mapping) and all(map(_is_name, value))
    )


def _are_callers(value: Any) -> bool:
    return are_names(value) and bool(value) and to_names(value).issubset(get_args(Caller))


def mapping_of(words: str, kind: type = object) -> Check:
    """Return the check of an option that is a mapping with values of one type. Its error shows no value."""

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, Mapping) and all(isinstance(item, kind) for item in value.values())):
            raise DefinitionError(f"{name} must be {words}.")

    return check


COUNT: Final = must_be("a whole number, at least 1", is_count)
TIMEOUT: Final = must_be(
    "a number of seconds greater than 0, or None", lambda value: value is None or (is_duration(value) and value > 0)
)
WAIT: Final = must_be(
    "a number of seconds, at least 0, or None", lambda value: value is None or (is_duration(value) and value >= 0)
)
ON_DUPLICATE: Final = one_of(*get_args(OnDuplicate))
NAMES: Final = must_be("names", are_names)
CHANGES: Final = mapping_of("a mapping, argument -> its changes", Mapping)


class SharedOptions(TypedDict, total=False):
    """The options that `add` and `add_mcp` have in common; they apply to each tool that is added."""

    group: Annotated[str, must_be("a text that is not empty", _is_name)]
    """The one group of the tools, `"basic"` by default. It must be defined if the toolkit defines any group."""
    tags: Annotated[Collection[str], NAMES]
    """Tags in addition to the tool's own."""
    audience: Annotated[str | Collection[str], NAMES]
    """The audiences that may see and call the tools; everyone by default."""
    middleware: "Sequence[Middleware]"
    """Middleware for the calls of these tools, outermost first. It runs inside the toolkit's own."""
    postprocess: Annotated["Postprocess", must_be("a function `(call, result) -> ToolResult | None`", callable)]
    """`(call, result) -> ToolResult | None`, sync or async, on every chunk and result; None leaves it unchanged."""
    requires_approval: Annotated[
        bool | Callable[[dict[str, Any]], bool],
        must_be("True, False or a function of the arguments", lambda v: isinstance(v, bool) or callable(v)),
    ]
    """Whether a call needs an approval; a function decides by the arguments."""
    exclusive: Annotated[
        "Exclusive",
        must_be("True, a parameter's name or a function", lambda v: isinstance(v, bool | str) or callable(v)),
    ]
    """True: a call runs alone among those of one answer. A parameter's name, or a function of the validated arguments,
    sync or async: calls of this toolkit with the same key never run at once."""
    allowed_callers: Annotated[Caller | Collection[Caller], must_be("'direct', 'programmatic' or both", _are_callers)]
    """Who may call the tools in a `run`: `"direct"`, the model; `"programmatic"`, programs that it has written, in code
    mode and in a provider's sandbox. By default both."""
    task: Annotated[TaskMode | None, one_of(*get_args(TaskMode))]
    """How clients of a server with `tasks` may call the tools: `"optional"`: as MCP tasks, too; `"required"`: only as
    MCP tasks; None: only in plain calls."""


class EntryOptions(SharedOptions, RunOptions, total=False):
    """The options of `add`; they apply to each tool that it adds."""

    preset: Annotated[Mapping[str, Any], mapping_of("a mapping, parameter -> value")]
    """Fixed parameters, parameter -> value. Callers neither see nor set them. A value that is, or has in a mapping or a
    list, pydantic's SecretStr is secret; the tool gets its content."""


class SingleToolOptions(EntryOptions, total=False):
    """The options of a single tool, instead of those of the server or the source that it comes from."""

    enabled: Annotated[bool, FLAG]
    """False: the tool is left out."""
    title: Annotated[str, TEXT]
    """The name that user interfaces display."""
    description: Annotated[str, TEXT]
    """The description that models read."""
    annotations: Any
    """MCP's hints."""
    ui: Any
    """The page that hosts show for the tool."""
    arguments: Annotated[Mapping[str, ArgumentChange], CHANGES]
    """Changes of arguments: the argument's own name -> its new `name`, `description`, `default` and so on."""
    binds: Annotated[Mapping[str, str], mapping_of("a mapping, parameter -> state key")]
    """Parameters that are filled from the state: parameter -> dotted state key."""


class AddOptions(EntryOptions, DefinitionOptions, total=False):
    """The options of `add` and `kit.tool`: those of a tool in a toolkit, and those that `@tool` has."""

    binds: Annotated[Mapping[str, str], mapping_of("a mapping, parameter -> state key")]
    """Parameters that are bound in this toolkit from the start: parameter to dotted state key."""
    arguments: Annotated[Mapping[str, ArgumentChange], CHANGES]
    """Changes of arguments: the argument's own name -> its new `name`, `description`, `default` and so on."""
    tools: Mapping[str, SingleToolOptions]
    """Options of single tools: their names in the toolkit, or patterns -> options. They replace the others, and add
    tags; those of later patterns have priority."""
    on_duplicate: Annotated[OnDuplicate, ON_DUPLICATE]
    """What happens where a name is taken, instead of what the toolkit says."""


class SkillOptions(TypedDict, total=False):
    """The options of `add_skills`; they apply to each skill that it adds."""

    group: Annotated[str, must_be("a text that is not empty", _is_name)]
    """The group, defined before, in which the skills can be read; `"basic"` by default."""
    audience: Annotated[str | Collection[str], NAMES]
    """The audiences that may read the skills; everyone by default."""
    trust: Annotated[bool | None, must_be("True, False or None", lambda value: value in (True, False, None))]
    """Whether the texts are the host's own; by default those of folders that are named by their paths."""


_MERGED = ("arguments", "binds", "preset")
"""Options that are mappings: those of several patterns apply."""

DEFINITION_OPTIONS = frozenset({"title", "description", "annotations", "arguments", "ui"})
"""Options that change the definition."""


def checked(option: str, value: Value, check: Check) -> Value:
    """Return the value of an option. Raises ToolkitError when the check refuses it."""
    try:
        check(option, value)
    except DefinitionError as error:
        raise ToolkitError(str(error)) from None
    return value


def refuse_unknown_options(options: Mapping[str, Any], known: type) -> None:
    """Raise ToolkitError for options that a TypedDict class does not have, with similar ones, and for wrong values."""
    check_options(options, known, ToolkitError)


def validate_name(what: str, text: Any) -> str:
    """Return a name. Raises ToolkitError when it is no string or empty."""
    if not isinstance(text, str) or not text:
        raise ToolkitError(f"The {what} must be a string that is not empty, not {text!r}.")
    return text


def to_name_set(what: str, names: Any) -> frozenset[str]:
    """Return names as a set; a string is one name. Raises ToolkitError for anything that is no name."""
    if not are_names(names):
        raise ToolkitError(f"The {what} are names, not {names!r}.")
    return to_names(names)


def to_names(names: Any) -> frozenset[str]:
    """Return names, or one name, as a set."""
    return frozenset([names] if isinstance(names, str) else names)


def validate_callable(what: str, kind: str, value: Value) -> Value:
    """Return a function. Raises ToolkitError when it cannot be called; `kind` describes the function."""
    if not callable(value):
        raise ToolkitError(f"{what} is {kind}, not an object of the class {type(value).__name__}.")
    return value


def validate_middleware(middleware: "Middleware") -> "Middleware":
    """Return a middleware. Raises ToolkitError for what cannot be one, such as a function that returns one."""
    validate_callable("A middleware", "`async (call, next) -> ToolResult`", middleware)
    is_factory = getattr(middleware, "__annotations__", {}).get("return") == "Middleware"
    if is_factory or not _takes_two(middleware):
        raise ToolkitError(
            f"A middleware is `async (call, next) -> ToolResult`, unlike {middleware!r}. Pass an instance of a class, "
            "and call a function that returns a middleware."
        )
    return middleware


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def validate_exclusive(spec: ToolSpec, name: str, exclusive: Any) -> "Exclusive":
    """Return True, False or a function of the arguments that returns a key.

    Raises ToolkitError for a parameter that callers of the tool cannot set.
    """
    if isinstance(exclusive, str):
        properties = spec.compiled.input_schema.get("properties", {})
        if exclusive not in properties:
            near = near_misses(exclusive, properties)
            raise ToolkitError(f"{name!r} has no argument {exclusive!r} to be exclusive by. {near}")
        from ahvn_tools.toolkit.exclusive import ParameterKey

        return ParameterKey.from_schema(exclusive, properties[exclusive])
    return exclusive  # type: ignore[no-any-return]  # it is a bool or a function


def to_key_bindings(spec: ToolSpec, name: str, binds: Mapping[str, str]) -> dict[str, Binding]:
    """Return bindings to state keys. Raises BindError for a parameter that does not fit, StateKeyError for a key."""
    parameters, fixed = spec.compiled.template.inputs.parameters, spec.compiled.bindings
    for parameter in binds:
        if parameter not in bindable_parameters(parameters, fixed):
            near = near_misses(parameter, bindable_parameters(parameters, fixed))
            raise BindError(f"{name!r} has no parameter {parameter!r} to bind. {near}")
    spec.compiled.refuse_unsealable(binds.keys())
    return {
        parameter: Binding.create(parameter, key, UNSET, None, is_secret=parameters[parameter].is_secret)
        for parameter, key in binds.items()
    }


def options_of_tool(
    tools: Mapping[str, SingleToolOptions], name: str, parameters: Collection[str]
) -> SingleToolOptions:
    """Return the options of a tool; those of later patterns have priority, and their tags are added.

    A preset or a bind of a pattern applies only where the tool has the parameter.
    """
    merged: dict[str, Any] = {}
    for pattern, options in tools.items():
        if not matches_name(pattern, name):
            continue
        own: dict[str, Any] = {**options}
        for key in ("binds", "preset"):
            if key in own and is_pattern(pattern):
                own[key] = {parameter: value for parameter, value in own[key].items() if parameter in parameters}
        for key in _MERGED:
            if key in own:
                own[key] = {**merged.get(key, {}), **own[key]}
        if "tags" in own:
            own["tags"] = to_names(own["tags"]) | merged.get("tags", frozenset())
        merged.update(own)
    return merged  # type: ignore[return-value]  # of the same keys


def add_single_options(options: Mapping[str, Any], single: SingleToolOptions) -> EntryOptions:
    """Return the options of all tools with those of a single tool, which have priority."""
    own = {key: value for key, value in single.items() if key in EntryOptions.__annotations__}
    tags = {"tags": to_name_set("tags of a tool", options.get("tags", ())) | to_names(single.get("tags", ()))}
    preset = {**options.get("preset", {}), **single.get("preset", {})}
    return {**options, **own, **tags, "preset": preset}  # type: ignore[typeddict-item]  # the keys of EntryOptions


def definition_changes(single: SingleToolOptions) -> ToolOptions:
    """Return the options of a single tool that change its definition."""
    return cast("ToolOptions", {key: single[key] for key in DEFINITION_OPTIONS & single.keys()})  # type: ignore[literal-required]  # its keys


def validate_single_options(tools: Any) -> None:
    """Raise ToolkitError unless `tools` is a mapping, name or pattern -> options."""
    if not (
        isinstance(tools, Mapping)
        and all(isinstance(name, str) and isinstance(single, Mapping) for name, single in tools.items())
    ):
        raise ToolkitError('`tools` is a mapping by tool: {"get_*": {"timeout": 5}}.')
    for name, single in tools.items():
        try:
            refuse_unknown_options(single, SingleToolOptions)
        except ToolkitError as error:
            raise ToolkitError(f"{name!r}: {error}") from None


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name is this one, or matches this pattern: a name may have brackets."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def is_pattern(name: str) -> bool:
    """Return whether a text is a pattern of names, and not a name."""
    return any(character in name for character in "*?[")
