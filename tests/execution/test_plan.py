"""How a caller's arguments become the body's: positional arguments, kinds of parameters, bound parameters."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from ahvn_tools import ToolSpec
from ahvn_tools.errors import InvalidParametersError, UnboundStateError
from tests.execution.entry_points import ENTRY_POINTS, RESULT_ENTRY_POINTS, VALUE_ENTRY_POINTS, EntryPoint

each_entry_point = pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
each_value_entry_point = pytest.mark.parametrize("entry_point", VALUE_ENTRY_POINTS.values(), ids=VALUE_ENTRY_POINTS)
each_result_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)


def three(a: int, b: int = 2, *, c: int = 3) -> list[int]:
    return [a, b, c]


@each_value_entry_point
def test_positional_arguments_fill_the_visible_parameters_in_order(entry_point: EntryPoint) -> None:
    spec = ToolSpec.from_function(three)
    assert entry_point(spec, 7) == [7, 2, 3]
    assert entry_point(spec, 7, 8) == [7, 8, 3]
    assert entry_point(spec, 7, 8, 9) == [7, 8, 9]
    assert entry_point(spec, 7, c=9) == [7, 2, 9]
    assert entry_point(spec.bind("a", default=1), 8, 9) == [1, 8, 9]


@each_result_entry_point
def test_too_many_positional_arguments_are_refused(entry_point: EntryPoint) -> None:
    result = entry_point(ToolSpec.from_function(three).bind("b", default=2), 1, 2, 3)
    assert result.error.code == "invalid_parameters"
    assert result.error.message == "Invalid arguments: 3 positional arguments for 2 parameters."


@each_result_entry_point
def test_an_argument_passed_twice_is_refused(entry_point: EntryPoint) -> None:
    result = entry_point(ToolSpec.from_function(three), 1, a=2)
    assert result.error.message == "Invalid arguments: 'a' was passed twice, by position and by name."


@each_value_entry_point
def test_a_parameter_may_be_called_self(entry_point: EntryPoint) -> None:
    def body(self: int, name: str = "n") -> list[Any]:
        return [self, name]

    assert entry_point(ToolSpec.from_function(body), 1, name="x") == [1, "x"]
    assert ToolSpec.from_function(body).call(self=1, name="x") == [1, "x"]


def positional_only(a: int, b: int = 2, /, c: int = 3) -> list[int]:
    return [a, b, c]


@each_value_entry_point
def test_positional_only_parameters_are_passed_by_name_or_by_position(entry_point: EntryPoint) -> None:
    spec = ToolSpec.from_function(positional_only)
    assert entry_point(spec, a=1) == [1, 2, 3]
    assert entry_point(spec, a=1, b=7, c=8) == [1, 7, 8]
    assert entry_point(spec, 1, 7) == [1, 7, 3]
    assert entry_point(spec.clone().bind("b", default=5), a=1) == [1, 5, 3]
    assert entry_point(spec.clone().bind("a", default=9), b=1) == [9, 1, 3]


def everything(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> dict[str, Any]:
    return {"a": a, "b": b, "rest": list(rest), "c": c, "more": more}


@each_value_entry_point
def test_variadic_parameters_are_omitted_by_default(entry_point: EntryPoint) -> None:
    spec = ToolSpec.from_function(everything)
    assert list(spec.params) == ["a", "b", "c"]
    assert entry_point(spec, a=1) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}
    with pytest.raises(InvalidParametersError):
        entry_point(spec, a=1, more={"x": 1})
    with pytest.raises(InvalidParametersError):
        entry_point(spec, a=1, x=1)


@each_value_entry_point
def test_variadic_parameters_may_be_included_as_a_list_and_an_object(entry_point: EntryPoint) -> None:
    spec = ToolSpec.from_function(everything, include_var_positional=True, include_var_keyword=True)
    assert list(spec.params) == ["a", "b", "rest", "c", "more"]
    assert spec.input_schema["required"] == ["a"]
    assert entry_point(spec, a=1) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}
    assert entry_point(spec, a=1, rest=[4, 5]) == {"a": 1, "b": 2, "rest": [4, 5], "c": 3, "more": {}}
    assert entry_point(spec, a=1, b=9, rest=[4], more={"x": 6}) == {
        "a": 1,
        "b": 9,
        "rest": [4],
        "c": 3,
        "more": {"x": 6},
    }
    assert entry_point(spec, a=1, rest=[], more={}) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}


@pytest.mark.parametrize("bound", ["a", "b", "c"])
@each_value_entry_point
def test_bound_parameters_keep_their_positions_next_to_variadic_ones(entry_point: EntryPoint, bound: str) -> None:
    spec = ToolSpec.from_function(everything, include_var_positional=True, include_var_keyword=True)
    spec.bind(bound, default=8)
    arguments = {"rest": [4, 5], "more": {"x": 6}} | ({} if bound == "a" else {"a": 1})
    assert entry_point(spec, **arguments) == {"a": 1, "b": 2, "c": 3, "rest": [4, 5], "more": {"x": 6}} | {bound: 8}


@pytest.mark.parametrize("name", ["b", "c"])
@each_result_entry_point
def test_variadic_keywords_may_not_set_a_named_parameter(entry_point: EntryPoint, name: str) -> None:
    spec = ToolSpec.from_function(everything, include_var_keyword=True)
    result = entry_point(spec, a=1, more={name: 9})
    assert result.error.code == "invalid_parameters"
    assert repr(name) in result.error.message


@pytest.mark.parametrize("name", ["b", "c"])
@each_result_entry_point
def test_variadic_keywords_may_not_set_a_bound_parameter(entry_point: EntryPoint, name: str) -> None:
    spec = ToolSpec.from_function(everything, include_var_keyword=True).bind(name, "session.value", 8)
    result = entry_point(spec, a=1, more={name: 9})
    assert result.error.code == "invalid_parameters"
    assert "8" not in result.error.message


@each_result_entry_point
def test_variadic_keywords_may_not_set_a_bound_parameter_without_a_value(entry_point: EntryPoint) -> None:
    spec = ToolSpec.from_function(everything, include_var_keyword=True).bind("c", "session.value")
    assert entry_point(spec, a=1).value["c"] == 3
    assert entry_point(spec, a=1, more={"c": 9}).error.code == "invalid_parameters"


@each_value_entry_point
def test_variadic_keywords_may_not_set_a_positional_only_parameter(entry_point: EntryPoint) -> None:
    def body(a: int, /, **more: int) -> dict[str, Any]:
        return {"a": a, "more": more}

    spec = ToolSpec.from_function(body, include_var_keyword=True)
    assert entry_point(spec, a=1, more={"more": 2}) == {"a": 1, "more": {"more": 2}}
    with pytest.raises(InvalidParametersError):
        entry_point(spec, a=1, more={"a": 2})


@each_value_entry_point
def test_a_default_factory_runs_for_each_call(entry_point: EntryPoint) -> None:
    def body(items: Annotated[list[int], Field(default_factory=list)]) -> list[int]:
        items.append(1)
        return items

    spec = ToolSpec.from_function(body)
    assert [entry_point(spec), entry_point(spec)] == [[1], [1]]


@each_value_entry_point
def test_variadic_parameters_may_be_bound_with_and_without_a_value(entry_point: EntryPoint) -> None:
    spec = ToolSpec.from_function(everything, include_var_positional=True, include_var_keyword=True)
    spec.bind("rest", "extra.rest").bind("more", "extra.more")
    assert entry_point(spec, a=1) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}
    spec.state["extra"] = {"rest": [4], "more": {"x": 5}}
    assert entry_point(spec, a=1) == {"a": 1, "b": 2, "rest": [4], "c": 3, "more": {"x": 5}}


# bound parameters


@each_value_entry_point
def test_sync_and_async_resolvers_work_together(entry_point: EntryPoint) -> None:
    async def fetch() -> int:
        return 7

    spec = ToolSpec.from_function(three).bind("a", resolver=fetch).bind("b", resolver=lambda: 8)
    assert entry_point(spec, c=9) == [7, 8, 9]


@each_result_entry_point
def test_a_bound_parameter_without_a_value_fails_before_the_body_runs(entry_point: EntryPoint) -> None:
    ran: list[int] = []

    def body(token: str) -> None:
        ran.append(1)

    result = entry_point(ToolSpec.from_function(body, binds={"token": "session.token"}))
    assert (result.error.code, ran) == ("unbound_state", [])
    assert "'token' is bound to 'session.token'" in str(result.exception)
    assert result.text == "The tool cannot run: its host has not provided a value that it needs."


def test_the_developer_finds_the_fix_of_an_unbound_parameter_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def body(token: str) -> None:
        """Never runs."""

    ToolSpec.from_function(body, binds={"token": "session.token"}).exec()
    assert "set state key 'session.token'" in caplog.text


@each_value_entry_point
def test_call_raises_for_a_bound_parameter_without_a_value(entry_point: EntryPoint) -> None:
    def body(token: str) -> None:
        """Never runs."""

    with pytest.raises(UnboundStateError) as caught:
        entry_point(ToolSpec.from_function(body, binds={"token": "session.token"}))
    assert (caught.value.parameter, caught.value.key) == ("token", "session.token")


@each_result_entry_point
def test_a_bound_value_of_a_wrong_type_is_reported_without_the_value(entry_point: EntryPoint) -> None:
    def body(limit: int) -> int:
        return limit

    spec = ToolSpec.from_function(body, binds={"limit": "session.limit"})
    spec.state["session"] = {"limit": "hunter2-secret"}
    result = entry_point(spec)
    assert result.error.code == "unbound_state"
    assert "hunter2" not in str(result.exception)
    assert "'int'" in str(result.exception)


@each_value_entry_point
def test_call_raises_exceptions_with_unmasked_texts(entry_point: EntryPoint) -> None:
    def body(token: str) -> None:
        raise ValueError(f"no access with {token}")

    with pytest.raises(ValueError, match="hunter2-secret"):
        entry_point(ToolSpec.from_function(body).bind("token", default="hunter2-secret"))


@each_entry_point
def test_bound_values_are_masked_in_an_error_result_of_another_server(entry_point: EntryPoint) -> None:
    from ahvn_tools import ToolError

    def body(token: str) -> Any:
        from fastmcp.tools.base import ToolResult

        return ToolResult(content=f"no access with {token}", is_error=True)

    async def abody(token: str) -> Any:
        return body(token)

    for function in (body, abody):
        for timeout in (None, 30.0):
            spec = ToolSpec.from_function(function, timeout=timeout).bind("token", default="hunter2-secret")
            try:
                text = entry_point(spec).error.message
            except ToolError as error:
                text = error.message
            assert text == "no access with <token>"


def lookup(state: Any) -> str:
    return state["session"]["token"]


async def lookup_later(state: Any) -> str:
    return lookup(state)


@pytest.mark.parametrize("resolver", [lookup, lookup_later], ids=["sync", "async"])
@each_result_entry_point
def test_a_failing_resolver_is_reported_by_its_error_type_and_its_key(entry_point: EntryPoint, resolver: Any) -> None:
    def body(token: str) -> str:
        return token

    spec = ToolSpec.from_function(body).bind("token", "tok", resolver=resolver)
    assert str(entry_point(spec).exception) == (
        "Parameter 'token' is bound to 'tok': its resolver raised KeyError; check the resolver of 'tok'."
    )


@pytest.mark.parametrize("resolver", [lookup, lookup_later], ids=["sync", "async"])
@each_value_entry_point
def test_the_error_of_a_resolver_is_the_cause(entry_point: EntryPoint, resolver: Any) -> None:
    def body(token: str) -> str:
        return token

    with pytest.raises(UnboundStateError) as caught:
        entry_point(ToolSpec.from_function(body).bind("token", "tok", resolver=resolver))
    assert isinstance(caught.value.__cause__, KeyError)


@each_result_entry_point
def test_a_resolver_value_of_a_wrong_type_is_reported_with_the_resolver(entry_point: EntryPoint) -> None:
    def body(token: str) -> str:
        return token

    result = entry_point(ToolSpec.from_function(body).bind("token", "tok", resolver=lambda: ["hunter2-secret"]))
    assert str(result.exception).endswith("it holds a list that does not fit 'str'; check the resolver of 'tok'.")


@each_result_entry_point
def test_the_error_of_a_plain_resolver_that_returns_a_coroutine_suggests_async_def(entry_point: EntryPoint) -> None:
    def body(token: str) -> str:
        return token

    spec = ToolSpec.from_function(body).bind("token", "tok", resolver=lambda: lookup_later({}))
    assert str(entry_point(spec).exception) == (
        "Parameter 'token' is bound to 'tok'. The resolver of 'token' returned a coroutine; define it with `async def`."
    )


async def test_arguments_that_the_fast_path_of_acall_refuses_are_repaired_or_reported() -> None:
    async def double(number: int) -> int:
        return 2 * number

    spec = ToolSpec.from_function(double)
    assert await spec.acall(number=2**70) == 2**71
    with pytest.raises(InvalidParametersError, match="'number' should be a valid integer"):
        await spec.acall(number="two")


def test_each_check_of_a_plan_sees_the_arguments_also_those_that_were_validated_before() -> None:
    seen: list[Any] = []
    plan = ToolSpec.from_function(lambda number: number, name="pass_on").compiled.plan
    checked = plan.with_check(lambda arguments: seen.append(("first", arguments)))
    checked = checked.with_check(lambda arguments: seen.append(("second", arguments)))
    assert checked.prepare((), {"number": 1}, [{}]) == {"number": 1}
    assert seen == [("first", {"number": 1}), ("second", {"number": 1})]
    seen.clear()
    again = checked.with_validated({"number": 2}).with_check(lambda arguments: seen.append(("third", arguments)))
    assert again.prepare((), {"number": 1}, [{}]) == {"number": 2}
    assert seen == [("third", {"number": 2})]
