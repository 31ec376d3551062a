"""ToolDefinition: everything that a model sees of a tool, as a frozen value with a fingerprint."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from ahvn_tools.json_types import JsonObject

T = TypeVar("T")

_MAX_SHARED = 32
_DERIVED = ("_memoized", "_shared")
"""What is not pickled, because it can be made again."""


@dataclass(frozen=True, slots=True)
class JsonText:
    """JSON that is text already. A JsonField keeps this very text, which its owner may keep, too."""

    text: str


class JsonField:
    """A dataclass field that is stored as JSON text, so that each access returns a fresh copy."""

    def __init__(self, default: Any = None) -> None:
        """`default` is stored instead of None."""
        self._default_text = None if default is None else json.dumps(default)

    def __set_name__(self, owner: type, name: str) -> None:
        """Set the name of the attribute that stores the text."""
        self.text_name = f"_{name}_text"

    def __get__(self, instance: object | None, owner: type) -> Any:
        """Parse the text; on the class, return the dataclass field's default."""
        if instance is None:
            return None
        text = instance.__dict__[self.text_name]
        return None if text is None else json.loads(text)

    def __set__(self, instance: object, value: Any) -> None:
        """Store the value, or a JsonText, as text. Raises TypeError or ValueError for a value without a JSON form."""
        if isinstance(value, JsonText):
            text: str | None = value.text
        else:
            text = self._default_text if value is None else json.dumps(value, allow_nan=False)
        instance.__dict__[self.text_name] = text


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolDefinition:
    """Everything that a model sees of one tool, without bound parameters. Exporters read nothing else.

    Reading a JSON field returns a copy, so the definition itself cannot change.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: JsonField = JsonField({"type": "object", "properties": {}, "additionalProperties": False})
    """JSON Schema of the arguments; the root is an object. None: there are none."""
    output_schema: JsonField = JsonField()
    """JSON Schema of `structured_content`; the root is an object. None: any content."""
    tags: frozenset[str] = frozenset()
    annotations: JsonField = JsonField()
    """MCP's hints under their wire names, such as `{"readOnlyHint": true}`, or None."""
    examples: JsonField = JsonField()
    """Sample calls, a list of `{"inputs": …}` with optional `expected` and `note`, or None."""
    meta: JsonField = JsonField()
    version: str | None = None
    icons: JsonField = JsonField()
    """MCP icons, a list of `{"src": …}`, or None."""
    returns: str = ""
    """The docstring's description of the return value."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, over everything that a model can see of the tool."""
        import hashlib  # slow to import, and few processes need it

        values = {name: value for name in self.__dataclass_fields__ if (value := getattr(self, name)) is not None}
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=sorted)  # tags are a set
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    def memoize(self, make: Callable[..., JsonObject], *options: Any) -> JsonObject:
        """Return `make(self, *options)`, computed once for the same options, as a fresh copy.

        `make` is a function of a module that returns JSON. Lone surrogates, which UTF-8 cannot encode, are replaced.
        """
        memoized = self.__dict__.setdefault("_memoized", {})
        key = (make, *options)
        text = memoized.get(key)
        if text is None:
            text = memoized[key] = _to_utf8(make(self, *options))
        copy: JsonObject = from_json(text, cache_strings="keys")
        return copy

    def share(self, key: Hashable, make: Callable[..., T], *arguments: Any) -> T:
        """Return `make(self, *arguments)`, computed once for the same key: an object that no caller may change.

        The results for the latest 32 keys are kept.
        """
        shared: dict[Hashable, T] = self.__dict__.setdefault("_shared", {})
        known = shared.get(key)
        if known is None:
            known = shared.setdefault(key, make(self, *arguments))
            if len(shared) > _MAX_SHARED:
                shared.pop(next(iter(shared)), None)
        return known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolDefinition) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> JsonObject:
        return {name: value for name, value in self.__dict__.items() if name not in _DERIVED}

    def __repr__(self) -> str:
        return f"<ToolDefinition {self.name!r}({', '.join(self.input_schema.get('properties', {}))})>"


def _to_utf8(value: JsonObject) -> bytes:
    try:
        return to_json(value)
    except ValueError:  # of a lone surrogate, or of what is nested deep
        text = json.dumps(value, ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
