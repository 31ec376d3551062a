"""LangChain's class of tools and ours: a value is recognized by its class, and nothing is imported for that."""

from __future__ import annotations

from typing import Any

from ahvn_tools.encoders.loaded_classes import loaded_classes


def langchain_classes() -> tuple[type[Any], ...]:
    """Return LangChain's class of tools, or nothing if it is not imported: then no object is one."""
    return loaded_classes("langchain_core.tools.base", "BaseTool")


def spec_behind(value: Any) -> Any:
    """Return the ToolSpec of a LangChain tool that was made of one; any other value unchanged."""
    return value.spec if isinstance(value, loaded_classes("ahvn_tools.langchain.spec_tool", "SpecTool")) else value
