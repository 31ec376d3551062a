"""Turns the argument of `Toolkit.add` into entries: its specs, their names and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.annotations import Namespace
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.changed_spec import ChangedSpec
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import (
    AddOptions,
    EntryOptions,
    refuse_unknown_options,
    to_key_bindings,
    tool_changes,
    validate_name,
    validate_tool_changes,
)
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.model_tools import GroupsTool
from ahvn_tools.toolkit.server_access import declared_names
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.toolkit_view import ToolkitView

_ENTRY_OPTIONS = EntryOptions.__annotations__.keys()
_OPTIONS_OF_ONE_TOOL = frozenset({"title", "description", "examples", "input_schema", "output_schema"})

Rename = Mapping[str, str] | str | None
"""The new name of a tool, or a mapping, old name -> new name."""


def to_entries(
    things: tuple[Any, ...],
    namespace: Namespace,
    options: AddOptions,
    locks: KeyedLocks,
    *,
    prefix: str,
    rename: Rename,
) -> list[Entry]:
    """Return the entries of the arguments of `Toolkit.add`; `namespace` resolves the annotations of a function."""
    refuse_unknown_options(options, AddOptions)
    if not isinstance(prefix, str):
        raise ToolkitError(f"A prefix is a text, not {prefix!r}.")
    rename = _to_rename(rename, options)
    validate_tool_changes(options)
    definition: Any = {name: value for name, value in options.items() if name in ToolOptions.__annotations__}
    definition.pop("arguments", None)  # those of `add` are by tool
    entry_options: Any = {
        name: definition.pop(name, value) for name, value in options.items() if name in _ENTRY_OPTIONS
    }
    if not things:
        raise ToolkitError("There is nothing to add: pass a tool, or several.")
    added = [tool.with_changes(options) for thing in things for tool in _to_tools(thing, namespace, rename, definition)]
    _refuse_unknown_tools(options, [tool.original.name for tool in added])
    _refuse_options_of_one_tool(options, added)
    specs = [tool.spec for tool in added]
    names = _apply_rename([spec.name for spec in specs], rename)
    presets = _split_preset(specs, options.get("preset"))
    return [
        tool.to_entry(prefix + validate_name("name of a tool", name), {**entry_options, **preset}, locks)
        for name, tool, preset in zip(names, added, presets, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class _AddedTool:
    """A tool that is added, and where it comes from."""

    original: ToolSpec
    """The spec itself."""
    spec: ToolSpec
    """The spec with the options of a definition."""
    origin: str
    binds: Mapping[str, str] = field(default_factory=dict)
    """Parameters to bind in this toolkit: parameter -> state key."""

    def with_changes(self, options: Mapping[str, Any]) -> _AddedTool:
        """Return the tool with the changes that are for it."""
        changes = tool_changes(options, self.original.name)
        return replace(self, spec=_change_spec(self.spec, changes)) if changes else self

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
                follows_server=tool.follows_server,
            )
        else:
            entry = Entry(self.spec, name, self.origin, options, locks)
        entry.own_bindings = to_key_bindings(self.spec, name, self.binds)
        return entry


def _to_tools(thing: Any, namespace: Namespace, rename: Rename, definition: ToolOptions) -> list[_AddedTool]:
    """Return the tools of one argument of `Toolkit.add`, with the options of a definition."""
    if not isinstance(thing, ToolkitView | ToolSpec | ToolRegistry):
        if isinstance(rename, str):
            definition = {**definition, "name": rename}  # a function may have no name
        specs = _to_specs(thing, namespace, definition)
        return [_AddedTool(original=spec, spec=spec, origin=origin) for spec, origin in specs]
    changes: Any = {name: value for name, value in definition.items() if name not in {"name", "binds"}}
    binds = definition.get("binds", {})
    return [
        _AddedTool(original=spec, spec=_change_spec(spec, changes) if changes else spec, origin=origin, binds=binds)
        for spec, origin in _to_specs(thing, namespace, {})
    ]


def _to_specs(thing: Any, namespace: Namespace, definition: ToolOptions) -> Sequence[tuple[ToolSpec, str]]:
    """Return the specs, each with a text that says where it comes from."""
    if isinstance(thing, ToolkitView):
        view = thing._view  # noqa: SLF001  # of this package
        return [(ToolkitTool(view, entry), f"the toolkit {thing.name!r}") for entry in view.selected_entries()]
    if isinstance(thing, ToolSpec):
        return [(thing, _origin(thing))]
    if isinstance(thing, ToolRegistry):
        return [(spec, f"{type(thing).__name__}.{name}") for name, spec in thing.to_toolspecs().items()]
    if isinstance(thing, type) and issubclass(thing, ToolRegistry):
        raise DefinitionError(f"{thing.__name__!r} is a class of tools; add an instance, such as {thing.__name__}().")
    if callable(thing):
        spec = ToolSpec(*function_source.build_template(thing, definition, namespace=namespace))
        return [(spec, _origin(spec))]
    if not (hasattr(thing, "parameters") or hasattr(thing, "input_schema")):
        raise DefinitionError(
            f"A {type(thing).__name__} is no tool. Add a ToolSpec, a function, an instance of a ToolRegistry, "
            "a Toolkit or a FastMCP tool; add several with add(first, second)."
        )
    spec = ToolSpec.from_mcp(thing, **definition)
    return [(spec, f"the MCP tool {spec.name!r}")]


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


def _refuse_unknown_tools(options: AddOptions, names: Sequence[str]) -> None:
    """Raise ToolLookupError for a tool in `describe` or `arguments` that is not added."""
    for name in (*options.get("describe", {}), *options.get("arguments", {})):
        if name not in names:
            raise ToolLookupError(f"There is no tool {name!r} to change. {near_misses(str(name), names)}")


def _refuse_options_of_one_tool(options: AddOptions, added: Sequence[_AddedTool]) -> None:
    """Raise ToolkitError for options that describe a single tool when there are several."""
    named = [name for name in options if name in _OPTIONS_OF_ONE_TOOL]
    if named and len(added) != 1:
        raise ToolkitError(f"{named[0]!r} describes one tool, and there are {len(added)}: add each with its own.")


def _origin(spec: ToolSpec) -> str:
    function = spec.function
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', spec.name)}"


def _split_preset(specs: Sequence[ToolSpec], preset: Any) -> list[EntryOptions]:
    """Return the part of a preset for each tool. Raises BindError for a parameter that none of the tools has."""
    if len(specs) == 1 or not isinstance(preset, Mapping):
        return [{} for _ in specs]  # the whole preset stays in the options, and Entry validates it
    known = [spec.compiled.template.inputs.parameters for spec in specs]
    names = {name for parameters in known for name in parameters}
    for name in preset:
        if name not in names:
            raise BindError(f"None of these tools has a parameter {name!r} to preset. {near_misses(str(name), names)}")
    return [{"preset": {name: value for name, value in preset.items() if name in parameters}} for parameters in known]


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
