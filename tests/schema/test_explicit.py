"""Functions with an explicit JSON Schema: the schema is exported and enforced, and then the function's types."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError


class Point(BaseModel):
    x: int
    y: int = 7


def move(point: Point, speed: int = 1, user: str = "missing") -> list[int | str]:
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


def test_the_explicit_schema_is_exported():
    assert made().input_schema == SCHEMA


def test_the_schema_and_the_types_are_enforced():
    assert "'point.x' should be at most 10" in made().exec(point={"x": 11}).error.message
    assert "'point.y' should be a valid integer" in made().exec(point={"x": 1, "y": "a"}).error.message


def test_the_function_receives_its_own_types():
    assert made().call(point={"x": 1}) == [1, 7, 1, "missing"]


def test_the_schema_coerces_nothing():
    assert "'speed' should be of type integer" in made().exec(point={"x": 1}, speed="2").error.message


def test_repairs_apply_to_both():
    assert made().call(point='{"x": 1.0, "y": null}', speed=2.0, user=None) == [1, 7, 2, "missing"]


def test_the_function_may_refuse_what_the_schema_accepts():
    assert "unknown argument 'other'" in made().exec(point={"x": 1}, other=1).error.message


def test_a_bound_parameter_is_removed_from_the_explicit_schema():
    spec = made().bind("user", default="ann")
    assert list(spec.params) == ["point", "speed"]
    assert spec.call(point={"x": 1}) == [1, 7, 1, "ann"]
    assert "unknown argument 'user'" in spec.exec(point={"x": 1}, user="bob").error.message


def test_a_parameter_that_is_not_in_the_schema_can_be_bound():
    shown = {"type": "object", "properties": {"point": SCHEMA["properties"]["point"]}, "required": ["point"]}
    spec = ToolSpec.from_function(move, input_schema=shown).bind("user", default="ann")
    assert list(spec.params) == ["point"]
    assert spec.call(point={"x": 1}) == [1, 7, 1, "ann"]


def test_a_bound_value_is_validated_by_the_functions_type():
    spec = made().bind("point", default=Point(x=99))
    assert spec.call() == [99, 7, 1, "missing"]


def test_a_property_that_is_not_a_parameter_is_refused_at_creation():
    with pytest.raises(DefinitionError, match=r"'sped', which is not a parameter\. Did you mean 'speed'"):
        made(properties={"sped": {"type": "integer"}}, required=[])


def test_a_required_property_that_is_not_a_parameter_is_refused_at_creation():
    schema = {"type": "object", "properties": {}, "required": ["missing"]}
    with pytest.raises(DefinitionError, match="'missing', which is not a parameter"):
        ToolSpec.from_function(lambda: None, name="f", input_schema=schema)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"type": "intgr"}, r"at \['properties'\]\['n'\]\['type'\]: \"intgr\" is not valid"),
        ({"type": "string", "pattern": "("}, 'is not a "regex"'),
        ({"$ref": "#/$defs/Missing"}, "'/\\$defs/Missing' does not exist"),
        ({"$ref": "http://127.0.0.1:1/schema"}, "cannot fetch"),
    ],
)
def test_an_unusable_schema_is_refused_with_its_path_and_the_reason(node, reason):
    with pytest.raises(DefinitionError, match=reason):
        ToolSpec.from_function(lambda n: n, name="f", input_schema={"type": "object", "properties": {"n": node}})


def test_later_changes_of_the_explicit_schema_have_no_effect():
    schema = {"type": "object", "properties": {"point": {"type": "object"}}}
    spec = ToolSpec.from_function(move, input_schema=schema)
    schema["properties"]["point"]["type"] = "integer"
    assert spec.call(point={"x": 1}) == [1, 7, 1, "missing"]
