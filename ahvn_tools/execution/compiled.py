"""CompiledTool: a tool template with its bindings and the plan of a call. A change makes another one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.execution.plan import Plan
from ahvn_tools.template import ToolTemplate


class CompiledTool:
    """An immutable pair of template and bindings; the definition is made when first read."""

    def __init__(self, template: ToolTemplate, bindings: Mapping[str, Binding]) -> None:
        self.template = template
        self.bindings = MappingProxyType(dict(bindings))
        self.plan = Plan(template, self.bindings)

    @functools.cached_property
    def definition(self) -> ToolDefinition:
        """The definition for models."""
        return self.template.definition(frozenset(self.bindings))

    @functools.cached_property
    def state_keys(self) -> Mapping[str, str]:
        """Parameter -> dotted state key; constants and resolvers without a key have none."""
        return MappingProxyType({name: b.key.text for name, b in self.bindings.items() if b.key is not None})

    def with_binding(self, binding: Binding) -> CompiledTool:
        """Return the tool with one binding added or replaced."""
        return CompiledTool(self.template, {**self.bindings, binding.parameter: binding})

    def without_binding(self, parameter: str) -> CompiledTool:
        """Return the tool without one binding."""
        bindings = {name: binding for name, binding in self.bindings.items() if name != parameter}
        return CompiledTool(self.template, bindings)

    def recompile(self) -> CompiledTool:
        """Return an equal tool with nothing cached."""
        return CompiledTool(self.template, self.bindings)
