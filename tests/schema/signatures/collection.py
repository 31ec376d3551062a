"""Collects the callables of one corpus module, each under a readable id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Collection:
    """The callables of one module: a decorator that registers a function and returns it unchanged."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.entries: dict[str, Callable[..., Any]] = {}

    def __call__(self, function: Function) -> Function:
        """Register `function` under its own name."""
        return self.add(function.__name__, function)

    def add(self, name: str, function: Function) -> Function:
        """Register a callable without a name, or one whose name another entry has."""
        identity = f"{self.module}.{name}"
        if identity in self.entries:
            msg = f"two corpus entries are called {identity!r}; rename one"
            raise ValueError(msg)
        self.entries[identity] = function
        return function

    def echoes(self, **annotations: Any) -> None:
        """Register a function for each annotation, by its name, that takes and returns a value of that type."""
        for name, annotation in annotations.items():
            self._make(name, {"value": annotation, "return": annotation})

    def taking(self, **annotations: Any) -> None:
        """Register a function for each annotation, by its name, that takes a value of that type."""
        for name, annotation in annotations.items():
            self._make(name, {"value": annotation, "return": str})

    def returning(self, **annotations: Any) -> None:
        """Register a function for each annotation, by its name, that returns a value of that type."""
        for name, annotation in annotations.items():
            self._make(name, {"return": annotation})

    def _make(self, name: str, annotations: dict[str, Any]) -> None:
        def take(value: Any) -> Any: ...

        def give() -> Any: ...

        function = take if "value" in annotations else give
        function.__name__ = function.__qualname__ = name
        function.__annotations__ = annotations
        self.add(name, function)
