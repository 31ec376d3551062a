"""Added: what a thing that is added to a toolkit gives: tools, their names, and what the toolkit says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.annotations import Namespace
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import Entry, EntryOptions, validate_name
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.visibility import StoreView

SpecsWithOrigins = Sequence[tuple[ToolSpec, str]]
"""Specs, each with where it is from."""


def to_specs(thing: Any, namespace: Namespace, options: ToolOptions) -> list[tuple[ToolSpec, str]]:
    """Return the specs that a thing gives, if it is no toolkit, each with where it is from.

    A function becomes one with these options. Raises DefinitionError for what gives none.
    """
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


def specs_from_view(view: StoreView, name: str) -> SpecsWithOrigins:
    """Return the tools of a toolkit of this name, as they are seen there."""
    return [(ToolkitTool(view, entry), f"the toolkit {name!r}") for entry in view.selected_entries()]


def to_entries(
    specs_with_origins: SpecsWithOrigins,
    prefix: str,
    rename: Mapping[str, str] | str | None,
    options: EntryOptions,
    locks: KeyedLocks,
) -> list[Entry]:
    """Return the entries of specs. Raises ToolkitError, ToolLookupError and BindError for what does not fit them."""
    if not isinstance(prefix, str):
        raise ToolkitError(f"A prefix is a text, not {prefix!r}.")
    names = _apply_rename([spec.name for spec, _ in specs_with_origins], rename)
    presets = _split_preset([spec for spec, _ in specs_with_origins], options.get("preset"))
    return [
        Entry(
            spec,
            prefix + validate_name("name of a tool", name),
            origin,
            _with_labels(spec, {**options, **preset}),
            locks,
            inherited_middleware=spec.effective_middleware if isinstance(spec, ToolkitTool) else None,
        )
        for name, (spec, origin), preset in zip(names, specs_with_origins, presets, strict=True)
    ]


def _origin(spec: ToolSpec) -> str:
    function = spec.function
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', spec.name)}"


def _with_labels(spec: ToolSpec, options: EntryOptions) -> EntryOptions:
    """Return the options with the labels that a tool of another toolkit brings along; what is given wins."""
    if not isinstance(spec, ToolkitTool):
        return options
    return {**spec.labels, **options}


def _split_preset(specs: Sequence[ToolSpec], preset: Any) -> list[EntryOptions]:
    """Return what of a preset each of these tools takes. Raises BindError for a parameter that none of them has."""
    if len(specs) == 1 or not isinstance(preset, Mapping):
        return [{} for _ in specs]  # one tool takes all of it, or says what does not fit
    known = [spec.compiled.template.inputs.parameters for spec in specs]
    names = {name for parameters in known for name in parameters}
    for name in preset:
        if name not in names:
            raise BindError(f"None of these tools has a parameter {name!r} to preset. {near_misses(str(name), names)}")
    return [{"preset": {name: value for name, value in preset.items() if name in parameters}} for parameters in known]


def _apply_rename(names: list[str], rename: Mapping[str, str] | str | None) -> list[str]:
    """Return the names here. Raises ToolkitError for one new name for several, ToolLookupError for an old unknown."""
    if isinstance(rename, str):
        if len(names) != 1:
            raise ToolkitError(f"{rename!r} is one name for {len(names)} tools; give a mapping, old name -> new name.")
        return [rename]
    rename = {} if rename is None else rename
    if not isinstance(rename, Mapping):
        raise ToolkitError(f"rename= is a new name, or a mapping, old name -> new name; not {rename!r}.")
    for name in rename:
        if name not in names:
            raise ToolLookupError(f"There is no tool {name!r} to rename. {near_misses(name, names)}")
    return [rename.get(name, name) for name in names]
