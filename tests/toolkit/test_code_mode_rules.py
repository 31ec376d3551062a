"""The rules of the host in programs: bound parameters, visible tools, approvals, secrets, nesting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from ahvn_tools import ApprovalRules, ToolCall, ToolContext, Toolkit
from ahvn_tools.toolkit.run import Run

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that its package is there
from tests.toolkit.subjects import is_running, noting

CATCH = "try:\n    result = {}\nexcept RuntimeError as error:\n    result = str(error)\nresult"
"""A program that returns the result of a call, or the text of its error."""


def answer(code: str, id: str = "c1") -> list[ToolCall]:  # the id of the call
    return [ToolCall(id=id, name="run_code", arguments={"code": code})]


def run(view: Any, code: str) -> Any:
    [(_, result)] = view.run(answer(code)).results
    return result


async def arun(view: Any, code: str) -> Any:
    [(_, result)] = (await view.arun(answer(code))).results
    return result.value


async def read_stream(view: Any, code: str) -> Any:
    return [result async for result in view.astream("run_code", {"code": code})][-1].value


async def call_served(view: Any, code: str) -> Any:
    from fastmcp import Client

    async with Client(view.to_fastmcp_server()) as client:
        return (await client.call_tool("run_code", {"code": code})).structured_content["result"]


WAYS: dict[str, Callable[[Any, str], Any]] = {
    "call": lambda kit, code: kit.call("run_code", {"code": code}),
    "acall": lambda kit, code: asyncio.run(kit.acall("run_code", {"code": code})),
    "exec": lambda kit, code: kit.exec("run_code", {"code": code}).value,
    "aexec": lambda kit, code: asyncio.run(kit.aexec("run_code", {"code": code})).value,
    "run": lambda kit, code: run(kit, code).value,
    "arun": lambda kit, code: asyncio.run(arun(kit, code)),
    "stream": lambda kit, code: list(kit.stream("run_code", {"code": code}))[-1].value,
    "astream": lambda kit, code: asyncio.run(read_stream(kit, code)),
    "stream_run": lambda kit, code: list(kit.stream_run(answer(code)))[-1].results[0][1].value,
    "background": lambda kit, code: kit.wait(kit.start("run_code", {"code": code}), timeout=30).result.value,
    "session": lambda kit, code: kit.session().call("run_code", {"code": code}),
    "selection": lambda kit, code: kit.select(names=["find", "run_code"]).call("run_code", {"code": code}),
    "served": lambda kit, code: asyncio.run(call_served(kit, code)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.default_cases(6)
def test_calls_pass_through_bindings_and_middleware_however_the_program_is_run(sandbox: MontySandbox, way: str) -> None:
    seen: list[tuple[str, str]] = []

    kit = Toolkit("k", state={"user": "ann"}, middleware=[noting(seen, lambda call: (call.name, call.id))])

    @kit.tool
    def find(topic: str, user: str) -> str:
        """Find a note."""
        return f"{user} on {topic}"

    kit.bind("user").add_code_mode(sandbox=sandbox)
    code = "import asyncio\nawait asyncio.gather(find('tea'), find('milk'))"
    assert WAYS[way](kit, code) == ["ann on tea", "ann on milk"]
    outer = seen[0][1]
    assert [name for name, _ in seen] == ["run_code", "find", "find"]
    assert sorted(call_id for _, call_id in seen[1:]) == [f"{outer}.1", f"{outer}.2"]


@pytest.mark.parametrize(
    "call",
    ["find('tea', 'eve')", "find('tea', user='eve')", "find('tea', **{'user': 'eve'})", "find(**{'user': 'eve'})",
     "find('tea', **{'who.user': 'eve'})", "find(*['tea', 'eve'])", "[f for f in [find]][0]('tea', user='eve')"],
    ids=["position", "keyword", "kwargs", "all kwargs", "state key", "star", "alias"],
)  # fmt: skip
@pytest.mark.parametrize("takes_any", [False, True], ids=["declared", "any keyword"])
def test_a_bound_parameter_cannot_be_passed(sandbox: MontySandbox, call: str, takes_any: bool) -> None:
    kit, received = Toolkit("k", state={"who": {"user": "canary-ann"}}), []

    def find(topic: str, user: str) -> str:
        """Find a note."""
        received.append((user, {}))
        return topic

    def find_any(topic: str, user: str, **options: str) -> str:
        """Find a note."""
        received.append((user, options))
        return topic

    kit.add(find_any if takes_any else find, rename="find").bind("user", "who.user").add_code_mode(sandbox=sandbox)
    assert "user" not in kit.call("describe_tools", {"names": ["find"]})
    result = kit.exec("run_code", {"code": f"await {call}"})
    assert "canary" not in result.text
    if takes_any and "who.user" in call:  # to this function, a keyword as any other
        assert received in ([], [("canary-ann", {"who.user": "eve"})])
    else:
        assert result.is_error
        assert received == []


def make_views(sandbox: MontySandbox) -> Toolkit:
    def hidden() -> str:
        """Read the hidden canary."""
        return "hidden"

    def visible() -> str:
        """Read what is visible."""
        return "visible"

    def send() -> str:
        """Send what is visible."""
        return "sent"

    kit = Toolkit("k", secret_key=b"k" * 16).add_group("extra", "Extra tools.")
    kit.add(hidden, audience="main", group="extra", tags=["off"]).add(visible, tags=["on"])
    kit.add(send, requires_approval=True, tags=["on"])
    return kit.add_code_mode(sandbox=sandbox, tags=["on"])


VIEWS: dict[str, Callable[[Toolkit], Any]] = {
    "selection": lambda kit: kit.activate("extra").select(
        names=["visible", "send", "run_code", "search_tools", "describe_tools"]
    ),
    "audience": lambda kit: kit.activate("extra").select(audience="sub"),
    "inactive group": lambda kit: kit.session(audience="main"),
    "session": lambda kit: kit.activate("extra").session(),
    "tags": lambda kit: kit.activate("extra").select(tags=["on"]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_tool_that_the_caller_does_not_see_does_not_exist_in_programs(sandbox: MontySandbox, view: str) -> None:
    seen = VIEWS[view](make_views(sandbox))
    assert "`hidden` used when not defined" in seen.exec("run_code", {"code": "await hidden()"}).text
    assert seen.exec("run_code", {"code": "f = visible\nawait eval('hidden')()"}).is_error
    assert "hidden" not in seen.call("search_tools", {"query": "hidden canary"})
    assert seen.exec("describe_tools", {"names": ["hidden"]}).text.startswith("There is no function 'hidden'")
    assert seen.call("run_code", {"code": "await visible()"}) == "visible"


def test_a_tool_that_became_invisible_does_not_exist_in_a_continued_program(sandbox: MontySandbox) -> None:
    kit = make_views(sandbox)
    session = kit.session(audience="main").activate("extra")
    waiting = session.run(answer(f"await send()\n{CATCH.format('await hidden()')}"))
    session.deactivate("extra")
    done = session.resume(waiting, approved=True)
    assert done.results[0][1].value == "There is no function 'hidden'."


def test_a_tool_that_was_removed_while_a_program_runs_is_not_called(sandbox: MontySandbox) -> None:
    kit = make_views(sandbox)

    @kit.tool
    def drop() -> None:
        """Drop a tool."""
        kit.remove("visible")

    code = f"await drop()\n{CATCH.format('await visible()')}"
    assert kit.call("run_code", {"code": code}).startswith("There is no tool 'visible'")


def test_an_approver_decides_on_each_call_once(sandbox: MontySandbox) -> None:
    asked, made = [], []

    def decide(request: Any) -> Any:
        asked.append((request.tool, request.arguments, request.call_id))
        return {"amount": 5} if request.arguments["amount"] == 500 else request.arguments["amount"] < 50 or "Too much."

    kit = Toolkit("k", approver=decide)

    @kit.tool(requires_approval=True)
    def pay(amount: int) -> int:
        """Pay."""
        made.append(amount)
        return amount

    kit.add_code_mode(sandbox=sandbox)
    code = f"done = [await pay(1), await pay(500)]\n{CATCH.format('await pay(99)')}\n[done, result]"
    result = kit.exec("run_code", {"code": code}, call_id="c1")
    assert result.value == [[1, 5], "The call of 'pay' was rejected: Too much."]
    assert asked == [("pay", {"amount": amount}, f"c1.{n}") for n, amount in enumerate([1, 500, 99], start=1)]
    assert made == [1, 5]


@pytest.mark.parametrize("where", ["rules", "option"])
def test_a_program_that_was_approved_itself_is_not_asked_for_again(sandbox: MontySandbox, where: str) -> None:
    made: list[int] = []
    kit = Toolkit("k", rules=ApprovalRules(ask=["run_code"]) if where == "rules" else None)

    @kit.tool(requires_approval=True)
    def pay(amount: int) -> int:
        """Pay."""
        made.append(amount)
        return amount

    kit.add_code_mode(sandbox=sandbox, requires_approval=where == "option")
    waiting, asked = kit.run(answer("await pay(1) + await pay(2)")), []
    while waiting.pending:
        asked += [request.tool for request in waiting.pending]
        waiting = kit.resume(Run.from_json(json.loads(json.dumps(waiting.to_json()))), approved=True)
    assert asked == ["run_code", "pay", "pay"]
    assert waiting.results[0][1].value == 3
    assert made == [1, 2]


@pytest.mark.parametrize("caller", ["program", "call_tool"])
def test_the_time_of_an_approver_does_not_count_towards_a_timeout(sandbox: MontySandbox, caller: str, clocks) -> None:
    running: list[bool] = []

    async def decide(_: Any) -> bool:
        running.extend(map(is_running, clocks))
        return True

    def pay() -> str:
        """Pay."""
        running.append(is_running(clocks[-1]))
        return "paid"

    async def ask(context: ToolContext) -> str:
        """Ask a person."""
        await context.aask("pay")
        running.append(is_running(clocks[-1]))
        return "asked"

    kit = Toolkit("k", approver=decide, timeout=60).add(pay, requires_approval=True).add(ask)
    if caller == "call_tool":
        kit.add_search(core=[])
        assert kit.call("call_tool", {"name": "pay"}) == "paid"
        assert running == [False, True]
    else:
        kit.add_code_mode(sandbox=sandbox)
        assert kit.call("run_code", {"code": "await pay()"}) == "paid"
        assert running == [False, True]
        del clocks[:], running[:]
        assert kit.call("run_code", {"code": "await ask()"}) == "asked"
        assert running == [False, False, True]


def test_a_program_cannot_run_a_program(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")

    @kit.tool
    async def sneak(context: ToolContext) -> Any:
        """Run a program."""
        return await context.toolkit.acall("run_code", {"code": "1"})

    @kit.tool
    def sneak_sync(context: ToolContext) -> Any:
        """Run a program."""
        return context.toolkit.call("run_code", {"code": "1"})

    @kit.tool
    async def sneak_later(context: ToolContext) -> Any:
        """Run a program in the background."""
        toolkit = context.toolkit
        return (await toolkit.await_(toolkit.start("run_code", {"code": "1"}), timeout=30)).result.text

    kit.add(*kit.background_tools()).add_code_mode(sandbox=sandbox)
    for code in ("await sneak()", "await sneak_sync()", "await sneak_later()"):
        assert "A program cannot run another program." in kit.exec("run_code", {"code": code}).text
    for name in ("run_code", "search_tools", "describe_tools", "start_call"):
        assert "used when not defined" in kit.exec("run_code", {"code": f"await {name}('1')"}).text
    assert kit.call("sneak") == 1


def test_a_tool_of_a_program_can_run_programs_of_another_sandbox(sandbox: MontySandbox) -> None:
    inner_sandbox = MontySandbox(max_processes=1)
    helper = Toolkit("helper").add_code_mode(sandbox=inner_sandbox)
    kit = Toolkit("k")

    @kit.tool
    async def delegate(code: str) -> Any:
        """Let a helper run a program."""
        return await helper.acall("run_code", {"code": code})

    kit.add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": "await delegate('1 + 1')"}) == 2
    inner_sandbox.close()


def test_calls_of_a_program_have_the_roots_of_the_program(sandbox: MontySandbox, tmp_path: Any) -> None:
    kit = Toolkit("k", roots=[tmp_path])

    @kit.tool
    def find_roots(context: ToolContext) -> list[str]:
        """Return the roots."""
        return [str(root) for root in context.roots]

    kit.add_code_mode(sandbox=sandbox)
    (tmp_path / "inner").mkdir()
    code = {"code": "await find_roots()"}
    assert kit.call("run_code", code) == [str(tmp_path.resolve())]
    assert kit.call("run_code", code, roots=[tmp_path / "inner"]) == [str((tmp_path / "inner").resolve())]
    assert kit.session(roots=[]).call("run_code", code) == []
