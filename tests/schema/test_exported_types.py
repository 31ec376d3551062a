"""What a schema allows, the tool accepts: for many types, values that match the exported schema are taken."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import re
import uuid
from typing import Annotated, Any, Literal, NamedTuple, Optional

import jsonschema_rs
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    Strict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    with_config,
)  # fmt: skip
from typing_extensions import TypedDict

from ahvn_tools import ToolSpec

STRICT = ConfigDict(strict=True)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.Enum):
    SMALL = (1, 2)
    LARGE = (3, 4)


class Day(enum.Enum):
    FIRST = dt.date(2020, 1, 1)
    PRICE = decimal.Decimal("1.5")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class Flag(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    day: dt.date


class StrictModel(BaseModel):
    model_config = STRICT
    day: dt.date
    moment: dt.datetime
    hour: dt.time
    span: dt.timedelta
    key: uuid.UUID
    pair: tuple[int, str]
    names: set[str]
    frozen: frozenset[int]
    color: Color
    price: decimal.Decimal
    path: pathlib.Path
    url: AnyUrl
    address: ipaddress.IPv4Address
    data: bytes
    counts: dict[int, str]
    by_color: dict[Color, int]
    either: int | dt.date
    maybe: Optional[uuid.UUID] = None
    inner: Optional["StrictModel"] = None


@dataclasses.dataclass
class Plain:
    day: dt.date


class Holder(BaseModel):
    model_config = STRICT
    plain: Plain
    color: Literal[Color.RED]


@with_config(STRICT)
class StrictDict(TypedDict):
    day: dt.date


class Aliases(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: int = Field(validation_alias=AliasPath("a", "b"))
    choice: int = Field(validation_alias=AliasChoices("first", "second"))
    paths: int = Field(validation_alias=AliasChoices(AliasPath("c", 0), AliasPath("c", "d")))


STRICT_VALUES: dict[str, Any] = {
    "day": "2020-01-01", "moment": "2020-01-01T00:00:00Z", "hour": "10:00:00", "span": "P1D",
    "key": "12345678-1234-5678-1234-567812345678", "pair": [1, "a"], "names": ["a"], "frozen": [1], "color": "red",
    "price": "1.5", "path": "a", "url": "https://a.example/", "address": "10.0.0.1", "data": "a", "counts": {"1": "a"},
    "by_color": {"red": 1}, "either": "2020-01-01", "maybe": "12345678-1234-5678-1234-567812345678",
}  # fmt: skip

SAMPLES: dict[str, Any] = {
    "date": "2020-01-01", "date-time": "2020-01-01T00:00:00Z", "time": "10:00:00", "duration": "P1D", "binary": "a",
    "uuid": "12345678-1234-5678-1234-567812345678", "uri": "https://a.example/", "ipv4": "10.0.0.1", "path": "a",
    "regex": "a+", "password": "secret", "email": "a@b.example",
}  # fmt: skip


def _generate(node: Any, root: dict[str, Any]) -> list[Any]:
    """Return values that match a schema: each choice, each alternative, and objects with all and with no options."""
    if "$ref" in node:
        return _generate(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    for keyword in ("anyOf", "oneOf"):
        if keyword in node:
            return [value for branch in node[keyword] for value in _generate(branch, root)]
    if "enum" in node or "const" in node:
        return list(node.get("enum", [node.get("const")]))
    if node.get("type") == "object":
        return _generate_objects(node, root)
    if node.get("type") == "array":
        items = [*node.get("prefixItems", ()), *([node["items"]] if "items" in node else ())]
        return [[_generate(item, root)[0] for item in items]]
    scalars: dict[Any, list[Any]] = {
        "integer": [node.get("minimum", 1)], "number": [1.5, 2], "boolean": [True, False], "null": [None],
    }  # fmt: skip
    return scalars.get(node.get("type"), [SAMPLES.get(node.get("format"), "1")])


def _generate_objects(node: Any, root: dict[str, Any]) -> list[Any]:
    if "properties" not in node:
        (key, *_), value = _generate(node.get("propertyNames", {}), root), node.get("additionalProperties", True)
        return [{}] if value is True else [{key: _generate(value, root)[0]}]
    members = {name: _generate(child, root) for name, child in node["properties"].items()}
    full = {name: values[0] for name, values in members.items()}
    return [
        full,
        {name: full[name] for name in node.get("required", ())},
        *({**full, name: value} for name, values in members.items() for value in values[1:]),
    ]


TYPES: list[Any] = [
    int, float, str, bool, bytes, dict[str, Any], list[int], set[str], tuple[int, str], tuple[int, ...], Any,
    dt.date, dt.datetime, dt.time, dt.timedelta, uuid.UUID, decimal.Decimal, pathlib.Path, AnyUrl, re.Pattern,
    ipaddress.IPv4Address, SecretStr, Color, Size, Day, Level, Word, Flag, Literal[Color.RED], Literal[Level.LOW],
    Literal[Color.BLUE, "x", 3, None, True], Literal[b"x"], Literal[Size.SMALL, 1], Literal[1, 2, 3], Point, Plain,
    list[Size], dict[str, Literal[Color.RED]], Optional[Size], Size | Color, Holder, StrictDict, Aliases, list[Aliases],
    Annotated[dt.date, Strict()], Annotated[uuid.UUID, Strict()], Annotated[tuple[int, int], Strict()],
    Annotated[Color, Strict()], Annotated[Size, Strict()], Annotated[set[int], Strict()], StrictInt, StrictFloat,
    StrictStr, StrictBool, dict[Color, int], dict[Annotated[int, Strict()], str],
]  # fmt: skip


def _tool(annotation: Any) -> ToolSpec:
    def take(value: Any) -> str:
        """Take a value."""
        return type(value).__name__

    take.__annotations__["value"] = annotation
    return ToolSpec.from_function(take)


@pytest.mark.parametrize("annotation", TYPES, ids=str)
def test_what_is_exported_is_accepted(annotation):
    spec = _tool(annotation)
    schema = spec.definition.input_schema
    validator = jsonschema_rs.validator_for(schema)
    for value in _generate(schema["properties"]["value"], schema):
        assert validator.is_valid({"value": value}), value
        result = spec.exec(value=value)
        assert not result.is_error, (value, result.text)


def test_a_strict_model_takes_json():
    assert _tool(StrictModel)(value={**STRICT_VALUES, "inner": STRICT_VALUES}) == "StrictModel"


def test_a_strict_model_is_strict_about_json():
    text = _tool(StrictModel).exec(value={**STRICT_VALUES, "pair": ["1", "a"]}).text
    assert text == "Invalid arguments: 'value.pair[0]' should be a valid integer."


def test_a_strict_model_takes_the_python_values_of_its_fields():
    values = {**STRICT_VALUES, "day": dt.date(2020, 1, 1), "color": Color.RED, "pair": (1, "a")}
    assert _tool(StrictModel)(value=values) == "StrictModel"


def test_the_members_of_enums_and_literals_reach_the_body():
    def take(size: Size, color: Literal[Color.RED], raw: Literal[b"x"]) -> str:
        """Take values."""
        return f"{size!r} {color!r} {raw!r}"

    expected = "<Size.SMALL: (1, 2)> <Color.RED: 'red'> b'x'"
    spec = ToolSpec.from_function(take)
    assert spec(size=[1, 2], color="red", raw="x") == expected
    assert spec(size=Size.SMALL, color=Color.RED, raw=b"x") == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Literal[Color.RED, "x", 3], "'red', 'x' or 3"),
        (Size, "[1, 2] or [3, 4]"),
        (Day, "'2020-01-01' or '1.5'"),
        (Literal[b"x"], "'x'"),
    ],
)
def test_a_refusal_lists_the_values_as_json(annotation, expected):
    assert _tool(annotation).exec(value="nothing").text == f"Invalid arguments: 'value' should be {expected}."


def test_a_number_as_text_is_taken_for_a_literal():
    def take(level: Literal[1, 2, 3], kind: Level, switch: Literal[True], text: Literal["1"]) -> list[Any]:
        """Take values."""
        return [level, kind, switch, text]

    assert ToolSpec.from_function(take)(level="2", kind="1", switch="true", text="1") == [2, 1, True, "1"]


def test_a_parameter_with_several_aliases_has_its_own_name():
    def take(
        city: Annotated[str, Field(validation_alias=AliasChoices("place", "town"))],
        day: Annotated[int, Field(validation_alias=AliasPath("when", "day"))],
    ) -> str:
        """Take values."""
        return f"{city} {day}"

    spec = ToolSpec.from_function(take)
    assert list(spec.definition.input_schema["properties"]) == ["city", "day"]
    assert spec(city="Paris", day=3) == "Paris 3"
