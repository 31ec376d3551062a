"""Error results: short texts without secrets, and less for a model than for a caller."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr

from ahvn_tools import Secret, ToolError, ToolResult, ToolSpec, tool
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolConnectionError
from tests.execution.entry_points import RESULT_ENTRY_POINTS, EntryPoint, run

each_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)


def raising(error: BaseException) -> ToolSpec:
    def body() -> None:
        raise error

    return ToolSpec.from_function(body, name="subject")


@each_entry_point
def test_an_exception_without_a_text_is_reported_by_its_type(entry_point: EntryPoint) -> None:
    assert entry_point(raising(ValueError())).error.message == "ValueError"


@each_entry_point
def test_a_long_text_is_cut(entry_point: EntryPoint) -> None:
    message = entry_point(raising(ValueError("x" * 100_000))).error.message
    assert len(message) < 2_100
    assert message.endswith("more characters)")


@each_entry_point
def test_a_message_has_no_stack_and_no_cause(entry_point: EntryPoint) -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("inner-secret")
    message = entry_point(raising(error)).error.message
    assert message == "ValueError: outer"


@each_entry_point
def test_a_lost_connection_keeps_its_code(entry_point: EntryPoint) -> None:
    result = entry_point(raising(ToolConnectionError("The connection was lost.")))
    assert (result.error.code, result.error.message) == ("connection", "The connection was lost.")


@each_entry_point
def test_a_tool_error_that_is_alone_in_groups_reaches_the_model(entry_point: EntryPoint) -> None:
    async def fail() -> None:
        raise ToolError("Name a topic.")

    async def nested() -> None:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(fail())

    @tool
    async def body() -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(nested())

    assert entry_point(body).error == ErrorDetail(code="tool_error", message="Name a topic.")
    two = ExceptionGroup("two", [ToolError("Name a topic."), ValueError()])
    assert entry_point(raising(two)).error.message == "ExceptionGroup: two (2 sub-exceptions)"


@each_entry_point
def test_the_text_of_a_tool_error_is_unchanged_except_for_bound_values(entry_point: EntryPoint) -> None:
    def body(token: str) -> None:
        raise ToolError(f"Ask for another token than {token}.")

    spec = ToolSpec.from_function(body).bind("token", default="hunter2-secret")
    assert entry_point(spec).error.message == "Ask for another token than <token>."


@pytest.mark.parametrize("kind", [ToolError, ValueError])
@each_entry_point
def test_a_text_that_utf_8_cannot_encode_is_escaped(entry_point: EntryPoint, kind: type[Exception]) -> None:
    result = entry_point(raising(kind("no file caf\udce9")))
    assert result.error.message.endswith("no file caf\\udce9")
    assert result.to_mcp().model_dump_json()


@each_entry_point
def test_a_bound_value_that_utf_8_cannot_encode_is_masked(entry_point: EntryPoint) -> None:
    def body(path: str) -> None:
        raise ToolError(f"no file {path}")

    spec = ToolSpec.from_function(body).bind("path", default="hunter\udce9")
    assert entry_point(spec).error.message == "no file <path>"


@pytest.mark.parametrize(
    "bound",
    ["hunter2-secret", SecretStr("hunter2-secret"), {"inner": ["hunter2-secret"]}, b"hunter2-secret"],
    ids=["text", "SecretStr", "nested", "bytes"],
)
@each_entry_point
def test_bound_values_of_any_type_are_masked(entry_point: EntryPoint, bound: Any) -> None:
    def body(token: Any) -> None:
        raise ValueError("no access with hunter2-secret")

    assert entry_point(ToolSpec.from_function(body).bind("token", default=bound)).error.message == (
        "ValueError: no access with <token>"
    )


class Login(BaseModel):
    user: str
    phrase: SecretStr


@each_entry_point
def test_a_secret_argument_is_masked_as_a_bound_value_is(entry_point: EntryPoint) -> None:
    def body(phrase: Annotated[str, Secret], api_key: str, name: str, kind: str = "v") -> None:
        if kind == "speak":
            raise ToolError(f"{phrase} {api_key} {name}")
        raise ValueError(f"{phrase} {api_key} {name}")

    spec = ToolSpec.from_function(body)
    arguments = {"phrase": "open sesame", "api_key": "k-123456", "name": "someone"}
    assert entry_point(spec, **arguments).error.message == "ValueError: <phrase> <api_key> someone"
    assert entry_point(spec, **arguments, kind="speak").error.message == "<phrase> <api_key> someone"


@each_entry_point
def test_a_secret_inside_an_argument_is_masked(entry_point: EntryPoint) -> None:
    def body(login: Login, options: dict[str, Any]) -> None:
        raise ValueError(f"{login.user} {login.phrase.get_secret_value()} {options}")

    arguments = {"login": {"user": "someone", "phrase": "open sesame"}, "options": {"password": "hunter2-secret"}}
    message = entry_point(ToolSpec.from_function(body), **arguments).error.message
    assert message == "ValueError: someone <phrase> {'password': '<password>'}"


@each_entry_point
def test_a_secret_is_masked_in_an_error_result_that_the_tool_returns(entry_point: EntryPoint) -> None:
    def body(phrase: Annotated[str, Secret], **more: str) -> ToolResult:
        return ToolResult(error=ErrorDetail(code="tool_error", message=f"no {phrase}"))

    assert entry_point(ToolSpec.from_function(body), phrase="open sesame").error.message == "no <phrase>"


@each_entry_point
def test_a_bound_value_and_a_secret_of_one_name_are_both_masked(entry_point: EntryPoint) -> None:
    def body(token: str, options: dict[str, str]) -> None:
        raise ValueError(f"{token} {options['token']}")

    spec = ToolSpec.from_function(body).bind("token", default="t0p-secret")
    assert entry_point(spec, options={"token": "hunter2-secret"}).error.message == "ValueError: <token> <token>"


def test_an_argument_that_its_schema_marks_as_secret_is_masked() -> None:
    from fastmcp.tools import Tool

    class Remote(Tool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            raise ToolError(f"no {arguments['phrase']}")

    schema = {"type": "object", "properties": {"phrase": {"type": "string", "format": "password"}}}
    spec = ToolSpec.from_mcp(Remote(name="remote", parameters=schema))
    assert spec.exec(phrase="open sesame").error.message == "no <phrase>"


@each_entry_point
def test_short_bound_values_are_not_masked(entry_point: EntryPoint) -> None:
    def body(letter: str) -> None:
        raise ValueError("a text with e in it")

    spec = ToolSpec.from_function(body).bind("letter", default="e")
    assert entry_point(spec).error.message == "ValueError: a text with e in it"


def test_served_invalid_arguments_are_reported_to_the_model() -> None:
    def body(n: int) -> int:
        return n

    result = run(ToolSpec.from_function(body).to_fastmcp().run, {"n": "hunter2-secret"})
    assert result.is_error
    assert "'n'" in result.content[0].text
    assert "hunter2" not in result.content[0].text


def test_served_the_text_of_an_exception_is_masked() -> None:
    result = run(raising(ValueError("in /etc/secret")).to_fastmcp().run, {})
    assert (result.is_error, result.content[0].text) == (True, "Error calling tool 'subject'")
