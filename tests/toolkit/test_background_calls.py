"""Calls in the background: start, status, wait and cancel, for each session alone, and gone with it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolCall, ToolContext, ToolError, Toolkit, ToolResult
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    LimitExceededError,
    ToolkitError,
    ToolLookupError,
    ToolNotAvailableError,
    ToolNotFoundError,
)
from ahvn_tools.toolkit import background_calls, model_tools
from tests.execution.entry_points import program, run, until
from tests.mcp.loopback import over_http
from tests.toolkit.subjects import in_threads, noting

WAIT = 30.0
"""How many seconds a test waits for what should happen soon."""

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


class Bodies:
    """Tools that begin, wait until they may go on, and say how they ended."""

    def __init__(self, **options: Any) -> None:
        self.began, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.kit = Toolkit("k", **options).bind("user", default="host")
        for body in (self.add, self.wait, self.asleep, self.count, self.fail, self.leave):
            self.kit.add(body)

    def add(self, a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    def wait(self, user: str, context: ToolContext) -> str:
        """Wait until the test lets it go on."""
        self.began.set()
        context.report_progress(1, 2, "half")
        while not self.go_on.wait(0.01):
            context.check_cancelled()
        return user

    async def asleep(self) -> None:
        """Sleep until it is cancelled."""
        self.began.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.ended.set()

    async def count(self) -> AsyncIterator[int]:
        """Yield three numbers, then sleep."""
        for number in range(3):
            yield number
        self.began.set()
        await asyncio.sleep(600)

    def fail(self) -> None:
        """Fail."""
        raise ToolError("no such file")

    def leave(self) -> None:
        """End the process."""
        raise SystemExit(3)


@pytest.fixture
def bodies() -> Iterator[Bodies]:
    """Tools of a toolkit; what they run ends with the test."""
    bodies = Bodies(max_background=3)
    yield bodies
    bodies.go_on.set()
    for status in bodies.kit.background_calls():
        bodies.kit.cancel(status.id)


class TestResult:
    def test_a_call_runs_while_its_caller_goes_on(self, bodies: Bodies):
        call_id = bodies.kit.start("wait")
        assert bodies.began.wait(WAIT)
        assert until(lambda: bodies.kit.status(call_id).progress is not None)
        status = bodies.kit.status(call_id)
        assert (status.id, status.tool, status.state, status.is_running) == (call_id, "wait", "running", True)
        assert (status.result, status.pending) == (None, None)
        assert status.progress == {"progress": 1, "total": 2, "message": "half"}
        bodies.go_on.set()
        done = bodies.kit.wait(call_id, WAIT)
        assert (done.state, done.is_running, status.state) == ("done", False, "running")
        assert (done.result.value, done.result.id, done.result.is_last) == ("host", call_id, True)
        assert bodies.kit.status(call_id) == done
        assert done.elapsed > 0

    async def test_async_code_starts_and_waits(self, bodies: Bodies):
        call_id = bodies.kit.start("add", {"a": 1})
        done = await bodies.kit.await_(call_id, WAIT)
        assert done.result.value == 2
        assert await bodies.kit.await_(call_id) == done

    def test_a_wait_that_is_too_short_returns_the_status_and_the_call_goes_on(self, bodies: Bodies):
        call_id = bodies.kit.start("wait")
        assert bodies.kit.wait(call_id, 0).state == "running"
        assert bodies.kit.wait(call_id, 0.01).is_running
        assert run(bodies.kit.await_, call_id, 0.01).is_running
        bodies.go_on.set()
        assert bodies.kit.wait(call_id).state == "done"

    async def test_cancelling_the_task_that_waits_does_not_cancel_the_call(self, bodies: Bodies):
        call_id = bodies.kit.start("wait")
        waiting = asyncio.create_task(bodies.kit.await_(call_id))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        bodies.go_on.set()
        assert (await bodies.kit.await_(call_id, WAIT)).state == "done"

    @pytest.mark.parametrize("timeout", [-1, math.nan, "1", True])
    def test_a_wait_takes_a_number_of_seconds(self, bodies: Bodies, timeout: Any):
        call_id = bodies.kit.start("add", {"a": 1})
        with pytest.raises(ToolkitError, match="at least 0"):
            bodies.kit.wait(call_id, timeout)

    def test_an_item_that_only_looks_like_progress_is_an_item(self, bodies: Bodies):
        def odd() -> Iterator[ToolResult]:
            yield ToolResult(1, meta={"progress": "half"})

        status = bodies.kit.add(odd).wait(bodies.kit.start("odd"), WAIT)
        assert (status.state, status.items, status.progress, status.result.value) == ("done", 1, None, [1])

    def test_an_error_of_the_tool_is_in_the_status(self, bodies: Bodies):
        failed = bodies.kit.wait(bodies.kit.start("fail"), WAIT)
        assert failed.state == "failed"
        assert failed.result.text == "no such file"
        refused = bodies.kit.wait(bodies.kit.start("add", {"a": "x"}), WAIT)
        assert (refused.state, refused.result.error.code) == ("failed", "invalid_parameters")

    def test_a_body_that_ends_the_process_ends_only_its_call(self, bodies: Bodies):
        failed = bodies.kit.wait(bodies.kit.start("leave"), WAIT)
        assert failed.state == "failed"
        assert failed.result.text == "Error calling tool 'leave'"
        assert bodies.kit.wait(bodies.kit.start("add", {"a": 1}), WAIT).state == "done"

    def test_a_timeout_ends_the_call(self, bodies: Bodies):
        late = bodies.kit.wait(bodies.kit.start("asleep", timeout=0.01), WAIT)
        assert (late.state, late.result.error.code) == ("failed", "timeout")

    @pytest.mark.parametrize(
        ("name", "error"), [("nope", ToolNotFoundError), ("idle", ToolNotAvailableError), ("here", ToolkitError)]
    )
    def test_a_call_that_cannot_start_raises_at_once(self, bodies: Bodies, name: str, error: type[Exception]):
        bodies.kit.add(bodies.add, rename="idle", group="off").deactivate("off")
        bodies.kit.add(bodies.add, rename="here", run_in_thread=False)
        with pytest.raises(error):
            bodies.kit.start(name, timeout=5)
        assert bodies.kit.background_calls() == []

    def test_a_call_has_the_context_variables_of_its_starter(self):
        def read() -> str:
            return VARIABLE.get()

        kit = Toolkit("k").add(read)
        token = VARIABLE.set("starter's")
        call_id = kit.start("read")
        VARIABLE.reset(token)
        done = kit.wait(call_id, WAIT)
        assert done.result.value == "starter's"

    def test_a_call_passes_through_the_middleware(self):
        seen: list[tuple[str, str | None]] = []

        session = Bodies(middleware=[noting(seen, lambda call: (call.id, call.session_id))]).kit.session(session_id="s")
        call_id = session.start("add", {"a": 1}, call_id="mine")
        assert session.wait(call_id, WAIT).state == "done"
        assert (call_id, seen) == ("mine", [("mine", "s")])

    def test_a_tool_starts_a_call_that_outlives_its_own(self, bodies: Bodies):
        @bodies.kit.tool(exclusive="key")
        def work(key: str) -> str:
            return key

        @bodies.kit.tool(exclusive="key")
        async def delegate(key: str, context: ToolContext) -> list[str]:
            call_id = context.toolkit.start("work", {"key": key})
            return [call_id, (await context.toolkit.await_(call_id, 0.05)).state]

        session = bodies.kit.session()
        call_id, state = session.call("delegate", {"key": "a"})
        assert state == "running"  # the call waits for the key of the call that has started it
        assert session.wait(call_id, WAIT).state == "done"


class TestApproval:
    def test_a_call_that_waits_for_an_approval_is_resumed(self, bodies: Bodies):
        bodies.kit.add(bodies.add, rename="pay", requires_approval=True)
        session = bodies.kit.session(session_id="s")
        call_id = session.start("pay", {"a": 1})
        waiting = session.wait(call_id, WAIT)
        assert (waiting.state, waiting.is_running) == ("waiting_for_approval", False)
        assert (waiting.pending.call_id, waiting.pending.arguments) == (call_id, {"a": 1})
        session.resume(waiting.pending, approved=True)
        done = session.status(call_id)
        assert (done.state, done.result.value, done.pending) == ("done", 2, None)

    async def test_a_rejected_call_has_failed(self, bodies: Bodies):
        bodies.kit.add(bodies.add, rename="pay", requires_approval=True)
        call_id = bodies.kit.start("pay", {"a": 1})
        waiting = await bodies.kit.await_(call_id, WAIT)
        assert waiting.pending is not None
        await bodies.kit.aresume(waiting.pending, approved=False)
        rejected = bodies.kit.status(call_id)
        assert (rejected.state, rejected.result.error.code) == ("failed", "rejected")

    async def test_a_call_whose_resume_was_cancelled_is_cancelled_and_a_finished_one_keeps_its_result(
        self, bodies: Bodies
    ):
        bodies.kit.add(bodies.add, rename="pay", requires_approval=True)
        bodies.kit.add(bodies.wait, rename="hang", requires_approval=True)
        paid, hung = bodies.kit.start("pay", {"a": 1}), bodies.kit.start("hang")
        waiting = [await bodies.kit.await_(call_id, WAIT) for call_id in (paid, hung)]
        await bodies.kit.aresume(waiting[0], approved=True)
        task = asyncio.create_task(bodies.kit.aresume(waiting[1], approved=True))
        await asyncio.to_thread(bodies.began.wait, WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for status in waiting:
            rejected = await bodies.kit.aresume(status, approved=False)
            assert "may have run already" in rejected.results[0][1].text
        done, lost = bodies.kit.status(paid), bodies.kit.status(hung)
        assert (done.state, done.result.value) == ("done", 2)
        assert (lost.state, lost.result.error.code) == ("cancelled", "cancelled")

    def test_the_result_of_another_call_of_the_same_id_is_not_taken_over(self, bodies: Bodies):
        bodies.kit.add(bodies.add, rename="pay", requires_approval=True)
        bodies.kit.start("add", {"a": 5}, call_id="c1")
        pending = bodies.kit.run([ToolCall(id="c1", name="pay", arguments={"a": 1})]).pending
        bodies.kit.resume(pending[0], approved=True)
        done = bodies.kit.wait("c1", WAIT)
        assert done.result.value == 6

    @pytest.mark.parametrize("is_approved", [True, False])
    def test_a_decision_about_another_request_of_the_same_id_is_not_taken_over(self, bodies: Bodies, is_approved: bool):
        bodies.kit.add(bodies.add, rename="pay", requires_approval=True)
        bodies.kit.start("pay", {"a": 100}, call_id="c1")
        bodies.kit.wait("c1", WAIT)
        run = bodies.kit.run([ToolCall(id="c1", name="pay", arguments={"a": 1})])
        bodies.kit.resume(run, approved=is_approved)
        pending = bodies.kit.status("c1").pending
        assert pending.arguments == {"a": 100}
        bodies.kit.resume(pending, approved=True)
        done = bodies.kit.status("c1").result
        assert done.value == 101

    def test_a_request_that_is_not_of_the_call_is_no_request(self, bodies: Bodies):
        bodies.kit.add(bodies.add, rename="pay", requires_approval=True)

        async def inner(context: ToolContext) -> ToolResult:
            result: ToolResult = await context.toolkit.aexec("pay", {"a": 1})
            return result

        def imitated() -> ToolResult:
            error = ErrorDetail(code="approval_required", message="Wait.")
            return ToolResult(error=error, meta={"approval": {"id": 1}})

        bodies.kit.add(inner, imitated)
        for name in ("inner", "imitated"):
            status = bodies.kit.wait(bodies.kit.start(name), WAIT)
            assert (status.state, status.pending) == ("failed", None)


class TestCancel:
    @pytest.mark.parametrize("name", ["wait", "asleep"])
    def test_a_running_call_is_cancelled_by_its_id(self, bodies: Bodies, name: str):
        call_id = bodies.kit.start(name)
        assert bodies.began.wait(WAIT)
        assert bodies.kit.cancel(call_id)
        cancelled = bodies.kit.wait(call_id, WAIT)
        assert (cancelled.state, cancelled.result.is_interrupted) == ("cancelled", True)
        assert not bodies.kit.cancel(call_id)

    def test_a_cancelled_call_keeps_the_items_so_far(self, bodies: Bodies):
        call_id = bodies.kit.start("count")
        assert bodies.began.wait(WAIT)
        assert bodies.kit.status(call_id).items == 3
        bodies.kit.cancel(call_id)
        cancelled = bodies.kit.wait(call_id, WAIT)
        assert (cancelled.items, cancelled.result.value) == (3, [0, 1, 2])

    def test_a_call_can_be_cancelled_before_it_has_begun(self, bodies: Bodies):
        for _ in range(20):
            call_id = bodies.kit.start("asleep")
            assert bodies.kit.cancel(call_id)
            assert bodies.kit.wait(call_id, WAIT).state == "cancelled"

    def test_the_toolkit_cancels_calls_of_its_sessions(self, bodies: Bodies):
        session = bodies.kit.session()
        call_id = session.start("asleep")
        assert bodies.began.wait(WAIT)
        assert not bodies.kit.session().cancel(call_id)
        assert bodies.kit.cancel(call_id)
        assert session.wait(call_id, WAIT).state == "cancelled"


class TestBounds:
    def test_a_session_runs_a_limited_number_of_calls_at_once(self, bodies: Bodies):
        first, *_ = [bodies.kit.start("wait") for _ in range(3)]
        with pytest.raises(LimitExceededError, match="3 background calls run") as raised:
            bodies.kit.start("add", {"a": 1})
        assert raised.value.code == "limit_exceeded"
        other = bodies.kit.session()
        assert other.wait(other.start("add", {"a": 1}), WAIT).state == "done"
        bodies.kit.cancel(first)
        bodies.kit.wait(first, WAIT)
        assert bodies.kit.wait(bodies.kit.start("add", {"a": 1}), WAIT).state == "done"

    @pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
    def test_the_limit_is_a_positive_number(self, limit: Any):
        with pytest.raises(ToolkitError, match="max_background must be a whole number"):
            Toolkit("k", max_background=limit)

    def test_the_id_of_a_running_call_is_taken_and_that_of_a_finished_one_is_not(self, bodies: Bodies):
        bodies.kit.start("wait", call_id="c")
        with pytest.raises(ToolkitError, match="'c' runs"):
            bodies.kit.start("add", {"a": 1}, call_id="c")
        bodies.go_on.set()
        assert bodies.kit.wait("c", WAIT).tool == "wait"
        bodies.kit.start("add", {"a": 1}, call_id="c")
        assert bodies.kit.wait("c", WAIT).tool == "add"
        assert len(bodies.kit.background_calls()) == 1

    def test_the_oldest_results_are_dropped_first(self, bodies: Bodies, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(background_calls, "MAX_KEPT_RESULTS", 2)
        running = bodies.kit.start("wait")
        ids = [bodies.kit.start("add", {"a": n}) for n in range(2)]
        for call_id in ids:
            bodies.kit.wait(call_id, WAIT)
        bodies.kit.wait(bodies.kit.start("add", {"a": 3}, call_id="last"), WAIT)
        kept = [status.id for status in bodies.kit.background_calls()]
        assert kept[0] == running
        assert (len(kept), kept[-1]) == (3, "last")

    def test_an_unknown_id_and_that_of_another_session_are_the_same_error(self, bodies: Bodies):
        one, two = bodies.kit.session(), bodies.kit.session()
        call_id = one.start("add", {"a": 1}, call_id="c1")
        assert one.select(names=["add"]).wait(call_id, WAIT).state == "done"
        messages = set()
        for toolkit, unknown in [(two, call_id), (bodies.kit, call_id), (one.session(), call_id), (one, "other")]:
            for method in (toolkit.status, toolkit.wait):
                with pytest.raises(ToolLookupError) as raised:
                    method(unknown)
                messages.add(str(raised.value.args[0]).replace("other", call_id))
            with pytest.raises(ToolLookupError):
                run(toolkit.await_, unknown)
            assert not toolkit.cancel(unknown)
        assert len(messages) == 1

    @pytest.mark.exhaustive
    def test_1000_calls_of_50_sessions_do_not_mix(self):
        kit = Toolkit("k", max_background=20).bind("user")

        @kit.tool
        async def aecho(user: int, n: int) -> list[int]:
            await asyncio.sleep(0)
            return [user, n]

        @kit.tool
        def echo(user: int, n: int) -> list[int]:
            return [user, n]

        sessions = [kit.session(user=user) for user in range(50)]
        results: dict[tuple[int, int], Any] = {}

        def use(user: int) -> None:
            session = sessions[user]
            ids = [session.start("echo" if n % 2 else "aecho", {"n": n}) for n in range(20)]
            for n, call_id in enumerate(ids):
                done = session.wait(call_id, WAIT)
                results[user, n] = None if done.result is None else done.result.value

        in_threads(functools.partial(use, user) for user in range(50))
        assert results == {(user, n): [user, n] for user in range(50) for n in range(20)}
        assert all(len(session.background_calls()) == 20 for session in sessions)


class TestSessionEnd:
    @pytest.mark.parametrize("kind", ["session", "selection", "toolkit"])
    def test_calls_are_cancelled_when_nothing_refers_to_their_session(self, kind: str):
        bodies = Bodies()
        kit, bodies.kit = bodies.kit, Toolkit("other")
        session = kit if kind == "toolkit" else kit.session()
        session = session.select(names=["asleep"]) if kind == "selection" else session
        session.start("asleep")
        assert bodies.began.wait(WAIT)
        del kit
        assert not bodies.ended.wait(0.01)
        del session
        gc.collect()
        assert bodies.ended.wait(WAIT)

    def test_a_call_that_has_outlived_its_session_cannot_start_others(self):
        bodies = Bodies()
        errors: list[Exception] = []

        @bodies.kit.tool
        async def linger(context: ToolContext) -> None:
            bodies.began.set()
            try:
                await asyncio.sleep(600)
            finally:
                try:
                    context.toolkit.start("add", {"a": 1})
                except ToolkitError as error:
                    errors.append(error)
                bodies.ended.set()

        session = bodies.kit.session()
        session.start("linger")
        assert bodies.began.wait(WAIT)
        del session
        assert bodies.ended.wait(WAIT)
        assert [str(error) for error in errors] == [
            "The session of this call has ended, and its background calls with it."
        ]

    @pytest.mark.exhaustive
    def test_a_process_ends_while_calls_run(self):
        code = """if True:
            import asyncio, time
            from ahvn_tools import Toolkit
            kit = Toolkit("k")

            @kit.tool
            def sync() -> None:
                time.sleep(600)

            @kit.tool
            async def asleep() -> None:
                await asyncio.sleep(600)

            ids = [kit.start("sync"), kit.start("asleep"), kit.session().start("asleep")]
            print(kit.wait(ids[0], 0.2).state, kit.wait(ids[1], 0.2).state)
            """
        started = time.monotonic()
        status, output, errors = program(code)
        assert (status, output.split(), errors) == (0, ["running", "running"], "")
        assert time.monotonic() - started < 30


def with_tools(bodies: Bodies, **options: Any) -> Toolkit:
    return bodies.kit.add(*bodies.kit.background_tools(**options))


class TestTools:
    def test_a_model_starts_waits_and_reads(self, bodies: Bodies):
        session = with_tools(bodies).session(user="ann")
        started = session.call("start_call", {"name": "wait"})
        assert (started["tool"], started["state"]) == ("wait", "running")
        assert bodies.began.wait(WAIT)
        assert session.call("wait_for_call", {"id": started["id"], "seconds": 0})["state"] == "running"
        assert until(lambda: "progress" in session.call("call_status", {"id": started["id"]}))
        bodies.go_on.set()
        done = session.call("wait_for_call", {"id": started["id"]})
        assert (done["state"], done["result"]) == ("done", "ann")
        assert session.call("call_status", {"id": started["id"]}) == done
        assert session.status(started["id"]).state == "done"

    def test_a_model_cancels(self, bodies: Bodies):
        kit = with_tools(bodies)
        started = kit.call("start_call", {"name": "count"})
        assert bodies.began.wait(WAIT)
        cancelled = kit.call("cancel_call", {"id": started["id"]})
        assert (cancelled["state"], cancelled["items"]) == ("cancelled", 3)
        assert "cancelled" in cancelled["error"]

    def test_a_model_reads_the_error_of_a_call(self, bodies: Bodies):
        kit = with_tools(bodies)
        started = kit.call("start_call", {"name": "fail"})
        failed = kit.exec("wait_for_call", {"id": started["id"]})
        assert not failed.is_error
        assert (failed.value["state"], failed.value["error"]) == ("failed", "no such file")

    def test_a_model_reads_the_content_of_a_result(self, bodies: Bodies):
        kit = with_tools(bodies).add(lambda: TextContent(type="text", text="hello"), rename="greet")
        started = kit.call("start_call", {"name": "greet"})
        done = kit.exec("wait_for_call", {"id": started["id"]})
        status, greeting = done.content
        assert '"state": "done"' in status.text
        assert greeting.text == "hello"

    def test_a_model_sees_the_images_of_an_error_result(self, bodies: Bodies):
        image = ImageContent(type="image", data="AAAA", mime_type="image/png")
        failure = ToolResult(error=ErrorDetail(code="tool_error", message="too large"), blocks=(image,))
        kit = with_tools(bodies).add(lambda: failure, rename="draw")
        started = kit.call("start_call", {"name": "draw"})
        status, shown = kit.exec("wait_for_call", {"id": started["id"]}).content
        assert '"error": "too large"' in status.text
        assert shown == image

    @pytest.mark.parametrize("name", ["call_status", "wait_for_call", "cancel_call"])
    def test_an_id_of_another_session_is_unknown_to_a_model(self, bodies: Bodies, name: str):
        kit = with_tools(bodies)
        one, two = kit.session(), kit.session()
        started = one.call("start_call", {"name": "add", "arguments": {"a": 1}})
        refused = two.exec(name, {"id": started["id"]})
        assert refused.error is not None
        assert "There is no background call" in refused.text

    def test_a_model_reads_why_a_call_cannot_start(self, bodies: Bodies):
        kit = with_tools(bodies)
        unknown = kit.exec("start_call", {"name": "ad"})
        assert (unknown.error.code, "'add'" in unknown.text) == ("not_found", True)
        for _ in range(3):
            kit.start("wait")
        full = kit.exec("start_call", {"name": "add", "arguments": {"a": 1}})
        assert full.error.code == "limit_exceeded"
        itself = kit.exec("start_call", {"name": "wait_for_call", "arguments": {"id": "x"}})
        assert itself.text == "'wait_for_call' cannot run in the background. Call it directly."

    def test_a_wait_ends_before_its_own_timeout(self, bodies: Bodies, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(model_tools, "_SHARE_OF_TIMEOUT", 0.001)
        kit = with_tools(bodies, wait_for_call={"timeout": 60})
        started = kit.call("start_call", {"name": "asleep"})
        assert kit.call("wait_for_call", {"id": started["id"], "seconds": 100})["state"] == "running"

    def test_names_and_texts_can_be_replaced(self, bodies: Bodies):
        kit = with_tools(
            bodies, start_call={"name": "launch", "description": "Launch it."}, cancel_call={"name": "stop"}
        )
        assert [tool.name for tool in kit.background_tools()] == [
            "start_call",
            "call_status",
            "wait_for_call",
            "cancel_call",
        ]
        assert kit["launch"].description == "Launch it."
        started = kit.call("launch", {"name": "asleep"})
        assert kit.call("stop", {"id": started["id"]})["state"] == "cancelled"

    def test_a_tool_that_a_session_does_not_see_is_not_started(self, bodies: Bodies):
        selection = with_tools(bodies).select(names=["start_call", "fail"])
        refused = selection.exec("start_call", {"name": "add", "arguments": {"a": 1}})
        assert refused.error.code == "not_available"

    def test_middleware_sees_the_call_once(self):
        seen: list[str] = []

        kit = with_tools(Bodies(middleware=[noting(seen)]))
        started = kit.call("start_call", {"name": "add", "arguments": {"a": 1}})
        kit.wait(started["id"], WAIT)
        assert seen == ["add"]


class TestServed:
    async def test_a_client_reads_its_own_calls_in_later_requests(self, bodies: Bodies):
        server = with_tools(bodies).to_fastmcp_server()
        async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as two:
            started = (await one.call_tool("start_call", {"name": "wait"})).data
            assert bodies.began.wait(WAIT)
            refused = await two.call_tool_mcp("call_status", {"id": started["id"]})
            assert refused.is_error
            bodies.go_on.set()
            done = (await one.call_tool("wait_for_call", {"id": started["id"]})).data
            assert (done["state"], done["result"]) == ("done", "host")

    async def test_calls_are_cancelled_when_their_client_leaves(self, bodies: Bodies):
        server = with_tools(bodies).to_fastmcp_server()
        async with Client(server, mode="legacy") as client:
            await client.call_tool("start_call", {"name": "asleep"})
            assert bodies.began.wait(WAIT)
            assert not bodies.ended.is_set()
        assert await asyncio.to_thread(bodies.ended.wait, WAIT)

    async def test_a_client_over_http_reads_its_calls_until_it_leaves(self, bodies: Bodies):
        with over_http(with_tools(bodies).to_fastmcp_server()) as url:
            async with Client(url, mode="legacy") as client:
                started = (await client.call_tool("start_call", {"name": "asleep"})).data
                assert await asyncio.to_thread(bodies.began.wait, WAIT)
                assert (await client.call_tool("call_status", {"id": started["id"]})).data["state"] == "running"
            assert await asyncio.to_thread(bodies.ended.wait, WAIT)

    async def test_the_client_of_a_recognized_session_keeps_its_calls_between_requests(self, bodies: Bodies):
        server = with_tools(bodies).to_fastmcp_server(session=lambda request: "one")
        async with Client(server) as client:
            started = (await client.call_tool("start_call", {"name": "add", "arguments": {"a": 1}})).data
            done = (await client.call_tool("wait_for_call", {"id": started["id"]})).data
            assert done["result"] == 2

    async def test_a_call_outlives_its_request_to_a_stateless_server(self, bodies: Bodies):
        server = with_tools(bodies).to_fastmcp_server(session=lambda request: "one")
        with over_http(server, stateless_http=True) as url:
            async with Client(url, mode="legacy") as client:
                started = (await client.call_tool("start_call", {"name": "wait"})).data
                bodies.go_on.set()
                done = (await client.call_tool("wait_for_call", {"id": started["id"]})).data
                assert (done["state"], done["result"]) == ("done", "host")

    async def test_an_anonymous_client_cannot_start_calls(self, bodies: Bodies):
        server = with_tools(bodies).to_fastmcp_server()
        async with Client(server) as client:
            refused = await client.call_tool_mcp("start_call", {"name": "add", "arguments": {"a": 1}})
            assert refused.is_error
            assert "cannot distinguish this client from others" in str(refused.content)

    async def test_the_error_of_a_call_is_masked(self, bodies: Bodies):
        def crash() -> None:
            raise ValueError("/etc/secret")

        server = with_tools(bodies).add(crash).to_fastmcp_server(session=lambda request: "one")
        async with Client(server) as client:
            started = (await client.call_tool("start_call", {"name": "crash"})).data
            failed = (await client.call_tool("wait_for_call", {"id": started["id"]})).data
            assert failed["error"] == "Error calling tool 'crash'"
