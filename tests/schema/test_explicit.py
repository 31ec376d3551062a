"""A function with a JSON Schema of its own: the schema is shown and enforced, and then the function's types."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError


class Point(BaseModel):
    x: int
    y: int = 7


def move(point: Point, speed: int = 1, user: str = "nobody") -> list[int | str]:
    """Move to a point."""
    return [point.x, point.y, speed, user]


SCHEMA = {
    "type": "object",
    "properties": {
        "point": {"type": "object", "properties": {"x": {"type": "integer", "maximum": 10}}, "required": ["x"]},
        "speed": {"type": "integer", "description": "In steps."},
        "user": {"type": "string"},
    },
    "required": ["point"],
}


def made(**changes):
    return ToolSpec.from_function(move, input_schema={**SCHEMA, **changes})


def test_the_given_schema_is_shown():
    assert made().input_schema == SCHEMA


def test_both_are_enforced():
    assert "'point.x' should be at most 10" in made().exec(point={"x": 11}).error.message
    assert "'point.y' should be a valid integer" in made().exec(point={"x": 1, "y": "a"}).error.message


def test_the_function_gets_its_own_types():
    assert made().call(point={"x": 1}) == [1, 7, 1, "nobody"]


def test_the_schema_coerces_nothing():
    assert "'speed' should be of type integer" in made().exec(point={"x": 1}, speed="2").error.message


def test_repairs_apply_to_both():
    assert made().call(point='{"x": 1.0, "y": null}', speed=2.0, user=None) == [1, 7, 2, "nobody"]


def test_what_the_schema_leaves_open_the_function_may_refuse():
    assert "unknown argument 'other'" in made().exec(point={"x": 1}, other=1).error.message


def test_a_bound_parameter_is_taken_out_of_the_given_schema():
    spec = made().bind("user", default="ann")
    assert list(spec.params) == ["point", "speed"]
    assert spec.call(point={"x": 1}) == [1, 7, 1, "ann"]
    assert "unknown argument 'user'" in spec.exec(point={"x": 1}, user="bob").error.message


def test_a_parameter_that_the_schema_does_not_show_can_be_bound():
    shown = {"type": "object", "properties": {"point": SCHEMA["properties"]["point"]}, "required": ["point"]}
    spec = ToolSpec.from_function(move, input_schema=shown).bind("user", default="ann")
    assert list(spec.params) == ["point"]
    assert spec.call(point={"x": 1}) == [1, 7, 1, "ann"]


def test_a_bound_value_is_checked_by_the_functions_type():
    spec = made().bind("point", default=Point(x=99))
    assert spec.call() == [99, 7, 1, "nobody"]


def test_a_property_that_is_no_parameter_is_refused_where_the_tool_is_made():
    with pytest.raises(DefinitionError, match=r"'sped', which is no parameter\. Did you mean 'speed'"):
        made(properties={"sped": {"type": "integer"}}, required=[])


def test_a_required_property_that_is_no_parameter_is_refused_where_the_tool_is_made():
    schema = {"type": "object", "properties": {}, "required": ["nobody"]}
    with pytest.raises(DefinitionError, match="'nobody', which is no parameter"):
        ToolSpec.from_function(lambda: None, name="f", input_schema=schema)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"type": "intgr"}, r"at \['properties'\]\['n'\]\['type'\]: \"intgr\" is not valid"),
        ({"type": "string", "pattern": "("}, 'is not a "regex"'),
        ({"$ref": "#/$defs/Nobody"}, "'/\\$defs/Nobody' does not exist"),
        ({"$ref": "http://127.0.0.1:1/schema"}, "cannot fetch"),
    ],
)
def test_an_unusable_schema_is_refused_with_the_place_and_the_reason(node, reason):
    with pytest.raises(DefinitionError, match=reason):
        ToolSpec.from_function(lambda n: n, name="f", input_schema={"type": "object", "properties": {"n": node}})


def test_the_given_schema_may_be_changed_afterwards():
    schema = {"type": "object", "properties": {"point": {"type": "object"}}}
    spec = ToolSpec.from_function(move, input_schema=schema)
    schema["properties"]["point"]["type"] = "integer"
    assert spec.call(point={"x": 1}) == [1, 7, 1, "nobody"]
