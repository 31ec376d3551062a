"""The decorator `@reg_toolspec`, and ToolRegistry: a mixin that makes ToolSpecs from marked methods."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, Unpack, overload

from ahvn_tools.errors import DefinitionError, ToolLookupError, near_misses
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.schema.annotations import (
    Namespace,
    annotation_namespace,
    substitute_annotations,
    type_arguments,
)
from ahvn_tools.settings import ToolOptions, validate_options
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.spec import ToolSpec, validate_spec_class

Method = TypeVar("Method", bound="Callable[..., Any] | classmethod[Any, ..., Any] | staticmethod[..., Any]")

ArgumentKind = Literal["path", "command", "git", "code", "sql", "text"]
"""What the texts of a parameter are: `"git"` are the arguments of a git command, and `"text"` is all else."""

_MARK = "_is_toolspec"
_ARGUMENTS = "_toolspec_args"
_OPTIONS = "_toolspec_kwargs"
_SPEC_CLASS = "spec_class"


@overload
def reg_toolspec(method: Method, /) -> Method: ...
@overload
def reg_toolspec(
    *, spec_class: type[ToolSpec] | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Method], Method]: ...
def reg_toolspec(
    method: Any = None, /, *, spec_class: type[ToolSpec] | None = None, **options: Unpack[ToolOptions]
) -> Any:
    """Mark a method as a tool of its ToolRegistry; options as on `ToolSpec.from_function`. The method stays as it is.

    A method that overrides a tool has the options of that, too; its own have priority.
    `spec_class`, a subclass of ToolSpec, replaces that of the registry. Raises DefinitionError for an unknown option.
    """
    marked = dict(validate_options(options))
    if spec_class is not None:
        marked[_SPEC_CLASS] = validate_spec_class(spec_class)

    def mark(method: Any) -> Any:
        if not isinstance(method, _DESCRIPTORS):
            raise DefinitionError(
                f"@reg_toolspec is for methods, classmethods and staticmethods, not for a {type(method).__name__}."
            )
        setattr(method, _MARK, True)  # for programs that look for marked methods themselves
        setattr(method, _ARGUMENTS, ())  # … and pass `*args, **kwargs` on
        setattr(method, _OPTIONS, marked)
        with contextlib.suppress(AttributeError):  # a pickled classmethod or staticmethod loses its own attributes
            setattr(getattr(method, "__func__", method), _OPTIONS, marked)
        return method

    return mark if method is None else mark(method)


@dataclass(frozen=True, kw_only=True)
class ToolMethod:
    """One tool of a class: the parts that all instances share."""

    method_name: str
    compiled: CompiledTool
    descriptor: Any
    """The class attribute: a function, a classmethod or a staticmethod."""
    injected_body: InjectedBody | None = None
    """The body if FastMCP injects into the method, without an instance; else None."""
    spec_class: type[ToolSpec] | None = None
    """The class of its specs; None: that of the registry."""

    def to_toolspec(self, instance: Any) -> ToolSpec:
        """Return a new spec for one instance."""
        body = self.descriptor.__get__(instance, type(instance))
        if self.injected_body is not None:
            body = self.injected_body.with_function(body)
        spec_class = self.spec_class or instance.spec_class
        return spec_class(self.compiled.template, body, compiled=self.compiled)


class ScannedTools(dict[str, ToolMethod]):
    """The tools of a class by tool name. A pickle has only the annotations of the methods: no compiled default."""

    def __reduce__(self) -> Any:
        """Pickle the resolved annotations by method name; the loaded class is scanned when it is first used."""
        return dict, ({m.method_name: m.compiled.template.rebuild_arguments["annotations"] for m in self.values()},)


class ToolRegistry:
    """Subclass it and mark methods with `@reg_toolspec`; each instance returns them as ToolSpecs bound to it.

    Tools are inherited, overridden and mixed in like methods; `method = None` in a subclass removes one.

    >>> class Shop(ToolRegistry):
    ...     def __init__(self, prices: dict[str, int]) -> None:
    ...         self.prices = prices
    ...
    ...     @reg_toolspec
    ...     def price(self, item: str) -> int:
    ...         '''Return the price of an item.'''
    ...         return self.prices[item]
    >>> tools = Shop({"tea": 3}).to_toolspecs()
    >>> tools["price"](item="tea")
    3
    """

    _tool_methods: ClassVar[ScannedTools | dict[str, Mapping[str, Any]] | None] = ScannedTools()
    """The tools of the class by tool name; None while its annotations contain names that are not defined yet, and
    annotations by method name in a class that was loaded from a pickle."""

    _annotation_locals: ClassVar[Namespace]
    """The locals of the defining frame that the annotations name, set together with `_tool_methods = None`."""

    spec_class: ClassVar[type[ToolSpec]] = ToolSpec
    """The class of the specs, ToolSpec or a subclass of it. A subclass of the registry may set another one."""

    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {}
    """What the texts of parameters are, by name, for rules about calls. Rules read the names of all others."""

    reading_calls: ClassVar[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {}
    """By the name of a method: whether a call with these arguments only reads, for tools that also write."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Scan the class. Raises DefinitionError for a method that cannot be a tool, and for two with the same name."""
        super().__init_subclass__(**kwargs)
        validate_spec_class(cls.spec_class)
        frame_locals = _parent_frame_namespace(cls)
        try:
            cls._tool_methods = _scan(cls, frame_locals)
        except DefinitionError as error:
            if not _is_resolvable_later(cls, error.reason or error.__cause__):
                raise
        else:
            if all(method.compiled.is_usable for method in cls._tool_methods.values()):
                return  # a type without a schema may be the class itself, which is incomplete
        words = _annotation_words(cls)
        cls._tool_methods = None
        cls._annotation_locals = {name: value for name, value in frame_locals.items() if name in words}

    @classmethod
    def marked_methods(cls) -> dict[str, dict[str, Any]]:
        """Return the options of each method that is a tool, by the name of the method: a fresh dict.

        An override has the options of the method that it overrides, and its own. No annotation is resolved.
        """
        removed = {name for name in _marked_names(cls) if vars(_owner(cls, name))[name] is None}
        return {name: _options(cls, name) for name in _marked_names(cls) if name not in removed}

    def to_toolspecs(self) -> dict[str, ToolSpec]:
        """Return new specs for this instance, by tool name; each call returns new ones, without bindings."""
        return {name: method.to_toolspec(self) for name, method in _tools(type(self)).items()}

    def list_toolspecs(self) -> list[str]:
        """Return the names of the tools: the keys of `to_toolspecs`, which a subclass may change."""
        return list(self.to_toolspecs())

    def toolspec(self, name: str) -> ToolSpec:
        """Return a new spec for one tool, by the name of the tool or the method.

        Raises ToolLookupError, with similar names.
        """
        specs = self.to_toolspecs()
        if name in specs:
            return specs[name]
        names = {name, *(tool for tool, method in _tools(type(self)).items() if method.method_name == name)}
        spec = next((spec for spec in specs.values() if spec.name in names), None)
        if spec is None:
            raise ToolLookupError(f"{type(self).__name__} has no tool {name!r}. {near_misses(name, specs)}")
        return spec


def _tools(cls: type[ToolRegistry]) -> Mapping[str, ToolMethod]:
    """Return the tools of a class; scan it now if it was not scanned when it was defined or loaded."""
    tools = vars(cls).get("_tool_methods")
    if not isinstance(tools, ScannedTools):
        tools = cls._tool_methods = _scan(cls, vars(cls).get("_annotation_locals", {}), tools or {})
    return tools


def _is_resolvable_later(cls: type, reason: BaseException | None) -> bool:
    """Return whether an annotation names a later definition of the module, or the class itself, still incomplete."""
    is_unfinished = getattr(reason, "code", None) == "class-not-fully-defined"
    return isinstance(reason, NameError) or is_unfinished or repr(cls) in str(reason)


def _scan(
    cls: type, parent_namespace: Namespace, resolved: Mapping[str, Mapping[str, Any]] = types.MappingProxyType({})
) -> ScannedTools:
    """Return the tools of a class; `resolved` are the annotations that are known, by method name."""
    tools = ScannedTools()
    for name in _marked_names(cls):
        descriptor = vars(_owner(cls, name))[name]
        if descriptor is None:
            continue
        method = _build_tool_method(cls, name, descriptor, parent_namespace, resolved.get(name, {}))
        tool_name = method.compiled.template.name
        if tool_name in tools:
            raise DefinitionError(
                f"{tools[tool_name].method_name!r} and {name!r} of {cls.__name__!r} have the same tool name "
                f"{tool_name!r}; rename one: @reg_toolspec(name='…')."
            )
        tools[tool_name] = method
    for name in (name for name, value in vars(cls).items() if value is None and name in tools):
        if (method_name := tools[name].method_name) not in (name, *vars(cls)):
            raise DefinitionError(
                f"`{name} = None` in {cls.__name__!r} removes no tool: the method of the tool {name!r} is "
                f"{method_name!r}. Write `{method_name} = None`."
            )
    return tools


def _build_tool_method(
    cls: type, name: str, descriptor: Any, parent_namespace: Namespace, resolved: Mapping[str, Any]
) -> ToolMethod:
    if not isinstance(descriptor, _DESCRIPTORS):
        raise DefinitionError(
            f"{cls.__name__}.{name} is marked as a tool, or overrides one, and is a {type(descriptor).__name__}: "
            f"write a method, or `{name} = None` to remove the tool."
        )
    function, options = _without_self(cls, name, descriptor), _options(cls, name)
    spec_class = options.pop(_SPEC_CLASS, None)
    origin, known = _inherited_annotations(cls, name, descriptor)
    namespace, definition_namespace = _annotation_namespaces(cls, name, function, parent_namespace)
    names = annotation_namespace(function, namespace, definition_namespace)
    substituted = substitute_annotations(function, type_arguments(cls, origin), known, names)
    try:
        template, body = function_source.build_template(
            function,
            {"name": name, **options},
            namespace=namespace,
            definition_namespace=definition_namespace,
            docstring=None if inspect.getdoc(function) else _inherited_docstring(cls, name),
            annotations={**known, **substituted, **resolved},
        )
    except DefinitionError as error:
        inherited = options.keys() - (_marked_options(descriptor) or {}).keys()
        if inherited and error.reason is None:
            error.args = (f"{cls.__name__}.{name}: {error} {_origins(cls, name, inherited)}",)
        raise
    return ToolMethod(
        method_name=name,
        compiled=CompiledTool(template, template.bindings),
        descriptor=descriptor,
        injected_body=body if isinstance(body, InjectedBody) else None,
        spec_class=spec_class,
    )


def _without_self(cls: type, name: str, descriptor: Any) -> Any:
    """Return a callable without the `self` or `cls` parameter, which refers to no real instance."""
    function = getattr(descriptor, "__func__", descriptor)
    if isinstance(descriptor, staticmethod):
        return function
    parameters = inspect.signature(function).parameters.values()
    if not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        raise DefinitionError(
            f"{cls.__name__}.{name} has no {'cls' if isinstance(descriptor, classmethod) else 'self'!r} parameter; "
            "add it as the first one, or make the method a @staticmethod."
        )
    return types.MethodType(function, _PLACEHOLDER_INSTANCE)


def _inherited_annotations(cls: type, name: str, descriptor: Any) -> tuple[type, Mapping[str, Any]]:
    """Return the base class that first made the method a tool, and its annotations as resolved there."""
    for base in reversed(cls.__mro__[1:]):
        methods = _tools(base) if vars(base).get("_tool_methods") else {}
        for method in methods.values():
            if method.method_name == name and method.descriptor is descriptor:
                return base, method.compiled.template.rebuild_arguments["annotations"]
    return _owner(cls, name), {}


def _annotation_namespaces(
    cls: type, name: str, function: Any, parent_namespace: Namespace
) -> tuple[Namespace, Namespace]:
    """Return the names known where a method is used, and where it was written (see `annotation_namespace`)."""
    owner = _owner(cls, name)
    bodies = [dict(vars(base)) for base in owner.__mro__]
    owner_name = {owner.__name__: owner}
    around = dict(parent_namespace if owner is cls else vars(owner).get("_annotation_locals", {}))
    namespace = ChainMap(owner_name, bodies[0], around, *bodies[1:], {cls.__name__: cls}, dict(parent_namespace))
    if function.__module__ != owner.__module__:
        return namespace, {}
    nested_types = {name: value for name, value in bodies[0].items() if isinstance(value, type)}
    return namespace, ChainMap(nested_types, owner_name, around)


def _marked_names(cls: type) -> list[str]:
    """Return the names of methods that the class or a base marks, in the order of definition."""
    members = (member for base in reversed(cls.__mro__) for member in vars(base).items())
    return list(dict.fromkeys(name for name, value in members if _marked_options(value) is not None))


def _marked_options(value: Any) -> Mapping[str, Any] | None:
    """Return the options of a marked method, also of one that became a classmethod or a property after the mark."""
    if isinstance(value, property | functools.cached_property | _CACHED_FUNCTION):
        value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__wrapped__", None)
    if not isinstance(value, _DESCRIPTORS):
        return None
    return getattr(value, _OPTIONS, getattr(getattr(value, "__func__", None), _OPTIONS, None))


def _options(cls: type, name: str) -> dict[str, Any]:
    """Return the options of the method, with those of the methods that it overrides; the nearest has priority."""
    marked = (_marked_options(vars(base).get(name)) for base in reversed(cls.__mro__))
    return {option: value for options in marked for option, value in (options or {}).items()}


def _origins(cls: type, name: str, inherited: Collection[str]) -> str:
    """Return a sentence about the methods from which an override has options."""
    marked = {base.__name__: _marked_options(vars(base).get(name)) or {} for base in reversed(cls.__mro__[1:])}
    origins = {option: base for base, options in marked.items() for option in sorted(options.keys() & inherited)}
    listed = ", ".join(f"{option!r} from {base}" for option, base in origins.items())
    return f"It inherits the options {listed}; @reg_toolspec({next(iter(origins))}=…) replaces one."


def _inherited_docstring(cls: type, name: str) -> str | None:
    for base in cls.__mro__:
        overridden = vars(base).get(name)
        if overridden is not None and (text := inspect.getdoc(getattr(overridden, "__func__", overridden))):
            return text
    return None


def _parent_frame_namespace(cls: type) -> Namespace:
    """Return the locals of the frame that executes the class statement, for names in annotations."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001  # as `typing` and `collections` do
    while frame is not None:
        if frame.f_globals.get("__name__") == cls.__module__ and frame.f_code.co_name not in _CLASS_CREATION_HOOKS:
            return frame.f_locals
        frame = frame.f_back
    return {}


def _annotation_words(cls: type) -> set[str]:
    tools = (vars(_owner(cls, name))[name] for name in _marked_names(cls))
    functions = (getattr(descriptor, "__func__", descriptor) for descriptor in tools)
    annotations = (a for function in functions for a in getattr(function, "__annotations__", {}).values())
    return {word for annotation in annotations for word in _WORD.findall(str(annotation))}


def _owner(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in vars(base))


_CLASS_CREATION_HOOKS = frozenset({"__init_subclass__", "__new__"})
"""Functions between a class statement and the scan: hooks of a base class or of a metaclass."""

_DESCRIPTORS = (types.FunctionType, classmethod, staticmethod)
_CACHED_FUNCTION = type(functools.lru_cache(len))
_PLACEHOLDER_INSTANCE = object()
_WORD = re.compile(r"\w+")
