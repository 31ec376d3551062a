"""OpenAPI documents for the tests: one operation, the shop with more than 60, and the pet store in a file beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PETSTORE = Path(__file__).with_name("petstore.yaml")

RESOURCES = (
    "articles", "authors", "baskets", "brands", "categories", "customers", "discounts", "invoices", "orders",
    "payments", "reviews", "suppliers", "warehouses",
)  # fmt: skip


def document(paths: Any, *, version: str = "3.1.0", server: str = "https://shop.example/v1", **members: Any) -> Any:
    """Return a document with these paths."""
    return {
        "openapi": version,
        "info": {"title": "Test shop", "version": "1"},
        "servers": [{"url": server}],
        "paths": paths,
        **members,
    }


def one_operation(operation: Any, *, path: str = "/things", method: str = "get", **members: Any) -> Any:
    """Return a document with one operation, whose id is `call` unless it has one."""
    return document({path: {method: {"operationId": "call", "responses": {}, **operation}}}, **members)


def parameter(name: str, location: str = "query", schema: Any = None, **members: Any) -> Any:
    """Return a parameter; one of the path is required."""
    required = {"required": True} if location == "path" else {}
    return {
        "name": name,
        "in": location,
        "schema": {"type": "string"} if schema is None else schema,
        **required,
        **members,
    }


def json_body(schema: Any, **members: Any) -> Any:
    """Return a required body of JSON."""
    return {"required": True, "content": {"application/json": {"schema": schema}}, **members}


def json_response(schema: Any, description: str = "It worked.") -> Any:
    """Return the responses of an operation: JSON with status 200."""
    return {"200": {"description": description, "content": {"application/json": {"schema": schema}}}}


def ref(name: str, kind: str = "schemas") -> Any:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def shop(version: str = "3.0.3", server: str = "https://shop.example/v1") -> Any:
    """Return a document of real size: five operations for each resource, and the features that they do not have."""
    paths: dict[str, Any] = {}
    for resource in RESOURCES:
        paths |= _resource_paths(resource)
    paths |= _search_paths() | _upload_paths() | _account_paths()
    is_30 = version.startswith("3.0")
    return document(
        paths,
        version=version,
        server=server,
        tags=[{"name": resource} for resource in RESOURCES],
        security=[{"key": []}],
        components={
            "schemas": _schemas(is_30=is_30),
            "parameters": {
                "Limit": parameter("limit", schema={"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
                "Tenant": parameter("X-Tenant", "header", description="Whose shop it is."),
            },
            "responses": {
                "Problem": {"description": "Not found.", "content": {"application/json": {"schema": ref("Problem")}}}
            },
            "requestBodies": {"Order": json_body(ref("Order"), description="The order.")},
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "queryKey": {"type": "apiKey", "in": "query", "name": "key"},
                "session": {"type": "apiKey", "in": "cookie", "name": "session"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
                "machine": {
                    "type": "oauth2",
                    "flows": {
                        "clientCredentials": {"tokenUrl": "https://shop.example/token", "scopes": {"read": "Read."}}
                    },
                },
            },
        },
    )


def _resource_paths(resource: str) -> dict[str, Any]:
    singular, schema = resource[:-1], ref("Order" if resource == "orders" else "Article")
    identifier = parameter(f"{singular}Id", "path", {"type": "integer"}, description=f"The number of the {singular}.")
    problem = {"404": ref("Problem", "responses")}
    return {
        f"/{resource}": {
            "parameters": [ref("Tenant", "parameters")],
            "get": {
                "operationId": f"list_{resource}",
                "summary": f"List the {resource}",
                "tags": [resource],
                "parameters": [ref("Limit", "parameters"), parameter("tags", schema=_list_of("string"))],
                "responses": json_response({"type": "array", "items": schema}),
            },
            "post": {
                "operationId": f"create_{singular}",
                "summary": f"Create one of the {resource}",
                "tags": [resource],
                "requestBody": json_body(schema),
                "responses": {"201": {"description": "Created.", "content": {"application/json": {"schema": schema}}}},
            },
        },
        f"/{resource}/{{{singular}Id}}": {
            "parameters": [identifier],
            "get": {
                "operationId": f"get_{singular}",
                "summary": f"Get one of the {resource}",
                "description": f"Returns one of the {resource} by its number.",
                "tags": [resource],
                "responses": json_response(schema) | problem,
            },
            "put": {
                "operationId": f"replace_{singular}",
                "tags": [resource],
                "requestBody": json_body(schema),
                "responses": json_response(schema),
            },
            "delete": {
                "operationId": f"delete_{singular}",
                "tags": [resource, "dangerous"],
                "responses": {"204": {"description": "Deleted."}} | problem,
            },
        },
    }


def _search_paths() -> dict[str, Any]:
    """Return operations with every style of parameter."""
    color = {"type": "object", "properties": {"R": {"type": "integer"}, "G": {"type": "integer"}}}
    return {
        "/search/{area}": {
            "get": {
                "operationId": "search",
                "tags": ["search"],
                "parameters": [
                    parameter("area", "path", _list_of("string")),
                    parameter("area", "query", description="The area on the map."),
                    parameter("sizes", schema=_list_of("integer"), explode=False),
                    parameter("words", schema=_list_of("string"), style="spaceDelimited", explode=False),
                    parameter("codes", schema=_list_of("string"), style="pipeDelimited", explode=False),
                    parameter("color", schema=color, style="deepObject", explode=True),
                    {"name": "filter", "in": "query", "content": {"application/json": {"schema": color}}},
                    parameter("page[size]", schema={"type": "integer"}),
                    parameter("Authorization", "header"),
                    parameter("X-Ids", "header", _list_of("integer")),
                    parameter("theme", "cookie"),
                ],
                "responses": json_response({"type": "object"}),
            }
        },
        "/labels/{label}/{matrix}": {
            "get": {
                "tags": ["search"],
                "parameters": [
                    parameter("label", "path", _list_of("string"), style="label", explode=True),
                    parameter("matrix", "path", color, style="matrix", explode=True),
                ],
                "responses": {
                    "200": {"description": "A text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
                },
            }
        },
    }


def _upload_paths() -> dict[str, Any]:
    """Return operations with every kind of body."""
    binary = {"type": "string", "format": "binary"}
    form = {
        "type": "object",
        "required": ["file"],
        "properties": {"file": binary, "note": {"type": "string"}, "labels": _list_of("string")},
    }
    login = {"type": "object", "properties": {"user": {"type": "string"}, "roles": _list_of("string")}}
    kinds = {
        "upload_form": {"multipart/form-data": {"schema": form}},
        "upload_raw": {"application/octet-stream": {"schema": binary}},
        "upload_text": {"text/plain": {"schema": {"type": "string"}}},
        "upload_list": {"application/json": {"schema": _list_of("integer")}},
        "upload_login": {"application/x-www-form-urlencoded": {"schema": login}},
    }
    return {
        f"/uploads/{name}": {
            "post": {
                "operationId": name,
                "tags": ["uploads"],
                "requestBody": {"required": True, "content": content},
                "responses": {"default": {"description": "Anything."}},
            }
        }
        for name, content in kinds.items()
    }


def _account_paths() -> dict[str, Any]:
    """Return operations that differ in their security, a deprecated one, and two of one id."""
    ways: dict[str, Any] = {
        "anonymous": [],
        "by_query": [{"queryKey": []}],
        "by_cookie": [{"session": []}],
        "by_bearer": [{"bearer": []}],
        "by_basic": [{"basic": []}],
        "by_machine": [{"machine": ["read"]}],
        "by_both": [{"key": [], "session": []}],
    }
    paths: dict[str, Any] = {
        f"/account/{name}": {"get": {"operationId": name, "tags": ["account"], "security": way, "responses": {}}}
        for name, way in ways.items()
    }
    paths["/account/old"] = {"get": {"operationId": "old", "deprecated": True, "responses": {}}}
    paths["/account/twice"] = {
        "get": {"operationId": "twice", "responses": {}},
        "post": {"operationId": "twice", "responses": {}},
    }
    return paths


def _schemas(*, is_30: bool) -> dict[str, Any]:
    nullable = {"type": "string", "nullable": True} if is_30 else {"type": ["string", "null"]}
    price = {"minimum": 0, "exclusiveMinimum": True} if is_30 else {"exclusiveMinimum": 0}
    example = {"example": "Tea"} if is_30 else {"examples": ["Tea"]}
    return {
        "Article": {
            "type": "object",
            "required": ["id", "name"],
            "properties": {
                "id": {"type": "integer", "readOnly": True},
                "name": {"type": "string", "maxLength": 100, **example},
                "subtitle": nullable,
                "price": {"type": "number", **price},
                "secretCode": {"type": "string", "writeOnly": True},
                "parts": {"type": "array", "items": ref("Article")},
                "kind": {"type": "string", "enum": ["food", "tool"]},
            },
        },
        "Order": {
            "allOf": [
                ref("Base"),
                {
                    "type": "object",
                    "required": ["lines"],
                    "properties": {"lines": {"type": "array", "items": ref("Line")}, "payment": ref("Payment")},
                },
            ]
        },
        "Base": {
            "type": "object",
            "properties": {"id": {"type": "integer", "readOnly": True}, "note": {"type": "string"}},
        },
        "Line": {
            "type": "object",
            "required": ["article"],
            "properties": {"article": {"type": "integer"}, "count": {"type": "integer", "default": 1}},
        },
        "Payment": {
            "oneOf": [ref("Card"), ref("Invoice")],
            "discriminator": {"propertyName": "method", "mapping": {"card": "#/components/schemas/Card"}},
        },
        "Card": {"type": "object", "properties": {"method": {"type": "string"}, "number": {"type": "string"}}},
        "Invoice": {"type": "object", "properties": {"method": {"type": "string"}, "address": {"type": "string"}}},
        "Problem": {"type": "object", "properties": {"detail": {"type": "string"}}},
    }


def _list_of(kind: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": kind}}


def large(operations: int = 500) -> Any:
    """Return a document with so many operations, to measure with."""
    whole = shop()
    template = json.dumps(_resource_paths("orders"))
    whole["paths"] = {}
    for number in range(operations // 5):
        text = template.replace("orders", f"orders{number}").replace("order", f"order{number}_")
        whole["paths"] |= json.loads(text)
    return whole
