"""The operations of a document: which there are, and which of them become tools."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ahvn_tools.errors import SourceError, clip, near_misses
from ahvn_tools.invisible import escape_line
from ahvn_tools.sources.openapi.document import DocumentError, Node
from ahvn_tools.sources.openapi.options import OpenAPIOptions

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
"""The HTTP methods that tools can have: all of OpenAPI 3.1 but `trace`."""

MAX_REASON_CHARS: Final = 300
"""The maximum length of a reason, which is cut after it."""

MAX_LEFT_OUT_CHARS: Final = 5_000
"""The maximum length of a list of operations that are left out."""

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

    def matches(self, pattern: str) -> bool:
        """Whether a pattern is about this operation: by its id, or by method and path."""
        return any(fnmatch.fnmatchcase(text, pattern) for text in (self.operation_id or "", self.label))


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
    return operations


def explain(label: str, error: DocumentError) -> DocumentError:
    """Return the error about an operation that is skipped."""
    label, reason = clip(label, MAX_REASON_CHARS), clip(error.problem, MAX_REASON_CHARS)
    return DocumentError(f"{label} is skipped: {reason}", error.pointer)


def _read_path(path: str, item: Node) -> Node:
    if "://" in path:
        raise item.error("a path begins with a slash; the server of its requests is named in `servers`.")
    return item.resolve().require_node(dict)


def _read_operations(path: str, path_item: Node, errors: list[DocumentError]) -> Iterator[Operation]:
    for method in METHODS:
        try:
            node = path_item.get(method)
            if node is not None:
                operation = Operation(method=method, path=path, node=node.require_node(dict), path_item=path_item)
                operation.check()
                yield operation
        except DocumentError as error:
            errors.append(explain(f"{method.upper()} {path}", error))
    if path_item.value.get("trace") is not None:
        problem = "a TRACE request is never sent, because it returns credentials."
        errors.append(explain(f"TRACE {path}", path_item.child("trace").error(problem)))


def select(operations: Iterable[Operation], options: OpenAPIOptions) -> list[Operation]:
    """Return the operations that the options choose. Raises SourceError for a choice that matches nothing."""
    found = list(operations)
    methods = [method.lower() for method in options.get("methods") or ()]
    for method in methods:
        if method not in METHODS:
            raise SourceError(f"{method.upper()!r} is no method of an operation. {near_misses(method, METHODS)}")
    tags, patterns, excluded = (list(options.get(key) or ()) for key in ("tags", "operations", "exclude"))  # type: ignore[call-overload]  # literal keys
    _refuse_unmatched("tags", tags, {tag for operation in found for tag in operation.tags})
    for name, given in (("operations", patterns), ("exclude", excluded)):
        _refuse_unmatched_operations(name, given, found)
    named = {pattern for pattern in patterns if "*" not in pattern and "?" not in pattern and "[" not in pattern}

    def find_reason(operation: Operation) -> str | None:
        """Return why an operation is left out; None if it is chosen."""
        if methods and operation.method not in methods:
            return "by `methods`"
        if tags and not any(fnmatch.fnmatchcase(tag, pattern) for tag in operation.tags for pattern in tags):
            return "by tags"
        if patterns and not any(map(operation.matches, patterns)):
            return "by `operations`"
        if any(map(operation.matches, excluded)):
            return "by `exclude`"
        is_deprecated = operation.is_deprecated and not options.get("deprecated")
        return "because deprecated" if is_deprecated and not any(map(operation.matches, named)) else None

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


def _refuse_unmatched_operations(name: str, patterns: Iterable[str], operations: list[Operation]) -> None:
    for pattern in patterns:
        if not any(operation.matches(pattern) for operation in operations):
            known = [operation.operation_id or operation.label for operation in operations]
            raise SourceError(f"{name}: no operation matches {pattern!r}. {near_misses(pattern, known)}")
