"""Agently's tool manager: its names and its texts, over a `Toolkit`, which is at hand as `ToolManager().toolkit`.

`tool_manager` registers, lists and calls tools, `kwargs_format` describes their arguments.
"""

from ahvn_tools.compat.agently.kwargs_format import DataFormatter
from ahvn_tools.compat.agently.tool_manager import FunctionShifter, ToolManager

AgentlyToolManager = ToolManager

__all__ = ["AgentlyToolManager", "DataFormatter", "FunctionShifter", "ToolManager"]
