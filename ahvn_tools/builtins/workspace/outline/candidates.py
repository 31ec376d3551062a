"""Candidates: the source files that one call outlines, and those that it leaves out with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.text import decode
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.builtins.workspace.source_parser.languages import language_of
from ahvn_tools.builtins.workspace.source_parser.parsing import MAX_FILE_BYTES, Source, is_available
from ahvn_tools.errors import ToolError

MAX_FILES: Final = 100
MAX_BYTES: Final = 20_000_000
"""The most bytes of files that one call parses."""

_DECLARATIONS: Final = (".d.ts", ".d.mts", ".d.cts")
_GENERATED_NAMES: Final = (
    ".min.js",
    ".min.mjs",
    "_pb2.py",
    "_pb2.pyi",
    "_pb2_grpc.py",
    ".pb.go",
    ".g.cs",
    ".designer.cs",
)
_GENERATED_COMMENT: Final = re.compile(
    rb"^[ \t]*(#|//|/?\*|--).*(@generated\b|\bcode generated\b.*\bdo not edit\b|<auto-?generated>)",
    re.MULTILINE | re.IGNORECASE,
)
_HEAD_BYTES: Final = 2_000
_MAX_LINE_BYTES: Final = 20_000


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


def find_candidates(
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
    base = folders.display(folder)
    for file in walk(folders, folder, is_cancelled=is_cancelled):
        if language_of(file.path) is not None and not file.path.endswith(_DECLARATIONS):
            yield file.path if base == "." else f"{base.rstrip('/')}/{file.path}"


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
    if language != "Python":  # which reads the encoding from the file itself
        content = decode(content)[0].encode()
    return Source(path=path, language=language, content=content)


def _reason_to_skip(path: str, content: bytes) -> str | None:
    """Return why a file is of no interest among others."""
    if path.lower().endswith(_GENERATED_NAMES) or _GENERATED_COMMENT.search(content[:_HEAD_BYTES]):
        return "a program has generated it."
    if any(len(line) > _MAX_LINE_BYTES for line in content.split(b"\n")):
        return f"it has a line of more than {_MAX_LINE_BYTES:,} bytes."
    return None
