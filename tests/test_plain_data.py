"""Plain data: members, attributes and texts that no code of a foreign class makes."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from ahvn_tools.plain_data import has_plain_attribute, plain_attributes, plain_members, plain_text


class Model(BaseModel):
    name: str = "value"


@dataclass
class Record:
    name: str = "value"


class Slots:
    __slots__ = ("name", "unset")

    def __init__(self) -> None:
        self.name = "value"


class Color(Enum):
    RED = "value"


class Refusing:
    """Fails whenever code of its class runs, except for its class itself, which pytest reads."""

    def __init__(self) -> None:
        self.name = "value"

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Refusing
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class RefusingDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


class RefusingText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


class RefusingNumber(int):
    def __repr__(self) -> str:
        raise RuntimeError


class RefusingZone(tzinfo):
    def utcoffset(self, _moment: Any) -> Any:
        raise RuntimeError


class WithProperty:
    @property
    def name(self) -> str:
        raise RuntimeError


class WithGetattr:
    def __getattr__(self, name: str) -> str:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "value", [Model(), Record(), Slots(), SimpleNamespace(name="value")], ids=lambda v: f"{type(v)}"
)
def test_an_attribute_of_the_instance_is_plain(value: Any) -> None:
    assert has_plain_attribute(value, "name")
    assert not has_plain_attribute(value, "other")


@pytest.mark.parametrize(
    "value",
    [Refusing(), WithProperty(), WithGetattr(), RefusingDict(name=1), UserDict(name=1)],
    ids=lambda v: type(v).__name__,
)
def test_an_attribute_that_code_of_the_class_makes_is_not_plain(value: Any) -> None:
    assert not has_plain_attribute(value, "name")


def test_a_slot_without_a_value_is_no_attribute() -> None:
    assert not has_plain_attribute(Slots(), "unset")


@pytest.mark.parametrize(
    "value",
    [
        {"name": "value"}, OrderedDict(name="value"), RefusingDict(name="value"), UserDict(name="value"), Model(),
        Record(), SimpleNamespace(name="value"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_the_members_of_mappings_and_records_have_names(value: Any) -> None:
    assert plain_members(value) == [("name", "value")]


@pytest.mark.parametrize(
    "value",
    [["value"], ("value",), {"value"}, deque(["value"]), UserList(["value"]), Color.RED],
    ids=lambda v: type(v).__name__,
)
def test_the_members_of_sequences_have_no_names(value: Any) -> None:
    assert plain_members(value) == [(None, "value")]


@pytest.mark.parametrize("view", [ChainMap, MappingProxyType])
def test_the_member_of_a_view_is_the_mapping_behind_it(view: Any) -> None:
    mapping = RefusingDict(name="value")
    assert [part for _, part in plain_members(view(mapping)) or ()] == [mapping]


@pytest.mark.parametrize("value", ["text", 1, object(), Refusing(), Slots()], ids=lambda v: type(v).__name__)
def test_other_values_have_no_members(value: Any) -> None:
    assert plain_members(value) is None


def test_the_attributes_of_an_instance_are_read_past_its_class() -> None:
    assert plain_attributes(Refusing()) == {"name": "value"}
    assert plain_attributes(1) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (RefusingText("text"), "text"),
        (b"text", "text"),
        (RefusingNumber(7), "7"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (datetime(2024, 2, 29, tzinfo=UTC), "2024-02-29 00:00:00+00:00"),
        ({"a": [1, (2.5, None)]}, "{'a': [1, (2.5, None)]}"),
        (None, "None"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_a_standard_type_has_a_text(value: Any, text: str) -> None:
    assert plain_text(value) == text


def circular() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def test_an_object_without_a_text_of_its_own_has_that_of_object() -> None:
    value = Slots()
    assert plain_text(value) == object.__repr__(value)


@pytest.mark.parametrize(
    "value",
    [
        Refusing(), [Refusing()], {"a": [Refusing()]}, {Color.RED: 1}, Record(), Model(), 10**5_000, circular(),
        list(range(5_000)), datetime(2024, 2, 29, tzinfo=RefusingZone()), UserDict(), RefusingDict(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_other_values_have_no_text(value: Any) -> None:
    assert plain_text(value) is None
