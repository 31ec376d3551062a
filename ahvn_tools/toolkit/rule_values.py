"""ValuePattern: compares the arguments of a call with the pattern of a rule, whatever their spelling.

A deny or ask rule names a value if any reading of the value fits its pattern: as text without regard to case, Unicode
form and invisible characters, as path, as URI, as command line. An allow rule names it only if every reading fits that
may apply. So a wrong guess about what a parameter means never allows a call.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import unquote

from ahvn_tools import invisible
from ahvn_tools.command_line import NotUnderstoodError, SimpleCommand, split_command_line
from ahvn_tools.command_programs import explain_open_rule, find_runner, may_run_code, takes_plain_arguments
from ahvn_tools.command_words import split_command
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import ArgumentKind
from ahvn_tools.roots import MAX_PATH_CHARS, to_local_path

_COMMANDS: Final = re.compile("(args|argv|bash|cmd|cmd_?line|commands?|command_?line|script|shell|shell_command)")
_PATHS: Final = re.compile(
    "(cwd|dest|destination|dir|directory|dst|files?|filename|folder|location|root|source|src|target|workdir)"
    "|(.*_)?(dir|directory|files?|filename|folder|filepath|paths?|uris?)"
)

_NOT_IN_WILDCARDS: Final = "\n\r;|&`$<>()"
"""What a * of an allow rule does not stand for in a text: it may end one command or address, and begin another."""

MAX_NUMBER_CHARS: Final = 40
_NUMBER: Final = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?\s*", re.ASCII | re.IGNORECASE)

_PLAIN: Final = (str, int, float, bool, type(None))

_MAX_DECODED: Final = 3
"""How often percent-encoding is decoded: a tool and a server behind it may both decode."""


def kind_of(parameter: str, schema: Any) -> ArgumentKind:
    """Return what the texts of a parameter are, by its name and the format in its schema."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", parameter).lower()
    if _COMMANDS.fullmatch(name):
        return "command"
    formats = {"path", "file-path", "directory-path", "uri", "uri-reference"}
    has_format = isinstance(schema, dict) and schema.get("format") in formats
    return "path" if has_format or _PATHS.fullmatch(name) else "text"


def git_command_line(text: str) -> str:
    """Return the command line that the arguments of git mean: they are words of a command, also after `git`."""
    try:
        words = split_command(text)
    except ValueError:
        return f"git {text}"
    return shlex.join(["git", *words[words[:1] == ["git"] :]])


def fold(text: str) -> str:
    """Return a text in the form in which deny rules compare it: without case, Unicode forms, invisible characters."""
    if text.isascii() and text.isprintable():
        return text.lower()
    plain = unicodedata.normalize("NFKC", invisible.without(text)).casefold()
    return invisible.without(unicodedata.normalize("NFKC", plain))


def to_json(value: Any) -> Any:
    """Return an argument as JSON, secrets included; an iterator, which can be read only once, as an empty list."""
    if type(value) in _PLAIN:
        return value
    from ahvn_tools.middleware.reporting import received_as_json  # slow, and few arguments are no plain values

    return received_as_json(value, [])


def leaves(value: Any) -> Iterator[str]:
    """Yield each text, number, boolean and null in JSON as a text."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield scalar_text(value)


def number_text(text: str) -> str:
    """Return a number in its shortest form, `1.0` as `1`; another text unchanged."""
    if len(text) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(text):
        return text
    return scalar_text(int(text) if text.strip().lstrip("+-").isdigit() else float(text))


def texts_of(value: Any, kind: ArgumentKind) -> list[str]:
    """Return all texts of a value: of a list or an object, and of one that is sent as a JSON text, each text in it."""
    texts = list(leaves(value))
    if (inner := parsed(value)) is not value:
        texts += leaves(inner)
    if kind in {"command", "git"} and isinstance(value, list):
        texts.append(shlex.join(texts))
    return texts


def scalar_text(value: Any) -> str:
    """Return one text, number, boolean or null as a text: 5.0 is 5."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def parsed(value: Any) -> Any:
    """Return the JSON in a text, as a model may send an object or a list; any other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "[", '"'}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


Glob = tuple[str, ...]
"""The texts between the * of a pattern; one without * has a single text."""


@lru_cache(maxsize=10_000)
def to_glob(pattern: str) -> Glob:
    """Return a pattern as `glob_fits` takes it."""
    return tuple(re.split(r"\*+", pattern))


def glob_fits(glob: Glob, text: str) -> bool:
    """Return whether a text fits, where any text may be between those of the pattern; in linear time."""
    first, last = glob[0], glob[-1]
    if len(glob) == 1:
        return text == first
    if not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for part in glob[1:-1]:
        position = text.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return position <= end


def fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern, in which * stands for any text."""
    return glob_fits(to_glob(pattern), text)


def path_fits(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path fit those of a pattern: ** stands for any parts, * for a text in one part.

    A final ** stands for at least one part: it is what is in a folder, and not the folder.
    """
    reached = {0}
    for index, part in enumerate(pattern, 1):
        if part == "**":
            least = min(reached, default=len(parts)) + (index == len(pattern))
            reached = set(range(least, len(parts) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fits(part, parts[at])}
    return len(parts) in reached


class PathBase:
    """Where the relative paths of a call begin, and those of rules."""

    def __init__(self, roots: Iterable[os.PathLike[str]], rule_roots: Iterable[os.PathLike[str]] = ()) -> None:
        """`roots` are the folders of the call, of which relative paths begin in the first one.

        Relative paths of allow rules begin in the first of `rule_roots`, those of deny and ask rules in any; by default
        these are the same folders.
        """
        self._roots = tuple(dict.fromkeys(map(os.fspath, roots)))
        self._rule_roots = tuple(dict.fromkeys(map(os.fspath, rule_roots)))
        self.is_known = bool(self._roots)
        """False: the tool does not say where, and the folder of this process is assumed."""

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The folders, absolute."""
        return self._roots or (os.path.realpath("."),)

    @property
    def rule_roots(self) -> tuple[str, ...]:
        """The folders of rules, absolute."""
        return self._rule_roots or self.roots


class Reading:
    """What one text of a call may mean. Each meaning is found once for all rules."""

    def __init__(self, text: str, kind: ArgumentKind, base: PathBase) -> None:
        if kind == "git":
            text, kind = git_command_line(text), "command"
        self.text, self.kind, self.base = text, kind, base

    @cached_property
    def texts(self) -> frozenset[str]:
        """The text, folded, and what its percent-encoding and its URI mean."""
        readings = set()
        for one in _decoded(self.text):
            folded = fold(one)
            readings |= {folded, folded.strip(), folded.strip().lstrip("/"), number_text(folded)}
            if match := _URI.match(one.replace("\\", "/").strip()):
                host = fold(match["host"]).rpartition("@")[2].removesuffix(":443").removesuffix(":80").rstrip(".")
                path = posixpath.normpath(re.sub("/+", "/", match["rest"])) if match["rest"] else ""
                readings |= {f"{match['scheme'].lower()}://{host}{fold(rest)}" for rest in {path, match["rest"] or "/"}}
        return frozenset((*readings, *self.statements)) if self.kind == "sql" else frozenset(readings)

    @cached_property
    def statements(self) -> tuple[str, ...]:
        """The statements of the text as SQL, folded, without comments and with single spaces."""
        plain = fold(_SQL_COMMENT.sub(" ", self.text))
        return tuple(" ".join(statement.split()) for statement in plain.split(";"))

    @cached_property
    def paths(self) -> frozenset[str]:
        """The absolute paths that the text may mean, folded: with and without links."""
        if self.kind != "path" and len(self.text) > MAX_PATH_CHARS:
            return frozenset()
        found = set()
        for local in {one.replace("\\", "/") for one in _decoded(self.text)}:
            path = _without_file_scheme(local) if local[:5].lower() == "file:" else local
            for root in self.base.roots:
                joined = posixpath.join(root, path)
                plain = posixpath.normpath(joined)
                found |= {fold(plain), fold(_real(joined))}
                if plain != joined:
                    found.add(fold(_real(plain)))
        return frozenset(found)

    @property
    def is_absolute(self) -> bool:
        """Whether the text is an absolute path, or a URI."""
        return self.text[:1] == "/" or self.text[:5].lower() == "file:"

    @cached_property
    def local_path(self) -> tuple[list[str], list[str]]:
        """The parts of the absolute path, with and without links; none if the text is no path."""
        root = self.base.roots[0]
        try:
            local = to_local_path(self.text)
        except ToolError:
            return [], []
        if "\\" in local or "%" in local:
            return [], []
        joined = posixpath.join(root, local)
        return posixpath.normpath(joined).split("/"), _real(joined).split("/")

    @cached_property
    def commands(self) -> list[SimpleCommand] | None:
        """The commands of the text as a command line; None if it cannot be read."""
        try:
            return split_command_line(invisible.without(self.text))
        except NotUnderstoodError:
            return None

    @cached_property
    def unquoted(self) -> str:
        """The text as a command line without its quotes, folded."""
        return fold(" ".join(re.sub(r"\\\n|['\"\\]", "", invisible.without(self.text)).split()))


@dataclass(frozen=True)
class ValuePattern:
    """The pattern of one parameter in a rule."""

    text: str

    def of_git(self) -> ValuePattern:
        """Return the pattern of a command line, for one of the arguments of git."""
        return self if self.text == "*" or self.text.split()[:1] == ["git"] else ValuePattern(f"git {self.text}")

    def allows(self, reading: Reading) -> bool:
        """Return whether the pattern fits a text in every reading that may apply."""
        if self.text == "*":
            return True
        if invisible.find(reading.text):
            return False
        if reading.kind == "command":
            return self._allows_command(reading)
        if "://" in self.text and not self.text.startswith("file:"):
            return _allows_uri(self.text, reading.text)
        if reading.kind == "path":
            return self._allows_path(reading)
        text, has_wildcard = reading.text, "*" in self.text
        if has_wildcard and any(character in text and character not in self.text for character in _NOT_IN_WILDCARDS):
            return False
        if has_wildcard and self._has_slash and posixpath.normpath(unquote(text)) != text.rstrip("/"):
            return False
        return fits(self.text, text)

    def names(self, reading: Reading) -> bool | None:
        """Return whether the pattern fits a text in any reading, or None if a command line cannot be read."""
        texts = reading.texts
        for glob in self._globs:
            for text in texts:
                if glob_fits(glob, text):
                    return True
        if (reading.kind == "path" or self._has_slash or "/" in reading.text) and self._names_path(reading):
            return True
        if reading.kind == "sql":  # such as a part of a WITH, or what a comment of MySQL runs
            return None if self._occurs(f"{fold(reading.text)}\n{' '.join(reading.statements)}") else False
        return self._names_command(reading) if reading.kind == "command" or len(self._words) > 1 else False

    # paths

    @cached_property
    def _globs(self) -> tuple[Glob, ...]:
        return tuple(map(to_glob, _spellings(self.text)))

    @cached_property
    def _has_slash(self) -> bool:
        return "/" in self.text

    @cached_property
    def _globs_anywhere(self) -> tuple[Glob, ...]:
        """The pattern below any folder."""
        return tuple(to_glob(f"*/{spelling.lstrip('/')}") for spelling in _spellings(self.text))

    def _allows_path(self, reading: Reading) -> bool:
        path, real = reading.local_path
        if not path or (reading.is_absolute and not (reading.base.is_known or self.text[0] == "/")):
            return False
        patterns = [pattern.split("/") for pattern in _below(self.text, reading.base.rule_roots[0], _now())]
        return path_fits(patterns[0], path) and any(path_fits(pattern, real) for pattern in patterns)

    def _names_path(self, reading: Reading) -> bool:
        """Return whether the pattern fits an absolute path that a text may mean, or its part below the root."""
        globs = [glob for root in reading.base.rule_roots for glob in _globs_below(self.text, root, _now())]
        globs += () if reading.base.is_known else self._globs_anywhere
        return any(glob_fits(glob, path) for path in reading.paths for glob in globs)

    # commands

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return tuple(self.text.split())

    def _allows_command(self, reading: Reading) -> bool:
        """Return whether the pattern fits each command of a command line that can be read."""
        if "*" not in self.text:
            return reading.text.strip() == self.text.strip()
        if not reading.commands or self.explain_no_command() is not None:
            return False
        return all(
            _words_fit(self._allowed_words, command.words) and find_runner(command) is None
            for command in reading.commands
        )

    @cached_property
    def _allowed_words(self) -> tuple[str, ...]:
        """The words of an allow rule: a * at the end of the program stands for arguments, and for no other program."""
        program, *others = self._words
        return (program.rstrip("*"), *(() if others else ("*",)), *others) if program.endswith("*") else self._words

    def explain_no_command(self) -> str | None:
        """Return why an allow rule with this pattern allows no command, or None."""
        if "*" not in self.text or self.text == "*":
            return None
        fixed = tuple(word for word in self._allowed_words if "*" not in word)
        if not fixed or not fixed[0] or self._allowed_words[0] != fixed[0]:
            return "it must begin with the whole name of a program, as in 'ls *'"
        return explain_open_rule(fixed)

    def _names_command(self, reading: Reading) -> bool | None:
        """Return whether a command line runs what the pattern names; None if that cannot be read."""
        if any(glob_fits(glob, reading.unquoted) for glob in self._globs):
            return True
        occurs = self._occurs(reading.unquoted)
        is_command = reading.kind == "command"
        if reading.commands is None:
            return (True if occurs else None) if is_command else (None if occurs else False)
        for command in reading.commands:
            program, *arguments = map(fold, command.words)
            for name in {program, program.rpartition("/")[2]}:
                if _words_fit(self._folded_words, (name, *arguments)):
                    return True
        if is_command and any(map(_is_hidden, reading.commands)):
            return True if occurs else None
        return None if occurs and not (is_command and all(map(takes_plain_arguments, reading.commands))) else False

    def _occurs(self, text: str) -> bool:
        """Return whether all words of the pattern are in a text."""
        return all(one.search(text) for one in self._word_searches)

    @cached_property
    def _folded_words(self) -> tuple[str, ...]:
        return tuple(map(fold, self._words))

    @cached_property
    def _word_searches(self) -> tuple[re.Pattern[str], ...]:
        """Find the words of the pattern anywhere in a text."""
        words = [r"\S*".join(map(re.escape, to_glob(word))) for word in self._folded_words if word != "*"]
        return tuple(re.compile(rf"(?<![\w-]){word}(?![\w-])") for word in words)


def _spellings(pattern: str) -> tuple[str, ...]:
    """Return a pattern in its spellings, folded: what is in a folder and the folder, a URI with and without scheme."""
    pattern = pattern.removeprefix("./")
    if pattern[:5].lower() == "file:":
        pattern = _without_file_scheme(pattern)
    spellings = {
        pattern,
        pattern.partition("://")[2],
        number_text(pattern),
        pattern.removeprefix("**/"),
        pattern.replace("/**/", "/"),
    }
    spellings |= {one.removesuffix("/**").removesuffix("/") for one in spellings if one.rstrip("/*")}
    return tuple({fold(one) for one in spellings if one})


def _now() -> int:
    """Return the second: links in a pattern are looked up once in each."""
    return int(time.monotonic())


@lru_cache(maxsize=10_000)
def _below(pattern: str, root: str, _second: int) -> tuple[str, str]:
    """Return a pattern below a root, and the same without links in its fixed part."""
    path = _without_file_scheme(pattern) if pattern[:5].lower() == "file:" else pattern
    path = posixpath.normpath(posixpath.join(root, path))
    fixed = path.partition("*")[0].rpartition("/")[0]
    return path, _real(fixed or "/").rstrip("/") + path[len(fixed) :]


@lru_cache(maxsize=10_000)
def _globs_below(pattern: str, root: str, second: int) -> tuple[Glob, ...]:
    return tuple({to_glob(spelling) for one in _below(pattern, root, second) for spelling in _spellings(one)})


def _is_hidden(command: SimpleCommand) -> bool:
    """Return whether a command runs what only its arguments say: another command, or code."""
    return find_runner(command) is not None or (
        may_run_code(command) and not {"-c", "-e", "-"}.isdisjoint(command.words)
    )


def _words_fit(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words of a command fit those of a pattern; a * at its end stands for any more words."""
    is_open = pattern[-1:] != () and pattern[-1].endswith("*")
    if is_open and pattern[-1] == "*":
        pattern = pattern[:-1]
    count = len(pattern)
    return (len(words) == count or (is_open and len(words) > count)) and all(map(fits, pattern, words[:count]))


def _real(path: str) -> str:
    """Return a path without links; unchanged if no file can have it."""
    try:
        return os.path.realpath(path) if len(path) <= MAX_PATH_CHARS else path
    except (OSError, ValueError):
        return path


def _decoded(text: str) -> list[str]:
    """Return a text and what its percent-encoding means, whole and up to a NUL, where some programs end it."""
    texts = [text]
    for _ in range(_MAX_DECODED):
        if (decoded := unquote(texts[-1])) == texts[-1]:
            break
        texts.append(decoded)
    return [part for text in texts for part in dict.fromkeys([text, text.partition("\0")[0]])]


def _allows_uri(pattern: str, text: str) -> bool:
    """Return whether a URI fits a pattern: scheme, host and path each fit their part."""
    wanted, found = _URI.match(pattern), _URI.match(text)
    if wanted is None or found is None or not _PLAIN_URI.fullmatch(text):
        return False
    path = unquote(found["rest"].partition("?")[0].partition("#")[0])
    is_plain = "%" not in path and "\\" not in path and ".." not in path.split("/")
    has_place = all(fits(wanted[part].lower(), found[part].lower()) for part in ("scheme", "host"))
    return is_plain and has_place and fits(wanted["rest"], found["rest"])


_URI: Final = re.compile(r"(?P<scheme>[A-Za-z*][A-Za-z0-9+.*-]*):/+(?P<host>[^/?#]*)(?P<rest>.*)", re.DOTALL)


_PLAIN_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.-]+(:[0-9]+)?([/?#][!-~]*)?", re.IGNORECASE | re.ASCII)
"""A URI that all clients read in the same way: without a user, and with a plain host."""


_SQL_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def _without_file_scheme(uri: str) -> str:
    """Return the path of a `file:` URI."""
    rest = uri[5:]
    return "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
