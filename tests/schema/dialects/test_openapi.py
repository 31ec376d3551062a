"""OpenAPI's form: one type each, null as `nullable`, and `anyOf` without sibling keywords."""

from __future__ import annotations

import json

import pytest

from ahvn_tools.schema.dialects.dialect import GEMINI_PARAMETERS
from tests.schema.dialects.translation import translate_member


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "array"], "items": {"type": "null"}, "description": "D."},
            {"anyOf": [{"type": "string", "description": "D."},
                       {"type": "array", "items": {"type": "null"}, "description": "D."}]},
        ),
        (
            {"anyOf": [{"type": "string", "description": "S."}, {"type": "null"}], "description": "D."},
            {"type": "string", "nullable": True, "description": "D. S."},
        ),
        (
            {"anyOf": [{"type": "string", "description": "S."}, {"type": "integer"}, {"type": "null"}],
             "description": "D."},
            {"anyOf": [{"type": "string", "nullable": True, "description": "D. S."},
                       {"type": "integer", "nullable": True, "description": "D."}]},
        ),
        ({"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"], "nullable": True}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
        ({"enum": ["", "a"]}, {"type": "string", "description": 'One of: "", "a".'}),
        ({"type": "object"}, {"type": "object"}),
        (
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}},
            {"type": "object", "description": 'additionalProperties: {"type": "string"}.'},
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"$ref": "#/$defs/A"}}},
            {"type": "object", "description": 'patternProperties: {"^x": {"type": "string"}}.'},
        ),
        ({"type": "object", "properties": {}, "required": []}, {"type": "object"}),
        (
            {"type": ["string", "integer"], "anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "date"}, {"type": "string", "description": 'format: "date".'}),
    ],
    ids=lambda case: json.dumps(case)[:60],
)  # fmt: skip
def test_null_becomes_nullable_and_any_of_has_no_siblings(node, expected):
    assert translate_member(node, GEMINI_PARAMETERS, **{"$defs": {"A": {"type": "string"}}}) == expected


def test_a_schema_without_a_type_becomes_a_union_of_all_types():
    types = [branch["type"] for branch in translate_member({}, GEMINI_PARAMETERS)["anyOf"]]
    assert types == ["string", "number", "boolean", "object", "array"]
