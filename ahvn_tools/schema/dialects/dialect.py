"""Dialects: the part of JSON Schema that each provider accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.ollama import to_ollama
from ahvn_tools.schema.dialects.openapi import to_openapi

_CORE_KEYWORDS = frozenset({
    "type", "description", "properties", "required", "items", "anyOf", "enum",
    "minimum", "maximum", "minItems", "maxItems",
})  # fmt: skip


_CLAUDE_NAMES: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Claude's API refuses a request with a property of another name at the root of a tool's schema."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a provider accepts of JSON Schema 2020-12."""

    keywords: frozenset[str] | None = None
    """The keywords that it accepts; None: all, unknown ones included."""
    formats: frozenset[str] | None = None
    """The values of `format` that it accepts; None: all."""
    enum_types: tuple[type, ...] | None = None
    """The Python types of the values that an enum may contain; None: all."""
    supports_references: bool = True
    """Whether it accepts `$ref`; otherwise references are replaced by their targets."""
    requires_bare_references: bool = False
    """Whether a `$ref` must be the only keyword, and may be recursive only through optional members."""
    supports_tuples: bool = True
    """Whether it accepts `prefixItems`."""
    allows_untyped_items: bool = True
    """Whether an array may have no `items`."""
    has_single_types: bool = False
    """Whether each schema has either one type, or `anyOf` without other keywords that restrict the value."""
    argument_names: re.Pattern[str] | None = None
    """What a provider accepts as names of arguments, not of members inside of them; None: any."""
    finalize: Callable[[JsonObject], tuple[JsonObject, list[Finding]]] | None = None
    """A last conversion, in place; it returns the schema and findings on what the conversion loses."""

    @property
    def accepts_plain_objects(self) -> bool:
        """Whether it accepts an object of plain scalars (see `is_plain_object`) as it is."""
        return self.keywords is None and self.finalize is None

    def supports(self, keyword: str) -> bool:
        """Whether a keyword is accepted."""
        return self.keywords is None or keyword in self.keywords


OPENAI: Final = Dialect(supports_tuples=False, allows_untyped_items=False)
"""OpenAI without strict, and compatible hosts."""
ANTHROPIC: Final = Dialect(argument_names=_CLAUDE_NAMES)
"""JSON Schema 2020-12 without changes."""
MCP: Final = Dialect()
"""JSON Schema 2020-12 without changes."""
BEDROCK: Final = Dialect(
    supports_references=False, supports_tuples=False, allows_untyped_items=False, argument_names=_CLAUDE_NAMES
)
"""What the models of all families behind Converse accept; some of them ignore `$defs`."""
GEMINI: Final = Dialect(
    keywords=_CORE_KEYWORDS | {"$ref", "$defs", "prefixItems", "additionalProperties"},
    formats=frozenset(),
    enum_types=(str, int, float),
    requires_bare_references=True,
    allows_untyped_items=False,
)
"""Gemini's `parametersJsonSchema`."""
GEMINI_PARAMETERS: Final = Dialect(
    keywords=_CORE_KEYWORDS | {"format", "pattern", "minLength", "maxLength", "minProperties", "maxProperties"},
    formats=frozenset({"date-time"}),
    enum_types=(str,),
    supports_references=False,
    supports_tuples=False,
    allows_untyped_items=False,
    has_single_types=True,
    finalize=to_openapi,
)
"""Gemini's older `parameters`, a subset of OpenAPI's schemas."""
OLLAMA: Final = Dialect(
    supports_references=False, supports_tuples=False, allows_untyped_items=False, finalize=to_ollama
)
"""The part of a schema that Ollama's own SDK sends."""
