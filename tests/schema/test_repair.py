"""Repairs of what models send: JSON text, null for "absent", integral floats, numbers; and what is not repaired."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import NotRequired, TypedDict

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError
from tests.schema.single_parameter import Cat, Dog, Pair, Settings, SingleParameterTool, Size


class Point(BaseModel):
    x: int
    y: int = 7
    labels: list[str] = []
    inner: Point | None = None
    note: str | None = "none"


class Named(BaseModel):
    model_config = ConfigDict(extra="allow")
    size: int = Field(3, alias="theSize")


class Counted(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    size: int = 1


@dataclasses.dataclass
class Plain:
    x: int
    y: int = 2


class Mixed(TypedDict):
    needed: int
    free: NotRequired[int]


class First(BaseModel):
    tag: Literal[1]
    size: int = 5


class Second(BaseModel):
    tag: Literal[2]
    size: int | None = 6


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class TestJsonText:
    @pytest.mark.parametrize(
        ("annotation", "text", "expected"),
        [
            (list, "[1, [2]]", [1, [2]]),
            (list[int], " [1, 2] ", [1, 2]),
            (dict, '{"a": 1}', {"a": 1}),
            (dict[str, int], '{"a": 1}', {"a": 1}),
            (dict[int, int], '{"1": 2}', {1: 2}),
            (Mapping[str, int], '{"a": 1}', {"a": 1}),
            (set[int], "[1, 1]", {1}),
            (frozenset[int], "[1]", frozenset({1})),
            (deque[int], "[1]", deque([1])),
            (tuple[int, str], '[1, "a"]', (1, "a")),
            (tuple[int, ...], "[1, 2]", (1, 2)),
            (Sequence[int], "[1]", [1]),
            (Iterable[int], "[1]", [1]),
            (Point, '{"x": 1}', Point(x=1)),
            (Plain, '{"x": 1}', Plain(1)),
            (Settings, '{"size": 1}', {"size": 1}),
            (Pair, '{"first": 1}', Pair(1)),
            (Pair, "[1, 2]", Pair(1, 2)),
            (Pet, '{"kind": "cat"}', Cat(kind="cat")),
            (Point | None, '{"x": 1}', Point(x=1)),
            (int | list[int], "[1]", [1]),
            (Point | Plain | int, '{"x": 1, "inner": {"x": 2}}', Point(x=1, inner=Point(x=2))),
        ],
        ids=str,
    )
    def test_is_parsed_for_a_container(self, annotation, text, expected):
        received = SingleParameterTool(annotation)(text)
        assert received == expected
        assert type(received) is type(expected)

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (list[list[int]], ["[1]", [2]], [[1], [2]]),
            (list[Point], ['{"x": 1}'], [Point(x=1)]),
            (dict[str, Point], {"a": '{"x": 1}'}, {"a": Point(x=1)}),
            (Point, {"x": 1, "labels": '["a"]'}, Point(x=1, labels=["a"])),
            (Point, {"x": 1, "inner": '{"x": 2}'}, Point(x=1, inner=Point(x=2))),
            (list[Pet], ['{"kind": "dog"}'], [Dog(kind="dog")]),
            (tuple[list[int], int], ["[1]", 2], ([1], 2)),
            (list[int | list[int]], [1, "[2]"], [1, [2]]),
        ],
        ids=str,
    )
    def test_is_parsed_at_any_depth(self, annotation, value, expected):
        assert SingleParameterTool(annotation)(value) == expected

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (Point, json.dumps({"x": 1, "labels": json.dumps(["a"])}), Point(x=1, labels=["a"])),
            (list[list[int]], json.dumps([json.dumps([1.0])]), [[1]]),
            (Point, json.dumps({"x": 1, "y": None}), Point(x=1)),
            (list[Literal[1]], "[1.0]", [1]),
        ],
        ids=str,
    )
    def test_the_parsed_value_is_repaired_in_turn(self, annotation, value, expected):
        assert SingleParameterTool(annotation)(value) == expected

    @pytest.mark.parametrize("text", ['["a"]', '{"a": 1}', "[", "null", '"a"'])
    @pytest.mark.parametrize("annotation", [str, Any, object, str | None, str | list[int], str | Point, bytes | str])
    def test_is_not_parsed_for_a_string(self, annotation, text):
        assert SingleParameterTool(annotation)(text) == text

    def test_is_not_parsed_in_a_list_of_strings(self):
        assert SingleParameterTool(list[str])(['["a"]', "{}"]) == ['["a"]', "{}"]

    def test_is_not_parsed_for_a_parameter_without_annotation(self):
        received = []

        def take(it):
            received.append(it)

        ToolSpec.from_function(take).call(it="[1]")
        assert received == ["[1]"]

    def test_nested_text_is_parsed_sixteen_levels_deep(self):
        def layers(number):
            annotation, value = list[int], [1]
            for _ in range(number):
                annotation, value = list[annotation], [json.dumps(value)]
            return annotation, value

        annotation, value = layers(16)
        assert str(SingleParameterTool(annotation)(value)).strip("[]") == "1"
        annotation, value = layers(17)
        assert SingleParameterTool(annotation).refusal(value).endswith("should be a valid list.")

    @pytest.mark.parametrize(
        "text", ["", "x", "1", "null", '"[1]"', "[1", "[1],", "[1] [2]", "['a']", "{1: 2}", "[NaN]"]
    )
    def test_text_of_a_scalar_is_not_parsed(self, text):
        assert SingleParameterTool(list).refusal(text) == "Invalid arguments: 'it' should be a valid list."

    def test_a_text_of_the_wrong_container_is_refused(self):
        assert SingleParameterTool(list[int]).refusal('{"a": 1}') == "Invalid arguments: 'it' should be a valid list."
        assert SingleParameterTool(Point).refusal("[1]").startswith("Invalid arguments: 'it' ")


class TestNull:
    @pytest.mark.parametrize(
        ("annotation", "default"),
        [
            (int, 5),
            (str, "a"),
            (list[int], [1]),
            (Point, Point(x=1)),
            (Literal["a"], "a"),
            (Size, Size.LARGE),
            (Pair, None),
        ],
    )
    def test_means_absent_for_a_parameter_with_a_default(self, annotation, default):
        assert SingleParameterTool(annotation, default)(None) == default

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (Point, {"x": 1, "y": None}, Point(x=1)),
            (Point, {"x": 1, "y": None, "labels": None}, Point(x=1)),
            (Point, {"x": 1, "inner": {"x": 2, "y": None}}, Point(x=1, inner=Point(x=2))),
            (list[Point], [{"x": 1, "y": None}, {"x": 2, "labels": None}], [Point(x=1), Point(x=2)]),
            (dict[str, Point], {"a": {"x": 1, "y": None}}, {"a": Point(x=1)}),
            (Point | None, {"x": 1, "y": None}, Point(x=1)),
            (Point | str, {"x": 1, "y": None}, Point(x=1)),
            (Point | int | list[int], {"x": 1, "y": None}, Point(x=1)),
            (Settings, {"size": None, "colour": "red"}, {"colour": "red"}),
            (list[Settings], [{"size": None}], [{}]),
            (Mixed, {"needed": 1, "free": None}, {"needed": 1}),
            (Plain, {"x": 1, "y": None}, Plain(1)),
            (Pair, {"first": 1, "second": None}, Pair(1)),
            (Pet, {"kind": "cat", "lives": None}, Cat(kind="cat")),
            (Named, {"theSize": None}, Named()),
            (tuple[Point, int], [{"x": 1, "y": None}, 2], (Point(x=1), 2)),
            (tuple[Point, int], ({"x": 1, "y": None}, 2), (Point(x=1), 2)),
        ],
        ids=str,
    )
    def test_means_absent_for_an_optional_member_at_any_depth(self, annotation, value, expected):
        assert SingleParameterTool(annotation)(value) == expected

    @pytest.mark.parametrize(
        ("annotation", "value", "place"),
        [
            (int, None, "'it'"),
            (Point, {"x": None}, "'it.x'"),
            (list[Point], [{"x": 1}, {"x": None}], "'it[1].x'"),
            (Point | str, {"x": None}, "'it.x'"),
            (Mixed, {"needed": None}, "'it.needed'"),
            (Plain, {"x": None}, "'it.x'"),
            (Pair, {"first": None}, "'it.first'"),
        ],
        ids=str,
    )
    def test_for_a_required_member_is_reported_as_such(self, annotation, value, place):
        assert f"{place} must not be null" in SingleParameterTool(annotation).refusal(value)

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (int | None, None),
            (Any, None),
            (Literal["a", None], None),
            (list[int | None], [None]),
            (dict[str, int | None], {"a": None}),
            (dict[str, Any], {"a": None}),
            (list, [None]),
        ],
        ids=str,
    )
    def test_stays_where_it_is_legal(self, annotation, value):
        assert SingleParameterTool(annotation, 5)(value) == value

    def test_stays_in_a_member_that_accepts_it(self):
        assert SingleParameterTool(Point)({"x": 1, "note": None, "y": None}) == Point(x=1, note=None)
        assert SingleParameterTool(Pet)({"kind": "dog", "lives": None}) == Dog(kind="dog", lives=None)

    def test_stays_where_a_branch_accepts_it_and_another_repair_is_enough(self):
        assert SingleParameterTool(First | Second)({"tag": 2.0, "size": None}) == Second(tag=2, size=None)

    def test_is_removed_when_the_branch_that_accepts_it_does_not_match(self):
        assert SingleParameterTool(First | Second)({"tag": 1, "size": None}) == First(tag=1)

    @pytest.mark.parametrize("annotation", [dict[str, int], Mapping[str, int], Counted])
    def test_in_a_free_object_is_refused_and_not_removed(self, annotation):
        assert (
            SingleParameterTool(annotation)
            .refusal({"ann": None, "bob": 2})
            .startswith("Invalid arguments: a value in 'it' ")
        )

    @pytest.mark.parametrize("annotation", [list[int], tuple[int, ...], set[int]])
    def test_in_a_list_is_refused_and_not_removed(self, annotation):
        assert SingleParameterTool(annotation).refusal([1, None]).startswith("Invalid arguments: 'it[1]' ")

    def test_is_removed_from_many_parameters_at_once(self):
        def f(a: int, b: int = 1, c: list[int] = [1], d: Point = Point(x=1), e: int | None = 1) -> list[Any]:
            return [a, b, c, d.x, e]

        assert ToolSpec.from_function(f).call(a=0, b=None, c=None, d=None, e=None) == [0, 1, [1], 1, None]


class TestIntegralFloats:
    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (int, 3.0, 3),
            (int, -0.0, 0),
            (int, 1e18, 10**18),
            (int, 1e300, int(1e300)),
            (int, "3.0", 3),
            (int | None, 3.0, 3),
            (Annotated[int, Field(ge=1)], 3.0, 3),
            (Literal[1, 2], 2.0, 2),
            (Literal[1, "a"] | None, 1.0, 1),
            (Size, 2.0, Size.LARGE),
            (list[int], [1.0, 2], [1, 2]),
            (list[Size], [1.0], [Size.SMALL]),
            (list[Literal[1]], [1.0], [1]),
            (set[int], [1.0], {1}),
            (dict[str, int], {"a": 1.0}, {"a": 1}),
            (dict[str, list[Literal[1]]], {"a": [1.0]}, {"a": [1]}),
            (Point, {"x": 1.0}, Point(x=1)),
            (list[Point], [{"x": 1, "inner": {"x": 2.0}}], [Point(x=1, inner=Point(x=2))]),
            (First | Second, {"tag": 1.0}, First(tag=1)),
            (tuple[int, int], [1.0, 2.0], (1, 2)),
        ],
        ids=str,
    )
    def test_are_integers_at_any_depth(self, annotation, value, expected):
        received = SingleParameterTool(annotation)(value)
        assert received == expected
        assert type(received) is type(expected)
        assert ".0" not in repr(received)

    @pytest.mark.parametrize("value", [1.5, "1.5", 0.1])
    def test_other_floats_are_refused(self, value):
        assert SingleParameterTool(int).refusal(value)
        assert SingleParameterTool(Literal[1, 2]).refusal(value)

    def test_a_float_parameter_receives_a_float(self):
        assert type(SingleParameterTool(float)(3.0)) is float
        assert type(SingleParameterTool(int | float)(3.0)) is float
        assert type(SingleParameterTool(Any)(3.0)) is float

    def test_one_that_equals_no_literal_is_refused(self):
        assert SingleParameterTool(Literal[1, 2]).refusal(3.0) == "Invalid arguments: 'it' should be 1 or 2."
        assert SingleParameterTool(Size).refusal(3.0) == "Invalid arguments: 'it' should be 1 or 2."


class TestNumbers:
    """A number where a text is wanted."""

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (str, 1, "1"),
            (str, -1.5, "-1.5"),
            (str, 10**30, "1" + "0" * 30),
            (str | None, 1, "1"),
            (list[str], [1, "a", 2], ["1", "a", "2"]),
            (list[str], "[1, 2]", ["1", "2"]),
            (dict[str, str], {"a": 1}, {"a": "1"}),
            (Annotated[str, Field(pattern="^[0-9]+$")], 12, "12"),
            (list[str] | str, 1, "1"),
        ],
        ids=str,
    )
    def test_become_their_text(self, annotation, value, expected):
        assert SingleParameterTool(annotation)(value) == expected

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [(int | str, 1, 1), (float | str, 1.5, 1.5), (Any, 1, 1), (int | list[str], 1, 1)],
        ids=str,
    )
    def test_stay_where_the_type_allows_them(self, annotation, value, expected):
        assert SingleParameterTool(annotation)(value) == expected

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (str, True),
            (str, float("nan")),
            (str, float("inf")),
            (str, 10**5000),
            (str, [1]),
            (Annotated[str, Field(pattern="^[a-z]+$")], 12),
            (Literal["1"], 1),
        ],
        ids=["bool", "nan", "infinity", "too many digits", "list", "pattern", "literal"],
    )
    def test_that_have_no_fitting_text_are_refused(self, annotation, value):
        assert SingleParameterTool(annotation).refusal(value)

    @pytest.mark.parametrize("input_schema", [None, {"properties": {"word": {"type": "string"}}}])
    def test_are_refused_by_an_option(self, input_schema):
        def shout(word: str) -> str:
            return word.upper()

        options = {} if input_schema is None else {"input_schema": input_schema}
        assert ToolSpec.from_function(shout, **options).call(word=1) == "1"
        refusing = ToolSpec.from_function(shout, coerce_numbers_to_str=False, **options)
        for spec in (refusing, pickle.loads(pickle.dumps(refusing)), refusing.clone()):
            assert spec.exec(word=1).error.code == "invalid_parameters"
        with pytest.raises(DefinitionError, match="coerce_numbers_to_str"):
            ToolSpec.from_function(shout, coerce_numbers_to_str="no")


class TestTheCallersObjects:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (Point, {"x": 1.0, "y": None, "inner": {"x": 2, "labels": None}}),
            (list[Point], [{"x": 1, "labels": '["a"]'}, '{"x": 2}']),
            (list[Literal[1]], [1.0]),
            (tuple[list[int], Point], ("[1]", {"x": 1, "y": None})),
            (dict[str, list[list[int]]], {"a": ["[1]"]}),
        ],
        ids=str,
    )
    def test_do_not_change_in_a_repair(self, annotation, value):
        before = copy.deepcopy(value)
        SingleParameterTool(annotation)(value)
        assert value == before
        assert repr(value) == repr(before)

    def test_do_not_change_when_one_object_occurs_twice(self):
        shared = {"x": 1, "y": None}
        assert SingleParameterTool(list[Point])([shared, shared]) == [Point(x=1), Point(x=1)]
        assert shared == {"x": 1, "y": None}

    @given(
        points=st.lists(
            st.fixed_dictionaries(
                {"x": st.integers(-5, 5) | st.sampled_from([1.0, None])},
                optional={
                    "y": st.none() | st.integers() | st.floats(allow_nan=False),
                    "labels": st.none() | st.just('["a"]') | st.lists(st.text()),
                    "note": st.none() | st.text(),
                },
            ),
            max_size=5,
        )
    )
    @settings(deadline=None)
    def test_never_change_whatever_the_repair(self, points):
        before = copy.deepcopy(points)
        SingleParameterTool(list[Point]).spec.exec(it=points)
        assert repr(points) == repr(before)

    def test_many_repairs_in_one_list_share_one_copy(self):
        """The work is linear in the length of the list; if it were quadratic, this test would run for an hour."""
        assert SingleParameterTool(list[Literal[1]])([1.0] * 50_000) == [1] * 50_000


def test_a_repair_is_not_tried_when_plain_validation_succeeds():
    """`[1.0]` matches `list[float] | list[int]` without a repair."""
    received = SingleParameterTool(list[float] | list[int])([1.0])
    assert [type(item) for item in received] == [float]
