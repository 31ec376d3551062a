"""StructuredOutput: a tool that also takes the fields of a pydantic model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, RootModel

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import InvalidParametersError, ToolkitError
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.execution.plan import Body
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import is_secret_annotation
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.function import FunctionInputs
from ahvn_tools.schema.jsonschema import SchemaInputs
from ahvn_tools.schema.problems import unknown_arguments_error
from ahvn_tools.schema.refs import rename_definitions, unused_name, without_unused_definitions
from ahvn_tools.toolkit.entry import Entry

STRUCTURED_KEY = "structured"
"""The key in a result's metadata, and the name of the parameter as which the model is validated."""


class StructuredOutput:
    """One tool with the fields of a model in addition to its parameters."""

    def __init__(self, entry: Entry, model: Any) -> None:
        """Raises ToolkitError unless this is a model with fields, for a secret field, and for a field that clashes."""
        if not (isinstance(model, type) and issubclass(model, BaseModel)) or issubclass(model, RootModel):
            raise ToolkitError(f"A tool finishes with a pydantic model that has fields, not with {model!r}.")
        signature = inspect.Signature(
            [inspect.Parameter(STRUCTURED_KEY, inspect.Parameter.KEYWORD_ONLY, annotation=model)]
        )
        inputs = FunctionInputs(entry.name, signature, {STRUCTURED_KEY: model})
        if inputs.parameters_without_schema:
            raise ToolkitError(
                f"{model.__name__!r} has a field whose type has no JSON form, and a model would have to write it."
            )
        self._model = model
        self._validate = inputs.validator(frozenset())
        self._schema: JsonObject = _model_schema(inputs.schema(frozenset()))
        self._accepts_fields = _accepts_any_keyword(entry)
        self._cache: tuple[ToolDefinition, ToolDefinition] | None = None
        self._refuse_clashes(entry)
        self._merge_schema(entry.spec.compiled.input_schema)

    def _refuse_clashes(self, entry: Entry) -> None:
        parameters = entry.spec.compiled.template.inputs.parameters
        taken = parameters.keys() | {parameter.property_name for parameter in parameters.values()}
        clashing = sorted(taken & (self._schema["properties"].keys() | self._model.model_fields.keys()))
        if clashing:
            raise ToolkitError(
                f"{clashing[0]!r} is a parameter of {entry.name!r} and a field of {self._model.__name__!r}. "
                "Rename the field."
            )
        for name, field in self._model.model_fields.items():
            if is_secret_annotation(field.rebuild_annotation()):
                raise ToolkitError(
                    f"{name!r} of {self._model.__name__!r} is secret, and a model would have to write it."
                )

    @property
    def field_names(self) -> Collection[str]:
        """The names of the fields in the arguments of a call."""
        names: Collection[str] = self._schema["properties"].keys()
        return names

    @staticmethod
    def refuse_unknown(arguments: Collection[str], definition: ToolDefinition) -> None:
        """Raise InvalidParametersError for arguments that are neither parameters nor fields.

        The tool's own parameters, which are validated later, do not include the fields.
        """
        schema = definition.input_schema
        if schema.get("additionalProperties") is False:
            known = schema.get("properties", {})
            if unknown := [name for name in arguments if name not in known]:
                raise unknown_arguments_error(unknown, known)

    def definition(self, definition: ToolDefinition) -> ToolDefinition:
        """Return the tool's definition with the fields."""
        if self._cache is None or self._cache[0] is not definition:
            self._cache = definition, replace(definition, input_schema=self._merge_schema(definition.input_schema))
        return self._cache[1]

    def _merge_schema(self, schema: JsonObject) -> JsonObject:
        """Return the schema with the fields. A field replaces a parameter that a server has added under its name.

        A type of the model gets another name if the tool has a different type of that name.
        """
        definitions, added = schema.get("$defs", {}), self._schema.get("$defs", {})
        taken, names = {*definitions, *added}, {}
        for name in sorted(definitions.keys() & added.keys()):
            if definitions[name] != added[name]:
                names[name] = unused_name(name, taken)
                taken.add(names[name])
        model = rename_definitions(self._schema, names) if names else self._schema
        added = model.get("$defs", {})
        properties = model["properties"]
        merged = {**schema, "properties": {**schema.get("properties", {}), **properties}}
        own_required = [name for name in schema.get("required", ()) if name not in properties]
        if required := [*own_required, *model.get("required", ())]:
            merged["required"] = required
        if definitions or added:
            merged["$defs"] = {**definitions, **added}
        return merged

    def read(self, arguments: Mapping[str, Any], tool: str) -> BaseModel:
        """Return the model's instance of the arguments of a call. Raises InvalidParametersError."""
        fields = {name: value for name, value in arguments.items() if name in self._schema["properties"]}
        try:
            instance: BaseModel = self._validate({STRUCTURED_KEY: fields})[STRUCTURED_KEY]
        except InvalidParametersError as error:
            message = str(error).replace(f"'{STRUCTURED_KEY}.", "'")
            raise InvalidParametersError(message, tool=tool) from None
        return instance

    async def middleware(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Validate the model's fields before the tool's own arguments, and put the instance on the result."""
        instance = self.read(call.arguments, call.name)
        body = call.body
        if self._accepts_fields:
            body = _with_arguments(body, {name: getattr(instance, name) for name in type(instance).model_fields})
        arguments = {name: value for name, value in call.arguments.items() if name not in self._schema["properties"]}
        result = await next(replace(call, arguments=arguments, body=body))
        return result if result.is_error else replace(result, meta={**result.meta, STRUCTURED_KEY: instance})


def _with_arguments(body: Body, fields: Mapping[str, Any]) -> Body:
    """Return a body with more arguments. It keeps `__self__`, so that error texts can redact the instance."""
    partial = functools.partial(body, **fields)
    if hasattr(body, "__self__"):
        partial.__self__ = body.__self__  # type: ignore[attr-defined]  # a partial takes attributes
    return partial


def _model_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of the model with the definitions that it refers to."""
    node = schema["properties"][STRUCTURED_KEY]
    definitions = schema.get("$defs", {})
    node = definitions.get(node.get("$ref", "").rpartition("/")[2], node)
    return without_unused_definitions({**node, "properties": node.get("properties", {}), "$defs": definitions})


def _accepts_any_keyword(entry: Entry) -> bool:
    """Return whether the body is a function that takes `**kwargs`."""
    if isinstance(entry.spec.compiled.template.inputs, SchemaInputs):
        return False  # the arguments go to a remote tool that does not know the model
    kinds = [parameter.kind for parameter in inspect.signature(entry.spec.body).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds
