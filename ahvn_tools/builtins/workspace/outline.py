"""Outline: what the files of a project define, and in which lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ahvn_tools import invisible
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses
from ahvn_tools.builtins.workspace.lines import fitting
from ahvn_tools.builtins.workspace.parser_program import Definition, language_of
from ahvn_tools.builtins.workspace.parsing import MAX_FILE_BYTES, Reply, Source, is_available, parse
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

MAX_FILES: Final = 100
MAX_BYTES: Final = 20_000_000
"""The most bytes of files that one call parses."""

_DECLARATIONS: Final = (".d.ts", ".d.mts", ".d.cts")
_GENERATED_NAMES: Final = (
    ".min.js", ".min.mjs", "_pb2.py", "_pb2.pyi", "_pb2_grpc.py", ".pb.go", ".g.cs", ".designer.cs",
)  # fmt: skip
_GENERATED_COMMENT: Final = re.compile(
    rb"^[ \t]*(#|//|/?\*|--).*(@generated\b|\bcode generated\b.*\bdo not edit\b|<auto-?generated>)",
    re.MULTILINE | re.IGNORECASE,
)
_HEAD_BYTES: Final = 2_000
_MAX_LINE_BYTES: Final = 20_000
_MAX_REASONS: Final = 20


class OutlineTools(FolderTools):
    """The tool that shows what the files of a project define."""

    @reg_toolspec(annotations={"readOnlyHint": True}, tags={"files", "read", "search"}, output_schema=None)
    def project_outline(self, context: ToolContext, uri: str = ".", signatures: bool = False, skip: int = 0) -> str:
        """List the classes, functions and methods of a file, or of all source files in a folder, with their lines.

        After each name stand its first and last line, for partially_read_by_range. Left out are functions in functions,
        and in a folder: hidden files, those that .gitignore names, and *.d.ts. A result has 100 files at most.

        Args:
            uri: The path or file: URI of a file or folder; . is where relative paths begin.
            signatures: Whether to show parameters, return types and base classes instead of names only.
            skip: How many files to leave out, to go on after a limit.
        """
        if skip < 0:
            raise ToolError("Pass a skip of at least 0.")
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            page = _find_candidates(folders, uri, skip, is_cancelled=lambda: context.cancelled)
        context.check_cancelled()
        replies: dict[str, Reply] = {}
        sandbox = choose_sandbox("auto", untrusted=[*self.folders.roots, *folders.roots])
        for reply in parse("outline", page.sources, sandbox=sandbox, is_cancelled=lambda: context.cancelled):
            replies[reply.source.path] = reply
        context.check_cancelled()
        return _report(page, replies, with_signatures=signatures, max_chars=self.max_output_chars)


@dataclass(kw_only=True)
class Candidates:
    """The source files of one call."""

    skip: int
    """How many files are left out because earlier calls showed them."""
    paths: list[str] = field(default_factory=list)
    """All of them in their order."""
    sources: list[Source] = field(default_factory=list)
    """Those to parse."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why the others are not parsed."""
    without_grammar: dict[str, int] = field(default_factory=dict)
    """How many files have a language whose grammar is not installed, by language."""
    has_more: bool = False
    """Whether there are more files after them."""


def _find_candidates(
    folders: ConfinedFolders, uri: str, skip: int, *, is_cancelled: Callable[[], bool]
) -> Candidates:  # fmt: skip
    """Read the source files of one call. Raises ToolError for what is neither a file nor a folder."""
    found = Candidates(skip=skip)
    is_folder = folders.status(uri).kind == "folder"
    paths = _walked(folders, uri, is_cancelled) if is_folder else iter([folders.display(uri)])
    bytes_left = MAX_BYTES
    for position, path in enumerate(paths):
        if position < skip:
            continue
        if len(found.paths) == MAX_FILES or bytes_left <= 0:
            found.has_more = True
            break
        found.paths.append(path)
        bytes_left -= _add(found, folders, path, is_chosen=not is_folder)
    return found


def _walked(folders: ConfinedFolders, folder: str, is_cancelled: Callable[[], bool]) -> Iterator[str]:
    prefix = folders.prefix(folder)
    for file in walk(folders, folder, is_cancelled=is_cancelled):
        if language_of(file.path) is not None and not file.path.endswith(_DECLARATIONS):
            yield prefix + file.path


def _add(found: Candidates, folders: ConfinedFolders, path: str, *, is_chosen: bool) -> int:
    """Add a file, or why it is left out, and return how many bytes are to be parsed."""
    language = language_of(path)
    if language is None:
        found.reasons[path] = "its language is not known. Read it instead."
    elif not is_available(language):
        found.without_grammar[language] = found.without_grammar.get(language, 0) + 1
    else:
        try:
            found.sources.append(_source(folders, path, language, is_chosen=is_chosen))
            return len(found.sources[-1].content)
        except ToolError as error:
            found.reasons[path] = str(error)
    return 0


def _source(folders: ConfinedFolders, path: str, language: str, *, is_chosen: bool) -> Source:
    """Read a file. Raises ToolError with the reason why it is left out."""
    with folders.open(path) as (file, status):
        if status.size > MAX_FILE_BYTES:
            raise ToolError(f"it has {status.size:,} bytes, more than {MAX_FILE_BYTES:,}. Search in it instead.")
        content = file.read(MAX_FILE_BYTES + 1)
    if not is_chosen and (reason := _reason_to_skip(path, content)):
        raise ToolError(f"{reason} Pass its path as uri to outline it.")
    return Source.decoded(path, language, content)


def _reason_to_skip(path: str, content: bytes) -> str | None:
    """Return why a file is of no interest among others."""
    if path.lower().endswith(_GENERATED_NAMES) or _GENERATED_COMMENT.search(content[:_HEAD_BYTES]):
        return "a program has generated it."
    if any(len(line) > _MAX_LINE_BYTES for line in content.split(b"\n")):
        return f"it has a line of more than {_MAX_LINE_BYTES:,} bytes."
    return None


def _report(page: Candidates, replies: Mapping[str, Reply], *, with_signatures: bool, max_chars: int) -> str:
    """Return the definitions of each file, then what is not outlined, then how to go on."""
    if not page.paths:
        return (
            "No matching files found."
            if not page.skip
            else f"There are no more files: skip={page.skip} leaves out all."
        )
    blocks, shown = _blocks(page, replies, with_signatures, max_chars)
    reasons = {path: reason for path in page.paths[:shown] if (reason := _reason(page, replies, path))}
    parts = [
        _limit(page, shown) if page.has_more or shown < len(page.paths) else "",
        *(blocks or ["No structure extracted from files."]),
        _not_outlined(reasons, page.without_grammar),
    ]
    return "\n\n".join(part for part in parts if part)


def _blocks(
    page: Candidates, replies: Mapping[str, Reply], with_signatures: bool, max_chars: int
) -> tuple[list[str], int]:  # fmt: skip
    """Return a text for each file that defines something, and how many files fit into the result."""
    blocks: list[str] = []
    size = 0
    for position, path in enumerate(page.paths):
        reply = replies.get(path)
        if reply is None or not reply.definitions:
            continue
        block = _block(reply, with_signatures, max_chars)
        size += len(block) + 2
        if blocks and size > max_chars:
            return blocks, position
        blocks.append(block)
    return blocks, len(page.paths)


def _block(reply: Reply, with_signatures: bool, max_chars: int) -> str:
    """Return the definitions of a file, as many as fit."""
    name = f"File: {invisible.escape_line(reply.source.path)}"
    definitions = (_line(definition, with_signatures) for definition in reply.definitions)
    lines, is_whole = fitting([name, *definitions], max_chars)
    if not (is_whole and reply.is_complete):
        last = reply.definitions[max(len(lines) - 2, 0)].first_line
        lines.append(f"(Limit reached: the file defines more after line {last}. Search in it for the rest.)")
    return "\n".join(lines)


def _line(definition: Definition, with_signatures: bool) -> str:
    text = definition.signature if with_signatures else definition.name
    first, last = definition.first_line, definition.last_line
    place = f"{first}" if first == last else f"{first}-{last}"
    return f"{'  ' * definition.depth}- {definition.kind} {invisible.escape_line(text)} [{place}]"


def _reason(page: Candidates, replies: Mapping[str, Reply], path: str) -> str | None:
    return page.reasons.get(path) or (replies[path].reason if path in replies else None)


def _limit(page: Candidates, shown: int) -> str:
    end = page.skip + shown
    files = f"first {shown} files" if not page.skip else f"files {page.skip + 1} to {end}"
    return f"(Limit reached: showing {files}. Go on with skip={end}.)"


def _not_outlined(reasons: Mapping[str, str], without_grammar: Mapping[str, int]) -> str:
    lines = [f"- {invisible.escape_line(path)}: {reason}" for path, reason in list(reasons.items())[:_MAX_REASONS]]
    if len(reasons) > _MAX_REASONS:
        lines.append(f"- and {len(reasons) - _MAX_REASONS} more files")
    if without_grammar:
        count = sum(without_grammar.values())
        languages = ", ".join(sorted(without_grammar))
        lines.append(
            f'- {count} files of {languages}: this needs `pip install "ahvn-tools[outline]"` where the tool runs.'
        )
    return "\n".join(["Not outlined:", *lines]) if lines else ""
