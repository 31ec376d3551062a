"""The tools in Python modules and objects."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ahvn_tools.errors import SourceError, ToolSpecError
from ahvn_tools.loading.contents import Contents, ServerSource
from ahvn_tools.loading.module_import import own_name, running_code_of
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.sources.langchain_injection import langchain_classes, spec_behind
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import Toolkit

_SERVERS = frozenset({"FastMCP", "MCPServer"})
_CONNECTIONS = frozenset({"Client", "ClientTransport", "RemoteServer"})
_SERVER_PACKAGES = frozenset({"fastmcp", "mcp", "ahvn_tools"})


def read_module(module: types.ModuleType, name: str) -> Contents:
    """Return the only toolkit of a module, else all its tools and servers. `name` is that of the source, for errors.

    The members are those that `__all__` lists, else those whose names do not start with an underscore. Raises
    SourceError for several toolkits, and for a class of tools that cannot be created without arguments.
    """
    members = _public_members(module, name)
    kits = {id(value): key for key, value in reversed(members.items()) if isinstance(value, Toolkit)}
    if len(kits) > 1:
        names = ", ".join(map(repr, reversed(kits.values())))
        raise SourceError(f"{name} has {len(kits)} toolkits: {names}. Choose one: {name}:NAME.", file=name)
    own = own_name(module)
    if kits:
        kit: Toolkit = members[next(iter(kits.values()))]
        return Contents(name=kit.name, toolkit=kit)
    listed = getattr(module, "__all__", ())
    classes = {
        key: value
        for key, value in members.items()
        if _is_class_of_tools(value) and (value.__module__ == module.__name__ or key in listed)
    }
    found = {key: value for key, value in members.items() if _is_tool(value) or key in classes}
    return _Reading(name=name, skips_bases=True).read(own, found)


def read_object(value: Any, name: str, place: str) -> Contents:
    """Return what one object contains: a tool, a registry, a toolkit, a server, a function, or a list or dict of these.

    `name` is that of a toolkit of it, `place` is where it is, for errors. Raises SourceError.
    """
    if isinstance(value, Toolkit):
        return Contents(name=value.name, toolkit=value)
    contents = _Reading(name=place).read(name, {name: value})
    if contents.is_empty:
        raise SourceError(f"{place} has no tools: it is an empty {type(value).__name__}.")
    return contents


def is_server(value: Any) -> bool:
    """Return whether an object is an MCP server that runs in this process."""
    return _has_type(value, _SERVERS)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Reading:
    """Collects tools and servers, each once."""

    name: str
    """The source, for errors."""
    skips_bases: bool = False
    """Whether a class is left out when there is an instance or a subclass of it."""

    def read(self, name: str, values: Mapping[str, Any]) -> Contents:
        tools: list[Any] = []
        servers: list[ServerSource] = []
        known: set[int] = set()
        items = list(_flatten(values.items()))
        for key, value in items:
            if id(value) in known or (self.skips_bases and _is_base(value, [other for _, other in items])):
                continue
            known.add(id(value))
            if is_server(value) or _has_type(value, _CONNECTIONS):
                servers.append(ServerSource(server=value))
            else:
                tools.append(self._to_tool(key, value))
        tools = [tool for tool in tools if not (isinstance(tool, ToolRegistry) and not tool.list_toolspecs())]
        return Contents(name=name, tools=tuple(tools), servers=tuple(servers))

    def _to_tool(self, key: str, value: Any) -> Any:
        """Return what `Toolkit.add` takes. Raises SourceError for what is no tool."""
        value = spec_behind(self._create(key, value) if _is_class_of_tools(value) else value)
        if isinstance(value, ToolSpec | ToolRegistry | Toolkit):
            return value
        try:
            if hasattr(value, "args_schema"):
                return ToolSpec.from_langchain(value)
            if callable(value):
                return ToolSpec.from_function(value)
            if hasattr(value, "parameters") or hasattr(value, "input_schema"):
                return ToolSpec.from_mcp(value)
        except ToolSpecError as error:
            raise SourceError(f"{self.name}: {error}", file=self.name) from error
        raise SourceError(
            f"{self.name}: a value of the type {type(value).__name__!r} is no tool. Name a ToolSpec, a function, a "
            "ToolRegistry, a Toolkit, a FastMCP server, an MCP or LangChain tool, or a list or dict of these.",
            file=self.name,
        )

    def _create(self, key: str, registry: type[Any]) -> Any:
        """Return an instance of a class of tools. Raises SourceError when it cannot be created without arguments."""
        missing = _required_parameters(registry)
        if missing:
            fix = f"{registry.__name__.lower()} = {registry.__name__}(…)"
            raise SourceError(
                f"{self.name}: the class {key!r} needs arguments ({', '.join(missing)}): "
                f"export an instance, {fix}, or start the name of the class with an underscore.",
                file=self.name,
            )
        with running_code_of(f"{self.name}:{key}"):
            return registry()


def _public_members(module: types.ModuleType, name: str) -> dict[str, Any]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    missing = [member for member in names if not hasattr(module, member)]
    if missing:
        raise SourceError(f"{name}: __all__ lists {missing[0]!r}, which is not defined.", file=name)
    return {member: getattr(module, member) for member in names}


def _flatten(items: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the members of lists and dicts instead of these. A Mapping or list that contains itself is no tool."""
    stack = [iter(items)]
    while stack:
        for key, value in stack[-1]:
            inner = _members_of(value)
            if inner is None:
                yield key, value
            elif len(stack) < _MAX_DEPTH:
                stack.append(iter([(key, member) for member in inner]))
                break
        else:
            stack.pop()


_MAX_DEPTH = 10


def _members_of(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple | set | frozenset) else None


def _is_tool(value: Any) -> bool:
    """Return whether a member of a module is meant as a tool: a plain function is not."""
    if _members_of(value):
        return all(_is_tool(member) or isinstance(member, Toolkit) for _, member in _flatten([("", value)]))
    return isinstance(value, (ToolSpec, ToolRegistry, *langchain_classes())) or is_server(value)


def _is_class_of_tools(value: Any) -> bool:
    """Return whether a value is a class of a registry, or of a LangChain tool."""
    return _is_registry_class(value) or (isinstance(value, type) and issubclass(value, langchain_classes()))


def _is_registry_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, ToolRegistry) and value is not ToolRegistry


def _is_base(value: Any, others: Iterable[Any]) -> bool:
    """Return whether a class of tools is only the class of other members: of an instance or of a subclass."""
    if not _is_class_of_tools(value):
        return False
    if inspect.isabstract(value) or (_is_registry_class(value) and not value.marked_methods()):
        return True
    return any(
        isinstance(other, value) or (isinstance(other, type) and other is not value and issubclass(other, value))
        for other in others
    )


def _required_parameters(registry: type[Any]) -> list[str]:
    try:
        parameters = inspect.signature(registry).parameters.values()
    except (TypeError, ValueError):  # a constructor in C
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]


def _has_type(value: Any, names: frozenset[str]) -> bool:
    """Return whether a class of an object has one of these names in FastMCP, mcp or here: none of them is imported."""
    return any(
        base.__name__ in names and base.__module__.partition(".")[0] in _SERVER_PACKAGES for base in type(value).__mro__
    )


def read(location: Any, options: ReadOptions) -> Contents:  # noqa: ARG001  # the shape of a reader
    """Return what an object contains. Nothing is run for it. Raises SourceError for what is no tool."""
    if isinstance(location, ModuleType):
        contents = read_module(location, location.__name__)
        if contents.is_empty:
            raise SourceError(f"The module {location.__name__!r} has no tools: pass one of its members.")
        return contents
    return read_object(location, _name(location), "The source")


def _name(value: Any) -> str:
    """Return the name of a toolkit of an object: its own, that of its class for a registry."""
    for name in (getattr(value, "name", None), getattr(value, "__name__", None)):
        if isinstance(name, str) and name:
            return name
    return "tools" if isinstance(value, list | tuple | dict | set) else type(value).__name__
