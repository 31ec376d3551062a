"""Built-in tools: ToolRegistry classes whose constructor has what the host decides, and whose tools the model calls.

`files/` and `processes/` are what they share: confined access to files, and confined processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ahvn_tools.lazy import lazy_names

if TYPE_CHECKING:
    from ahvn_tools.builtins.approval import Action
    from ahvn_tools.builtins.ask_user import AskUser, Question, UserAnswers
    from ahvn_tools.builtins.database.database import Database
    from ahvn_tools.builtins.git import Git
    from ahvn_tools.builtins.knowledge import Knowledge
    from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, choose_sandbox
    from ahvn_tools.builtins.processes.private_folder import clean_environment
    from ahvn_tools.builtins.processes.process import ProcessResult, arun_process, run_process
    from ahvn_tools.builtins.python_runner import PythonRunner
    from ahvn_tools.builtins.shell import HARMLESS_COMMANDS, READING_COMMANDS, CommandResult, Shell
    from ahvn_tools.builtins.standard import standard_toolkit
    from ahvn_tools.builtins.sub_agents import SubAgents, SubAgentTask
    from ahvn_tools.builtins.system import System
    from ahvn_tools.builtins.workspace import Workspace

__all__ = [
    "HARMLESS_COMMANDS", "READING_COMMANDS", "Action", "AskUser", "CommandResult", "Confinement", "Database", "Git",
    "Knowledge", "ProcessLimits", "ProcessResult", "PythonRunner", "Question", "Shell", "SubAgentTask", "SubAgents",
    "System", "UserAnswers", "Workspace", "arun_process", "choose_sandbox", "clean_environment",
    "run_process", "standard_toolkit",
]  # fmt: skip

_MODULES = {
    "approval": ["Action"],
    "ask_user": ["AskUser", "Question", "UserAnswers"],
    "database.database": ["Database"],
    "git": ["Git"],
    "knowledge": ["Knowledge"],
    "processes.confinement": ["Confinement", "ProcessLimits", "choose_sandbox"],
    "processes.private_folder": ["clean_environment"],
    "processes.process": ["ProcessResult", "arun_process", "run_process"],
    "python_runner": ["PythonRunner"],
    "shell": ["CommandResult", "HARMLESS_COMMANDS", "READING_COMMANDS", "Shell"],
    "standard": ["standard_toolkit"],
    "sub_agents": ["SubAgentTask", "SubAgents"],
    "system": ["System"],
    "workspace": ["Workspace"],
}

__getattr__ = lazy_names(__name__, {name: f".{module}" for module, names in _MODULES.items() for name in names})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
