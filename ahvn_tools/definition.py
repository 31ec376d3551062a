"""ToolDefinition: what a model is shown of a tool, as a frozen value, and its fingerprint."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from pydantic_core import from_json

JsonObject = dict[str, Any]


class JsonField:
    """A dataclass field that is kept as JSON text and handed out as a fresh copy each time."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember under which name the text is kept."""
        self.text_name = f"_{name}_text"

    @overload
    def __get__(self, instance: None, owner: type) -> Any: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Any: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        """Parse the text anew; on the class, give the default that the dataclass asks for."""
        if instance is None:
            return None
        text = instance.__dict__[self.text_name]
        return None if text is None else json.loads(text)

    def __set__(self, instance: object, value: Any) -> None:
        """Keep the value as text. Raises TypeError or ValueError for what has no JSON form."""
        instance.__dict__[self.text_name] = None if value is None else json.dumps(value, allow_nan=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolDefinition:
    """What a model is shown of one tool. Exporters take only this; it never holds a bound parameter.

    JSON fields are copies: change what you read as you like, the definition stays.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: JsonField = JsonField()
    """JSON Schema of the arguments; the root is an object."""
    output_schema: JsonField = JsonField()
    """JSON Schema of `structured_content`; the root is an object. None: nothing is promised."""
    tags: frozenset[str] = frozenset()
    annotations: JsonField = JsonField()
    """MCP's hints under their wire names, such as `{"readOnlyHint": true}`; None when there are none."""
    examples: JsonField = JsonField()
    """Sample calls, a list of `{"inputs": …}` with optional `expected` and `note`; None when there are none."""
    meta: JsonField = JsonField()
    version: str | None = None
    icons: JsonField = JsonField()
    """MCP icons, a list of `{"src": …}`; None when there are none."""
    returns: str = ""
    """What comes back, in the words of the docstring."""
    usage: str = ""
    """The example texts of the docstring."""

    def __post_init__(self) -> None:
        """Give a definition without a schema the one that takes no arguments."""
        if self.input_schema is None:
            object.__setattr__(
                self, "input_schema", {"type": "object", "properties": {}, "additionalProperties": False}
            )

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, over everything that a model can see of the tool."""
        canonical = json.dumps(self._visible_fields(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    def memoize(self, make: Callable[..., JsonObject], *options: Any) -> JsonObject:
        """Return what `make(self, *options)` gives, made once for each set of options and handed out as a fresh copy.

        A definition never changes, so what is made of it is kept as long as it lives. `make` is a module's function,
        and gives JSON; half a character (a lone surrogate), which nobody can send, is replaced.
        """
        made = self.__dict__.setdefault("_memoized", {})
        text = made.get((make, *options))
        if text is None:
            text = made[make, *options] = _encode_utf8(json.dumps(make(self, *options), ensure_ascii=False))
        copy: JsonObject = from_json(text)
        return copy

    def _visible_fields(self) -> JsonObject:
        return {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name in self.__dataclass_fields__
            if (value := getattr(self, name)) is not None
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolDefinition) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> JsonObject:
        return {name: value for name, value in self.__dict__.items() if name != "_memoized"}

    def __repr__(self) -> str:
        return f"<ToolDefinition {self.name!r}({', '.join(self.input_schema.get('properties', {}))})>"


def _encode_utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
