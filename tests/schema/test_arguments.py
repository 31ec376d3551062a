"""Arguments of function tools: what is accepted, what is refused, and the messages."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import math
import re
import sys
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AnyUrl,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    HttpUrl,
    Json,
    Tag,
    model_validator,
    validate_call,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from ahvn_tools import ToolError, ToolSpec
from ahvn_tools.errors import InvalidParametersError
from tests.schema.single_parameter import Cat, Dog, Pair, Settings, SingleParameterTool, Size

CANARY = "Zq7canary"


class Colour(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 7
    labels: list[str] = []


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 1


class Reading(TypedDict):
    value: float
    note: Any


@dataclasses.dataclass
class Plain:
    value: float
    note: Any = None


@pydantic_dataclass
class Checked:
    value: float
    note: Any = None


class Open(BaseModel):
    value: float
    note: Any = None


class Finite(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    value: float


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def nested(levels: int) -> Any:
    """Return nested lists with this many levels."""
    made: list[Any] = []
    for _ in range(levels - 1):
        made = [made]
    return made


class TestLaxValidation:
    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (int, "12", 12),
            (int, True, 1),
            (float, "1.5", 1.5),
            (bool, "yes", True),
            (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
            (uuid.UUID, "12345678123456781234567812345678", uuid.UUID(int=0x12345678123456781234567812345678)),
            (Decimal, "1.10", Decimal("1.10")),
            (Path, "a/b", Path("a/b")),
            (bytes, "text", b"text"),
            (Colour, "red", Colour.RED),
            (set[int], [1, "2"], {1, 2}),
            (tuple[int, str], ["1", "a"], (1, "a")),
            (dict[str, int], {"a": "1"}, {"a": 1}),
            (Point, {"x": "1"}, Point(x=1)),
        ],
    )
    def test_values_are_converted_as_pydantic_does(self, annotation, value, expected):
        received = SingleParameterTool(annotation)(value)
        assert received == expected
        assert type(received) is type(expected)

    @pytest.mark.parametrize("value", ["one", [1], {"a": 1}, 1.5, None])
    def test_invalid_values_are_refused(self, value):
        assert SingleParameterTool(int).refusal(value).startswith("Invalid arguments: 'it' ")

    def test_only_a_number_is_converted_to_a_string(self):
        assert SingleParameterTool(str).refusal(True) == "Invalid arguments: 'it' should be a valid string."
        tool = SingleParameterTool(str, coerce_numbers_to_str=False)
        assert tool.refusal(5) == "Invalid arguments: 'it' should be a valid string."

    def test_call_raises_the_error_that_exec_returns(self):
        tool = SingleParameterTool(int)
        with pytest.raises(InvalidParametersError) as caught:
            tool.spec.call(it="one")
        assert str(caught.value) == tool.refusal("one")

    def test_the_error_and_its_causes_contain_no_input(self):
        """A log of the whole chain of exceptions contains no argument."""
        with pytest.raises(InvalidParametersError) as caught:
            SingleParameterTool(list[int]).spec.call(it={CANARY: CANARY})
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__

    @pytest.mark.parametrize("annotation", [Iterable[int], Sequence[int]])
    def test_an_iterable_is_checked_before_the_body_runs(self, annotation):
        tool = SingleParameterTool(annotation)
        assert tool([1, "2"]) == [1, 2]
        assert tool.refusal(["a"]) == (
            "Invalid arguments: 'it[0]' should be a valid integer, unable to parse string as an integer."
        )


def _scalars(count: int, ratio: float, name: str, flag: bool) -> None:
    RECEIVED.append(dict(locals()))


def _containers(numbers: list[int], table: dict[str, list[float]], pair: tuple[int, str], words: set[str]) -> None:
    RECEIVED.append(dict(locals()))


def _models(point: Point, pet: Pet, plain: Plain, pair: Pair, settings: Settings) -> None:
    RECEIVED.append(dict(locals()))


def _optional(
    maybe: int | None = 3, size: Size = Size.SMALL, choice: Literal["a", "b"] = "a", free: Any = None
) -> None:
    RECEIVED.append(dict(locals()))


def _standard(day: dt.date, when: dt.datetime, amount: Decimal, key: uuid.UUID) -> None:
    RECEIVED.append(dict(locals()))


RECEIVED: list[dict[str, Any]] = []
VALID = [
    (_scalars, {"count": 1, "ratio": 2.5, "name": "a", "flag": True}),
    (_scalars, {"count": "1", "ratio": 2, "name": "a", "flag": "no"}),
    (_containers, {"numbers": ["1", 2], "table": {"a": [1]}, "pair": [1, "b"], "words": ["x", "x"]}),
    (
        _models,
        {
            "point": {"x": 1, "labels": ["a"]},
            "pet": {"kind": "dog", "lives": None},
            "plain": {"value": 1},
            "pair": [1],
            "settings": {"size": "3"},
        },
    ),
    (_optional, {"maybe": None, "size": 2, "choice": "b"}),
    (_optional, {}),
    (_standard, {"day": "2024-01-01", "when": "2024-01-01T10:00:00Z", "amount": "1.5", "key": "0" * 32}),
]


@pytest.mark.parametrize(("function", "arguments"), VALID)
def test_valid_arguments_arrive_as_from_pydantic_validate_call(function, arguments):
    RECEIVED.clear()
    ToolSpec.from_function(function).call(**arguments)
    validate_call(function)(**arguments)
    ours, theirs = RECEIVED
    assert ours == theirs


class TestUnknownArguments:
    def test_an_unknown_argument_is_refused_with_near_misses(self):
        spec = ToolSpec.from_function(_scalars)
        result = spec.exec(count=1, ratio=1, name="a", flag=True, cuont=2)
        assert result.error.message == "Invalid arguments: unknown argument 'cuont' (did you mean 'count'?)."

    def test_unknown_arguments_are_listed_before_missing_ones(self):
        result = ToolSpec.from_function(_scalars).exec(nme="a")
        assert result.error.message.startswith("Invalid arguments: unknown argument 'nme' (did you mean 'name'?); ")

    def test_an_unknown_argument_is_refused_even_if_null(self):
        assert "unknown argument 'other'" in ToolSpec.from_function(_optional).exec(other=None).error.message

    def test_a_bound_parameter_is_refused_even_if_null(self):
        spec = ToolSpec.from_function(_optional).bind("maybe", default=1)
        assert "unknown argument 'maybe'" in spec.exec(maybe=None).error.message

    def test_near_misses_are_parameters_and_not_their_properties(self):
        message = ToolSpec.from_function(_models).exec(label=1).error.message
        assert "'labels'" not in message.partition(")")[0]

    @pytest.mark.parametrize("name", [f"{CANARY} {CANARY}", f"{CANARY}@example.org", f"a{CANARY}" * 20, "4" + CANARY])
    def test_an_invalid_name_is_not_repeated(self, name):
        message = SingleParameterTool(int).spec.exec(**{name: 1}).error.message
        assert "unknown argument with an invalid name" in message
        assert CANARY not in message

    def test_an_unknown_property_of_a_closed_model_is_named_with_the_known_ones(self):
        message = SingleParameterTool(Closed).refusal({CANARY: 1})
        assert message == f"Invalid arguments: 'it' has an unknown property {CANARY!r} (known: 'size')."

    def test_an_unknown_property_of_a_closed_model_is_refused_even_if_null(self):
        message = SingleParameterTool(Closed).refusal({f"{CANARY} text": None})
        assert message == "Invalid arguments: 'it' has an unknown property with an invalid name (known: 'size')."


class TestNonFiniteNumbers:
    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize(
        ("annotation", "wrap"),
        [
            (float, lambda n: n),
            (int, lambda n: n),
            (Decimal, lambda n: n),
            (Any, lambda n: n),
            (object, lambda n: n),
            (Any, lambda n: [n]),
            (Any, lambda n: {"a": {"b": [n]}}),
            (Any, lambda n: (n,)),
            (Any, lambda n: {n}),
            (Any, lambda n: deque([n])),
            (Any, lambda n: OrderedDict(a=n)),
            (list, lambda n: [n]),
            (dict, lambda n: {"a": n}),
            (list[Any], lambda n: [1, [n]]),
            (dict[str, Any], lambda n: {"a": n}),
            (dict[str, float], lambda n: {"a": n}),
            (list[float | None], lambda n: [n]),
            (float | str, lambda n: n),
            (Annotated[float, Field(gt=-5)], lambda n: n),
            (deque[Any], lambda n: [n]),
            (tuple[Any, ...], lambda n: [n]),
            (Reading, lambda n: {"value": n, "note": 1}),
            (Reading, lambda n: {"value": 1, "note": n}),
            (Plain, lambda n: {"value": n}),
            (Plain, lambda n: {"value": 1, "note": [n]}),
            (list[Plain], lambda n: [{"value": 1, "note": n}]),
            (Finite, lambda n: {"value": n}),
        ],
    )
    def test_they_are_refused_at_any_depth(self, annotation, wrap, number):
        assert SingleParameterTool(annotation).refusal(wrap(number))

    def test_they_are_refused_in_parameters_without_annotation(self):
        assert "NaN and Infinity" in ToolSpec.from_function(lambda it: None, name="f").exec(it=[math.nan]).error.message

    @pytest.mark.parametrize("text", ["NaN", "nan", "Infinity", "-inf"])
    def test_their_names_are_refused_for_a_number(self, text):
        assert SingleParameterTool(float).refusal(text)
        assert SingleParameterTool(Decimal).refusal(text)
        assert SingleParameterTool(list[float]).refusal([text])

    def test_a_text_that_is_too_large_for_a_float_is_refused(self):
        assert SingleParameterTool(float).refusal("1e999")

    def test_their_names_are_accepted_as_strings(self):
        assert SingleParameterTool(str)("NaN") == "NaN"
        assert SingleParameterTool(Any)("NaN") == "NaN"

    @pytest.mark.parametrize("text", ["[NaN]", "[1, -Infinity]", "[1e999]", '[{"a": [NaN]}]'])
    def test_a_json_text_with_one_is_not_parsed(self, text):
        assert SingleParameterTool(list).refusal(text) == "Invalid arguments: 'it' should be a valid list."

    def test_subclasses_of_float_are_refused_too(self):
        assert SingleParameterTool(Any).refusal(type("Float", (float,), {})(math.nan))

    @pytest.mark.parametrize("annotation", [Open, Checked])
    def test_inside_a_pydantic_model_its_own_config_decides(self, annotation):
        received = SingleParameterTool(annotation)({"value": math.inf, "note": math.inf})
        assert (received.value, received.note) == (math.inf, math.inf)

    def test_a_model_that_allows_them_does_not_allow_them_elsewhere(self):
        tool = SingleParameterTool(list[Open | Any])
        assert tool([{"value": math.inf}])[0].value == math.inf
        assert tool.refusal([{"value": math.inf}, math.inf])


class TestExtremes:
    @pytest.mark.parametrize("annotation", [Any, list, list[Any], object])
    def test_exactly_200_levels_pass(self, annotation):
        assert SingleParameterTool(annotation)(nested(200)) == nested(200)

    @pytest.mark.parametrize("annotation", [Any, list, list[Any], object, int, str, dict[str, Any]])
    @pytest.mark.parametrize("levels", [201, 5_000])
    def test_more_than_200_levels_are_refused(self, annotation, levels):
        assert SingleParameterTool(annotation).refusal(nested(levels)) == (
            "Invalid arguments: they are nested more than 200 levels deep."
        )

    def test_200_levels_pass_as_json_text(self):
        assert SingleParameterTool(list)(json.dumps(nested(200))) == nested(200)

    def test_more_than_200_levels_of_json_text_are_refused(self):
        assert SingleParameterTool(list).refusal(json.dumps(nested(201))) == (
            "Invalid arguments: they are nested more than 200 levels deep."
        )

    @pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000])
    def test_a_text_of_100_000_brackets_is_refused(self, text):
        assert SingleParameterTool(list).refusal(text).startswith("Invalid arguments: ")

    def test_a_list_that_holds_itself_is_refused(self):
        cyclic: list[Any] = []
        cyclic.append(cyclic)
        assert "200 levels" in SingleParameterTool(Any).refusal(cyclic)

    @pytest.mark.parametrize("annotation", [int, Any, float | int, list[int], dict[str, Any], Point, Size, Literal[1]])
    @pytest.mark.parametrize("number", [10**4300, -(10**4300), 10**9000], ids=["least", "negative", "huge"])
    def test_integers_of_more_than_4300_digits_are_refused(self, annotation, number):
        wrapped = {list[int]: [number], dict[str, Any]: {"a": [number]}, Point: {"x": number}}.get(annotation, number)
        assert (
            SingleParameterTool(annotation).refusal(wrapped)
            == "Invalid arguments: an integer has more than 4300 digits."
        )

    @pytest.mark.parametrize("annotation", [int, Any, list[int]])
    def test_integers_of_4300_digits_pass(self, annotation):
        number = 10**4300 - 1
        assert SingleParameterTool(annotation)([number] if annotation == list[int] else number)

    def test_integers_in_unions_and_with_defaults_are_limited_too(self):
        def f(text: str, count: int = 1, other: int = 2) -> None: ...

        assert ToolSpec.from_function(f).exec(text="a", other=10**4300).error.code == "invalid_parameters"

    @pytest.mark.parametrize("text", ["9" * 4301, "[" + "9" * 4301 + "]"])
    def test_integers_in_strings_are_refused_without_an_exception(self, text):
        assert SingleParameterTool(int).refusal(text)
        assert SingleParameterTool(list[int]).refusal(text)

    def test_many_errors_in_one_value_make_one_short_message(self):
        message = SingleParameterTool(list[int]).refusal(["a"] * 180)
        assert message.endswith("; and 175 more.")
        assert len(message) < 1_000

    def test_a_long_list_of_choices_is_cut(self):
        choices = Literal[tuple(f"choice{number}" for number in range(500))]
        message = SingleParameterTool(choices).refusal("x")
        assert "'choice0', 'choice1'" in message
        assert len(message) < 500


def _failing(make):
    def check(value):
        raise make(value)

    return AfterValidator(check)


def _asserting(value):
    assert value is None, f"{value} is wrong"
    return value


ECHOES = [
    (int, CANARY),
    (list[int], [CANARY]),
    (list[int], CANARY),
    (dict[str, int], {CANARY: CANARY}),
    (dict[int, int], {CANARY: 1}),
    (dict[str, int], {CANARY: None}),
    (dict[str, Point], {CANARY: {"x": CANARY}}),
    (dict[str, list[int]], {CANARY: {CANARY: CANARY}}),
    (Point, {"x": CANARY, CANARY: CANARY}),
    (Point, CANARY),
    (Closed, {f"{CANARY} text": CANARY}),
    (Pet, {"kind": CANARY}),
    (Pet, {CANARY: "cat"}),
    (Pet, CANARY),
    (Annotated[Annotated[int, Tag("a")] | Annotated[str, Tag("b")], Discriminator(str)], CANARY),
    (int | list[int], CANARY),
    (Point | Plain | int, {CANARY: CANARY}),
    (Colour, CANARY),
    (Size, CANARY),
    (Literal["a", 2], CANARY),
    (Annotated[str, Field(pattern="^x$")], CANARY),
    (Annotated[str, Field(max_length=2)], CANARY),
    (HttpUrl, CANARY),
    (HttpUrl, f"ftp://{CANARY}"),
    (AnyUrl, f"http://{CANARY}:{CANARY}/"),
    (uuid.UUID, CANARY),
    (uuid.UUID, f"12345678-1234-1234-1234-{CANARY}"),
    (dt.datetime, CANARY),
    (dt.datetime, f"2024-01-01T{CANARY}"),
    (AwareDatetime, CANARY),
    (dt.date, CANARY),
    (dt.time, CANARY),
    (dt.timedelta, CANARY),
    (Decimal, CANARY),
    (Json[int], CANARY),
    (Json[int], f'"{CANARY}"'),
    (re.Pattern, f"({CANARY}"),
    (ipaddress.IPv4Address, CANARY),
    (Sequence[int], CANARY),
    (Mapping[str, int], CANARY),
    (Annotated[str, _failing(lambda value: ValueError(f"{value} is wrong"))], CANARY),
    (Annotated[str, _failing(lambda value: ValueError(f"{value!r} is wrong"))], f"{CANARY}\n'"),
    (Annotated[str, _failing(lambda value: ValueError(value.upper()))], CANARY),
    (Annotated[str, _failing(lambda value: ValueError(f"starts with {value[:6]}…"))], CANARY),
    (Annotated[str, _failing(lambda value: ValueError(f"first word {value.split()[0]}"))], f"{CANARY} and more"),
    (Annotated[dict, _failing(lambda value: ValueError(f"{next(iter(value))} is wrong"))], {CANARY: 1}),
    (Annotated[list, _failing(lambda value: ValueError(str(value)))], [[{"a": CANARY}]]),
    (Annotated[str, _failing(lambda value: PydanticCustomError("mine", "{it} is wrong", {"it": value}))], CANARY),
    (Annotated[str, _failing(lambda value: PydanticCustomError("mine", "{error}", {"error": value}))], CANARY),
    (Annotated[str, _failing(lambda value: PydanticCustomError("too_long", f"{value} is too long"))], CANARY),
    (Annotated[str, _failing(lambda value: PydanticCustomError("value_error", f"{value} is wrong"))], CANARY),
    (Annotated[str, _failing(lambda value: PydanticCustomError("enum", "{expected}", {"expected": value}))], CANARY),
    (Annotated[str, AfterValidator(_asserting)], CANARY),
    (Annotated[str, _failing(KeyError)], CANARY),
    (Annotated[str, _failing(TypeError)], CANARY),
    (Annotated[str, BeforeValidator(lambda value: value.nothing)], CANARY),
]


class TestNoEcho:
    @pytest.mark.parametrize(("annotation", "value"), ECHOES, ids=lambda value: str(value)[:40])
    def test_no_message_repeats_a_part_of_the_input(self, annotation, value):
        message = SingleParameterTool(annotation).refusal(value)
        assert CANARY[:6].casefold() not in message.casefold()
        assert message.startswith("Invalid arguments: ")

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (Annotated[int, _failing(lambda value: ValueError(f"{value} is wrong"))], 73519),
            (Annotated[int, _failing(lambda value: ValueError(f"{value:,} is wrong"))], 7351973519),
            (Annotated[float, _failing(lambda value: ValueError(f"{value:09.2f} is wrong"))], 7351.97),
            (dict[int, int], {73519: "x"}),
            (AwareDatetime, "2024-01-01T10:00"),
        ],
    )
    def test_no_message_repeats_a_number_of_the_input(self, annotation, value):
        message = SingleParameterTool(annotation).refusal(value)
        assert "735" not in message
        assert "2024" not in message

    def test_a_short_value_is_detected_as_a_word(self):
        tool = SingleParameterTool(Annotated[str, _failing(lambda value: ValueError(f"no {value} here"))])
        assert tool.refusal("ab") == "Invalid arguments: 'it' is not valid."

    def test_an_empty_value_hides_nothing(self):
        tool = SingleParameterTool(Annotated[str, _failing(lambda value: ValueError("write some text"))])
        assert tool.refusal("") == "Invalid arguments: 'it' is not valid: write some text."

    def test_a_validators_text_about_a_very_large_input_is_omitted(self):
        tool = SingleParameterTool(Annotated[list, _failing(lambda value: ValueError("too many rows"))])
        assert tool.refusal([1]) == "Invalid arguments: 'it' is not valid: too many rows."
        assert tool.refusal(list(range(2_000))) == "Invalid arguments: 'it' is not valid."

    def test_an_empty_validator_text_becomes_not_valid(self):
        tool = SingleParameterTool(Annotated[str, _failing(lambda value: ValueError())])
        assert tool.refusal("x") == "Invalid arguments: 'it' is not valid."


class TestMessages:
    @pytest.mark.parametrize(
        ("annotation", "value", "message"),
        [
            (int, "x", "'it' should be a valid integer, unable to parse string as an integer"),
            (Point, {}, "'it.x' is missing"),
            (list[Point], [{"x": 1}, {"x": "a"}], "'it[1].x' should be a valid integer"),
            (Pair, {"first": 1, "second": "a"}, "'it.second' should be a valid integer"),
            (dict[str, int], {"a": "b"}, "a value in 'it' should be a valid integer"),
            (dict[int, int], {5: "b"}, "a value in 'it' should be a valid integer"),
            (Pet, {"kind": "bird"}, "'it' has no known tag 'kind'; expected 'cat' or 'dog'"),
            (Colour, "blue", "'it' should be 'red'"),
            (Annotated[int, Field(ge=3)], 2, "'it' should be greater than or equal to 3"),
            (Annotated[dt.date, Field(gt=dt.date(2020, 1, 1))], "2019-01-01", "greater than 2020-01-01"),
            (Annotated[str, Field(min_length=3)], "a", "at least 3 characters"),
            (dt.date, "tomorrow", "'it' is not a valid date (YYYY-MM-DD)"),
            (uuid.UUID, "x", "'it' is not a valid UUID"),
            (int | list[int], {}, "'it' should be a valid integer; 'it' should be a valid list"),
            (
                Annotated[str, _failing(lambda value: ValueError("must be a weekday"))],
                "x",
                "not valid: must be a weekday",
            ),
            (
                Annotated[str, _failing(lambda value: PydanticCustomError("a", "must be odd"))],
                "x",
                "not valid: must be odd",
            ),
        ],
    )
    def test_they_name_the_location_and_the_rule(self, annotation, value, message):
        assert message in SingleParameterTool(annotation).refusal(value)

    def test_a_models_own_text_may_name_its_fields(self):
        class Span(BaseModel):
            start: int
            end: int

            @model_validator(mode="after")
            def check(self):
                raise ValueError("start must be before end")

        assert SingleParameterTool(Span).refusal({"start": 5, "end": 3}) == (
            "Invalid arguments: 'it' is not valid: start must be before end."
        )

    def test_equal_problems_are_listed_once(self):
        assert SingleParameterTool(dict[str, int]).refusal({"a": "x", "b": "y"}).count("should be") == 1


class TestValidatorsThatRaise:
    @pytest.mark.parametrize("error", [KeyError, TypeError, ZeroDivisionError, AttributeError, RecursionError, OSError])
    def test_an_error_other_than_value_error_is_reported_by_its_type(self, error):
        tool = SingleParameterTool(Annotated[str, _failing(error)])
        assert tool.refusal(CANARY) == f"Invalid arguments: validation raised {error.__name__}."

    def test_the_error_is_the_cause(self):
        with pytest.raises(InvalidParametersError) as caught:
            SingleParameterTool(Annotated[str, _failing(KeyError)])("x")
        assert isinstance(caught.value.__cause__, KeyError)

    def test_an_error_after_a_repair_is_reported_the_same_way(self):
        assert SingleParameterTool(Annotated[list, _failing(KeyError)]).refusal("[1]") == (
            "Invalid arguments: validation raised KeyError."
        )

    def test_the_text_of_a_validators_tool_error_reaches_the_model(self):
        result = SingleParameterTool(Annotated[str, _failing(lambda _: ToolError("ask the user first"))]).spec.exec(
            it="x"
        )
        assert (result.error.code, result.error.message) == ("tool_error", "ask the user first")

    def test_a_keyboard_interrupt_is_not_caught(self):
        with pytest.raises(KeyboardInterrupt):
            SingleParameterTool(Annotated[str, _failing(lambda _: KeyboardInterrupt())]).spec.exec(it="x")


class TestSignatures:
    def test_an_alias_is_the_name_that_callers_use(self):
        def f(user_id: Annotated[int, Field(alias="userId")], limit: int = 1) -> list[int]:
            return [user_id, limit]

        spec = ToolSpec.from_function(f)
        assert spec.call(userId="5") == [5, 1]
        assert spec.call(5, 2) == [5, 2]
        assert spec.exec(userId=None).error.message == "Invalid arguments: 'userId' must not be null."
        assert "unknown argument 'user_id' (did you mean 'userId'?)" in spec.exec(user_id=5).error.message

    def test_a_parameter_with_an_alias_is_bound_by_its_own_name(self):
        def f(user_id: Annotated[int, Field(alias="userId")]) -> int:
            return user_id

        spec = ToolSpec.from_function(f).bind("user_id", default=4)
        assert spec.params == {}
        assert spec.call() == 4
        assert spec.exec(userId=5).error.code == "invalid_parameters"

    def test_a_default_factory_makes_a_fresh_default_for_each_call(self):
        def f(items: list[int] = Field(default_factory=list)) -> list[int]:
            items.append(1)
            return items

        spec = ToolSpec.from_function(f)
        assert [spec.call(), spec.call(), spec.call(items=None)] == [[1], [1], [1]]

    def test_field_defaults_and_limits_hold(self):
        def f(limit: int = Field(5, le=10)) -> int:
            return limit

        spec = ToolSpec.from_function(f)
        assert spec.call() == 5
        assert spec.exec(limit=11).error.message == "Invalid arguments: 'limit' should be less than or equal to 10."

    def test_defaults_are_not_validated(self):
        def f(count: int = "none") -> str:  # type: ignore[assignment]
            return repr(count)

        assert ToolSpec.from_function(f).call() == "'none'"
        assert ToolSpec.from_function(f).call(count=None) == "'none'"

    def test_a_parameter_may_have_any_name(self):
        def f(self: int, args: int, kwargs: int, arguments: int, name: int, body: int, plan: int, loc: int = 8):
            return [self, args, kwargs, arguments, name, body, plan, loc]

        spec = ToolSpec.from_function(f)
        names = {"self": 1, "args": 2, "kwargs": 3, "arguments": 4, "name": 5, "body": 6, "plan": 7}
        assert spec.call(**names) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert spec.exec(**names).value == [1, 2, 3, 4, 5, 6, 7, 8]
        assert spec.call(*range(8)) == list(range(8))

    def test_collected_arguments_are_checked_too(self):
        def f(*numbers: int, **limits: int) -> list[int]:
            return [*numbers, *limits.values()]

        spec = ToolSpec.from_function(f, include_var_positional=True, include_var_keyword=True)
        assert spec.call(numbers=["1", 2.0], limits={"a": "3"}) == [1, 2, 3]
        assert "'numbers[0]' should be a valid integer" in spec.exec(numbers=["x"]).error.message
        assert "a value in 'limits'" in spec.exec(limits={CANARY: "x"}).error.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | st.sampled_from("xy"), inner, max_size=4)
    ),
    max_leaves=12,
)
ANNOTATIONS = [
    Any, int, list[int], dict[str, int], Point, list[Point], Point | int, Pet, Settings, Pair, Plain, Literal[1, 2],
    Size, dict[str, list[Point]], tuple[int, str], set[int], Iterable[int],
]  # fmt: skip
TOOLS = [SingleParameterTool(annotation) for annotation in ANNOTATIONS]


@given(tool=st.sampled_from(TOOLS), value=JSON)
@settings(deadline=None)
def test_arguments_never_change_and_never_raise_another_error(tool, value):
    before = copy.deepcopy(value)
    result = tool.spec.exec(it=value)
    tool.received.clear()
    assert value == before
    assert result.error is None or result.error.code == "invalid_parameters"


@given(
    tool=st.sampled_from(TOOLS),
    value=st.builds(json.dumps, JSON) | st.lists(st.builds(json.dumps, JSON), max_size=3),
)
@settings(deadline=None)
def test_json_text_arguments_never_change_and_never_raise_another_error(tool, value):
    before = copy.deepcopy(value)
    result = tool.spec.exec(it=value)
    tool.received.clear()
    assert value == before
    assert result.error is None or result.error.code == "invalid_parameters"


def test_validation_does_not_change_the_recursion_limit():
    """Deep input is refused by counting; Python's own limit is never raised."""
    before = sys.getrecursionlimit()
    SingleParameterTool(Any).refusal(nested(50_000))
    assert sys.getrecursionlimit() == before


class TestWhatAModelCanActOn:
    @pytest.mark.parametrize(
        ("annotation", "value", "message"),
        [
            (dict[int, str], {"one": "x"}, "a key in 'it' should be a valid integer"),
            (dict[Colour, int], {"blue": 1}, "a key in 'it' should be 'red'"),
            (dict[str, dict[int, int]], {"a": {"b": 1}}, "a key in a value in 'it' should be a valid integer"),
            (list[dict[int | float, int]], [{"b": 1}], "a key in 'it[0]' should be a valid integer"),
            (dict[str, int], {"[key]": "x"}, "a value in 'it' should be a valid integer"),
            (list[Closed], [{"siz": 1}], "'it[0]' has an unknown property 'siz' (did you mean 'size'?)"),
            (Closed | None, {"x": 1}, "'it' has an unknown property 'x' (known: 'size')"),
            (tuple[int, str], [1], "'it' has too few items"),
            (Path, 5, "'it' is not a valid path"),
            (complex, "x", "'it' is not a valid complex number"),
            (frozenset[str], 5, "'it' is not an array"),
            (Point, 5, "'it' is not an object"),
        ],
        ids=str,
    )
    def test_a_message_says_what_is_wrong_where(self, annotation, value, message):
        refusal = SingleParameterTool(annotation).refusal(value)
        assert message in refusal
        assert "<class" not in refusal

    def test_a_tool_without_parameters_says_so(self):
        def ping() -> None: ...

        message = "Invalid arguments: unknown argument 'host' (the tool takes no arguments)."
        assert ToolSpec.from_function(ping).exec(host="x").text == message
