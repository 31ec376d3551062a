"""Redaction: how secrets are marked and recognized, and how bound values are masked in texts from other code."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

MIN_MASKED_CHARS = 6
"""The minimum length of a masked text: masking shorter ones would make messages unreadable."""

MAX_TEXT_CHARS = 2_000
"""The maximum length of a text from a tool or a server."""

MASK = "***"
"""The replacement of a secret argument."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|authorization|credentials?)$"
)
"""Names, in snake case, of parameters whose value is secret."""

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The position before a word in camel case."""

_MAX_LEAVES = 10_000
"""How many parts of a bound value are masked, outer ones first …"""

_MAX_ITEMS = 1_000
"""… and how many of one container."""

_ATOMIC_TYPES = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values contain no other values."""

_MAX_WHOLE_ITEMS = 100
"""A container with at most this many items is also masked as a whole."""


class Secret:
    """Marker for a secret parameter: `token: Annotated[str, Secret]`."""


def is_secret_annotation(annotation: object) -> bool:
    """Return whether an annotation marks its parameter as secret: `Secret`, or one of pydantic's secret types."""
    if isinstance(annotation, type) and issubclass(annotation, _secret_types()):
        return True
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return any(mark is Secret or isinstance(mark, Secret) for mark in marks) or is_secret_annotation(inner)
    alias_of = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    parts = (*get_args(annotation), get_origin(annotation), alias_of)
    return any(is_secret_annotation(part) for part in parts if part is not None)


def is_secret_name(name: str) -> bool:
    """Return whether a name indicates a secret, such as `password`, `api_key`, `accessToken`."""
    if not name.islower():
        name = _CAMEL_CASE_BOUNDARY.sub("_", name).lower()
    return _SECRET_NAME.search(name.replace("-", "_")) is not None


def is_secret_schema(schema: Any) -> bool:
    """Return whether a JSON Schema marks its value as secret, as the schema of pydantic's secret types does."""
    if not isinstance(schema, Mapping):
        return False
    choices = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    is_marked = schema.get("writeOnly") is True or schema.get("format") == "password"
    return is_marked or any(map(is_secret_schema, [*choices, schema.get("items")]))


class MaskedValues(list[Any]):
    """Several values of one name, masked one by one."""


def find_secrets(arguments: Mapping[str, Any], secrets: Collection[str] = ()) -> dict[str, MaskedValues]:
    """Return the secrets in arguments, at any depth, by name: in `secrets`, with a secret name, or of a secret type."""
    result: dict[str, MaskedValues] = {}
    pending: deque[tuple[str, Any]] = deque([("", arguments)])
    seen: dict[int, Any] = {}
    secret_types = _secret_types()
    while pending and len(seen) < _MAX_LEAVES:
        name, here = pending.popleft()
        if name in secrets or is_secret_name(name) or isinstance(here, secret_types):
            result.setdefault(name, MaskedValues()).append(here)
        elif type(here) not in _ATOMIC_TYPES and id(here) not in seen and (members := _members(here)) is not None:
            seen[id(here)] = here
            pending.extend((name if key is None else str(key), part) for key, part in members[:_MAX_ITEMS])
    return result


def reveal_secrets(value: Any) -> Any:
    """Return a value with pydantic's secret types replaced by their content, also inside mappings, lists and tuples."""
    if hasattr(value, "get_secret_value"):
        return reveal_secrets(value.get_secret_value())
    if isinstance(value, Mapping):
        return {name: reveal_secrets(item) for name, item in value.items()}
    return [reveal_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def redact(text: str, bound: Mapping[str, Any]) -> str:
    """Return `text` with every bound value of at least six characters replaced by `<parameter>`."""
    return text_redactor(bound)(text)


def text_redactor(bound: Mapping[str, Any]) -> Callable[[str], str]:
    """Return a function that redacts many texts for the same bound values; see `redact`."""
    names: dict[str, str] = {}
    for parameter, value in bound.items():
        for part in value if isinstance(value, MaskedValues) else (value,):
            for form in _text_forms(part):
                names.setdefault(form, parameter)

    def mask(text: str) -> str:
        longest_first = sorted((form for form in names if form in text), key=len, reverse=True)
        if not longest_first:
            return text
        return re.sub("|".join(map(re.escape, longest_first)), lambda match: f"<{names[match[0]]}>", text)

    return mask


def clip(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return `text`, cut after `max_chars` characters."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text) - max_chars} more characters)"


def _secret_types() -> tuple[Any, ...]:
    """Return pydantic's secret types; none if they are not imported, since there is no value of them then."""
    module = sys.modules.get("pydantic.types")
    return () if module is None else (module.SecretStr, module.SecretBytes, module.Secret)


def _text_forms(value: Any) -> set[str]:
    """Return the forms in which a value may appear in a text: plain, as a Python literal and as JSON."""
    forms: set[str] = set()
    for leaf in _iter_leaves(value):
        plain = _text(leaf)
        quoted = [repr(plain), json.dumps(plain), json.dumps(plain, ensure_ascii=False)]
        if isinstance(leaf, bytes | bytearray):
            quoted.append(repr(bytes(leaf))[1:])
        forms.update(form for form in (plain, *(text[1:-1] for text in quoted)) if len(form) >= MIN_MASKED_CHARS)
    return forms


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        return ""


def _iter_leaves(value: Any) -> Iterator[Any]:
    """Yield a value and its parts, outer ones first, each object once."""
    pending = deque([value])
    seen: dict[int, Any] = {}
    while pending and len(seen) < _MAX_LEAVES:
        here = pending.popleft()
        if isinstance(here, _secret_types()):
            here = here.get_secret_value()
        if isinstance(here, bool | type(None)) or id(here) in seen:
            continue
        seen[id(here)] = here
        members = _members(here)
        if members is None or len(members) <= _MAX_WHOLE_ITEMS:
            yield here
        pending.extend(part for _, part in (members or [])[:_MAX_ITEMS])


def _members(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the (name, value) pairs of a container or record, with None for no name; None for any other value."""
    try:
        if isinstance(value, Mapping):
            return list(value.items())
        if isinstance(value, list | tuple | set | frozenset | deque):
            return [(None, part) for part in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return list(vars(value).items()) if hasattr(type(value), "__pydantic_fields__") else None
    except Exception:  # noqa: BLE001  # a foreign container may raise anything, which must not hide the call's own error
        return None
