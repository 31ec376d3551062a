"""Turns the argument of `Toolkit.add` into entries: its specs, their names and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.annotations import Namespace
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import EntryOptions, validate_name
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.toolkit_view import ToolkitView

Rename = Mapping[str, str] | str | None
"""The new name of a tool, or a mapping, old name -> new name."""


def to_entries(
    thing: Any, namespace: Namespace, options: EntryOptions, locks: KeyedLocks, *, prefix: str, rename: Rename
) -> list[Entry]:
    """Return the entries of the argument of `Toolkit.add`; `namespace` resolves the annotations of a function."""
    named: ToolOptions = {"name": rename} if isinstance(rename, str) else {}
    specs_with_origins = _to_specs(thing, namespace, named)
    if not isinstance(prefix, str):
        raise ToolkitError(f"A prefix is a text, not {prefix!r}.")
    specs = [spec for spec, _ in specs_with_origins]
    names = _apply_rename([spec.name for spec in specs], rename)
    presets = _split_preset(specs, options.get("preset"))
    return [
        Entry(
            spec,
            prefix + validate_name("name of a tool", name),
            origin,
            {**(spec.labels if isinstance(spec, ToolkitTool) else {}), **options, **preset},
            locks,
            inherited_middleware=spec.effective_middleware if isinstance(spec, ToolkitTool) else None,
            server_access=spec.server_access if isinstance(spec, ToolkitTool) else None,
            follows_server=isinstance(spec, ToolkitTool) and spec.follows_server,
        )
        for name, (spec, origin), preset in zip(names, specs_with_origins, presets, strict=True)
    ]


def _to_specs(thing: Any, namespace: Namespace, options: ToolOptions) -> Sequence[tuple[ToolSpec, str]]:
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
        return [(spec := ToolSpec(*function_source.build_template(thing, options, namespace=namespace)), _origin(spec))]
    if not (hasattr(thing, "parameters") or hasattr(thing, "input_schema")):
        raise DefinitionError(
            f"A {type(thing).__name__} is no tool. Add a ToolSpec, a function, an instance of a ToolRegistry, "
            "a Toolkit or a FastMCP tool, one at a time."
        )
    spec = ToolSpec.from_mcp(thing)
    return [(spec, f"the MCP tool {spec.name!r}")]


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
