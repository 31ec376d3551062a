"""Skill: the front matter of a `SKILL.md` file, what is wrong with it, and the files beside it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final, Protocol, Self
from urllib.parse import unquote

from ahvn_tools import invisible
from ahvn_tools.errors import SourceError, ToolError, clip, near_misses
from ahvn_tools.lint import MAX_QUOTED_CHARS, find_injections, make_finding
from ahvn_tools.schema.dialects.finding import Finding, Severity
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.sources.budget import Budget
from ahvn_tools.sources.yaml_file import read_yaml

MAX_NAME_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 1_024
MAX_COMPATIBILITY_CHARS: Final = 500
MAX_LINES: Final = 500
"""The standard's limits. A text of more lines than this belongs into further files."""

MAX_SKILL_BYTES: Final = 500_000
"""How large a `SKILL.md` may be, which is parsed and screened."""
MAX_FILE_BYTES: Final = 2_000_000
"""How large any other file of a skill may be."""
MAX_FILES: Final = 1_000
"""How many files of one skill are listed."""
MAX_SKILLS: Final = 5_000
"""How many skills one folder or one server may have."""

_MAX_VALUES: Final = 10_000
"""How many values a front matter may have, with what its aliases repeat."""
_MAX_FRONT_MATTER_CHARS: Final = 100_000
_MAX_FINDINGS: Final = 20
"""How many findings of one kind one skill has."""
_MAX_PROBLEMS: Final = 100
_MAX_TOOLS: Final = 200
"""How many tools of `allowed-tools` count."""

_STANDARD_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_USABLE_NAME: Final = re.compile(r"\w[\w .:-]{0,199}")
_KEYS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_UNQUOTED: Final = re.compile(
    r"^(?P<key>description|compatibility|license):[ \t]+(?P<text>[^\s\"'|>\[{&*!#].*:(?:[ \t].*)?)$", re.MULTILINE
)
"""A text with a colon and without quotes, which is no YAML, although other programs read it."""
_FENCE: Final = re.compile(r"^(?P<fence>```+|~~~+).*?(?:^(?P=fence)|\Z)", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(
    r"\]\(<?(?P<target>[^)\s>#?]+)|(?<![\w./-])(?P<path>(?:scripts|references|assets)/[\w./-]*\w)"
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class SkillFiles(Protocol):
    """How the files of a skill are read."""

    @property
    def location(self) -> str:
        """The folder or the URI of the skill, as messages name it."""

    async def names(self) -> list[str]:
        """Return the relative paths of the files, with slashes: at most `MAX_FILES`."""

    async def read(self, file: str, state: Mapping[str, Any]) -> bytes:
        """Return the content of a file, with the credentials of a state. Raises ToolCallError."""


@dataclass(frozen=True, kw_only=True)
class Skill:
    """Instructions for one kind of task, with files that belong to them."""

    name: str
    description: str
    """What it is for, and when to use it."""
    license: str | None = None
    compatibility: str | None = None
    """What it needs of its environment."""
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    allowed_tools: tuple[str, ...] = ()
    """The tools that it uses, as its author calls them: `find`, `Bash(git:*)`."""
    location: str = ""
    """Its folder, or its URI on a server."""
    files: SkillFiles | None = field(default=None, repr=False, compare=False)
    is_trusted: bool = True
    """Whether its texts are the host's own: those of others are escaped, and activate no group."""
    problems: tuple[Finding, ...] = field(default=(), repr=False, compare=False)
    """What was wrong with it when it was read."""


@dataclass(kw_only=True)
class FoundSkills:
    """The skills of a source."""

    skills: list[Skill] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)
    """Why others cannot be used."""

    def require(self, nothing: str) -> Self:
        """Return this. Raises SourceError without a skill: the first error, or the text `nothing`."""
        if not self.skills:
            raise self.errors[0] if self.errors else SourceError(nothing)
        return self


def read_skill_text(text: str, place: str, folder: str, *, is_trusted: bool = True) -> tuple[Skill, str]:
    """Return the skill that a `SKILL.md` describes, and its instructions.

    `place` is how errors name the file, `folder` is the name of its folder. What is wrong and can be used all the same
    is in `problems`. Raises SourceError, with the line, for what cannot be used; of a skill that is not trusted, this
    includes each name that the standard does not allow.
    """
    front_matter, body = split_text(text)
    if front_matter is None:
        problem = "a skill begins with a YAML front matter that has `name` and `description`, between two lines `---`."
        raise _error(place, 1, problem)
    reader = _Reader(place, front_matter)
    skill = reader.skill(folder, is_trusted=is_trusted)
    first_line = front_matter.count("\n") + 3
    found_in_texts = _find_in_texts(skill.description, body, place, first_line, is_trusted=is_trusted)
    return replace(skill, problems=(*reader.problems, *found_in_texts)[:_MAX_PROBLEMS]), body


def split_text(text: str) -> tuple[str | None, str]:
    """Return the front matter of a `SKILL.md`, None if it has none, and the text below it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _FRONT_MATTER.match(text)
    return (None, text) if found is None else (found["yaml"], text[found.end() :])


def _error(place: str, line: int, problem: str) -> SourceError:
    return SourceError(f"{place}, line {line}: {problem}", file=place, line=line)


class _Reader:
    """Reads one front matter, and collects what is wrong with it."""

    def __init__(self, place: str, text: str) -> None:
        """Raises SourceError for what is no YAML mapping."""
        self._place = place
        self.problems: list[Finding] = []
        if len(text) > _MAX_FRONT_MATTER_CHARS:
            raise _error(
                place, 1, f"the front matter has more than {_MAX_FRONT_MATTER_CHARS:,} characters: shorten it."
            )
        try:
            self._yaml = self._parse(text)
        except SourceError:
            quoted = _UNQUOTED.sub(lambda match: f"{match['key']}: {json.dumps(match['text'])}", text)
            if quoted == text:
                raise
            self._yaml = self._parse(quoted)
            for match in _UNQUOTED.finditer(text):
                line = text.count("\n", 0, match.start()) + 2
                self._add(line, f"`{match['key']}` is no YAML, because its text has a colon", "Put quotes around it.")
        if not isinstance(self._yaml.value, dict):
            raise _error(place, 2, "the front matter is no mapping: write `name` and `description` in it.")

    def _parse(self, text: str) -> Any:
        return read_yaml(f"\n{text}", self._place, Budget(self._place, _MAX_VALUES))  # as the second line of the file

    def _add(self, line: int | None, problem: str, fix: str, severity: Severity | None = None) -> None:
        place = f"{self._place}, line {line or 1}"
        self.problems.append(make_finding("invalid-skill", place, problem, fix, severity=severity))

    def _line(self, *path: str) -> int:
        return self._yaml.line_of(path) or 1

    def skill(self, folder: str, *, is_trusted: bool) -> Skill:
        """Return the skill. Raises SourceError without a usable name and a description."""
        data: dict[str, Any] = self._yaml.value
        for key in [key for key in data if key not in _KEYS][:_MAX_FINDINGS]:
            hint = near_misses(key, _KEYS)
            fix = (
                hint if hint.startswith("Did") else "Put it under `metadata`, or leave it: other programs may know it."
            )
            severity: Severity = "warning" if hint.startswith("Did") else "note"
            self._add(self._line(key), f"the standard has no key {clip(key, MAX_QUOTED_CHARS)!r}", fix, severity)
        description = self._required("description", MAX_DESCRIPTION_CHARS)
        return Skill(
            name=self._name(folder, is_trusted=is_trusted),
            description=description if is_trusted else invisible.escape(clip(description, MAX_DESCRIPTION_CHARS)),
            license=self._text("license"),
            compatibility=self._text("compatibility", MAX_COMPATIBILITY_CHARS),
            metadata=MappingProxyType(dict(self._metadata())),
            allowed_tools=self._allowed_tools(),
            is_trusted=is_trusted,
        )

    def _required(self, key: str, max_chars: int | None = None) -> str:
        if (text := self._text(key, max_chars)) is not None:
            return text
        problem = "is no text" if key in self._yaml.value else "is missing"
        raise _error(self._place, self._line(key), f"`{key}` {problem}: a skill has `name` and `description`.")

    def _text(self, key: str, max_chars: int | None = None) -> str | None:
        value = self._yaml.value.get(key)
        if not isinstance(value, str) or not value.strip():
            if value is not None:
                self._add(self._line(key), f"`{key}` is no text", "Write a text, or leave it out.")
            return None
        if max_chars is not None and len(value) > max_chars:
            problem = f"`{key}` has {len(value):,} characters, and the standard allows {max_chars:,}"
            self._add(self._line(key), problem, "Shorten it. What is longer belongs into the text below.")
        self.problems += _find_invisible(value, f"{self._place}, line {self._line(key)}")
        return value.strip()

    def _name(self, folder: str, *, is_trusted: bool) -> str:
        name, line = self._required("name"), self._line("name")
        shown = repr(clip(name, MAX_QUOTED_CHARS))
        fix = "Use lowercase letters, digits and single hyphens, at most 64 characters, as in `pdf-forms`."
        if not _USABLE_NAME.fullmatch(name) or not (is_standard_name(name) or is_trusted):
            raise _error(self._place, line, f"{shown} is no name of a skill. {fix}")
        if not is_standard_name(name):
            self._add(line, f"the standard does not allow the name {shown}", fix)
        if name != folder:
            self._add(line, f"the name {shown} is not that of the folder, {folder!r}", "Rename one of them.")
        return name

    def _metadata(self) -> Iterator[tuple[str, str]]:
        value = self._yaml.value.get("metadata")
        if value is not None and not isinstance(value, dict):
            self._add(self._line("metadata"), "`metadata` is no mapping", "Write keys and texts.")
            return
        for key, item in (value or {}).items():
            if not isinstance(item, str):
                problem = f"the value of {clip(key, MAX_QUOTED_CHARS)!r} in `metadata` is no text"
                self._add(self._line("metadata", key), problem, 'Put quotes around it, as in version: "1.0".')
            yield key, item if isinstance(item, str) else json.dumps(item)

    def _allowed_tools(self) -> tuple[str, ...]:
        value = self._yaml.value.get("allowed-tools")
        if value is None:
            return ()
        items = _split_tools(value) if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            fix = "Write names with spaces between them: `allowed-tools: find write`."
            self._add(self._line("allowed-tools"), "`allowed-tools` is no text", fix)
            return ()
        return tuple(items[:_MAX_TOOLS])


def _split_tools(text: str) -> list[str]:
    """Return the names in a text, each with its argument pattern; some authors put commas between them.

    A pattern without its closing parenthesis is the rest of the text: the search for it is not repeated.
    """
    return re.findall(r"[^\s,()]+(?:\([^)]*(?:\)|\Z))?", text)


def _find_in_texts(description: str, body: str, place: str, first_line: int, *, is_trusted: bool) -> Iterator[Finding]:
    if not body.strip():
        fix = "Write the instructions below the front matter."
        yield make_finding("invalid-skill", place, "it has no instructions", fix)
    if (count := body.count("\n") + 1) > MAX_LINES:
        problem, fix = f"it has {count:,} lines of instructions", "Move details into files in `references/`."
        yield make_finding("invalid-skill", place, problem, fix, severity="note")
    lines = enumerate(body.split("\n") if invisible.find(body) else [], first_line)
    hidden = (one for line, text in lines for one in _find_invisible(text, f"{place}, line {line}"))
    yield from itertools.islice(hidden, _MAX_FINDINGS)
    for text in () if is_trusted else (description, body):
        for problem, words in find_injections(text):
            fix = "Remove it, or do not use the skill before you know why it says so."
            quoted = f"{problem}: {words[:MAX_QUOTED_CHARS]!r}"
            yield make_finding("prompt-injection", place, quoted, fix)


def _find_invisible(text: str, place: str) -> Iterator[Finding]:
    if hidden := invisible.find(text):
        problem, fix = f"it has invisible characters: {', '.join(hidden)}", "Remove them: a model reads them."
        yield make_finding("hidden-unicode", place, problem, fix)


def find_missing_files(body: str, place: str, names: Collection[str]) -> Iterator[Finding]:
    """Yield the links and paths in instructions that lead to no file of the skill; those in code are not looked at."""
    prose = re.sub(r"`[^`\n]*`", lambda match: match[0].strip("`"), _FENCE.sub("", body))
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    targets = dict.fromkeys(match["target"] or match["path"] for match in _LINK.finditer(prose))
    paths = {target: unquote(target).removeprefix("./").rstrip("/") for target in targets if not _SCHEME.match(target)}
    missing = (target for target, path in paths.items() if path not in names and path not in folders)
    for target in itertools.islice(missing, _MAX_FINDINGS):
        problem = f"it names {clip(target, MAX_QUOTED_CHARS)!r}, which is no file of the skill"
        fix = f"Add the file, or correct the link. {near_misses(paths[target], names)}"
        yield make_finding("missing-skill-file", place, problem, fix)


def is_standard_name(name: str) -> bool:
    """Return whether the standard allows the name of a skill."""
    return _STANDARD_NAME.fullmatch(name) is not None and len(name) <= MAX_NAME_CHARS


def check_file_name(file: str) -> str:
    """Return the relative path of a file of a skill. Raises ToolError for a path that leads elsewhere."""
    path = file.removeprefix("./")
    is_relative = not any(part in {"", ".", ".."} for part in path.split("/"))
    if not is_relative or "\\" in path or "\0" in path or len(path) > 1_000 or _SCHEME.match(path):  # noqa: PLR2004
        raise ToolError(
            "Pass the path of a file of the skill as its list of files has it, such as references/forms.md."
        )
    return path


def decode(content: bytes, file: str) -> str:
    """Return a file as text. Raises ToolError for a file that is too large, binary or not UTF-8."""
    limit = MAX_SKILL_BYTES if file == SKILL_FILE else MAX_FILE_BYTES
    if len(content) > limit:
        raise ToolError(f"{file!r} is too large: at most {limit:,} bytes of it are read.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolError(f"{file!r} is binary, or no UTF-8, and cannot be read as text.")
    return text
