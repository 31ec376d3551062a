"""Functions as a source: every kind of callable becomes a template and a body."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NotRequired,
    Required,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions

from ahvn_tools.binding import Binding
from ahvn_tools.context import is_context_annotation, resolve_context
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import DefinitionError
from ahvn_tools.redaction.names import is_secret_annotation
from ahvn_tools.schema.annotations import (
    Namespace,
    UnresolvedAnnotation,
    annotation_namespace,
    try_resolve,
    unwrap_annotation,
)
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.docstring import BLANK_LINE, Texts
from ahvn_tools.schema.function import ABSENT, FunctionInputs, signature_of
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.schema.output import Output
from ahvn_tools.settings import (
    ToolSettings,
    refuse_unknown_bindings,
    refuse_unused_ship,
    to_definition_fields,
    validate_options,
)
from ahvn_tools.sources.changed_parameters import (
    change_defaults,
    convert_defaults,
    rename_bindings,
    rename_parameters,
)
from ahvn_tools.sources.injection import FASTMCP_PACKAGES, InjectedBody, declared_options, wrap_injected_function
from ahvn_tools.sources.langchain_injection import ConfigKey, InjectedKey, is_config, is_injected
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate, validate_examples

if TYPE_CHECKING:
    from ahvn_tools.schema.jsonschema import UntypedArguments

Function = Callable[..., Any]

_UNPACKS = (Unpack, typing_extensions.Unpack)

_NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Shared by all tools, since most have neither renamed nor changed arguments."""


class _ToolFunction:
    """A callable that becomes a tool, with its options, and its signature as it is resolved."""

    def __init__(
        self,
        function: Any,
        options: Mapping[str, Any],
        *,
        namespace: Namespace | None,
        definition_namespace: Namespace | None,
        annotations: Mapping[str, Any] | None,
        docstring: str | None,
    ) -> None:
        """Read a callable; see `build_template`."""
        body: Any
        body, self.constants = _unwrap(function)
        """The callable, and the arguments that a partial fixes."""
        self.body, self.options = body, options
        signature = _callable_signature(body, {*self.constants, *(options.get("binds") or ())})
        names = annotation_namespace(body, namespace, definition_namespace)
        self.signature = signature = _with_unpacked_names(signature, names)
        self.annotations: dict[str, Any] = {}
        """The annotations of the parameters and of `return`, resolved."""
        self.changed_annotations: dict[str, Any] = {}
        """Those that differ from the signature's: rebuilding the tool needs them."""
        for name in (*signature.parameters, "return"):
            annotation = signature.return_annotation if name == "return" else signature.parameters[name].annotation
            is_known = annotations is not None and name in annotations
            resolved = annotations[name] if annotations and is_known else try_resolve(annotation, names)
            self.annotations[name] = resolved
            if resolved is not annotation and not isinstance(resolved, UnresolvedAnnotation):
                self.changed_annotations[name] = resolved
        if docstring is None and isinstance(function, functools.partial) and "__doc__" in vars(function):
            docstring = inspect.getdoc(function)
        self.docstring = docstring
        """Replaces the one of the body."""
        self.name: str = options.get("name") or _name(function, body)
        self.texts = _texts(body, options, docstring)
        kinds: tuple[Any, ...] = (body,) if inspect.isroutine(body) else (body, body.__call__)
        self.is_coroutine = any(map(inspect.iscoroutinefunction, kinds))
        is_async_stream = any(map(inspect.isasyncgenfunction, kinds))
        self.is_async = self.is_coroutine or is_async_stream
        self.is_stream = is_async_stream or any(map(inspect.isgeneratorfunction, kinds))
        self.changes: ArgumentChanges | None = None
        self.renames = _NOTHING
        """Own name of an argument -> its new name."""
        if options.get("arguments"):
            aliases = _aliases(signature, self.annotations)
            self.changes = ArgumentChanges.parse(options["arguments"]).by_own_names(aliases)
            from ahvn_tools.sources.untyped_arguments import property_names

            names_of_schema = property_names(options.get("input_schema"))
            self.renames = self.changes.renames(list(dict.fromkeys((*signature.parameters, *names_of_schema))))


def build_template(
    function: Any,
    options: Mapping[str, Any],
    *,
    namespace: Namespace | None = None,
    definition_namespace: Namespace | None = None,
    docstring: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    bindings: Mapping[str, Binding] | None = None,
    more_bindings: Mapping[str, Binding] = _NOTHING,
    source: str | None = None,
    source_function: str | None = None,
    has_types: bool = True,
) -> tuple[ToolTemplate, Function]:
    """Return the template of a callable, and the body to call.

    `namespace` and `definition_namespace` resolve string annotations (see `annotation_namespace`), `annotations` are
    resolved already; `docstring` replaces the function's. `bindings` replace all those that the function and the
    options say, `more_bindings` those of their parameters. `source` and `source_function` are as in ToolTemplate.
    `has_types` is False if the option `input_schema` alone validates. Raises DefinitionError for an object that cannot
    be a tool.
    """
    options = validate_options({**declared_options(function), **options})
    read = _ToolFunction(
        function,
        options,
        namespace=namespace,
        definition_namespace=definition_namespace,
        annotations=annotations,
        docstring=docstring,
    )
    if bindings is None:
        bindings = {**_bindings(read), **more_bindings}
    settings = ToolSettings.of(options)
    injection = None if FASTMCP_PACKAGES.isdisjoint(sys.modules) else _inject(read, bindings, settings)
    inputs = _inputs(read, injection, bindings, has_types=has_types)
    if options.get("examples"):
        validate_examples(read.name, options["examples"], inputs)
    if settings.ship:
        refuse_unused_ship(read.name, settings.ship, bindings)
    changes = {"arguments": read.changes.by_name} if read.changes else {}
    template = ToolTemplate(
        name=read.name,
        texts=read.texts,
        inputs=inputs,
        output=Output.of(read.name, read.annotations["return"], options, is_stream=read.is_stream),
        is_async=read.is_async or injection is not None,
        is_coroutine=read.is_coroutine or injection is not None,
        settings=settings,
        **to_definition_fields(options),
        is_external=options.get("external") is True,
        is_movable=injection is None,
        takes_private_names=getattr(read.body, "takes_private_names", False) is True,
        source=source,
        source_function=source_function,
        bindings=bindings,
        options={**options, "name": read.name, **changes},
        rebuild=build_template,
        rebuild_arguments={
            "docstring": read.docstring,
            "annotations": read.changed_annotations,
            "source": source,
            "source_function": source_function,
            "has_types": has_types,
        },
    )
    return template, injection or read.body


def _inject(read: _ToolFunction, bindings: Mapping[str, Binding], settings: ToolSettings) -> InjectedBody | None:
    """Return the body that lets FastMCP inject arguments; None if it injects none."""
    fixed = [name for name, binding in _by_own_names(read, bindings).items() if binding.is_constant]
    uses_thread = settings.run_in_thread and not read.is_async
    injection = wrap_injected_function(
        read.name, read.body, read.signature, read.annotations, fixed, uses_thread=uses_thread
    )
    if injection is None:
        return None
    head = f"{read.name!r} has parameters that FastMCP injects,"
    if read.options.get("isolation") is not None:
        raise DefinitionError(f"{head} which cannot be sent to another process; remove isolation.")
    for parameter in injection.visible_signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and read.options.get("include_var_keyword"):
            raise DefinitionError(f"{head} which a caller could set in {parameter.name!r}; remove include_var_keyword.")
    return injection


def _by_own_names(read: _ToolFunction, bindings: Mapping[str, Binding]) -> Mapping[str, Binding]:
    return rename_bindings(bindings, {new: own for own, new in read.renames.items()}) if read.renames else bindings


def _inputs(
    read: _ToolFunction, injection: InjectedBody | None, bindings: Mapping[str, Binding], *, has_types: bool
) -> Inputs:
    """Return the input side."""
    signature = read.signature if injection is None else injection.visible_signature
    untyped: UntypedArguments | None = None
    if read.options.get("input_schema") is not None or not has_types:
        from ahvn_tools.sources.untyped_arguments import split_signature  # few tools have a schema of their own

        untyped, signature = split_signature(
            read.name,
            read.body,
            signature,
            read.annotations,
            bindings=_by_own_names(read, bindings),
            options=read.options,
            has_types=has_types,
            is_injected=injection is not None,
        )
    if read.changes is None:
        return _build_inputs(read, signature, read.annotations, bindings, untyped)
    name, changes = read.name, read.changes
    signature, annotations = rename_parameters(signature, read.annotations, read.renames)
    plain = _build_inputs(read, signature, annotations, bindings, untyped)
    defaults = convert_defaults(name, plain, changes)
    signature = change_defaults(signature, changes.by_new_name(), defaults)
    return _build_inputs(read, signature, annotations, bindings, untyped)


def _build_inputs(
    read: _ToolFunction,
    signature: inspect.Signature,
    annotations: Mapping[str, Any],
    bindings: Mapping[str, Any],
    untyped: UntypedArguments | None,
) -> Inputs:
    """Return the input side of parameters and annotations that have their new names."""
    options, renames, changes = read.options, read.renames, read.changes
    coerces = options.get("coerce_numbers_to_str") is not False
    unset = signature.parameters.keys() if untyped is not None and untyped.are_all else ()
    inputs: Inputs = FunctionInputs(
        read.name,
        signature,
        annotations,
        bound=frozenset(bindings).union(unset),
        texts=read.texts,
        body_names={new: own for own, new in renames.items()} if renames else _NOTHING,
        changes=changes.by_new_name() if changes else _NOTHING,
        include_var_positional=options.get("include_var_positional", False),
        include_var_keyword=options.get("include_var_keyword", False),
        coerce_numbers_to_str=coerces,
        converts=options.get("convert") is not False,
    )
    for new_name in renames.values():
        if new_name in inputs.parameters and inputs.parameters[new_name].property_name != new_name:
            raise DefinitionError(f"{new_name!r} of {read.name!r} has an alias, which is its name: change the alias.")
    if untyped is not None:
        from ahvn_tools.schema.jsonschema import ExplicitSchemaInputs

        schema, changes = options["input_schema"], changes or ArgumentChanges()
        inputs = ExplicitSchemaInputs(inputs, schema, untyped, coerce_numbers_to_str=coerces, changes=changes)
    if bindings:
        refuse_unknown_bindings(read.name, bindings, inputs.parameters)
    return inputs


def _unwrap(function: Any) -> tuple[Function, dict[str, Any]]:
    """Return the callable inside a staticmethod or partial, and the arguments of the partial by parameter."""
    if isinstance(function, InjectedBody):
        function = function.function
    if isinstance(function, staticmethod):
        function = function.__func__
    if not isinstance(function, functools.partial):
        return function, {}
    if isinstance(function.func, type):
        _refuse_uncallable(function.func)
    try:
        fixed = signature_of(function.func).bind_partial(*function.args, **function.keywords)
    except TypeError as error:
        raise DefinitionError(f"The partial of {_name(function, function.func)!r} cannot be called: {error}.") from None
    return function.func, dict(fixed.arguments)


def _with_unpacked_names(signature: inspect.Signature, names: Namespace) -> inspect.Signature:
    """Return the signature with a parameter for each member of a TypedDict in `**options: Unpack[TypedDict]`."""
    *others, last = signature.parameters.values() or (None,)
    if last is None or last.kind is not last.VAR_KEYWORD or last.annotation in (last.empty, Any):
        return signature
    annotation = try_resolve(last.annotation, names)
    members: Any = get_args(annotation)[0] if get_origin(annotation) in _UNPACKS else None
    if not typing_extensions.is_typeddict(members):
        return signature
    for name, member in get_type_hints(members, include_extras=True).items():
        is_required = name in members.__required_keys__
        while (mark := get_origin(member)) in (Required, NotRequired):
            is_required, member = mark is Required, get_args(member)[0]  # noqa: PLW2901  # the type inside
        default = last.empty if is_required else ABSENT
        others.append(inspect.Parameter(name, last.KEYWORD_ONLY, annotation=member, default=default))
    return signature.replace(parameters=others)


def _callable_signature(body: Any, bound: set[str]) -> inspect.Signature:
    """Return the signature of a body. Raises DefinitionError for what cannot be called as a tool."""
    _refuse_uncallable(body)
    signature = signature_of(body)
    first, *others = signature.parameters.values() or (None,)
    if first is None:
        return signature
    if hasattr(body, "dispatch") and hasattr(body, "registry"):  # a singledispatch function reads its first argument
        return signature.replace(parameters=[first.replace(kind=first.POSITIONAL_ONLY), *others])
    if first.name in {"self", "cls"} - bound and first.annotation is first.empty and inspect.isfunction(body):
        owner = body.__qualname__.rpartition(".")[0]
        if owner and not owner.endswith("<locals>"):
            raise DefinitionError(
                f"{body.__qualname__!r} is an unbound method, so its {first.name!r} would be visible to the model; "
                "use the method of an instance, or make the class a ToolRegistry."
            )
    return signature


def _refuse_uncallable(body: Any) -> None:
    if isinstance(body, type):
        raise DefinitionError(
            f"{body.__name__!r} is a class; use a function that creates an instance, an instance with __call__, or a "
            "method."
        )
    if isinstance(getattr(body, "definition", None), ToolDefinition):
        raise DefinitionError(
            f"{body.definition.name!r} is already a tool; use its `function` to create another one, or its `clone()`."
        )
    if isinstance(body, classmethod) or not callable(body):
        raise DefinitionError(
            f"A {type(body).__name__} cannot be a tool; use a function, or access the method on its class or instance."
        )


def _aliases(signature: inspect.Signature, resolved: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters by their aliases."""
    found: dict[str, str] = {}
    fields = loaded_classes("pydantic.fields", "FieldInfo")
    for name, parameter in signature.parameters.items():
        for mark in (*unwrap_annotation(resolved[name])[1], parameter.default):
            if isinstance(mark, fields):
                found |= {alias: name for alias in (mark.validation_alias, mark.alias) if isinstance(alias, str)}
    return {alias: name for alias, name in found.items() if alias not in signature.parameters}


def _bindings(read: _ToolFunction) -> dict[str, Binding]:
    """Return the bindings by the new names: constants, own defaults, the ToolContext, LangChain's, and the options'."""
    parameters, options, renames = read.signature.parameters, read.options, read.renames
    bindings: dict[str, Binding] = {}
    secret = set[str]()
    if options.get("input_schema") is not None:
        from ahvn_tools.sources.untyped_arguments import secret_property_names

        secret = secret_property_names(options["input_schema"])
    for name, annotation in read.annotations.items():
        if type(annotation) is not type or annotation.__module__ != "builtins":
            secret |= {name} if is_secret_annotation(annotation) else set()
            if name in parameters and (own := _own_binding(parameters[name], annotation, is_secret=name in secret)):
                bindings[name] = own
        if name in read.constants:
            bindings[name] = Binding.constant(name, read.constants[name], is_secret=name in secret)
    if renames:
        bindings = rename_bindings(bindings, renames)
        secret = {renames.get(name, name) for name in secret}
    for name, key in dict(options.get("binds") or {}).items():
        bindings[name] = Binding(parameter=name, key=StateKey.parse(key), is_secret=name in secret)
    return bindings


def _own_binding(parameter: inspect.Parameter, annotation: Any, *, is_secret: bool) -> Binding | None:
    """Return the binding of a parameter that its annotation hides from callers."""
    name = parameter.name
    if _is_skipped(annotation) and parameter.default is not parameter.empty:
        return Binding(parameter=name, is_secret=is_secret)
    if is_context_annotation(annotation):
        return Binding(parameter=name, resolver=resolve_context, takes_state=True)
    if is_config(annotation):
        return Binding(parameter=name, key=ConfigKey.from_name(name))
    return Binding(parameter=name, key=InjectedKey.of(name, annotation)) if is_injected(annotation) else None


def _is_skipped(annotation: Any) -> bool:
    """Return whether pydantic leaves a parameter out of JSON Schemas: it is marked SkipJsonSchema."""
    if get_origin(annotation) is not Annotated:
        return False
    skip = loaded_classes("pydantic.json_schema", "SkipJsonSchema")
    return any(isinstance(mark, skip) for mark in get_args(annotation)[1:])


def _texts(body: Function, options: Mapping[str, Any], docstring: str | None) -> Texts:
    of_call = None if inspect.isroutine(body) else inspect.getdoc(type(body).__call__)
    own = docstring if docstring is not None else inspect.getdoc(body if inspect.isroutine(body) else type(body))
    separator, sections = options.get("description_separator"), options.get("docstring_sections")
    return Texts(
        explicit_description=options.get("description"),
        docstring=own or of_call,
        parameters_docstring=of_call,
        include_long_description=options.get("include_long_description", True),
        description_separator=BLANK_LINE if separator is None else separator,
        parse_docstring=options.get("parse_docstring", True),
        docstring_sections=None if sections is None else tuple(sections),
    )


def _name(function: Any, body: Any) -> str:
    name = getattr(function, "__name__", None) or getattr(body, "__name__", None) or type(body).__name__
    if name == "<lambda>":
        raise DefinitionError("A lambda has no name that a model could call; set one: name='…'.")
    return str(name)
