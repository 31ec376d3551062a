"""The operations of a document: which there are, and which of them become tools."""

from __future__ import annotations

import difflib
import fnmatch
import logging
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ahvn_tools.errors import SourceError, clip, near_misses
from ahvn_tools.invisible import escape_line
from ahvn_tools.schema.refs import unused_name
from ahvn_tools.sources.openapi.document import DocumentError, Node
from ahvn_tools.sources.openapi.options import OpenAPIOptions
from ahvn_tools.sources.openapi.parameters import tool_name

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
"""The HTTP methods that tools can have: all of OpenAPI 3.1 but `trace`."""

MAX_REASON_CHARS: Final = 300
"""The maximum length of a reason, which is cut after it."""

MAX_LEFT_OUT_CHARS: Final = 5_000
"""The maximum length of a list of operations that are left out."""

_MIN_SIMILARITY: Final = 0.8
"""How similar a member must be to one that is meant: `difflib` measures it."""

_SHARED_MEMBERS: Final = ("parameters", "servers")
"""What all methods of a path share and what requests depend on."""

_PATH_TEXTS: Final = ("$ref", "summary", "description")

_REQUEST_MEMBERS: Final = ("parameters", "servers", "requestBody", "security")
"""What requests depend on: without one of them, the tool would send something else."""

_OTHER_MEMBERS: Final = (
    "operationId",
    "deprecated",
    "tags",
    "summary",
    "description",
    "externalDocs",
    "responses",
    "callbacks",
)

_UNSENT_METHODS: Final = {
    "trace": "a TRACE request is never sent, because it returns credentials.",
    "query": "there is no support for the method QUERY.",
    "additionalOperations": "there is no support for other methods.",
}

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A method of a path."""

    method: str
    """In lower case."""
    path: str
    node: Node
    path_item: Node
    """The object with what all methods of the path share."""
    name: str = ""
    """The name of its tool without a prefix, which no other operation of the document has."""

    @property
    def operation_id(self) -> str | None:
        """The id that the document gives it, or None."""
        return self.node.read("operationId", str, "") or None

    @property
    def label(self) -> str:
        """Method and path, as in `GET /pets`."""
        return f"{self.method.upper()} {self.path}"

    @property
    def tags(self) -> list[str]:
        """The tags of the operation."""
        node = self.node.get("tags")
        values = node.value if node is not None and isinstance(node.value, list) else []
        names = [item.get("name") if isinstance(item, dict) else item for item in values]
        return [str(name) for name in names if isinstance(name, str | int | float)]

    @property
    def is_deprecated(self) -> bool:
        """Whether it should not be used any more."""
        return self.node.read("deprecated", bool, default=False)

    def check(self) -> None:
        """Raise DocumentError if what says which operation it is cannot be read."""
        _ = self.operation_id, self.tags, self.is_deprecated

    def matches(self, pattern: str, prefix: str = "") -> bool:
        """Whether a pattern is about this operation: by its id, by its tool's name, or by method and path."""
        method, space, path = pattern.partition(" ")
        names = (self.operation_id or "", self.name, prefix + self.name)
        return any(fnmatch.fnmatchcase(text, pattern) for text in names) or fnmatch.fnmatchcase(
            self.label, method.upper() + space + path
        )

    def matches_any(self, patterns: Iterable[str], prefix: str = "") -> bool:
        """Whether one of the patterns is about this operation."""
        return any(self.matches(pattern, prefix) for pattern in patterns)


def find_operations(document: Node, errors: list[DocumentError]) -> list[Operation]:
    """Return all operations in the order of the document; why others cannot be read is added to `errors`.

    Raises DocumentError for a document without paths.
    """
    paths = document.get("paths")
    if paths is None:
        raise document.error("an OpenAPI document needs `paths`; webhooks and components are no tools.")
    operations: list[Operation] = []
    for path, item in paths.members():
        try:
            path_item = _read_path(path, item)
        except DocumentError as error:
            errors.append(error)
            continue
        operations += _read_operations(path, path_item, errors)
    taken: set[str] = set()
    for index, operation in enumerate(operations):
        name = unused_name(tool_name(operation.operation_id, operation.method, operation.path), taken)
        taken.add(name)
        operations[index] = replace(operation, name=name)
    return operations


def explain(label: str, error: DocumentError) -> DocumentError:
    """Return the error about an operation that is skipped."""
    label, reason = clip(label, MAX_REASON_CHARS), clip(error.problem, MAX_REASON_CHARS)
    return DocumentError(f"{label} is skipped: {reason}", error.pointer)


def _read_path(path: str, item: Node) -> Node:
    if "://" in path:
        raise item.error("a path begins with a slash; the server of its requests is named in `servers`.")
    path_item = item.resolve().require_node(dict)
    _refuse_misspelt(path_item, _SHARED_MEMBERS, (*METHODS, *_PATH_TEXTS))
    return path_item


def _refuse_misspelt(node: Node, meant: Collection[str], others: Collection[str]) -> None:
    """Raise DocumentError for a member that is almost one of `meant`: without it, requests would not be as meant."""
    for name in node.value:
        near = _find_near(name, meant)
        if near is not None and name not in others and name not in meant:
            raise node.child(name).error(f"there is no member {name!r} here: write {near!r}.")


def _find_near(name: str, known: Collection[str]) -> str | None:
    """Return the name that is meant by another one, if they are almost the same."""
    similar = {re.sub(r"[^a-z]", "", one.lower()): one for one in known}
    found = difflib.get_close_matches(re.sub(r"[^a-z]", "", str(name).lower()), similar, n=1, cutoff=_MIN_SIMILARITY)
    return similar[found[0]] if found and not str(name).startswith("x-") else None


def _read_operations(path: str, path_item: Node, errors: list[DocumentError]) -> Iterator[Operation]:
    for method in METHODS:
        try:
            node = path_item.get(method)
            if node is not None:
                operation = Operation(method=method, path=path, node=node.require_node(dict), path_item=path_item)
                operation.check()
                _refuse_misspelt(node, _REQUEST_MEMBERS, _OTHER_MEMBERS)
                yield operation
        except DocumentError as error:
            errors.append(explain(f"{method.upper()} {path}", error))
    errors += [
        explain(f"{str(name).upper()} {path}", path_item.child(name).error(problem))
        for name in path_item.value
        if (problem := _find_problem(name, path_item.value[name])) is not None
    ]


def _find_problem(name: str, value: Any) -> str | None:
    """Return why a member of a path is no operation that a tool can have; None if it is one, or is none at all."""
    if value is None:
        return "it is empty: write its `responses`, or remove it." if name in METHODS else None
    if name in _UNSENT_METHODS:
        return _UNSENT_METHODS[name]
    near = _find_near(name, METHODS)
    is_known = name in METHODS or name in _PATH_TEXTS or name in _SHARED_MEMBERS
    return None if near is None or is_known else f"there is no method {name!r}: write {near!r}."


def select(operations: Iterable[Operation], options: OpenAPIOptions) -> list[Operation]:
    """Return the operations that the options choose. Raises SourceError for a choice that matches nothing."""
    found = list(operations)
    methods = [method.lower() for method in options.get("methods") or ()]
    for method in methods:
        if method not in METHODS:
            raise SourceError(f"{method.upper()!r} is no method of an operation. {near_misses(method, METHODS)}")
    tags, patterns, excluded = (list(options.get(key) or ()) for key in ("tags", "operations", "exclude"))  # type: ignore[call-overload]  # literal keys
    _refuse_unmatched("tags", tags, {tag for operation in found for tag in operation.tags})
    prefix = options.get("prefix") or ""
    for name, given in (("operations", patterns), ("exclude", excluded)):
        _refuse_unmatched_operations(name, given, found, prefix)
    named = {pattern for pattern in patterns if "*" not in pattern and "?" not in pattern and "[" not in pattern}

    def find_reason(operation: Operation) -> str | None:
        """Return why an operation is left out; None if it is chosen."""
        if methods and operation.method not in methods:
            return "by `methods`"
        if tags and not any(fnmatch.fnmatchcase(tag, pattern) for tag in operation.tags for pattern in tags):
            return "by tags"
        if patterns and not operation.matches_any(patterns, prefix):
            return "by `operations`"
        if operation.matches_any(excluded, prefix):
            return "by `exclude`"
        is_deprecated = operation.is_deprecated and not options.get("deprecated")
        return "because deprecated" if is_deprecated and not operation.matches_any(named, prefix) else None

    reasons = [find_reason(operation) for operation in found]
    for reason in dict.fromkeys(filter(None, reasons)):
        labels = [one.label for one, other in zip(found, reasons, strict=True) if other == reason]
        _logger.info("Left out %s: %s.", reason, escape_line(clip(", ".join(labels), MAX_LEFT_OUT_CHARS)))
    return [operation for operation, reason in zip(found, reasons, strict=True) if reason is None]


def _refuse_unmatched(name: str, patterns: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise SourceError(f"{name}: no operation has the tag {pattern!r}. {near_misses(pattern, known)}")


def _refuse_unmatched_operations(name: str, patterns: Iterable[str], operations: list[Operation], prefix: str) -> None:
    for pattern in patterns:
        if not any(operation.matches(pattern, prefix) for operation in operations):
            known = [operation.name if operation.operation_id else operation.label for operation in operations]
            raise SourceError(f"{name}: no operation matches {pattern!r}. {near_misses(pattern, known)}")
