"""Tags of unions: required and never nullable in each export, because a value without its tag is refused."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Discriminator, Field, Tag

from ahvn_tools import ToolSpec, formats

STRICT_FORMATS = ("openai", "openai-responses", "mistral", "anthropic", "bedrock")


class Kind(enum.Enum):
    BIRD = "bird"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog", "puppy"] = "dog"
    lives: int = 1


class Bird(BaseModel):
    kind: Literal[Kind.BIRD] = Kind.BIRD
    lives: int = 1


Pet = Annotated[Union[Cat, Dog, Bird], Field(discriminator="kind")]


class Owner(BaseModel):
    pets: list[Pet] = []
    best: Optional[Pet] = None


def _kind_of(value: Any) -> Any:
    return value.get("kind", "cat") if isinstance(value, dict) else value.kind


ByFunction = Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(_kind_of)]


def one(pet: Pet) -> str:
    """Name a pet."""
    return repr(pet)


def many(pets: list[Pet]) -> str:
    """Name pets."""
    return repr(pets)


def optional(pet: Pet | None = None) -> str:
    """Name a pet."""
    return repr(pet)


def nested(owner: Owner) -> str:
    """Name an owner."""
    return repr(owner)


def by_function(pet: ByFunction) -> str:
    """Name a pet."""
    return repr(pet)


DOCUMENT = {
    "type": "object",
    "properties": {
        "pet": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind, "default": kind}, "lives": {"type": "integer"}},
                }
                for kind in ("cat", "dog")
            ],
        }
    },
    "required": ["pet"],
}


def _objects_with_tags(value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if isinstance(value, dict):
        found = [value] if "kind" in value.get("properties", {}) else []
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [each for child in children for each in _objects_with_tags(child)]


TOOLS = [
    *map(ToolSpec.from_function, (one, many, optional, nested, by_function)),
    ToolSpec.from_schema("document", DOCUMENT, lambda **arguments: arguments),
]


@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("name", STRICT_FORMATS)
@pytest.mark.parametrize("strict", [True, False])
def test_each_export_requires_tags_that_are_not_null(spec, name, strict):
    (tool,) = formats.get(name).export([spec.definition], strict=strict)
    nodes = _objects_with_tags(tool)
    assert nodes
    for node in nodes:
        assert "kind" in node["required"]
        assert "null" not in json.dumps(node["properties"]["kind"])
        assert "Default" not in json.dumps(node["properties"]["kind"])


@pytest.mark.parametrize("spec", TOOLS[:-1], ids=lambda spec: spec.name)
def test_the_schema_of_a_function_requires_its_tags(spec):
    for node in _objects_with_tags(spec.definition.input_schema):
        assert "kind" in node["required"]
        assert "default" not in node["properties"]["kind"]


@pytest.mark.parametrize("pet", [{"lives": 2}, {"kind": None, "lives": 2}, {"kind": "fish"}])
def test_the_error_lists_the_tags(pet):
    text = ToolSpec.from_function(one).exec(pet=pet).text
    assert text == "Invalid arguments: 'pet' has no known tag 'kind'; expected 'cat', 'dog', 'puppy' or 'bird'."


def test_a_tag_that_is_a_member_of_an_enum_is_sent_as_its_value():
    assert ToolSpec.from_function(one)(pet={"kind": "bird"}) == "Bird(kind=<Kind.BIRD: 'bird'>, lives=1)"


def test_a_null_for_a_tag_that_a_function_defaults_means_absent():
    assert ToolSpec.from_function(by_function)(pet={"kind": None, "lives": 2}) == "Cat(kind='cat', lives=2)"


@pytest.mark.parametrize("name", STRICT_FORMATS)
def test_a_description_says_that_null_is_not_the_default(name):
    def search(limit: int | None = 10, offset: int = 0, order: Optional[str] = None) -> list[Any]:
        """Search."""
        return [limit, offset, order]

    spec = ToolSpec.from_function(search)
    (tool,) = formats.get(name).export([spec.definition], strict=True)
    texts = json.dumps(tool)
    assert texts.count("Default: 10. null means none, not the default.") == 1
    assert texts.count("null means") == 1
    assert spec(limit=None, offset=None, order=None) == [None, 0, None]
