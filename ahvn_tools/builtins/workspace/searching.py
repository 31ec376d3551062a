"""Tools that list folders, and find files by their names and by the lines in them."""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from ahvn_tools.builtins.files.file_status import FileKind
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.text import GUESSED_ENCODINGS, find_codec
from ahvn_tools.builtins.files.walk import WalkedFile, walk
from ahvn_tools.builtins.workspace.folder_tools import READS, FolderTools, explained_misses, in_one_form, shown
from ahvn_tools.builtins.workspace.lines import Page, TextFile, bare_lines, fitting
from ahvn_tools.builtins.workspace.near_lines import describe_near_keyword
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of encodings whose characters have more than one byte."""
UNSEARCHED_ENCODINGS: Final = ("utf-32-le", "utf-32-be")
_ENCODINGS: Final = ("utf-8", *GUESSED_ENCODINGS)
"""Those that a file may have without the caller's word."""
MAX_CHARS: Final = 1_000
"""A longer keyword would take seconds to prepare."""
_LINES_PER_CHECK: Final = 10_000


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line with a match."""

    index: int
    start: int
    """Where the first match begins in the line, and where it ends: indexes of characters."""
    end: int


class Keyword:
    """A literal text; it is no pattern, so that no search hangs."""

    def __init__(self, text: str, *, ignore_case: bool = False, encoding: str | None = None) -> None:
        """Raise ToolError for a text that no line contains. `encoding` is that of the files that are no UTF-8."""
        if not text or "\n" in text or "\r" in text:
            raise ToolError("Pass a keyword of one line that is not empty.")
        if len(text) > MAX_CHARS:
            raise ToolError(f"The keyword has {len(text):,} characters. Pass a part of it, of at most {MAX_CHARS:,}.")
        self.text = text
        self.encoding = None if encoding is None else find_codec(encoding)
        self._in_line = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)
        self._folded = text.lower().encode() if ignore_case and text.isascii() else b""
        self._is_anywhere = encoding is not None or (ignore_case and not text.isascii())
        self._forms = {text.encode()} if text.isascii() else {_encoded(text, each) for each in _ENCODINGS} - {b""}

    def find_lines(self, lines: list[str], is_over: Callable[[], bool]) -> Iterator[FoundLine]:
        """Yield the first match of each line that has one, until it is over."""
        for index, line in enumerate(lines):
            if index % _LINES_PER_CHECK == 0 and is_over():
                return
            if (match := self._in_line.search(line)) is not None:
                yield FoundLine(index, *match.span())

    def may_be_in(self, content: bytes) -> bool:
        """Return False only if no line of the file contains the keyword: quickly, without decoding."""
        if self._is_anywhere or content.startswith(_WIDE_MARKS):
            return True
        if self._folded:  # letters that are not ASCII may be the same as an ASCII letter in another case
            return not content.isascii() or self._folded in content.lower()
        return any(form in content for form in self._forms)


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return b""


_MAX_MEMORY: Final = 1 << 20
"""Bytes of a compiled pattern, with its cache; RE2 refuses a larger one."""
_STEPS: Final = 60_000_000
"""Size of the compiled pattern times bytes of one call of RE2, which cannot be interrupted: about 2 seconds at most."""
_MIN_WINDOW, _MAX_WINDOW = 4_096, 65_536
"""Bytes that one call of RE2 reads, which may take 10 seconds with the largest pattern. Half of a window is read again
with the next one if it is within one line."""
_SEVERAL_LINES: Final = re.compile(r"(?<!\\)(?:\\\\)*\\n")
_ESCAPE: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\.")
_ENDS_OF_TEXT: Final = {r"\A": "^", r"\z": "$", r"\Z": "$"}
"""A line is the whole text of a match, so they are the ends of a line."""
_EXCLUDED_CHARACTERS: Final = re.compile(r"\[\^(?:\\.|[^\]\\])*\]")


class Pattern:
    """A regular expression of RE2, whose matches are within one line."""

    def __init__(self, text: str, *, ignore_case: bool, encoding: str | None = None) -> None:
        """Raise ToolError for what RE2 does not accept, and where it is not installed."""
        try:
            import re2
        except ImportError:
            needs = 'A regular expression needs `pip install "ahvn-tools[search]"` where the tool runs.'
            raise ToolError(f"{needs} Search for a literal text with regex=false.") from None
        if not text or len(text) > MAX_CHARS:
            raise ToolError(f"Pass a regular expression that is not empty, of at most {MAX_CHARS:,} characters.")
        if "\n" in text or "\r" in text or _SEVERAL_LINES.search(_EXCLUDED_CHARACTERS.sub("", text)):
            raise ToolError(
                "A match is within one line. Pass a regular expression without line ends, for one of the lines."
            )
        text = _ESCAPE.sub(lambda found: _ENDS_OF_TEXT.get(found[0], found[0]), text)
        self.encoding = None if encoding is None else find_codec(encoding)
        options = re2.Options()
        options.log_errors, options.never_nl, options.never_capture = False, True, True
        options.max_mem, options.case_sensitive = _MAX_MEMORY, not ignore_case
        try:
            self._compiled = re2.compile(f"(?m){text}", options)
        except re2.error as error:
            raise _refused(error.args[0]) from None
        except UnicodeEncodeError:
            raise ToolError("The regular expression has half of a character (a surrogate). Remove it.") from None
        self._window = max(_MIN_WINDOW, min(_MAX_WINDOW, _STEPS // self._compiled.programsize))

    def may_be_in(self, content: bytes) -> bool:  # noqa: ARG002  # as that of Keyword
        """Return True: only the lines tell."""
        return True

    def find_lines(self, lines: list[str], is_over: Callable[[], bool]) -> Iterator[FoundLine]:
        """Yield the first match of each line that has one, until it is over."""
        data = "\n".join(lines).encode()
        position = counted = number = 0
        while lines and position <= len(data) and not is_over():
            end, following = self._next_window(data, position)
            match = self._compiled.search(data, position, end)
            if match is None:
                position = following
                continue
            number += data.count(b"\n", counted, match.start())
            counted = match.start()
            start = data.rfind(b"\n", 0, counted) + 1
            before = len(data[start:counted].decode(errors="replace"))  # RE2 can begin and end inside of a character
            yield FoundLine(number, before, before + len(data[counted : match.end()].decode(errors="replace")))
            end_of_line = data.find(b"\n", match.end())
            position = end_of_line + 1 if end_of_line >= 0 else len(data) + 1

    def _next_window(self, data: bytes, position: int) -> tuple[int, int]:
        """Return where the next bytes to read end, which is the end of a line where possible, and those after them."""
        limit = position + self._window
        if limit >= len(data):
            return len(data), len(data) + 1
        end = data.rfind(b"\n", position, limit)
        return (end, end + 1) if end >= 0 else (limit, limit - self._window // 2)


def _refused(error: bytes | str) -> ToolError:
    reason = (error.decode(errors="replace") if isinstance(error, bytes) else error).partition(":")[0]
    return ToolError(
        f"The regular expression is not accepted: {reason}. The syntax is that of RE2, without lookaround (?=…), "
        "(?!…), (?<=…), backreferences \\1 and repetitions of more than 1000. Write a simpler one."
    )


MAX_TEXT_CHARS: Final = 300
"""A longer line is cut in a result."""
SECONDS: Final = 60.0
"""After this time a search ends with what it has found."""
_NEAR_SECONDS: Final = 2.0
_NEAR_FILES: Final = 2_000
"""How long, and in how many files, a search without a match looks for what only looks like the keyword."""
_MAX_CONTEXT: Final = 50
_MAX_GLOB_CHARS: Final = 200
_MAX_GLOBS: Final = 50
_FILE_TYPES: Final = {
    "c": "c h",
    "c++": "cpp cc cxx hpp hh hxx h",
    "csharp": "cs",
    "css": "css scss sass less",
    "html": "html htm xhtml",
    "javascript": "js jsx mjs cjs",
    "json": "json jsonl jsonc json5",
    "kotlin": "kt kts",
    "markdown": "md markdown mdx",
    "perl": "pl pm",
    "python": "py pyi pyw",
    "ruby": "rb rake gemspec",
    "rust": "rs",
    "shell": "sh bash zsh",
    "text": "txt",
    "typescript": "ts tsx mts cts",
    "xml": "xml xsd xsl xslt",
    "yaml": "yaml yml",
}
"""Extensions by language; any other name is an extension."""
_MAX_GUESSES: Final = 5
"""How many files with a guessed encoding a result names."""
MAX_ENTRIES: Final = 1_000
"""The most members of a folder in one result."""
_LABELS: Final[dict[FileKind, str]] = {"folder": "[DIR ]", "file": "[FILE]", "link": "[LINK]", "other": "[UNKN]"}


class SearchingTools(FolderTools):
    """Tools that list folders, and find files by their names and by the lines in them."""

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def ls(self, uri: str, context: ToolContext, skip: int = 0) -> str:
        """List a folder, without the content of its folders: folders first, then files, by name.

        Args:
            uri: The path or file: URI of the folder; . is where relative paths begin.
            skip: How many members to leave out, to go on after a long result.
        """
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            if folders.status(uri).kind != "folder":
                raise ToolError(f"{shown(uri)!r} is no folder. Read it with read_file, or pass a folder.")
            kinds = folders.scan(uri)
        page = Page(skip, MAX_ENTRIES)
        names = sorted(sorted(kinds), key=str.casefold)  # two sorts without a function of Python are fastest
        names.sort(key=lambda name: kinds[name] != "folder")
        lines = [f"{_LABELS[kinds[name]]} {shown(name)}" for name in names[page.start : page.stop]]
        kept, _ = fitting(lines, self.max_output_chars)
        return page.text(kept, total=len(kinds), nothing="(Empty Directory)")

    @reg_toolspec(annotations=READS, tags={"files", "read", "search"}, output_schema=None)
    def search_file_name_includes(
        self,
        uri: str,
        name_includes: str,
        context: ToolContext,
        *,
        max_results: int = 200,
        skip: int = 0,
        include_hidden: bool = False,
        include_ignored: bool = False,
    ) -> str:
        """Find files in a folder and its folders whose names contain a text. Upper and lower case are the same.

        Args:
            uri: The path or file: URI of the folder.
            name_includes: A part of the file's name; with a / in it, a part of the path from the folder.
            max_results: The most files in one result, up to 1000.
            skip: How many files to leave out, to go on after a long result.
            include_hidden: Whether files and folders are searched whose names begin with a dot.
            include_ignored: Whether files and folders are searched that .gitignore names.
        """
        if not name_includes:
            raise ToolError("Pass a part of the name that is not empty.")
        folders = self.folders.for_call(context)
        page = Page(skip, max_results)
        wanted, has_folders = in_one_form(name_includes).casefold(), "/" in name_includes
        with explained_misses(folders, uri):
            base = folders.prefix(uri)
            found: list[str] = []
            walked = walk(
                folders, uri, respect_gitignore=not include_ignored, hidden=include_hidden,
                is_cancelled=lambda: context.cancelled,
            )  # fmt: skip
            for file in walked:
                name = file.path if has_folders else file.path.rpartition("/")[2]
                if wanted in in_one_form(name).casefold():
                    found.append(shown(base + file.path))
                    if len(found) > page.stop:
                        break
        context.check_cancelled()
        kept, _ = fitting(found[page.start : page.stop], self.max_output_chars)
        return page.text(kept, total=len(found), nothing="No files found.", is_counted=len(found) <= page.stop)

    @reg_toolspec(annotations=READS, tags={"files", "read", "search"}, output_schema=None)
    def search_file_contains_keyword(
        self,
        uri: str,
        keyword: str,
        context: ToolContext,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        glob: str | None = None,
        file_type: str | None = None,
        lines_before: int = 0,
        lines_after: int = 0,
        counts: bool = False,
        max_results: int = 200,
        skip: int = 0,
        include_hidden: bool = False,
        include_ignored: bool = False,
        encoding: str | None = None,
    ) -> str:
        r"""Find the lines that contain a text, in the text files of a folder and its folders, or in one file.

        A result is `path:line:text`; a line around it is `path-line-text`. Binary files and UTF-32 texts are left out.

        Args:
            uri: The path or file: URI of the folder or file.
            keyword: The text; with regex, a regular expression that matches within one line.
            regex: Whether the keyword is a regular expression of RE2: without lookaround and backreferences; letters
                that are not ASCII are \pL and not \w.
            ignore_case: Whether upper and lower case are the same.
            glob: Search only the files with such names, as in *.{py,pyi}; with a / in it, with such paths from the
                folder.
            file_type: Search only the files of a language, as in python, js or markdown, or with this extension.
            lines_before: How many lines before each match are shown, up to 50.
            lines_after: How many lines after each match are shown, up to 50.
            counts: Whether each result is `path:count`, the number of lines with a match in a file.
            max_results: The most results at once, up to 1000.
            skip: How many results to leave out, to go on after a long result.
            include_hidden: Whether files and folders are searched whose names begin with a dot.
            include_ignored: Whether files and folders are searched that .gitignore names.
            encoding: The encoding of the files that are no UTF-8, such as gbk. Without it, it is guessed.
        """
        if not (0 <= lines_before <= _MAX_CONTEXT and 0 <= lines_after <= _MAX_CONTEXT):
            raise ToolError(f"Pass a lines_before and lines_after from 0 to {_MAX_CONTEXT}.")
        page, kind = Page(skip, max_results), Pattern if regex else Keyword
        wanted = kind(keyword, ignore_case=ignore_case, encoding=encoding)
        is_chosen = _name_filter(glob, file_type)
        folders = self.folders.for_call(context)
        with explained_misses(folders, uri):
            place = folders.locate(uri)
            if folders.status(uri).kind != "folder":
                with folders.open(uri):  # raises ToolError for a file that must not be read
                    place = folders.locate(uri)
                files: Iterable[WalkedFile] = [WalkedFile(place.name, folders.status(uri).size)]
                place, is_chosen = place.parent, bool
            else:
                files = walk(
                    folders, uri, respect_gitignore=not include_ignored, hidden=include_hidden,
                    is_cancelled=lambda: context.cancelled,
                )  # fmt: skip
            search = FileSearch(
                folders, place, wanted, is_chosen, (lines_before, lines_after), self.max_bytes, context
            )  # fmt: skip
            found = search.count(files) if counts else search.run(files, page)
        context.check_cancelled()
        total = len(found) if counts else search.matches
        is_counted = counts or total <= page.stop
        kept, _ = fitting(found[page.start : page.stop] if counts else found, self.max_output_chars)
        text = page.text(kept, total=total, nothing="" if total else search.nothing(), is_counted=is_counted)
        notes = [f"({search.matches:,} lines in {total:,} files.)"] if counts and found else []
        return "\n".join([text, *notes, *search.omissions(is_complete=is_counted)])


@dataclass
class FileSearch:
    """One search for a keyword or a regular expression."""

    folders: ConfinedFolders
    top: Path
    wanted: Keyword | Pattern
    is_chosen: Callable[[str], bool]
    """Whether a file of this path is searched."""
    around: tuple[int, int]
    """How many lines are shown before and after a match."""
    max_bytes: int
    context: ToolContext
    files: int = field(default=0, init=False)
    """How many files were to be searched."""
    matches: int = field(default=0, init=False)
    """How many lines were found; of a page with results after it, one more."""
    too_large: int = field(default=0, init=False)
    _guesses: list[str] = field(default_factory=list, init=False)
    """The files with results whose encoding is a guess, each with it."""
    _read: list[str] = field(default_factory=list, init=False)
    """The first files that were searched."""
    is_late: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._prefix = self.folders.prefix(self.top)
        self._deadline = time.monotonic() + SECONDS

    def nothing(self) -> str:
        """Return what a result without a match says, and the first text that only looks like the keyword."""
        if self.files or self.is_late:
            near = "" if self.is_late else self._near()
            return f"No matches found. {near}" if near else "No matches found."
        return (
            "No files found in directory." if self.is_chosen is bool else "No files found of this glob and file_type."
        )

    def omissions(self, *, is_complete: bool) -> Iterator[str]:
        """Yield sentences about files with a guessed encoding, and about those that were not searched."""
        if self._guesses:
            more = len(self._guesses) - _MAX_GUESSES
            files = ", ".join(self._guesses[:_MAX_GUESSES]) + (f" and {more:,} more" if more > 0 else "")
            wrong = "If a text is wrong, name the encoding, as in encoding='gbk'."
            yield f"(These files are no UTF-8, and their encoding is a guess: {files}. {wrong})"
        if self.is_late:
            narrower = "Pass a smaller folder, a glob or a file_type."
            yield f"(The search was ended after {SECONDS:g} seconds, before it had read all files. {narrower})"
        elif is_complete and self.too_large:
            yield f"(Not searched: {self.too_large} files of more than {self.max_bytes:,} bytes.)"

    def run(self, files: Iterable[WalkedFile], page: Page) -> list[str]:
        """Return the results of a page in the order of the files, each with the lines around it."""
        results: list[str] = []
        for path in self._searchable(files):
            if self.matches > page.stop:
                break
            (lines, guess), found = self._lines(path), []
            for line in self.wanted.find_lines(lines, self._is_over):
                self.matches += 1
                if self.matches > page.start:
                    found.append(line)
                if self.matches > page.stop:
                    break
            shown_before = len(results)
            results += self._results(path, lines, found, page.stop - page.start - len(results), bool(results))
            if guess and len(results) > shown_before:
                self._guesses.append(f"{self._shown(path)} ({guess})")
        return results

    def count(self, files: Iterable[WalkedFile]) -> list[str]:
        """Return how many lines of each file have a match."""
        results: list[str] = []
        for path in self._searchable(files):
            lines, guess = self._lines(path)
            if count := sum(1 for _ in self.wanted.find_lines(lines, self._is_over)):
                self._guesses += [f"{self._shown(path)} ({guess})"] if guess else []
                results.append(f"{self._shown(path)}:{count}")
                self.matches += count
        return results

    def _is_over(self) -> bool:
        self.is_late = self.is_late or time.monotonic() >= self._deadline
        return self.is_late or self.context.cancelled

    def _searchable(self, files: Iterable[WalkedFile]) -> Iterator[str]:
        for file in files:
            if self._is_over():
                return
            if not self.is_chosen(file.path):
                continue
            self.files += 1
            if file.size > self.max_bytes:
                self.too_large += 1
            elif file.size:
                if len(self._read) < _NEAR_FILES:
                    self._read.append(file.path)
                yield file.path

    def _near(self) -> str:
        if isinstance(self.wanted, Pattern):
            return ""
        end = min(self._deadline, time.monotonic() + _NEAR_SECONDS)
        for path in self._read:
            if time.monotonic() >= end or self.context.cancelled:
                break
            lines, _ = self._lines(path, is_near=True)
            if near := describe_near_keyword(self.wanted.text, lines):
                return f"{self._shown(path)}: {near}"
        return ""

    def _lines(self, path: str, *, is_near: bool = False) -> tuple[list[str], str]:
        """Return the lines of a file without their endings, none if it cannot have a match, and a guessed encoding."""
        try:
            content, _ = self.folders.read(str(self.top / path), max_bytes=self.max_bytes)
            if not is_near and not self.wanted.may_be_in(content):
                return [], ""
            text = TextFile.from_content(content, fallback=self.wanted.encoding)
        except ToolError:  # binary, or not readable: no file of this search
            return [], ""
        is_searched = text.form.encoding not in UNSEARCHED_ENCODINGS
        return bare_lines(text.lines) if is_searched else [], text.form.encoding if text.form.is_guess else ""

    def _results(
        self, path: str, lines: list[str], found: list[FoundLine], count: int, has_others: bool
    ) -> Iterator[str]:  # fmt: skip
        """Yield the first results of a file, each up to the lines that the next one shows."""
        before, after = self.around
        name, shown_until = self._shown(path), -1
        for line, following in zip(found[:count], [*found[1:], None], strict=False):
            start = max(line.index - before, shown_until, 0)
            stop = min(line.index + after + 1, len(lines) if following is None else following.index)
            texts = [f"{name}-{index + 1}-{_cut(lines[index])}" for index in range(start, stop)]
            texts[line.index - start] = f"{name}:{line.index + 1}:{_cut(lines[line.index], line)}"
            if (before or after) and start != shown_until and (has_others or shown_until >= 0):
                texts.insert(0, "--")
            shown_until = stop
            yield "\n".join(texts)

    def _shown(self, path: str) -> str:
        return shown(self._prefix + path)


def _cut(text: str, found: FoundLine | None = None) -> str:
    """Return a line, or the part with the match of a long one, and where it begins."""
    start = 0 if found is None or found.end <= MAX_TEXT_CHARS else max(found.start - MAX_TEXT_CHARS // 3, 0)
    cut = f"{'...' if start else ''}{text[start : start + MAX_TEXT_CHARS]}"
    is_cut = len(text) > start + MAX_TEXT_CHARS
    return f"{cut}{'...' if is_cut else ''}{f' (from character {start + 1})' if start else ''}"


def _name_filter(glob: str | None, file_type: str | None) -> Callable[[str], bool]:
    """Return what tells whether a path has the name, or is the path, that a glob describes, and is of a type."""
    if not glob and not file_type:
        return bool
    if glob and len(glob) > _MAX_GLOB_CHARS:
        raise ToolError(f"Pass a glob of at most {_MAX_GLOB_CHARS} characters.")
    chosen = "" if not glob else in_one_form(glob).removeprefix("./").removeprefix("**/")
    patterns = [re.compile(fnmatch.translate(each)) for each in _without_braces(chosen)] if chosen else []
    suffixes = tuple(f".{suffix}" for suffix in _suffixes(file_type)) if file_type else ()

    def is_chosen(path: str) -> bool:
        name = in_one_form(path if "/" in chosen else PurePosixPath(path).name)
        has_suffix = not suffixes or path.lower().endswith(suffixes)
        return has_suffix and (not patterns or any(pattern.match(name) for pattern in patterns))

    return is_chosen


def _without_braces(glob: str) -> list[str]:
    """Return the globs for the alternatives in braces."""
    before, _, rest = glob.partition("{")
    inner, closing, after = rest.partition("}")
    if not closing:
        return [glob]
    globs = [f"{before}{each}{end}" for end in _without_braces(after) for each in inner.split(",")]
    if len(globs) > _MAX_GLOBS:
        raise ToolError(f"Pass a glob with at most {_MAX_GLOBS} alternatives in its braces.")
    return globs


def _suffixes(file_type: str) -> list[str]:
    """Return the extensions of a language, which may be named by its first one, or the extension itself."""
    name = file_type.lower().lstrip("*.")
    for language, suffixes in _FILE_TYPES.items():
        if name in (language, suffixes.split()[0]):
            return suffixes.split()
    return [name]
