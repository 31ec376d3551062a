"""What must not be shown: the `Secret` mark, and the masking of bound values in texts from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import SecretBytes, SecretStr

SHORTEST = 6
"""Values whose text is shorter than this many characters are not masked: masking them would shred every text."""

LONGEST_TEXT = 2_000
"""A text from elsewhere is cut after this many characters."""

_DEEPEST = 4
_MOST_TEXTS = 200


class Secret:
    """Marks a parameter as secret: `token: Annotated[str, Secret]`."""


def is_secret(annotation: object) -> bool:
    """Tell whether an annotation marks its parameter as secret (`Secret`, `SecretStr` or `SecretBytes`)."""
    if annotation in (SecretStr, SecretBytes):
        return True
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return any(mark is Secret or isinstance(mark, Secret) for mark in marks) or is_secret(inner)
    return any(is_secret(part) for part in get_args(annotation))


def redact(text: str, bound: Mapping[str, Any]) -> str:
    """Return `text` with every bound value of at least six characters replaced by `<parameter>`."""
    masks = [(value, f"<{parameter}>") for parameter, bound_value in bound.items() for value in _texts(bound_value)]
    for value, mask in sorted(masks, key=lambda pair: -len(pair[0])):
        text = text.replace(value, mask)
    return text


def clip(text: str, most: int = LONGEST_TEXT) -> str:
    """Return `text`, cut after `most` characters."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _texts(value: Any) -> list[str]:
    texts: set[str] = set()
    for leaf in _leaves(value, _DEEPEST):
        if len(texts) >= _MOST_TEXTS:
            break
        plain = _text(leaf)
        texts.update(form for form in (plain, repr(plain)[1:-1]) if len(form) >= SHORTEST)
    return list(texts)


def _text(value: Any) -> str:
    if isinstance(value, SecretStr | SecretBytes):
        value = value.get_secret_value()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything; then there is no text to mask
        return ""


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, bool | type(None)):
        return
    yield value
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        inside = list(value)
    if depth:
        for item in inside:
            yield from _leaves(item, depth - 1)
