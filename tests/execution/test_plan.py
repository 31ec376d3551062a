"""From what a caller gives to what the body gets: positional arguments, kinds of parameters, bound ones."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from ahvn_tools import ToolSpec
from ahvn_tools.errors import InvalidParametersError, UnboundStateError
from tests.execution.entry_points import DOORS, RESULT_DOORS, VALUE_DOORS, Door

each_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
each_value_door = pytest.mark.parametrize("door", VALUE_DOORS.values(), ids=VALUE_DOORS)
each_result_door = pytest.mark.parametrize("door", RESULT_DOORS.values(), ids=RESULT_DOORS)


def three(a: int, b: int = 2, *, c: int = 3) -> list[int]:
    return [a, b, c]


@each_value_door
def test_positional_arguments_fill_the_visible_parameters_in_order(door: Door) -> None:
    spec = ToolSpec.from_function(three)
    assert door(spec, 7) == [7, 2, 3]
    assert door(spec, 7, 8) == [7, 8, 3]
    assert door(spec, 7, 8, 9) == [7, 8, 9]
    assert door(spec, 7, c=9) == [7, 2, 9]
    assert door(spec.bind("a", default=1), 8, 9) == [1, 8, 9]


@each_result_door
def test_too_many_positional_arguments_are_refused(door: Door) -> None:
    result = door(ToolSpec.from_function(three).bind("b", default=2), 1, 2, 3)
    assert result.error.code == "invalid_parameters"
    assert result.error.message == "Invalid arguments: 3 by position, there are 2 parameters."


@each_result_door
def test_an_argument_given_twice_is_refused(door: Door) -> None:
    result = door(ToolSpec.from_function(three), 1, a=2)
    assert result.error.message == "Invalid arguments: 'a' was given twice, by position and by name."


@each_value_door
def test_a_parameter_may_be_called_self(door: Door) -> None:
    def body(self: int, name: str = "n") -> list[Any]:
        return [self, name]

    assert door(ToolSpec.from_function(body), 1, name="x") == [1, "x"]
    assert ToolSpec.from_function(body).call(self=1, name="x") == [1, "x"]


def positional_only(a: int, b: int = 2, /, c: int = 3) -> list[int]:
    return [a, b, c]


@each_value_door
def test_positional_only_parameters_are_given_by_name_or_by_position(door: Door) -> None:
    spec = ToolSpec.from_function(positional_only)
    assert door(spec, a=1) == [1, 2, 3]
    assert door(spec, a=1, b=7, c=8) == [1, 7, 8]
    assert door(spec, 1, 7) == [1, 7, 3]
    assert door(spec.clone().bind("b", default=5), a=1) == [1, 5, 3]
    assert door(spec.clone().bind("a", default=9), b=1) == [9, 1, 3]


def everything(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> dict[str, Any]:
    return {"a": a, "b": b, "rest": list(rest), "c": c, "more": more}


@each_value_door
def test_what_collects_is_left_out_unless_it_is_included(door: Door) -> None:
    spec = ToolSpec.from_function(everything)
    assert list(spec.params) == ["a", "b", "c"]
    assert door(spec, a=1) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}
    with pytest.raises(InvalidParametersError):
        door(spec, a=1, more={"x": 1})
    with pytest.raises(InvalidParametersError):
        door(spec, a=1, x=1)


@each_value_door
def test_what_collects_may_be_shown_as_a_list_and_an_object(door: Door) -> None:
    spec = ToolSpec.from_function(everything, include_var_positional=True, include_var_keyword=True)
    assert list(spec.params) == ["a", "b", "rest", "c", "more"]
    assert spec.input_schema["required"] == ["a"]
    assert door(spec, a=1) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}
    assert door(spec, a=1, rest=[4, 5]) == {"a": 1, "b": 2, "rest": [4, 5], "c": 3, "more": {}}
    assert door(spec, a=1, b=9, rest=[4], more={"x": 6}) == {"a": 1, "b": 9, "rest": [4], "c": 3, "more": {"x": 6}}
    assert door(spec, a=1, rest=[], more={}) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}


@pytest.mark.parametrize("bound", ["a", "b", "c"])
@each_value_door
def test_bound_parameters_keep_their_places_among_collected_ones(door: Door, bound: str) -> None:
    spec = ToolSpec.from_function(everything, include_var_positional=True, include_var_keyword=True)
    spec.bind(bound, default=8)
    given = {"rest": [4, 5], "more": {"x": 6}} | ({} if bound == "a" else {"a": 1})
    assert door(spec, **given) == {"a": 1, "b": 2, "c": 3, "rest": [4, 5], "more": {"x": 6}} | {bound: 8}


@pytest.mark.parametrize("name", ["b", "c"])
@each_result_door
def test_collected_keywords_may_not_set_a_parameter_of_its_own(door: Door, name: str) -> None:
    spec = ToolSpec.from_function(everything, include_var_keyword=True)
    result = door(spec, a=1, more={name: 9})
    assert result.error.code == "invalid_parameters"
    assert repr(name) in result.error.message


@pytest.mark.parametrize("name", ["b", "c"])
@each_result_door
def test_collected_keywords_may_not_set_a_bound_parameter(door: Door, name: str) -> None:
    spec = ToolSpec.from_function(everything, include_var_keyword=True).bind(name, "session.value", 8)
    result = door(spec, a=1, more={name: 9})
    assert result.error.code == "invalid_parameters"
    assert "8" not in result.error.message


@each_result_door
def test_collected_keywords_may_not_set_a_bound_parameter_without_a_value(door: Door) -> None:
    spec = ToolSpec.from_function(everything, include_var_keyword=True).bind("c", "session.value")
    assert door(spec, a=1).value["c"] == 3
    assert door(spec, a=1, more={"c": 9}).error.code == "invalid_parameters"


@each_value_door
def test_collected_keywords_may_not_be_mistaken_for_a_positional_only_parameter(door: Door) -> None:
    def body(a: int, /, **more: int) -> dict[str, Any]:
        return {"a": a, "more": more}

    spec = ToolSpec.from_function(body, include_var_keyword=True)
    assert door(spec, a=1, more={"more": 2}) == {"a": 1, "more": {"more": 2}}
    with pytest.raises(InvalidParametersError):
        door(spec, a=1, more={"a": 2})


@each_value_door
def test_defaults_that_are_made_anew_are_made_anew(door: Door) -> None:
    def body(items: Annotated[list[int], Field(default_factory=list)]) -> list[int]:
        items.append(1)
        return items

    spec = ToolSpec.from_function(body)
    assert [door(spec), door(spec)] == [[1], [1]]


@each_value_door
def test_what_collects_may_be_bound_with_and_without_a_value(door: Door) -> None:
    spec = ToolSpec.from_function(everything, include_var_positional=True, include_var_keyword=True)
    spec.bind("rest", "given.rest").bind("more", "given.more")
    assert door(spec, a=1) == {"a": 1, "b": 2, "rest": [], "c": 3, "more": {}}
    spec.state["given"] = {"rest": [4], "more": {"x": 5}}
    assert door(spec, a=1) == {"a": 1, "b": 2, "rest": [4], "c": 3, "more": {"x": 5}}


# bound parameters


@each_value_door
def test_resolvers_that_are_awaited_and_such_that_are_not_go_together(door: Door) -> None:
    async def fetch() -> int:
        return 7

    spec = ToolSpec.from_function(three).bind("a", resolver=fetch).bind("b", resolver=lambda: 8)
    assert door(spec, c=9) == [7, 8, 9]


@each_result_door
def test_a_bound_parameter_without_a_value_fails_before_the_body_runs(door: Door) -> None:
    ran: list[int] = []

    def body(token: str) -> None:
        ran.append(1)

    result = door(ToolSpec.from_function(body, binds={"token": "session.token"}))
    assert (result.error.code, ran) == ("unbound_state", [])
    assert "'token'" in result.error.message
    assert "'session.token'" in result.error.message


@each_value_door
def test_call_raises_for_a_bound_parameter_without_a_value(door: Door) -> None:
    def body(token: str) -> None:
        """Never run."""

    with pytest.raises(UnboundStateError) as caught:
        door(ToolSpec.from_function(body, binds={"token": "session.token"}))
    assert (caught.value.parameter, caught.value.key) == ("token", "session.token")


@each_result_door
def test_a_bound_value_that_does_not_fit_is_told_without_the_value(door: Door) -> None:
    def body(limit: int) -> int:
        return limit

    spec = ToolSpec.from_function(body, binds={"limit": "session.limit"})
    spec.state["session"] = {"limit": "hunter2-secret"}
    result = door(spec)
    assert result.error.code == "unbound_state"
    assert "hunter2" not in result.error.message
    assert "'int'" in result.error.message


@each_result_door
def test_bound_values_are_masked_in_what_a_body_raises(door: Door) -> None:
    def body(token: str, n: int) -> None:
        raise ValueError(f"no access with {token} for {n}")

    async def abody(token: str, n: int) -> None:
        body(token, n)

    for function in (body, abody):
        for timeout in (None, 30.0):
            spec = ToolSpec.from_function(function, timeout=timeout).bind("token", default="hunter2-secret")
            assert door(spec, n=1).error.message == "ValueError: no access with <token> for 1"


@each_value_door
def test_call_alone_raises_the_text_untouched(door: Door) -> None:
    def body(token: str) -> None:
        raise ValueError(f"no access with {token}")

    with pytest.raises(ValueError, match="hunter2-secret"):
        door(ToolSpec.from_function(body).bind("token", default="hunter2-secret"))


@each_door
def test_bound_values_are_masked_in_an_error_result_of_another_server(door: Door) -> None:
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
                text = door(spec).error.message
            except ToolError as error:
                text = error.message
            assert text == "no access with <token>"


def lookup(state: Any) -> str:
    return state["session"]["token"]


async def lookup_later(state: Any) -> str:
    return lookup(state)


@pytest.mark.parametrize("resolver", [lookup, lookup_later], ids=["sync", "async"])
@each_result_door
def test_a_resolver_that_fails_is_told_with_the_kind_of_its_error_and_where_to_look(door: Door, resolver: Any) -> None:
    def body(token: str) -> str:
        return token

    spec = ToolSpec.from_function(body).bind("token", "tok", resolver=resolver)
    assert door(spec).error.message == (
        "Parameter 'token' is bound to 'tok': its resolver raised KeyError; look at the resolver of 'tok'."
    )


@pytest.mark.parametrize("resolver", [lookup, lookup_later], ids=["sync", "async"])
@each_value_door
def test_the_error_of_a_resolver_is_the_cause(door: Door, resolver: Any) -> None:
    def body(token: str) -> str:
        return token

    with pytest.raises(UnboundStateError) as caught:
        door(ToolSpec.from_function(body).bind("token", "tok", resolver=resolver))
    assert isinstance(caught.value.__cause__, KeyError)


@each_result_door
def test_what_a_resolver_gives_and_does_not_fit_leads_to_the_resolver(door: Door) -> None:
    def body(token: str) -> str:
        return token

    message = door(ToolSpec.from_function(body).bind("token", "tok", resolver=lambda: ["hunter2-secret"])).error.message
    assert message.endswith("it holds a list that does not fit 'str'; look at the resolver of 'tok'.")


@each_result_door
def test_a_plain_resolver_that_gives_a_coroutine_is_told_how_to_write_it(door: Door) -> None:
    def body(token: str) -> str:
        return token

    spec = ToolSpec.from_function(body).bind("token", "tok", resolver=lambda: lookup_later({}))
    assert door(spec).error.message == (
        "Parameter 'token' is bound to 'tok'. The resolver of 'token' gave a coroutine; write it with `async def`."
    )


async def test_what_the_short_way_of_an_async_call_refuses_is_repaired_or_told() -> None:
    async def double(number: int) -> int:
        return 2 * number

    spec = ToolSpec.from_function(double)
    assert await spec.acall(number=2**70) == 2**71
    with pytest.raises(InvalidParametersError, match="'number' should be a valid integer"):
        await spec.acall(number="two")
