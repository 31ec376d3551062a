"""CompiledTool: a tool template with its bindings, from which its plan and its definition are made."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from pydantic_core import to_jsonable_python

from ahvn_tools.binding import Binding, bindable_parameters
from ahvn_tools.definition import JsonText, ToolDefinition
from ahvn_tools.errors import BindError, near_misses
from ahvn_tools.execution.plan import Body, Plan
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.values import contains_secret, reveal_secrets
from ahvn_tools.state import UNSET
from ahvn_tools.template import ToolTemplate

MAX_VARIANTS = 100
"""How many forms without some parameters are kept of a tool."""

_NO_BINDINGS: Mapping[str, Binding] = MappingProxyType({})


class CompiledTool:
    """An immutable pair of template and bindings; its plan and its definition are made when first read."""

    _variants: Mapping[frozenset[str], CompiledTool] = MappingProxyType({})
    """Its forms without some parameters; replaced whenever there is another."""

    def __init__(
        self, template: ToolTemplate, bindings: Mapping[str, Binding], *, refused_names: frozenset[str] = frozenset()
    ) -> None:
        """`refused_names`: arguments that are refused unless they are parameters, also where the schema is open."""
        self.template = template
        self.refused_names = refused_names
        self.bindings = MappingProxyType(dict(bindings)) if bindings else _NO_BINDINGS
        self.made_plan: Plan | None = None
        """The plan once it was made. A direct call reads it, because a property costs a tenth of the call."""

    @property
    def plan(self) -> Plan:
        """What the calls need."""
        if self.made_plan is None:
            self.made_plan = Plan(self.template, self.bindings, self.refused_names)
        return self.made_plan

    @functools.cached_property
    def definition(self) -> ToolDefinition:
        """The definition for models. Raises DefinitionError for a parameter that must be bound first."""
        self.require_bound()
        template, hidden = self.template, frozenset(self.bindings)
        output_schema, has_examples = template.output.schema_text, bool(template.examples)
        return ToolDefinition(
            name=template.name,
            title=template.title,
            description=template.texts.description,
            input_schema=JsonText(template.inputs.schema_text(hidden)),
            output_schema=None if output_schema is None else JsonText(output_schema),
            tags=template.tags,
            annotations=template.annotations,
            examples=to_jsonable_python(template.visible_examples(hidden, in_full=True)) if has_examples else None,
            meta=template.meta,
            version=template.version,
            icons=template.icons,
            returns=template.texts.details.returns,
        )

    @property
    def is_usable(self) -> bool:
        """Whether each parameter that must be bound is bound."""
        return self.template.inputs.parameters_without_schema <= self.bindings.keys()

    def require_bound(self) -> None:
        """Raise DefinitionError unless each parameter that must be bound is bound."""
        if not self.is_usable:
            self.plan.require_bound()

    def refuse_unsealable(self, parameters: Collection[str]) -> None:
        """Raise BindError for parameters that cannot be hidden, in addition to the bound ones."""
        obstacle = self.template.inputs.find_obstacle(frozenset({*parameters, *self.bindings}))
        if obstacle is not None:
            names = ", ".join(map(repr, parameters))
            raise BindError(
                f"{names} of {self.template.name!r} cannot be bound: {obstacle}. Change the input schema, "
                "or pass the value in the body."
            )

    @property
    def input_schema(self) -> JsonObject:
        """A fresh JSON Schema of the visible parameters, without those that must be bound first."""
        inputs = self.template.inputs
        return inputs.schema(inputs.parameters_without_schema.union(self.bindings))

    @functools.cached_property
    def state_keys(self) -> Mapping[str, str]:
        """Parameter -> dotted state key; constants and resolvers without a key have none."""
        return MappingProxyType({name: b.key.text for name, b in self.bindings.items() if b.key is not None})

    def with_options(self, options: Mapping[str, Any], body: Body) -> CompiledTool:
        """Return the tool with more options. Raises DefinitionError for options that do not fit."""
        template = self.template.with_options(options, body, self.bindings)
        return self._with(template, template.bindings)

    def without_parameters(self, names: frozenset[str]) -> CompiledTool:
        """Return the tool without optional parameters, for which a call has no value: the same object each time."""
        names = names.difference(self.bindings)
        if not names:
            return self
        if (variant := self._variants.get(names)) is None:
            absent = {name: Binding.constant(name, UNSET) for name in names}
            variant = self._with(self.template, {**self.bindings, **absent})
            others = self._variants if len(self._variants) < MAX_VARIANTS else {}
            self._variants = {**others, names: variant}
        return variant

    def with_binding(self, binding: Binding) -> CompiledTool:
        """Return the tool with one binding added or replaced."""
        return self._with(self.template, {**self.bindings, binding.parameter: binding})

    def preset_bindings(self, name: str, preset: Mapping[str, Any]) -> dict[str, Binding]:
        """Return constant bindings for preset values. Raises BindError for a parameter or a value that does not fit."""
        inputs, bindings = self.template.inputs, {}
        for parameter, value in preset.items():
            is_sealed = contains_secret(value)
            if parameter not in inputs.parameters:
                near = near_misses(parameter, bindable_parameters(inputs.parameters, self.bindings))
                raise BindError(f"{name!r} has no parameter {parameter!r} to preset. {near}")
            if parameter in self.bindings and self.bindings[parameter].is_constant:
                raise BindError(
                    f"{parameter!r} of {name!r} was fixed when the tool was made; leave it out of the preset."
                )
            self.refuse_unsealable([parameter])
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

    def without_binding(self, parameter: str) -> CompiledTool:
        """Return the tool without one binding."""
        bindings = {name: binding for name, binding in self.bindings.items() if name != parameter}
        return self._with(self.template, bindings)

    def copy(self) -> CompiledTool:
        """Return the same tool, to be compiled again."""
        return self._with(self.template, self.bindings)

    def _with(self, template: ToolTemplate, bindings: Mapping[str, Binding]) -> CompiledTool:
        return CompiledTool(template, bindings, refused_names=self.refused_names)
