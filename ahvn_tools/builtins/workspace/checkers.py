"""The checkers that `get_warning_error` runs, and how their output is read.

All of them only read the source files. None may execute code of the project, load its plugins or run its programs. That
is why these are missing: ESLint and Babel (configuration is code), Cargo and rustup (build scripts, and toolchains that
the project names), `go vet` (cgo, toolchains), `perl -c` (BEGIN blocks), Make, Gradle and Maven.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.processes.confinement import is_in_untrusted
from ahvn_tools.builtins.processes.private_folder import private_folder
from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.roots import without_dots

MAX_SINGLE_FILES: Final = 50
"""The most files of checkers that run once for each file."""


class UnreadableOutputError(Exception):
    """A checker failed, or wrote something other than its problems. The message says why, for a model."""


@dataclass(frozen=True, kw_only=True)
class Problem:
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


class ProjectCopy:
    """Copies of source files, which checkers read instead of the project: without its settings, plugins and links."""

    def __init__(self, folder: Path) -> None:
        self.settings_folder = folder
        """The folder above the files: checkers run in it, and find the settings that they write themselves."""
        self.folder = folder / "project"
        self.folder.mkdir()

    def add(self, path: str, content: bytes) -> None:
        """Copy a file; its path is relative, with /."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def read(self, path: str) -> bytes:
        """Return the content of a copied file."""
        return (self.folder / path).read_bytes()

    def absolute(self, path: str) -> str:
        """Return the absolute path of a copied file: no program reads it as an option."""
        return str(self.folder / path)

    def relative(self, path: str) -> str | None:
        """Return the path of a copied file as it was added, from an absolute one or one as checkers see it."""
        full = os.path.normpath(self.settings_folder / path)
        return Path(full).relative_to(self.folder).as_posix() if Path(full).is_relative_to(self.folder) else None


@contextmanager
def project_copy() -> Iterator[ProjectCopy]:
    """Yield an empty copy, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=private_folder.path, prefix="check-", ignore_cleanup_errors=True) as folder:
        yield ProjectCopy(Path(folder))


@dataclass(frozen=True, kw_only=True)
class Checker:
    """A program that finds problems in files without executing anything of the project."""

    name: str
    files: str
    """A regular expression of the paths that it checks."""
    arguments: Callable[[ProjectCopy, Sequence[str]], list[str]]
    """Return the arguments for some files of the copy."""
    pattern: str
    """A regular expression of one problem in its output, with the groups `line` and `message`, and some of `path`,
    `column`, `marks` (the spaces before a mark below the line), `kind` (an error or a warning) and `rule`."""
    programs: tuple[str, ...] = ()
    """Other names of the program; the first that is installed is run."""
    warnings: str = "(?!)"
    """What rules and messages begin with that are warnings, whatever the program calls them."""
    is_parser: bool = False
    """Whether all that it finds are syntax errors."""
    is_single: bool = False
    """Whether it runs once for each file."""
    is_type_checker: bool = False
    """Whether it runs after the others, and not for files with syntax errors."""
    reads_stdin: bool = False
    unless: str = ""
    """The checker that is run instead where it is installed, unless the model names this one."""
    needs_sandbox: bool = False
    """Whether its source files can make the program read files of other folders."""
    seconds: float = 20.0
    """After which one run is ended."""
    memory_bytes: int | None = 2_000_000_000
    """None for programs that reserve more addresses than memory: Node and Java."""

    def takes(self, path: str) -> bool:
        """Return whether it checks a file; none with a line break in its name, which would break the output."""
        return path.isprintable() and re.fullmatch(self.files, path, re.IGNORECASE) is not None

    def batches(self, paths: Sequence[str]) -> list[Sequence[str]]:
        """Return the files of each run."""
        fitting = [path for path in paths if self.takes(path)]
        if self.is_single:
            return [[path] for path in fitting[:MAX_SINGLE_FILES]]
        return [fitting] if fitting else []

    def read(self, copy: ProjectCopy, paths: Sequence[str], result: ProcessResult) -> list[Problem]:
        """Return the problems of the files in what a run has written. Raises UnreadableOutputError."""
        output = f"{result.stdout.head}\n{result.stderr.text}"
        if self.needs_sandbox:
            _check_included(copy, paths[0], output)
        found = list(re.finditer(self.pattern, output, re.MULTILINE))
        if result.exit_code and not found:
            raise UnreadableOutputError("it did not return its results")
        return [problem for each in found if (problem := self._problem(copy, paths, each)) is not None]

    def _problem(self, copy: ProjectCopy, paths: Sequence[str], found: re.Match[str]) -> Problem | None:
        groups = {"path": copy.absolute(paths[0]), "column": None, "marks": None, "kind": None, "rule": None}
        groups |= found.groupdict()
        rule = groups["rule"] or ""
        path = copy.relative(groups["path"] or "")
        if path is None or path not in paths:
            return None
        is_warning = groups["kind"] == "warning" or re.match(self.warnings, rule or found["message"])
        return Problem(
            path=path, line=max(int(found["line"]), 1), message=found["message"],
            column=max(int(groups["column"] or 0), len(groups["marks"] or "") + 1),
            severity="Warning" if is_warning else "Error", source=f"{self.name} {rule}".strip(),
            is_syntax_error=self.is_parser or rule in _SYNTAX_RULES,
        )  # fmt: skip


_SYNTAX_RULES: Final = frozenset({"invalid-syntax", "E902", "E999", "syntax"})
"""E902: the file is no UTF-8."""
_PLACE: Final = r"^ *(?P<path>/[^\n]*?):(?P<line>\d+):(?P<column>\d+)"
_PYTHON: Final = f"--python-executable={os.path.realpath(sys.executable)}"
# Imports are not reported: which packages the project has installed is not known here.
_PYRIGHT_SETTINGS: Final = {
    "include": ["project"],
    "typeCheckingMode": "basic",
    "reportMissingImports": "none",
    "reportMissingModuleSource": "none",
    "executionEnvironments": [{"root": "project", "extraPaths": ["project/src"]}],
}
_MODULE: Final = re.compile(rb"^[ \t]*(?:import\b[ \t]*[\w{*\"']|export\b[ \t]*[\w{*])", re.MULTILINE)


def _run_pyright(copy: ProjectCopy, paths: Sequence[str]) -> list[str]:
    settings = copy.settings_folder / "pyrightconfig.json"
    settings.write_text(json.dumps(_PYRIGHT_SETTINGS), encoding="utf-8")
    python = os.path.realpath(sys.executable)
    return ["--project", str(settings), "--pythonpath", python, *map(copy.absolute, paths)]


def _run_node(copy: ProjectCopy, paths: Sequence[str]) -> list[str]:
    path = paths[0]
    is_module = path.endswith(".mjs") or (not path.endswith(".cjs") and _MODULE.search(copy.read(path)) is not None)
    # By stdin: Node takes a module in a .js file for correct whatever it contains.
    return ["--check", f"--input-type={'module' if is_module else 'commonjs'}", "-"]


CHECKERS: Final = (
    Checker(
        name="ruff", files=r".*\.py[iw]?",
        arguments=lambda copy, paths: [
            "check", "--isolated", "--no-cache", "--no-fix", "--force-exclude", "--output-format=concise", "--quiet",
            "--select=F,E9,PLE", "--exit-zero", "--", *map(copy.absolute, paths),
        ],
        pattern=r"^(?P<path>[^\n]*?):(?P<line>\d+):(?P<column>\d+): (?P<rule>[\w-]+):? (?:\[\*\] )?"
        r"(?P<message>[^\n]*)$",
        warnings=r"(?!invalid-syntax|E9|F50|F63|F7|F82|PLE)",
    ),
    Checker(  # It parses and does not execute.
        name="node", files=r".*\.[mc]?js", arguments=_run_node, is_parser=True, is_single=True, reads_stdin=True,
        pattern=r"^\[stdin\]:(?P<line>\d+)\n(?:[^\n]*\n(?P<marks> *)\^)?(?:[^\n]*\n)*?(?P<message>\w*Error: [^\n]*)",
        memory_bytes=None,
    ),
    Checker(  # It parses and does not execute.
        name="bash", files=r".*\.(?:ba)?sh", is_parser=True, is_single=True,
        arguments=lambda copy, paths: ["--norc", "--noprofile", "-n", copy.absolute(paths[0])],
        # without a second line that repeats the source
        pattern=r"^(?P<path>/[^\n]*?): line (?P<line>\d+): (?:(?P<kind>warning): )?(?P<message>[^`\n][^\n]*)$",
    ),
    Checker(  # It stops after parsing, and runs no annotation processors: the packages of the project are not known.
        name="javac", files=r".*\.java", is_parser=True, seconds=60.0, memory_bytes=None,
        arguments=lambda copy, paths: [
            "-J-Xmx512m", "-J-XX:+UseSerialGC", "-proc:none", "-implicit:none", "-Xlint:none", "-encoding", "UTF-8",
            "-XDshould-stop.ifError=PARSE", "-XDshould-stop.ifNoError=PARSE", "-Xmaxerrs", "200",
            "-d", str(copy.settings_folder), "-classpath", str(copy.settings_folder), *map(copy.absolute, paths),
        ],
        pattern=r"^(?P<path>/[^\n]*\.java):(?P<line>\d+): (?P<kind>error|warning): (?P<message>[^\n]*)"
        r"(?:\n[^\n]*\n(?P<marks> *)\^)?",
    ),
    Checker(
        # A source file can make the compiler read any file: `#include "/etc/passwd"` shows its words in messages. So it
        # runs in a sandbox only, and the files that it has read are checked.
        name="gcc", files=r".*\.(?:c|cc|cpp|cxx)", is_single=True, needs_sandbox=True,
        arguments=lambda copy, paths: [
            "-fsyntax-only", "-Wall", "-H", "-fdiagnostics-color=never", "-fmax-errors=50", f"-I{copy.folder}",
            f"-I{copy.folder / 'include'}", f"-I{copy.folder / 'src'}", copy.absolute(paths[0]),
        ],
        pattern=_PLACE + r": (?:fatal )?(?P<kind>error|warning): (?P<message>[^\n]*)$",
        warnings=r".*: No such file or directory$",  # where the headers of other packages are is not known here
    ),
    Checker(
        name="pyright", programs=("basedpyright",), files=r".*\.pyi?", arguments=_run_pyright, is_type_checker=True,
        seconds=90.0, memory_bytes=None,
        pattern=_PLACE + r" - (?P<kind>error|warning): (?P<message>[^\n]*?(?:\n {4,}[^\n]*?)*)"
        r"(?: \((?P<rule>report\w+)\))?$(?!\n {4})",
    ),
    Checker(
        name="mypy", is_type_checker=True, unless="pyright", seconds=90.0,
        files=r"(?:[^\W\d]\w*/)*[^\W\d]\w*\.pyi?",  # it checks nothing at all if one path is not the name of a module
        arguments=lambda copy, paths: [
            "--config-file=", "--cache-dir=/dev/null", "--no-error-summary", "--ignore-missing-imports",
            "--follow-imports=silent", "--namespace-packages", "--explicit-package-bases", "--no-site-packages",
            "--show-column-numbers", "--show-absolute-path", "--no-pretty", _PYTHON, "--", *map(copy.absolute, paths),
        ],
        pattern=_PLACE + r": (?P<kind>error|warning): (?P<message>[^\n]*?)(?:  \[(?P<rule>[\w-]+)\])?$",
    ),
)  # fmt: skip


_INCLUDED: Final = re.compile(r"^(?:\.+|!|x) (?P<path>/[^\n]*)$", re.MULTILINE)
_SYSTEM_FOLDERS: Final = ("/usr/include/", "/usr/lib/", "/usr/lib64/", "/usr/local/include/")
_SPLICE: Final = re.compile(rb"(?:\\|\?\?/)[ \t\f\v]*\r?\n")


def _check_included(copy: ProjectCopy, path: str, output: str) -> None:
    """Raise UnreadableOutputError if the compiler may have read a file that is neither the project's nor a header."""
    included = {found["path"]: copy.relative(found["path"]) for found in _INCLUDED.finditer(output)}
    others = [place for place, own in included.items() if own is None]
    if any(not os.path.realpath(place).startswith(_SYSTEM_FOLDERS) for place in others):
        raise UnreadableOutputError(f"{path} includes a file of another folder")
    # #embed is not among the files that -H names.
    files = [path, *(own for own in included.values() if own is not None)]
    if any(re.search(rb"\bembed\b", _SPLICE.sub(b"", copy.read(file))) for file in files):
        raise UnreadableOutputError(f"{path} uses #embed")


def program_folders(roots: Sequence[Path]) -> list[str]:
    """Return the folder of Python's programs and those of PATH that are absolute and outside of the roots."""
    return [folder for folder in _all_folders() if not is_in_untrusted(f"{folder}/", tuple(roots))]


def find_program(checker: Checker, roots: Sequence[Path]) -> tuple[str | None, bool]:
    """Return the program outside of the roots, and whether it is installed at all: a project may bring its own."""
    names = (checker.name, *checker.programs)
    found = [program for name in names for folder in _all_folders() if (program := shutil.which(name, path=folder))]
    trusted = (program for program in found if not is_in_untrusted(program, tuple(roots)))
    return next(trusted, None), bool(found)


def _all_folders() -> list[str]:
    folders = [str(without_dots(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return [folder for folder in dict.fromkeys(folders) if Path(folder).is_absolute()]
