"""Turns the argument of `Toolkit.add` into entries: its specs, their names and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, ToolLookupError, near_misses, unknown_options
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.annotations import Namespace
from ahvn_tools.settings import DefinitionOptions, OutputForm, ToolOptions, check_options, given_options
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.langchain_injection import spec_behind
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import ChangedSpec, Entry
from ahvn_tools.toolkit.entry_options import (
    DEFINITION_OPTIONS,
    AddOptions,
    EntryOptions,
    SingleToolOptions,
    add_single_options,
    definition_changes,
    is_pattern,
    matches_name,
    options_of_tool,
    to_key_bindings,
    validate_name,
    validate_single_options,
)
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.model_tools import GroupsTool
from ahvn_tools.toolkit.server_access import declared_names
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.visibility import StoreView

_ENTRY_OPTIONS = EntryOptions.__annotations__.keys()
_OPTIONS_OF_ONE_TOOL = frozenset({"title", "description", "examples", "arguments", "input_schema", "output_schema"})

Rename = Mapping[str, str] | str | None
"""The new name of a tool, or a mapping, old name -> new name."""


@dataclass(frozen=True, kw_only=True)
class OtherToolkit:
    """A toolkit, session or selection whose tools are added."""

    name: str
    view: StoreView


def to_entries(
    things: tuple[Any, ...],
    namespace: Namespace,
    options: AddOptions,
    locks: KeyedLocks,
    *,
    prefix: str,
    rename: Rename,
    output: OutputForm = "json",
    spec_class: type[ToolSpec] = ToolSpec,
) -> list[Entry]:
    """Return the entries of the arguments of `Toolkit.add`; `namespace` resolves the annotations of a function.

    `output` applies to tools that do not say what their results are, `spec_class` to what is no spec yet.
    """
    known = AddOptions.__annotations__
    if unknown := unknown_options(options, known):
        raise ToolkitError(unknown if "Did you mean" in unknown else f"{unknown} help(Toolkit.add) lists the options.")
    own = {name: value for name, value in options.items() if name not in DefinitionOptions.__annotations__}
    check_options(own, AddOptions, ToolkitError)
    options = cast(
        "AddOptions", {name: value for name, value in options.items() if name not in own} | given_options(own)
    )
    if not isinstance(prefix, str):
        raise ToolkitError(f"A prefix is a text, not {prefix!r}.")
    rename = _to_rename(rename, options)
    definition: Any = {name: value for name, value in options.items() if name in ToolOptions.__annotations__}
    entry_options: Any = {
        name: definition.pop(name, value) for name, value in options.items() if name in _ENTRY_OPTIONS
    }
    if output == "raw" and definition.get("render") is not None:
        definition.setdefault("output", output)
    if not things:
        raise ToolkitError("There is nothing to add: pass a tool, or several.")
    added = [tool for thing in things for tool in _to_tools(thing, namespace, rename, definition, spec_class)]
    added = added if output == "json" else [tool.with_output(output) for tool in added]
    _refuse_options_of_one_tool(options, added)
    _refuse_unknown_presets([tool.spec for tool in added], options.get("preset", {}))
    names = [
        prefix + validate_name("name of a tool", name)
        for name in _apply_rename([tool.spec.name for tool in added], rename)
    ]
    single_options: Mapping[str, SingleToolOptions] = options.get("tools", {})
    if single_options:
        validate_single_options(single_options)
        added = [
            tool.with_definition(definition_changes(options_of_tool(single_options, name, ())))
            for tool, name in zip(added, names, strict=True)
        ]
        _refuse_unmatched(single_options, dict(zip(names, added, strict=True)))
    entries = []
    for tool, name in zip(added, names, strict=True):
        own_options = entry_options if len(added) == 1 else _fitting_options(tool.spec, entry_options)
        if single_options:
            single = options_of_tool(single_options, name, tool.parameters)
            if not single.get("enabled", True):
                continue
            own_options = add_single_options(own_options, single)
            tool = replace(tool, binds={**tool.binds, **single.get("binds", {})})  # noqa: PLW2901  # with its options
        entry = tool.to_entry(name, own_options, locks)
        entry.preset_names = options.get("preset", {}).keys()
        entry.on_duplicate = options.get("on_duplicate")
        entries.append(entry)
    return entries


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _AddedTool:
    """A tool that is added, and where it comes from."""

    original: ToolSpec
    """The spec itself."""
    spec: ToolSpec
    """The spec with the options of a definition."""
    origin: str
    binds: Mapping[str, str] = field(default_factory=dict)
    """Parameters to bind in this toolkit: parameter -> state key."""

    def with_definition(self, changes: ToolOptions) -> _AddedTool:
        """Return the tool with another definition."""
        return replace(self, spec=_change_spec(self.spec, changes)) if changes else self

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters, by the names that they have here."""
        return self.spec.compiled.template.inputs.parameters

    def with_output(self, output: OutputForm) -> _AddedTool:
        """Return the tool with this form of results, unless it is no function or says what its results are."""
        template = self.spec.compiled.template
        is_function = template.rebuild is function_source.build_template and not isinstance(self.spec, GroupsTool)
        if not is_function or "output" in template.options or template.options.get("output_schema") is not None:
            return self
        return replace(self, spec=_change_spec(self.spec, {"output": output}))

    def to_entry(self, name: str, options: EntryOptions, locks: KeyedLocks) -> Entry:
        """Return the entry. What another toolkit demands of a tool applies here, too."""
        if isinstance(tool := self.original, ToolkitTool):
            access = tool.server_access
            if access is not None:  # under the names that arguments have here
                access = replace(access, accepted=declared_names(self.spec.compiled.template))
            entry = Entry(
                self.spec,
                name,
                self.origin,
                {**tool.labels, **options},
                locks,
                inherited_middleware=tool.effective_middleware,
                server_access=access,
                server_name=tool.server_name,
            )
            entry.executor, entry.is_of_middleware = tool.executor, tool.is_of_middleware
            entry.inner = tool._view, tool._entry  # noqa: SLF001  # of this package
        else:
            entry = Entry(self.spec, name, self.origin, options, locks)
        entry.own_bindings = to_key_bindings(self.spec, name, self.binds)
        return entry


def _to_tools(
    thing: Any, namespace: Namespace, rename: Rename, definition: ToolOptions, spec_class: type[ToolSpec]
) -> list[_AddedTool]:
    """Return the tools of one argument of `Toolkit.add`, with the options of a definition."""
    spec = spec_behind(thing)
    other_name = {} if spec is thing or spec.name == thing.name else {"name": thing.name}  # LangChain's, for models
    thing = spec
    if not isinstance(thing, OtherToolkit | ToolSpec | ToolRegistry):
        if isinstance(rename, str):
            definition = {**definition, "name": rename}  # a function may have no name
        specs = _to_specs(thing, namespace, definition, spec_class)
        return [_AddedTool(original=spec, spec=spec, origin=origin) for spec, origin in specs]
    changes: Any = other_name | {name: value for name, value in definition.items() if name not in {"name", "binds"}}
    binds = definition.get("binds", {})
    return [
        _AddedTool(original=spec, spec=_change_spec(spec, changes) if changes else spec, origin=origin, binds=binds)
        for spec, origin in _to_specs(thing, namespace, {}, spec_class)
    ]


def _to_specs(
    thing: Any, namespace: Namespace, definition: ToolOptions, spec_class: type[ToolSpec]
) -> Sequence[tuple[ToolSpec, str]]:
    """Return the specs, each with a text that says where it comes from."""
    if isinstance(thing, OtherToolkit):
        return [
            (ToolkitTool.create(thing.view, entry), f"the toolkit {thing.name!r}")
            for entry in thing.view.selected_entries()
        ]
    if isinstance(thing, ToolSpec):
        return [(thing, _origin(thing))]
    if isinstance(thing, ToolRegistry):
        specs = {name: _with_class(spec, spec_class) for name, spec in thing.to_toolspecs().items()}
        if not specs and not thing.marked_methods():
            raise DefinitionError(f"{type(thing).__name__!r} has no tools: mark its methods with @reg_toolspec.")
        return [(spec, f"{type(thing).__name__}.{name}") for name, spec in specs.items()]
    if isinstance(thing, type) and issubclass(thing, ToolRegistry):
        raise DefinitionError(f"{thing.__name__!r} is a class of tools; add an instance, such as {thing.__name__}().")
    if hasattr(thing, "args_schema"):
        spec = spec_class.from_langchain(thing, **definition)
        return [(spec, f"the LangChain tool {spec.name!r}")]
    if callable(thing):
        spec = spec_class(*function_source.build_template(thing, definition, namespace=namespace))
        return [(spec, _origin(spec))]
    if not (hasattr(thing, "parameters") or hasattr(thing, "input_schema")):
        raise DefinitionError(_refusal(thing))
    spec = spec_class.from_mcp(thing, **definition)
    return [(spec, f"the MCP tool {spec.name!r}")]


def _refusal(thing: Any) -> str:
    """Return what is said of an object that is no tool."""
    kind = type(thing)
    if isinstance(thing, Mapping) and thing:
        return "A dict is no tool. Add the tools in it: add(*tools.values())."
    for name in ("kit", "toolkit"):  # of an object that holds its tools in a toolkit
        if hasattr(getattr(thing, name, None), "add_group"):
            return f"A {kind.__module__}.{kind.__name__} is no tool. Add its attribute `{name}`."
    return (
        f"A {kind.__name__} is no tool. Add a ToolSpec, a function, an instance of a ToolRegistry, "
        "a Toolkit, a FastMCP tool or a LangChain tool; add several with add(first, second)."
    )


def _with_class(spec: ToolSpec, spec_class: type[ToolSpec]) -> ToolSpec:
    """Return a new spec of a registry, which is of the toolkit's class unless the registry has its own."""
    if spec_class is ToolSpec or type(spec) is not ToolSpec:
        return spec
    return spec_class(spec.compiled.template, spec.body, compiled=spec.compiled)


def _to_rename(rename: Rename, options: AddOptions) -> Rename:
    """Return `rename`, or the option `name`, which means the same for one tool. Raises ToolkitError for both."""
    if "name" not in options:
        return rename
    if rename is not None:
        raise ToolkitError("`name` and `rename` are both the name of the tool: pass one of them.")
    return options["name"]


def _change_spec(spec: ToolSpec, options: ToolOptions) -> ToolSpec:
    """Return a spec with other options. Raises ToolkitError for the tool that switches groups."""
    if isinstance(spec, GroupsTool):
        raise ToolkitError(f"Pass {', '.join(options)} to `groups_tool`, which makes {spec.name!r}.")
    return ChangedSpec(spec, options)


def _refuse_unmatched(options: Mapping[str, SingleToolOptions], added: Mapping[str, _AddedTool]) -> None:
    """Raise ToolLookupError for a pattern in `tools` that fits no tool, BindError for its parameter that none has."""
    for pattern, single in options.items():
        matching = [tool.parameters for name, tool in added.items() if matches_name(pattern, name)]
        if not matching:
            raise ToolLookupError(f"There is no tool {pattern!r} in what is added. {near_misses(pattern, added)}")
        known = {name for parameters in matching for name in parameters}
        for name in {**single.get("preset", {}), **single.get("binds", {})} if is_pattern(pattern) else ():
            if name not in known:
                raise BindError(
                    f"No tool that matches {pattern!r} has a parameter {name!r}. {near_misses(name, known)}"
                )


def _refuse_options_of_one_tool(options: AddOptions, added: Sequence[_AddedTool]) -> None:
    """Raise ToolkitError for options that describe a single tool when there are several."""
    named = [name for name in options if name in _OPTIONS_OF_ONE_TOOL]
    if named and len(added) != 1:
        fix = f"tools={{'NAME': {{{named[0]!r}: …}}}}" if named[0] in DEFINITION_OPTIONS else "add each with its own"
        raise ToolkitError(f"{named[0]!r} describes one tool, and there are {len(added)}: {fix}.")


def _origin(spec: ToolSpec) -> str:
    if isinstance(spec.body, loaded_classes("ahvn_tools.sources.http.body", "HTTPBody")):
        return str(spec.body.origin)
    function = spec.function
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', spec.name)}"


def _refuse_unknown_presets(specs: Sequence[ToolSpec], preset: Mapping[str, Any]) -> None:
    """Raise BindError for a preset of several tools that none of them has; Entry validates that of one tool."""
    names = {name for spec in specs for name in spec.compiled.template.inputs.parameters}
    for name in preset if len(specs) > 1 else ():
        if name not in names:
            raise BindError(f"None of these tools has a parameter {name!r} to preset. {near_misses(str(name), names)}")


def _fitting_options(spec: ToolSpec, options: Any) -> Any:
    """Return the options for one of several tools: of a preset its parameters, `ship` if it takes a ToolContext."""
    parameters = spec.compiled.template.inputs.parameters
    own = {name: value for name, value in options.items() if name != "ship" or spec.compiled.plan.takes_context}
    if "preset" in own:
        own["preset"] = {name: value for name, value in own["preset"].items() if name in parameters}
    return own


def _apply_rename(names: list[str], rename: Rename) -> list[str]:
    """Return the new names. Raises ToolkitError for one name of several tools, ToolLookupError for an unknown tool."""
    if isinstance(rename, str):
        if len(names) != 1:
            raise ToolkitError(f"{rename!r} is one name for {len(names)} tools; pass a mapping, old name -> new name.")
        return [rename]
    rename = {} if rename is None else rename
    if not isinstance(rename, Mapping):
        raise ToolkitError(f"rename= is a new name, or a mapping, old name -> new name; not {rename!r}.")
    for name in rename:
        if name not in names:
            raise ToolLookupError(f"There is no tool {name!r} to rename. {near_misses(name, names)}")
    return [rename.get(name, name) for name in names]
