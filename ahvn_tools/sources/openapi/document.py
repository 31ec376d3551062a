"""Document: an OpenAPI document, and its parts with their places.

Nothing is fetched: a reference to another document leads nowhere, unless the caller passes `open_file`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from posixpath import dirname, join, normpath
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

from pydantic_core import to_jsonable_python

from ahvn_tools.errors import SourceError, clip
from ahvn_tools.invisible import escape_line
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources.budget import Budget, BudgetError

MAX_DEPTH: Final = 200
"""The maximum nesting of a document."""

MAX_REFERENCES: Final = 100
"""The maximum number of references that lead to one another."""

MAX_POINTER_CHARS: Final = 500
"""An error shows at most this much of a pointer."""

MAX_PROBLEM_CHARS: Final = 1_000
"""An error shows at most this much of a problem."""

_VALUES_AT_ONCE: Final = 1_000

_VERSION: Final = re.compile(r"3(?:\.([0-2]))?(\.[0-9x*]+)?(-.*)?")
_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_KINDS: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}

OpenFile = Callable[[str], Any]
"""Returns the content of a file by its path relative to the document. Raises SourceError."""

T = TypeVar("T")


class DocumentError(SourceError):
    """A part of a document is wrong: the one at the JSON pointer, which follows the name of any other file."""

    def __init__(self, problem: str, pointer: str) -> None:
        super().__init__(escape_line(f"{clip(pointer, MAX_POINTER_CHARS)}: {clip(problem, MAX_PROBLEM_CHARS)}"))
        self.problem = problem
        self.pointer = pointer

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with all arguments, which Python's default omits."""
        return type(self), (self.problem, self.pointer)


@dataclass(frozen=True, kw_only=True)
class Document:
    """An OpenAPI document, or a file that one refers to."""

    root: Any
    minor: int
    """0 for OpenAPI 3.0, 1 for 3.1."""
    budget: Budget = field(repr=False)
    """What is left for this document and its files."""
    file: str = ""
    """The path relative to the main document, of a file that it refers to."""
    open_file: OpenFile | None = field(default=None, repr=False)
    files: dict[str, Document] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, root: Any, budget: Budget, open_file: OpenFile | None = None) -> Document:
        """Return a document of OpenAPI 3. Raises SourceError for anything else, and for one that is too large."""
        if not isinstance(root, dict):
            raise SourceError(f"An OpenAPI document is an object with `openapi` and `paths`, not {_name_kind(root)}.")
        root = check_size(root, budget)
        return cls(root=root, minor=_read_version(root), budget=budget, open_file=open_file)

    @property
    def node(self) -> Node:
        """The whole document."""
        return Node(document=self, value=self.root, pointer=f"{self.file}#")

    @functools.cached_property
    def anchors(self) -> dict[str, Node]:
        """The schemas with an anchor, by its name."""
        anchors: dict[str, Node] = {}
        pending = [self.node]
        while pending:
            node = pending.pop()
            if isinstance(node.value, dict):
                for name in (node.value.get("$anchor"), node.value.get("$dynamicAnchor")):
                    if isinstance(name, str):
                        anchors.setdefault(name, node)
                pending.extend(node.child(key) for key in node.value if isinstance(key, str))
            elif isinstance(node.value, list):
                pending.extend(node.child(index) for index in range(len(node.value)))
        return anchors

    def open(self, path: str, source: Node) -> Document:
        """Return another file that a node refers to. Raises DocumentError unless other files may be read."""
        if self.open_file is None or "://" in path:
            problem = f"it refers to {path!r}, which is outside of the document; nothing is fetched."
            raise source.error(f"{problem} Put what it refers to under `components`, or pass external_files=True.")
        name = normpath(join(dirname(self.file), path))
        if name not in self.files:
            try:
                root = check_size(self.open_file(name), self.budget)
            except BudgetError:
                raise
            except SourceError as error:
                raise source.error(str(error)) from error
            self.files[name] = replace(self, root=root, file=name)
        return self.files[name]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A value in a document, and its place."""

    document: Document
    value: Any
    pointer: str

    def error(self, problem: str) -> DocumentError:
        """Return the error about this node."""
        return DocumentError(problem, self.pointer)

    def child(self, step: str | int) -> Node:
        """Return a member or an item, which must exist."""
        self.document.budget.spend()
        text = str(step).replace("~", "~0").replace("/", "~1")
        return Node(document=self.document, value=self.value[step], pointer=f"{self.pointer}/{text}")

    def get(self, name: str) -> Node | None:
        """Return a member; None if there is none, or if this is no object. References are followed."""
        if not isinstance(self.value, dict) or self.value.get(name) is None:
            return None
        return self.child(name).resolve()

    def members(self) -> Iterator[tuple[str, Node]]:
        """Yield the members of an object by name, without extensions (`x-…`). References are not followed."""
        for name in self.require(dict):
            if not isinstance(name, str | int) or isinstance(name, bool):
                raise self.error(f"the name {name!r} must be a text: put it in quotes.")
            if not str(name).startswith("x-"):
                yield str(name), self.child(name)  # YAML reads the status 200 as a number

    def items(self) -> Iterator[Node]:
        """Yield the items of a list. References are followed."""
        for index in range(len(self.require(list))):
            yield self.child(index).resolve()

    def require(self, kind: type[T]) -> T:
        """Return the value. Raises DocumentError unless it is of a type."""
        if not isinstance(self.value, kind):
            raise self.error(f"it must be {_KINDS[kind]}, not {_name_kind(self.value)}.")
        return self.value

    def require_node(self, kind: type[Any]) -> Node:
        """Return this node. Raises DocumentError unless its value is of a type."""
        self.require(kind)
        return self

    def read(self, name: str, kind: type[T], default: T) -> T:
        """Return the value of a member, or the default. Raises DocumentError for another type.

        A number or a date is also read as a text, and the text `true` as true: YAML needs quotes to tell them apart.
        """
        member = self.get(name)
        if member is None:
            return default
        value = member.value
        if kind is str and isinstance(value, bool | int | float):
            return cast("T", str(value).lower() if isinstance(value, bool) else str(value))
        if kind is bool and isinstance(value, str) and value.lower() in {"true", "false"}:
            return cast("T", value.lower() == "true")
        return member.require(kind)

    def resolve(self) -> Node:
        """Return what a reference leads to, through any number of references; any other node unchanged.

        Raises DocumentError for a reference that leads nowhere, in a circle, or out of the document.
        """
        node = self
        for _ in range(MAX_REFERENCES):
            reference = node.value.get("$ref") if isinstance(node.value, dict) else None
            if not isinstance(reference, str):
                return node
            node = node.follow(reference)
        raise self.error("its references lead in a circle: let one of them lead to a value.")

    def follow(self, reference: str) -> Node:
        """Return what one reference leads to: a JSON pointer or an anchor, here or in another file."""
        path, _, fragment = reference.partition("#")
        document = self.document.open(unquote(path), self) if path else self.document
        try:
            if fragment and not fragment.startswith("/"):
                target = document.anchors.get(unquote(fragment))
            else:
                target = _find_pointer(document.node, fragment)
        except RecursionError:  # a pointer leads through a reference, whose pointer leads through a reference …
            raise self.error("its references lead through too many others: let one of them lead to a value.") from None
        if target is None:
            raise self.error(f"it refers to {clip(reference, 200)!r}, where nothing is: correct the reference.")
        return target


def check_size(root: Any, budget: Budget) -> Any:
    """Return a document with JSON's types alone. Raises SourceError if it is nested too deeply or too large.

    What a parser of YAML made of dates, and of names that are numbers or `true`, becomes a text again.
    """
    count, is_json = 0, True
    pending: list[tuple[Any, int]] = [(root, 1)]
    while pending:
        value, depth = pending.pop()
        if not isinstance(value, dict | list):
            is_json = is_json and (value is None or isinstance(value, str | int | float))
            continue
        count += len(value)
        if count > _VALUES_AT_ONCE:
            budget.spend(count)
            count = 0
        if depth > MAX_DEPTH:
            raise SourceError(f"The document is nested more than {MAX_DEPTH} levels deep; make it flatter.")
        is_json = is_json and (isinstance(value, list) or all(isinstance(name, str) for name in value))
        pending.extend((part, depth + 1) for part in (value.values() if isinstance(value, dict) else value))
    budget.spend(count)
    return root if is_json else to_jsonable_python(root, fallback=str)


def _read_version(root: JsonObject) -> int:
    """Return the minor version of OpenAPI 3. Raises SourceError for another version."""
    if "swagger" in root:
        raise SourceError(
            f"This is a document of Swagger {clip(str(root['swagger']), 20)}; only OpenAPI 3 is read. Convert it, for "
            "example with https://converter.swagger.io."
        )
    version = root.get("openapi")
    if version is None:
        raise SourceError("This is no OpenAPI document: it has no member `openapi`, such as `openapi: 3.1.0`.")
    match = _VERSION.fullmatch(str(version))
    if match is None:
        raise SourceError(f"There is no support for OpenAPI {clip(str(version), 20)!r}; use a version of 3.0 to 3.2.")
    return int(match[1] or 0)


def _find_pointer(node: Node, pointer: str) -> Node | None:
    """Return the target of a JSON pointer (RFC 6901) in a document. References on the way are followed."""
    for step in pointer.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node.value, dict) and name not in node.value:
            node = node.resolve()
        if isinstance(node.value, dict) and name in node.value:
            node = node.child(name)
        elif isinstance(node.value, list) and _ARRAY_INDEX.fullmatch(name) and int(name) < len(node.value):
            node = node.child(int(name))
        else:
            return None
    return node


def _name_kind(value: Any) -> str:
    return _KINDS.get(type(value)) or clip(json.dumps(value, default=str), 40)


def base_type(media_type: str) -> str:
    """Return a media type in lower case without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON, or a range that includes it."""
    base = base_type(media_type)
    return base in {"application/json", "text/json", "*/*", "application/*"} or base.endswith("+json")
