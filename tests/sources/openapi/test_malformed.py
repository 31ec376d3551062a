"""Whatever a document contains, it becomes tools or a SourceError."""

from __future__ import annotations

import contextlib
import copy
import logging
import random
from typing import Any

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import SourceError
from tests.sources.openapi.documents import shop

JUNK = (
    None, True, 0, -1, 1.5, "", "x", "#", "#/", "/", "..", "https://evil.example", [], {}, [None], {"": None}, [[]],
    {"$ref": "#"}, {"$ref": "#/paths"}, {"$ref": 1}, {"type": "object"}, {"type": ["null"]}, {"type": []}, "\u202e",
    {"x": {"x": {}}},
)  # fmt: skip


def small_shop() -> dict[str, Any]:
    """Return the shop with a few of its operations, so that each change matters."""
    whole = shop()
    kept = ("/orders", "/articles", "/search", "/labels", "/uploads", "/account")
    whole["paths"] = {path: item for path, item in whole["paths"].items() if path.startswith(kept)}
    return whole


def change(whole: dict[str, Any], chance: random.Random) -> None:
    """Replace, remove or add a random part of a document."""
    node, steps = whole, chance.randint(1, 12)
    for _ in range(steps):
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.1:
            break
        node = inner
    key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    junk = copy.deepcopy(chance.choice(JUNK))
    if isinstance(node, dict) and chance.random() < 0.3:
        node.pop(key)
    elif isinstance(node, dict) and chance.random() < 0.2:
        node[chance.choice(["type", "$ref", "items", "allOf", "content", "schema", "in", "name", "x-a"])] = junk
    else:
        node[key] = junk


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(8, 400))])
def test_a_malformed_document_is_read_or_refused(seed, caplog):
    caplog.set_level(logging.CRITICAL)
    chance = random.Random(seed)
    whole = small_shop()
    for _ in range(chance.randint(1, 6)):
        change(whole, chance)
    with contextlib.suppress(SourceError):
        for spec in ToolSpec.from_openapi(whole).values():
            spec.to_jsonschema(strict=True)
            assert spec.definition.fingerprint
