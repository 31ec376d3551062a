"""What is told of a call that went wrong: short, safe, and different for a caller and for a model."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr

from ahvn_tools import Secret, ToolError, ToolResult, ToolSpec
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.results import ErrorDetail
from tests.execution.entry_points import RESULT_DOORS, Door, run

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


class Login(BaseModel):
    user: str
    phrase: SecretStr


@each_door
def test_a_secret_argument_is_masked_as_a_bound_value_is(door: Door) -> None:
    def body(phrase: Annotated[str, Secret], api_key: str, name: str, kind: str = "v") -> None:
        if kind == "speak":
            raise ToolError(f"{phrase} {api_key} {name}")
        raise ValueError(f"{phrase} {api_key} {name}")

    spec, given = ToolSpec.from_function(body), {"phrase": "open sesame", "api_key": "k-123456", "name": "somebody"}
    assert door(spec, **given).error.message == "ValueError: <phrase> <api_key> somebody"
    assert door(spec, **given, kind="speak").error.message == "<phrase> <api_key> somebody"


@each_door
def test_what_is_secret_inside_of_an_argument_is_masked(door: Door) -> None:
    def body(login: Login, options: dict[str, Any]) -> None:
        raise ValueError(f"{login.user} {login.phrase.get_secret_value()} {options}")

    given = {"login": {"user": "somebody", "phrase": "open sesame"}, "options": {"password": "hunter2-secret"}}
    message = door(ToolSpec.from_function(body), **given).error.message
    assert message == "ValueError: somebody <phrase> {'password': '<password>'}"


@each_door
def test_an_error_result_of_the_tools_own_shows_no_secret(door: Door) -> None:
    def body(phrase: Annotated[str, Secret], **more: str) -> ToolResult:
        return ToolResult(error=ErrorDetail(code="tool_error", message=f"no {phrase}"))

    assert door(ToolSpec.from_function(body), phrase="open sesame").error.message == "no <phrase>"


@each_door
def test_a_bound_value_and_a_secret_of_one_name_are_both_masked(door: Door) -> None:
    def body(token: str, options: dict[str, str]) -> None:
        raise ValueError(f"{token} {options['token']}")

    spec = ToolSpec.from_function(body).bind("token", default="t0p-secret")
    assert door(spec, options={"token": "hunter2-secret"}).error.message == "ValueError: <token> <token>"


def test_what_a_schema_marks_as_secret_is_masked() -> None:
    from fastmcp.tools import Tool

    class Remote(Tool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            raise ToolError(f"no {arguments['phrase']}")

    schema = {"type": "object", "properties": {"phrase": {"type": "string", "format": "password"}}}
    spec = ToolSpec.from_mcp(Remote(name="remote", parameters=schema))
    assert spec.exec(phrase="open sesame").error.message == "no <phrase>"


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
