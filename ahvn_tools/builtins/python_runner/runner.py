"""PythonRunner: the tool that runs Python code, and the one that resets a session."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os import PathLike
from typing import ClassVar, Final

from ahvn_tools.builtins.approval import Action, Approval, Approve
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.processes.confinement import Confinement, Sandbox, choose_sandbox
from ahvn_tools.builtins.python_runner.code_run import AnswerLimits
from ahvn_tools.builtins.python_runner.execution import MAX_CODE_CHARS, Execution, Folders, Interpreter
from ahvn_tools.builtins.python_runner.sessions import PythonSessions
from ahvn_tools.builtins.workspace.folder_tools import FolderTools
from ahvn_tools.code_mode.call_form import without_fence
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.registry import ArgumentKind, ToolRegistry, reg_toolspec
from ahvn_tools.results import ToolResult
from ahvn_tools.roots import Roots
from ahvn_tools.spec import ToolSpec

_SHOWN_CHARS: Final = 300
"""How much of the code the text of an approval contains; its details contain all of it."""
_SESSION_DESCRIPTION: Final = (
    "Run Python code, and return its exit code, its output and the value of its last expression.\n\nThe figures that "
    "matplotlib has open are returned as pictures. Variables, functions and imports stay for your next call."
)


class PythonRunner(ToolRegistry):
    """Runs Python code in an interpreter of its own, with limits, and in a sandbox where bubblewrap works.

    Code runs in the first folder of `workspace` and may use its folders; without one it has a temporary folder.

    - `workspace`: a Workspace, whose folders and `read_only` apply, or roots.
    - `sandbox`: "auto" uses bubblewrap where it works; a result says so when nothing confines the code.
    - `network`: whether code in the sandbox reaches the network.
    - `approve`: "risky" asks for code without a sandbox; "always" for all code, "never" for none.
    - `timeout`: the longest time of a call in seconds.
    - `memory_bytes`: of each process.
    - `cpu_seconds`: of each process; there is no such limit in a session.
    - `keep_session`: one interpreter for all calls of a session, whose variables stay.
    - `max_sessions`: how many of these run at once.
    - `idle_seconds`: one that has no call for so long ends.
    - `max_output_bytes`: of stdout and of stderr.
    - `max_value_chars`: of the last expression's repr.
    - `max_images`: how many pictures a result has.
    - `max_image_bytes`: of each picture.
    - `python`: the path or name of the interpreter, of any environment, from 3.9 on.

    >>> from ahvn_tools import Toolkit
    >>> kit = Toolkit("code").add(PythonRunner(approve="never"))
    >>> kit.exec("execute_python_code", {"code": "print('hello'); 6 * 7"}).structured_content["result"]
    '42'
    """

    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"code": "code"}

    @suggests_options
    def __init__(
        self,
        workspace: FolderTools | Roots | None = None,
        *,
        sandbox: Sandbox = "auto",
        network: bool = False,
        timeout: float = 60.0,
        memory_bytes: int | None = 2_000_000_000,
        cpu_seconds: int | None = 120,
        approve: Approve = "risky",
        keep_session: bool = False,
        max_sessions: int = 16,
        idle_seconds: float = 1800.0,
        max_output_bytes: int = 64_000,
        max_value_chars: int = 20_000,
        max_images: int = 8,
        max_image_bytes: int = 2_000_000,
        python: str | PathLike[str] = sys.executable,
    ) -> None:
        """Raise DefinitionError for what cannot work."""
        _check_positive(
            timeout=timeout, max_sessions=max_sessions, idle_seconds=idle_seconds, max_output_bytes=max_output_bytes
        )
        is_workspace = isinstance(workspace, FolderTools)
        self.folders = _folders_of(workspace)
        self.is_read_only = is_workspace and workspace.read_only  # type: ignore[union-attr]  # checked by is_workspace
        self.approval = Approval(approve)
        self.timeout = timeout
        untrusted = () if self.folders is None else self.folders.roots
        self.execution = Execution(
            interpreter=Interpreter.find(python),
            sandbox=choose_sandbox(sandbox, untrusted=untrusted), network=network,
            memory_bytes=memory_bytes, cpu_seconds=cpu_seconds, max_output_bytes=max_output_bytes,
            answer_limits=AnswerLimits(
                max_value_chars=max_value_chars, max_images=max_images, max_image_bytes=max_image_bytes
            ),
        )  # fmt: skip
        self.sessions = PythonSessions(self.execution, max_sessions, idle_seconds) if keep_session else None
        Confinement(
            writable=() if self.is_read_only else untrusted,
            readable=(*self.execution.interpreter.folders, *untrusted),
            sandbox=self.execution.sandbox,
        ).warn_of_owners()

    @reg_toolspec(
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}, tags={"python", "execute"}
    )
    def execute_python_code(self, code: str, context: ToolContext, timeout: float | None = None) -> ToolResult:
        """Run Python code, and return its exit code, its output and the value of its last expression.

        The figures that matplotlib has open are returned as pictures. Each call starts a new interpreter: variables of
        earlier calls are gone.

        Args:
            code: Python code. Print what you need, or end with an expression.
            timeout: Seconds after which the code is stopped. The default is the longest possible time.
        """
        if len(code) > MAX_CODE_CHARS:
            raise ToolError(f"The code has {len(code):,} characters, more than {MAX_CODE_CHARS:,}. Pass shorter code.")
        code, seconds = without_fence(code), self._seconds(timeout)
        self.approval.require(context, self._action(code, seconds))
        runs = self.execution if self.sessions is None else self.sessions
        run = runs.run(code, self._folders(context), seconds, context)
        return run.to_result(timeout=seconds, details={"sandbox": self.execution.sandbox})

    @reg_toolspec(annotations={"readOnlyHint": False, "destructiveHint": True}, tags={"python"})
    def reset_python_session(self, context: ToolContext) -> str:
        """End the Python interpreter of this session. The next code starts a new one, without variables."""
        has_ended = self.sessions is not None and self.sessions.reset(context)
        return "The session has ended." if has_ended else "There was no session."

    def to_toolspecs(self) -> dict[str, ToolSpec]:
        """Return the tools: with sessions also `reset_python_session`."""
        specs = super().to_toolspecs()
        if self.sessions is None:
            specs.pop("reset_python_session", None)
        elif "execute_python_code" in specs:
            specs["execute_python_code"] = specs["execute_python_code"].transform(description=_SESSION_DESCRIPTION)
        return specs

    def close(self) -> None:
        """End the interpreters of all sessions. They also end with Python."""
        if self.sessions is not None:
            self.sessions.close()

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self.timeout
        if not timeout > 0:
            raise ToolError("The timeout must be more than 0 seconds.")
        return min(timeout, self.timeout)

    def _action(self, code: str, seconds: float) -> Action:
        more = f"\n… ({len(code):,} characters)" if len(code) > _SHOWN_CHARS else ""
        return Action(
            kind="execute",
            text=f"Run Python code:\n{code[:_SHOWN_CHARS]}{more}",
            is_risky=self.execution.statement is not None,
            details={"code": code, "timeout": seconds, "sandbox": self.execution.sandbox},
        )

    def _folders(self, context: ToolContext) -> Folders:
        """Return the folders of the workspace that this call may use; none without a workspace."""
        if self.folders is None:
            return Folders()
        paths = self.folders.for_call(context).roots
        if not paths:
            raise ToolError("This call may use no folder of the workspace, so no code can run.")
        return Folders(paths=paths, is_read_only=self.is_read_only)


def _folders_of(workspace: FolderTools | Roots | None) -> ConfinedFolders | None:
    if workspace is None:
        return None
    return workspace.folders if isinstance(workspace, FolderTools) else ConfinedFolders(workspace)


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise DefinitionError(f"`{name}` must be more than 0, not {value!r}.")
