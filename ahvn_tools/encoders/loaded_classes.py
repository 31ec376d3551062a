"""Classes of modules that may not be imported, and output of such classes that only a graph of LangGraph applies."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any, Final

from ahvn_tools.errors import INVALID_RESULT, InvalidResultError


def loaded_classes(module: str, *names: str) -> tuple[Any, ...]:
    """Return the classes that a module has defined so far; none if it is not imported.

    Another thread may be importing it: no value of a class exists before that thread has defined it.
    """
    loaded = sys.modules.get(module)
    return () if loaded is None else tuple([getattr(loaded, name) for name in names if hasattr(loaded, name)])


def is_file_class(kind: type) -> bool:
    """Return whether values of a class are files or byte streams, whose lines could be iterated."""
    return hasattr(kind, "readline") and (hasattr(kind, "__next__") or hasattr(kind, "__aiter__"))


def block_classes() -> tuple[Any, ...]:
    """Return the classes of MCP's content blocks."""
    return loaded_classes(
        "mcp_types", "TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"
    )


def media_classes() -> tuple[Any, ...]:
    """Return FastMCP's classes for images, audio and files."""
    return loaded_classes("fastmcp.utilities.types", "Image", "Audio", "File")


is_read_by_graph: Final[ContextVar[bool]] = ContextVar("is_read_by_graph", default=False)
"""Whether a LangChain tool makes the call, which passes on what only a graph can apply."""


def refuse_graph_output(output: Any) -> None:
    """Raise InvalidResultError, which contains the output, for a command to a graph or a list with one."""
    items = output if isinstance(output, list) else [output]
    kinds = loaded_classes("langchain_core.messages.tool", "ToolOutputMixin")
    if not kinds or not any(isinstance(item, kinds) and not hasattr(item, "tool_call_id") for item in items):
        return
    explanation = (
        f"The tool returned a {type(items[0]).__name__}, which only a LangGraph graph can apply; return a value, or "
        "run the tool in a ToolNode."
    )
    error = InvalidResultError(INVALID_RESULT, explanation=None if is_read_by_graph.get() else explanation)
    error.graph_output = output
    raise error


def is_for_graph(error: BaseException | None) -> bool:
    """Return whether a call has not failed: a LangChain tool made it, and its outcome is for a graph."""
    if error is None or not is_read_by_graph.get():
        return False
    return getattr(error, "graph_output", None) is not None or isinstance(
        error, loaded_classes("langgraph.errors", "GraphBubbleUp")
    )
