"""Callables that are not plain functions: methods, instances, partials, wrapped and async functions."""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field, validate_call

from tests.schema.signatures.collection import Collection

signature = Collection("callables")

Item = TypeVar("Item")


class Shop:
    """A shop with methods of every kind."""

    def buy(self, article: str, amount: int = 1) -> dict[str, int]:
        """Buy something.

        Args:
            article: What to buy.
            amount: How many.
        """

    async def ask(self, question: Annotated[str, "What to ask."]) -> str:
        """Ask the owner."""

    @classmethod
    def opened(cls, year: int) -> "Shop":
        """Open a shop."""

    @classmethod
    def count(cls, city: str) -> int:
        """Count the shops of a city."""

    @staticmethod
    def convert(price: float, currency: str = "EUR") -> float:
        """Convert a price."""

    def __call__(self, offer: float) -> bool:
        """Make an offer.

        Args:
            offer: In the shop's currency.
        """


class AsyncWorker:
    """Works while others wait."""

    async def __call__(self, job: str, hours: int = 8) -> list[str]: ...


class NoDocumentation:
    def __call__(self, value: int) -> int:
        """Do it."""


class StaticCall:
    """Calls without self."""

    @staticmethod
    def __call__(value: int) -> int: ...


class Unhashable:
    """Cannot be a key."""

    __hash__ = None

    def __call__(self, value: int) -> int: ...


@dataclass
class Adder:
    """Adds a number.

    Args:
        number: What is added each time.
    """

    number: int = 1

    def __call__(self, number: int, other: int = 2) -> int: ...

    def add(self, other: int) -> int: ...


class Model(BaseModel):
    """A model with methods."""

    value: int = 0

    def shift(self, by: int) -> "Model":
        """Move the value."""

    @classmethod
    def parse_text(cls, text: str) -> dict[str, int]: ...


class Stack(Generic[Item]):
    """Things on top of each other."""

    def push(self, item: Item, times: int = 1) -> int: ...

    def pop_all(self) -> list[Item]: ...


class Numbers(Stack[int]):
    """Numbers on top of each other."""


def wrapped_as_is(function: Any) -> Any:
    """Wrap a function and keep its looks."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def three(first: int, second: str, third: float = 0.5) -> str:
    """Take three.

    Args:
        first: The first one.
        second: The second one.
        third: The third one.
    """


def renamed(function: Any, name: str) -> Any:
    """Rename a function."""
    function.__name__ = name
    return function


def overridden_annotations(value: int) -> int: ...


overridden_annotations.__annotations__ = {"value": list[str], "return": dict[str, int]}


shop = Shop()
named_partial = functools.partial(three, 1)
named_partial.__name__ = "named_partial"
documented_partial = functools.partial(three, 1)
documented_partial.__doc__ = "Take two.\n\nArgs:\n    second: What is left.\n"


@signature
async def async_function(value: int, other: str = "x") -> dict[str, int]: ...


@signature
@wrapped_as_is
def wrapped(value: int, other: Annotated[str, "Something else."] = "x") -> list[int]: ...


@signature
@validate_call
def validated(value: Annotated[int, Field(ge=1)]) -> int: ...


signature.add("bound_method", shop.buy)
signature.add("async_bound_method", shop.ask)
signature.add("bound_class_method", Shop.count)
signature.add("class_method_of_instance", shop.count)
signature.add("static_method", Shop.convert)
signature.add("raw_static_method", Shop.__dict__["convert"])
signature.add("class_method_returning_its_class", Shop.opened)
signature.add("instance", shop)
signature.add("async_instance", AsyncWorker())
signature.add("instance_without_class_documentation", NoDocumentation())
signature.add("instance_with_static_call", StaticCall())
signature.add("unhashable_instance", Unhashable())
signature.add("dataclass_instance", Adder())
signature.add("method_of_dataclass", Adder().add)
signature.add("method_of_model", Model().shift)
signature.add("class_method_of_model", Model.parse_text)
signature.add("method_of_generic_class", Stack[int]().push)
signature.add("method_returning_type_variable", Stack[int]().pop_all)
signature.add("method_of_parametrised_subclass", Numbers().push)
signature.add("dunder_call", shop.__call__)
signature.add("partial_with_one", functools.partial(three, 1))
signature.add("partial_with_two", functools.partial(three, 1, "two"))
signature.add("partial_with_all", functools.partial(three, 1, "two", 3.0))
signature.add("partial_of_partial", functools.partial(functools.partial(three, 1), "two"))
signature.add("partial_of_method", functools.partial(shop.buy, "bread"))
signature.add("named_partial", named_partial)
signature.add("documented_partial", documented_partial)
signature.add("partial_with_keyword", functools.partial(three, second="two"))
signature.add("partial_with_keyword_for_default", functools.partial(three, third=1.5))
signature.add("partial_with_both", functools.partial(three, 1, third=1.5))
signature.add("partial_of_async", functools.partial(async_function, 1))
signature.add("named_lambda", renamed(lambda value, other=1: value, "double"))
signature.add("overridden_annotations", overridden_annotations)

SIGNATURES = signature.entries
