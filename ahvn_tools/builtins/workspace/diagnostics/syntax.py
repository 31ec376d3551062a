"""The syntax check of languages without a checker: the parsers of Python and of tree-sitter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from ahvn_tools.builtins.files.text import decode
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy
from ahvn_tools.builtins.workspace.source_parser.languages import language_of
from ahvn_tools.builtins.workspace.source_parser.parsing import Source, is_available, parse
from ahvn_tools.errors import ToolError

_DATA_EXTENSIONS: Final = {".json": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}
_SHELL_EXTENSIONS: Final = (".sh", ".bash")
# Without its headers, a C file has macros that are no C to a grammar.
_WITHOUT_GRAMMAR: Final = frozenset({"C", "C++", "Shell"})


def checked_language(path: str) -> str | None:
    """Return the language of a file that can be checked at all."""
    name = path.rpartition("/")[2].lower()
    extension = name[name.rfind(".") :] if "." in name else ""
    if extension in _SHELL_EXTENSIONS:
        return "Shell"
    return None if extension == ".h" else _DATA_EXTENSIONS.get(extension) or language_of(path)


def can_parse(path: str) -> bool:
    """Return whether the syntax of a file can be checked without a checker."""
    language = checked_language(path)
    return language is not None and language not in _WITHOUT_GRAMMAR and is_available(language)


def syntax_problems(
    copy: ProjectCopy,
    paths: Sequence[str],
    notes: list[str],
    *,
    sandbox: Literal["bubblewrap", "none"],
    is_cancelled: Callable[[], bool],
) -> Iterator[Problem]:
    """Yield the syntax errors of files; note which files could not be parsed."""
    sources = [source for path in paths if (source := _source(copy, path, notes)) is not None]
    for reply in parse("check", sources, sandbox=sandbox, is_cancelled=is_cancelled):
        if reply.reason:
            notes.append(f"{reply.source.path} is not checked: {reply.reason}.")
        for line, column, message in reply.problems:
            yield Problem(
                path=reply.source.path, line=line, column=column, severity="Error", message=message,
                source=f"{reply.source.language} syntax", is_syntax_error=True,
            )  # fmt: skip


def _source(copy: ProjectCopy, path: str, notes: list[str]) -> Source | None:
    language, content = checked_language(path), copy.read(path)
    try:
        if language != "Python":  # which reads the encoding from the file itself
            content = decode(content)[0].encode()
    except ToolError:
        notes.append(f"{path} is not checked: it is no text.")
        return None
    return Source(path=path, language=str(language), content=content)
