"""The options of a tool in a toolkit, and the functions that validate them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, get_args

from ahvn_tools.binding import Binding, bindable_parameters
from ahvn_tools.errors import BindError, DefinitionError, StateKeyError, ToolkitError, near_misses, unknown_options
from ahvn_tools.redaction import contains_secret, reveal_secrets
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.sources.options import DefinitionOptions, ToolOptions, check_isolation, check_option, to_shipped_keys
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET
from ahvn_tools.template import Isolation, is_count, is_duration
from ahvn_tools.toolkit.duplicates import OnDuplicate

if TYPE_CHECKING:  # slow, and few tools need it
    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.middleware.postprocess import Postprocess
    from ahvn_tools.toolkit.exclusive import Exclusive

Value = TypeVar("Value")

TaskMode = Literal["optional", "required"]
"""How clients of a server call a tool as an MCP task."""

Caller = Literal["direct", "programmatic"]
"""Who calls a tool for a model: the model itself, or a program that it has written."""

BASIC_GROUP: Final = "basic"
"""The group of a tool that was added without one; always active."""


class SharedOptions(TypedDict, total=False):
    """The options that `add` and `add_mcp` have in common; they apply to each tool that is added."""

    group: str
    """The one group of the tools, `"basic"` by default. It must be defined if the toolkit defines any group."""
    tags: Collection[str]
    """Tags in addition to the tool's own."""
    audience: str | Collection[str]
    """The audiences that may see and call the tools; everyone by default."""
    middleware: Sequence[Middleware]
    """Middleware for the calls of these tools, outermost first. It runs inside the toolkit's own."""
    postprocess: Postprocess
    """`(call, result) -> ToolResult | None`, sync or async, on every chunk and result; None leaves it unchanged."""
    requires_approval: bool | Callable[[dict[str, Any]], bool]
    """Whether a call needs an approval; a function decides by the arguments."""
    exclusive: Exclusive
    """True: a call runs alone among those of one answer. A parameter's name, or a function of the validated arguments,
    sync or async: calls of this toolkit with the same key never run at once."""
    allowed_callers: Caller | Collection[Caller]
    """Who may call the tools in a `run`: `"direct"`, the model; `"programmatic"`, programs that it has written, in code
    mode and in a provider's sandbox. By default both."""
    task: TaskMode | None
    """How clients of a server with `tasks` may call the tools: `"optional"`: as MCP tasks, too; `"required"`: only as
    MCP tasks; None: only in plain calls."""


class EntryOptions(SharedOptions, total=False):
    """The options of `add`; they apply to each tool that it adds."""

    preset: Mapping[str, Any]
    """Fixed parameters, parameter -> value. Callers neither see nor set them. A value that is, or has in a mapping or a
    list, pydantic's SecretStr is secret; the tool gets its content."""
    timeout: float
    """Seconds that a call may take; the shortest of this, the tool's own and the toolkit's applies."""
    max_items: int | None
    """How many items a generator may yield in one call, instead of the tool's own limit; None: no limit."""
    max_bytes: int | None
    """How large these items may be together, in bytes, instead of the tool's own limit; None: no limit."""
    isolation: Isolation | None
    """`"process"`: the bodies run in worker processes, `"executor"`: in workers of the toolkit's executor, whatever the
    tools' own setting is."""
    ship: Iterable[str]
    """Dotted keys of the state that the ToolContext of a body in a worker of an executor gets, instead of the tool's
    own keys."""
    ship_secrets: bool
    """Whether secret values may be sent to a worker of an executor; by default as the tools say."""
    keep_children: bool
    """Whether processes that isolated bodies have started run on after their calls; by default as the tools say."""


class AddOptions(EntryOptions, DefinitionOptions, total=False):
    """The options of `add` and `kit.tool`: those of a tool in a toolkit, and those that `@tool` has."""

    binds: Mapping[str, str]
    """Parameters that are bound in this toolkit from the start: parameter to dotted state key."""
    describe: Mapping[str, str]
    """New descriptions: the tool's own name -> description."""
    arguments: Mapping[str, Mapping[str, ArgumentChange]]
    """Changes of arguments: the tool's own name -> argument -> its new name, description, default and so on."""
    on_duplicate: OnDuplicate
    """What happens where a name is taken, instead of what the toolkit says."""


def validate_tool_changes(options: Mapping[str, Any]) -> None:
    """Raise ToolkitError unless `describe` and `arguments` are mappings by tool."""
    if not _is_mapping_of(options.get("describe", {}), str):
        raise ToolkitError('`describe` is a mapping by tool: {"tool": "new description"}.')
    if not _is_mapping_of(options.get("arguments", {}), Mapping):
        raise ToolkitError('`arguments` is a mapping by tool: {"tool": {"argument": {"name": "new name"}}}.')


def _is_mapping_of(value: Any, kind: type) -> bool:
    return isinstance(value, Mapping) and all(isinstance(item, kind) for item in value.values())


def tool_changes(options: Mapping[str, Any], name: str) -> ToolOptions:
    """Return the options of a tool that `describe` and `arguments` change, by the tool's own name."""
    changes: ToolOptions = {}
    if name in options.get("describe", {}):
        changes["description"] = options["describe"][name]
    if name in options.get("arguments", {}):
        changes["arguments"] = options["arguments"][name]
    return changes


def refuse_unknown_options(options: Mapping[str, Any], known: type) -> None:
    """Raise ToolkitError for options that a TypedDict class does not have, with similar ones."""
    if unknown := unknown_options(options, known.__annotations__):
        raise ToolkitError(f"{unknown} help(Toolkit.add) lists the options." if known is AddOptions else unknown)


def validate_name(what: str, text: Any) -> str:
    """Return a name. Raises ToolkitError when it is no string or empty."""
    if not isinstance(text, str) or not text:
        raise ToolkitError(f"The {what} must be a string that is not empty, not {text!r}.")
    return text


def to_name_set(what: str, names: Any) -> frozenset[str]:
    """Return names as a set; a string is one name. Raises ToolkitError for anything that is no name."""
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, Iterable):
        raise ToolkitError(f"The {what} are names, not {names!r}.")
    return frozenset(validate_name(f"name among the {what}", name) for name in listed)


def validate_timeout(timeout: float | None) -> float | None:
    """Return a timeout in seconds. Raises ToolkitError unless it is a positive number."""
    if timeout is not None and not (is_duration(timeout) and timeout > 0):
        raise ToolkitError(f"A timeout must be more than 0 seconds, not {timeout!r}. Leave it out for none.")
    return timeout


def validate_max_concurrency(value: int) -> int:
    """Return how many calls may run at once. Raises ToolkitError unless it is a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # type: ignore[redundant-expr]  # callers may pass anything
        raise ToolkitError(f"max_concurrency must be a whole number, at least 1, not {value!r}.")
    return value


def to_item_limits(options: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the limits of items among the options. Raises ToolkitError unless they are positive numbers or None."""
    limits = {name: options[name] for name in ("max_items", "max_bytes") if name in options}
    for name, value in limits.items():
        if not (value is None or is_count(value)):
            raise ToolkitError(f"{name} must be a whole number of at least 1, or None for no limit, not {value!r}.")
    return limits


def validate_callable(what: str, kind: str, value: Value) -> Value:
    """Return a function. Raises ToolkitError when it cannot be called; `kind` describes the function."""
    if not callable(value):
        raise ToolkitError(f"{what} is {kind}, not a {type(value).__name__}.")
    return value


def validate_flag(option: str, value: Any) -> bool:
    """Return an option that is on or off. Raises ToolkitError for anything but a bool."""
    if not isinstance(value, bool):
        raise ToolkitError(f"{option} is True or False, not {value!r}.")
    return value


def validate_middleware(middleware: Middleware) -> Middleware:
    """Return a middleware. Raises ToolkitError for what cannot be one."""
    from ahvn_tools.toolkit.middleware_check import find_problem

    validate_callable("A middleware", "`async (call, next) -> ToolResult`", middleware)
    if (problem := find_problem(middleware)) is not None:
        raise ToolkitError(f"A middleware is `async (call, next) -> ToolResult`: {problem}")
    return middleware


def validate_exclusive(spec: ToolSpec, name: str, exclusive: Any) -> Exclusive:
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
    if not (isinstance(exclusive, bool) or callable(exclusive)):
        kind = type(exclusive).__name__
        raise ToolkitError(f"`exclusive` of {name!r} is True, a parameter's name or a function, not a {kind}.")
    return exclusive  # type: ignore[no-any-return]  # it is a bool or a function


def validate_requires_approval(name: str, value: Any) -> bool | Callable[[dict[str, Any]], bool]:
    """Return whether calls need an approval. Raises ToolkitError for anything but a bool or a function."""
    if not (isinstance(value, bool) or callable(value)):
        raise ToolkitError(f"`requires_approval` of {name!r} is True, False or a function of the arguments.")
    return value  # type: ignore[no-any-return]  # it is a bool or a function


def validate_callers(name: str, callers: Any) -> frozenset[Caller] | None:
    """Return who may call a tool; None for everyone. Raises ToolkitError for no and for an unknown caller."""
    if callers is None:
        return None
    known = to_name_set(f"allowed callers of {name!r}", callers)
    if not known or not known.issubset(get_args(Caller)):
        raise ToolkitError(f"The allowed callers of {name!r} are 'direct', 'programmatic' or both, not {callers!r}.")
    return known  # type: ignore[return-value]  # they are callers


def validate_task(name: str, task: Any) -> TaskMode | None:
    """Return whether calls may be MCP tasks. Raises ToolkitError for what is no mode."""
    if task is not None and task not in get_args(TaskMode):
        raise ToolkitError(f"`task` of {name!r} is 'optional', 'required' or None, not {task!r}.")
    return task  # type: ignore[no-any-return]  # one of the modes


def validate_isolation(spec: ToolSpec, name: str, isolation: Isolation | None) -> Isolation | None:
    """Return where bodies run. Raises ToolkitError for a body that cannot run in a worker process."""
    if isolation is None:
        return None
    try:
        check_isolation("isolation", isolation)
    except DefinitionError as error:
        raise ToolkitError(str(error)) from None
    template = spec.compiled.template
    if not template.is_movable:
        raise ToolkitError(f"{name!r} runs in MCP or FastMCP, not in a worker process: leave out isolation.")
    if not template.run_in_thread:
        raise ToolkitError(f"{name!r} has run_in_thread=False, so it stays in its event loop: leave out isolation.")
    return isolation


def validate_keep_children(
    spec: ToolSpec, name: str, keep_children: bool | None, isolation: Isolation | None
) -> bool | None:
    """Return whether children of bodies run on. Raises ToolkitError for a body that is not in a worker process."""
    if keep_children not in (None, True, False):
        raise ToolkitError(f"`keep_children` of {name!r} is True or False, not {keep_children!r}.")
    applied = isolation or spec.compiled.template.isolation
    if keep_children and applied is None:
        raise ToolkitError(f'{name!r} is not isolated: add isolation="process", or leave out keep_children.')
    if keep_children and applied == "executor":
        raise ToolkitError(f"{name!r} runs in an executor, which decides about its workers: leave out keep_children.")
    return keep_children


def to_shipping(spec: ToolSpec, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `ship` and `ship_secrets`, where they are set, as a template has them.

    Raises ToolkitError for what does not fit, and for keys that a tool without a ToolContext would get.
    """
    shipping: dict[str, Any] = {}
    try:
        for option in ("ship", "ship_secrets"):
            if options.get(option) is not None:
                check_option(option, options[option])
                shipping[option] = options[option]
        if "ship" in shipping:
            shipping["ship"] = to_shipped_keys(name, shipping["ship"], spec.compiled.bindings)
    except (DefinitionError, StateKeyError) as error:
        raise ToolkitError(str(error)) from None
    return shipping


def to_key_bindings(spec: ToolSpec, name: str, binds: Mapping[str, str]) -> dict[str, Binding]:
    """Return bindings to state keys. Raises BindError for a parameter that does not fit, StateKeyError for a key."""
    if not isinstance(binds, Mapping):
        raise ToolkitError(f"`binds` of {name!r} is a mapping, parameter -> state key, not a {type(binds).__name__}.")
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


def to_preset_bindings(spec: ToolSpec, name: str, preset: Mapping[str, Any]) -> dict[str, Binding]:
    """Return constant bindings for preset values. Raises BindError for a parameter or a value that does not fit."""
    inputs, fixed = spec.compiled.template.inputs, spec.compiled.bindings
    if not isinstance(preset, Mapping):
        raise ToolkitError(f"The preset of {name!r} is a mapping, parameter -> value, not a {type(preset).__name__}.")
    bindings = {}
    for parameter, value in preset.items():
        is_sealed = contains_secret(value)
        if parameter not in inputs.parameters:
            near = near_misses(parameter, bindable_parameters(inputs.parameters, fixed))
            raise BindError(f"{name!r} has no parameter {parameter!r} to preset. {near}")
        if parameter in fixed and fixed[parameter].is_constant:
            raise BindError(f"{parameter!r} of {name!r} was fixed when the tool was made; leave it out of the preset.")
        spec.compiled.refuse_unsealable([parameter])
        validate = inputs.bound_value_validator(parameter)
        revealed = reveal_secrets(value) if is_sealed else value
        try:
            constant = revealed if validate is None else validate(revealed)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            expected = inputs.parameters[parameter].expected
            raise BindError(f"The preset of {parameter!r} of {name!r} does not fit {expected!r}.") from None
        is_secret = is_sealed or inputs.parameters[parameter].is_secret
        bindings[parameter] = Binding.constant(parameter, constant, is_secret=is_secret, is_copied=True)
    return bindings
