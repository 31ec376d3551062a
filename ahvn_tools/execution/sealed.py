"""Sealed: a recipe with its bindings, and what follows from the two. Made anew for each change, so nothing is stale."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.execution.plan import Plan
from ahvn_tools.recipe import Recipe


class Sealed:
    """An immutable pair of recipe and bindings, with the plan of a call; the definition is made when first read."""

    def __init__(self, recipe: Recipe, bindings: Mapping[str, Binding]) -> None:
        self.recipe = recipe
        self.bindings = MappingProxyType(dict(bindings))
        self.plan = Plan(recipe, self.bindings)

    @functools.cached_property
    def definition(self) -> ToolDefinition:
        """What a model is shown."""
        return self.recipe.definition(frozenset(self.bindings))

    @functools.cached_property
    def keys(self) -> Mapping[str, str]:
        """Parameter -> dotted key, for the bindings that state is asked for."""
        return MappingProxyType({name: b.key.text for name, b in self.bindings.items() if b.key is not None})

    def with_binding(self, binding: Binding) -> Sealed:
        """Return the pair with one binding added or replaced."""
        return Sealed(self.recipe, {**self.bindings, binding.parameter: binding})

    def without_binding(self, parameter: str) -> Sealed:
        """Return the pair with one binding less."""
        return Sealed(self.recipe, {name: binding for name, binding in self.bindings.items() if name != parameter})

    def fresh(self) -> Sealed:
        """Return the same pair with nothing made yet."""
        return Sealed(self.recipe, self.bindings)
