"""`transform` and the option `arguments`: a tool with other names, texts and defaults of its arguments."""

from __future__ import annotations

import asyncio
import enum
import json
import pickle
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastmcp.tools import Tool
from mcp_types import Tool as WireTool
from pydantic import Field

from ahvn_tools import Secret, ToolContext, ToolSpec, formats
from ahvn_tools.errors import BindError, DefinitionError, InvalidParametersError, UnboundStateError
from ahvn_tools.formats import openai


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def paint(wall: str, colour: Color = Color.BLUE, coats: int = 1) -> str:
    """Paint a wall.

    Args:
        wall: Which wall.
        colour: Which colour.
    """
    return f"{wall} {colour.value if isinstance(colour, Color) else colour} {coats}"


async def apaint(wall: str, colour: Color = Color.BLUE, coats: int = 1) -> str:
    """Paint a wall."""
    return paint(wall, colour, coats)


def painted_in_order(wall: str, /, colour: Color = Color.BLUE, *more: int, coats: int = 1) -> str:
    """Paint a wall."""
    return paint(wall, colour, coats)


def as_mcp_tool(function: Callable[..., Any]) -> ToolSpec:
    return ToolSpec.from_mcp(Tool.from_function(function))


KINDS = {
    "function": lambda: ToolSpec.from_function(paint),
    "async": lambda: ToolSpec.from_function(apaint),
    "positional": lambda: ToolSpec.from_function(painted_in_order),
    "mcp": lambda: as_mcp_tool(paint),
}
each_kind = pytest.mark.parametrize("kind", KINDS)

RENAMED: Any = {
    "wall": {"name": "target", "description": "What to paint."},
    "colour": {"name": "color", "default": "red"},
}
PRESET = {"coats": 3}


@each_kind
def test_calls_use_the_new_names_and_the_body_gets_its_own(kind):
    spec = KINDS[kind]().transform(preset=PRESET, arguments=RENAMED)
    assert spec(target="north") == "north red 3"
    assert spec("north", color="blue") == "north blue 3"
    assert asyncio.run(spec.acall(target="north")) == "north red 3"
    assert spec.exec(target="north").value == asyncio.run(spec.aexec(target="north")).value == "north red 3"
    assert next(spec.stream(target="north")).value == "north red 3"


@each_kind
def test_the_definition_has_the_new_names_texts_and_defaults(kind):
    schema = KINDS[kind]().transform(preset=PRESET, arguments=RENAMED).input_schema
    assert list(schema["properties"]) == ["target", "color"]
    assert (schema["required"], schema["properties"]["target"]["description"]) == (["target"], "What to paint.")
    assert schema["properties"]["color"]["default"] == "red"


@each_kind
@pytest.mark.parametrize(
    "arguments", [{"wall": "x", "target": "y"}, {"colour": "red", "target": "y"}, {"target": "y", "coats": 5}]
)
def test_a_former_name_or_a_preset_argument_is_an_unknown_argument(kind, arguments):
    (unknown,) = arguments.keys() - {"target"}
    spec = KINDS[kind]().transform(preset=PRESET, arguments=RENAMED)
    with pytest.raises(InvalidParametersError, match=f"unknown argument '{unknown}'"):
        spec(**arguments)


@each_kind
def test_bindings_go_by_the_new_names_and_existing_ones_follow(kind):
    spec = KINDS[kind]().bind("wall", "place.wall", "south")
    twin = spec.transform(preset=PRESET, arguments=RENAMED, binds={"color": "tint"})
    assert (dict(twin.binds), dict(spec.binds)) == ({"target": "place.wall", "color": "tint"}, {"wall": "place.wall"})
    assert twin() == "south red 3"
    twin.state["tint"] = "blue"
    assert (twin(), spec()) == ("south blue 3", "south blue 1")
    with pytest.raises(BindError, match="has no parameter 'wall'"):
        twin.bind("wall")
    with pytest.raises(BindError, match="was fixed when the tool was made"):
        twin.bind("coats")
    with pytest.raises(BindError, match="was fixed when the tool was made"):
        twin.unbind("coats")
    with pytest.raises(UnboundStateError, match="Parameter 'target' is bound to 'gone'"):
        twin.unbind("color").bind("target", "gone")()


@each_kind
def test_a_changed_tool_can_be_changed_again_by_its_new_names(kind):
    once = KINDS[kind]().transform(preset=PRESET, arguments=RENAMED)
    twice = once.transform(arguments={"color": {"name": "shade", "required": True}, "target": {"description": None}})
    assert (list(twice.params), twice.input_schema["required"]) == (["target", "shade"], ["target", "shade"])
    assert "description" not in twice.params["target"]
    assert twice(target="north", shade="blue") == "north blue 3"
    assert once(target="north") == "north red 3"
    with pytest.raises(DefinitionError, match="There is no argument 'colour' to change"):
        once.transform(arguments={"colour": {"name": "c"}})
    with pytest.raises(DefinitionError, match=r"The argument 'coats' of '.*' is fixed"):
        once.transform(arguments={"coats": {"name": "c"}})


@each_kind
def test_the_option_of_a_definition_is_the_same(kind):
    spec = KINDS[kind]()
    if kind == "mcp":
        made = ToolSpec.from_mcp(Tool.from_function(paint), arguments=RENAMED)
    else:
        made = ToolSpec.from_function(spec.function, arguments=RENAMED)
    assert made.definition == spec.transform(arguments=RENAMED).definition


@pytest.mark.parametrize("kind", ["function", "async", "positional"])
def test_a_changed_tool_is_pickled(kind):
    twin = pickle.loads(
        pickle.dumps(KINDS[kind]().transform(preset=PRESET, arguments=RENAMED).bind("color", default="blue"))
    )
    assert (twin(target="north"), list(twin.params)) == ("north blue 3", ["target"])


def test_other_options_change_and_examples_follow_the_names():
    spec = ToolSpec.from_function(paint, examples=[{"wall": "north"}, {"inputs": {"wall": "south", "coats": 2}}])
    twin = spec.transform(
        name="colour_wall", title="Colour", description="Colour a wall.", preset=PRESET, arguments=RENAMED
    )
    assert (twin.name, twin.title, twin.description) == ("colour_wall", "Colour", "Colour a wall.")
    assert twin.definition.examples == [{"inputs": {"target": "north"}}, {"inputs": {"target": "south"}}]
    assert (spec.name, spec.definition.examples[0]) == ("paint", {"inputs": {"wall": "north"}})


def test_exports_calls_and_portability_agree():
    spec = ToolSpec.from_function(paint).transform(preset=PRESET, arguments=RENAMED)
    function = spec.to("openai")["function"]
    assert list(function["parameters"]["properties"]) == ["target", "color"]
    assert spec.to_prompt().startswith("- `paint(target, color=")
    answer = {"tool_calls": [{"id": "1", "function": {"name": "paint", "arguments": json.dumps({"target": "w"})}}]}
    (call,) = openai.calls(answer, [spec.definition])
    assert spec.exec(**call.arguments).value == "w red 3"
    assert spec.to_mcp().input_schema == spec.binded.parameters == spec.input_schema
    assert formats.portability(spec.definition) == formats.portability(
        ToolSpec.from_function(changed_by_hand, name="paint", description="Paint a wall.").definition
    )


def changed_by_hand(
    target: Annotated[str, "What to paint."], color: Annotated[Color, "Which colour."] = Color.RED
) -> str:
    return f"{target} {color}"


def test_a_preset_secret_is_in_no_schema_pickle_or_error():
    def log_in(token: Annotated[str, Secret], user: str) -> str:
        raise RuntimeError(f"{user} has {token}")

    spec = ToolSpec.from_function(log_in).transform(preset={"token": "sk-canary-4711"})
    result = spec.exec(user="ann")
    texts = [str(spec.definition.input_schema), result.text, repr(spec), str(pickle.dumps(spec))]
    assert not any("canary" in text for text in texts)
    with pytest.raises(UnboundStateError, match="left out of the pickle"):
        pickle.loads(pickle.dumps(spec))(user="ann")
    with pytest.raises(DefinitionError, match="'token' of 'log_in' is secret"):
        ToolSpec.from_function(log_in, arguments={"token": {"default": "sk-canary-4711"}})


def test_an_argument_is_renamed_where_only_properties_and_required_name_it():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}
    spec = ToolSpec.from_mcp(_wire(schema)).transform(arguments={"a": {"name": "first"}})
    assert spec.input_schema == {
        "type": "object",
        "properties": {"first": {"type": "integer"}, "b": {}},
        "required": ["first"],
    }
    assert spec.exec(first=1).error.code == "connection"  # valid, and there is no client
    with pytest.raises(InvalidParametersError, match="unknown argument 'a'"):
        spec(a=1)
    for other in ({"anyOf": [{"required": ["a"]}, {}]}, {"patternProperties": {"^x": {}}}):
        with pytest.raises(DefinitionError, match="The argument 'a' cannot be renamed: "):
            ToolSpec.from_mcp(_wire({**schema, **other}), arguments={"a": {"name": "x"}})


def _wire(schema: dict[str, Any]) -> WireTool:
    return WireTool(name="any", input_schema=schema)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wall"], "`arguments` is a mapping, name -> change, not a list"),
        ({"wall": "target"}, "The change of the argument 'wall' is a dict"),
        ({"wal": {"name": "x"}}, "There is no argument 'wal' to change. Did you mean 'wall'"),
        ({"wall": {"nam": "x"}}, "Unknown 'nam' in the change of the argument 'wall'. Did you mean 'name'"),
        ({"wall": {"name": ""}}, "'name' in the change of the argument 'wall' must be a text that is not empty"),
        ({"wall": {"name": "the wall"}}, "cannot be named 'the wall': choose a Python name"),
        ({"wall": {"name": "class"}}, "cannot be named 'class': choose a Python name"),
        ({"wall": {"name": "coats"}}, "Both 'wall' and 'coats' would be named 'coats'"),
        ({"wall": {"description": 3}}, "'description' in .* must be a text, or None"),
        ({"wall": {"hide": True}}, "Unknown 'hide' in the change of the argument 'wall'"),
        ({"wall": {"required": False}}, "'required' in .* can only be True"),
        ({"wall": {"required": True, "default": "x"}}, "A required argument has no default"),
        ({"coats": {"default": "many"}}, "The default of 'coats' of 'paint' does not fit 'int'"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(arguments, message):
    for make in (
        lambda: ToolSpec.from_function(paint, arguments=arguments),
        lambda: ToolSpec.from_function(paint).transform(arguments=arguments),
    ):
        with pytest.raises(DefinitionError, match=message):
            make()


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ({"coat": 2}, "'paint' has no parameter 'coat' to preset. Did you mean 'coats'"),
        ({"coats": []}, "The preset of 'coats' of 'paint' does not fit 'int'"),
        ({"coats": 2}, "'coats' of 'paint' was fixed when the tool was made"),
    ],
)
def test_a_preset_that_does_not_fit_is_refused(preset, message):
    spec = ToolSpec.from_function(paint)
    if preset == {"coats": 2}:
        spec = spec.transform(preset=PRESET)
    with pytest.raises(BindError, match=message):
        spec.transform(preset=preset)


def test_what_a_change_cannot_apply_to_is_refused():
    def aliased(city: Annotated[str, Field(alias="town")], limit: int = Field(3, ge=1)) -> str:
        return city

    def takes_context(text: str, context: ToolContext) -> str:
        return text

    with pytest.raises(DefinitionError, match="'place' of 'aliased' has an alias"):
        ToolSpec.from_function(aliased, arguments={"city": {"name": "place"}})
    with pytest.raises(DefinitionError, match="The default of 'limit' is a pydantic Field"):
        ToolSpec.from_function(aliased, arguments={"limit": {"default": 4}})
    spec = ToolSpec.from_function(takes_context, arguments={"text": {"name": "words"}})
    assert spec(words="x") == "x"
    with pytest.raises(DefinitionError, match="'context' of 'takes_context' is fixed"):
        spec.transform(arguments={"context": {"name": "c"}})
