"""Functions with defaults of every kind, JSON values or not."""

import decimal
import enum
import math
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from tests.schema.signatures.collection import Collection

signature = Collection("defaults")


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Options(BaseModel):
    """How to do it."""

    depth: int = 1
    names: list[str] = Field(default_factory=list)
    size: Size = Size.SMALL
    short: str = Field("x", alias="shortName")


class Limit(BaseModel):
    highest: float = math.inf
    lowest: float = 0.0


@dataclass
class Window:
    """A part of the screen."""

    width: int = 80
    panes: list[str] = field(default_factory=list)


class Point(NamedTuple):
    x: int = 0
    y: int = 0


class Settings(TypedDict, total=False):
    verbose: bool


class Marker:
    """A marker for an absent value; it has no JSON form."""


MISSING = Marker()


@signature
def none(value: int | None = None) -> str: ...


@signature
def none_for_plain_type(value: int = None) -> str: ...


@signature
def none_for_any(value: Any = None) -> str: ...


@signature
def none_for_list(values: list[int] | None = None) -> str: ...


@signature
def none_for_model(options: Options | None = None) -> str: ...


@signature
def numbers(
    whole: int = 3, negative: int = -1, half: float = 0.5, huge: int = 10**30, whole_as_float: float = 1
) -> str: ...


@signature
def switches(on: bool = True, off: bool = False) -> str: ...


@signature
def texts(empty: str = "", word: str = "word", unicode: str = "größe 名前 🎉", quotes: str = "\"'\\\n\t") -> str: ...


@signature
def infinity(value: float = math.inf, low: float = -math.inf) -> str: ...


@signature
def not_a_number(value: float = math.nan, other: int = 1) -> str: ...


@signature
def infinity_in_list(values: list[float] = [0.5, math.inf]) -> str: ...


@signature
def infinity_in_model(limit: Limit) -> Limit: ...


@signature
def list_values(values: list[int] = [1, 2], empty: list[str] = []) -> str: ...


@signature
def dict_values(values: dict[str, int] = {"a": 1}, empty: dict[str, Any] = {}) -> str: ...


@signature
def nested_values(values: dict[str, Any] = {"a": [1, {"b": None}], "c": (1, 2)}) -> str: ...


@signature
def tuple_values(values: tuple[int, str] = (1, "a"), many: tuple[int, ...] = ()) -> str: ...


@signature
def set_values(values: set[int] = {1}, frozen: frozenset[str] = frozenset({"a"})) -> str: ...


@signature
def enum_member(size: Size = Size.LARGE, optional: Size | None = Size.SMALL) -> str: ...


@signature
def enum_value(size: Size = "l") -> str: ...


@signature
def enum_members_in_list(sizes: list[Size] = [Size.SMALL, Size.LARGE]) -> str: ...


@signature
def model_instance(options: Options = Options()) -> str: ...


@signature
def model_instances_in_list(options: list[Options] = [Options(depth=2, shortName="y")]) -> str: ...


@signature
def dict_for_model(options: Options = {"depth": 2}) -> str: ...


@signature
def dataclass_instance(window: Window = Window()) -> str: ...


@signature
def named_tuple_instance(point: Point = Point(1, 2)) -> str: ...


@signature
def typed_dict_value(settings: Settings = {"verbose": True}) -> str: ...


@signature
def moments(
    day: date = date(2024, 2, 29),
    moment: datetime = datetime(2024, 1, 1, 12, tzinfo=timezone.utc),
    span: timedelta = timedelta(minutes=90),
) -> str: ...


@signature
def identifiers(identifier: uuid.UUID = uuid.UUID(int=7)) -> str: ...


@signature
def decimals(price: decimal.Decimal = decimal.Decimal("1.50"), whole: decimal.Decimal = 2) -> str: ...


@signature
def paths(folder: Path = Path("some/folder")) -> str: ...


@signature
def raw_bytes(payload: bytes = b"abc") -> str: ...


@signature
def bytes_that_are_not_text(payload: bytes = b"\xff\xfe") -> str: ...


@signature
def secret(password: SecretStr = SecretStr("hidden")) -> str: ...


@signature
def unserialisable(value: int = MISSING) -> str: ...


@signature
def unserialisable_for_any(value: Any = MISSING, second: int = 2) -> str: ...


@signature
def unserialisable_untyped(value=MISSING) -> str: ...


@signature
def unserialisable_with_description(value: Annotated[int, "A number."] = MISSING) -> str: ...


@signature
def function_as_default(value: Any = math.sqrt) -> str: ...


@signature
def class_as_default(value: Any = Marker) -> str: ...


@signature
def ellipsis_as_default(value: int = ...) -> str: ...


@signature
def wrong_type(value: int = "five", word: str = 5) -> str: ...


@signature
def constraint_broken_by_default(value: Annotated[int, Field(ge=10)] = 1) -> str: ...


@signature
def factory(values: Annotated[list[int], Field(default_factory=lambda: [1])], other: int = 2) -> str: ...


SIGNATURES = signature.entries
