"""The tools of a toolkit as sources of a manifest, and the options that each has."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_jsonable_python

from ahvn_tools.binding import Binding
from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.code_sources import count_functions, refuse_environment
from ahvn_tools.manifest.dumping.import_paths import function_location, object_location, registry_location
from ahvn_tools.manifest.dumping.middleware import to_items
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.manifest.dumping.variables import escape
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.settings import to_wire_annotations
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.changed_spec import ChangedSpec
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP, is_pattern
from ahvn_tools.toolkit.exclusive import ParameterKey
from ahvn_tools.toolkit.tool import ToolkitTool

_TOOL_KEYS: Final = ("title", "annotations")
"""Options of a tool that no source has."""

_SILENT_OPTIONS: Final = frozenset({"name", "tags", "binds", "timeout"})
"""Options of a definition that are written by other keys."""


@dataclass(frozen=True, kw_only=True)
class DumpedTool:
    """One tool."""

    name: str
    own_name: str
    """Its name in the source."""
    location: JsonObject
    """The keys that say where the source is."""
    owner: Any = None
    """The registry, dict or list that has it among others."""
    options: JsonObject = field(default_factory=dict)
    """Its options, as `tools` of a manifest has them."""


def to_tool(entry: Entry, folder: Path) -> DumpedTool:
    """Return a tool that the host has added itself. Raises UndumpableError."""
    if is_pattern(entry.name):
        raise UndumpableError("its name would be a pattern of names in a manifest: give it another one")
    spec, changes = _unwrap(entry.spec)
    location, owner, base = _locate(spec, folder)
    own_name = base.name if base is not None else getattr(spec.function, "__name__", spec.name)
    definition = _definition_changes(spec, base, changes)
    options = {**definition, **entry_options(entry, spec, base, folder)}
    return DumpedTool(name=entry.name, own_name=own_name, location=location, owner=owner, options=options)


def _unwrap(spec: ToolSpec) -> tuple[ToolSpec, JsonObject]:
    """Return the spec that was added, and the options that the toolkit has changed."""
    changes: JsonObject = {}
    while isinstance(spec, ChangedSpec):
        changes = {**spec.changes, **changes}
        spec = spec.original
    if isinstance(spec, ToolkitTool):
        raise UndumpableError("it belongs to another toolkit: add the tool itself, or name that toolkit as a source")
    return spec, changes


def _locate(spec: ToolSpec, folder: Path) -> tuple[JsonObject, Any, ToolSpec | None]:
    """Return where a spec is, the registry, dict or list that it is from, and the spec that a source finds there."""
    template, function = spec.compiled.template, spec.function
    if template.source is not None:
        refuse_environment(template.source, function)
        return {"code": template.source}, None, None
    owner = getattr(spec.body, "__self__", None)
    if isinstance(owner, ToolRegistry):
        method = getattr(function, "__name__", spec.name)
        return registry_location(owner, folder), owner, owner.toolspec(method)
    if not inspect.isroutine(function) or template.tool is not None:
        if (placed := object_location(spec, folder)) is not None:
            return *placed, spec
        raise UndumpableError("it is made of no function: assign it to a name at the top level of a module")
    location, found = function_location(function, folder)
    return location, None, found if isinstance(found, ToolSpec) else ToolSpec.from_function(found)


def _definition_changes(spec: ToolSpec, base: ToolSpec | None, changes: Mapping[str, Any]) -> JsonObject:
    """Return the options of the definition that the source does not have itself."""
    own = {} if base is None else base.compiled.template.options
    wanted = {**spec.compiled.template.options, **changes}
    changed = {key: value for key, value in wanted.items() if key not in own or own[key] != value}
    found: JsonObject = {}
    for key, value in changed.items():
        if key in _SILENT_OPTIONS or (value is None and key not in own):
            continue
        if key not in {"title", "description", "annotations", "arguments"}:
            raise UndumpableError(f"its option {key!r} is in no file: define the function with @tool({key}=…)")
        found[key] = _to_plain(to_wire_annotations(value) if key == "annotations" else value, key)
    return found


def entry_options(entry: Entry, spec: ToolSpec, base: ToolSpec | None, folder: Path) -> JsonObject:
    """Return the options that a toolkit has for a tool. Raises UndumpableError."""
    own_tags = frozenset() if base is None else base.tags
    options: JsonObject = {}
    if entry.group != BASIC_GROUP:
        options["group"] = entry.group
    if lost := sorted(own_tags - entry.tags):
        raise UndumpableError(f"its own tag {lost[0]!r} was removed here: remove it where the tool is defined")
    if added := sorted(entry.tags - own_tags):
        options["tags"] = added
    if entry.audience:
        options["audience"] = sorted(entry.audience)
    own_timeout = None if base is None else base.timeout
    timeouts = [seconds for seconds in (entry.settings.get("timeout"), spec.timeout) if seconds is not None]
    if timeouts and min(timeouts) != own_timeout:
        options["timeout"] = min(timeouts)
    options |= _to_restrictions(entry, folder)
    if preset := {name: _to_preset(entry, binding) for name, binding in entry.preset.items()}:
        options["preset"] = preset
    if binds := {name: to_key(binding) for name, binding in _own_bindings(entry, spec, base).items()}:
        options["binds"] = binds
    return options


def _to_restrictions(entry: Entry, folder: Path) -> JsonObject:
    options: JsonObject = {}
    if callable(entry.requires_approval):
        raise UndumpableError("its `requires_approval` is a function: write True, or decide in the approver")
    if entry.requires_approval:
        options["requires_approval"] = True
    if entry.allowed_callers is not None:
        options["allowed_callers"] = sorted(entry.allowed_callers)
    if entry.task is not None:
        options["task"] = entry.task
    if isinstance(entry.exclusive, ParameterKey):
        options["exclusive"] = entry.exclusive.parameter
    elif callable(entry.exclusive):
        raise UndumpableError("its `exclusive` is a function: name a parameter, or write True")
    elif entry.exclusive:
        options["exclusive"] = entry.exclusive
    if entry.option_middleware:
        options["middleware"] = to_items(entry.option_middleware, folder)
    return {**options, **_to_settings(entry)}


def _to_settings(entry: Entry) -> JsonObject:
    """Return the options that say how calls run, but the timeout."""
    settings = {name: value for name, value in entry.settings.items() if name != "timeout"}
    return {**settings, "ship": [key.text for key in settings["ship"]]} if "ship" in settings else settings


def _own_bindings(entry: Entry, spec: ToolSpec, base: ToolSpec | None) -> Mapping[str, Binding]:
    """Return the bindings of a tool that neither its source nor the toolkit makes."""
    made_by_source = {} if base is None else base.compiled.template.bindings
    bindings = {
        name: binding
        for name, binding in spec.compiled.bindings.items()
        if not binding.is_constant and (name not in made_by_source or made_by_source[name].key != binding.key)
    }
    return {**bindings, **entry.own_bindings}


def to_key(binding: Binding) -> str:
    """Return the state key of a binding. Raises UndumpableError for one without."""
    if binding.resolver is not None:
        raise UndumpableError(f"{binding.parameter!r} is bound with a resolver: bind it to a state key")
    if binding.key is None:
        raise UndumpableError(f"{binding.parameter!r} is bound to a value: bind it to a state key")
    return binding.key.text


def _to_preset(entry: Entry, binding: Binding) -> Any:
    """Return the value of a preset. Raises UndumpableError, without the value, for a secret and for other objects."""
    name, inputs = binding.parameter, entry.spec.compiled.template.inputs
    if binding.is_secret:
        raise UndumpableError(f"its preset of {name!r} is secret: bind {name!r} to a state key")
    value = binding.default_value()
    try:
        plain = to_jsonable_python(value)
        validate = inputs.bound_value_validator(name)
        is_same = plain == value or (validate is not None and validate(plain) == value)
    except Exception:  # noqa: BLE001  # whatever an object does here, it has no YAML form
        is_same = False
    if not is_same:
        raise UndumpableError(f"its preset of {name!r} has no YAML form: bind {name!r} to a state key")
    return plain


def _to_plain(value: Any, what: str) -> Any:
    try:
        return to_jsonable_python(value)
    except ValueError:
        raise UndumpableError(f"its {what} has no YAML form: define the function with @tool({what}=…)") from None


def to_sources(entries: Iterable[Entry], folder: Path, problems: Problems) -> tuple[list[JsonObject], JsonObject]:
    """Return the sources of tools, and the options of single tools that their sources do not have."""
    sources: list[JsonObject] = []
    tools: JsonObject = {}
    for group in _group_by_source(entries, folder, problems):
        source, options = _to_source(group)
        sources.append(source)
        tools |= options
    return sources, tools


def _group_by_source(entries: Iterable[Entry], folder: Path, problems: Problems) -> list[list[DumpedTool]]:
    """Return the tools of each source: the methods of one registry are together if nothing is between them."""
    groups: list[list[DumpedTool]] = []
    for entry in entries:
        with problems.of(f"the tool {entry.name!r}"):
            tool = to_tool(entry, folder)
            last = groups[-1] if groups else []
            is_new = tool.own_name not in {other.own_name for other in last}
            if last and is_new and tool.owner is not None and last[0].owner is tool.owner:
                last.append(tool)
            else:
                groups.append([tool])
    return groups


def _to_source(tools: list[DumpedTool]) -> tuple[JsonObject, JsonObject]:
    """Return one source, with the options that all of its tools have, and the other options by tool."""
    first = tools[0]
    shared = {
        key: value
        for key, value in first.options.items()
        if key not in {*_TOOL_KEYS, "description", "arguments", "preset"}
        and all(key in tool.options and tool.options[key] == value for tool in tools)
    }
    rename = {tool.own_name: tool.name for tool in tools if tool.own_name != tool.name}
    options = {**_to_include(tools), **({"rename": rename} if rename else {}), **shared}
    source = {**(first.location if "code" in first.location else escape(first.location)), **escape(options)}
    others = {
        tool.name: escape(rest)
        for tool in tools
        if (rest := {k: v for k, v in tool.options.items() if k not in shared})
    }
    return source, others


def _to_include(tools: list[DumpedTool]) -> JsonObject:
    first = tools[0]
    if first.owner is None:
        is_one_of_several = "code" in first.location and count_functions(first.location["code"]) > 1
        return {"include": [first.own_name]} if is_one_of_several else {}
    count = len(first.owner.list_toolspecs()) if isinstance(first.owner, ToolRegistry) else len(first.owner)
    return {"include": [tool.own_name for tool in tools]} if len(tools) < count else {}
