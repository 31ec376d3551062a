"""YAML as plain data, with the line of each part: YAML 1.2's own types, bounded, without duplicate keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from yaml import events

from ahvn_tools.errors import SourceError, clip
from ahvn_tools.regular_file import read_text
from ahvn_tools.sources.budget import Budget

MAX_BYTES: Final = 32_000_000
MAX_DEPTH: Final = 100
MAX_MESSAGE_CHARS: Final = 1_000
"""An error shows at most this much: keys, tags and anchors of a document may be long."""
_TOO_DEEP: Final = f"this is nested too deeply: at most {MAX_DEPTH} levels are read."

_CORE_TYPES: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    ("null", re.compile(r"null|Null|NULL|~|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")),
)
"""The types of texts without quotes: the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema)."""

_TAG_PREFIX: Final = "tag:yaml.org,2002:"

_MAX_NUMBER_CHARS: Final = 400
"""No float has more digits, and Python refuses to read integers of more than 4300."""


_EVENTS_AT_ONCE: Final = 50
"""Events of the parser are taken from the budget in such steps."""


@dataclass(frozen=True, kw_only=True)
class YamlDocument:
    """The content of a YAML file."""

    name: str
    """The file, as errors name it."""
    value: Any = field(repr=False)
    """Dicts, lists, texts, numbers, booleans and None. What an alias repeats is the same object."""
    _lines: Mapping[int, Mapping[str | int, int]] = field(repr=False)
    """The lines of the members of each dict and list, by the id of the container, which `value` keeps alive."""

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """Return the line of a part, such as `("tools", 0, "name")`; None if there is no such part.

        The line of a member of a dict is that of its key. The first line is 1.
        """
        value, line = self.value, 1
        for key in path:
            if id(value) not in self._lines or key not in self._lines[id(value)]:
                return None
            line = self._lines[id(value)][key]
            value = value[key]
        return line


def read_yaml(source: Path | str, name: str | None = None, budget: Budget | None = None) -> YamlDocument:
    """Read a file, or a text, that contains one YAML document.

    Types are those of YAML 1.2: `no`, `on`, `1:30` and `2026-01-01` are texts, and `010` is ten. Keys are always
    texts, as they are written. Values and what aliases repeat are taken from the budget, its own one by default. Raises
    SourceError with the line for bad YAML, duplicate keys, tags of other types, and documents that are too large or too
    deep.
    """
    name = name or (str(source) if isinstance(source, Path) else "the text")
    text = read_text(source, name, MAX_BYTES) if isinstance(source, Path) else source.removeprefix("\ufeff")
    if len(text) > MAX_BYTES:
        raise SourceError(f"{name} is too large: at most {MAX_BYTES:,} bytes are read.", file=name)
    budget = budget or Budget(name)
    builder = _Builder(name, budget)
    try:
        for number, event in enumerate(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
            builder.handle(event)
            if number % _EVENTS_AT_ONCE == 0:
                budget.spend(_EVENTS_AT_ONCE)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise _error(name, line, _explain(error)) from None
    except yaml.reader.ReaderError as error:
        raise _error(name, None, f"the character U+{_code_point(error):04X} is not allowed in YAML.") from None
    return YamlDocument(name=name, value=builder.value, _lines=builder.lines)


def _error(name: str, line: int | None, message: str) -> SourceError:
    place = name if line is None else f"{name}, line {line}"
    return SourceError(f"{place}: {clip(message, MAX_MESSAGE_CHARS)}", file=name, line=line)


def _code_point(error: yaml.reader.ReaderError) -> int:
    return error.character if isinstance(error.character, int) else ord(error.character[:1])


def _explain(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "this is not YAML"
    if "maximum nesting depth" in problem:  # the parser's own limit, before any event of what is inside
        return _TOO_DEEP
    hint = " YAML is indented with spaces, not with tabs." if "cannot start any token" in problem else ""
    context = f" {error.context}" if error.context else ""
    return f"{problem}{context}.{hint}"


@dataclass(eq=False)
class _Container:
    """A dict or list that is being read."""

    value: dict[str, Any] | list[Any]
    lines: dict[str | int, int]
    key: str | None = None
    """The key of a dict whose value comes next."""
    anchor: str | None = None
    values: int = 1
    chars: int = 0

    def add(self, value: Any, line: int, values: int, chars: int) -> None:
        if isinstance(self.value, list):
            self.lines.setdefault(len(self.value), line)
            self.value.append(value)
        elif self.key is not None:
            self.value[self.key] = value
            self.key = None
        self.values += values
        self.chars += chars


class _Builder:
    """Makes the value of a document from parser events: without recursion, which deep YAML would exhaust."""

    def __init__(self, name: str, budget: Budget) -> None:
        self.value: Any = None
        self.lines: dict[int, dict[str | int, int]] = {}
        self._name = name
        self._open: list[_Container] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        """The values by anchor, with the number of values and characters in them."""
        self._budget = budget
        self._documents = 0

    def handle(self, event: events.Event) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, events.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._error(line, "a second document starts here: keep one document in a file.")
        elif isinstance(event, events.CollectionStartEvent):
            self._start(event, line)
        elif isinstance(event, events.CollectionEndEvent):
            self._end(line)
        elif isinstance(event, events.AliasEvent):
            self._repeat(event, line)
        elif isinstance(event, events.ScalarEvent):
            self._add_scalar(event, line)

    def _start(self, event: events.CollectionStartEvent, line: int) -> None:
        is_list = isinstance(event, events.SequenceStartEvent)
        self._refuse_tag(event.tag, "seq" if is_list else "map", line)
        if self._expects_key():
            raise self._error(line, "a key must be a text.")
        if len(self._open) >= MAX_DEPTH:
            raise self._error(line, _TOO_DEEP)
        container = _Container(value=[] if is_list else {}, lines={}, anchor=event.anchor)
        self.lines[id(container.value)] = container.lines
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        if self._open and isinstance(self._open[-1].value, list):
            self._open[-1].lines[len(self._open[-1].value)] = line  # where the item starts, and not where it ends
        self._open.append(container)

    def _end(self, line: int) -> None:
        container = self._open.pop()
        if container.anchor:
            self._anchors[container.anchor] = (container.value, container.values, container.chars)
        self._add(container.value, line, container.values, container.chars)

    def _repeat(self, event: events.AliasEvent, line: int) -> None:
        if event.anchor not in self._anchors:
            raise self._error(line, f"there is no anchor &{event.anchor} before this alias, or it contains the alias.")
        value, values, chars = self._anchors[event.anchor]
        self._budget.spend(values, chars)
        if self._expects_key():
            raise self._error(line, "a key must be a text, and no alias.")
        self._add(value, line, values, chars)

    def _add_scalar(self, event: events.ScalarEvent, line: int) -> None:
        is_plain = event.implicit[0] and not event.style
        if self._expects_key():
            self._set_key(event, line, is_plain=is_plain)
            return
        value = self._convert(event, line, is_plain=is_plain)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1, len(event.value))
        self._add(value, line, 1, len(event.value))

    def _set_key(self, event: events.ScalarEvent, line: int, *, is_plain: bool) -> None:
        container, key = self._open[-1], event.value
        self._refuse_tag(event.tag, "str", line)
        if is_plain and key == "<<":
            raise self._error(line, "merge keys (<<) are not part of YAML 1.2: write the keys out.")
        if key in container.lines:
            raise self._error(line, f"the key {key!r} is here for a second time: line {container.lines[key]} has it.")
        container.key = key
        container.chars += len(key)
        container.lines[key] = line

    def _convert(self, event: events.ScalarEvent, line: int, *, is_plain: bool) -> Any:
        text, kind = event.value, "str"
        if event.tag == "!":
            return text
        if event.tag is not None:
            kind = event.tag.removeprefix(_TAG_PREFIX)
        elif is_plain:
            kind = next((kind for kind, pattern in _CORE_TYPES if pattern.fullmatch(text)), "str")
        if kind == "str":
            return text
        pattern = dict(_CORE_TYPES).get(kind)
        if pattern is None:
            self._refuse_tag(event.tag, "str", line)
        if pattern is None or not pattern.fullmatch(text):
            raise self._error(line, f"the tag !!{kind} does not fit this value.")
        if len(text) > _MAX_NUMBER_CHARS:
            raise self._error(line, "this number is too long: put it in quotes.")
        return _CONVERTERS[kind](text)

    def _refuse_tag(self, tag: str | None, expected: str, line: int) -> None:
        if tag not in {None, "!", _TAG_PREFIX + expected}:
            shown = str(tag).replace(_TAG_PREFIX, "!!")
            raise self._error(line, f"the tag {shown!r} is not supported: only texts, numbers, lists and the like are.")

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _add(self, value: Any, line: int, values: int, chars: int) -> None:
        if self._open:
            self._open[-1].add(value, line, values, chars)
        else:
            self.value = value

    def _error(self, line: int, message: str) -> SourceError:
        return _error(self._name, line, message)


def _to_integer(text: str) -> int:
    if text.startswith(("0o", "0x")):
        return int(text, 0)
    return int(text)


def _to_float(text: str) -> float:
    return float(re.sub(r"\.(?=[a-zA-Z])", "", text))  # `.inf` and `.nan`


_CONVERTERS: Final = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": _to_integer,
    "float": _to_float,
}
