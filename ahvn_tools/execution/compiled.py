"""Sealed: a recipe with its bindings, and what follows from the two. Made anew for each change, so nothing is stale."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.execution.plan import Plan
from ahvn_tools.template import ToolTemplate


class CompiledTool:
    """An immutable pair of recipe and bindings, with the plan of a call; the definition is made when first read."""

    def __init__(self, template: ToolTemplate, bindings: Mapping[str, Binding]) -> None:
        self.template = template
        self.bindings = MappingProxyType(dict(bindings))
        self.plan = Plan(template, self.bindings)

    @functools.cached_property
    def definition(self) -> ToolDefinition:
        """What a model is shown."""
        return self.template.definition(frozenset(self.bindings))

    @functools.cached_property
    def state_keys(self) -> Mapping[str, str]:
        """Parameter -> dotted key, for the bindings that state is asked for."""
        return MappingProxyType({name: b.key.text for name, b in self.bindings.items() if b.key is not None})

    def with_binding(self, binding: Binding) -> CompiledTool:
        """Return the pair with one binding added or replaced."""
        return CompiledTool(self.template, {**self.bindings, binding.parameter: binding})

    def without_binding(self, parameter: str) -> CompiledTool:
        """Return the pair with one binding less."""
        return CompiledTool(
            self.template, {name: binding for name, binding in self.bindings.items() if name != parameter}
        )

    def recompile(self) -> CompiledTool:
        """Return the same pair with nothing made yet."""
        return CompiledTool(self.template, self.bindings)
