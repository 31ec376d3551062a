"""An extension of griffe for the API pages: options of `Unpack[…]` as parameters, and examples as blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
"""An example in a docstring: all lines up to an empty one."""


def options_of(source: griffe.Class) -> Iterator[griffe.Attribute]:
    """Yield the keys of a TypedDict, those of its bases first."""
    for base in source.bases:
        if isinstance(base, griffe.Expr) and not base.canonical_path.startswith("typing"):
            yield from options_of(source.modules_collection[base.canonical_path])
    for member in source.members.values():
        if isinstance(member, griffe.Attribute):
            yield member


def without_check(annotation: Any) -> Any:
    """Return the type in `Annotated[type, check]`."""
    is_annotated = isinstance(annotation, griffe.ExprSubscript) and annotation.canonical_path == "typing.Annotated"
    return annotation.slice.elements[0] if is_annotated else annotation


class Docstrings(griffe.Extension):
    """Changes what griffe has read, before the pages are made."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mark the examples of a docstring as code."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", obj.docstring.value)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Leave out the check of an option."""
        attr.annotation = without_check(attr.annotation)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Describe the keys of `**options: Unpack[…]` after the docstring."""
        for parameter in func.parameters:
            annotation = parameter.annotation
            if isinstance(annotation, griffe.ExprSubscript) and annotation.canonical_path == "typing.Unpack":
                options = options_of(func.modules_collection[annotation.slice.canonical_path])  # type: ignore[union-attr]
                func.docstring = func.docstring or griffe.Docstring("", parent=func)
                func.docstring.parsed.append(
                    griffe.DocstringSectionAttributes(list(map(describe, options)), title="Options:")
                )


def describe(option: griffe.Attribute) -> griffe.DocstringAttribute:
    """Return a key of a TypedDict as a row of a table."""
    text = "" if option.docstring is None else option.docstring.value
    return griffe.DocstringAttribute(option.name, annotation=option.annotation, description=text)
