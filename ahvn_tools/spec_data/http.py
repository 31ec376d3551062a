"""The request of an HTTP tool as data. It contains no credential: those are bindings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ahvn_tools.errors import near_misses, quote_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources.http.body import HTTPBody
from ahvn_tools.sources.http.checks import check_request
from ahvn_tools.sources.http.request import ApiKey, Basic, ClientCredentials, HTTPArgument, HTTPOptions, HTTPRequest
from ahvn_tools.spec_data.fields import error, join, read, read_object

_SECURITY: Final[Mapping[str, type]] = {"api_key": ApiKey, "basic": Basic, "client_credentials": ClientCredentials}

_PLACES: Final = ("arguments", "body_members")
"""The fields of a request with places by name."""

_BODY_FIELDS: Final = ("name", "request", "sending", "hidden", "wants_json", "is_remote", "origin")


def write_body(body: HTTPBody) -> JsonObject:
    """Return the fields of the data."""
    request = body.request
    return {
        "name": body.name,
        "request": {
            **_to_fields(request),
            **{
                key: {name: _to_fields(place) for name, place in getattr(request, key).items()}
                for key in _PLACES
                if getattr(request, key) or key == "arguments"
            },
            "security": [
                {"kind": kind, **_to_fields(item)}
                for item in request.security
                for kind, cls in _SECURITY.items()
                if type(item) is cls
            ],
        },
        "sending": _to_fields(body.options),
        "hidden": list(body.hidden),
        "wants_json": body.wants_json,
        "is_remote": body.is_remote,
        "origin": body.origin,
    }


def read_body(data: JsonObject) -> HTTPBody:
    """Return the body that data describes; nothing is sent. Raises SourceError and DefinitionError."""
    item = read_object(data, "code", ("kind", *_BODY_FIELDS))
    request = read_object(item["request"], "code.request", optional=_names(HTTPRequest))
    places = {key: _read_places(request, key) for key in _PLACES if key in request or key == "arguments"}
    security = tuple(map(_read_security, read(request.get("security"), "code.request.security", list)))
    plain = {name: value for name, value in request.items() if name not in (*_PLACES, "security")}
    found = _read_dataclass(HTTPRequest, plain, "code.request")
    body = HTTPBody(
        read(item["name"], "code.name", str),
        HTTPRequest(**{**vars(found), **places, "security": security}),
        _read_dataclass(HTTPOptions, item["sending"], "code.sending"),
        hidden=[read(name, "code.hidden", str) for name in read(item["hidden"], "code.hidden", list)],
        wants_json=read(item["wants_json"], "code.wants_json", bool),
        is_remote=read(item["is_remote"], "code.is_remote", bool),
        origin=read(item["origin"], "code.origin", str),
    )
    if not item["origin"]:
        raise error("'code.origin' is empty.")
    check_request(body.name, body.request, body.hidden, body.options)
    return body


def _read_places(request: JsonObject, key: str) -> dict[str, HTTPArgument]:
    path = join("code.request", key)
    places = read(request.get(key), path, dict)
    return {name: _read_dataclass(HTTPArgument, place, join(path, name)) for name, place in places.items()}


def _read_security(data: Any) -> Any:
    path = "code.request.security"
    kind = read(read(data, path, dict).get("kind"), join(path, "kind"), str)
    if kind not in _SECURITY:
        raise error(f"unknown kind {quote_name(kind)} of {path!r}. {near_misses(kind, _SECURITY)}")
    return _read_dataclass(_SECURITY[kind], {key: value for key, value in data.items() if key != "kind"}, path)


def _names(cls: Any) -> list[str]:
    return [item.name for item in fields(cls)]


def _to_fields(item: Any) -> JsonObject:
    """Return the fields of a dataclass that do not have their defaults."""
    values = {part: getattr(item, part.name) for part in fields(item)}
    return {part.name: _to_float(part, value) for part, value in values.items() if value != _default(part)}


def _default(part: Any) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def _to_float(part: Any, value: Any) -> Any:
    """Return a whole number of seconds as it is after reading."""
    return float(value) if type(value) is int and "float" in part.type else value


def _read_dataclass(cls: Any, data: Any, path: str) -> Any:
    """Return a dataclass with the fields of data, which must be of exactly their types."""
    read_object(data, path, optional=_names(cls))
    try:
        item = TypeAdapter(cls).validate_json(json.dumps(data), strict=True)
    except ValidationError as reason:
        first = reason.errors(include_input=False, include_url=False)[0]
        raise error(f"{join(path, '.'.join(map(str, first['loc'])))!r}: {first['msg']}.") from None
    known = json.loads(json.dumps(_to_fields(item)))
    for name, value in data.items():
        if name not in known or repr(known[name]) != repr(value):
            raise error(f"{join(path, name)!r} is not as to_dict() writes it: leave out what is the default.")
    return item
