"""`validate`: arguments are checked as for a call and nothing runs; problems of arguments have JSON pointers."""

import copy
import datetime as dt
import json
import pickle
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from ahvn_tools import Secret, Toolkit, ToolResult, ToolSpec
from ahvn_tools.errors import InvalidParametersError
from ahvn_tools.schema.problems import find_changes


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float
    note: str | None = None


class Group(BaseModel):
    members: list["Circle | Square | Group"]


def draw(
    shape: Circle | Square | Group,
    tagged: Annotated[Circle | Square, Field(discriminator="kind")] = Circle(kind="circle", radius=1),
    names: dict[str, int] = {},
    limit: int | str = 1,
    day: dt.date | None = None,
) -> str:
    """Draw a shape."""
    raise AssertionError("the body ran")


def from_function() -> ToolSpec:
    return ToolSpec.from_function(draw)


def from_schema() -> ToolSpec:
    return ToolSpec.from_schema("draw", from_function().input_schema, draw)


def from_openapi() -> ToolSpec:
    schema = from_function().input_schema
    definitions = schema.pop("$defs")
    body = {"required": True, "content": {"application/json": {"schema": {**schema, "additionalProperties": False}}}}
    document = {
        "openapi": "3.1.0",
        "paths": {"/draw": {"post": {"operationId": "draw", "requestBody": body}}},
        "components": {"schemas": definitions},
    }
    document = json.loads(json.dumps(document).replace("#/$defs/", "#/components/schemas/"))
    return ToolSpec.from_openapi(document, base_url="https://draw.example")["draw"]


def from_mcp() -> ToolSpec:
    return ToolSpec.from_mcp(from_function().to_mcp())


every_source = pytest.mark.parametrize("make", [from_function, from_schema, from_openapi, from_mcp])

WRONG: dict[str, tuple[dict[str, Any], set[str]]] = {
    "missing": ({}, {"/shape"}),
    "unknown": ({"shape": {"kind": "circle", "radius": 1}, "colour": 3}, {"/colour"}),
    "branch by its tag": ({"shape": {"kind": "square"}}, {"/shape/side"}),
    "a value in a branch": ({"shape": {"kind": "circle", "radius": "wide"}}, {"/shape/radius"}),
    "discriminated": ({"shape": {"kind": "circle", "radius": 1}, "tagged": {"kind": "square"}}, {"/tagged/side"}),
    "nested unions": (
        {"shape": {"members": [{"kind": "circle", "radius": 1}, {"kind": "square"}]}},
        {"/shape/members/1/side"},
    ),
    "no branch": ({"shape": 3}, {"/shape"}),
    "a key": ({"shape": {"kind": "circle", "radius": 1}, "names": {"a/b~c": "x"}}, {"/names/a~1b~0c"}),
    "two problems": (
        {"shape": {"kind": "circle", "radius": []}, "names": [1]},
        {"/shape/radius", "/names"},
    ),
}


@every_source
@pytest.mark.parametrize("case", WRONG)
def test_problems_point_to_the_member_in_the_branch_that_the_value_is_like(make: Any, case: str) -> None:
    arguments, pointers = WRONG[case]
    spec, sent = make(), copy.deepcopy(arguments)
    result = spec.validate(**arguments)
    assert result.error.code == "invalid_parameters"
    assert {problem.pointer for problem in result.error.problems} == pointers
    assert all(problem.text for problem in result.error.problems)
    assert arguments == sent
    assert result.error == spec.exec(**arguments).error
    kit_result = Toolkit("shapes").add(spec).validate("draw", arguments)
    assert kit_result.error.problems == result.error.problems


def test_the_message_for_a_model_has_the_problems_of_the_nearest_branch_alone() -> None:
    message = "Invalid arguments: 'shape.side' is missing."
    assert from_function().validate(shape={"kind": "square"}).error.message == message


@every_source
def test_valid_arguments_are_returned_repaired(make: Any) -> None:
    result = make().validate(shape='{"kind": "square", "side": 2, "note": null}', limit="many", day="2026-01-02")
    assert not result.is_error
    assert result.value["shape"] == {"kind": "square", "side": 2, "note": None}
    assert result.value["day"] == "2026-01-02"
    assert result.meta["changed"] == ["/shape"]
    assert make().validate(**result.value).value == result.value


@every_source
def test_what_is_not_changed_is_not_listed(make: Any) -> None:
    assert make().validate(shape={"kind": "circle", "radius": 1.5}, names={"a": 1}).meta["changed"] == []


def test_no_resolver_runs_and_no_bound_value_is_shown() -> None:
    def refuse() -> str:
        raise AssertionError("the resolver ran")

    def send(text: str, token: str, user: str, times: int = 1) -> None:
        raise AssertionError("the body ran")

    spec = ToolSpec.from_function(send).bind("token", resolver=refuse).bind("user", "user.id", "ann")
    assert spec.validate("hello", times="2").value == {"text": "hello", "times": 2}
    refused = spec.validate("hello", user="bob")
    assert [problem.pointer for problem in refused.error.problems] == ["/user"]
    assert "ann" not in repr((refused, refused.error.problems))


def test_a_default_of_a_secret_parameter_is_not_shown() -> None:
    def send(text: str, code: Annotated[str, Secret] = "hunter2") -> None:
        """Send."""

    spec = ToolSpec.from_function(send)
    assert spec.validate("a").value == {"text": "a"}
    assert spec.validate("a", "mine").value == {"text": "a", "code": "mine"}


def test_other_arguments_and_aliases_have_the_names_of_the_schema() -> None:
    def put(key: Annotated[str, Field(alias="Key")], **labels: int) -> None:
        """Put."""

    spec = ToolSpec.from_function(put, include_var_keyword=True)
    assert spec.validate(Key="a", labels={"red": "1"}).value == {"Key": "a", "labels": {"red": 1}}
    open_schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert ToolSpec.from_schema("f", open_schema, lambda **_: None).validate(b=1, a=2).value == {"a": 2, "b": 1}


def test_a_tool_that_cannot_be_called_is_an_error_result() -> None:
    kit = Toolkit("files").add(draw, name="draw", audience=["boss"])
    assert kit.validate("drw").error.code == "not_found"
    assert kit.session(audience="other").validate("draw", {}).error.code == "not_available"
    assert kit.validate("draw", [1]).error.code == "invalid_parameters"


def test_a_tool_of_a_toolkit_and_an_external_one_are_validated_too() -> None:
    kit = Toolkit("files").add(draw).add(ToolSpec.from_schema("pick", {"properties": {"n": {}}}, external=True))
    assert [problem.pointer for problem in next(iter(kit)).validate().error.problems] == ["/shape"]
    assert kit.validate("pick", {"n": 1}).value == {"n": 1}


def test_problems_are_kept_by_a_pickle_and_shown_by_no_text() -> None:
    error = from_function().validate(shape={"kind": "circle", "my-password": 1}).error
    assert pickle.loads(pickle.dumps(error)).problems == error.problems
    with pytest.raises(InvalidParametersError) as caught:
        from_function().call(shape={"kind": "square"})
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems != ()
    assert "/shape" not in repr(error) + str(caught.value)
    assert "problems" not in ToolResult(error=error).to_mcp().model_dump_json()


async def pass_on(call: Any, next: Any) -> ToolResult:
    return await next(call)


@pytest.mark.parametrize("options", [{}, {"timeout": 5}, {"requires_approval": True}])
async def test_every_way_of_a_call_has_the_same_problems(options: Any) -> None:
    kit = Toolkit("shapes").add(draw, **options)
    wrong = {"shape": {"kind": "square"}}
    found = {kit.validate("draw", wrong).error.problems}
    for _ in range(2):
        found |= {kit.exec("draw", wrong).error.problems, (await kit.aexec("draw", wrong)).error.problems}
        found |= {list(kit.stream("draw", wrong))[-1].error.problems}
        kit.use(pass_on)
    (problems,) = found
    assert [problem.pointer for problem in problems] == ["/shape/side"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON, JSON)
def test_two_values_are_equal_or_differ_at_a_pointer_of_the_first(sent: Any, passed: Any) -> None:
    assert list(find_changes(sent, copy.deepcopy(sent))) == []
    for pointer in find_changes(sent, passed):
        value = sent
        for step in pointer.split("/")[1:]:
            value = value[int(step) if isinstance(value, list) else step.replace("~1", "/").replace("~0", "~")]


def echo(
    number: int,
    text: str = "a",
    items: list[int | str] = [],
    shape: Circle | Square | None = None,
    choice: Literal[1, "x"] = 1,
) -> dict[str, Any]:
    """Return the arguments."""
    return {"number": number, "text": text, "items": items, "shape": shape, "choice": choice}


ECHO = ToolSpec.from_function(echo)
SHAPES = st.fixed_dictionaries(
    {}, optional={"kind": st.sampled_from(["circle", "square"]), "radius": JSON, "side": st.integers()}
)


@given(
    st.fixed_dictionaries(
        {"number": st.integers() | st.sampled_from(["1", 1.0, None])},
        optional={
            "text": st.text(max_size=2) | st.integers(),
            "items": st.lists(JSON, max_size=3) | st.just("[1]"),
            "shape": SHAPES | st.none(),
            "choice": st.sampled_from([1, "x", "1", 2]),
            "other": JSON,
        },
    )
)
def test_the_value_is_what_the_body_gets_and_refusals_are_those_of_a_call(arguments: dict[str, Any]) -> None:
    checked, called = ECHO.validate(**arguments), ECHO.exec(**arguments)
    assert checked.error == called.error
    assert checked.value == called.value
    if checked.error is not None:
        assert checked.error.problems == called.error.problems != ()
    else:
        assert ECHO.validate(**checked.value).meta["changed"] == []
