"""What of LangChain is recognized without its import: its tools, ours among them, and the arguments that it injects."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args, get_origin

from ahvn_tools.binding import Binding
from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.state import MISSING, StateKey

_passed: ContextVar[Mapping[int, Any]] = ContextVar("_passed")


@dataclass(frozen=True, slots=True)
class InjectedKey(StateKey):
    """The key of an argument that LangChain injects: its value is what the graph passes, else that of the state."""

    annotation: Any = field(default=Any, compare=False, repr=False)
    """By which LangGraph recognizes what to inject."""

    @classmethod
    def of(cls, name: str, annotation: Any) -> InjectedKey:
        """Return the key of an injected argument, which has the argument's own name."""
        key = StateKey.from_name(name)
        return cls(key.text, key.steps, annotation)

    def find(self, scopes: Sequence[Any]) -> Any:
        """Return the value that was passed for this call, else that of the first state that has this key."""
        passed = _passed.get(_NOTHING).get(id(self), MISSING)
        return StateKey.find(self, scopes) if passed is MISSING else passed


_NOTHING: Final[Mapping[int, Any]] = {}


@dataclass(frozen=True, slots=True)
class ConfigKey(StateKey):
    """The key of a RunnableConfig: its value is that of the state, else the config of LangChain's call around it."""

    def find(self, scopes: Sequence[Any]) -> Any:
        """Return the value of the first state that has this key, else LangChain's own."""
        value = StateKey.find(self, scopes)
        if value is not MISSING:
            return value
        from langchain_core.runnables import ensure_config

        return ensure_config()


def injected_keys(bindings: Mapping[str, Binding]) -> dict[str, InjectedKey]:
    """Return the keys of the arguments that LangChain injects, by the names of the arguments."""
    return {name: binding.key for name, binding in bindings.items() if isinstance(binding.key, InjectedKey)}


@contextlib.contextmanager
def passing(keys: Mapping[str, InjectedKey], arguments: dict[str, Any]) -> Iterator[None]:
    """Take the injected ones out of the arguments, and pass them to the call in the block."""
    passed = {id(key): arguments.pop(name) for name, key in keys.items() if name in arguments}
    token = _passed.set(passed)
    try:
        yield
    finally:
        _passed.reset(token)


def is_injected(annotation: Any) -> bool:
    """Return whether LangChain injects a parameter, such as `Annotated[str, InjectedState("user")]`."""
    origin = get_origin(annotation)
    if origin is not Annotated:
        runtimes = loaded_classes("langgraph.prebuilt", "ToolRuntime")
        return any(runtime is annotation or runtime is origin for runtime in runtimes)
    markers = loaded_classes("langchain_core.tools.base", "InjectedToolArg")
    kinds = [item if isinstance(item, type) else type(item) for item in annotation.__metadata__]
    return any(issubclass(kind, markers) for kind in kinds)


def is_config(annotation: Any) -> bool:
    """Return whether LangChain passes its config for a parameter: a RunnableConfig, or an optional one."""
    kinds = loaded_classes("langchain_core.runnables.config", "RunnableConfig")
    return any(kind is annotation or kind in get_args(annotation) for kind in kinds)


def find_config_parameter(function: Any) -> str | None:
    """Return the name of the parameter that gets LangChain's config."""
    try:
        hints = typing.get_type_hints(function)
    except (AttributeError, NameError, TypeError):
        return None
    return next((name for name, annotation in hints.items() if is_config(annotation)), None)


def injection_annotation(tool: Any, name: str) -> Any:
    """Return the annotation of an injected argument of a LangChain tool, with its markers."""
    schema = tool.args_schema
    field_ = getattr(schema, "model_fields", {}).get(name)
    if field_ is not None:
        return Annotated[field_.annotation, *field_.metadata] if field_.metadata else field_.annotation
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or getattr(tool, "_run", None)
    try:
        return typing.get_type_hints(function, include_extras=True).get(name, Any)
    except (AttributeError, NameError, TypeError):
        return Any


def langchain_classes() -> tuple[type[Any], ...]:
    """Return LangChain's class of tools, or nothing if it is not imported: then no object is one."""
    return loaded_classes("langchain_core.tools.base", "BaseTool")


def spec_behind(value: Any) -> Any:
    """Return the ToolSpec of a LangChain tool that was made of one; any other value unchanged."""
    return value.spec if isinstance(value, loaded_classes("ahvn_tools.langchain.spec_tool", "SpecTool")) else value
