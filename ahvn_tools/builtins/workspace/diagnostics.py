"""Diagnostics: errors and warnings of Python's checkers, and the syntax errors that the languages' parsers find.

The checkers only read the source files. They may not execute code of the project, load its plugins or run its programs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, compress, groupby, islice
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from ahvn_tools import invisible
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, choose_sandbox, is_in_untrusted
from ahvn_tools.builtins.processes.private_folder import clean_environment, private_folder
from ahvn_tools.builtins.processes.process import run_process
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses
from ahvn_tools.builtins.workspace.lines import fitting
from ahvn_tools.builtins.workspace.parser_program import language_of, on_one_line
from ahvn_tools.builtins.workspace.parsing import MAX_FILE_BYTES, Source, is_available, parse
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec
from ahvn_tools.roots import without_dots

CheckerName = Literal["ruff", "pyright", "mypy"]

MAX_FILES: Final = 500
MAX_COPIED_FILES: Final = 3_000
MAX_COPIED_BYTES: Final = 50_000_000
MAX_PROBLEMS: Final = 200
_MAX_MESSAGE_CHARS: Final = 300
_MAX_NOTES: Final = 20
_OUTPUT_BYTES: Final = 20_000_000
_PARSER: Final = "syntax check"
_OTHER_LANGUAGES: Final = {".json": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}
"""Languages without an outline, by extension."""
_WITHOUT_CHECK: Final = (".c", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
"""Without its headers, a C file has macros that are no C to a grammar."""
_SETTINGS: Final = re.compile(r"(^|/)(tsconfig[^/]*|jsconfig|pyrightconfig)\.json$")
"""Settings that are JSON with comments."""


@dataclass(frozen=True, kw_only=True)
class FoundProblem:
    """An error or a warning that a checker found in a file."""

    path: str
    """Relative to the folder that is checked, with /."""
    line: int
    """From 1."""
    column: int
    """From 1."""
    severity: Literal["Error", "Warning"]
    message: str
    source: str
    """The checker, and its rule."""
    is_syntax_error: bool = False
    """Whether the file cannot be parsed, so that the type checker leaves it out."""

    @property
    def place(self) -> tuple[str, int, int, str]:
        """What two checkers that found the same thing agree on."""
        return self.path, self.line, self.column, self.severity


@dataclass(frozen=True, kw_only=True)
class Checker:
    """A program that finds problems in Python files without executing anything of the project."""

    name: CheckerName
    files: str
    """A regular expression of the paths that it checks."""
    arguments: tuple[str, ...]
    """Those before the paths."""
    pattern: str
    """A regular expression of one problem in its output."""
    is_error: str = ".*"
    """A regular expression of the rules that are errors, whatever the program calls them."""
    is_type_checker: bool = True
    """Whether it runs after the others, and not for files with syntax errors."""
    unless: str = ""
    """The checker that is run instead where it is installed, unless the model names this one."""
    seconds: float = 90.0
    """After which a run is ended."""
    memory_bytes: int | None = 2_000_000_000
    """None for Node, which reserves more addresses than memory."""

    def takes(self, path: str) -> bool:
        """Return whether it checks a file; none with a line break in its name, which would break the output."""
        return path.isprintable() and re.fullmatch(self.files, path, re.IGNORECASE) is not None

    def find_program(self, roots: Sequence[Path]) -> tuple[str | None, bool]:
        """Return the program outside of the roots, and whether it is installed at all: a project may bring its own."""
        found = [program for folder in _program_folders() if (program := shutil.which(self.name, path=folder))]
        trusted = (program for program in found if not is_in_untrusted(program, tuple(roots)))
        return next(trusted, None), bool(found)

    def read(self, output: str, copy: Path, paths: Sequence[str]) -> Iterator[FoundProblem]:
        """Yield the problems of these files in what a run has written."""
        for found in re.finditer(self.pattern, output, re.MULTILINE):
            rule = found["rule"] or ""
            place = Path(os.path.normpath(copy.parent / found["path"]))
            path = place.relative_to(copy).as_posix() if place.is_relative_to(copy) else ""
            if path in paths:
                is_warning = found.groupdict().get("kind") == "warning" or not re.match(self.is_error, rule)
                yield FoundProblem(
                    path=path, line=max(int(found["line"]), 1), column=max(int(found["column"]), 1),
                    severity="Warning" if is_warning else "Error", message=found["message"],
                    source=f"{self.name} {rule}".strip(), is_syntax_error=rule in _SYNTAX_RULES,
                )  # fmt: skip


_SYNTAX_RULES: Final = frozenset({"invalid-syntax", "E902", "E999", "syntax"})
"""E902: the file is no UTF-8."""
_PLACE: Final = r"^ *(?P<path>/[^\n]*?):(?P<line>\d+):(?P<column>\d+)"
_PYTHON: Final = os.path.realpath(sys.executable)
_PYRIGHT_SETTINGS: Final = "pyrightconfig.json"
CHECKERS: Final = (
    Checker(
        name="ruff", files=r".*\.py[iw]?", is_type_checker=False, seconds=20.0,
        arguments=(
            "check", "--isolated", "--no-cache", "--no-fix", "--force-exclude", "--output-format=concise", "--quiet",
            "--select=F,E9,PLE", "--exit-zero", "--",
        ),
        pattern=r"^(?P<path>[^\n]*?):(?P<line>\d+):(?P<column>\d+): (?P<rule>[\w-]+):? "
        r"(?:\[\*\] )?(?P<message>[^\n]*)$",
        is_error="invalid-syntax|E9|F50|F63|F7|F82|PLE",
    ),
    Checker(
        name="pyright", files=r".*\.pyi?", memory_bytes=None,
        arguments=("--project", _PYRIGHT_SETTINGS, "--pythonpath", _PYTHON),
        pattern=_PLACE + r" - (?P<kind>error|warning): (?P<message>[^\n]*?(?:\n {4,}[^\n]*?)*)"
        r"(?: \((?P<rule>report\w+)\))?$(?!\n {4})",
    ),
    Checker(
        name="mypy", unless="pyright",
        files=r"(?:[^\W\d]\w*/)*[^\W\d]\w*\.pyi?",  # it checks nothing at all if one path is not the name of a module
        arguments=(
            "--config-file=", "--cache-dir=/dev/null", "--no-error-summary", "--ignore-missing-imports",
            "--follow-imports=silent", "--namespace-packages", "--explicit-package-bases", "--no-site-packages",
            "--show-column-numbers", "--show-absolute-path", "--no-pretty", f"--python-executable={_PYTHON}", "--",
        ),
        pattern=_PLACE + r": (?P<kind>error|warning): (?P<message>[^\n]*?)(?:  \[(?P<rule>[\w-]+)\])?$",
    ),
)  # fmt: skip


def _program_folders() -> list[str]:
    """Return the folder of Python's programs, and those of PATH that are absolute."""
    folders = [str(without_dots(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return [folder for folder in dict.fromkeys(folders) if Path(folder).is_absolute()]


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

        Python: by the checkers that are installed, with their standard settings and not those of the project. Imports
        that cannot be found are not reported. Other languages, JSON, TOML and YAML: syntax errors only.

        Args:
            uri: The path or file: URI of a file or folder. Without it: where relative paths begin.
            checkers: Use these only. Without it: all that are installed, and mypy only if pyright is not.
            skip: How many problems to leave out, to go on after a limit.
        """
        if skip < 0:
            raise ToolError("Pass a skip of at least 0.")
        place = "." if uri is None else uri
        folders = self.folders.for_call(context)
        with _project_copy() as copy:
            # All folders of the constructor: other sessions may write those that this one may not use.
            roots = (*self.folders.roots, *folders.roots)
            run = CheckRun(copy, roots=roots, chosen=checkers, is_cancelled=lambda: context.cancelled)
            with explained_misses(folders, place):
                run.copy_files(folders, place)
            context.check_cancelled()
            run.check()
            context.check_cancelled()
        return _report(run, skip=skip, max_chars=self.max_output_chars)


@contextmanager
def _project_copy() -> Iterator[Path]:
    """Yield a new folder for copies of source files: without the project's settings, plugins and links.

    Checkers run in the folder above it: an interpreter that one starts imports nothing from its own folder.
    """
    with tempfile.TemporaryDirectory(dir=private_folder.path, prefix="check-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder, "project")
        copy.mkdir()
        settings = {  # Imports are not reported: which packages the project has installed is not known here.
            "include": ["project"], "typeCheckingMode": "basic", "reportMissingImports": "none",
            "reportMissingModuleSource": "none",
            "executionEnvironments": [{"root": "project", "extraPaths": ["project/src"]}],
        }  # fmt: skip
        Path(folder, _PYRIGHT_SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        yield copy


def _walked(folders: ConfinedFolders, folder: Path, inner: str, is_cancelled: Callable[[], bool]) -> Iterator[str]:
    base = "" if inner == "." else f"{inner}/"
    for file in walk(folders, str(folder), is_cancelled=is_cancelled):
        if not _SETTINGS.search(base + file.path):
            yield base + file.path


def _language_of(path: str) -> str | None:
    """Return the language of a file that is looked at; of some files it is only said that nothing checks them."""
    extension = PurePosixPath(f"a{path.rpartition('/')[2]}").suffix.lower()
    return None if extension == ".h" else _OTHER_LANGUAGES.get(extension) or language_of(path)


def _is_python(path: str) -> bool:
    return language_of(path) == "Python"


class CheckRun:
    """One call's checks: copies the files, runs the checkers over the copy, and collects what they find."""

    def __init__(
        self, copy: Path, *, roots: tuple[Path, ...], chosen: Sequence[str] | None, is_cancelled: Callable[[], bool]
    ) -> None:
        """`roots` are the folders in which no program is run; `chosen` are names of checkers, None: the usual ones."""
        self._copy, self._roots, self._chosen, self._is_cancelled = copy, roots, chosen, is_cancelled
        self._sandbox = choose_sandbox("auto", untrusted=roots)
        self.prefix = ""
        """What precedes the paths so that models can pass them to other tools."""
        self.paths: list[str] = []
        """The files to check, relative to the folder that is copied."""
        self.has_more = False
        """Whether there are more files than are checked."""
        self.problems: list[FoundProblem] = []
        self.notes: list[str] = []
        """What could not be checked."""
        self.checked: dict[str, set[str]] = {}
        """The files by the checker that has read them."""

    def copy_files(self, folders: ConfinedFolders, uri: str) -> None:
        """Copy the files to check, and the other Python files in the same root, which Python files may import."""
        place = folders.locate(uri)
        root = max((root for root in folders.roots if place.is_relative_to(root)), key=lambda root: len(root.parts))
        self.prefix, inner = folders.prefix(root), place.relative_to(root).as_posix()
        is_folder = folders.status(uri).kind == "folder"
        wanted = _walked(folders, place, inner, self._is_cancelled) if is_folder else iter([inner])
        found = list(islice(filter(_language_of, wanted), MAX_FILES + 1))
        others = _walked(folders, root, ".", self._is_cancelled) if any(map(_is_python, found)) else iter(())
        chosen, bytes_left = found[:MAX_FILES], MAX_COPIED_BYTES
        for path in dict.fromkeys(islice(chain(chosen, filter(_is_python, others)), MAX_COPIED_FILES)):
            if bytes_left <= 0:
                break
            reason = ""
            try:
                content, _ = folders.read(folders.display(root / path), max_bytes=MAX_FILE_BYTES)
                (self._copy / path).parent.mkdir(parents=True, exist_ok=True)
                bytes_left -= (self._copy / path).write_bytes(content)
            except ToolError as error:
                reason = str(error)
            except OSError:  # a name that the temporary folder does not allow
                reason = "it could not be copied to check it."
            if path in chosen and reason:
                self.notes.append(f"{self.prefix}{path} is not checked: {reason}")
            elif path in chosen:
                self.paths.append(path)
        self.has_more = len(self.paths) + len(self.notes) < len(found)

    def check(self) -> None:
        """Check the files: syntax first, types of the files without syntax errors afterwards."""
        programs = self._programs()
        types = [checker for checker in programs if checker.is_type_checker]
        for checker, program in programs.items():
            if not checker.is_type_checker:
                self._run_checker(checker, program, self.paths)
        takes_part = [self._chosen is None or any(checker.takes(path) for checker in types) for path in self.paths]
        self._parse(set(compress(self.paths, takes_part)))
        broken = {problem.path for problem in self.problems if problem.is_syntax_error}
        for checker in types:
            self._run_checker(checker, programs[checker], [path for path in self.paths if path not in broken])

    @property
    def unchecked(self) -> list[str]:
        """The files that nothing has checked."""
        checked: set[str] = set().union(*self.checked.values())
        return [path for path in self.paths if path not in checked]

    def _programs(self) -> dict[Checker, str]:
        """Return the checkers to run on these files, with their programs."""
        found: dict[Checker, str] = {}
        for checker in CHECKERS:
            is_chosen = self._chosen is not None and checker.name in self._chosen
            if not is_chosen and (self._chosen is not None or not any(map(checker.takes, self.paths))):
                continue
            program, is_installed = checker.find_program(self._roots)
            if program is None and is_installed:
                self.notes.append(f"{checker.name} is not used, because it is in the folders that this tool may use.")
            elif program is None and is_chosen:
                self.notes.append(f"{checker.name} is not installed.")
            elif program is not None and (is_chosen or checker.unless not in {other.name for other in found}):
                found[checker] = program
        return found

    def _run_checker(self, checker: Checker, program: str, paths: Sequence[str]) -> None:
        paths = [path for path in paths if checker.takes(path)]
        if not paths or self._is_cancelled():
            return
        folder = self._copy.parent
        folders = [each for each in _program_folders() if not is_in_untrusted(f"{each}/", self._roots)]
        result = run_process(
            [program, *checker.arguments, *(str(self._copy / path) for path in paths)],
            folder=folder,
            confinement=Confinement(readable=(folder, Path(program).parent), sandbox=self._sandbox),
            limits=ProcessLimits(
                timeout=checker.seconds, memory_bytes=checker.memory_bytes, kept_bytes=_OUTPUT_BYTES, spooled_bytes=0
            ),
            environment=clean_environment(
                PATH=":".join(folders), LC_ALL="C.UTF-8", NODE_OPTIONS="--max-old-space-size=2000",
                MYPYPATH=f"{self._copy}:{self._copy / 'src'}",
            ),
            is_cancelled=self._is_cancelled,
        )  # fmt: skip
        problems = list(checker.read(f"{result.stdout.head}\n{result.stderr.text}", self._copy, paths))
        if result.ended_by == "exit" and (problems or not result.exit_code):
            known = {problem.place for problem in self.problems}
            self.problems += [problem for problem in problems if problem.place not in known]
            self.checked[checker.name] = set(paths)
            return
        late = f"it did not end within {checker.seconds:.0f} seconds"
        reason = "it did not return its results" if result.ended_by == "exit" else late
        files = paths[0] if len(paths) == 1 else _count(paths)
        self.notes.append(f"{checker.name} was not used for {files}: {reason}.")

    def _parse(self, paths: set[str]) -> None:
        """Find the syntax errors of the files that no checker has read, by the parsers of Python and of tree-sitter."""
        remaining = [path for path in self.unchecked if path in paths and _can_parse(path)]
        sources = [source for path in remaining if (source := self._source(path)) is not None]
        for reply in parse("check", sources, sandbox=self._sandbox, is_cancelled=self._is_cancelled):
            if reply.reason:
                self.notes.append(f"{reply.source.path} is not checked: {reply.reason}.")
            self.problems += [
                FoundProblem(
                    path=reply.source.path, line=line, column=column, severity="Error", message=message,
                    source=f"{reply.source.language} syntax", is_syntax_error=True,
                )
                for line, column, message in reply.problems
            ]  # fmt: skip
        if remaining:
            self.checked[_PARSER] = set(remaining)

    def _source(self, path: str) -> Source | None:
        try:
            return Source.decoded(path, str(_language_of(path)), (self._copy / path).read_bytes())
        except ToolError:
            self.notes.append(f"{path} is not checked: it is no text.")
            return None


def _can_parse(path: str) -> bool:
    language = _language_of(path)
    return language is not None and not path.lower().endswith(_WITHOUT_CHECK) and is_available(language)


def _report(run: CheckRun, *, skip: int, max_chars: int) -> str:
    """Return the problems by file and line, then which checkers were used and what was not checked."""
    problems = sorted(
        set(run.problems), key=lambda problem: (problem.path, problem.line, problem.column, problem.message)
    )
    page = problems[skip : skip + MAX_PROBLEMS]
    page = page[: len(fitting((f"FILE: {run.prefix}{each.path}{_line(each)}" for each in page), max_chars)[0])]
    if not run.paths and not run.notes:
        return "No files that can be checked."
    count = f"Found {len(problems)} problems in {len({problem.path for problem in problems})} files:"
    parts = [count if problems else "No warnings or errors found."]
    for path, found in groupby(page, key=lambda problem: problem.path):
        parts.append("\n".join([f"FILE: {invisible.escape_line(run.prefix + path)}", *map(_line, found)]))
    end = skip + len(page)
    if end < len(problems):
        shown = f"showing problems {skip + 1} to {end}. Go on with skip={end}, or pass a file as uri."
        parts.append(f"(Limit reached: {shown})")
    elif skip and not page:
        parts.append(f"(There are no more problems: skip={skip} leaves out all.)")
    return "\n\n".join([*parts, "\n".join(_coverage(run))])


def _line(problem: FoundProblem) -> str:
    message = invisible.escape_line(on_one_line(problem.message, _MAX_MESSAGE_CHARS))
    return f"[{problem.severity}] Line {problem.line}:{problem.column} - {message} ({problem.source})"


def _coverage(run: CheckRun) -> list[str]:
    """Return which checkers were used, and what was not checked and why."""
    lines = [f"Checked by {name}: {_count(paths)}." for name, paths in run.checked.items()]
    if run.has_more:
        lines.append(f"Not checked: files after the first {MAX_FILES}. Pass a smaller folder, or a file, as uri.")
    if unchecked := run.unchecked:
        extensions = ", ".join(sorted({PurePosixPath(path).suffix for path in unchecked}))
        lines.append(f"Not checked: {_count(unchecked)} ({extensions}), for which no checker could be used.")
    lines += [invisible.escape_line(on_one_line(note, _MAX_MESSAGE_CHARS)) for note in run.notes[:_MAX_NOTES]]
    return [*lines, f"And {len(run.notes) - _MAX_NOTES} more notes."] if len(run.notes) > _MAX_NOTES else lines


def _count(paths: Iterable[str]) -> str:
    count = len(list(paths))
    return "1 file" if count == 1 else f"{count} files"
