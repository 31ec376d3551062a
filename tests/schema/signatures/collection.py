"""Collects the callables of one corpus module, each under a telling id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Collection:
    """A room of the corpus: a decorator that notes a function and gives it back unchanged."""

    def __init__(self, room: str) -> None:
        self.room = room
        self.entries: dict[str, Callable[..., Any]] = {}

    def __call__(self, function: Function) -> Function:
        """Note `function` under its own name."""
        return self.add(function.__name__, function)

    def add(self, name: str, function: Function) -> Function:
        """Note a callable that has no name of its own, or one that two entries share."""
        identity = f"{self.room}.{name}"
        if identity in self.entries:
            msg = f"two corpus entries are called {identity!r}; rename one"
            raise ValueError(msg)
        self.entries[identity] = function
        return function
