"""The options of a tool as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_jsonable_python

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.execution.secret_options import without_secret_values
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.sources.options import ToolOptions, to_wire_annotations, to_wire_icons
from ahvn_tools.spec_data.fields import join, read, read_object
from ahvn_tools.spec_data.import_path import FunctionPath
from ahvn_tools.trust import Trust

_NAMES: Final = tuple(name for name in ToolOptions.__annotations__ if name != "binds")
"""The options in data, which has the bindings apart."""


_LISTS: Final = ("examples", "icons", "ship", "tags")
"""Options that any iterable may be, and that are lists in data."""


@dataclass(frozen=True, kw_only=True, repr=False)
class OptionsData:
    """What data says about the options of a tool."""

    values: Mapping[str, Any]
    """The options that are JSON."""
    render: FunctionPath | None = None

    @classmethod
    def read(cls, data: Any) -> OptionsData:
        """Return what data says. Raises SourceError for unknown options; a tool's source checks the values."""
        values = dict(read_object(data, "options", ("name",), _NAMES))
        for name in _LISTS:
            if values.get(name) is not None:
                read(values[name], join("options", name), list)
        changes = values.get("arguments")
        for name, change in read({} if changes is None else changes, "options.arguments", dict).items():
            read_object(change, join("options.arguments", name), optional=ArgumentChange.__annotations__)
        render = FunctionPath.read(values.pop("render"), "options.render") if "render" in values else None
        return cls(values=values, render=render)

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the function of `render` may be imported."""
        if self.render is not None:
            self.render.require_trust(trust)

    def load(self) -> JsonObject:
        """Return the options; the function of `render` is imported. Raises SourceError."""
        return {**self.values} if self.render is None else {**self.values, "render": self.render.load()}


def write_options(compiled: CompiledTool) -> JsonObject:
    """Return the options of a tool as data. Raises ToolSpecError, which names the option that cannot be data."""
    template = compiled.template
    own = without_secret_values(compiled)
    options = {"name": template.name, **{name: own[name] for name in _NAMES if name in own}}
    hidden = frozenset(compiled.bindings)
    if options.get("render") is None:
        options.pop("render", None)
    data = {}
    for name, value in options.items():
        if name == "examples":
            value = to_jsonable_python(template.visible_examples(hidden)) or None  # noqa: PLW2901  # the same option
        try:
            data[name] = json.loads(json.dumps(_to_json(name, value, template.name), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolSpecError(
                f"Option {name!r} of {template.name!r} has a value without a JSON form: "
                "set another one with transform()."
            ) from error
    return data


def _to_json(name: str, value: Any, tool: str) -> Any:
    if value is None:
        return None
    match name:
        case "tags":
            return sorted(set(value))
        case "ship":
            return list(value)
        case "annotations":
            return to_wire_annotations(value)
        case "icons":
            return to_wire_icons(value)
        case "render":
            return FunctionPath.of(value, f"The function of the option 'render' of {tool!r}").to_data()
        case "arguments":
            return {argument: dict(change) for argument, change in value.items()}
    return value
