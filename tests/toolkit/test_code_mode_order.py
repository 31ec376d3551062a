"""The order, the number and the time of the calls of programs: exclusive keys, cache, retry, limits, timeouts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.middleware import cache, limit
from ahvn_tools.results import ToolResult

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that its package is there
from tests.toolkit.test_code_mode_rules import CATCH, answer, run

GATHER = "import asyncio\nawait asyncio.gather({})"


class Overlaps:
    """Tools that note which calls run at the same time."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.seen: list[tuple[str, ...]] = []

    async def write(self, path: str) -> str:
        """Write a file."""
        return await self._run(f"write {path}")

    async def read(self, path: str) -> str:
        """Read a file."""
        return await self._run(f"read {path}")

    async def _run(self, name: str) -> str:
        self.running.append(name)
        self.seen.append(tuple(sorted(self.running)))
        await asyncio.sleep(0.02)
        self.running.remove(name)
        return name


@pytest.mark.parametrize(
    ("exclusive", "calls", "together"),
    [
        ("path", "write('a'), write('a'), write('a')", []),
        ("path", "write('a'), write('b')", [("write a", "write b")]),
        (lambda arguments: arguments["path"][0], "write('a1'), write('a2')", []),
        (True, "read('x'), write('a'), read('y'), write('b')", []),
        (True, "read('x'), read('y'), write('a')", [("read x", "read y")]),
    ],
    ids=["same value", "other value", "function", "alone", "others beside it"],
)
@pytest.mark.default_cases(3)
def test_exclusive_calls_of_a_program_never_overlap(
    sandbox: MontySandbox, exclusive: Any, calls: str, together: list[Any]
) -> None:
    tools = Overlaps()
    kit = Toolkit("k").add(tools.write, exclusive=exclusive).add(tools.read).add_code_mode(sandbox=sandbox)
    kit.exec("run_code", {"code": GATHER.format(calls)}, timeout=30)
    assert len(tools.seen) == calls.count("(")
    assert [names for names in tools.seen if len(names) > 1] == together


def test_at_most_max_concurrency_calls_of_a_program_run_at_once(sandbox: MontySandbox) -> None:
    tools = Overlaps()
    kit = Toolkit("k", max_concurrency=2).add(tools.read).add_code_mode(sandbox=sandbox)
    kit.call("run_code", {"code": GATHER.format("*[read(str(number)) for number in range(6)]")}, timeout=30)
    assert len(tools.seen) == 6
    assert max(map(len, tools.seen)) == 2


def test_exclusive_calls_of_two_programs_never_overlap(sandbox: MontySandbox) -> None:
    tools = Overlaps()
    kit = Toolkit("k").add(tools.write, exclusive="path").add_code_mode(sandbox=sandbox)
    kit.run([*answer("await write('a')", "c1"), *answer("await write('a')", "c2"), *answer("await write('a')", "c3")])
    assert tools.seen == [("write a",)] * 3


@pytest.mark.parametrize("exclusive", [True, "code", lambda _: "key"], ids=["alone", "parameter", "function"])
def test_an_exclusive_program_does_not_wait_for_itself(sandbox: MontySandbox, exclusive: Any) -> None:
    tools, kit = Overlaps(), Toolkit("k")
    kit.add(tools.write, exclusive=True if exclusive is True else lambda _: "key").add_code_mode(sandbox=sandbox)
    kit.add(kit["run_code"], rename="run_alone", exclusive=exclusive)
    result = kit.exec("run_alone", {"code": GATHER.format("write('a'), write('b')")}, timeout=30)
    assert result.value == ["write a", "write b"]
    assert sorted(tools.seen) == [("write a",), ("write b",)]


def test_equal_calls_of_a_session_run_once(sandbox: MontySandbox) -> None:
    kit, read = Toolkit("k", state={"user": "nobody"}, middleware=[cache()]), []

    @kit.tool(annotations={"readOnlyHint": True})
    def find(topic: str, user: str) -> str:
        """Find a note."""
        read.append((topic, user))
        return f"{user} on {topic}"

    kit.bind("user").add_code_mode(sandbox=sandbox)
    ann, other_ann, bob = kit.session(user="ann"), kit.session(user="ann"), kit.session(user="bob")
    code = "[await find('tea'), await find('tea'), await find('milk')]"
    expected = ["ann on tea", "ann on tea", "ann on milk"]
    assert ann.call("run_code", {"code": code}) == ann.call("run_code", {"code": code}) == expected
    assert read == [("tea", "ann"), ("milk", "ann")]
    assert ann.exec("find", {"topic": "tea"}).meta["cached"]
    assert other_ann.call("run_code", {"code": "await find('tea')"}) == "ann on tea"
    assert bob.call("run_code", {"code": "await find('tea')"}) == "bob on tea"
    assert read[2:] == [("tea", "ann"), ("tea", "bob")]
    ann.state["user"] = "eve"
    assert ann.call("run_code", {"code": "await find('tea')"}) == "eve on tea"


def test_a_cache_of_all_tools_does_not_answer_programs(sandbox: MontySandbox) -> None:
    kit, made = Toolkit("k", middleware=[cache(tools="run_code")]), []

    @kit.tool
    def send() -> int:
        """Send."""
        made.append(1)
        return len(made)

    kit.add_code_mode(sandbox=sandbox)
    assert [kit.call("run_code", {"code": "await send()"}) for _ in range(2)] == [1, 2]


def test_a_failed_call_is_repeated_as_its_tool_says_and_the_program_sees_one_result(sandbox: MontySandbox) -> None:
    pytest.importorskip("tenacity", reason="retry needs the extra `retry`")
    from ahvn_tools.middleware.retry import retry

    kit, tries = Toolkit("k", middleware=[retry(initial_delay=0.001)]), {"read": 0, "send": 0}

    def fail(name: str) -> str:
        tries[name] += 1
        if tries[name] < 3:
            raise ConnectionError(name)
        return f"{name} after {tries[name]}"

    @kit.tool(annotations={"readOnlyHint": True})
    def read() -> str:
        """Read."""
        return fail("read")

    @kit.tool
    def send() -> str:
        """Send."""
        return fail("send")

    kit.add_code_mode(sandbox=sandbox)
    code = f"a = await read()\n{CATCH.format('await send()')}\n[a, result]"
    assert kit.call("run_code", {"code": code}) == ["read after 3", "Error calling tool 'send'"]
    assert tries == {"read": 3, "send": 1}


LIMITS: dict[str, Any] = {
    "run": ({"per_run": 3}, "the limit is 3"),
    "session": ({"per_session": 3}, "limit of 3 calls"),
    "second": ({"per_minute": 3}, "the limit is 3 per minute"),
}


@pytest.mark.parametrize("place", ["toolkit", "tool"])
@pytest.mark.parametrize("name", LIMITS)
def test_calls_of_a_program_count_towards_limits(sandbox: MontySandbox, name: str, place: str) -> None:
    options, text = LIMITS[name]
    limits, made = [limit(**options)], []
    kit = Toolkit("k", middleware=limits if place == "toolkit" else [])

    @kit.tool(middleware=limits if place == "tool" else [])
    async def send() -> int:
        """Send."""
        made.append(1)
        return len(made)

    kit.add_code_mode(sandbox=sandbox)
    allowed = 3 if place == "tool" else 2  # the program is a call, too
    code = f"for i in range({allowed}):\n    await send()\n{CATCH.format('await send()')}"
    assert text in run(kit, code).value
    assert len(made) == allowed


@pytest.mark.parametrize("is_run", [True, False], ids=["in an answer", "alone"])
def test_each_program_or_answer_is_a_run_of_its_own(sandbox: MontySandbox, is_run: bool) -> None:
    kit = Toolkit("k")

    @kit.tool(middleware=[limit(per_run=2)])
    def send() -> str:
        """Send."""
        return "sent"

    kit.add_code_mode(sandbox=sandbox)
    attempt = CATCH.format("await send()")
    code = f"{attempt}\nfirst = result\n{attempt}\n[first, result]"
    for _ in range(2):
        if is_run:
            results = kit.run([*answer(code, "c1"), *answer(code, "c2")]).results
            texts = [text for _, result in results for text in result.value]
            assert texts.count("sent") == 2
            assert sum("the limit is 2" in text for text in texts) == 2
        else:
            assert kit.call("run_code", {"code": code}) == ["sent", "sent"]


def test_a_program_that_has_waited_is_still_the_same_run(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")

    @kit.tool(middleware=[limit(per_run=2)])
    def send() -> str:
        """Send."""
        return "sent"

    @kit.tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    kit.add_code_mode(sandbox=sandbox)
    waiting = kit.run(answer(f"await send()\nawait pay()\nawait send()\n{CATCH.format('await send()')}"))
    assert "the limit is 2" in kit.resume(waiting, approved=True).results[0][1].value


async def slow(seconds: float) -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return "done"


def test_a_call_that_takes_too_long_raises_in_the_program(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(slow, timeout=0.05).add_code_mode(sandbox=sandbox)
    text = kit.call("run_code", {"code": f"{CATCH.format('await slow(30)')}\n[result, await slow(0)]"})
    assert text == ["Tool 'slow' did not finish within 0.05 seconds; it was cancelled.", "done"]


async def test_the_timeout_of_a_program_is_that_of_its_call_and_covers_all_of_it(sandbox: MontySandbox) -> None:
    made = {"toolkit": 0, "call": 0, "tool": 0}

    async def run_steps(place: str) -> tuple[str, int]:
        kit = Toolkit("k", timeout=0.3 if place == "toolkit" else None)

        @kit.tool
        async def step() -> None:
            """Do a step."""
            made[place] += 1
            await asyncio.sleep(0.05)

        kit.add_code_mode(sandbox=sandbox, timeout=0.3 if place == "tool" else None)
        code = {"code": "for i in range(100):\n    await step()"}
        result = await kit.aexec("run_code", code, timeout=0.3 if place == "call" else None)
        return result.error.code, made[place]

    ended = await asyncio.gather(*map(run_steps, made))
    assert [code for code, _ in ended] == ["timeout"] * 3
    await asyncio.sleep(0.06)
    assert [*made.values()] == [count for _, count in ended]
    assert max(made.values()) < 100


def test_the_time_of_calls_is_not_the_time_of_the_program(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(slow).add_code_mode(sandbox=sandbox, limits=CodeLimits(seconds=0.2))
    programs = ["await slow(0.25)", "slow(0.25)", "await slow(0)\nwhile True: pass"]
    run = kit.run([call for number, code in enumerate(programs) for call in answer(code, f"c{number}")])
    slow_await, slow_plain, endless = [result for _, result in run.results]
    assert [slow_await.value, slow_plain.value] == ["done", "done"]
    assert "time limit" in endless.text


@pytest.mark.parametrize("awaits", ["await ", ""], ids=["async", "sync"])
def test_one_call_of_a_program_is_cancelled_by_its_id(sandbox: MontySandbox, awaits: str) -> None:
    kit = Toolkit("k")
    cancelled: list[str | None] = []

    @kit.tool
    async def wait(context: ToolContext) -> str:
        """Wait."""
        if context.call_id == "c1.2":
            kit.cancel("c1.2")
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            cancelled.append(context.call_id)
            raise
        return "ended"

    kit.add_code_mode(sandbox=sandbox)
    code = f"first = {awaits}wait()\n{CATCH.format(f'{awaits}wait()')}\n[first, result, {awaits}wait()]"
    result = kit.exec("run_code", {"code": code}, call_id="c1")
    assert result.value == ["ended", "The call of 'wait' was cancelled.", "ended"]
    assert cancelled == ["c1.2"]


def test_a_session_cancels_calls_of_its_own_programs_only(sandbox: MontySandbox) -> None:
    kit = Toolkit("k")
    ann, bob = kit.session(), kit.session()

    @kit.tool
    async def wait(by_ann: bool) -> str:
        """Wait."""
        cancelled = ann.cancel("c1.2") if by_ann else bob.cancel("c1.1")
        await asyncio.sleep(0)
        return f"cancelled: {cancelled}"

    kit.add_code_mode(sandbox=sandbox)
    code = f"first = await wait(False)\n{CATCH.format('await wait(True)')}\n[first, result]"
    result = ann.exec("run_code", {"code": code}, call_id="c1")
    assert result.value == ["cancelled: False", "The call of 'wait' was cancelled."]


def test_a_cancelled_program_starts_no_further_call(sandbox: MontySandbox) -> None:
    kit, made = Toolkit("k", max_concurrency=1), []

    @kit.tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        made.append(context.call_id)
        kit.cancel("c1")
        await asyncio.sleep(30)

    kit.add_code_mode(sandbox=sandbox)
    code = GATHER.format("wait(), wait(), wait()")
    assert kit.exec("run_code", {"code": code}, call_id="c1").error.code == "cancelled"
    assert made == ["c1.1"]


@pytest.mark.parametrize(
    "code",
    ["wait()\nwait()", "await wait()\nawait wait()", GATHER.format("wait(), wait()")],
    ids=["plain", "awaited", "gathered"],
)
@pytest.mark.parametrize("canceller", ["id", "task"])
async def test_a_tool_that_ignores_its_cancellation_does_not_let_a_cancelled_program_go_on(
    sandbox: MontySandbox, canceller: str, code: str
) -> None:
    kit, made = Toolkit("k", max_concurrency=1), []

    @kit.tool
    async def wait(context: ToolContext) -> str:
        """Wait."""
        made.append(context.call_id)
        program.cancel() if canceller == "task" else kit.cancel("c1")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        return "ended"

    kit.add_code_mode(sandbox=sandbox)
    program = asyncio.create_task(kit.aexec("run_code", {"code": code}, call_id="c1"))
    if canceller == "task":
        with pytest.raises(asyncio.CancelledError):
            await program
    else:
        assert (await program).error.code == "cancelled"
    assert made == ["c1.1"]


def test_a_middleware_can_refuse_a_call_of_a_program(sandbox: MontySandbox) -> None:
    from ahvn_tools import ToolError

    async def refuse(call: Call, next: Next) -> ToolResult:  # the word for it
        if call.name == "slow" and call.arguments["seconds"] > 1:
            raise ToolError("Wait less.")
        return await next(call)

    kit = Toolkit("k", middleware=[refuse]).add(slow).add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": CATCH.format("await slow(9)")}) == "Wait less."


@pytest.mark.exhaustive
def test_a_call_of_a_program_is_cancelled_while_it_waits_for_its_turn(sandbox: MontySandbox) -> None:
    kit, made = Toolkit("k", max_concurrency=1), []

    @kit.tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        await asyncio.sleep(0.05)  # the program makes its other calls
        made.append((context.call_id, kit.cancel("c1.2")))

    kit.add_code_mode(sandbox=sandbox)
    code = CATCH.format("await asyncio.gather(wait(), wait(), wait())")
    result = kit.exec("run_code", {"code": f"import asyncio\n{code}"}, call_id="c1")
    assert result.value == "The call of 'wait' was cancelled."
    assert made == [("c1.1", True), ("c1.3", False)]
