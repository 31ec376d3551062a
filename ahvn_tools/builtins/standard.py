"""The standard toolkit: all built-in tools of one workspace, in groups, for a main agent and its sub-agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ahvn_tools.builtins.approval import Approve
from ahvn_tools.builtins.ask_user import AskUser
from ahvn_tools.builtins.database.database import Database
from ahvn_tools.builtins.files.folders import CallRoots
from ahvn_tools.builtins.git import Git
from ahvn_tools.builtins.knowledge import Knowledge
from ahvn_tools.builtins.processes.confinement import Sandbox
from ahvn_tools.builtins.python_runner import PythonRunner
from ahvn_tools.builtins.shell import Shell
from ahvn_tools.builtins.sub_agents import Runner, SubAgents
from ahvn_tools.builtins.system import System
from ahvn_tools.builtins.workspace import Workspace
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.roots import Roots
from ahvn_tools.toolkit import Toolkit

GROUPS: Final[Mapping[str, str]] = {
    "files": "Read, search and edit files.",
    "text_files": "Read and write text files by ranges of lines.",
    "shell": "Run commands and background jobs.",
    "python": "Run Python code.",
    "git": "Work with Git repositories.",
    "system": "Facts about this machine.",
    "user": "Ask the user.",
    "database": "Query a database.",
    "knowledge": "Search and keep documents and notes.",
    "agents": "Run sub-agents on parts of a task.",
}
"""The groups of the standard toolkit, with their descriptions."""

_TEXT_FILE_TOOLS: Final = ("view_text_file", "write_text_file", "insert_text_file")


def standard_toolkit(
    workspace: Workspace | Roots,
    *,
    name: str = "standard",
    shell: Shell | bool = True,
    python: PythonRunner | bool = True,
    git: Git | bool = True,
    system: System | bool = True,
    ask_user: AskUser | bool = False,
    database: Database | None = None,
    knowledge: Knowledge | None = None,
    runner: Runner | None = None,
    models: Mapping[str, str] | Sequence[str] = (),
    text_files: bool = False,
    sandbox: Sandbox = "auto",
    network: bool = False,
    approve: Approve = "risky",
    call_roots: CallRoots = "narrow",
    include: Collection[str] | None = None,
    **options: Any,
) -> Toolkit:
    """Return a toolkit with the built-in tools of a workspace, each kind in a group of its own.

    `workspace` is a Workspace, or its roots. `shell`, `python`, `git` and `system` are objects, True for one with
    `sandbox`, `network` and `approve`, or False for none; `ask_user` is an AskUser, or True for one without a handler.
    With `runner` there are sub-agents, of the audience `sub`: they have the same tools and task_finish. `text_files`
    adds the tools that read and write ranges of lines.
    `call_roots` is that of Workspace, for a `workspace` that is none. `include` are the names of the only tools that
    the toolkit has; with `self_fork` among them, it has the tools of SubAgents also without a `runner`. `options` are
    those of Toolkit, such as `approver`. Raises DefinitionError for wrong values.

    >>> import tempfile
    >>> from ahvn_tools.builtins import standard_toolkit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kit = standard_toolkit(folder, shell=False, python=False, git=False)
    ...     _ = kit.call("create_file", {"uri": "notes.txt", "content": "tea"})
    ...     kit.call("read_file", {"uri": "notes.txt"})
    'tea'
    """
    files = (
        workspace if isinstance(workspace, Workspace) else Workspace(workspace, approve=approve, call_roots=call_roots)
    )
    kit = Toolkit(name, **{"roots": files.folders.roots, **options})
    confined: dict[str, Any] = {"sandbox": sandbox, "approve": approve}
    _add_files(kit, files, text_files=text_files)
    _add(kit, "shell", Shell(files, network=network, **confined) if shell is True else shell)
    _add(kit, "python", PythonRunner(files, network=network, **confined) if python is True else python)
    _add(kit, "git", Git(files, **confined) if git is True else git)
    _add(kit, "system", System() if system is True else system)
    _add(kit, "user", AskUser() if ask_user is True else ask_user)
    _add(kit, "database", database)
    _add(kit, "knowledge", knowledge, prefix="knowledge_")
    if runner is not None or (include is not None and "self_fork" in include):
        _add_group(kit, "agents")
        relative_to = files.folders.base if files.folders.call_roots == "replace" else None
        SubAgents(runner, kit, models=models, relative_to=relative_to).add_to(kit, group="agents")
    return kit if include is None else _keep(kit, include)


def _add_files(kit: Toolkit, workspace: Workspace, *, text_files: bool) -> None:
    specs = workspace.to_toolspecs()
    ranged = [specs.pop(name) for name in _TEXT_FILE_TOOLS if name in specs]
    _add_group(kit, "files")
    kit.add(*specs.values(), group="files", exclusive=workspace.file_key)
    if text_files:
        _add_group(kit, "text_files")
        kit.add(*ranged, group="text_files", exclusive=workspace.file_key)


def _add(kit: Toolkit, group: str, tools: ToolRegistry | bool | None, *, prefix: str = "") -> None:
    if isinstance(tools, ToolRegistry):
        _add_group(kit, group)
        kit.add(tools, group=group, prefix=prefix)


def _keep(kit: Toolkit, names: Collection[str]) -> Toolkit:
    """Remove all tools but these. Raises DefinitionError for an unknown one."""
    for name in names:
        if name not in kit:
            raise DefinitionError(f"There is no tool {name!r} to include. {near_misses(name, [t.name for t in kit])}")
    return kit.remove(*[tool.name for tool in kit if tool.name not in names])


def _add_group(kit: Toolkit, group: str) -> None:
    kit.add_group(group, GROUPS[group], active=True)
