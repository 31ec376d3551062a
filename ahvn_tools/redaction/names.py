"""Whether something is secret: a name, a parameter by its annotation or its JSON Schema, a value by its type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.json_types import JsonObject

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:pwd|token|jwt|auth|authorization|cred(?:ential)?s?|cookies?|dsn|bearer|passcodes?|t?otp(?:_?code)?"
    r"|(?:api|access|account|auth|encryption|hmac|master|private|secret|session|shared|signing)_?keys?"
    r"|(?:access|api|auth|bearer|csrf|id|refresh|session|xsrf)(?:token|_?tokens)|shared_?access_?signature"
    r"|connection_?string|j?sessionid|(?:github|gitlab|access)_?pat)$|(?:passwords?|passwd|passphrase|secrets?)$|^tokens$"
)
"""Names, in snake case, of parameters whose value is secret."""

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The position before a word in camel case."""

_SECRET_URL_PARAMETERS = ("key", "sig", "signature", "x-amz-signature", "x-goog-signature")
"""Parameters of a URL that are secret in addition to those with a secret name."""


class Secret:
    """Marker for a secret parameter, or a field of a model: `token: Annotated[str, Secret]`."""

    @staticmethod
    def __get_pydantic_json_schema__(core_schema: Any, handler: Callable[[Any], JsonObject]) -> JsonObject:
        """Mark the JSON Schema, too, as that of pydantic's secret types is."""
        return {**handler(core_schema), "writeOnly": True}

    @staticmethod
    def is_in(annotation: object) -> bool:
        """Return whether an annotation marks its parameter as secret: by this marker, or by a type such as SecretStr.

        >>> from typing import Annotated
        >>> from ahvn_tools import Secret
        >>> Secret.is_in(Annotated[str, Secret] | None)
        True
        """
        return is_secret_annotation(annotation)


def is_secret_annotation(annotation: object) -> bool:
    """Return whether an annotation marks its parameter as secret: `Secret`, or one of pydantic's secret types."""
    if type(annotation) is type and annotation.__module__ == "builtins":
        return False
    if isinstance(annotation, type) and issubclass(annotation, secret_types()):
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


def is_secret_url_parameter(name: str) -> bool:
    """Return whether the name of a parameter of a URL indicates a secret."""
    return is_secret_name(name) or name.lower() in _SECRET_URL_PARAMETERS


def is_secret_schema(schema: Any) -> bool:
    """Return whether a JSON Schema marks its value as secret, as the schema of pydantic's secret types does."""
    if not isinstance(schema, Mapping):
        return False
    choices = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    is_marked = schema.get("writeOnly") is True or schema.get("format") == "password"
    return is_marked or any(map(is_secret_schema, [*choices, schema.get("items")]))


def secret_types() -> tuple[Any, ...]:
    """Return pydantic's secret types; none if they are not imported, since there is no value of them then."""
    return loaded_classes("pydantic.types", "SecretStr", "SecretBytes", "Secret")
