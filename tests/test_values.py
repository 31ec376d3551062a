"""The value of a call is the same wherever a tool comes from and however it is called."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.code_mode.stubs import make_stubs
from ahvn_tools.errors import DefinitionError
from ahvn_tools.middleware import cache, record, replay

PAGE = {"items": [1, 2], "next": "p2"}


class Page(BaseModel):
    model_config = ConfigDict(extra="allow")
    items: list[int]


def list_items(is_last: bool) -> Page:
    """List the items."""
    return Page(items=[3]) if is_last else Page(**PAGE)


def walk_pages() -> Any:
    """Read every page."""
    yield Page(**PAGE)
    yield Page(items=[3])


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("shop").add(list_items)


async def test_an_object_with_other_members_is_the_value_in_each_way_to_call(kit: Toolkit) -> None:
    assert kit.call("list_items", {"is_last": False}) == PAGE
    assert kit.call("list_items", {"is_last": True}) == [3]
    first, last = {"is_last": False}, {"is_last": True}
    assert [await kit.acall("list_items", one) for one in (first, last)] == [PAGE, [3]]
    assert list(kit.stream("list_items", first))[-1].value == PAGE
    with ThreadPoolExecutor(1) as executor:
        results = list(kit.map(executor, [("list_items", first), ("list_items", last)]))
    assert [(result.value, result.structured_content) for result in results] == [(PAGE, PAGE), ([3], {"items": [3]})]


async def test_an_object_with_other_members_is_the_value_over_mcp(kit: Toolkit) -> None:
    from fastmcp import Client

    async with Client(kit.to_fastmcp_server()) as client:
        remote = await ToolSpec.afrom_client(client, "list_items")
        assert await remote.acall(is_last=False) == PAGE
        assert await remote.acall(is_last=True) == [3]


def test_each_item_of_a_generator_is_the_whole_object() -> None:
    spec = ToolSpec.from_function(walk_pages)
    chunks = [result.value for result in spec.stream()]
    assert chunks == [PAGE, {"items": [3]}, [PAGE, {"items": [3]}]]


def test_a_cached_and_a_replayed_result_have_the_same_value(kit: Toolkit, tmp_path: Any) -> None:
    path = tmp_path / "calls.jsonl"
    kit.use(record(path))
    kit.use(cache(all_tools=True))
    read = [kit.exec("list_items", {"is_last": is_last}) for is_last in (False, True, False, True)]
    offline = Toolkit("shop", middleware=[replay(path)]).add(list_items)
    read += [offline.exec("list_items", {"is_last": is_last}) for is_last in (False, True)]
    assert [result.value for result in read] == [PAGE, [3]] * 3


def test_a_program_receives_the_same_value(kit: Toolkit) -> None:
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    kit.add_code_mode()
    code = "[await list_items(is_last=False), await list_items(is_last=True)]"
    assert kit.exec("run_code", {"code": code}).value == [PAGE, [3]]


def test_the_types_that_are_shown_say_that_the_value_may_be_the_object() -> None:
    spec = ToolSpec.from_function(list_items)
    assert inspect.signature(spec).return_annotation == list[int] | dict[str, Any]
    assert "-> list[int] | dict[str, Any]:" in next(iter(make_stubs([spec.definition]).values())).text()


def test_an_object_in_a_wrapped_result_is_not_unwrapped_again() -> None:
    class One(BaseModel):
        only: int

    def plain() -> One:
        return One(only=1)

    def optional() -> One | None:
        return One(only=1)

    plain.__annotations__["return"], optional.__annotations__["return"] = One, One | None
    assert ToolSpec.from_function(plain)() == 1
    assert ToolSpec.from_function(optional)() == {"only": 1}


class Old(TypedDict):
    a: int


class Holder(typing_extensions.TypedDict):
    old: Old


class Row(NamedTuple):
    old: Old


@dataclasses.dataclass
class Record:
    old: Old


@pytest.mark.parametrize("annotation", [Old, list[Old], Old | None, dict[str, Old], Holder, Row, list[Record]])
def test_an_output_schema_never_disappears_with_a_typed_dict(annotation: Any) -> None:
    def read() -> Any: ...

    read.__annotations__["return"] = annotation
    if sys.version_info >= (3, 12):
        assert ToolSpec.from_function(read).output_schema is not None
        return
    with pytest.raises(DefinitionError, match=r"'read' returns 'Old'.*typing_extensions"):
        ToolSpec.from_function(read)
    assert ToolSpec.from_function(read, output_schema=None).output_schema is None


class Opaque: ...


@pytest.mark.parametrize("annotation", [Opaque, list[Opaque], "Unknown", tuple[int, Opaque]])
def test_check_names_a_return_annotation_that_has_no_schema(annotation: Any) -> None:
    def read() -> Any: ...

    read.__annotations__["return"] = annotation
    (finding,) = [found for found in Toolkit("k").add(read).check() if found.rule == "no-output-schema"]
    assert (finding.tool, finding.severity) == ("read", "note")


@pytest.mark.parametrize("annotation", [None, Any, bytes, list, int, dict, "Image"])
def test_check_accepts_an_annotation_that_promises_nothing(annotation: Any) -> None:
    def read() -> Any:
        """Read."""

    read.__annotations__["return"] = annotation
    read.__globals__.setdefault("Image", pytest.importorskip("fastmcp.utilities.types").Image)
    assert not Toolkit("k").add(read).check()
