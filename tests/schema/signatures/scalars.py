"""Functions over JSON scalars, unions of them and literals."""

from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NewType, Optional, TypeVar, Union

from tests.schema.signatures.collection import Collection

signature = Collection("scalars")

UserId = NewType("UserId", int)
Anything = TypeVar("Anything")
Bounded = TypeVar("Bounded", bound=int)
Constrained = TypeVar("Constrained", str, int)
Colour = Literal["red", "green"]
Shade = Literal[Colour, "blue"]


@signature
def no_parameters() -> None: ...


@signature
def text(value: str) -> str: ...


@signature
def number(value: float) -> float: ...


@signature
def null(value: None) -> None: ...


@signature
def several(first: int, second: str, third: float, fourth: bool = True) -> str: ...


@signature
def out_of_alphabet(zebra: int, apple: str, mango: float = 0.5, banana: bool = False) -> str: ...


@signature
def optional_with_default(value: Optional[str] = None) -> Optional[str]: ...


@signature
def optional_with_value(value: Optional[int] = 3) -> None: ...


@signature
def union_typing(value: Union[int, float, bool, None] = None) -> Union[str, float]: ...


@signature
def union_of_everything(value: int | str | list[int] | dict[str, int] | None = None) -> int | list[str]: ...


@signature
def literal_texts(value: Literal["fast", "slow"]) -> Literal["done", "failed"]: ...


@signature
def literal_single(value: Literal["only"]) -> Literal[7]: ...


@signature
def literal_mixed(value: Literal["a", 1, True, None]) -> Literal["a", 1, None]: ...


@signature
def literal_with_default(value: Literal[1, 2, 3] = 2) -> None: ...


@signature
def literal_nested(value: Shade = "blue") -> Shade: ...


@signature
def raw_bytes(value: bytes) -> str: ...


@signature
def raw_bytes_or_text(value: bytes | str = b"raw") -> str: ...


@signature
def constrained_type_variable(value: Constrained) -> list[Constrained]: ...


signature.echoes(
    whole=int,
    switch=bool,
    anything=Any,
    any_object=object,
    optional_bar=int | None,
    union_bar=int | str,
    new_type=UserId,
    decimal=Decimal,
    fraction=Fraction,
    complex_number=complex,
    free_type_variable=Anything,
    bound_type_variable=Bounded,
)

SIGNATURES = signature.entries
