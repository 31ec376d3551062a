"""CheckRun: runs the checkers over a copy of the files, and collects what they find."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, choose_sandbox
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.process import ProcessResult, run_process
from ahvn_tools.builtins.workspace.diagnostics.checker import Checker, Command, UnreadableOutputError
from ahvn_tools.builtins.workspace.diagnostics.checkers import CHECKERS
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.programs import find_program, is_in_roots, program_folders
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy
from ahvn_tools.builtins.workspace.diagnostics.syntax import can_parse, syntax_problems
from ahvn_tools.errors import ToolError

SECONDS_IN_ALL: Final = 180.0
_OUTPUT_BYTES: Final = 20_000_000
_NODE_OPTIONS: Final = "--max-old-space-size=2000"
_PARSER: Final = "syntax check"


class CheckRun:
    """One call's checks."""

    def __init__(
        self,
        copy: ProjectCopy,
        *,
        roots: Sequence[Path],
        chosen: Sequence[str] | None,
        is_cancelled: Callable[[], bool],
    ) -> None:
        """`roots` are the folders in which no program is run; `chosen` are names of checkers, None: the usual ones."""
        self._copy, self._roots, self._chosen, self._is_cancelled = copy, roots, chosen, is_cancelled
        self._sandbox = choose_sandbox("auto", untrusted=roots)
        self._deadline = time.monotonic() + SECONDS_IN_ALL
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        """What could not be checked."""
        self.checked: dict[str, set[str]] = {}
        """The files by the checker that has read them."""

    def check(self, paths: Sequence[str]) -> None:
        """Check the files: syntax first, types of the files without syntax errors afterwards."""
        programs = self._programs(paths)
        for checker, program in programs.items():
            if not checker.is_type_checker:
                self._run_checker(checker, program, paths)
        types = [checker for checker in programs if checker.is_type_checker]
        self._parse(paths if self._chosen is None else [path for path in paths if _is_for(types, path)])
        broken = {problem.path for problem in self.problems if problem.is_syntax_error}
        for checker, program in programs.items():
            if checker.is_type_checker:
                self._run_checker(checker, program, [path for path in paths if path not in broken])

    def unchecked(self, paths: Sequence[str]) -> list[str]:
        """Return the files that nothing has checked."""
        checked: set[str] = set().union(*self.checked.values())
        return [path for path in paths if path not in checked]

    def _programs(self, paths: Sequence[str]) -> dict[Checker, str]:
        """Return the checkers to run on these files, with their programs."""
        found: dict[Checker, str] = {}
        for checker in CHECKERS:
            is_wanted = checker.name in self._chosen if self._chosen is not None else _is_for_any(checker, paths)
            if not is_wanted:
                continue
            program = find_program(checker.programs, self._roots)
            if program is None:
                if is_in_roots(checker.programs, self._roots):
                    self.notes.append(
                        f"{checker.name} is not used, because it is in the folders that this tool may use."
                    )
                elif self._chosen is not None:
                    self.notes.append(f"{checker.name} is not installed.")
            elif checker.needs_sandbox and self._sandbox == "none":
                self.notes.append(f"{checker.name} is not used, because bubblewrap does not work here.")
            elif self._chosen is not None or checker.unless not in {other.name for other in found}:
                found[checker] = program
        return found

    def _run_checker(self, checker: Checker, program: str, paths: Sequence[str]) -> None:
        fitting = [path for path in paths if _is_for([checker], path)]
        for command in checker.commands(self._copy, fitting) if fitting else ():
            seconds = min(checker.seconds, self._deadline - time.monotonic())
            if self._is_cancelled():
                return
            if seconds <= 0:
                self.notes.append(
                    f"{checker.name} did not check all files, because the time was over. Pass a file as uri."
                )
                return
            self._run_command(checker, command, program, seconds)

    def _run_command(self, checker: Checker, command: Command, program: str, seconds: float) -> None:
        try:
            result = self._run(checker, [program, *command.arguments], command.stdin, seconds)
            if result.ended_by != "exit":
                raise UnreadableOutputError(f"it did not end within {seconds:.0f} seconds")
            found = list(checker.problems(self._copy, command, result))
        except (UnreadableOutputError, ToolError) as error:
            self.notes.append(f"{checker.name} was not used for {_named(command.paths)}: {str(error).rstrip('.')}.")
            return
        self.checked.setdefault(checker.name, set()).update(command.paths)
        wanted = set(command.paths)
        known = {_place(problem) for problem in self.problems}
        self.problems += [p for p in found if p.path in wanted and _place(p) not in known]

    def _run(self, checker: Checker, command: list[str], stdin: bytes, seconds: float) -> ProcessResult:
        return run_process(
            command,
            # Above the files: an interpreter that a checker starts imports nothing from its own folder.
            folder=self._copy.settings_folder,
            confinement=Confinement(
                readable=(self._copy.settings_folder, Path(command[0]).parent), sandbox=self._sandbox
            ),
            limits=ProcessLimits(
                timeout=seconds, memory_bytes=checker.memory_bytes, kept_bytes=_OUTPUT_BYTES, spooled_bytes=0
            ),
            environment=clean_environment(
                PATH=":".join(program_folders(self._roots)),
                LC_ALL="C.UTF-8",
                MYPYPATH=f"{self._copy.folder}:{self._copy.folder / 'src'}",
                NODE_OPTIONS=_NODE_OPTIONS,
            ),
            stdin=stdin,
            is_cancelled=self._is_cancelled,
        )

    def _parse(self, paths: Sequence[str]) -> None:
        remaining = [path for path in self.unchecked(paths) if can_parse(path)]
        if remaining:
            self.problems += syntax_problems(
                self._copy, remaining, self.notes, sandbox=self._sandbox, is_cancelled=self._is_cancelled
            )
            self.checked[_PARSER] = set(remaining)


def _is_for(checkers: Sequence[Checker], path: str) -> bool:
    return any(path.lower().endswith(checker.extensions) for checker in checkers)


def _is_for_any(checker: Checker, paths: Sequence[str]) -> bool:
    return any(_is_for([checker], path) for path in paths)


def _place(problem: Problem) -> tuple[str, int, int, str]:
    """Return what two checkers that found the same thing agree on."""
    return problem.path, problem.line, problem.column, problem.severity


def _named(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"
