"""Pydantic alone, which is no tool package: what validation of the arguments costs by itself."""

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, validate_call

from tests.benchmarks.peers.worker.adapter import Call, NotOfferedError, PackageAdapter
from tests.benchmarks.peers.worker.subjects import is_async


class Adapter(PackageAdapter):
    """`validate_call` around the function."""

    export_form = "JSON Schema"
    lacks = {
        "context_call": "does not inject values",
        "context": "has no sessions",
        "dispatch": "has no collection of tools",
        "server": "does not serve tools over MCP",
    }
    first_call = '''
from pydantic import validate_call

@validate_call
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right

assert add(left=1, right=2) == 3
'''

    def create(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return validate_call(function)

    def sync_call(self, tool: Callable[..., Any]) -> Call:
        return lambda arguments: tool(**arguments)

    def async_call(self, tool: Callable[..., Any]) -> Call:
        if not is_async(tool):
            raise NotOfferedError("has no async call of a sync function")
        return lambda arguments: tool(**arguments)

    def result_call(self, tool: Callable[..., Any]) -> Call:
        return self.sync_call(tool)

    def exporter(self, tool: Callable[..., Any]) -> Callable[[], Any]:
        return TypeAdapter(tool).json_schema  # type: ignore[arg-type]  # pydantic takes functions, too
