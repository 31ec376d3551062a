"""Graph output: the commands and interrupts that only a LangGraph graph can apply. A LangChain tool passes them on."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import INVALID_RESULT, InvalidResultError

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
