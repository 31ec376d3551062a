"""MiddlewareItem: one middleware of a manifest, as its name or as its name with options."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ahvn_tools.errors import near_misses
from ahvn_tools.manifest.middleware_table import MIDDLEWARE

ITEM_TITLE: Final = "A middleware"
"""The title in the JSON Schema of the models, in place of the schema itself."""


def _to_mapping(value: Any) -> Any:
    return {value: None} if isinstance(value, str) else value


def _check_item(value: dict[str, dict[str, Any] | None]) -> dict[str, dict[str, Any] | None]:
    if len(value) != 1:
        raise PydanticCustomError(
            "middleware", "write one middleware for each item of the list: its name, or its name and its options"
        )
    (name,) = value
    if ":" not in name and name not in MIDDLEWARE:
        hint = near_misses(name, MIDDLEWARE)
        raise PydanticCustomError(
            "middleware",
            "there is no middleware {name}. {hint} Name your own as `module:name`",
            {"name": repr(name), "hint": hint},
        )
    return value


MiddlewareItem = Annotated[
    dict[str, dict[str, Any] | None],
    BeforeValidator(_to_mapping),
    AfterValidator(_check_item),
    WithJsonSchema({"title": ITEM_TITLE}),
]
"""One of `ahvn_tools.middleware` by its name, such as `log` or `{retry: {attempts: 3}}`, or the import path of another,
`acme.tools:audit`, or of a function that makes one with these options: `{acme.tools:audit: {level: 2}}`."""
