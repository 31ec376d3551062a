"""Diagnostics: errors and warnings of the checkers that are installed, and of the languages' own parsers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from ahvn_tools import invisible
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, choose_sandbox
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.process import ProcessResult, run_process
from ahvn_tools.builtins.workspace.checkers import (
    CHECKERS,
    Checker,
    Problem,
    ProjectCopy,
    UnreadableOutputError,
    find_program,
    program_folders,
    project_copy,
)
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses
from ahvn_tools.builtins.workspace.lines import fitting
from ahvn_tools.builtins.workspace.parser_program import language_of, on_one_line
from ahvn_tools.builtins.workspace.parsing import MAX_FILE_BYTES, Source, is_available, parse
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

CheckerName = Literal["ruff", "pyright", "mypy", "gcc", "javac", "node", "bash"]

MAX_FILES: Final = 500
MAX_COPIED_FILES: Final = 3_000
MAX_COPIED_BYTES: Final = 50_000_000
SECONDS_IN_ALL: Final = 180.0
MAX_PROBLEMS: Final = 200
_MAX_MESSAGE_CHARS: Final = 300
_MAX_NOTES: Final = 20
_OUTPUT_BYTES: Final = 20_000_000
_NODE_OPTIONS: Final = "--max-old-space-size=2000"
_PARSER: Final = "syntax check"
_OTHER_LANGUAGES: Final = {
    ".json": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML", ".sh": "Shell", ".bash": "Shell",
}  # fmt: skip
"""Languages without an outline, by extension."""
_C_FAMILY: Final = frozenset({"C", "C++"})
# Without its headers, a C file has macros that are no C to a grammar.
_WITHOUT_GRAMMAR: Final = frozenset({*_C_FAMILY, "Shell"})
_SETTINGS: Final = re.compile(r"(^|/)(setup\.cfg|tsconfig[^/]*\.json|jsconfig\.json|pyrightconfig\.json|\.?mypy\.ini)$")
"""Settings of checkers. They are JSON with comments, too."""


class DiagnosticsTools(FolderTools):
    """The tool that finds errors and warnings in source files."""

    @reg_toolspec(annotations={"readOnlyHint": True}, tags={"files", "read", "check"}, output_schema=None)
    def get_warning_error(
        self,
        context: ToolContext,
        uri: str | None = None,
        checkers: list[CheckerName] | None = None,
        skip: int = 0,
    ) -> str:
        """Find errors and warnings in a file, or in the source files of a folder, without executing anything of them.

        Uses the checkers that are installed, with their standard settings and not those of the project. Imports that
        cannot be found are not reported. Other languages, JSON, TOML and YAML: syntax errors only.

        Args:
            uri: The path or file: URI of a file or folder. Without it: where relative paths begin.
            checkers: Use these only. Without it: all that are installed, and mypy only if pyright is not.
            skip: How many problems to leave out, to go on after a limit.
        """
        if skip < 0:
            raise ToolError("Pass a skip of at least 0.")
        place = "." if uri is None else uri
        folders = self.folders.for_call(context)
        with project_copy() as copy:
            with explained_misses(folders, place):
                targets = _find_targets(folders, place, copy, is_cancelled=lambda: context.cancelled)
            context.check_cancelled()
            # All folders of the constructor: other sessions may write those that this one may not use.
            roots = [*self.folders.roots, *folders.roots]
            run = CheckRun(copy, roots=roots, chosen=checkers, is_cancelled=lambda: context.cancelled)
            run.check(targets.paths)
            context.check_cancelled()
        return _report(targets, run, skip=skip, max_chars=self.max_output_chars)


@dataclass(kw_only=True)
class Targets:
    """The files that one call checks."""

    prefix: str
    """What precedes the paths so that models can pass them to other tools."""
    paths: list[str] = field(default_factory=list)
    """Relative to the folder that is copied."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why other files are not checked."""
    has_more: bool = False
    """Whether there are more files than are checked."""


def _find_targets(
    folders: ConfinedFolders, uri: str, copy: ProjectCopy, *, is_cancelled: Callable[[], bool]
) -> Targets:  # fmt: skip
    """Copy the files to check, and the other files of their languages in the same root, which they may import."""
    place = folders.locate(uri)
    is_folder = folders.status(uri).kind == "folder"
    root = max((root for root in folders.roots if place.is_relative_to(root)), key=lambda root: len(root.parts))
    targets = Targets(prefix=folders.prefix(root))
    copying = _Copying(folders, root, copy)
    inner = place.relative_to(root).as_posix()
    for path in _walked(folders, place, inner, is_cancelled) if is_folder else iter([inner]):
        if _language_of(path) is None:
            continue
        if len(targets.paths) == MAX_FILES or copying.is_full:
            targets.has_more = True
            break
        reason = copying.add(path)
        if reason is None:
            targets.paths.append(path)
        else:
            targets.reasons[path] = reason
    languages = {language for path in targets.paths if (language := language_of(path)) in ("Python", *_C_FAMILY)}
    wanted = languages | _C_FAMILY if languages & _C_FAMILY else languages
    for path in _walked(folders, root, ".", is_cancelled) if wanted else ():  # what the files may import
        if copying.is_full:
            break
        if language_of(path) in wanted:
            copying.add(path)
    return targets


class _Copying:
    """Copies files of a root, up to a number of files and bytes."""

    def __init__(self, folders: ConfinedFolders, root: Path, copy: ProjectCopy) -> None:
        self._folders, self._root, self._copy = folders, root, copy
        self._files_left, self._bytes_left = MAX_COPIED_FILES, MAX_COPIED_BYTES
        self._known: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether no more may be copied."""
        return self._files_left <= 0 or self._bytes_left <= 0

    def add(self, path: str) -> str | None:
        """Copy a file, once, and return why it could not be copied."""
        if path in self._known:
            return None
        self._known.add(path)
        try:
            content, status = self._folders.read(self._folders.display(self._root / path), max_bytes=MAX_FILE_BYTES)
            self._copy.add(path, content)
        except ToolError as error:
            return str(error)
        except OSError:  # a name that the temporary folder does not allow
            return "it could not be copied to check it."
        self._files_left -= 1
        self._bytes_left -= status.size
        return None


def _walked(folders: ConfinedFolders, folder: Path, inner: str, is_cancelled: Callable[[], bool]) -> Iterator[str]:
    base = "" if inner == "." else f"{inner}/"
    for file in walk(folders, str(folder), is_cancelled=is_cancelled):
        if not _SETTINGS.search(base + file.path):
            yield base + file.path


def _language_of(path: str) -> str | None:
    """Return the language of a file that can be checked at all."""
    extension = PurePosixPath(f"a{path.rpartition('/')[2]}").suffix.lower()
    return None if extension == ".h" else _OTHER_LANGUAGES.get(extension) or language_of(path)


class CheckRun:
    """One call's checks: runs the checkers over a copy of the files, and collects what they find."""

    def __init__(
        self, copy: ProjectCopy, *, roots: Sequence[Path], chosen: Sequence[str] | None,
        is_cancelled: Callable[[], bool],
    ) -> None:  # fmt: skip
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
        types = [checker for checker in programs if checker.is_type_checker]
        for checker, program in programs.items():
            if not checker.is_type_checker:
                self._run_checker(checker, program, paths)
        self._parse([path for path in paths if self._chosen is None or any(checker.takes(path) for checker in types)])
        broken = {problem.path for problem in self.problems if problem.is_syntax_error}
        for checker in types:
            self._run_checker(checker, programs[checker], [path for path in paths if path not in broken])

    def unchecked(self, paths: Sequence[str]) -> list[str]:
        """Return the files that nothing has checked."""
        checked: set[str] = set().union(*self.checked.values())
        return [path for path in paths if path not in checked]

    def _programs(self, paths: Sequence[str]) -> dict[Checker, str]:
        """Return the checkers to run on these files, with their programs."""
        found: dict[Checker, str] = {}
        for checker in CHECKERS:
            is_chosen = self._chosen is not None and checker.name in self._chosen
            if not is_chosen and (self._chosen is not None or not any(map(checker.takes, paths))):
                continue
            program, is_installed = find_program(checker, self._roots)
            if program is None and is_installed:
                self.notes.append(f"{checker.name} is not used, because it is in the folders that this tool may use.")
            elif program is None and is_chosen:
                self.notes.append(f"{checker.name} is not installed.")
            elif program is not None and checker.needs_sandbox and self._sandbox == "none":
                self.notes.append(f"{checker.name} is not used, because bubblewrap does not work here.")
            elif program is not None and (is_chosen or checker.unless not in {other.name for other in found}):
                found[checker] = program
        return found

    def _run_checker(self, checker: Checker, program: str, paths: Sequence[str]) -> None:
        for batch in checker.batches(paths):
            seconds = min(checker.seconds, self._deadline - time.monotonic())
            if self._is_cancelled():
                return
            if seconds <= 0:
                late = "did not check all files, because the time was over. Pass a file as uri."
                self.notes.append(f"{checker.name} {late}")
                return
            try:
                result = self._run(checker, program, batch, seconds)
                if result.ended_by != "exit":
                    raise UnreadableOutputError(f"it did not end within {seconds:.0f} seconds")
                found = checker.read(self._copy, batch, result)
            except (UnreadableOutputError, ToolError) as error:
                files = batch[0] if len(batch) == 1 else f"{len(batch)} files"
                self.notes.append(f"{checker.name} was not used for {files}: {str(error).rstrip('.')}.")
                continue
            self.checked.setdefault(checker.name, set()).update(batch)
            known = {_place(problem) for problem in self.problems}
            self.problems += [problem for problem in found if _place(problem) not in known]

    def _run(self, checker: Checker, program: str, paths: Sequence[str], seconds: float) -> ProcessResult:
        copy = self._copy
        return run_process(
            [program, *checker.arguments(copy, paths)],
            # Above the files: an interpreter that a checker starts imports nothing from its own folder.
            folder=copy.settings_folder,
            confinement=Confinement(readable=(copy.settings_folder, Path(program).parent), sandbox=self._sandbox),
            limits=ProcessLimits(
                timeout=seconds, memory_bytes=checker.memory_bytes, kept_bytes=_OUTPUT_BYTES, spooled_bytes=0
            ),
            environment=clean_environment(
                PATH=":".join(program_folders(self._roots)), LC_ALL="C.UTF-8", NODE_OPTIONS=_NODE_OPTIONS,
                MYPYPATH=f"{copy.folder}:{copy.folder / 'src'}",
            ),
            stdin=copy.read(paths[0]) if checker.reads_stdin else b"",
            is_cancelled=self._is_cancelled,
        )  # fmt: skip

    def _parse(self, paths: Sequence[str]) -> None:
        """Find the syntax errors of the files that no checker has read, by the parsers of Python and of tree-sitter."""
        remaining = [path for path in self.unchecked(paths) if _can_parse(_language_of(path))]
        sources = [source for path in remaining if (source := self._source(path)) is not None]
        for reply in parse("check", sources, sandbox=self._sandbox, is_cancelled=self._is_cancelled):
            if reply.reason:
                self.notes.append(f"{reply.source.path} is not checked: {reply.reason}.")
            self.problems += [
                Problem(
                    path=reply.source.path, line=line, column=column, severity="Error", message=message,
                    source=f"{reply.source.language} syntax", is_syntax_error=True,
                )
                for line, column, message in reply.problems
            ]  # fmt: skip
        if remaining:
            self.checked[_PARSER] = set(remaining)

    def _source(self, path: str) -> Source | None:
        try:
            return Source.decoded(path, str(_language_of(path)), self._copy.read(path))
        except ToolError:
            self.notes.append(f"{path} is not checked: it is no text.")
            return None


def _can_parse(language: str | None) -> bool:
    return language is not None and language not in _WITHOUT_GRAMMAR and is_available(language)


def _place(problem: Problem) -> tuple[str, int, int, str]:
    """Return what two checkers that found the same thing agree on."""
    return problem.path, problem.line, problem.column, problem.severity


def _report(targets: Targets, run: CheckRun, *, skip: int, max_chars: int) -> str:
    """Return the problems by file and line, then which checkers were used and what was not checked."""
    problems = sorted(
        set(run.problems), key=lambda problem: (problem.path, problem.line, problem.column, problem.message)
    )
    page = problems[skip : skip + MAX_PROBLEMS]
    page = page[: len(fitting((f"FILE: {targets.prefix}{each.path}{_line(each)}" for each in page), max_chars)[0])]
    if not targets.paths and not targets.reasons:
        return "No files that can be checked."
    count = f"Found {len(problems)} problems in {len({problem.path for problem in problems})} files:"
    parts = [count if problems else "No warnings or errors found."]
    for path, found in groupby(page, key=lambda problem: problem.path):
        parts.append("\n".join([f"FILE: {invisible.escape_line(targets.prefix + path)}", *map(_line, found)]))
    end = skip + len(page)
    if end < len(problems):
        shown = f"showing problems {skip + 1} to {end}. Go on with skip={end}, or pass a file as uri."
        parts.append(f"(Limit reached: {shown})")
    elif skip and not page:
        parts.append(f"(There are no more problems: skip={skip} leaves out all.)")
    return "\n\n".join([*parts, "\n".join(_coverage(targets, run))])


def _line(problem: Problem) -> str:
    message = invisible.escape_line(on_one_line(problem.message, _MAX_MESSAGE_CHARS))
    return f"[{problem.severity}] Line {problem.line}:{problem.column} - {message} ({problem.source})"


def _coverage(targets: Targets, run: CheckRun) -> list[str]:
    """Return which checkers were used, and what was not checked and why."""
    lines = [f"Checked by {name}: {_count(paths)}." for name, paths in run.checked.items()]
    if targets.has_more:
        lines.append(f"Not checked: files after the first {MAX_FILES}. Pass a smaller folder, or a file, as uri.")
    if unchecked := run.unchecked(targets.paths):
        extensions = ", ".join(sorted({PurePosixPath(path).suffix for path in unchecked}))
        lines.append(f"Not checked: {_count(unchecked)} ({extensions}), for which no checker could be used.")
    notes = [f"{targets.prefix}{path} is not checked: {reason}" for path, reason in targets.reasons.items()] + run.notes
    lines += [invisible.escape_line(on_one_line(note, _MAX_MESSAGE_CHARS)) for note in notes[:_MAX_NOTES]]
    return [*lines, f"And {len(notes) - _MAX_NOTES} more notes."] if len(notes) > _MAX_NOTES else lines


def _count(paths: Iterable[str]) -> str:
    count = len(list(paths))
    return "1 file" if count == 1 else f"{count} files"
