"""The body of a request: how it is encoded, and which arguments it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import type_names
from ahvn_tools.sources.http.request import BodyType, HTTPArgument
from ahvn_tools.sources.openapi.document import Node
from ahvn_tools.sources.openapi.media_types import base_type, is_json
from ahvn_tools.sources.openapi.schemas import SchemaConverter

_FLAT_KEYWORDS: Final = frozenset(
    {"type", "properties", "required", "title", "description", "examples", "deprecated", "additionalProperties"}
)
"""The keywords of an object whose members can be arguments by themselves."""

_BASE64: Final[JsonObject] = {"type": "string", "contentEncoding": "base64"}


@dataclass(frozen=True, kw_only=True)
class BodyMember:
    """A member of a body that is an argument by itself."""

    schema: Any
    place: HTTPArgument
    is_required: bool


@dataclass(frozen=True, kw_only=True)
class Body:
    """The body of a request."""

    kind: BodyType
    content_type: str
    is_required: bool
    description: str
    schema: Any = field(repr=False)
    """The schema of the whole body."""
    members: Mapping[str, BodyMember] | None = field(default=None, repr=False)
    """The members by name, if they can be arguments; None: the body is one argument."""


def read_body(node: Node | None, converter: SchemaConverter) -> Body | None:
    """Return the body that an operation declares. Raises DocumentError for one that cannot be sent."""
    if node is None:
        return None
    content = node.get("content")
    media_types = {} if content is None else {name: item.resolve() for name, item in content.members()}
    if not media_types:
        return None
    kind, content_type = min((_choose(name), name) for name in media_types)
    media_type = media_types[content_type].require_node(dict)
    schema = converter.convert(media_type.child("schema")) if "schema" in media_type.value else True
    kind_name = _KINDS[kind]
    is_required = node.read("required", bool, default=False)
    reader = _READERS[kind_name]
    schema, members = reader(media_type, schema, converter)
    if kind_name == "json" and members and not is_required and any(one.is_required for one in members.values()):
        members = None  # all or nothing: two levels say it, one cannot
    return Body(
        kind=kind_name,
        content_type=_content_type(content_type),
        is_required=is_required,
        description=node.read("description", str, ""),
        schema=schema,
        members=members,
    )


_KINDS: Final[tuple[BodyType, ...]] = ("json", "form", "multipart", "binary", "text")


def _choose(media_type: str) -> int:
    """Return the rank of a media type: the lowest is sent."""
    base = base_type(media_type)
    if is_json(base):
        return 0
    if base in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        return 1 if base.startswith("application") else 2
    is_text = base.startswith("text/") or base.endswith(("/xml", "+xml", "/yaml", "+yaml", "/x-yaml"))
    return 4 if is_text else 3


def _content_type(media_type: str) -> str:
    return "application/json" if is_json(media_type) and "*" in media_type else media_type


Members = dict[str, BodyMember] | None


def _read_json(_media_type: Node, schema: Any, converter: SchemaConverter) -> tuple[Any, Members]:
    flat = _flatten(schema, converter)
    return schema, None if flat is None else dict(_members(flat))


def _read_form(media_type: Node, schema: Any, converter: SchemaConverter) -> tuple[Any, Members]:
    """Return the members of a form; an object in it is JSON unless the document says otherwise."""
    flat = _require_members(media_type, schema, converter)
    members = {}
    for name, member in _members(flat):
        encoding = _encoding(media_type, name)
        is_object = _is_of_type(converter.resolve(member.schema), "object")
        content_type = "application/json" if is_object and "style" not in encoding else None
        place = HTTPArgument(
            location="body",
            name=name,
            style=encoding.get("style"),
            explode=encoding.get("explode"),
            content_type=content_type,
            allow_reserved=encoding.get("allowReserved", False),
        )
        members[name] = BodyMember(schema=member.schema, place=place, is_required=member.is_required)
    return schema, members


def _read_multipart(media_type: Node, schema: Any, converter: SchemaConverter) -> tuple[Any, Members]:
    """Return the parts of a multipart body; a file is base64."""
    flat = _require_members(media_type, schema, converter)
    members = {}
    for name, member in _members(flat):
        resolved = converter.resolve(member.schema)
        content_type = _encoding(media_type, name).get("contentType")
        items = converter.resolve(resolved.get("items", {})) if isinstance(resolved, dict) else {}
        part = member.schema
        is_file = _is_file(resolved) or (_is_of_type(resolved, "array") and _is_file(items))
        if is_file:
            part = _to_base64(resolved, items)
        elif content_type is None and _is_of_type(resolved, "object"):
            content_type = "application/json"
        single = content_type.partition(",")[0].strip() if content_type and "*" not in content_type else None
        place = HTTPArgument(location="body", name=name, is_file=is_file, content_type=single)
        members[name] = BodyMember(schema=part, place=place, is_required=member.is_required)
    return schema, members


def _read_binary(_media_type: Node, schema: Any, _converter: SchemaConverter) -> tuple[Any, Members]:
    return _to_base64(schema, {}), None


def _read_text(media_type: Node, schema: Any, converter: SchemaConverter) -> tuple[Any, Members]:
    resolved = converter.resolve(schema)
    if isinstance(resolved, dict) and not {"string"}.issuperset(type_names(resolved) or ["object"] * len(resolved)):
        kind = base_type(media_type.pointer.rpartition("/")[2].replace("~1", "/"))
        return {"type": "string", "description": f"The whole body as a text of {kind}."}, None
    return {"type": "string", **(resolved if isinstance(resolved, dict) else {})}, None


_READERS: Final = {
    "json": _read_json,
    "form": _read_form,
    "multipart": _read_multipart,
    "binary": _read_binary,
    "text": _read_text,
}


def _members(flat: JsonObject) -> Iterator[tuple[str, BodyMember]]:
    required = flat.get("required", ())
    for name, schema in flat["properties"].items():
        place = HTTPArgument(location="body", name=name)
        yield name, BodyMember(schema=schema, place=place, is_required=name in required)


def _require_members(media_type: Node, schema: Any, converter: SchemaConverter) -> JsonObject:
    flat = _flatten(schema, converter)
    if flat is None:
        raise media_type.error("a form needs a schema of `type: object` with `properties`.")
    return flat


def _flatten(schema: Any, converter: SchemaConverter) -> JsonObject | None:
    """Return the schema of an object that is no more than its members; None for any other schema."""
    schema = converter.merge(schema)
    if not isinstance(schema, dict) or not schema.get("properties") or not schema.keys() <= _FLAT_KEYWORDS:
        return None
    is_closed = schema.get("additionalProperties", False) is False
    return schema if is_closed and type_names(schema) in ([], ["object"]) else None


def _encoding(media_type: Node, name: str) -> JsonObject:
    """Return what a document says of how one member is encoded."""
    encodings = media_type.get("encoding")
    encoding = None if encodings is None else encodings.get(name)
    return {} if encoding is None else encoding.require(dict)


def _is_of_type(schema: Any, kind: str) -> bool:
    return isinstance(schema, dict) and kind in type_names(schema)


def _is_file(schema: Any) -> bool:
    """Return whether a part is binary: `format: binary` in OpenAPI 3.0, no type or a media type in 3.1."""
    if not isinstance(schema, dict):
        return False
    if schema.get("format") == "binary":
        return True
    return "contentMediaType" in schema and not is_json(schema["contentMediaType"]) and "contentEncoding" not in schema


def _to_base64(schema: Any, items: Any) -> JsonObject:
    """Return the schema of a file as an argument, or of a list of files."""
    texts = {key: schema[key] for key in ("title", "description") if isinstance(schema, dict) and key in schema}
    if items:
        return {"type": "array", "items": _to_base64(items, {}), **texts}
    description = f"{texts.get('description', 'The content')} (base64)"
    return {**texts, **_BASE64, "description": description}
