"""Which arguments of a function only its explicit JSON Schema validates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.context import is_context_annotation
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.redaction.names import is_secret_annotation, is_secret_schema
from ahvn_tools.schema.function import signature_of
from ahvn_tools.schema.jsonschema import UntypedArguments

_VAR_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_UNSUITABLE_OPTIONS = {
    "convert": "its arguments are never converted",
    "include_var_positional": "its schema says which arguments there are",
    "include_var_keyword": "its schema says which arguments there are",
}
"""Options that mean nothing for a tool whose schema alone validates its arguments, with the reason."""


def property_names(schema: Any) -> tuple[str, ...]:
    """Return the names of an object schema's properties; none of what is no object schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return tuple(properties) if isinstance(properties, Mapping) else ()


def secret_property_names(schema: Any) -> set[str]:
    """Return the names of an object schema's properties that it marks as secret."""
    return {name for name in property_names(schema) if is_secret_schema(schema["properties"][name])}


def split_signature(
    tool: str,
    body: Callable[..., Any],
    signature: inspect.Signature,
    annotations: Mapping[str, Any],
    *,
    bindings: Mapping[str, Binding],
    options: Mapping[str, Any],
    has_types: bool,
    is_injected: bool,
) -> tuple[UntypedArguments, inspect.Signature]:
    """Return what only the option `input_schema` validates, and the signature of the other parameters.

    `annotations` are resolved, `bindings` by the function's own names. Without types, callers set no other parameter.
    Raises DefinitionError for a signature and for options that do not fit the schema.
    """
    schema = options.get("input_schema")
    if schema is None:
        raise DefinitionError(f"{tool!r} is a tool from a schema, which it needs: pass another input_schema than None.")
    function = _SchemaFunction(tool=tool, signature=signature, bindings=bindings, schema=schema)
    if not has_types:
        function.refuse_unsuitable(options, is_injected=is_injected)
    takes_any_name = not (is_injected or options.get("include_var_keyword")) and function.var_keyword is not None
    reserved = _instance_name(body) | function.fixed_names() if takes_any_name else frozenset[str]()
    function.refuse_properties(
        reserved, [name for name in signature.parameters if is_context_annotation(annotations[name])]
    )
    if has_types:
        return UntypedArguments(takes_any_name=takes_any_name, reserved=reserved), signature
    properties = [p for p in signature.parameters.values() if function.is_property(p)]
    names = frozenset(p.name for p in properties)
    secret_names = frozenset(name for name in names if is_secret_annotation(annotations[name]))
    return UntypedArguments(
        names=names,
        takes_any_name=takes_any_name,
        secret_names=secret_names,
        defaults={p.name: p.default for p in properties if p.default is not p.empty},
        reserved=reserved,
        are_all=True,
    ), function.signature_of_others()


@dataclass(frozen=True, kw_only=True)
class _SchemaFunction:
    """A function whose arguments an explicit JSON Schema describes."""

    tool: str
    signature: inspect.Signature
    bindings: Mapping[str, Binding]
    schema: Mapping[str, Any]

    @property
    def properties(self) -> tuple[str, ...]:
        return property_names(self.schema)

    def is_property(self, parameter: inspect.Parameter) -> bool:
        return parameter.name in self.properties and parameter.kind not in _VAR_KINDS

    @property
    def var_keyword(self) -> inspect.Parameter | None:
        return next((p for p in self.signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)

    def refuse_unsuitable(self, options: Mapping[str, Any], *, is_injected: bool) -> None:
        """Refuse what means nothing where a schema alone validates."""
        for name, reason in _UNSUITABLE_OPTIONS.items():
            if options.get(name) is not None:
                raise DefinitionError(f"{name!r} is no option of a tool from a schema: {reason}. Remove it.")
        if is_injected:
            raise DefinitionError(
                f"{self.tool!r} has parameters that FastMCP injects, which a tool from a schema cannot have: "
                "take a ToolContext instead."
            )

    def fixed_names(self) -> frozenset[str]:
        """Return the names that `**arguments` get from a partial or a binding of all of them."""
        binding = self.bindings.get(self.var_keyword.name) if self.var_keyword else None
        if binding is None:
            return frozenset()
        fixed = binding.default if binding.is_constant and isinstance(binding.default, Mapping) else {}
        return frozenset({binding.parameter, *fixed})

    def refuse_properties(self, reserved: Collection[str], contexts: Collection[str]) -> None:
        """Refuse properties that a caller could never set."""
        for name in self.properties:
            if name in reserved or name in contexts:
                source = "its ToolContext" if name in contexts else "its own"
                raise DefinitionError(
                    f"input_schema of {self.tool!r} has the property {name!r}, which the function takes as {source}: "
                    "rename one of them."
                )

    def signature_of_others(self) -> inspect.Signature:
        """Return the parameters that are no property. Raises DefinitionError for one that gets no value."""
        others = []
        for parameter in self.signature.parameters.values():
            binding = self.bindings.get(parameter.name)
            if self.is_property(parameter):
                self._refuse_unfitting(parameter, is_fixed=binding is not None and binding.is_constant)
            elif binding is not None or parameter.kind not in _VAR_KINDS:
                self._refuse_without_value(parameter, is_bound=binding is not None)
                others.append(parameter)
        return self.signature.replace(parameters=others)

    def _refuse_unfitting(self, parameter: inspect.Parameter, *, is_fixed: bool) -> None:
        """Refuse a parameter that cannot take its property's value, or cannot be left out as its property can."""
        name = parameter.name
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DefinitionError(
                f"{self.tool!r} cannot take the property {name!r} by name: make it a plain parameter."
            )
        if parameter.default is parameter.empty and name not in self.schema.get("required", ()) and not is_fixed:
            raise DefinitionError(
                f"{name!r} of {self.tool!r} is optional in input_schema and required in the function: "
                f"give it a default there, or add it to the schema's `required`."
            )

    def _refuse_without_value(self, parameter: inspect.Parameter, *, is_bound: bool) -> None:
        if is_bound or parameter.default is not parameter.empty:
            return
        name, near = parameter.name, near_misses(parameter.name, self.properties)
        by_name = "" if self.var_keyword else f" Properties are passed by name: `**{name}` takes them all."
        raise DefinitionError(
            f"{self.tool!r} requires {name!r}, which is no property of input_schema. {near} Add the property, "
            f"give the parameter a default, or bind it when you create the tool: binds={{{name!r}: 'state.key'}}."
            f"{by_name}"
        )


def _instance_name(body: Callable[..., Any]) -> frozenset[str]:
    """Return the name under which a method gets its instance, if a keyword argument of that name would clash."""
    if inspect.isfunction(body) or isinstance(inspect.getattr_static(type(body), "__call__", None), staticmethod):
        return frozenset()
    method = getattr(body if inspect.ismethod(body) else type(body).__call__, "__func__", type(body).__call__)
    first = next(iter(signature_of(method).parameters.values()), None)
    return frozenset({first.name}) if first is not None and first.kind is first.POSITIONAL_OR_KEYWORD else frozenset()
