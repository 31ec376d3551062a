"""Functions as a source: every kind of callable becomes a template and a body."""

from __future__ import annotations

import functools
import inspect
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
from ahvn_tools.redaction import is_secret_annotation
from ahvn_tools.schema.annotations import (
    Namespace,
    UnresolvedAnnotation,
    annotation_namespace,
    find_unsupported_typed_dict,
    try_resolve,
    unwrap_annotation,
)
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.docstring import BLANK_LINE
from ahvn_tools.schema.function import ABSENT, FunctionInputs, signature_of
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.schema.output import Output
from ahvn_tools.schema.output_options import RAW, make_output
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
    hidden_bindings,
    rename_bindings,
    rename_parameters,
)
from ahvn_tools.sources.injection import InjectedBody, wrap_injected_function
from ahvn_tools.sources.langchain_injection import InjectedKey, is_injected
from ahvn_tools.state import StateKey
from ahvn_tools.template import Texts, ToolTemplate, validate_examples

if TYPE_CHECKING:
    from ahvn_tools.schema.untyped import UntypedArguments

Function = Callable[..., Any]

_UNPACKS = (Unpack, typing_extensions.Unpack)

_NOTHING: Mapping[str, Any] = MappingProxyType({})
"""Shared by all tools, since most have neither renamed nor changed arguments."""


def build_template(
    function: Any,
    options: Mapping[str, Any],
    *,
    namespace: Namespace | None = None,
    definition_namespace: Namespace | None = None,
    docstring: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    bindings: Mapping[str, Binding] | None = None,
    source: str | None = None,
    source_function: str | None = None,
    has_types: bool = True,
) -> tuple[ToolTemplate, Function]:
    """Return the template of a callable, and the body to call.

    `namespace` and `definition_namespace` resolve string annotations (see `annotation_namespace`), `annotations` are
    resolved already; `docstring` replaces the function's, `bindings` those of the options; `source` and
    `source_function` are as in ToolTemplate. `has_types` is False if the option `input_schema` alone validates. Raises
    DefinitionError for an object that cannot be a tool.
    """
    options = validate_options(options)
    body, constants = _unwrap(function)
    signature = _callable_signature(body, constants.keys() | dict(options.get("binds") or {}).keys())
    names, known = annotation_namespace(body, namespace, definition_namespace), annotations or {}
    signature = _with_unpacked_names(signature, names)
    raw = {p.name: p.annotation for p in signature.parameters.values()} | {"return": signature.return_annotation}
    resolved = {key: known[key] if key in known else try_resolve(annotation, names) for key, annotation in raw.items()}
    name = options.get("name") or _name(function, body)
    changes = ArgumentChanges.parse(options.get("arguments"))
    changes = changes.by_own_names(_aliases(signature, resolved)) if changes else changes
    renames = changes.renames(_argument_names(signature, options)) if changes else {}
    if bindings is None:
        bindings = _bindings(signature.parameters, constants, options, resolved, renames)
    if docstring is None and isinstance(function, functools.partial) and "__doc__" in vars(function):
        docstring = inspect.getdoc(function)
    texts = _texts(body, options, docstring)
    own_names = {new: own for own, new in renames.items()}
    own_bindings = {own_names.get(key, key): binding for key, binding in bindings.items()}
    fixed = [key for key, binding in own_bindings.items() if binding.is_constant]
    is_coroutine = _is_true_of(inspect.iscoroutinefunction, body)
    is_async = is_coroutine or _is_true_of(inspect.isasyncgenfunction, body)
    uses_thread = options.get("run_in_thread", True) and not is_async
    injection = wrap_injected_function(name, body, signature, resolved, fixed, uses_thread=uses_thread)
    if injection is not None:
        signature = injection.visible_signature
        _refuse_injection_conflict(name, signature, options)
    untyped: UntypedArguments | None = None
    typed_signature = signature
    if options.get("input_schema") is not None or not has_types:
        from ahvn_tools.sources.untyped_arguments import split_signature  # few tools have a schema of their own

        untyped, typed_signature = split_signature(
            name,
            body,
            signature,
            resolved,
            bindings=own_bindings,
            options=options,
            has_types=has_types,
            is_injected=injection is not None,
        )
    build_inputs = functools.partial(_build_inputs, texts=texts, options=options, untyped=untyped)
    inputs, bindings = _inputs(
        name,
        typed_signature,
        resolved,
        bindings,
        changes=changes,
        renames=renames,
        build=build_inputs,
    )
    validate_examples(name, options.get("examples"), inputs)
    settings = ToolSettings.of(options)
    refuse_unused_ship(name, settings.ship, bindings)
    template = ToolTemplate(
        name=name,
        texts=texts,
        inputs=inputs,
        output=_output(name, body, resolved, options),
        is_async=is_async or injection is not None,
        is_coroutine=is_coroutine or injection is not None,
        **to_definition_fields(options),
        settings=settings,
        is_movable=injection is None,
        takes_private_names=getattr(body, "takes_private_names", False) is True,
        source=source,
        source_function=source_function,
        bindings=bindings,
        options={**options, "name": name, **({"arguments": changes.without_hidden_defaults()} if changes else {})},
        rebuild=build_template,
        rebuild_arguments={
            "docstring": docstring,
            "annotations": _changed_annotations(raw, resolved),
            "source": source,
            "source_function": source_function,
            "has_types": has_types,
        },
    )
    return template, injection or body


def _inputs(
    name: str,
    signature: inspect.Signature,
    resolved: Mapping[str, Any],
    bindings: Mapping[str, Binding],
    *,
    changes: ArgumentChanges,
    renames: Mapping[str, str],
    build: Callable[..., Inputs],
) -> tuple[Inputs, Mapping[str, Binding]]:
    """Return the input side, and the bindings with those of the arguments that the changes hide."""
    if not changes:
        return build(name, signature, resolved, bindings), bindings
    build = functools.partial(build, changes=changes, renames=renames)
    signature, resolved = rename_parameters(signature, resolved, renames)
    hidden = dict.fromkeys(changes.hidden_names())
    plain = build(name, signature, resolved, {**hidden, **bindings})
    defaults = convert_defaults(name, plain, changes)
    bindings = {**hidden_bindings(name, plain, changes, defaults, known=bindings), **bindings}
    signature = change_defaults(signature, changes.by_new_name(), defaults)
    return build(name, signature, resolved, bindings), bindings


def _build_inputs(
    name: str,
    signature: inspect.Signature,
    resolved: Mapping[str, Any],
    bindings: Mapping[str, Any],
    *,
    texts: Texts,
    options: Mapping[str, Any],
    untyped: UntypedArguments | None,
    changes: ArgumentChanges = ArgumentChanges(),  # noqa: B008  # it is frozen
    renames: Mapping[str, str] = MappingProxyType({}),
) -> Inputs:
    inputs: Inputs
    unset = signature.parameters.keys() if untyped is not None and untyped.are_all else ()
    inputs = FunctionInputs(
        name,
        signature,
        resolved,
        bound=frozenset(bindings).union(unset),
        descriptions=functools.partial(_renamed_descriptions, texts, renames) if renames else texts.of_parameters,
        body_names={new: own for own, new in renames.items()} or _NOTHING,
        changes=changes.by_new_name() or _NOTHING,
        include_var_positional=options.get("include_var_positional", False),
        include_var_keyword=options.get("include_var_keyword", False),
        coerce_numbers_to_str=options.get("coerce_numbers_to_str") is not False,
        converts=options.get("convert") is not False,
    )
    for new_name in renames.values():
        if new_name in inputs.parameters and inputs.parameters[new_name].property_name != new_name:
            raise DefinitionError(f"{new_name!r} of {name!r} has an alias, which is its name: change the alias.")
    if untyped is not None:
        from ahvn_tools.schema.explicit import ExplicitSchemaInputs

        schema, coerces = options["input_schema"], options.get("coerce_numbers_to_str") is not False
        inputs = ExplicitSchemaInputs(inputs, schema, untyped, coerce_numbers_to_str=coerces, changes=changes)
    refuse_unknown_bindings(bindings, inputs.parameters)
    return inputs


def _renamed_descriptions(texts: Texts, renames: Mapping[str, str]) -> dict[str, str]:
    return {renames.get(name, name): text for name, text in texts.of_parameters().items()}


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
    signature = _with_positional_dispatch(body, signature_of(body))
    _refuse_unbound_method(body, signature, bound)
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


def _refuse_injection_conflict(name: str, signature: inspect.Signature, options: Mapping[str, Any]) -> None:
    """Refuse options that do not work for a function with parameters that FastMCP injects."""
    head = f"{name!r} has parameters that FastMCP injects,"
    if options.get("isolation") is not None:
        raise DefinitionError(f"{head} which cannot be sent to another process; remove isolation.")
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and options.get("include_var_keyword"):
            raise DefinitionError(f"{head} which a caller could set in {parameter.name!r}; remove include_var_keyword.")


def _with_positional_dispatch(body: Any, signature: inspect.Signature) -> inspect.Signature:
    """Return the signature, with a positional-only first parameter for a singledispatch function."""
    first, *others = signature.parameters.values() or (None,)
    if first is None or not (hasattr(body, "dispatch") and hasattr(body, "registry")):
        return signature
    return signature.replace(parameters=[first.replace(kind=first.POSITIONAL_ONLY), *others])


def _refuse_unbound_method(body: Any, signature: inspect.Signature, bound: set[str]) -> None:
    owner = getattr(body, "__qualname__", "").rpartition(".")[0]
    first = next(iter(signature.parameters.values()), None)
    if first is None or not inspect.isfunction(body) or not owner or owner.endswith("<locals>"):
        return
    if first.name in {"self", "cls"} - bound and first.annotation is first.empty:
        raise DefinitionError(
            f"{body.__qualname__!r} is an unbound method, so its {first.name!r} would be visible to the model; "
            "use the method of an instance, or make the class a ToolRegistry."
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


def _argument_names(signature: inspect.Signature, options: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters, and of the properties that an explicit schema has in addition."""
    from ahvn_tools.sources.untyped_arguments import property_names

    return list(dict.fromkeys((*signature.parameters, *property_names(options.get("input_schema")))))


def _changed_annotations(raw: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resolved annotations that differ from the signature's: rebuilding the tool needs them."""
    return {
        name: annotation
        for name, annotation in resolved.items()
        if annotation is not raw[name] and not isinstance(annotation, UnresolvedAnnotation)
    }


def _bindings(
    parameters: Mapping[str, inspect.Parameter],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
    resolved: Mapping[str, Any],
    renames: Mapping[str, str],
) -> dict[str, Binding]:
    """Return the bindings by the new names: constants, own defaults, the ToolContext, LangChain's, and the options'."""
    secret = {name for name, annotation in resolved.items() if is_secret_annotation(annotation)}
    if options.get("input_schema") is not None:
        from ahvn_tools.sources.untyped_arguments import secret_property_names

        secret |= secret_property_names(options["input_schema"])
    bindings = {name: Binding.constant(name, value, is_secret=name in secret) for name, value in constants.items()}
    for name, annotation in resolved.items():
        if name not in parameters or name in constants:
            continue
        if _is_skipped(annotation) and parameters[name].default is not inspect.Parameter.empty:
            bindings[name] = Binding(parameter=name, is_secret=name in secret)
        elif is_context_annotation(annotation):
            bindings[name] = Binding(parameter=name, resolver=resolve_context, takes_state=True)
        elif is_injected(annotation):
            bindings[name] = Binding(parameter=name, key=InjectedKey.of(name, annotation))
    if renames:
        bindings = rename_bindings(bindings, renames)
        secret = {renames.get(name, name) for name in secret}
    for name, key in dict(options.get("binds") or {}).items():
        bindings[name] = Binding(parameter=name, key=StateKey.parse(key), is_secret=name in secret)
    return bindings


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


def _output(name: str, body: Function, resolved: Mapping[str, Any], options: Mapping[str, Any]) -> Output:
    annotation = resolved["return"]
    is_described = "output_schema" in options or options.get("output") == RAW
    if not is_described and (typed_dict := find_unsupported_typed_dict(annotation)) is not None:
        raise DefinitionError(
            f"{name!r} returns {typed_dict!r}, a `typing.TypedDict`, which pydantic supports from Python 3.12 on. "
            "Import TypedDict from typing_extensions instead, or pass output_schema."
        )
    is_stream = _is_true_of(inspect.isgeneratorfunction, body) or _is_true_of(inspect.isasyncgenfunction, body)
    return make_output(annotation, options, is_stream=is_stream)


def _name(function: Any, body: Any) -> str:
    name = getattr(function, "__name__", None) or getattr(body, "__name__", None) or type(body).__name__
    if name == "<lambda>":
        raise DefinitionError("A lambda has no name that a model could call; set one: name='…'.")
    return str(name)


def _is_true_of(test: Callable[[Any], bool], body: Any) -> bool:
    return test(body) or (not inspect.isroutine(body) and test(body.__call__))
