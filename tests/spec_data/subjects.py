"""Specs of every kind that is data."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from ahvn_tools import ToolSpec
from ahvn_tools.binding import EnvironmentVariable, WorkerResolver
from tests.spec_data import tools

TRUST = ["tests.spec_data.tools", "<code>", "${CANARY_KEY}", "${CANARY_SECRET}", "https://*.example", "<private>"]

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

CODE = '''
import math

def _half(number):
    return number / 2

def area(radius: float, factor: int = 1) -> float:
    """Return an area."""
    return factor * round(math.pi * _half(radius) ** 2, 2)
'''

PET_DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example/v1"}],
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "security": [{"key": []}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "getPet",
                "summary": "Get a pet.",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                ],
                "responses": {"200": {"description": "A pet.", "content": {"application/json": {"schema": SCHEMA}}}},
            }
        }
    },
}

ALL_OPTIONS: dict[str, Any] = {
    "name": "hello",
    "title": "Hello",
    "description": "Say hello.",
    "examples": [{"name": "Ann", "tone": "warm"}, {"inputs": {"name": "Bob"}, "expected": "hello", "note": "short"}],
    "annotations": {"read_only_hint": True},
    "meta": {"a": [1, {"b": None}]},
    "version": "2",
    "icons": [{"src": "https://icons.example/hello.png"}],
    "ui": {"text": "<p>hello</p>", "visibility": ["app", "model"], "csp": {"connectDomains": []}},
    "tags": {"social", "a"},
    "timeout": 7.5,
    "max_items": None,
    "max_bytes": 5000,
    "output_schema": None,
    "run_in_thread": True,
    "coerce_numbers_to_str": False,
    "arguments": {"name": {"name": "person", "examples": ["Ann"]}},
}


def _all_options() -> ToolSpec:
    options = {name: value for name, value in ALL_OPTIONS.items() if name != "arguments"}
    return ToolSpec.from_function(tools.greet, **options).transform(arguments=ALL_OPTIONS["arguments"])


def _hidden_arguments() -> ToolSpec:
    spec = ToolSpec.from_function(tools.greet)
    return spec.transform(preset={"tone": "warm"}, arguments={"name": {"description": "Who."}})


def _described_partial() -> ToolSpec:
    greet = functools.partial(tools.greet)
    greet.__doc__ = "Other words."
    return ToolSpec.from_function(greet)


def _http() -> ToolSpec:
    return ToolSpec.from_http(
        "notes",
        "https://api.example/users/{user}/notes",
        method="POST",
        body=["text"],
        header={"trace": "X-Trace"},
        headers={"Accept-Language": "en"},
        auth_method="oauth",
        client_id="${CANARY_KEY}",
        client_secret="${CANARY_SECRET}",
        token_url="https://login.example/token",
        retry_delay=2,
        allow_private=["10.0.0.0/8"],
        binds={"trace": "trace.id"},
    )


SUBJECTS: dict[str, Callable[[], ToolSpec]] = {
    "function": lambda: ToolSpec.from_function(tools.greet),
    "async": lambda: ToolSpec.from_function(tools.greet_later),
    "generator": lambda: ToolSpec.from_function(tools.count, max_items=3),
    "decorated": tools.double.clone,
    "all-options": _all_options,
    "transformed": lambda: _all_options().transform(arguments={"person": {"name": "who"}}, timeout=3),
    "context": tools.with_context.clone,
    "shipped-state": lambda: tools.with_context.clone().transform(ship=["user.locale", "tenant"], ship_secrets=True),
    "classmethod": lambda: tools.Shop({}).toolspec("kind"),
    "staticmethod": lambda: tools.Shop({}).toolspec("add"),
    "method-with-bound-self": lambda: ToolSpec.from_function(tools.Shop.price, binds={"self": "shop"}),
    "bound": lambda: ToolSpec.from_function(tools.greet).bind("tone", "style.tone"),
    "default": lambda: ToolSpec.from_function(tools.greet).bind("tone", r"style\.x.tone", "warm"),
    "secret": lambda: ToolSpec.from_function(tools.search).bind("token", "session.token"),
    "resolver": lambda: ToolSpec.from_function(tools.greet).bind("tone", resolver=tools.current_tone),
    "state-resolver": lambda: ToolSpec.from_function(tools.greet).bind("tone", "a.b", resolver=tools.tone_of),
    "worker-resolver": lambda: ToolSpec.from_function(tools.greet).bind(
        "tone", resolver=WorkerResolver(tools.current_tone)
    ),
    "variable": lambda: ToolSpec.from_function(tools.search).bind("token", resolver=EnvironmentVariable("CANARY_KEY")),
    "partial": lambda: ToolSpec.from_function(functools.partial(tools.greet, tone="warm")),
    "described-partial": _described_partial,
    "hidden-arguments": _hidden_arguments,
    "render": lambda: ToolSpec.from_function(tools.greet, output="raw", render=tools.render),
    "schema": lambda: ToolSpec.from_schema("anything", SCHEMA, tools.take_anything),
    "code": lambda: ToolSpec.from_code(CODE, "area").bind("factor", default=2),
    "http": _http,
    "openapi": lambda: ToolSpec.from_openapi(PET_DOCUMENT, auth={"key": "${CANARY_KEY}"})["getPet"],
}
"""By what is special about them."""


def to_data(spec: ToolSpec) -> dict[str, Any]:
    """Return the data of a spec with its values, as it arrives elsewhere."""
    return json.loads(json.dumps(spec.to_dict(values=True)))


def from_data(data: Any) -> ToolSpec:
    """Return the spec of the data of a subject."""
    return ToolSpec.from_dict(data, trust=TRUST)
