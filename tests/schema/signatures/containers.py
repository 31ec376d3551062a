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
def list_typing(values: List[str]) -> List[float]: ...


@signature
def list_of_any(values: list[Any]) -> dict[str, list[Any]]: ...


@signature
def set_typing(values: Set[int], frozen: FrozenSet[str] = frozenset()) -> FrozenSet[int]: ...


@signature
def abstract_set(values: AbstractSet[int], others: MutableSet[str]) -> None: ...


@signature
def bare_tuple(values: tuple) -> dict[str, Any]: ...


@signature
def tuple_typing(values: Tuple[int, float, str] = (1, 2.0, "three")) -> Tuple[bool, ...]: ...


@signature
def dict_of_dicts(values: dict[str, list[dict[str, int]]]) -> dict[str, dict[str, float]]: ...


@signature
def mapping(values: Mapping[str, int], others: MutableMapping[str, bool]) -> Mapping[str, float]: ...


@signature
def default_dict(values: defaultdict[str, list[int]]) -> defaultdict[str, int]: ...


@signature
def sequence(values: Sequence[int], others: MutableSequence[str]) -> Sequence[str]: ...


@signature
def iterable(values: Iterable[str]) -> int: ...


signature.echoes(
    list_of_int=list[int],
    list_of_optional=list[int | None],
    list_of_lists=list[list[float]],
    bare_set=set,
    set_of_text=set[str],
    fixed_tuple=tuple[int, str],
    variadic_tuple=tuple[int, ...],
    empty_tuple=tuple[()],
    bare_dict=dict,
    dict_of_int=dict[str, int],
    dict_of_any=Dict[str, Any],
    dict_with_int_keys=dict[int, str],
    dict_with_enum_keys=dict[Axis, float],
    ordered_dict=OrderedDict[str, int],
    counter=Counter[str],
    double_ended_queue=deque[int],
    named_tuple=Position,
    list_of_named_tuples=list[Position],
    untyped_named_tuple=Pair,
)


signature.taking(
    list_with_lengths=Annotated[list[int], Field(min_length=1, max_length=3)],
    dict_with_literal_keys=dict[Literal["a", "b"], int],
    dict_with_pattern_keys=dict[Annotated[str, Field(pattern="^x-")], int],
)

SIGNATURES = signature.entries
