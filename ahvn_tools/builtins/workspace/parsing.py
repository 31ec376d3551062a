"""Runs the parsing process, again if a file ends it, until every file has a reply or the time is over."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from ahvn_tools.builtins.files.text import decode
from ahvn_tools.builtins.processes.process import ProcessResult, module_folder, run_isolated_python
from ahvn_tools.builtins.workspace import parser_program
from ahvn_tools.builtins.workspace.parser_program import LANGUAGES, READY, Definition, SyntaxProblem
from ahvn_tools.errors import ToolError
from ahvn_tools.roots import without_dots

SECONDS_PER_FILE: Final = 5.0
SECONDS_IN_ALL: Final = 30.0
MEMORY_BYTES: Final = 1_000_000_000
MAX_FILE_BYTES: Final = 1_000_000
"""The size up to which a file is parsed."""

_MODULES_BY_DATA: Final = {"YAML": ("yaml",), "JSON": (), "TOML": (), "Python": ()}


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to parse."""

    path: str
    """As models read it."""
    language: str
    content: bytes

    @classmethod
    def decoded(cls, path: str, language: str, content: bytes) -> Source:
        """Return a source whose content is UTF-8, but for Python, which declares it. Raises ToolError for binary."""
        if language != "Python":
            content = decode(content)[0].encode()
        return cls(path=path, language=language, content=content)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the parsing process found in a file."""

    source: Source
    definitions: list[Definition] = field(default_factory=list)
    problems: list[SyntaxProblem] = field(default_factory=list)
    is_complete: bool = True
    """Whether these are all definitions."""
    reason: str | None = None
    """Why the file could not be parsed."""


def is_available(language: str) -> bool:
    """Return whether the packages are installed that parse a language."""
    return all(module_folder(module) is not None for module in _modules(language))


def parse(
    task: Literal["outline", "check"],
    sources: Sequence[Source],
    *,
    sandbox: Literal["bubblewrap", "none"],
    is_cancelled: Callable[[], bool],
) -> Iterator[Reply]:
    """Yield a reply for each file in their order; fewer if it is cancelled. Raises ToolError if no process starts.

    `sandbox` is what `choose_sandbox` returned for the folders of the files.
    """
    deadline = time.monotonic() + SECONDS_IN_ALL
    remaining = list(sources)
    while remaining and not is_cancelled():
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            yield from (
                Reply(source=source, reason="not parsed, because the others took too long") for source in remaining
            )
            return
        ready, *lines = _run(task, remaining, seconds, sandbox, is_cancelled).stdout.head.split("\n")
        if is_cancelled():
            return
        if ready != READY:
            raise ToolError("The files cannot be parsed, because the process that parses them could not be started.")
        lines = lines[:-1]  # the last may be cut off
        for source, line in zip(remaining, lines, strict=False):
            yield _reply(source, line)
        remaining = remaining[len(lines) :]
        if remaining:
            yield Reply(source=remaining.pop(0), reason="takes too much time or memory to parse")


def _run(
    task: str,
    sources: list[Source],
    seconds: float,
    sandbox: Literal["bubblewrap", "none"],
    is_cancelled: Callable[[], bool],
) -> ProcessResult:
    program = without_dots(parser_program.__file__)
    return run_isolated_python(
        [str(program), str(SECONDS_PER_FILE)],
        folder=program.parent, modules={module for source in sources for module in _modules(source.language)},
        timeout=seconds, memory_bytes=MEMORY_BYTES, sandbox=sandbox,
        stdin=b"".join(_request(task, source) for source in sources), is_cancelled=is_cancelled,
    )  # fmt: skip


def _request(task: str, source: Source) -> bytes:
    header = {"task": task, "language": source.language, "size": len(source.content)}
    return json.dumps(header).encode() + b"\n" + source.content


def _reply(source: Source, line: str) -> Reply:
    found = json.loads(line)
    return Reply(
        source=source,
        definitions=[Definition(*values) for values in found.get("definitions", [])],
        problems=[SyntaxProblem(*values) for values in found.get("problems", [])],
        is_complete=found.get("is_complete", True), reason=found.get("reason"),
    )  # fmt: skip


def _modules(language: str) -> tuple[str, ...]:
    known = _MODULES_BY_DATA.get(language)
    return known if known is not None else ("tree_sitter", LANGUAGES[language][1])
