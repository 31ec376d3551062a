"""Shell: the tools that run shell commands in the folders of a workspace."""

from __future__ import annotations

from ahvn_tools.builtins.shell.command_result import CommandResult
from ahvn_tools.builtins.shell.rules import HARMLESS_COMMANDS, READING_COMMANDS
from ahvn_tools.builtins.shell.shell_tools import Shell

__all__ = ["HARMLESS_COMMANDS", "READING_COMMANDS", "CommandResult", "Shell"]
