"""LangChain's tools as a source: they are read through a Protocol, and LangChain is not imported."""

from __future__ import annotations

import contextlib
import inspect
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, get_args

from ahvn_tools.binding import Binding
from ahvn_tools.context import ToolContext, resolve_transport_context
from ahvn_tools.encoders.binary import UNKNOWN_MIME_TYPE, bytes_block
from ahvn_tools.encoders.loaded_classes import loaded_classes, refuse_graph_output
from ahvn_tools.errors import DefinitionError, ToolError, exception_text, refused_arguments_error
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import Rendering, ToolResult, join_text_blocks, raw_result, result_from_content, text_block
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.docstring import Texts
from ahvn_tools.schema.generated import clean_schema
from ahvn_tools.schema.inputs import Parameter
from ahvn_tools.schema.jsonschema import SchemaInputs
from ahvn_tools.schema.output import Output
from ahvn_tools.schema.refs import without_unused_definitions
from ahvn_tools.settings import ToolSettings, refuse_unknown_bindings, to_definition_fields, validate_options
from ahvn_tools.sources.changed_parameters import convert_defaults
from ahvn_tools.sources.langchain_injection import ConfigKey, InjectedKey, find_config_parameter, injection_annotation
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate, validate_examples

Body = Callable[..., Any]

_CONTEXT: Final = "tool context"
"""The argument under which a body receives the ToolContext."""

_TOOL_CALL: Final = "tool_call"
"""The type by which LangChain tells a tool call from arguments."""

_UNKNOWN_OPTIONS = frozenset({
    "parse_docstring", "include_long_description", "docstring_sections", "description_separator",
    "include_var_positional", "include_var_keyword", "convert", "ship", "external",
})  # fmt: skip


_BLOCK_TYPES: Final = frozenset({"text", "image", "image_url", "audio", "video", "file"})
_DATA_URL: Final = "data:"


class LangChainTool(Protocol):
    """What is read of a LangChain tool; `tool_call_schema`, `response_format`, `tags` and `metadata` if it has them."""

    name: str
    description: str
    args_schema: Any
    """A pydantic model, a JSON Schema, or None."""

    def invoke(self, input: Any, config: Any = None) -> Any:  # noqa: A002  # LangChain's word
        """Run a call from sync code."""

    async def ainvoke(self, input: Any, config: Any = None) -> Any:  # noqa: A002  # as above
        """Run a call from async code."""


def is_langchain_tool(value: Any) -> bool:
    """Return whether a value is a LangChain tool."""
    return hasattr(value, "args_schema") and callable(getattr(value, "invoke", None))


def build_template(
    tool: LangChainTool, options: Mapping[str, Any], *, bindings: Mapping[str, Binding] | None = None
) -> tuple[ToolTemplate, Body]:
    """Return the template of a LangChain tool, and the body that invokes it.

    Each injected argument is bound to the state key of its own name, unless the options bind it to another.
    """
    options = validate_options(options)
    _check(tool, options)
    chosen = {name: value for name, value in options.items() if value is not None}
    name = chosen.get("name", tool.name)
    injected = _injected_arguments(tool)
    config = find_config_parameter(_function(tool))
    hidden = (
        injected if config is None else {**injected, config: _InjectedArgument(is_required=False, is_call_id=False)}
    )
    changes = ArgumentChanges.parse(chosen.get("arguments"))
    inputs = _LangChainInputs(
        chosen.get("input_schema", _visible_schema(tool)),
        hidden,
        context_parameter=_CONTEXT,
        coerce_numbers_to_str=chosen.get("coerce_numbers_to_str", True),
        changes=changes,
        converts_scalars=not isinstance(tool.args_schema, dict),
    )
    validate_examples(name, chosen.get("examples"), inputs)
    if bindings is None:
        parameters = [parameter for parameter in inputs.parameters if parameter != _CONTEXT]
        refuse_unknown_bindings(name, chosen.get("binds", {}), parameters)
        bindings = _initial_bindings(tool, injected, config, chosen.get("binds", {}))
    convert_defaults(name, inputs, changes)
    is_async = _is_async(tool)
    template = ToolTemplate(
        name=name,
        texts=Texts(explicit_description=chosen.get("description", tool.description or "")),
        inputs=inputs,
        output=Output.of(name, inspect.Signature.empty, options),
        is_async=is_async,
        is_coroutine=is_async,
        **to_definition_fields({"tags": getattr(tool, "tags", None), "meta": _to_meta(tool), **chosen}),
        settings=ToolSettings.of(chosen),
        bindings=bindings,
        options={**options, **({"arguments": changes.by_name} if changes else {})},
        rebuild=_rebuild,
        rebuild_arguments={"tool": tool},
    )
    has_call_id = any(argument.is_call_id for argument in injected.values())
    return template, (_make_async_body if is_async else _make_body)(tool, config, has_call_id=has_call_id)


def _rebuild(
    _body: Body, options: Mapping[str, Any], *, tool: LangChainTool, bindings: Mapping[str, Binding]
) -> tuple[ToolTemplate, Body]:
    return build_template(tool, options, bindings=bindings)


def _check(tool: Any, options: Mapping[str, Any]) -> None:
    for name in options:
        if name in _UNKNOWN_OPTIONS:
            raise DefinitionError(f"{name!r} is an option for Python functions, not for LangChain tools; remove it.")
    if isinstance(tool, type) or not is_langchain_tool(tool):
        raise DefinitionError(
            f"A {type(tool).__name__} is not a LangChain tool; pass a BaseTool, such as one that LangChain's `@tool` "
            "or `StructuredTool.from_function` makes. Of another Runnable make one with `as_tool()`."
        )


def _initial_bindings(
    tool: Any, injected: Mapping[str, _InjectedArgument], config: str | None, binds: Mapping[str, str]
) -> dict[str, Binding]:
    """Return the bindings of the options, of injected arguments, of LangChain's config and of the ToolContext."""
    keys: dict[str, StateKey] = {
        name: InjectedKey.of(name, injection_annotation(tool, name))
        for name, argument in injected.items()
        if not argument.is_call_id
    }
    keys |= {} if config is None else {config: ConfigKey.from_name(config)}
    keys |= {name: StateKey.parse(key) for name, key in binds.items()}
    bindings = {name: Binding(parameter=name, key=key) for name, key in keys.items()}
    bindings |= {name: Binding(parameter=name) for name, argument in injected.items() if argument.is_call_id}
    bindings[_CONTEXT] = Binding(parameter=_CONTEXT, resolver=resolve_transport_context, takes_state=True)
    return bindings


def _to_meta(tool: Any) -> JsonObject | None:
    """Return the tool's metadata as far as it is JSON, and whether an agent returns its results directly."""
    metadata = getattr(tool, "metadata", None) or {}
    meta = {str(key): value for key, value in metadata.items() if _is_json(value)}
    if getattr(tool, "return_direct", False):
        meta["return_direct"] = True
    return meta or None


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_async(tool: Any) -> bool:
    """Return whether a tool has an async body of its own; the inherited one runs the sync body in a thread."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    method = getattr(type(tool), "_arun", None)
    return method is not None and method.__module__ != "langchain_core.tools.base"


def _make_body(tool: LangChainTool, config: str | None, *, has_call_id: bool) -> Body:
    def run(**arguments: Any) -> Any:
        request = _to_request(tool, arguments, config, has_call_id=has_call_id)
        with _converted_errors(tool):
            output = tool.invoke(*request)
        return _read_output(output)

    return run


def _make_async_body(tool: LangChainTool, config: str | None, *, has_call_id: bool) -> Body:
    async def run(**arguments: Any) -> Any:
        request = _to_request(tool, arguments, config, has_call_id=has_call_id)
        with _converted_errors(tool):
            output = await tool.ainvoke(*request)
        return _read_output(output)

    return run


def _to_request(tool: Any, arguments: JsonObject, config: str | None, *, has_call_id: bool) -> tuple[Any, ...]:
    """Return what a tool is invoked with: the arguments alone, which leave its result unchanged, or a tool call.

    The argument `config` follows them as LangChain's config, if there is one.

    Only a tool call has an id for an injected argument, and only its result has a status and an artifact. LangChain
    would take arguments with the type of a tool call for one, and its `args` for all arguments.
    """
    context: ToolContext = arguments.pop(_CONTEXT)
    is_call = (
        has_call_id
        or arguments.get("type") == _TOOL_CALL
        or getattr(tool, "response_format", None) == "content_and_artifact"
        or getattr(tool, "handle_tool_error", False)
        or getattr(tool, "handle_validation_error", False)
    )
    more = () if config is None else (arguments.pop(config, None),)
    if not is_call:
        return arguments, *more
    call_id = context.call_id or f"call_{uuid.uuid4().hex[:24]}"
    return {"type": _TOOL_CALL, "id": call_id, "name": tool.name, "args": arguments}, *more


@contextlib.contextmanager
def _converted_errors(tool: LangChainTool) -> Iterator[None]:
    """Raise a ToolError for LangChain's ToolException, and for arguments that the tool itself refuses."""
    try:
        yield
    except Exception as error:
        if isinstance(error, loaded_classes("langchain_core.tools.base", "ToolException")):
            raise ToolError(exception_text(error) or "The tool failed.") from error
        if _is_about_arguments(error, tool):
            raise _refused_error(error, tool) from None
        raise


def _is_about_arguments(error: Any, tool: LangChainTool) -> bool:
    """Return whether an exception is that of pydantic about the tool's arguments; a body may raise others."""
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return False
    schema = tool.args_schema
    return getattr(error, "model", None) is schema or getattr(error, "title", "") == getattr(schema, "__name__", None)


def _refused_error(error: Any, tool: LangChainTool) -> ToolError:
    return refused_arguments_error(error.errors(), _visible_schema(tool).get("properties", {}), tool=tool.name)


@dataclass(frozen=True, kw_only=True)
class _InjectedArgument:
    """An argument that no model passes: the graph's state or store, the id of the call, or a value of the host."""

    is_required: bool
    is_call_id: bool
    """Whether LangChain itself takes it from the call."""


class _LangChainInputs(SchemaInputs):
    """The properties of a schema, and the injected arguments, which must stay bound."""

    def __init__(
        self,
        schema: Mapping[str, Any],
        injected: Mapping[str, _InjectedArgument],
        *,
        converts_scalars: bool = False,
        **options: Any,
    ) -> None:
        """`converts_scalars` is for a tool with a model. Raises DefinitionError as SchemaInputs does."""
        super().__init__(_without(schema, injected), **options)
        self.converts_scalars = converts_scalars
        self.parameters_without_schema |= injected.keys()
        for name, argument in injected.items():
            is_required = argument.is_required and not argument.is_call_id
            self.parameters[name] = Parameter(name=name, property_name=name, is_required=is_required)


def _visible_schema(tool: Any) -> JsonObject:
    """Return the JSON Schema of the arguments that a model passes, without titles."""
    model = getattr(tool, "tool_call_schema", tool.args_schema)
    schema = _to_json_schema(model)
    arguments = getattr(tool, "args", None)
    if tool.args_schema is None and isinstance(arguments, dict) and arguments.keys() != schema["properties"].keys():
        # a tool of one text without a name, whose model has the parameters of LangChain's own method
        schema = {"type": "object", "properties": arguments, "required": list(arguments)}
    return {key: value for key, value in clean_schema(schema).items() if key not in {"title", "description"}}


def _injected_arguments(tool: Any) -> dict[str, _InjectedArgument]:
    """Return the arguments that a model does not see: injected fields of the schema, and those of the signature."""
    fields = _injected_fields(tool)
    found = {
        name: _InjectedArgument(
            is_required=field.is_required() if hasattr(field, "is_required") else bool(field.required),
            is_call_id=_is_call_id(field, tool.args_schema, name),
        )
        for name, field in fields.items()
    }
    signature = inspect.signature(_function(tool)).parameters
    for name in getattr(tool, "_injected_args_keys", frozenset()) - fields.keys():
        is_required = name in signature and signature[name].default is inspect.Parameter.empty
        found[name] = _InjectedArgument(is_required=is_required, is_call_id=name == "tool_call_id")
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


def _without(schema: Mapping[str, Any], injected: Mapping[str, _InjectedArgument]) -> JsonObject:
    """Return the schema without the injected arguments."""
    properties = schema.get("properties", {})
    if injected.keys().isdisjoint(properties):
        return dict(schema)
    shown = {name: node for name, node in properties.items() if name not in injected}
    required = [name for name in schema.get("required", ()) if name not in injected]
    return without_unused_definitions({**schema, "properties": shown, "required": required})


def _read_output(output: Any) -> Any:
    """Return what a tool returned for a result: content as MCP blocks, the value of an artifact, any other value.

    Raises ToolError for a message with the status "error", InvalidResultError for a command to a LangGraph graph.
    """
    if hasattr(output, "tool_call_id") and hasattr(output, "content"):
        return _read_message(output)
    refuse_graph_output(output)
    return _to_blocks(output) if _is_content(output) else output


def _read_message(message: Any) -> Any:
    """Return the content of a ToolMessage, with its artifact as the value."""
    blocks = _to_blocks(message.content)
    if getattr(message, "status", None) == "error":
        raise ToolError(join_text_blocks(tuple(blocks)) or "The tool failed.")
    artifact = getattr(message, "artifact", None)
    if artifact is None:
        return message.content if isinstance(message.content, str) else blocks
    if isinstance(message.content, str):
        return ToolResult(artifact, _rendering=Rendering(artifact, message.content))
    return raw_result(artifact, result_from_content(blocks))


def _is_content(value: Any) -> bool:
    """Return whether a value is a list of LangChain's content blocks."""
    return isinstance(value, list) and bool(value) and all(_is_block(item) for item in value)


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _BLOCK_TYPES and len(value) > 1


def _to_blocks(content: Any) -> list[Any]:
    """Return content as MCP blocks."""
    return [_to_block(item) for item in (content if isinstance(content, list) else [content])]


def _to_block(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return text_block(str(item))
    if isinstance(item.get("text"), str):
        return text_block(item["text"])
    mime_type, data = _read_data(item)
    if data is not None:
        return bytes_block(data, mime_type or UNKNOWN_MIME_TYPE)
    return text_block(json.dumps(item, ensure_ascii=False, default=str))


def _read_data(item: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the media type and the base64 data of a block, in each of the forms that LangChain knows."""
    if isinstance(item.get("base64"), str):
        return item.get("mime_type"), item["base64"]
    if item.get("source_type") == "base64" and isinstance(item.get("data"), str):
        return item.get("mime_type"), item["data"]
    source = item.get("source")
    if isinstance(source, Mapping) and source.get("type") == "base64" and isinstance(source.get("data"), str):
        return source.get("media_type"), source["data"]
    url = item.get("image_url", item.get("url"))
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and url.startswith(_DATA_URL) and ";base64," in url:
        mime_type, _, data = url.removeprefix(_DATA_URL).partition(";base64,")
        return mime_type, data
    return None, None
