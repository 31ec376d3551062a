"""What is told of a call that went wrong: short, safe, and different for a caller and for a model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from ahvn_tools import ToolError, ToolSpec
from ahvn_tools.errors import ToolConnectionError
from tests.execution.doors import RESULT_DOORS, Door, run

each_door = pytest.mark.parametrize("door", RESULT_DOORS.values(), ids=RESULT_DOORS)


def raising(error: BaseException) -> ToolSpec:
    def body() -> None:
        raise error

    return ToolSpec.from_function(body, name="subject")


@each_door
def test_an_exception_without_a_text_is_told_by_its_type(door: Door) -> None:
    assert door(raising(ValueError())).error.message == "ValueError"


@each_door
def test_a_long_text_is_capped(door: Door) -> None:
    message = door(raising(ValueError("x" * 100_000))).error.message
    assert len(message) < 2_100
    assert message.endswith("more characters)")


@each_door
def test_a_message_has_no_stack_and_no_cause(door: Door) -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("inner-secret")
    message = door(raising(error)).error.message
    assert message == "ValueError: outer"


@each_door
def test_a_lost_connection_keeps_its_code(door: Door) -> None:
    result = door(raising(ToolConnectionError("The connection was lost.")))
    assert (result.error.code, result.error.message) == ("connection", "The connection was lost.")


@each_door
def test_a_tool_error_is_shown_as_it_is_but_for_bound_values(door: Door) -> None:
    def body(token: str) -> None:
        raise ToolError(f"Ask for another token than {token}.")

    spec = ToolSpec.from_function(body).bind("token", default="hunter2-secret")
    assert door(spec).error.message == "Ask for another token than <token>."


@pytest.mark.parametrize("kind", [ToolError, ValueError])
@each_door
def test_a_text_that_utf_8_cannot_write_is_spelled_out(door: Door, kind: type[Exception]) -> None:
    result = door(raising(kind("no file caf\udce9")))
    assert result.error.message.endswith("no file caf\\udce9")
    assert result.to_mcp().model_dump_json()


@each_door
def test_a_bound_value_that_utf_8_cannot_write_is_masked(door: Door) -> None:
    def body(path: str) -> None:
        raise ToolError(f"no file {path}")

    spec = ToolSpec.from_function(body).bind("path", default="hunter\udce9")
    assert door(spec).error.message == "no file <path>"


@pytest.mark.parametrize(
    "bound",
    ["hunter2-secret", SecretStr("hunter2-secret"), {"inner": ["hunter2-secret"]}, b"hunter2-secret"],
    ids=["text", "SecretStr", "nested", "bytes"],
)
@each_door
def test_bound_values_of_any_shape_are_masked(door: Door, bound: Any) -> None:
    def body(token: Any) -> None:
        raise ValueError("no access with hunter2-secret")

    assert door(ToolSpec.from_function(body).bind("token", default=bound)).error.message == (
        "ValueError: no access with <token>"
    )


@each_door
def test_short_bound_values_do_not_shred_texts(door: Door) -> None:
    def body(letter: str) -> None:
        raise ValueError("a text with e in it")

    spec = ToolSpec.from_function(body).bind("letter", default="e")
    assert door(spec).error.message == "ValueError: a text with e in it"


def test_served_invalid_arguments_are_told_to_the_model() -> None:
    def body(n: int) -> int:
        return n

    result = run(ToolSpec.from_function(body).to_fastmcp().run, {"n": "hunter2-secret"})
    assert result.is_error
    assert "'n'" in result.content[0].text
    assert "hunter2" not in result.content[0].text


def test_served_the_text_of_an_exception_is_hidden() -> None:
    result = run(raising(ValueError("in /etc/secret")).to_fastmcp().run, {})
    assert (result.is_error, result.content[0].text) == (True, "Error calling tool 'subject'")
