"""The texts of a tool, and docstrings as data: Google, NumPy, reST and Epydoc style, parsed by docstring-parser."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

BLANK_LINE: Final = "\n\n"
"""What separates paragraphs."""

_PARAMETER_TITLES: Final = frozenset(
    f"{kind}{noun}"
    for kind in ("", "keyword ", "other ")
    for noun in ("args", "arguments", "params", "parameters")
) | {"kwargs"}  # fmt: skip
_READ_TITLES: Final = frozenset({
    "return", "returns", "yield", "yields", "example", "examples", *_PARAMETER_TITLES,
})  # fmt: skip
"""Sections that are read as something else than a description, in lower case."""
_OTHER_TITLES: Final = frozenset({
    "raise", "raises", "except", "exception", "exceptions", "warn", "warns", "warning", "warnings", "note", "notes",
    "attention", "caution", "danger", "error", "hint", "important", "tip", "todo", "see also", "related", "reference",
    "references", "receive", "receives", "attribute", "attributes", "deprecated",
})  # fmt: skip

_PARSED_TITLES: Final = ("Args", "Arguments", "Parameters", "Params")
_PARSED_UNDERLINED_TITLES: Final = ("Parameters", "Other Parameters", "Other Params", "Other Arguments", "Other Args")
"""Titles of parameters that docstring-parser knows in Google's and in NumPy's style; it reads one section of each."""

_HEADER: Final = re.compile(r"(\w[\w ]*):[ \t]*\Z")
_RULE: Final = re.compile(r"-{3,}[ \t]*\Z")
_FIELD: Final = re.compile(r"[:@]([a-z]+)(?:\s++([^:\n]*+))?:(?:\s++(.*))?\Z")
_FIELD_NAMES: Final = frozenset({
    "param", "parameter", "arg", "argument", "attribute", "key", "keyword", "type", "return", "returns", "rtype",
    "yield", "yields", "ytype", "raise", "raises", "except", "exception", "example", "examples", "ivar", "cvar", "var",
    "note", "warning", "todo", "attention", "bug", "see", "since", "deprecated",
})  # fmt: skip
_DESCRIBING_FIELDS: Final = {
    "raise": "Raises", "raises": "Raises", "except": "Raises", "exception": "Raises", "note": "Note",
    "warning": "Warning", "todo": "Todo", "attention": "Attention", "bug": "Bug", "see": "See also", "since": "Since",
    "deprecated": "Deprecated",
}  # fmt: skip
"""Fields of reST and Epydoc that are other text, and the titles of their sections."""
_DIRECTIVE: Final = re.compile(r"\.\. ([a-z]+)::")
_LISTED_ENTRY: Final = re.compile(
    r"(?:[-*+•]\s+)?[`*]*+([A-Za-z_]\w*+)[`*]*+(?:\s*+(\([^()]*\)))?[`*]*+\s*+"
    r"(?::[`*]*+|(?<=\s)[-\u2013\u2014]\s)\s*+(\S.*)"
)
"""One parameter as an item of a list, in Markdown, or with a dash before its text."""

_PLAIN: Final = re.compile(
    r"(?:(?![:@.-])[^\n]*(?<![:\s])\n|\n)*+"
    r"(?:Args:\n(?:(?: {4}\w+(?: \([^()\n]*\))?:| {5})[^\n]*\n|\n)*+)?+"
    r"(?:(?:Returns|Yields|Examples?):\n(?:[ \t][^\n]*\n|\n)*+)*+"
)
"""A docstring that `docstring-parser` reads as it stands, as most are: text, `Args:` with its entries, and results."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """The texts of a docstring. Its types and "Defaults to …" are ignored: the signature states them."""

    short_description: str = ""
    long_description: str = ""
    """With the sections that are no parameters, results or examples, and what stands after them."""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    examples: str = ""


def parse(text: str | None, sections: Collection[str] | None = None) -> Docstring:
    """Parse a docstring of any of the four styles; text in none of them is a description.

    `sections` are the titles of those that the long description has; None: all.
    """
    if not text or not text.strip():
        return Docstring()
    text, parsed, others = inspect.cleandoc(text), None, list[Section]()
    if _PLAIN.fullmatch(f"{text}\n"):
        parsed = _read(_parsers()[0][0], text)
    if parsed is None:
        text, others = split_sections(text)
        readings = (_read(read, text) for read, marks in _parsers() if any(mark in f"\n{text}" for mark in marks))
        # the style that finds most parameters, as text such as `:mod:` occurs in every style
        parsed = max(filter(None, readings), key=lambda one: (len(_described(one)), len(one.meta)))
    long_description = parsed.long_description or ""
    if others:
        chosen = None if sections is None else {title.casefold().rstrip("s") for title in sections}
        kept = [text for title, text in others if not title or chosen is None or title.rstrip("s") in chosen]
        long_description = BLANK_LINE.join(filter(None, [long_description, *kept]))
    returns, examples = parsed.returns or next(iter(parsed.many_returns or ()), None), list[str]()
    for example in parsed.examples or ():
        examples += filter(None, (example.snippet, example.description))
    return Docstring(
        short_description=parsed.short_description or "",
        long_description=long_description,
        parameters=_described(parsed),
        returns=(returns.description or "") if returns else "",
        examples=BLANK_LINE.join(examples),
    )


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts of a tool. A docstring is parsed at the first access."""

    explicit_description: str | None = None
    """Replaces the docstring's description."""
    docstring: str | None = None
    parameters_docstring: str | None = None
    """Another docstring that describes the parameters, or None."""
    include_long_description: bool = True
    description_separator: str = BLANK_LINE
    """What joins the short and the long description."""
    parse_docstring: bool = True
    docstring_sections: tuple[str, ...] | None = None
    """The titles of the sections in the description, besides those that are read otherwise; None: all."""

    @property
    def description(self) -> str:
        """What the tool does."""
        if self.explicit_description is not None:
            return self.explicit_description
        parsed, long = self.parsed, self.parsed.long_description
        has_long = self.include_long_description and long
        return f"{parsed.short_description}{self.description_separator}{long}" if has_long else parsed.short_description

    @property
    def is_described(self) -> bool:
        """Whether there is a description."""
        return bool(self.description.strip())

    @functools.cached_property
    def details(self) -> Docstring:
        """What the parameters and the return value mean, and examples."""
        is_other = self.parameters_docstring not in (None, self.docstring)
        return replace(self, docstring=self.parameters_docstring).parsed if is_other else self.parsed

    @functools.cached_property
    def parsed(self) -> Docstring:
        """The docstring as data."""
        if self.parse_docstring:
            return parse(self.docstring, self.docstring_sections)
        return Docstring(short_description=(self.docstring or "").strip())


@functools.cache
def _parsers() -> list[tuple[Callable[[str], Any], tuple[str, ...]]]:
    """Return how each style is parsed, with marks without which a docstring has no section of it."""
    from docstring_parser import epydoc, google, numpydoc, rest

    return [
        (google.GoogleParser().parse, ("",)),  # to construct a parser takes as long as to parse
        (numpydoc.NumpydocParser().parse, ("",)),  # it accepts any text
        (rest.parse, ("\n:",)),
        (epydoc.parse, ("@",)),
    ]


def _read(parse_style: Callable[[str], Any], text: str) -> Any:
    """Return a docstring as a style reads it; None if it does not."""
    from docstring_parser import ParseError

    try:
        return parse_style(text)
    except (ParseError, IndexError):  # IndexError for a colon without a name
        return None


def _described(parsed: Any) -> dict[str, str]:
    """Return the texts of the parameters, by name."""
    found = {}
    for parameter in parsed.params:
        if parameter.description and parameter.args[0] != "attribute":
            for name in parameter.arg_name.split(","):
                found[sys.intern(name.strip().lstrip("*"))] = (
                    parameter.description.strip()
                )  # the signature has this name
    return found


class Section(NamedTuple):
    """Text of a docstring that is a description."""

    title: str
    """In lower case; empty for text without a title."""
    text: str


def split_sections(text: str) -> tuple[str, list[Section]]:
    """Return a docstring in the forms that docstring-parser reads, and the text that it would drop.

    Text before the first section is not split off.
    """
    lines = text.split("\n")
    blocks = list(_iter_underlined(lines) or _iter_titled(lines))
    kept = [body for title, body in blocks if title in _READ_TITLES or title == "start"]
    others = [Section(title, body) for title, body in blocks if title not in _READ_TITLES and title != "start"]
    kept_text = "\n\n".join(filter(None, kept))
    if not any(map(_field, kept_text.split("\n"))):
        return kept_text, others
    kept_text, described = _split_fields(kept_text.split("\n"))
    return kept_text, [*described, *others]


def _iter_titled(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the title and text of each section in Google's style: a line with a title, and indented lines below it."""
    title, part, names = "start", list[str](), iter(_PARSED_TITLES)
    for index, line in enumerate(lines):
        header = _title_of(lines, index)
        is_text = bool(line.strip()) and not line[0].isspace()
        if header or (is_text and title not in ("start", "")):
            yield title, _format_section(title, part, names)
            title, part = header, []
        part.append(line)
    yield title, _format_section(title, part, names)


def _title_of(lines: list[str], index: int) -> str:
    """Return the title that a line is, in lower case; an empty text for another line."""
    found = _HEADER.match(lines[index])
    title = found[1].casefold() if found else ""
    if title not in _READ_TITLES and title not in _OTHER_TITLES:
        return ""
    following = next((line for line in lines[index + 1 :] if line.strip()), "")
    return title if following[:1].isspace() else ""


def _iter_underlined(lines: list[str]) -> list[tuple[str, str]]:
    """Return the title and text of each section in NumPy's style: a title that is underlined; none if there is none."""
    starts = [
        index
        for index, line in enumerate(lines[:-1])
        if _RULE.match(lines[index + 1]) and line.strip().casefold() in _READ_TITLES | _OTHER_TITLES
    ]
    if not starts:
        return []
    found = [("start", "\n".join(lines[: starts[0]]).rstrip())]
    names = iter(_PARSED_UNDERLINED_TITLES)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        title, body = lines[start].strip(), lines[start + 2 : end]
        if title.casefold() in _PARAMETER_TITLES:
            title = next(names, title)
        is_read = title.casefold() in _READ_TITLES
        head = f"{title}\n{'-' * len(title)}" if is_read else f"{title}:"
        indent = "" if is_read else "    "
        text = "\n".join([head, *(f"{indent}{line}" if line.strip() else "" for line in body)]).rstrip()
        found.append((title.casefold(), text))
    return found


def _format_section(title: str, lines: list[str], names: Iterator[str]) -> str:
    """Return a section as text, with a title that docstring-parser knows, and parameters that it can read."""
    if title in _PARAMETER_TITLES:
        return "\n".join([f"{next(names, title)}:", *_to_entries(lines[1:])]).rstrip()
    if title in _READ_TITLES:
        lines = [f"{title.capitalize()}:", *lines[1:]]
    return "\n".join(lines).strip("\n").rstrip()


def _to_entries(lines: list[str]) -> Iterator[str]:
    """Yield the lines of parameters, with those that are items of a list as `name (type): text`."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for line in lines:
        is_entry = line.strip() and not line[margin].isspace()
        found = _LISTED_ENTRY.fullmatch(line.strip()) if is_entry else None
        yield f"{line[:margin]}{found[1]}{f' {found[2]}' if found[2] else ''}: {found[3]}" if found else line


def _field(line: str) -> re.Match[str] | None:
    """Return the match of a line that is a field of reST or Epydoc."""
    found = _FIELD.match(line)
    return found if found and found[1] in _FIELD_NAMES else None


def _split_fields(lines: list[str]) -> tuple[str, list[Section]]:
    """Return a docstring with the fields of reST or Epydoc that are read, and the other text after its first field."""
    kept, sections, has_field = list[str](), list[Section](), False
    for block in _iter_blocks(lines):
        found = _field(block[0])
        if found and found[1] in _DESCRIBING_FIELDS:
            title = _DESCRIBING_FIELDS[found[1]]
            first = ": ".join(filter(None, [found[2], found[3]]))
            body = [first, *(line.strip() for line in block[1:])]
            sections.append(Section(title.casefold(), "\n    ".join([f"{title}:", *body]).rstrip()))
        elif found or not has_field:
            kept += block
            has_field = has_field or found is not None
        elif text := "\n".join(block).strip("\n"):
            directive = _DIRECTIVE.match(block[0])
            sections.append(Section(directive[1] if directive else "", text))
    return "\n".join(kept).rstrip(), sections


def _iter_blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield each field with its indented lines, and each other paragraph."""
    block: list[str] = []
    for line in lines:
        starts_paragraph = bool(block) and not block[-1].strip() and line[:1].strip() != ""
        if block and (_field(line) or starts_paragraph):
            yield block
            block = []
        block.append(line)
    if block:
        yield block
