"""A schema of plain members needs no conversion where the dialect accepts all keywords: the export is the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from ahvn_tools import ToolDefinition, formats
from ahvn_tools.formats.rendering import tool_exporter
from tests.property_checks import EXAMPLES, run_examples

MEMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
    optional={"title": st.just("A"), "description": st.sampled_from(["", "A text."]), "default": st.just(1)},
)
OBJECTS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(["a", "b c", "$ref", "type"]), MEMBERS),
        "additionalProperties": st.just(False),
    },
    optional={"required": st.lists(st.sampled_from(["a", "b c", "other"]), unique=True)},
)


@EXAMPLES
def test_the_short_way_and_the_long_way_give_the_same(max_examples):
    def check(schema, name):
        exports = []
        for accepts in (tool_exporter.is_plain_object, lambda _: False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tool_exporter, "is_plain_object", accepts)
                definition = ToolDefinition(name="add", description="Add.", input_schema=schema)
                findings = [str(found) for found in formats.portability(definition).get(name, ())]
                exports.append((json.dumps(formats.get(name).export([definition]), sort_keys=True), findings))
        assert exports[0] == exports[1]

    run_examples(max_examples, check, OBJECTS, st.sampled_from(formats.BUILT_IN))
