"""Redaction: how secrets are marked and recognized, and how bound values are masked in texts from other code."""

from __future__ import annotations

import json
import re
import sys
from collections import UserList, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin

from ahvn_tools.json_types import JsonObject

MIN_MASKED_CHARS = 6
"""The minimum length of a masked text: masking shorter ones would make messages unreadable."""

MAX_TEXT_CHARS = 2_000
"""The maximum length of a text from a tool or a server."""

MASK = "***"
"""The replacement of a secret argument."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:passwords?|passwd|pwd|passphrase|secrets?|token|jwt|auth|authorization|credentials?|cookies?|dsn"
    r"|(?:api|access|auth|encryption|master|private|secret|session|shared|signing)_?keys?|connection_?string"
    r"|(?:access|api|auth|bearer|refresh|session)_?tokens)$|^tokens$"
)
"""Names, in snake case, of parameters whose value is secret."""

_URL = r"""://[^\s"'<>`]+"""
"""A URL without its scheme, or several that no space or quote separates. `re` compiles this at its first use."""

_URL_PARAMETER = re.compile(r"(?<=[?&#;])([^=&#;?]+)=([^&#;]+)")

_SECRET_URL_PARAMETERS = ("key", "sig", "signature", "x-amz-signature", "x-goog-signature")
"""Parameters of a URL that are secret in addition to those with a secret name."""

_DSN_PARAMETER = (
    r"""(?i)(?<![\w?&#-])([\w-]{0,40}(?:password|passwd|pwd|passphrase|secret|token|key|signature))(\s?=\s?)"""
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\{[^}\n]*\}|[^\s;"'={][^;\n"'=]*(?=;\s*\w[\w\ ]*=)|[^\s;=][^\s;]*)"""
)
"""A parameter that may be secret, and its value: quoted, in braces, up to the `;` before another one, or a word.

Compiling it is slow, and is done at its first use.
"""

_SECRET_DSN_PARAMETERS = ("accountkey", "sharedaccesssignature", "sslpassword")
"""Parameters of a DSN that are secret in addition to those with a secret name."""

_PARAMETER_BEFORE = r"""[\w=]\s?=(?:\s?(?:'[^']*'|"[^"]*"|[^\s;,=]+)?[;,]?\s+|[^=;\n]*;\s*)\Z"""
_PARAMETER_AFTER = r"\s*;|,?\s+[\w-]+\s?=\s?[^\s=]"

_MAX_NEIGHBOR_CHARS = 200
"""How far from a parameter of a DSN another one is looked for."""

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The position before a word in camel case."""

_MAX_LEAVES = 10_000
"""How many parts of a bound value are masked, outer ones first …"""

_MAX_ITEMS = 1_000
"""… and how many of one container."""

_ATOMIC_TYPES = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values contain no other values."""

_MAX_QUOTED_CHARS = 1_000_000
"""How many characters are also masked as a Python literal and as JSON."""

_MAX_WHOLE_ITEMS = 100
"""A container with at most this many items is also masked as a whole."""


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


def contains_secret(value: Any) -> bool:
    """Return whether a value is of one of pydantic's secret types, or a dict, list or tuple that contains such."""
    secret_types = _secret_types()
    pending, seen = [value], set[int]()
    while pending:
        here = pending.pop()
        if isinstance(here, secret_types):
            return True
        if type(here) in (dict, list, tuple) and id(here) not in seen:
            seen.add(id(here))
            pending.extend(here.values() if type(here) is dict else here)
    return False


def reveal_secrets(value: Any) -> Any:
    """Return a value with pydantic's secret types replaced by their content, also inside mappings, lists and tuples."""
    if hasattr(value, "get_secret_value"):
        return reveal_secrets(value.get_secret_value())
    if isinstance(value, Mapping):
        return {name: reveal_secrets(item) for name, item in value.items()}
    return [reveal_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def redact(text: str, bound: Mapping[str, Any]) -> str:
    """Return `text` with every bound value of at least six characters replaced by `<parameter>`.

    Credentials in URLs and DSNs are replaced by `***`, whether bound or not.
    """
    return TextRedactor(bound)(text)


def mask_credentials(text: str) -> str:
    """Return `text` with `***` for the credentials in its URLs and DSNs.

    As in `https://user:password@host`, `?token=abc`, `host=h password=abc` and `Server=h;Password=abc;`.
    """
    if "://" in text:
        text = re.sub(_URL, _mask_urls, text)
    return re.sub(_DSN_PARAMETER, _mask_dsn_parameter, text) if "=" in text else text


class TextRedactor:
    """Redacts many texts for the same bound values; see `redact`."""

    def __init__(self, bound: Mapping[str, Any]) -> None:
        self._names: dict[str, str] = {}
        for parameter, value in bound.items():
            for part in value if isinstance(value, MaskedValues) else (value,):
                for form in _text_forms(part):
                    self._names.setdefault(form, parameter)

    def __call__(self, text: str) -> str:
        """Return the text redacted."""
        return mask_credentials(self.mask_values(text))

    def mask_values(self, text: str) -> str:
        """Return the text with the credentials in its URLs and DSNs, and without bound values."""
        longest_first = sorted((form for form in self._names if form in text), key=len, reverse=True)
        if not longest_first:
            return text
        return re.sub("|".join(map(re.escape, longest_first)), lambda match: f"<{self._names[match[0]]}>", text)


def clip(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return `text`, cut after `max_chars` characters."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text) - max_chars} more characters)"


def _mask_urls(match: re.Match[str]) -> str:
    scheme = match.string[max(match.start() - 5, 0) : match.start()]
    _, *urls = match[0].split("://")
    return "".join(f"://{_mask_url(before, url)}" for before, url in zip((scheme, *urls), urls, strict=False))


def _mask_url(scheme: str, rest: str) -> str:
    """Return what follows the scheme of a URL; `scheme` is the text before it."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    end = authority.rfind("@")
    host, _, port = authority.rpartition(":")
    if end < 0 and host and not (port.isdecimal() or port.endswith("]")):
        end = rest.rfind("@")  # a password that is not percent-encoded
    is_http = scheme[-5:].lower().endswith(("http", "https"))
    if end > 0 and (is_http or ":" in rest[:end]):  # a user alone, as in `ssh://git@host`, is no credential
        rest = MASK + rest[end:]
    return _URL_PARAMETER.sub(_mask_url_parameter, rest)


def is_secret_url_parameter(name: str) -> bool:
    """Return whether the name of a parameter of a URL indicates a secret."""
    return is_secret_name(name) or name.lower() in _SECRET_URL_PARAMETERS


def _mask_url_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={MASK}" if is_secret_url_parameter(match[1]) else match[0]


def _mask_dsn_parameter(match: re.Match[str]) -> str:
    """Return a parameter without its secret. One alone, as in "try again with token=abc", is not that of a DSN."""
    name, equals, value = match.groups()
    before = match.string[max(match.start() - _MAX_NEIGHBOR_CHARS, 0) : match.start()]
    before = before[max(before.rfind("=") - 2, 0) :]
    after = match.string[match.end() : match.end() + _MAX_NEIGHBOR_CHARS]
    is_secret = is_secret_name(name) or name.lower() in _SECRET_DSN_PARAMETERS
    if not (is_secret and (re.search(_PARAMETER_BEFORE, before) or re.match(_PARAMETER_AFTER, after))):
        return match[0]
    is_quoted = value[0] in "'\"{" and len(value) > 1
    ending = "" if is_quoted else value[len(value.rstrip(")]}\"'.,")) :]
    return f"{name}{equals}{MASK}{ending}"


def _secret_types() -> tuple[Any, ...]:
    """Return pydantic's secret types; none if they are not imported, since there is no value of them then."""
    module = sys.modules.get("pydantic.types")
    return () if module is None else (module.SecretStr, module.SecretBytes, module.Secret)


def _text_forms(value: Any) -> set[str]:
    """Return the forms in which a value may appear in a text: plain, as a Python literal and as JSON."""
    forms: set[str] = set()
    quoted_chars = 0
    for leaf in iter_parts(value):
        plain = leaf.decode("utf-8", "replace") if isinstance(leaf, bytes | bytearray) else _text_of(leaf, str)
        quoted_chars += len(plain)
        if quoted_chars > _MAX_QUOTED_CHARS:
            forms.update({plain} if len(plain) >= MIN_MASKED_CHARS else ())
            continue
        quoted = [repr(plain), json.dumps(plain), json.dumps(plain, ensure_ascii=False)]
        if isinstance(leaf, bytes | bytearray):
            quoted.append(repr(bytes(leaf))[1:])
        whole = [plain] if isinstance(leaf, str | bytes | bytearray) else [plain, _text_of(leaf, repr)]
        forms.update(form for form in (*whole, *(text[1:-1] for text in quoted)) if len(form) >= MIN_MASKED_CHARS)
    return forms


def iter_parts(value: Any) -> Iterator[Any]:
    """Yield a value and its parts, outer ones first, each object once; the parts of plain data alone."""
    pending = deque([value])
    seen: dict[int, Any] = {}
    while pending and len(seen) < _MAX_LEAVES:
        here = pending.popleft()
        if isinstance(here, _secret_types()):
            here = here.get_secret_value()
        if type(here) in (bool, type(None)) or id(here) in seen:
            continue
        seen[id(here)] = here
        members = _members(here)
        if members is None or len(members) <= _MAX_WHOLE_ITEMS:
            yield here
        if members is None:
            attributes = getattr(here, "__dict__", {}).items()
            members = [(name, part) for name, part in attributes if is_secret_name(name)]
        pending.extend(part for _, part in members[:_MAX_ITEMS])


def _text_of(value: Any, form: Callable[[Any], str]) -> str:
    try:
        return form(value)
    except Exception:  # noqa: BLE001  # an integer with too many digits; what has no text needs no mask
        return ""


def _members(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the (name, value) pairs of a container or record, with None for no name; None for any other value."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple | set | frozenset | deque | UserList):
        return [(None, part) for part in value]
    if isinstance(value, Enum):
        return [(None, value.value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    is_record = isinstance(value, SimpleNamespace) or hasattr(type(value), "__pydantic_fields__")
    return list(vars(value).items()) if is_record else None
