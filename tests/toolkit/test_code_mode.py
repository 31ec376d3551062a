"""Programs of a model: what they can call, how they fail, and how they wait for an approval."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any, Literal

import psutil
import pytest
from pydantic import BaseModel

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.errors import ToolkitError
from tests.execution.entry_points import until

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above


class Issue(BaseModel):
    id: int
    title: str
    state: Literal["open", "closed"] = "open"


class Desk:
    """A toolkit for programs, and the calls that its tools received."""

    def __init__(self, sandbox: MontySandbox, **limits: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.kit = Toolkit("desk", state={"user": "canary-ann"}, secret_key=b"k" * 16)
        self.kit.add(self.list_issues, self.comment, self.fail)
        self.kit.add(self.send, requires_approval=True)
        self.kit.bind("user").add_code_mode(sandbox=sandbox, limits=CodeLimits(**limits))

    def list_issues(self, user: str, state: Literal["open", "closed"] = "open") -> list[Issue]:
        """List issues."""
        self.calls.append(("list_issues", user, state))
        return [Issue(id=1, title="one", state=state), Issue(id=2, title="two", state=state)]

    async def comment(self, issue: int, text: str) -> str:
        """Comment on an issue."""
        self.calls.append(("comment", issue, text))
        return f"{issue}: {text}"

    def fail(self, text: str) -> str:
        """Fail."""
        raise ValueError(text)

    def send(self, to: str, text: str) -> str:
        """Send a message."""
        self.calls.append(("send", to, text))
        return f"sent to {to}"

    def run(self, code: str, **arguments: Any) -> Any:
        return self.kit.exec("run_code", {"code": code, **arguments})

    def answer(self, code: str) -> Any:
        call = {"id": "c1", "function": {"name": "run_code", "arguments": json.dumps({"code": code})}}
        return self.kit.run({"tool_calls": [call]}, format="openai")


@pytest.fixture
def desk(sandbox: MontySandbox) -> Desk:
    return Desk(sandbox)


def test_only_the_tools_for_programs_and_core_tools_are_listed(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")
    kit.add(ok, other).add_code_mode(core=["ok"], sandbox=sandbox)
    assert [tool["function"]["name"] for tool in kit.to("openai")] == [
        "ok",
        "search_tools",
        "describe_tools",
        "run_code",
    ]


def ok() -> str:
    """Be fine."""
    return "ok"


def other() -> str:
    """Be other."""
    return "other"


def test_the_value_of_the_last_expression_is_the_result(desk: Desk) -> None:
    assert desk.run("[issue['title'] for issue in await list_issues()]").value == ["one", "two"]


def test_a_program_without_await_calls_functions_directly(desk: Desk) -> None:
    assert desk.run("issues = list_issues(state='closed')\nissues[0]['state']").value == "closed"


def test_a_program_that_runs_its_calls_with_asyncio_need_not_await_them(desk: Desk) -> None:
    calls = "comment(1, 'a'), comment(2, 'b')"
    assert desk.run(f"import asyncio\nasyncio.run(asyncio.gather({calls}))").value == ["1: a", "2: b"]


def test_gathered_calls_run_at_once(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")
    barrier: list[asyncio.Event] = []

    @kit.tool
    async def meet(name: str) -> str:
        """Wait for the other call."""
        if barrier:
            barrier[0].set()
        else:
            barrier.append(asyncio.Event())
            await barrier[0].wait()
        return name

    kit.add_code_mode(sandbox=sandbox)
    code = "import asyncio\nawait asyncio.gather(meet('a'), meet('b'))"
    assert kit.call("run_code", {"code": code}, timeout=30) == ["a", "b"]


def test_what_a_program_prints_is_returned_with_its_result(desk: Desk) -> None:
    result = desk.run("print('hello')\n1")
    assert result.value == 1
    assert json.loads(result.text) == {"result": 1, "printed": "hello\n"}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("await list_isues()", "Line 1: Name `list_isues` used when not defined"),
        ("await list_issues(state='opn')", 'Expected `Literal["open", "closed"]`'),
        ("await list_issues()\nawait comment('x', 'y')", "Line 2"),
        ("await comment(1)", "text"),
        ("list_issues(", "Line 1"),
        ("await list_issues(user='eve')", "`user` does not match any known parameter"),
        ("await run_code('1')", "`run_code` used when not defined"),
    ],
    ids=["unknown function", "wrong literal", "wrong type", "missing", "syntax", "bound", "nested"],
)
def test_a_program_that_does_not_fit_the_stubs_makes_no_call(desk: Desk, code: str, text: str) -> None:
    result = desk.run(code)
    assert result.is_error
    assert text in result.text
    assert desk.calls == []


def test_a_dry_run_makes_no_call(desk: Desk) -> None:
    assert desk.run("await comment(1, 'x')", dry_run=True).value == "The types of the program fit. It was not run."
    assert desk.run("while True: pass", dry_run=True).is_error is False
    assert desk.run("await comment('x', 'x')", dry_run=True).is_error
    assert desk.calls == []


def test_a_bound_parameter_cannot_be_passed_in_a_way_that_the_check_does_not_see(desk: Desk) -> None:
    for code in (
        "options = {'user': 'eve'}\nawait list_issues(**options)",
        "await eval('list_issues')(user='eve')",
        "call = list_issues\nawait call(user='eve')",
        "await list_issues('open', 'eve')",
    ):
        result = desk.run(code)
        assert result.is_error, code
        assert "canary" not in result.text
    assert desk.calls == []


def test_a_failed_program_says_where_and_what_it_printed(desk: Desk) -> None:
    text = desk.run("print('before')\n1 / 0").text
    assert 'File "program.py", line 2' in text
    assert "ZeroDivisionError" in text
    assert "before" in text


def test_approved_calls_run_once_and_nothing_before_them_again(desk: Desk) -> None:
    code = "a = await comment(1, 'x')\nb = await send('bob', a)\nc = await comment(2, b)\n[a, b, c]"
    run = desk.answer(code)
    assert [(request.tool, request.arguments) for request in run.pending] == [("send", {"to": "bob", "text": "1: x"})]
    assert desk.calls == [("comment", 1, "x")]
    done = desk.kit.resume(run, approved=True)
    assert json.loads(done.messages[0]["content"]) == {"result": ["1: x", "sent to bob", "2: sent to bob"]}
    assert desk.calls == [("comment", 1, "x"), ("send", "bob", "1: x"), ("comment", 2, "sent to bob")]


def test_a_program_without_await_waits_for_an_approval_too(desk: Desk) -> None:
    run = desk.answer("a = send('bob', 'x')\n[a, comment(1, a)]")
    done = desk.kit.resume(run, approved=True)
    assert json.loads(done.messages[0]["content"]) == {"result": ["sent to bob", "1: sent to bob"]}
    assert desk.calls == [("send", "bob", "x"), ("comment", 1, "sent to bob")]


@pytest.mark.parametrize(
    ("limits", "code", "text"),
    [
        ({"seconds": 0.1}, "while True:\n    pass", "time limit"),
        ({"memory_bytes": 1_000_000}, "'x' * 100_000_000", "memory"),
        ({"calls": 2}, "for i in range(3):\n    await comment(i, 'x')", "at most 2 calls"),
        ({"recursion": 20}, "def f():\n    return f()\nf()", "recursion"),
        ({"code_chars": 10}, "1 + 1 + 1 + 1 + 1", "too long"),
    ],
    ids=["time", "memory", "calls", "recursion", "length"],
)
def test_a_program_has_limits(sandbox: MontySandbox, limits: Any, code: str, text: str) -> None:
    result = Desk(sandbox, **limits).run(code)
    assert result.is_error
    assert text in result.text.lower()


def test_a_session_is_the_programs_session(desk: Desk) -> None:
    for user in ("ann", "bob"):
        assert desk.kit.session(user=user).call("run_code", {"code": "len(await list_issues())"}) == 2
    assert [call[1] for call in desk.calls] == ["ann", "bob"]


def test_a_tool_outside_of_the_selection_does_not_exist(desk: Desk) -> None:
    view = desk.kit.select(names=["comment", "run_code"])
    assert "used when not defined" in view.exec("run_code", {"code": "await send('bob', 'x')"}).text
    assert view.call("run_code", {"code": "await comment(1, 'x')"}) == "1: x"


def test_a_tool_in_a_program_can_end_the_session(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")

    @kit.tool
    def finish(context: ToolContext) -> str:
        """Finish."""
        context.end_session()
        return "done"

    kit.add_code_mode(sandbox=sandbox)
    assert kit.exec("run_code", {"code": "await finish()"}).meta["ends_session"] is True


def test_descriptions_say_how_many_tools_there_are(desk: Desk) -> None:
    assert desk.kit.call("search_tools", {"query": "issues"}).startswith("2 of 4 functions:")
    text = desk.kit.call("describe_tools", {"names": ["comment"]})
    assert 'async def comment(issue: int, text: str) -> str:\n    """Comment on an issue."""' in text
    assert "user" not in desk.kit.call("describe_tools", {"names": ["list_issues"], "level": "typed"})


def test_cancelling_the_program_cancels_its_calls_and_ends_its_worker(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")
    cancelled: list[str] = []

    @kit.tool
    async def wait() -> None:
        """Wait."""
        kit.cancel("c1")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("wait")
            raise

    kit.add_code_mode(sandbox=sandbox)
    for code in ("await wait()", "wait()", "import asyncio\nawait asyncio.gather(wait(), wait())"):
        cancelled.clear()
        assert kit.exec("run_code", {"code": code}, call_id="c1").error.code == "cancelled"
        assert cancelled


def test_an_endless_program_is_ended_by_a_timeout_of_its_call(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox, seconds=1000)
    assert desk.kit.exec("run_code", {"code": "while True:\n    pass"}, timeout=0.2).error.code == "timeout"
    assert desk.run("1").value == 1


@pytest.mark.exhaustive
def test_programs_of_many_sessions_run_at_once_without_a_mix(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)
    code = "import asyncio\nfound = await asyncio.gather(list_issues(), list_issues(state='closed'))\n"

    async def run(user: int, number: int) -> None:
        session = desk.kit.session(user=f"user-{user}")
        result = await session.aexec("run_code", {"code": f"{code}[len(found[0]), await comment({user}, '{number}')]"})
        assert result.value == [2, f"{user}: {number}"]

    async def run_all() -> None:
        await asyncio.gather(*[run(user, number) for user in range(10) for number in range(10)])

    asyncio.run(run_all())
    assert {call[1] for call in desk.calls if call[0] == "list_issues"} == {f"user-{user}" for user in range(10)}


def test_inline_declarations_are_those_of_the_view(desk: Desk, sandbox: MontySandbox) -> None:
    kit = Toolkit("k", state={"user": "canary-ann"}).add(desk.list_issues, desk.comment).bind("user")
    kit.add_code_mode(inline=True, sandbox=sandbox)
    [tool] = kit.to("openai")
    text = tool["function"]["description"]
    assert "async def list_issues(state: Literal['open', 'closed'] = 'open')" in text
    assert "async def comment(issue: int, text: str) -> str:" in text
    [tool] = kit.select(names=["comment", "run_code"]).to("openai")
    assert "list_issues" not in tool["function"]["description"]


def test_the_tools_can_have_other_names(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(ok).add_code_mode(sandbox=sandbox, run_tool={"name": "python"})
    assert kit.call("python", {"code": "ok()"}) == "ok"


def test_what_is_no_sandbox_and_no_limit_is_refused() -> None:
    with pytest.raises(ToolkitError, match="A sandbox has the methods"):
        Toolkit("k").add_code_mode(sandbox=object())  # type: ignore[arg-type]  # what this tests
    with pytest.raises(ToolkitError, match="`calls` of programs is a number above 0"):
        CodeLimits(calls=0)


def test_an_image_can_be_returned_and_not_read(sandbox: MontySandbox) -> None:
    from fastmcp.utilities.types import Image

    kit = Toolkit("k")

    @kit.tool
    def draw(color: str) -> Any:
        """Draw."""
        return Image(data=color.encode(), format="png")

    @kit.tool(requires_approval=True)
    def publish() -> str:
        """Publish."""
        return "published"

    kit.add_code_mode(sandbox=sandbox)
    drawing = "a = await draw('red')\nb = await draw('blue')\ndone = await publish()\n"
    code = drawing + "{'picture': b, 'size': len(a), 'done': done}"
    call = {"id": "c1", "function": {"name": "run_code", "arguments": {"code": code}}}
    run = kit.resume(kit.run({"tool_calls": [call]}, format="openai"), approved=True)
    [(_, result)] = run.results
    assert result.value == {"picture": "[image 2]", "size": len("[image 1]"), "done": "published"}
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.content[1].data == "Ymx1ZQ=="


def test_closing_a_sandbox_ends_its_worker_processes() -> None:
    own = MontySandbox(max_processes=2)
    before = set(psutil.Process().children())
    assert Desk(own).run("1").value == 1
    assert set(psutil.Process().children()) - before
    own.close()
    assert until(lambda: set(psutil.Process().children()) <= before)


def test_the_worker_processes_of_a_toolkit_end_with_it() -> None:
    before = set(psutil.Process().children())
    kit = Toolkit("k").add(ok).add_code_mode()
    assert kit.call("run_code", {"code": "ok()"}) == "ok"
    del kit
    gc.collect()
    assert until(lambda: set(psutil.Process().children()) <= before)


def test_a_continued_program_can_name_functions_that_it_has_not_called(desk: Desk) -> None:
    run = desk.answer("await send('bob', 'x')\nfunctions = [comment]\nawait functions[0](1, 'y')")
    done = desk.kit.resume(run, approved=True)
    assert json.loads(done.messages[0]["content"]) == {"result": "1: y"}
