"""Tools from the definitions that OpenAI's two APIs take, and a function."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from ahvn_tools import ToolContext, Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where."}, "page-size": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "weather", "description": "Look at the sky.", "parameters": PARAMETERS}
CHAT = {"type": "function", "function": FUNCTION}
RESPONSES = {"type": "function", **FUNCTION}


def look(**arguments: Any) -> dict[str, Any]:
    """Read by nobody."""
    return arguments


both = pytest.mark.parametrize("definition", [CHAT, RESPONSES], ids=["chat", "responses"])


@both
def test_the_definition_describes_the_tool(definition: Any) -> None:
    spec = ToolSpec.from_openai(definition, look)
    assert (spec.name, spec.description, spec.input_schema) == ("weather", "Look at the sky.", PARAMETERS)


@both
def test_the_schema_alone_validates_and_the_function_gets_the_json(definition: Any) -> None:
    spec = ToolSpec.from_openai(definition, look)
    assert spec.call(**{"city": "Bonn", "page-size": 3}) == {"city": "Bonn", "page-size": 3}
    assert spec.exec(city=["Bonn"]).error.code == "invalid_parameters"
    assert spec.exec(city="Bonn", country="DE").error.code == "invalid_parameters"


@pytest.mark.parametrize(("definition", "format"), [(CHAT, "openai"), (RESPONSES, "openai-responses")])
def test_it_is_the_inverse_of_the_export(definition: Any, format: Any) -> None:
    exported = ToolSpec.from_openai(definition, look).to(format)
    assert ToolSpec.from_openai(exported, look).to(format) == exported
    inner = exported.get("function", exported)
    assert (inner["name"], inner["description"]) == ("weather", "Look at the sky.")
    assert inner["parameters"]["properties"] == PARAMETERS["properties"]


@both
@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType])
def test_any_mapping_is_a_definition(definition: Any, kind: Any) -> None:
    assert ToolSpec.from_openai(kind(definition), look).name == "weather"


@both
def test_the_definition_is_not_changed_and_later_changes_of_it_do_not_matter(definition: Any) -> None:
    own = copy.deepcopy(definition)
    spec = ToolSpec.from_openai(own, look, description="x", name="y")
    spec.input_schema["properties"].clear()
    assert own == definition
    own.get("function", own)["parameters"]["properties"].clear()
    own.clear()
    assert spec.input_schema == PARAMETERS


@both
def test_options_replace_what_the_definition_has(definition: Any) -> None:
    spec = ToolSpec.from_openai(definition, look, name="sky", description="Another text.", tags={"sky"}, timeout=3)
    assert (spec.name, spec.description, spec.tags, spec.timeout) == ("sky", "Another text.", {"sky"}, 3)
    assert ToolSpec.from_openai(definition, look, binds={"city": "home"}).params.keys() == {"page-size"}


@pytest.mark.parametrize("strict", [True, False, None])
def test_strict_says_only_how_a_model_is_asked(strict: Any) -> None:
    definition = {**RESPONSES, "strict": strict}
    assert ToolSpec.from_openai(definition, look).input_schema == PARAMETERS


@pytest.mark.parametrize("definition", [{"name": "ping"}, {"name": "ping", "parameters": None, "description": None}])
def test_parameters_and_description_may_be_absent(definition: Any) -> None:
    def ping() -> str:
        """Say pong."""
        return "pong"

    for spec in (
        ToolSpec.from_openai({"type": "function", "function": definition}, ping),
        ToolSpec.from_openai({"type": "function", **definition}, ping),
    ):
        assert (spec.call(), spec.description) == ("pong", "Say pong.")
        assert spec.exec(city="Bonn").error is None or spec.params == {}


@pytest.mark.parametrize(
    "definition",
    [
        {}, None, "weather", [CHAT], FUNCTION, {"function": FUNCTION}, {"type": "custom", "custom": {"name": "x"}},
        {"type": "web_search"}, {"type": "function"}, {"type": "function", "function": "weather"},
        {"type": "function", "function": None}, {"type": "function", "function": {"parameters": PARAMETERS}},
        {"type": "function", "name": 3}, {"type": "function", "function": {**FUNCTION, "name": None}},
    ],
)  # fmt: skip
def test_another_definition_is_an_error_that_shows_the_two_forms(definition: Any) -> None:
    with pytest.raises(DefinitionError, match=r"as in Chat Completions, or .* as in the Responses API"):
        ToolSpec.from_openai(definition, look)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "not empty"), ({"parameters": []}, "input_schema"), ({"parameters": "x"}, "input_schema"),
        ({"parameters": {"type": "string"}}, "object"), ({"description": 3}, "description"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_an_error(change: dict[str, Any], message: str) -> None:
    for definition in ({"type": "function", "function": {**FUNCTION, **change}}, {**RESPONSES, **change}):
        with pytest.raises(DefinitionError, match=message):
            ToolSpec.from_openai(definition, look)


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="tag"):
        ToolSpec.from_openai(CHAT, look, tag="x")  # type: ignore[call-arg]


async def test_async_functions_and_contexts_work_in_a_toolkit() -> None:
    async def tell(city: str, context: ToolContext, **others: Any) -> str:
        return f"{context.session_id}: {city} {others}"

    kit = Toolkit("kit").add(ToolSpec.from_openai(CHAT, tell))
    session = kit.session(session_id="s1")
    assert await session.acall("weather", {"city": "Bonn", "page-size": 2}) == "s1: Bonn {'page-size': 2}"


def test_string_annotations_mean_what_they_mean_at_the_caller() -> None:
    @dataclass
    class Report:
        """What the function below returns."""

        sky: str

    def tell(**arguments: Any) -> Report:
        return Report(sky="blue")

    assert ToolSpec.from_openai(CHAT, tell).output_schema["properties"].keys() == {"sky"}


def test_a_subclass_makes_its_own_kind() -> None:
    class Special(ToolSpec):
        """Another class."""

    assert type(Special.from_openai(CHAT, look)) is Special
