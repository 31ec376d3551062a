"""The tools that every SDK has to carry: one of each kind of schema, and tools that succeed, fail and paint."""

from __future__ import annotations

import base64
import enum
from typing import Annotated, Any, Literal

import pydantic
from mcp_types import ImageContent

from ahvn_tools import ToolDefinition, ToolError, ToolSpec

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n one pixel").decode()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(pydantic.BaseModel):
    street: str
    zip_code: Annotated[str, pydantic.Field(pattern=r"^\d+$")] = "00000"


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: Annotated[int, pydantic.Field(ge=0, lt=10)] = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


def ping() -> str:
    return "pong"


def ship(to: Address, weight: Annotated[float, pydantic.Field(gt=0)] = 1.5, note: str | None = None) -> str:
    """Ship a parcel.

    Args:
        to: Where it goes.
        note: What is written on it.
    """
    return f"{to.street} {weight} {note}"


def plant(tree: Tree) -> int:
    """Plant a tree with all its branches."""
    return len(tree.children)


def feed(pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], times: tuple[int, int] = (1, 2)) -> str:
    """Feed a pet."""
    return pet.kind + str(times)


def store(pairs: dict[str, int], anything: Any = None) -> int:
    """Store pairs."""
    return len(pairs)


def paint(colour: Colour, tags: set[str] = frozenset(), when: Literal["now", "later"] = "now") -> str:
    """Paint it."""
    return colour.value + when


NAMED = ToolDefinition(
    name="find.it/ü",
    description="Find it.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"id": {"type": "integer", "exclusiveMinimum": 0}, "name": {"$ref": "#/definitions/Name"}},
        "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
        "definitions": {"Name": {"type": "string", "minLength": 1}},
    },
    output_schema={"type": "object", "properties": {"found": {"type": "boolean"}}, "required": ["found"]},
    annotations={"readOnlyHint": True},
    examples=[{"inputs": {"id": 3}}],
)

DEFINITIONS = [
    *(ToolSpec.from_function(function).definition for function in (ping, ship, plant, feed, store, paint)),
    NAMED,
]


def forecast(city: str, user: str, days: int = 1) -> str:
    """Get the weather of the next days.

    Args:
        city: Where.
        days: For how long.
    """
    return f"{user}: {days} days of rain in {city}"


def sink(city: str, user: str) -> str:
    """Fail always."""
    raise ToolError(f"There is no {city} for {user}.")


def draw(city: str, user: str) -> ImageContent:
    """Draw a city."""
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def spec_of(function: Any) -> ToolSpec:
    """Return a tool with a name that no provider accepts and with a bound user."""
    return ToolSpec.from_function(function, name=f"city.{function.__name__}").bind("user", default="Ann")
