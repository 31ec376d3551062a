"""What FastMCP refuses, whether or not we do, and what it should refuse but does not."""

import functools
import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, Field

from tests.schema.signatures.collection import Collection

signature = Collection("refused")


class Database:
    """A connection; nothing a model could send."""


class Worker:
    """Works while others wait."""

    async def __call__(self, job: str, hours: int = 8) -> list[str]: ...

    def rest(self, hours: int) -> str: ...


def local_types() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Make functions whose annotations name what only this function knows."""

    class Order(BaseModel):
        article: str
        amount: int = 1

    def annotated_by_name(order: "Order", others: "list[Order] | None" = None) -> "Order":
        return Order(article=order.article)

    def annotated_by_object(order: Order) -> "list[Order]":
        return [Order(article=order.article)]

    return annotated_by_name, annotated_by_object


by_name, by_object = local_types()


@signature
def positional_only(first: int, second: str = "x", /) -> str: ...


@signature
def positional_only_and_others(first: int, /, second: int, *, third: int = 3) -> str: ...


@signature
def var_positional(first: int, *others: int) -> str: ...


@signature
def only_var_positional(*values: str) -> str: ...


@signature
def var_keyword(first: int, **others: float) -> str: ...


@signature
def everything(first: int, /, second: str, *others: int, third: bool = False, **more: str) -> str:
    """Take everything there is.

    Args:
        first: The first one.
        second: The second one.
        *others: The other ones.
        third: The third one.
        **more: Some more.
    """


@signature
def untyped_var(*args, **kwargs): ...


@signature
@functools.lru_cache
def cached(value: int, other: str = "x") -> int:
    """Remember what came out.

    Args:
        value: What goes in.
    """


@signature
def required_after_field_default(value: int = Field(1), other: str = Field(description="Needed.")) -> str: ...


@signature
def returns_function(value: int) -> Callable[[int], int]: ...


@signature
def returns_class(value: int) -> type: ...


@signature
def unhashable_metadata(value: int) -> Annotated[dict[str, int], {"unit": "m"}]: ...


@signature
def unhashable_metadata_inside(value: int) -> list[Annotated[int, {"unit": "m"}]]: ...


@signature
def object_parameter(query: str, database: Database) -> list[str]:
    """Ask the database.

    Args:
        query: What to ask.
        database: Who to ask.
    """


@signature
def optional_object_parameter(query: str, database: Database | None = None) -> str: ...


@signature
def function_parameter(value: int, callback: Callable[[int], int]) -> int: ...


@signature
def byte_array_parameter(value: bytearray) -> int: ...


@signature
def mixed_tuple_parameter(values: tuple[int, *tuple[str, ...]]) -> None: ...


@signature
def unknown_name(value: "Nowhere") -> int: ...  # noqa: F821  # an undefined name is the case


@signature
def unknown_name_inside(values: "list[Nowhere]", other: int = 1) -> int: ...  # noqa: F821  # as above


signature.add("partial_of_instance", functools.partial(Worker(), "dig"))
signature.add("builtin", math.sqrt)
signature.add("builtin_with_two", math.pow)
signature.add("local_type_by_name", by_name)
signature.add("local_type_by_object", by_object)

SIGNATURES = signature.entries

WRONGLY_ACCEPTED: dict[str, Callable[..., Any]] = {"a class": Worker, "an unbound method": Worker.rest}
"""FastMCP makes a tool of these that wants `self` from the model."""
