"""Functions whose annotations are strings, because the module says so."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar
from uuid import UUID

from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.schema.signatures.collection import Collection

signature = Collection("future_annotations")

Item = TypeVar("Item")


@signature
def scalars(first: int, second: str = "x", third: float | None = None, *, fourth: bool = False) -> str: ...


@signature
def quoted_twice(value: "list[int]") -> "dict[str, int]": ...


@signature
def containers(
    values: list[int], table: Mapping[str, Sequence[float]], pair: tuple[int, str] = (1, "a")
) -> set[str]: ...


@signature
def optional(value: Optional[int] = None) -> int | None: ...


@signature
def literal(mode: Literal["fast", "slow"] = "fast") -> Literal["done"]: ...


@signature
def text_metadata(value: Annotated[int, "How many."], other: Annotated[str | None, "What else."] = None) -> str: ...


@signature
def field_metadata(value: Annotated[int, Field(ge=1, le=9, description="How many.", title="The Count")]) -> str: ...


@signature
def field_as_default(value: int = Field(3, ge=1, description="How many.")) -> str: ...


@signature
def later_model(person: Person, others: list[Person] | None = None) -> Person: ...


@signature
def later_enum(colour: Colour = "red") -> list[Colour]: ...


@signature
def later_dataclass(point: Point) -> Point: ...


@signature
def later_typed_dict(movie: Movie) -> Movie: ...


@signature
def later_alias(names: Names) -> Names: ...


@signature
def later_recursive(tree: Tree) -> Tree: ...


@signature
def generic(page: Page[Person]) -> Page[int]: ...


@signature
def library_types(moment: datetime, identifier: UUID | None = None) -> datetime: ...


@signature
def untyped(value, other=1): ...


@signature
def partly_typed(first, second: int, third="x") -> None: ...


@signature
def returns_any(value: Any) -> Any: ...


@signature
def returns_none(value: int) -> None: ...


@signature
def returns_bytes(value: int) -> bytes: ...


@signature
def returns_bare_list(value: int) -> list: ...


@signature
def returns_image(value: int) -> Image: ...


@signature
def returns_described(value: int) -> Annotated[int, Field(description="How many.")]: ...


@signature
def returns_iterator(value: int) -> Iterator[Person]:
    yield Person(name=str(value))


@signature
async def returns_async_iterator(value: int) -> AsyncIterator[int]:
    yield value


@signature
async def async_function(value: int) -> dict[str, Person]: ...


@signature
def described_in_docstring(person: Person, limit: Annotated[int, Field(description="From Field.")] = 5) -> str:
    """Look a person up.

    Args:
        person: Who it is.
        limit: From the docstring.
    """


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Person(BaseModel):
    """A person."""

    name: str
    friends: list[Person] = []
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    label: Annotated[str, Field(description="On the map.")] = ""


class Movie(TypedDict):
    title: str
    year: int


class Tree(BaseModel):
    children: list[Tree] = []


class Page(BaseModel, Generic[Item]):
    items: list[Item]


class Desk:
    """A desk with drawers."""

    def put(self, thing: Person, drawer: Annotated[int, "Which drawer."] = 1) -> dict[str, int]: ...

    @classmethod
    def order(cls, width: int) -> str: ...

    @staticmethod
    def measure(point: Point) -> float: ...

    def __call__(self, colour: Colour) -> Colour: ...


Names = list[str]

signature.add("bound_method", Desk().put)
signature.add("bound_class_method", Desk.order)
signature.add("static_method", Desk.measure)
signature.add("instance", Desk())
signature.add("partial", partial(text_metadata, 1))

SIGNATURES = signature.entries
