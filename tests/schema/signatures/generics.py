"""Functions over generic models, generic dataclasses and generic aliases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict
from typing_extensions import TypeVar as TypeVarWithDefault

from tests.schema.signatures.collection import Collection

signature = Collection("generics")

Item = TypeVar("Item")
Key = TypeVar("Key", bound=str)
Fallback = TypeVarWithDefault("Fallback", default=int)


class Product(BaseModel):
    label: str


class Page(BaseModel, Generic[Item]):
    """Some of many."""

    items: list[Item]
    total: int = Field(0, ge=0)


class Response(BaseModel, Generic[Key, Item]):
    key: Key
    data: Optional[Item] = None


class WithFallback(BaseModel, Generic[Fallback]):
    value: Fallback


class ProductPage(Page[Product]):
    shop: str = ""


@dataclass
class Box(Generic[Item]):
    content: Item


class Labelled(TypedDict, Generic[Item]):
    label: str
    value: Item


PairOf = TypeAliasType("PairOf", tuple[Item, Item], type_params=(Item,))


@signature
def pages_of_two_kinds(numbers: Page[int], words: Page[str]) -> Page[int] | Page[str]: ...


@signature
def nested_generics(response: Response[str, Page[Product]]) -> Response[str, list[Page[int]]]: ...


@signature
def type_variable_default(value: WithFallback, text: WithFallback[str]) -> WithFallback: ...


@signature
def generic_dataclass(box: Box[int]) -> Box[list[str]]: ...


@signature
def generic_typed_dict(value: Labelled[int]) -> Labelled[Product]: ...


@signature
def generic_alias(pair: PairOf[int]) -> PairOf[str]: ...


@signature
def generic_function(items: Sequence[Item], fallback: Item) -> Item: ...


@signature
def generic_function_with_bound(key: Key, items: dict[Key, Item]) -> dict[Key, Item]: ...


signature.echoes(
    page_of_int=Page[int],
    page_of_models=Page[Product],
    page_without_item=Page,
    derived_from_generic=ProductPage,
)

SIGNATURES = signature.entries
