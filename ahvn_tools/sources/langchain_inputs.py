"""The arguments of a LangChain tool: what models see as a JSON Schema, and what LangChain injects."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.generated import clean_schema
from ahvn_tools.schema.inputs import Parameter
from ahvn_tools.schema.jsonschema import SchemaInputs


@dataclass(frozen=True, kw_only=True)
class InjectedArgument:
    """An argument that no model passes: the graph's state or store, the id of the call, or a value of the host."""

    is_required: bool
    is_call_id: bool
    """Whether LangChain itself takes it from the call."""


class LangChainInputs(SchemaInputs):
    """The properties of a schema, and the injected arguments, which must stay bound."""

    def __init__(
        self,
        schema: Mapping[str, Any],
        injected: Mapping[str, InjectedArgument],
        *,
        converts_scalars: bool = False,
        **options: Any,
    ) -> None:
        """`converts_scalars` is for a tool with a model. Raises DefinitionError as SchemaInputs does."""
        super().__init__({**schema, "properties": _without(schema.get("properties", {}), injected)}, **options)
        self.converts_scalars = converts_scalars
        self.parameters_without_schema |= injected.keys()
        for name, argument in injected.items():
            is_required = argument.is_required and not argument.is_call_id
            self.parameters[name] = Parameter(name=name, property_name=name, is_required=is_required)


def visible_schema(tool: Any) -> JsonObject:
    """Return the JSON Schema of the arguments that a model passes, without titles."""
    model = getattr(tool, "tool_call_schema", tool.args_schema)
    schema = _to_json_schema(model)
    arguments = getattr(tool, "args", None)
    if tool.args_schema is None and isinstance(arguments, dict) and arguments.keys() != schema["properties"].keys():
        # a tool of one text without a name, whose model has the parameters of LangChain's own method
        schema = {"type": "object", "properties": arguments, "required": list(arguments)}
    return {key: value for key, value in clean_schema(schema).items() if key not in {"title", "description"}}


def injected_arguments(tool: Any) -> dict[str, InjectedArgument]:
    """Return the arguments that a model does not see: injected fields of the schema, and those of the signature."""
    fields = _injected_fields(tool)
    found = {
        name: InjectedArgument(
            is_required=field.is_required() if hasattr(field, "is_required") else bool(field.required),
            is_call_id=_is_call_id(field, tool.args_schema, name),
        )
        for name, field in fields.items()
    }
    signature = inspect.signature(_function(tool)).parameters
    for name in getattr(tool, "_injected_args_keys", frozenset()) - fields.keys():
        is_required = name in signature and signature[name].default is inspect.Parameter.empty
        found[name] = InjectedArgument(is_required=is_required, is_call_id=name == "tool_call_id")
    return found


def _function(tool: Any) -> Any:
    return getattr(tool, "func", None) or getattr(tool, "coroutine", None) or getattr(tool, "_run", tool.invoke)


def _injected_fields(tool: Any) -> dict[str, Any]:
    shown = getattr(tool, "tool_call_schema", None)
    whole = tool.args_schema
    if whole is None and hasattr(tool, "get_input_schema"):
        whole = tool.get_input_schema()
    if shown is None or isinstance(whole, dict) or isinstance(shown, dict):
        return {}
    return {name: field for name, field in _fields(whole).items() if name not in _fields(shown)}


def _fields(model: Any) -> Mapping[str, Any]:
    """Return the fields of a model of pydantic 2, or of its version 1."""
    fields: Mapping[str, Any] = model.model_fields if hasattr(model, "model_fields") else model.__fields__
    return fields


def _is_call_id(field: Any, model: Any, name: str) -> bool:
    metadata = getattr(field, "metadata", None) or get_args(getattr(model, "__annotations__", {}).get(name))[1:]
    kinds = [item if isinstance(item, type) else type(item) for item in metadata]
    return any(base.__name__ == "InjectedToolCallId" for kind in kinds for base in kind.__mro__)


def _to_json_schema(model: Any) -> JsonObject:
    """Return the JSON Schema of a model of either version of pydantic; that of no arguments for None."""
    if isinstance(model, dict):
        schema: JsonObject = dict(model)
    elif model is None:
        schema = {}
    else:
        schema = model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema()
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def _without(properties: Mapping[str, Any], injected: Mapping[str, InjectedArgument]) -> JsonObject:
    return {name: schema for name, schema in properties.items() if name not in injected}
