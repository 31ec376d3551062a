"""What an adapter offers: the ways of one package to make, call and export a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Call = Callable[[dict[str, Any]], Any]
"""Takes the arguments, and returns the value or an awaitable of it."""
NamedCall = Callable[[str, dict[str, Any]], Any]
"""Takes the name of a tool and the arguments, and returns the value or an awaitable of it."""


class NotOfferedError(Exception):
    """The package has no such thing. Its text stands in the table, after the name of the package."""


class Adapter(Protocol):
    """One package. A method raises NotOfferedError for what the package does not have."""

    first_call: str
    """A program that imports the package, makes a tool and calls it once, as a user would write it."""
    export_form: str
    """The form of an export, such as `OpenAI`."""

    def create(self, function: Callable[..., Any]) -> Any:
        """Make a tool of a function."""
        ...

    def sync_call(self, tool: Any) -> Call:
        """Return the call of a tool for sync code, with the validation that the package has."""
        ...

    def async_call(self, tool: Any) -> Call:
        """Return the call of a tool for async code, with the validation that the package has."""
        ...

    def result_call(self, tool: Any) -> Call:
        """Return the call that gives a result also when the tool raises, if the package has one."""
        ...

    def context_call(self) -> Call:
        """Return the call of an async tool that also gets `user`, which the application fills in and no model sees."""
        ...

    def context(self, number: int) -> Any:
        """Return what holds the values of one user for the calls of tools."""
        ...

    def dispatch(self, count: int) -> NamedCall:
        """Return the call by name of the tools `add_0` … of a collection of `count` tools."""
        ...

    def exporter(self, tool: Any) -> Callable[[], Any]:
        """Return the export of a tool: what a model is shown, or an awaitable of it."""
        ...

    def shared_exporter(self, tool: Any) -> Callable[[], Any]:
        """Return the export that may give the same object each time: where there is no other, `exporter`."""
        ...

    def server(self) -> Any:
        """Return a FastMCP server of the tool `add_later`."""
        ...
