"""Functions over containers of every kind."""

import collections
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Annotated, Any, Dict, FrozenSet, List, Literal, NamedTuple, Set, Tuple

from pydantic import Field

from tests.schema.signatures.collection import Collection

signature = Collection("containers")


class Axis(Enum):
    """A direction."""

    X = "x"
    Y = "y"


class Position(NamedTuple):
    """A place on a map."""

    latitude: float
    longitude: float = 0.0
    label: str | None = None


Pair = collections.namedtuple("Pair", ["left", "right"])


@signature
def bare_list(values: list) -> dict: ...


@signature
def list_of_int(values: list[int]) -> list[int]: ...


@signature
def list_typing(values: List[str]) -> List[float]: ...


@signature
def list_of_any(values: list[Any]) -> dict[str, list[Any]]: ...


@signature
def list_of_optional(values: list[int | None]) -> list[int | None]: ...


@signature
def list_of_lists(values: list[list[float]]) -> list[list[float]]: ...


@signature
def list_with_lengths(values: Annotated[list[int], Field(min_length=1, max_length=3)]) -> None: ...


@signature
def bare_set(values: set) -> set: ...


@signature
def set_of_text(values: set[str]) -> set[str]: ...


@signature
def set_typing(values: Set[int], frozen: FrozenSet[str] = frozenset()) -> FrozenSet[int]: ...


@signature
def abstract_set(values: AbstractSet[int], others: MutableSet[str]) -> None: ...


@signature
def bare_tuple(values: tuple) -> dict[str, Any]: ...


@signature
def fixed_tuple(values: tuple[int, str]) -> tuple[int, str]: ...


@signature
def variadic_tuple(values: tuple[int, ...]) -> tuple[int, ...]: ...


@signature
def empty_tuple(values: tuple[()]) -> tuple[()]: ...


@signature
def tuple_typing(values: Tuple[int, float, str] = (1, 2.0, "three")) -> Tuple[bool, ...]: ...


@signature
def bare_dict(values: dict) -> dict: ...


@signature
def dict_of_int(values: dict[str, int]) -> dict[str, int]: ...


@signature
def dict_of_any(values: Dict[str, Any]) -> Dict[str, Any]: ...


@signature
def dict_with_int_keys(values: dict[int, str]) -> dict[int, str]: ...


@signature
def dict_with_enum_keys(values: dict[Axis, float]) -> dict[Axis, float]: ...


@signature
def dict_with_literal_keys(values: dict[Literal["a", "b"], int]) -> None: ...


@signature
def dict_with_pattern_keys(values: dict[Annotated[str, Field(pattern="^x-")], int]) -> None: ...


@signature
def dict_of_dicts(values: dict[str, list[dict[str, int]]]) -> dict[str, dict[str, float]]: ...


@signature
def mapping(values: Mapping[str, int], others: MutableMapping[str, bool]) -> Mapping[str, float]: ...


@signature
def ordered_dict(values: OrderedDict[str, int]) -> OrderedDict[str, int]: ...


@signature
def default_dict(values: defaultdict[str, list[int]]) -> defaultdict[str, int]: ...


@signature
def counter(values: Counter[str]) -> Counter[str]: ...


@signature
def sequence(values: Sequence[int], others: MutableSequence[str]) -> Sequence[str]: ...


@signature
def iterable(values: Iterable[str]) -> int: ...


@signature
def double_ended_queue(values: deque[int]) -> deque[int]: ...


@signature
def named_tuple(position: Position) -> Position: ...


@signature
def list_of_named_tuples(positions: list[Position]) -> list[Position]: ...


@signature
def untyped_named_tuple(pair: Pair) -> Pair: ...


SIGNATURES = signature.entries
