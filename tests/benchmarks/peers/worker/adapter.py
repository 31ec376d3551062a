"""What an adapter offers: the ways of one package to make, call and export a tool."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar

Call = Callable[[dict[str, Any]], Any]
"""Takes the arguments, and returns the value or an awaitable of it."""
NamedCall = Callable[[str, dict[str, Any]], Any]
"""Takes the name of a tool and the arguments, and returns the value or an awaitable of it."""

_runner = asyncio.Runner()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, in the one event loop of a worker: adapters prepare in it, and calls run in it."""
    return _runner.run(coroutine)


def value_of(result: Any) -> Any:
    """Return a value, awaited if it is an awaitable."""

    async def awaited() -> Any:
        return await result

    return run(awaited()) if inspect.isawaitable(result) else result


class NotOfferedError(Exception):
    """The package has no such thing. Its text stands in the table, after the name of the package."""


class PackageAdapter:
    """One package. A method that an adapter does not have raises NotOfferedError with the text in `lacks`."""

    first_call: ClassVar[str]
    """A program that imports the package, makes a tool and calls it once, as a user would write it."""
    export_form: ClassVar[str] = "OpenAI"
    """The form of an export."""
    lacks: ClassVar[Mapping[str, str]] = {}
    """What the package does not have, by the name of the method."""

    def create(self, function: Callable[..., Any]) -> Any:
        """Make a tool of a function."""
        raise NotImplementedError

    def exporter(self, tool: Any) -> Callable[[], Any]:
        """Return the export of a tool: what a model is shown, or an awaitable of it."""
        raise NotImplementedError

    def shared_exporter(self, tool: Any) -> Callable[[], Any]:
        """Return the export that may give the same object each time."""
        return self.exporter(tool)

    def sync_call(self, tool: Any) -> Call:
        """Return the call of a tool for sync code, with the validation that the package has."""
        raise NotOfferedError(self.lacks["sync_call"])

    def async_call(self, tool: Any) -> Call:
        """Return the call of a tool for async code, with the validation that the package has."""
        raise NotOfferedError(self.lacks["async_call"])

    def result_call(self, tool: Any) -> Call:
        """Return the call that gives a result also when the tool raises, if the package has one."""
        return self.async_call(tool)

    def context_call(self) -> Call:
        """Return the call of an async tool that also gets `user`, which the application fills in and no model sees."""
        raise NotOfferedError(self.lacks["context_call"])

    def context(self, number: int) -> Any:
        """Return what holds the values of one user for the calls of tools."""
        raise NotOfferedError(self.lacks["context"])

    def dispatch(self, count: int) -> NamedCall:
        """Return the call by name of the tools `add_0` … of a collection of `count` tools."""
        raise NotOfferedError(self.lacks["dispatch"])

    def conversation(self, count: int) -> Callable[[Any], Any]:
        """Return what runs a conversation in which a model that answers at once calls `add_later` in `count` turns."""
        raise NotOfferedError("has no conversation that is measured here")

    def server(self) -> Any:
        """Return a FastMCP server of the tool `add_later`."""
        raise NotOfferedError(self.lacks["server"])
