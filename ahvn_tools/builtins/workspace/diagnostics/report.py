"""The problems as a text for models."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import PurePosixPath
from typing import Final

from ahvn_tools import invisible
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.run import CheckRun
from ahvn_tools.builtins.workspace.diagnostics.targets import MAX_FILES, Targets
from ahvn_tools.builtins.workspace.source_parser.definitions import on_one_line

MAX_PROBLEMS: Final = 200
_MAX_MESSAGE_CHARS: Final = 300
_MAX_NOTES: Final = 20


def report(targets: Targets, run: CheckRun, *, skip: int, max_chars: int) -> str:
    """Return the problems by file and line, then which checkers were used and what was not checked."""
    problems = sorted(
        set(run.problems), key=lambda problem: (problem.path, problem.line, problem.column, problem.message)
    )
    page = _fitting(problems[skip : skip + MAX_PROBLEMS], targets.prefix, max_chars)
    if not targets.paths and not targets.reasons:
        return "No files that can be checked."
    parts = [_heading(problems), *_files(page, targets.prefix)]
    if skip + len(page) < len(problems):
        end = skip + len(page)
        parts.append(
            f"(Limit reached: showing problems {skip + 1} to {end}. Go on with skip={end}, or pass a file as uri.)"
        )
    elif skip and not page:
        parts.append(f"(There are no more problems: skip={skip} leaves out all.)")
    return "\n\n".join([*parts, "\n".join(_coverage(targets, run))])


def _heading(problems: list[Problem]) -> str:
    if not problems:
        return "No warnings or errors found."
    return f"Found {len(problems)} problems in {len({problem.path for problem in problems})} files:"


def _fitting(problems: list[Problem], prefix: str, max_chars: int) -> list[Problem]:
    size = 0
    for count, problem in enumerate(problems):
        size += len(_line(problem)) + len(prefix + problem.path) + 10
        if count and size > max_chars:
            return problems[:count]
    return problems


def _files(problems: Iterable[Problem], prefix: str) -> list[str]:
    blocks = []
    for path, found in groupby(problems, key=lambda problem: problem.path):
        blocks.append("\n".join([f"FILE: {invisible.escape_line(prefix + path)}", *map(_line, found)]))
    return blocks


def _line(problem: Problem) -> str:
    message = invisible.escape_line(on_one_line(problem.message, _MAX_MESSAGE_CHARS))
    return f"[{problem.severity}] Line {problem.line}:{problem.column} - {message} ({problem.source})"


def _coverage(targets: Targets, run: CheckRun) -> list[str]:
    """Return which checkers were used, and what was not checked and why."""
    lines = [f"Checked by {name}: {_count(paths)}." for name, paths in run.checked.items()]
    if targets.has_more:
        lines.append(f"Not checked: files after the first {MAX_FILES}. Pass a smaller folder, or a file, as uri.")
    unchecked = run.unchecked(targets.paths)
    if unchecked:
        extensions = ", ".join(sorted({PurePosixPath(path).suffix for path in unchecked}))
        lines.append(f"Not checked: {_count(unchecked)} ({extensions}), for which no checker could be used.")
    notes = [f"{targets.prefix}{path} is not checked: {reason}" for path, reason in targets.reasons.items()] + run.notes
    lines += [invisible.escape_line(on_one_line(note, _MAX_MESSAGE_CHARS)) for note in notes[:_MAX_NOTES]]
    return [*lines, f"And {len(notes) - _MAX_NOTES} more notes."] if len(notes) > _MAX_NOTES else lines


def _count(paths: Iterable[str]) -> str:
    count = len(list(paths))
    return "1 file" if count == 1 else f"{count} files"
