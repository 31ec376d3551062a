"""Tools: the toolkit, its responses, and functions to register."""

from __future__ import annotations

from ahvn_tools.compat.agentscope.tool.execution import execute_python_code, execute_shell_command
from ahvn_tools.compat.agentscope.tool.groups import ToolGroup
from ahvn_tools.compat.agentscope.tool.registered_function import RegisteredToolFunction
from ahvn_tools.compat.agentscope.tool.response import ToolResponse
from ahvn_tools.compat.agentscope.tool.text_files import insert_text_file, view_text_file, write_text_file
from ahvn_tools.compat.agentscope.tool.toolkit import Toolkit

__all__ = [
    "RegisteredToolFunction", "ToolGroup", "ToolResponse", "Toolkit", "execute_python_code", "execute_shell_command",
    "insert_text_file", "view_text_file", "write_text_file",
]  # fmt: skip
