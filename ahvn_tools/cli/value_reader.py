"""ValueReader: the text that a person writes for a parameter, as the value that the parameter's schema asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import JSON_TYPES, type_names
from ahvn_tools.schema.refs import resolve_ref

_ROOT_KEYWORDS: Final = frozenset(
    {"$schema", "$id", "$defs", "definitions", "properties", "additionalProperties", "patternProperties"}
)
"""The parts of the root schema that say what one argument may be."""

_WORDS: Final = {
    "array": "a JSON array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a JSON object",
    "string": "a text",
}
_MAX_LISTED = 20
_NOT_JSON: Final = object()


class ValueReader:
    """Reads texts as values of the parameters of one tool.

    A text is taken as it is where the schema accepts it, and as JSON where the schema accepts that. Raises UsageError,
    which does not contain the text, where it accepts both or neither.
    """

    def __init__(self, schema: JsonObject) -> None:
        """Read the arguments of a tool with this input schema."""
        self._schema = schema
        self._validator: Any = None

    def read(self, name: str, texts: Sequence[str]) -> Any:
        """Return the value of a parameter that was written once, or the array of one that was written repeatedly."""
        if len(texts) == 1:
            found = self._fitting(name, texts[0])
            return found[0] if found else self._read_single_item(name, texts[0])
        if self.fits(name, texts[0]):
            raise UsageError(f"{name!r} is on the command line {len(texts)} times, and is not an array: write it once.")
        return [self._read_item(name, text) for text in texts]

    def fits(self, name: str, value: Any) -> bool:
        """Return whether the schema accepts a value for a parameter."""
        return not self.find_problem(name, value)

    def find_problem(self, name: str, value: Any) -> str:
        """Return which rule of the schema a value breaks, without the value; "" if it breaks none."""
        from ahvn_tools.schema.jsonschema import compile_validator, describe_first_error

        if self._validator is None:
            schema = {key: part for key, part in self._schema.items() if key in _ROOT_KEYWORDS}
            self._validator = compile_validator(schema)
        try:
            return describe_first_error(self._validator, {name: value})
        except ValueError:  # a text or number that jsonschema-rs cannot represent
            return "cannot be used"

    def describe(self, name: str) -> str:
        """Return in words what the schema asks for."""
        if choices := self.choices(name):
            listed = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices[:_MAX_LISTED])
            return f"one of {listed}{', …' if len(choices) > _MAX_LISTED else ''}"
        kinds = _kinds(self.property(name), self._schema)
        return " or ".join(_WORDS[kind] for kind in kinds if kind in _WORDS) or "another value"

    def choices(self, name: str) -> list[Any]:
        """Return the values that the schema lists; none if it lists none."""
        schema = self.property(name)
        options = [resolve_ref(option, self._schema) for option in schema.get("anyOf", ()) if isinstance(option, dict)]
        lists = [part["enum"] for part in (schema, *options) if isinstance(part.get("enum"), list)]
        return lists[0] if lists else []

    def property(self, name: str) -> JsonObject:
        """Return the schema of a parameter, with its reference resolved; an empty one if there is none."""
        schema = self._schema.get("properties", {}).get(name, self._schema.get("additionalProperties"))
        return resolve_ref(schema, self._schema) if isinstance(schema, dict) else {}

    def _fitting(self, name: str, text: str, *, as_item: bool = False) -> list[Any]:
        """Return the value that fits, in a list of at most one."""
        value = parse_json(text)
        candidates = [text] if value is _NOT_JSON else [text, value]
        found = [one for one in candidates if self.fits(name, [one] if as_item else one)]
        if len(found) > 1:
            kind = _WORDS[JSON_TYPES[type(value)]]
            raise UsageError(
                f"The value of {name!r} can be read as a text and as {kind}: write {name}:=JSON, with the text in "
                "double quotes if you mean the text."
            )
        return found

    def _read_item(self, name: str, text: str) -> Any:
        found = self._fitting(name, text, as_item=True)
        return found[0] if found else self._refuse(name, text)

    def _read_single_item(self, name: str, text: str) -> Any:
        """Return an array of one item if that is what fits; else what the tool refuses with its own message."""
        found = [] if text.lstrip().startswith("[") else self._fitting(name, text, as_item=True)
        return [found[0]] if found else self._refuse(name, text)

    def _refuse(self, name: str, text: str) -> Any:
        """Return a value of the right type, about which the tool says more; raise UsageError for another."""
        kinds = _kinds(self.property(name), self._schema)
        value = parse_json(text)
        if not self.choices(name):
            if "string" in kinds:
                return text
            kind = None if value is _NOT_JSON else JSON_TYPES[type(value)]
            if kind in kinds or (kind == "integer" and "number" in kinds):
                return value
        raise UsageError(f"{name!r} should be {self.describe(name)}.")


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; a marker for a text that is no JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NOT_JSON


def require_json(name: str, text: str) -> Any:
    """Return the value of a JSON text. Raises UsageError, which does not contain the text."""
    value = parse_json(text)
    if value is _NOT_JSON:
        raise UsageError(f"The value of {name!r} is no JSON. Quote it for your shell: {name}:='[1, 2]'.")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _kinds(schema: JsonObject, root: JsonObject) -> list[str]:
    """Return the types that a schema accepts; none where it does not say."""
    found = type_names(schema)
    for keyword in ("anyOf", "oneOf"):
        for option in schema.get(keyword, ()):
            if isinstance(option, dict):
                found += type_names(resolve_ref(option, root))
    return list(dict.fromkeys(found))
