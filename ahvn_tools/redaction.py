"""What must not be shown: the `Secret` mark, and the masking of bound values in texts from elsewhere."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

MIN_MASKED_CHARS = 6
"""Values whose text is shorter than this many characters are not masked: masking them would shred every text."""

MAX_TEXT_CHARS = 2_000
"""A text from elsewhere is cut after this many characters."""

MASK = "***"
"""What stands in the place of an argument that must not be shown."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|authorization|credentials?)$"
)
"""How a parameter is called whose value is not to be shown; compared in snake case."""

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Where a word begins in camel case."""

_MAX_LEAVES = 10_000
"""So many parts of a bound value are looked for in a text, nearest first …"""

_MAX_ITEMS = 1_000
"""… so many of one container."""

_ATOMIC_TYPES = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values hold nothing else."""

_MAX_WHOLE_ITEMS = 100
"""A container is looked for as a whole, too, when it has at most this many items."""


class Secret:
    """Marks a parameter as secret: `token: Annotated[str, Secret]`."""


def is_secret_annotation(annotation: object) -> bool:
    """Tell whether an annotation marks its parameter as secret (`Secret`, or one of pydantic's secret types)."""
    if isinstance(annotation, type) and issubclass(annotation, _secret_types()):
        return True
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return any(mark is Secret or isinstance(mark, Secret) for mark in marks) or is_secret_annotation(inner)
    meant = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    return any(
        is_secret_annotation(part)
        for part in (*get_args(annotation), get_origin(annotation), meant)
        if part is not None
    )


def is_secret_name(name: str) -> bool:
    """Tell whether a parameter or member is called as secrets are, such as `password`, `api_key`, `accessToken`."""
    if not name.islower():
        name = _CAMEL_CASE_BOUNDARY.sub("_", name).lower()
    return _SECRET_NAME.search(name.replace("-", "_")) is not None


def is_secret_schema(schema: Any) -> bool:
    """Tell whether a JSON Schema says that its value is secret, as that of pydantic's secrets does."""
    if not isinstance(schema, Mapping):
        return False
    choices = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    is_own = schema.get("writeOnly") is True or schema.get("format") == "password"
    return is_own or any(map(is_secret_schema, [*choices, schema.get("items")]))


class MaskedValues(list[Any]):
    """Several values of one name, to be masked one by one."""


def find_secrets(arguments: Mapping[str, Any], secrets: Collection[str] = ()) -> dict[str, MaskedValues]:
    """Return what is secret in arguments, at any depth, by name: under these names, by its own, or by its type."""
    found: dict[str, MaskedValues] = {}
    pending: deque[tuple[str, Any]] = deque([("", arguments)])
    seen: dict[int, Any] = {}
    secret_types = _secret_types()
    while pending and len(seen) < _MAX_LEAVES:
        name, here = pending.popleft()
        if name in secrets or is_secret_name(name) or isinstance(here, secret_types):
            found.setdefault(name, MaskedValues()).append(here)
        elif type(here) not in _ATOMIC_TYPES and id(here) not in seen and (inside := _members(here)) is not None:
            seen[id(here)] = here
            pending.extend((name if key is None else str(key), part) for key, part in inside[:_MAX_ITEMS])
    return found


def redact(text: str, bound: Mapping[str, Any]) -> str:
    """Return `text` with every bound value of at least six characters replaced by `<parameter>`."""
    return text_redactor(bound)(text)


def text_redactor(bound: Mapping[str, Any]) -> Callable[[str], str]:
    """Return what `redact` does for many texts and one set of bound values."""
    names: dict[str, str] = {}
    for parameter, value in bound.items():
        for part in value if isinstance(value, MaskedValues) else (value,):
            for form in _text_forms(part):
                names.setdefault(form, parameter)

    def mask(text: str) -> str:
        found = [form for form in names if form in text]
        if not found:
            return text
        longest_first = sorted(found, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda match: f"<{names[match[0]]}>", text)

    return mask


def clip(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return `text`, cut after `most` characters."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text) - max_chars} more characters)"


def _secret_types() -> tuple[Any, ...]:
    """Return pydantic's secret types; a value or annotation of one cannot exist before they are loaded."""
    module = sys.modules.get("pydantic.types")
    return () if module is None else (module.SecretStr, module.SecretBytes, module.Secret)


def _text_forms(value: Any) -> set[str]:
    """Return the texts under which a value may stand in a text: plain, as Python and as JSON write them."""
    forms: set[str] = set()
    for leaf in _iter_leaves(value):
        plain = _text(leaf)
        written = (repr(plain), json.dumps(plain), json.dumps(plain, ensure_ascii=False))
        all_forms = (plain, *(form[1:-1] for form in written), *_bytes_forms(leaf))
        forms.update(form for form in all_forms if len(form) >= MIN_MASKED_CHARS)
    return forms


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything; then there is no text to mask
        return ""


def _bytes_forms(value: Any) -> tuple[str, ...]:
    return (repr(bytes(value))[2:-1],) if isinstance(value, bytes | bytearray) else ()


def _iter_leaves(value: Any) -> Iterator[Any]:
    """Yield a value and what is in it, nearest first, each object once."""
    pending = deque([value])
    seen: dict[int, Any] = {}
    while pending and len(seen) < _MAX_LEAVES:
        here = pending.popleft()
        if isinstance(here, _secret_types()):
            here = here.get_secret_value()
        if isinstance(here, bool | type(None)) or id(here) in seen:
            continue
        seen[id(here)] = here
        inside = _members(here)
        if inside is None or len(inside) <= _MAX_WHOLE_ITEMS:
            yield here
        pending.extend(part for _, part in (inside or [])[:_MAX_ITEMS])


def _members(value: Any) -> list[tuple[Any, Any]] | None:
    """Return what a container or a record holds, with names where it has some; None for what is neither."""
    try:
        if isinstance(value, Mapping):
            return list(value.items())
        if isinstance(value, list | tuple | set | frozenset | deque):
            return [(None, part) for part in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return list(vars(value).items()) if hasattr(type(value), "__pydantic_fields__") else None
    except Exception:  # noqa: BLE001  # a foreign container may raise anything; the call's own error is what is told
        return None
