"""Names that a toolkit binds: no caller passes them to a tool that takes arguments of any name."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from fastmcp import Client
from pydantic import BaseModel

from ahvn_tools import ToolCall, Toolkit, ToolResult, ToolSpec
from ahvn_tools.middleware import Call, Next

TEXT = {"type": "string"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "open": {},
    "open for texts": {"additionalProperties": TEXT},
    "a pattern": {"patternProperties": {"^t": TEXT}, "additionalProperties": False},
    "a pattern of a part": {"allOf": [{"patternProperties": {"^t": TEXT}}]},
    "unevaluated": {"unevaluatedProperties": TEXT},
    "a rule for names": {"propertyNames": {"pattern": "^[a-z.]+$"}},
}


def echo(schema: dict[str, Any]) -> ToolSpec:
    def received(**arguments: Any) -> dict[str, Any]:
        return arguments

    return ToolSpec.from_schema("echo", {"type": "object", "properties": {"q": TEXT}, **schema}, received)


def takes_any(**values: str) -> dict[str, str]:
    """Return the values."""
    return values


def needs_tenant(tenant: str) -> str:
    """Return the tenant."""
    return tenant


def code(result: Any) -> Any:
    return None if result.error is None else result.error.code


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_bound_name_is_refused_although_the_schema_is_open(schema):
    kit = Toolkit("k", state={"tenant": "acme"}).add(echo(schema)).add(needs_tenant)
    assert kit.call("echo", {"q": "a", "tenant": "eve"}) == {"q": "a", "tenant": "eve"}
    kit.bind("tenant")
    refused = kit.exec("echo", {"q": "a", "tenant": "eve"})
    assert (refused.error.code, refused.text) == (
        "invalid_parameters",
        "Invalid arguments: unknown argument 'tenant' (known: 'q').",
    )
    assert kit.call("echo", {"q": "a", "topic": "b"} if schema != SCHEMAS["open"] else {"q": "a", "topic": 1})
    kit.unbind("tenant")
    assert kit.call("echo", {"tenant": "eve"}) == {"tenant": "eve"}


@pytest.mark.parametrize("name", ["tenant.id", "tenant id", "Tenant", "größe"])
def test_any_name_can_be_bound_and_is_compared_exactly(name):
    kit = Toolkit("k").bind(name, default="x").add(echo({}))
    assert code(kit.exec("echo", {name: "eve"})) == "invalid_parameters"
    assert kit.call("echo", {name + "s": "eve"}) == {name + "s": "eve"}


@pytest.mark.parametrize("values", [{"tenant": "eve"}, '{"tenant": "eve"}'])
def test_a_bound_name_is_refused_inside_of_keyword_arguments(values):
    kit = Toolkit("k").bind("tenant", default="acme")
    kit.add(takes_any, include_var_keyword=True)
    result = kit.exec("takes_any", {"values": values})
    assert (result.error.code, result.text) == (
        "invalid_parameters",
        "Invalid arguments: 'values' may not contain 'tenant'.",
    )
    assert kit.call("takes_any", {"values": {"team": "a"}}) == {"team": "a"}


def test_a_function_with_an_open_schema_of_its_own_refuses_a_bound_name():
    kit = Toolkit("k").bind("tenant", default="acme")
    kit.add(takes_any, input_schema={"type": "object", "additionalProperties": True})
    assert code(kit.exec("takes_any", {"tenant": "eve"})) == "invalid_parameters"
    assert kit.call("takes_any", {"team": "a"}) == {"team": "a"}


def test_a_parameter_that_is_declared_under_the_name_is_bound_as_ever():
    kit = Toolkit("k").bind("tenant", default="acme").add(echo({"properties": {"tenant": TEXT}}))
    assert kit.call("echo", {"q": "a"}) == {"q": "a", "tenant": "acme"}
    assert code(kit.exec("echo", {"tenant": "eve"})) == "invalid_parameters"


def test_a_parameter_that_is_renamed_keeps_both_names_closed():
    kit = Toolkit("k").bind("tenant", default="acme").bind("team", default="red")
    kit.add(echo({"properties": {"tenant": TEXT}}), arguments={"tenant": {"name": "team"}})
    assert kit.call("echo") == {"tenant": "red"}
    for name in ("tenant", "team"):
        assert code(kit.exec("echo", {name: "eve"})) == "invalid_parameters"


def test_a_name_that_an_inner_toolkit_binds_is_refused_in_the_outer_one():
    inner = Toolkit("inner").add(echo({}))
    outer = Toolkit("outer").add(inner, arguments={"q": {"name": "query"}})
    inner.bind("tenant", default="acme")
    outermost = Toolkit("outermost").add(outer)
    for kit in (inner, outer, outermost, outermost.session(), outermost.select(names=["echo"])):
        assert code(kit.exec("echo", {"tenant": "eve"})) == "invalid_parameters"
    assert code(outermost["echo"].clone().exec(tenant="eve")) == "invalid_parameters"
    inner.unbind("tenant")
    assert outermost.call("echo", {"tenant": "eve"}) == {"tenant": "eve"}


async def test_a_name_that_is_preset_in_all_tools_of_an_addition_is_refused_by_those_without_it():
    kit = Toolkit("k").add(echo({}), needs_tenant, preset={"tenant": "acme"})
    service = Toolkit("service").add(echo({})).add(needs_tenant).to_fastmcp_server()
    remote = await Toolkit("remote").aadd_mcp(service, tools={"*": {"preset": {"tenant": "acme"}}})
    assert kit.call("needs_tenant") == await remote.acall("needs_tenant") == "acme"
    for toolkit in (kit, remote, Toolkit("outer").add(kit)):
        assert code(await toolkit.aexec("echo", {"tenant": "eve"})) == "invalid_parameters"
        assert await toolkit.acall("echo", {"team": "a"}) == {"team": "a"}


def test_arguments_that_a_middleware_has_made_of_others_are_checked_too():
    async def unpack(call: Call, next: Next) -> ToolResult:
        return await next(replace(call, arguments=json.loads(call.arguments["q"])))

    kit = Toolkit("k", middleware=[unpack]).bind("tenant", default="acme").add(echo({}))
    assert code(kit.exec("echo", {"q": '{"tenant": "eve"}'})) == "invalid_parameters"


def test_a_field_of_a_model_to_finish_with_may_have_a_bound_name():
    class Answer(BaseModel):
        tenant: str

    kit = Toolkit("k").bind("tenant", default="acme").add(echo({})).finish_with("echo", Answer)
    assert kit.exec("echo", {"tenant": "eve"}).meta["structured"] == Answer(tenant="eve")


async def test_every_way_to_call_refuses_a_bound_name():
    kit = Toolkit("k", state={"tenant": "acme"}).add(echo({})).add(needs_tenant).bind("tenant")
    kit.add_search()
    session, arguments = kit.session(tenant="acme"), {"q": "a", "tenant": "eve"}
    calls = [ToolCall(id="c1", name="echo", arguments=arguments)]
    inner = {"name": "echo", "arguments": arguments}
    with ThreadPoolExecutor(1) as executor:
        results = [
            session.exec("echo", arguments),
            await session.aexec("echo", arguments),
            list(session.stream("echo", arguments))[-1],
            [result async for result in session.astream("echo", arguments)][-1],
            session.run(calls).results[0][1],
            (await session.arun(calls)).results[0][1],
            session.exec("call_tool", inner),
            session["echo"].exec(**arguments),
            session["echo"].submit(executor, **arguments).result(30),
            next(iter(session.map(executor, [("echo", arguments)]))),
            await kit.await_(kit.start("echo", arguments), 30),
        ]
    assert [code(getattr(result, "result", result)) for result in results] == ["invalid_parameters"] * len(results)


async def test_a_client_cannot_pass_a_bound_name():
    kit = Toolkit("k", state={"tenant": "acme"}).add(echo({})).bind("tenant")
    async with Client(kit.to_fastmcp_server()) as client:
        with pytest.raises(Exception, match="unknown argument 'tenant'"):
            await client.call_tool("echo", {"q": "a", "tenant": "eve"})
