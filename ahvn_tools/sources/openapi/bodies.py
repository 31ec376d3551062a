"""The bodies of requests and responses: how they are encoded, the arguments they are made of, the output schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY, type_names
from ahvn_tools.sources.http.request import BodyType, HTTPArgument, Style
from ahvn_tools.sources.openapi.document import Node, base_type, is_json
from ahvn_tools.sources.openapi.schemas import SchemaConverter, accept_null

_FLAT_KEYWORDS: Final = frozenset(
    {"type", "properties", "required", "title", "description", "examples", "deprecated", "additionalProperties"}
)
"""The keywords of an object whose members can be arguments by themselves."""

_FORM_STYLES: Final = ("form", "spaceDelimited", "pipeDelimited", "deepObject")

_MAX_ALTERNATIVES_DEPTH: Final = 8
"""How deep the alternatives of a form may contain others that have files."""

_BASE64: Final[JsonObject] = {"type": "string", "contentEncoding": "base64"}

_FILE: Final[JsonObject] = {
    "anyOf": [
        _BASE64,
        {
            "type": "object",
            "properties": {
                "content": {**_BASE64, "description": "The content (base64)."},
                "filename": {"type": "string", "description": "The name of the file, such as `report.pdf`."},
            },
            "required": ["content"],
            "additionalProperties": False,
        },
    ]
}


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
    content_type: str | None
    """None: that of the kind."""
    is_required: bool
    description: str
    schema: Any = field(repr=False)
    """The schema of the whole body."""
    members: Mapping[str, BodyMember] | None = field(default=None, repr=False)
    """The members by name, if they can be arguments; None: the body is one argument."""
    whole_members: Mapping[str, HTTPArgument] = field(default_factory=dict, repr=False)
    """How the members of a form are written that is one argument."""
    list_content_type: str | None = None
    """The media type of a body that is a list, if it is another one."""


def read_body(node: Node | None, converter: SchemaConverter) -> Body | None:
    """Return the body that an operation declares; None for none, and for a form that has no members.

    Raises DocumentError for one that cannot be sent.
    """
    if node is None:
        return None
    content = node.get("content")
    media_types = {} if content is None else {name: item.resolve() for name, item in content.members()}
    if not media_types:
        raise (content or node).error("a body needs `content` with a media type, such as `application/json`.")
    rank, content_type = min((_rank(name), name) for name in media_types)
    kind = _KINDS[int(rank)]
    media_type = media_types[content_type].require_node(dict)
    _require_media_type(content_type, content)
    schema = _read_schema(media_type, converter)
    is_required = node.read("required", bool, default=False)
    list_content_type = None
    if kind == "binary" and _is_encoded(converter.resolve(schema)):
        kind = "text"
    if kind == "json":
        patch = next((name for name in media_types if base_type(name) == _JSON_PATCH_TYPE), None)
        if patch is not None and not _accepts_list(schema, converter):
            listed = _read_schema(media_types[patch].require_node(dict), converter)
            listed = listed if _accepts_list(listed, converter) else _JSON_PATCH
            schema = listed if patch == content_type else {"anyOf": [schema, listed]}
            list_content_type = None if patch == content_type else patch
    schema, members, whole_members = _READERS[kind](media_type, schema, converter)
    if kind in {"form", "multipart"} and members == {}:
        return None
    if kind == "json" and members and not is_required and any(one.is_required for one in members.values()):
        members = None  # all or nothing: two levels say it, one cannot
    return Body(
        kind=kind,
        content_type=_content_type(content_type),
        is_required=is_required,
        description=node.read("description", str, ""),
        schema=schema,
        members=members,
        whole_members=whole_members,
        list_content_type=list_content_type,
    )


_KINDS: Final[tuple[BodyType, ...]] = ("json", "form", "multipart", "binary", "text")

_TEXT_ENDINGS: Final = (
    "/xml", "+xml", "/yaml", "+yaml", "/x-yaml", "/x-ndjson", "/ndjson", "/jsonl", "/x-jsonlines", "/graphql", "/sql",
)  # fmt: skip
"""The ends of media types that are texts, beside `text/…`."""

_JSON_PATCH_TYPE: Final = "application/json-patch+json"
_JSON_RANKS: Final = {"application/json": 0.0, "application/merge-patch+json": 0.1, _JSON_PATCH_TYPE: 0.4}

_JSON_PATCH: Final[JsonObject] = {
    "type": "array",
    "description": "A JSON Patch: RFC 6902.",
    "items": {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": {"type": "string", "description": "A JSON pointer, such as `/metadata/labels/a`."},
            "from": {"type": "string", "description": "The JSON pointer that `move` and `copy` read."},
            "value": {},
        },
        "required": ["op", "path"],
    },
}


def _rank(media_type: str) -> float:
    """Return the rank of a media type: the lowest is sent. Its whole part is the index of the kind."""
    base = base_type(media_type)
    if is_json(base):
        return _JSON_RANKS.get(base, 0.3 if "*" in base else 0.2)
    if base in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        return 1 if base.startswith("application") else 2
    return 4 if base.startswith("text/") or base.endswith(_TEXT_ENDINGS) else 3


def _content_type(media_type: str) -> str | None:
    """Return the media type that is sent; None, for that of the kind, if the document has a range of them."""
    return None if "*" in media_type else media_type


def _require_media_type(name: str, node: Node | None) -> None:
    if node is not None and not (name.isascii() and name.isprintable()):
        raise node.error(f"there is no media type {name!r}.")


def _read_schema(media_type: Node, converter: SchemaConverter) -> Any:
    return converter.convert(media_type.child("schema")) if "schema" in media_type.value else True


def _accepts_list(schema: Any, converter: SchemaConverter) -> bool:
    """Return whether a schema names lists, perhaps as an alternative."""
    resolved = converter.resolve(schema)
    if not isinstance(resolved, dict):
        return False
    parts = [part for keyword in ("anyOf", "oneOf") for part in resolved.get(keyword, ())]
    return _is_of_type(resolved, "array") or any(_is_of_type(converter.resolve(part), "array") for part in parts)


Members = dict[str, BodyMember] | None
Read = tuple[Any, Members, dict[str, HTTPArgument]]
"""The schema of the whole body, its members if they are arguments, and how they are written if they are not."""


def _read_json(_media_type: Node, schema: Any, converter: SchemaConverter) -> Read:
    flat = _flatten(schema, converter)
    return schema, dict(_members(flat)) if flat is not None and flat["properties"] else None, {}


def _read_form(media_type: Node, schema: Any, converter: SchemaConverter) -> Read:
    """Return the members of a form; an object in it is JSON unless the document says otherwise."""

    def read_member(name: str, member: Any) -> tuple[Any, HTTPArgument]:
        place = _encoding(media_type, name)
        is_json_text = place.style is None and place.content_type is not None and is_json(place.content_type)
        return member, replace(place, content_type="application/json" if is_json_text else None)

    return _read_members(media_type, schema, converter, read_member)


def _read_multipart(media_type: Node, schema: Any, converter: SchemaConverter) -> Read:
    """Return the parts of a multipart body; a file is base64. A body that is a file is the part `file`."""

    def read_member(name: str, member: Any) -> tuple[Any, HTTPArgument]:
        place = _encoding(media_type, name)
        content_type = place.content_type
        resolved = _without_null(member, converter)
        items = _without_null(resolved.get("items", {}), converter) if isinstance(resolved, dict) else {}
        has_files = _is_of_type(resolved, "array") and _is_file(items)
        if has_files or _is_file(resolved) or _is_file_of(content_type, resolved):
            file = HTTPArgument(location="body", name=name, is_file=True, content_type=content_type)
            return _to_file(resolved, items if has_files else None), file
        if place.style is not None:
            return member, replace(place, content_type=None)
        single = content_type.partition(",")[0].strip() if content_type and "*" not in content_type else None
        if single is None and _is_of_type(resolved, "object"):
            single = "application/json"
        return member, HTTPArgument(location="body", name=name, content_type=single)

    file, place = read_member("file", schema)
    if place.is_file:
        return schema, {"file": BodyMember(schema=file, place=place, is_required=True)}, {}
    return _read_members(media_type, schema, converter, read_member)


def _read_members(media_type: Node, schema: Any, converter: SchemaConverter, read_member: _ReadMember) -> Read:
    """Return a form: its members if they can be arguments, else its schema and how the members in it are written."""
    flat = _flatten(schema, converter)
    if flat is None:
        places: dict[str, HTTPArgument] = {}
        whole = _rewrite_members(schema, converter, read_member, places)
        if not isinstance(whole, dict) or not {"object", "null"}.issuperset(type_names(whole) or ["object"]):
            raise media_type.error("a form needs a schema of `type: object`.")
        return {"type": "object", **whole}, None, places
    members = {}
    for name, member in _members(flat):
        member_schema, place = read_member(name, member.schema)
        members[name] = BodyMember(schema=member_schema, place=place, is_required=member.is_required)
    return schema, members, {}


_ReadMember = Callable[[str, Any], tuple[Any, HTTPArgument]]


def _rewrite_members(
    schema: Any, converter: SchemaConverter, read_member: _ReadMember, places: dict[str, HTTPArgument], depth: int = 0
) -> Any:
    """Return the schema of an object with its members as arguments have them, also in its alternatives."""
    merged = {} if schema is True else converter.merge(schema)
    schema = converter.resolve(schema) if isinstance(merged, dict) and "$ref" in merged else merged
    if not isinstance(schema, dict) or depth > _MAX_ALTERNATIVES_DEPTH:
        return schema
    schema = dict(schema)
    properties = schema.get("properties", {})
    for name in properties:
        member, place = read_member(name, properties[name])
        places.setdefault(name, place)
        schema["properties"] = {**schema["properties"], name: member}
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            schema[keyword] = [
                _rewrite_members(part, converter, read_member, places, depth + 1) for part in schema[keyword]
            ]
    return schema


def _read_binary(_media_type: Node, schema: Any, _converter: SchemaConverter) -> Read:
    return _to_base64(schema), None, {}


def _read_text(media_type: Node, schema: Any, converter: SchemaConverter) -> Read:
    resolved = converter.resolve(schema)
    if isinstance(resolved, dict) and not {"string"}.issuperset(type_names(resolved) or ["object"] * len(resolved)):
        kind = base_type(media_type.pointer.rpartition("/")[2].replace("~1", "/"))
        return {"type": "string", "description": f"The whole body as a text of {kind}."}, None, {}
    return {"type": "string", **(resolved if isinstance(resolved, dict) else {})}, None, {}


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


def _flatten(schema: Any, converter: SchemaConverter) -> JsonObject | None:
    """Return the schema of an object that is no more than its members; None for any other schema."""
    schema = converter.merge(schema)
    if not isinstance(schema, dict) or not schema.keys() <= _FLAT_KEYWORDS:
        return None
    if not schema.get("properties") and schema.get("additionalProperties") is not False:
        return None
    is_closed = schema.get("additionalProperties", False) is False
    return {"properties": {}, **schema} if is_closed and type_names(schema) in ([], ["object"]) else None


def _encoding(media_type: Node, name: str) -> HTTPArgument:
    """Return where a member is sent, and how it is written as far as a document says it."""
    encodings = media_type.get("encoding")
    node = None if encodings is None else encodings.get(name)
    if node is None:
        return HTTPArgument(location="body", name=name)
    keys = node.require(dict).keys()
    style = node.read("style", str, "form") if {"style", "explode"} & keys else None
    if style is not None and style not in _FORM_STYLES:
        raise node.child("style").error(f"a form has no style {style!r}; use {', '.join(_FORM_STYLES)}.")
    content_type = node.read("contentType", str, "")
    _require_media_type(content_type, node)
    return HTTPArgument(
        location="body",
        name=name,
        style=cast("Style | None", style),
        explode=node.read("explode", bool, default=False) if "explode" in keys else None,
        content_type=content_type or None,
        allow_reserved=node.read("allowReserved", bool, default=False),
    )


def _is_of_type(schema: Any, kind: str) -> bool:
    return isinstance(schema, dict) and kind in type_names(schema)


def _is_encoded(schema: Any) -> bool:
    """Return whether a service gets the text of binary content, such as base64, and not the content itself."""
    return isinstance(schema, dict) and "contentEncoding" in schema and "string" in type_names(schema)


def _is_file(schema: Any) -> bool:
    """Return whether a part is binary: `format: binary` in OpenAPI 3.0, no type or a media type in 3.1."""
    if not isinstance(schema, dict):
        return False
    if schema.get("format") == "binary":
        return True
    return "contentMediaType" in schema and not is_json(schema["contentMediaType"]) and "contentEncoding" not in schema


def _is_file_of(content_type: str | None, schema: Any) -> bool:
    """Return whether a part without a type is binary because of its media type, as OpenAPI 3.1 writes it."""
    if content_type is None or not isinstance(schema, dict | bool) or (isinstance(schema, dict) and type_names(schema)):
        return False
    has_schema = isinstance(schema, dict) and not schema.keys() <= {"title", "description", "examples"}
    return not has_schema and int(_rank(content_type.partition(",")[0])) == _KINDS.index("binary")


def _without_null(schema: Any, converter: SchemaConverter) -> Any:
    """Return a schema without a reference and without the alternative null at its root."""
    resolved = converter.resolve(schema)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(resolved, dict) and keyword in resolved:
            parts = [converter.resolve(part) for part in resolved[keyword]]
            others = [part for part in parts if not (isinstance(part, dict) and type_names(part) == ["null"])]
            if len(others) == 1 and isinstance(others[0], dict):
                texts = {key: resolved[key] for key in ("title", "description") if key in resolved}
                return {**others[0], **texts}
    return resolved


def _to_base64(schema: Any) -> JsonObject:
    """Return the schema of a body that is binary."""
    texts = {key: schema[key] for key in ("title", "description") if isinstance(schema, dict) and key in schema}
    return {**texts, **_BASE64, "description": f"{texts.get('description', 'The content')} (base64)"}


def _to_file(schema: Any, items: Any) -> JsonObject:
    """Return the schema of a file as an argument, or of a list of files."""
    texts = {key: schema[key] for key in ("title", "description") if isinstance(schema, dict) and key in schema}
    if items is not None:
        return {"type": "array", "items": _to_file(items, None), **texts}
    description = f"{texts.get('description', 'The content')} (base64; or an object with `content` and `filename`)"
    return {**texts, "description": description, **_FILE}


_SUCCESS: Final = re.compile(r"2(\d\d|XX)", re.IGNORECASE)


def read_output_schema(operation: Node, converter: SchemaConverter) -> JsonObject | None:
    """Return the schema of what a successful request returns; None if its responses have several schemas or none.

    A value that is no object is in the property `result`. Raises DocumentError for what is no schema.
    """
    responses = operation.get("responses")
    if responses is None:
        return None
    found = [_read_response(response.resolve(), converter) for _, response in _successes(responses)]
    if not found or found[0][0] is None:
        return None
    if len(found) > 1 and len({json.dumps(schema, sort_keys=True) for schema, _ in found}) > 1:
        return None
    schema, description = found[0]
    return _to_object(schema, description, converter)


def find_success_statuses(operation: Node) -> tuple[str, ...]:
    """Return the statuses of successful responses that an operation describes, such as `200` and `2XX`."""
    responses = operation.get("responses")
    return () if responses is None else tuple(status.upper() for status, _ in _successes(responses))


def _successes(responses: Node) -> Iterator[tuple[str, Node]]:
    for status, response in responses.members():
        if _SUCCESS.fullmatch(status):
            yield status, response


def _read_response(response: Node, converter: SchemaConverter) -> tuple[Any, str]:
    """Return the converted schema of the JSON content, or None, and the description."""
    description = response.read("description", str, "")
    content = response.get("content")
    media_types = [] if content is None else [item for name, item in content.members() if is_json(name)]
    if not media_types:
        return None, description
    media_type = media_types[0].resolve().require_node(dict)
    if "schema" not in media_type.value:
        return None, description
    return converter.convert(media_type.child("schema")), description


def _to_object(schema: Any, description: str, converter: SchemaConverter) -> JsonObject | None:
    if schema in (True, {}):
        return None
    root = converter.merge(schema)
    types = root.get("type") if isinstance(root, dict) else None
    is_object = types in ("object", ["object"]) and "$ref" not in root
    texts = {"description": description} if description.strip() else {}
    if is_object:
        whole = {**texts, **root, "type": "object"}
    else:
        whole = {
            "type": "object",
            "properties": {
                "result": accept_null(dict(schema)) if converter.is_relaxed and isinstance(schema, dict) else schema
            },
            "required": ["result"],
            WRAP_RESULT_KEY: True,
            **texts,
        }
    definitions = converter.definitions_of(whole)
    return {**whole, "$defs": definitions} if definitions else whole
