"""Docstrings as data: Google, NumPy, reST and Epydoc style, parsed by docstring-parser."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from ahvn_tools.schema.docstring_sections import join_sections, split_sections

BLANK_LINE: Final = "\n\n"
"""What separates paragraphs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """The texts of a docstring. Its types and "Defaults to …" are ignored: the signature states them."""

    short_description: str = ""
    long_description: str = ""
    """With the sections that are no parameters, results or examples, and what stands after them."""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    usage: str = ""

    def description(self, *, include_long: bool, separator: str = BLANK_LINE) -> str:
        """Return the short description and, with `include_long`, the long one after the separator."""
        return (
            f"{self.short_description}{separator}{self.long_description}"
            if include_long and self.long_description
            else self.short_description
        )


def parse(text: str | None, sections: Collection[str] | None = None) -> Docstring:
    """Parse a docstring of any of the four styles; text in none of them is a description.

    `sections` are the titles of those that the long description has; None: all.
    """
    if not text or not text.strip():
        return Docstring()
    text, others = split_sections(inspect.cleandoc(text))
    parsed = _parse_best_style(text)
    returns = parsed.returns or next(iter(parsed.many_returns or ()), None)
    return Docstring(
        short_description=parsed.short_description or "",
        long_description=BLANK_LINE.join(filter(None, [parsed.long_description, join_sections(others, sections)])),
        parameters={
            sys.intern(name.strip().lstrip("*")): p.description.strip()  # the signature has the same name
            for p in _function_parameters(parsed)
            for name in p.arg_name.split(",")
            if p.description
        },
        returns=(returns.description or "") if returns else "",
        usage="\n\n".join(
            part for example in parsed.examples for part in (example.snippet, example.description) if part
        ),
    )


@functools.cache
def _parsers() -> list[tuple[Callable[[str], Any], tuple[str, ...]]]:
    """Return how each style is parsed, with marks without which a docstring has no section of it."""
    from docstring_parser import epydoc, google, numpydoc, rest

    return [
        (google.GoogleParser().parse, ()),  # to construct a parser takes as long as to parse
        (numpydoc.NumpydocParser().parse, ("--", "..")),
        (rest.parse, ("\n:",)),
        (epydoc.parse, ("@",)),
    ]


def _parse_best_style(text: str) -> Any:
    """Parse a docstring in the style that finds most parameters, as text such as `:mod:` occurs in every style.

    The NumPy parser accepts any text, so at least one style succeeds.
    """
    import docstring_parser

    readings: list[Any] = []
    for parse_style, marks in _parsers():
        if readings and marks and not any(mark in f"\n{text}" for mark in marks):
            continue
        with contextlib.suppress(docstring_parser.ParseError, IndexError):  # IndexError for a colon without a name
            readings.append(parse_style(text))
    return max(readings, key=lambda reading: (len(_function_parameters(reading)), len(reading.meta)))


def _function_parameters(parsed: Any) -> list[Any]:
    return [parameter for parameter in parsed.params if parameter.args[0] != "attribute"]
