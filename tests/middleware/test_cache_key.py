"""Cache keys: equal values have the same digest, different values another, and some values none."""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretBytes, SecretStr

from ahvn_tools.middleware.cache import UncacheableValueError, keyed_digest

KEY = b"k" * 32


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class User(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    token: SecretStr = Field(default=SecretStr(""), exclude=True)
    _seen: int = PrivateAttr(0)


@dataclass
class Point:
    x: Any
    y: Any = 0


@dataclass
class Other(Point): ...


@dataclass(slots=True)
class Slotted:
    x: int


def seen(times: int) -> User:
    user = User(name="ann")
    user._seen = times
    return user


hollow = Point(1)
del hollow.x


class MoreThanFields(Point):
    """A record with state that is no field."""

    __slots__ = ("__owner",)

    def __init__(self, owner: str) -> None:
        super().__init__(1)
        self.__owner = owner


def more_than_fields(owner: str) -> MoreThanFields:
    return MoreThanFields(owner)


def one_of_a_kind(base: type) -> Any:
    """Return an equal value of another class of the same name."""
    if base is Colour:

        class Shade(enum.Enum):
            RED = 1

        return Shade.RED
    if base is User:

        class Person(BaseModel):
            name: str

        return Person(name="ann")

    @dataclass
    class Place:
        x: int

    return Place(1)


APART = [
    None, True, False, 0, 1, 1.0, -0.0, 0.0, "1", b"1", "", "\ud800", [], (), {}, set(), frozenset(), [1], (1,), {1},
    frozenset({1}), [[1], 2], [1, [2]], ["a", "b"], ["a,b"], ["a", "'b"], {"a": 1}, {"a": "1"}, {1: "a"}, {True: "a"},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, Decimal(1), Decimal("1.0"), UUID(int=1), date(2026, 1, 1), datetime(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Vienna")), timedelta(1),
    PurePosixPath("a"), Colour.RED, Colour.BLUE, SecretStr("one"), SecretStr("two"), SecretBytes(b"one"),
    User(name="ann"), User(name="bob"), User(name="ann", token=SecretStr("t")), User(name="ann", more=1), seen(1),
    Point(1), Point(1, 1), Other(1), Point([1]), Slotted(1), Slotted(2), hollow,
    more_than_fields("a"), more_than_fields("b"), one_of_a_kind(Point), one_of_a_kind(Point), one_of_a_kind(User),
    one_of_a_kind(User), one_of_a_kind(Colour), one_of_a_kind(Colour),
]  # fmt: skip


def test_different_values_have_different_digests():
    digests = [keyed_digest(value, KEY) for value in APART]
    assert len(set(digests)) == len(digests)


def test_a_copy_has_the_digest_of_its_original():
    for value in APART:
        assert keyed_digest(copy.deepcopy(value), KEY) == keyed_digest(value, KEY)


def test_instances_of_one_local_class_have_one_digest():
    place = one_of_a_kind(Point)
    assert keyed_digest(type(place)(1), KEY) == keyed_digest(place, KEY) != keyed_digest(type(place)(2), KEY)


def test_another_key_gives_other_digests():
    assert keyed_digest("a", KEY) != keyed_digest("a", b"x" * 32)


class Text(str):  # noqa: SLOT000  # it is about what may be in it
    """A text that may hold more than one."""


class Zone(tzinfo):
    """A time zone that says nothing of itself."""


circle: list[Any] = []
circle.append(circle)


@dataclass
class Rows(dict):
    """A record of a built-in type, whose content is no attribute."""

    x: int


OPAQUE = [
    object(), Text("a"), [object()], {"a": print}, {object(): 1}, circle, 10**5000, Point, Point(object()),
    datetime(2026, 1, 1, tzinfo=Zone()), Rows(1),
]  # fmt: skip


@pytest.mark.parametrize("value", OPAQUE, ids=lambda value: type(value).__name__)
def test_a_value_without_a_reliable_identity_has_no_digest(value):
    with pytest.raises(UncacheableValueError):
        keyed_digest(value, KEY)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("a',:()", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a',=", max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON)
def test_digests_are_equal_if_and_only_if_json_texts_are(one, other):
    assert (keyed_digest(one, KEY) == keyed_digest(other, KEY)) == (repr(one) == repr(other))
