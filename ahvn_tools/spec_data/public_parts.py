"""What of a tool leaves its process, as data and in a pickle: options, bindings and state without secret values."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.values import contains_secret
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.keywords import remove_secret_defaults
from ahvn_tools.state import UNSET, StateKey, without_keys


def secret_keys(compiled: CompiledTool, secrets: Iterable[StateKey]) -> frozenset[StateKey]:
    """Return the keys that are or were bound as secret."""
    bound = (*compiled.template.bindings.values(), *compiled.bindings.values())
    return frozenset(secrets) | {item.key for item in bound if item.is_secret and item.key is not None}


def bound_secrets(compiled: CompiledTool) -> frozenset[str]:
    """Return the bound parameters that are marked, named or bound as secret."""
    secret_names = compiled.plan.secret_names
    return frozenset(name for name, item in compiled.bindings.items() if item.is_secret or name in secret_names)


def public_options(compiled: CompiledTool, unseen: frozenset[str]) -> dict[str, Any]:
    """Return the options; what has a default or an example of a secret parameter that is bound is a copy without it.

    The examples have no parameter of `unseen`.
    """
    options, secret = dict(compiled.template.options), bound_secrets(compiled)
    if unseen and options.get("examples"):
        options["examples"] = compiled.template.visible_examples(unseen)
    if secret and options.get("arguments"):
        changes = _changes(compiled)
        options["arguments"] = {
            name: {
                key: value
                for key, value in change.items()
                if key not in ("default", "examples") or changes.new_name(name) not in secret
            }
            for name, change in changes.by_name.items()
        }
    if isinstance(options.get("input_schema"), dict):
        options["input_schema"] = _without_secret_defaults(options["input_schema"], compiled, secret)
    return options


def _changes(compiled: CompiledTool) -> ArgumentChanges:
    return ArgumentChanges.parse(compiled.template.options.get("arguments"))


def _without_secret_defaults(schema: JsonObject, compiled: CompiledTool, secret: frozenset[str]) -> JsonObject:
    schema, parameters = copy.deepcopy(schema), compiled.template.inputs.parameters
    remove_secret_defaults(
        schema, [item.property_name for name, item in parameters.items() if item.is_secret or name in secret]
    )
    for name in secret & parameters.keys():
        node = schema.get("properties", {}).get(parameters[name].property_name)
        if isinstance(node, dict):
            node.pop("examples", None)  # of a property that a model sees, they stay
    return schema


def public_bindings(
    compiled: CompiledTool, state: Mapping[str, Any], secrets: Collection[StateKey]
) -> dict[str, Binding]:
    """Return the bindings without secret values; `secrets` are the keys of these."""
    lost = bound_secrets(compiled) & _changes(compiled).defaults().keys()
    return {
        name: _without_secrets(binding, state, secrets, lost_default=name in lost)
        for name, binding in compiled.bindings.items()
    }


def public_state(state: Mapping[str, Any], secrets: Collection[StateKey]) -> dict[str, Any]:
    """Return a copy of the state without what is under these keys, and without values of pydantic's secret types."""
    return _without_secret_types(without_keys(state, secrets))


def _without_secret_types(state: dict[str, Any]) -> dict[str, Any]:
    """Remove values of pydantic's secret types, in place, and the lists and objects that contain one."""
    pending: list[dict[str, Any]] = [state] if contains_secret(state) else []
    seen = set[int]()
    while pending:
        here = pending.pop()
        seen.add(id(here))
        for key in [key for key, value in here.items() if type(value) is not dict and contains_secret(value)]:
            del here[key]
        pending.extend(value for value in here.values() if type(value) is dict and id(value) not in seen)
    return state


def _without_secrets(
    binding: Binding, state: Mapping[str, Any], secrets: Iterable[StateKey], *, lost_default: bool
) -> Binding:
    """Return a binding without its secret values; `lost_default`: the options lose the parameter's default."""
    if binding.is_secret:
        return binding.without_value() if lost_default or binding.may_have_value(state) else binding
    if binding.resolver is None and (contains_secret(binding.default) or _has_secret_type(binding, state)):
        return binding.without_value()
    if lost_default and binding.resolver is None and binding.default is UNSET:
        return replace(binding, is_value_removed=True)
    if binding.key is None or binding.default is UNSET:
        return binding
    steps, length = binding.key.steps, len(binding.key.steps)
    if any(key.steps == steps[: len(key.steps)] for key in secrets):
        return binding.without_value()
    inside = [StateKey("", ("default", *key.steps[length:])) for key in secrets if key.steps[:length] == steps]
    public = without_keys({"default": binding.default}, inside).get("default", UNSET)
    return replace(binding, default=public, stored_default=UNSET)


def _has_secret_type(binding: Binding, state: Mapping[str, Any]) -> bool:
    if binding.key is None:
        return False
    try:
        return contains_secret(binding.key.read(state))
    except Exception:  # noqa: BLE001  # a property may raise anything: its object is pickled as it is
        return False
