"""Functions as a source: every kind of callable becomes a recipe and a body."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import PydanticUserError

from ahvn_tools.binding import Binding
from ahvn_tools.context import is_context_annotation, resolve_context
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.redaction import is_secret_annotation
from ahvn_tools.schema.annotations import Namespace, UnresolvedAnnotation, annotation_namespace, try_resolve
from ahvn_tools.schema.function import FunctionInputs, signature_of
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.schema.output import Output
from ahvn_tools.sources.injection import wrap_injected_function
from ahvn_tools.sources.options import to_wire_annotations, to_wire_icons, validate_options
from ahvn_tools.state import StateKey
from ahvn_tools.template import Texts, ToolTemplate

Function = Callable[..., Any]


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
) -> tuple[ToolTemplate, Function]:
    """Return the recipe of a callable, and the body to call.

    `namespace` and `scope` hold names for string annotations as in `names_of`, `annotations` what is resolved already;
    `docstring` stands in for the function's, `bindings` for those of the options. Raises DefinitionError for what
    cannot be a tool.
    """
    validate_options(options)
    body, constants = _unwrap(function)
    _refuse_uncallable(body)
    signature = _with_positional_dispatch(body, signature_of(body))
    _refuse_unbound_method(body, signature, constants.keys() | dict(options.get("binds") or {}).keys())
    raw = {p.name: p.annotation for p in signature.parameters.values()} | {"return": signature.return_annotation}
    resolved = _resolve_annotations(raw, annotation_namespace(body, namespace, definition_namespace), annotations or {})
    name = options.get("name") or _name(function, body)
    if bindings is None:
        bindings = _bindings(constants, options, resolved)
    if docstring is None and isinstance(function, functools.partial) and "__doc__" in vars(function):
        docstring = inspect.getdoc(function)
    texts = _texts(body, options, docstring)
    fixed = [binding.parameter for binding in bindings.values() if binding.is_constant]
    run_in_thread = options.get("run_in_thread", True)
    is_async = _is_async(body)
    injection = wrap_injected_function(
        name, body, signature, resolved, fixed, is_async=is_async, run_in_thread=run_in_thread
    )
    if injection is not None:
        _refuse_isolation(name, options)
        signature = injection.visible_signature
        _refuse_var_keyword(name, signature, options)
    inputs = _inputs(name, signature, resolved, bindings=bindings, texts=texts, options=options)
    made = ToolTemplate(
        name=name,
        texts=texts,
        inputs=inputs,
        output=_output(body, resolved, options),
        is_async=is_async or injection is not None,
        is_coroutine=_is_true_of(inspect.iscoroutinefunction, body) or injection is not None,
        title=options.get("title"),
        tags=frozenset(options.get("tags") or ()),
        annotations=to_wire_annotations(options.get("annotations")),
        meta=options.get("meta"),
        version=options.get("version"),
        icons=to_wire_icons(options.get("icons")),
        examples=options.get("examples"),
        timeout=options.get("timeout"),
        run_in_thread=run_in_thread,
        isolation=options.get("isolation"),
        source=source,
        bindings=bindings,
        options={**options, "name": name},
        rebuild=build_template,
        rebuild_arguments={
            "docstring": docstring,
            "annotations": _changed_annotations(raw, resolved),
            "source": source,
        },
    )
    return made, injection or body


def _inputs(
    name: str,
    signature: inspect.Signature,
    resolved: Mapping[str, Any],
    *,
    bindings: Mapping[str, Binding],
    texts: Texts,
    options: Mapping[str, Any],
) -> Inputs:
    try:
        inputs = FunctionInputs(
            name,
            signature,
            resolved,
            bound=frozenset(bindings),
            descriptions=lambda: texts.parameters,
            include_var_positional=options.get("include_var_positional", False),
            include_var_keyword=options.get("include_var_keyword", False),
        )
    except PydanticUserError as error:
        raise DefinitionError(
            f"{name!r} takes a type that is not whole yet; define all that it names, or call its `model_rebuild()`."
        ) from error
    _refuse_unknown_bindings(bindings, inputs)
    if options.get("input_schema") is None:
        return inputs
    from ahvn_tools.schema.explicit import ExplicitSchemaInputs

    return ExplicitSchemaInputs(inputs, options["input_schema"])


def _unwrap(function: Any) -> tuple[Function, dict[str, Any]]:
    """Return the callable inside staticmethods and partials, and what the partials fix, by parameter."""
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


def _refuse_uncallable(body: Any) -> None:
    if isinstance(body, type):
        raise DefinitionError(
            f"{body.__name__!r} is a class; pass a function that makes one, an instance with __call__, or a method."
        )
    if isinstance(getattr(body, "definition", None), ToolDefinition):
        raise DefinitionError(
            f"{body.definition.name!r} is a tool already; pass its `function` to make another tool of it, "
            "or take a `clone()`."
        )
    if isinstance(body, classmethod) or not callable(body):
        raise DefinitionError(
            f"A {type(body).__name__} cannot be a tool; pass a function, or the method as the class or instance has it."
        )


def _refuse_var_keyword(name: str, signature: inspect.Signature, options: Mapping[str, Any]) -> None:
    """Refuse to show `**kwargs` beside injected parameters: their names could be among the given ones."""
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and options.get("include_var_keyword"):
            raise DefinitionError(
                f"{name!r} has parameters that FastMCP injects, which a caller could name in {parameter.name!r}; "
                "leave out include_var_keyword."
            )


def _refuse_isolation(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a process of its own for what FastMCP injects into: the request that it belongs to stays here."""
    if options.get("isolation") is not None:
        raise DefinitionError(
            f"{name!r} has parameters that FastMCP injects, which cannot go to another process; leave out isolation."
        )


def _with_positional_dispatch(body: Any, signature: inspect.Signature) -> inspect.Signature:
    """Return the signature; the first argument of a singledispatch function goes by position: it is dispatched on."""
    first, *others = signature.parameters.values() or (None,)
    if first is None or not (hasattr(body, "dispatch") and hasattr(body, "registry")):
        return signature
    return signature.replace(parameters=[first.replace(kind=first.POSITIONAL_ONLY), *others])


def _refuse_unbound_method(body: Any, signature: inspect.Signature, bound: set[str]) -> None:
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.name in bound or not _is_method_of_a_class(body):
        return
    if first.name in ("self", "cls") and first.annotation is first.empty:
        raise DefinitionError(
            f"{body.__qualname__!r} is an unbound method and its {first.name!r} would be an argument of the model; "
            "pass the method of an instance, or make the class a ToolRegistry."
        )


def _is_method_of_a_class(body: Any) -> bool:
    owner = getattr(body, "__qualname__", "").rpartition(".")[0]
    return inspect.isfunction(body) and bool(owner) and not owner.endswith("<locals>")


def _resolve_annotations(raw: Mapping[str, Any], names: Namespace, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return every annotation resolved; an Unresolved where that fails."""
    return {name: known[name] if name in known else try_resolve(annotation, names) for name, annotation in raw.items()}


def _changed_annotations(raw: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resolved annotations that are not what the signature says: no one else could resolve them again."""
    return {
        name: annotation
        for name, annotation in resolved.items()
        if annotation is not raw[name] and not isinstance(annotation, UnresolvedAnnotation)
    }


def _bindings(
    constants: Mapping[str, Any], options: Mapping[str, Any], resolved: Mapping[str, Any]
) -> dict[str, Binding]:
    secret = {name for name, annotation in resolved.items() if is_secret_annotation(annotation)}
    bindings = {name: Binding.constant(name, value, is_secret=name in secret) for name, value in constants.items()}
    for name, annotation in resolved.items():
        if name != "return" and name not in constants and is_context_annotation(annotation):
            bindings[name] = Binding(parameter=name, resolver=resolve_context, takes_state=True)
    for name, key in dict(options.get("binds") or {}).items():
        bindings[name] = Binding(parameter=name, key=StateKey.parse(key), is_secret=name in secret)
    return bindings


def _refuse_unknown_bindings(bindings: Mapping[str, Binding], inputs: Inputs) -> None:
    for name in bindings:
        if name not in inputs.parameters:
            raise DefinitionError(
                f"binds names {name!r}, which is no parameter. {near_misses(name, inputs.parameters)}"
            )


def _texts(body: Function, options: Mapping[str, Any], docstring: str | None) -> Texts:
    called = None if inspect.isroutine(body) else type(body).__call__
    own = docstring if docstring is not None else inspect.getdoc(body if called is None else type(body))
    return Texts(
        options.get("description"),
        docstring=own or (None if called is None else inspect.getdoc(called)),
        parameters=None if called is None else inspect.getdoc(called),
        include_long=options.get("include_long_description", True),
        parse_docstring=options.get("parse_docstring", True),
    )


def _output(body: Function, resolved: Mapping[str, Any], options: Mapping[str, Any]) -> Output:
    annotation = resolved["return"]
    if isinstance(annotation, UnresolvedAnnotation):
        annotation = inspect.Signature.empty
    is_stream = _is_true_of(inspect.isgeneratorfunction, body) or _is_true_of(inspect.isasyncgenfunction, body)
    return Output(annotation, schema=options.get("output_schema"), is_stream=is_stream)


def _name(function: Any, body: Any) -> str:
    name = getattr(function, "__name__", None) or getattr(body, "__name__", None) or type(body).__name__
    if name == "<lambda>":
        raise DefinitionError("A lambda has no name for the model to call; give one: name='…'.")
    return str(name)


def _is_async(body: Any) -> bool:
    return _is_true_of(inspect.iscoroutinefunction, body) or _is_true_of(inspect.isasyncgenfunction, body)


def _is_true_of(test: Callable[[Any], bool], body: Any) -> bool:
    return test(body) or (not inspect.isroutine(body) and test(body.__call__))
