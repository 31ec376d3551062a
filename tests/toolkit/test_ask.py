"""Questions of a body: `ToolContext.ask` asks a person in the tool's own words, and the body goes on where it asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from typing import Annotated, Any

import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from mcp.shared.exceptions import MCPError

from ahvn_tools import ApprovalRequest, Secret, ToolCall, ToolContext, Toolkit, ToolSpec
from ahvn_tools.errors import CallRejectedError, ToolError, ToolkitError
from ahvn_tools.middleware import retry
from ahvn_tools.middleware.pending import arguments_digest
from ahvn_tools.toolkit import elicitation
from ahvn_tools.toolkit.elicitation import Elicitation
from ahvn_tools.toolkit.run import Run
from tests.mcp.loopback import over_http
from tests.toolkit.subjects import is_running

WAIT = 60
"""Seconds within which anything must have happened."""

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class Desk:
    """A toolkit with a tool that asks, and a record of what happened."""

    def __init__(self, is_async: bool, **options: Any) -> None:
        self.events: list[str] = []
        self.kit = Toolkit("desk", **options)
        self.kit.add(self.async_body() if is_async else self.sync_body(), name="deploy", timeout=None)

    def async_body(self) -> Any:
        async def deploy(target: str, context: ToolContext, times: int = 1) -> str:
            self.events.append("start")
            for number in range(times):
                assert await context.aask(f"deploy to {target}", {"number": number}) is True
                self.events.append(f"deployed {number}")
            return "done"

        return deploy

    def sync_body(self) -> Any:
        def deploy(target: str, context: ToolContext, times: int = 1) -> str:
            self.events.append("start")
            for number in range(times):
                assert context.ask(f"deploy to {target}", {"number": number}) is True
                self.events.append(f"deployed {number}")
            return "done"

        return deploy


def answer_of(*calls: tuple[str, str, Any]) -> Any:
    return {
        "tool_calls": [
            {"id": key, "function": {"name": name, "arguments": json.dumps(arguments)}}
            for key, name, arguments in calls
        ]
    }


def every_way(kit: Toolkit, name: str, arguments: Any) -> list[Any]:
    """Call from sync and from async code, in each way, and return the values."""
    answer = answer_of(("c1", name, arguments), ("c2", name, arguments))

    async def run() -> list[Any]:
        values = [await kit.acall(name, arguments), (await kit.aexec(name, arguments)).value]
        values += [[result.value async for result in kit.astream(name, arguments)][-1]]
        return values + [result.value for _, result in (await kit.arun(answer, format="openai")).results]

    values = [kit.call(name, arguments), kit.exec(name, arguments).value]
    values += [[result.value for result in kit.stream(name, arguments)][-1]]
    values += [result.value for _, result in kit.run(answer, format="openai").results]
    return values + asyncio.run(run())


@BOTH
@pytest.mark.parametrize("timeout", [None, WAIT])
def test_the_approver_is_asked_and_the_body_goes_on_where_it_asked(is_async, timeout):
    requests: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    desk = Desk(is_async, approver=approver, timeout=timeout)
    assert every_way(desk.kit, "deploy", {"target": "live", "times": 2}) == ["done"] * 10
    assert sorted(desk.events) == ["deployed 0"] * 10 + ["deployed 1"] * 10 + ["start"] * 10
    assert len(requests) == 20
    assert {request.action for request in requests} == {"deploy to live"}
    assert [request.details for request in requests[:2]] == [{"number": 0}, {"number": 1}]
    assert (requests[0].tool, requests[0].arguments) == ("deploy", {"target": "live", "times": 2})


@BOTH
@pytest.mark.parametrize(
    ("decision", "text"),
    [
        ("Not on Friday.", "The call of 'deploy' was rejected: Not on Friday."),
        (False, "The call of 'deploy' was rejected. Do not try it again unless you are asked to."),
        (None, "The call of 'deploy' was rejected. Do not try it again unless you are asked to."),
        (1, "The call of 'deploy' was rejected. Do not try it again unless you are asked to."),
    ],
)
def test_a_rejected_question_ends_a_body_that_does_not_handle_it(is_async, decision, text):
    async def approver(request: ApprovalRequest) -> Any:
        return decision

    desk = Desk(is_async, approver=approver)
    error = desk.kit.exec("deploy", {"target": "live"}).error
    assert (error.code, error.message, desk.events) == ("rejected", text, ["start"])
    with pytest.raises(CallRejectedError, match="was rejected"):
        desk.kit.call("deploy", {"target": "live"})
    result = asyncio.run(desk.kit.aexec("deploy", {"target": "live"}))
    assert result.error.message == text


def test_a_body_may_handle_a_rejection():
    kit = Toolkit("kit", approver=lambda request: "too big")

    @kit.tool
    async def clean(context: ToolContext) -> str:
        try:
            await context.aask("delete 900 files")
        except CallRejectedError as error:
            return f"kept: {error.message}"
        return "deleted"

    assert kit.call("clean") == "kept: The call of 'clean' was rejected: too big"


@BOTH
def test_an_approver_that_fails_approves_nothing_and_shows_nothing(is_async, caplog):
    def approver(request: ApprovalRequest) -> bool:
        raise RuntimeError("hunter2")

    desk = Desk(is_async, approver=approver)
    error = desk.kit.exec("deploy", {"target": "live"}).error
    assert error.message == "The approver of tool 'deploy' failed, so nothing was approved."
    assert "The approver of tool 'deploy' raised RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text
    assert desk.events == ["start"]


def test_an_approver_cannot_edit_what_a_body_asks():
    desk = Desk(True, approver=lambda request: {"target": "test"})
    assert desk.kit.exec("deploy", {"target": "live"}).is_error
    assert desk.events == ["start"]


def test_an_async_approver_runs_in_the_loop_of_an_async_caller():
    async def run() -> Any:
        requests: asyncio.Queue[Any] = asyncio.Queue()

        async def approver(request: ApprovalRequest) -> bool:
            answer = asyncio.get_running_loop().create_future()
            await requests.put((request, answer))
            return bool(await answer)

        async def person() -> None:
            while True:
                _, answer = await requests.get()
                answer.set_result(True)

        desks = [Desk(False, approver=approver), Desk(True, approver=approver)]
        answering = asyncio.create_task(person())
        try:
            return [await asyncio.wait_for(desk.kit.acall("deploy", {"target": "live"}), WAIT) for desk in desks]
        finally:
            answering.cancel()

    assert asyncio.run(run()) == ["done", "done"]


def test_a_body_with_a_loop_of_its_own_may_ask():
    kit = Toolkit("kit", approver=lambda request: True)

    @kit.tool
    def nested(context: ToolContext) -> bool:
        return asyncio.run(context.aask("go on"))

    assert kit.call("nested") is True
    assert asyncio.run(kit.acall("nested")) is True


def test_asking_synchronously_in_the_loop_of_the_approver_is_an_error_that_names_the_fix(caplog):
    kit = Toolkit("kit", approver=lambda request: True)

    @kit.tool
    async def wrong(context: ToolContext) -> bool:
        return context.ask("go on")

    assert kit.exec("wrong").is_error
    assert "use `await context.aask(…)`" in caplog.text


@BOTH
def test_the_time_of_the_approver_does_not_count_towards_the_timeout(is_async, clocks):
    running: list[bool] = []

    def approver(request: ApprovalRequest) -> bool:
        running.append(is_running(clocks[-1]))
        return True

    desk = Desk(is_async, approver=approver, timeout=WAIT)
    desk.events = Events(lambda: running.append(is_running(clocks[-1])))
    assert desk.kit.exec("deploy", {"target": "live"}).value == "done"
    assert asyncio.run(desk.kit.aexec("deploy", {"target": "live"})).value == "done"
    assert running == [True, False, True] * 2


class Events(list[str]):
    """A list that calls a function for each event."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def append(self, event: str) -> None:
        self.function()


def test_questions_at_the_same_time_hold_the_clock_until_the_last_is_answered(clocks):
    running: list[bool] = []

    async def approver(request: ApprovalRequest) -> bool:
        if request.action == "second":
            await asyncio.wait_for(first_answered.wait(), WAIT)
            clocks[-1].resume()  # as after a chunk that a reader has taken
            running.append(is_running(clocks[-1]))
        return True

    kit, first_answered = Toolkit("kit", approver=approver, timeout=WAIT), asyncio.Event()

    @kit.tool
    async def both(context: ToolContext) -> bool:
        second = asyncio.create_task(context.aask("second"))
        await context.aask("first")
        first_answered.set()
        await second
        running.append(is_running(clocks[-1]))
        return True

    assert kit.exec("both").value is True
    assert running == [False, True]


@BOTH
@pytest.mark.parametrize("from_async", [False, True])
def test_a_cancelled_call_waits_no_longer(is_async, from_async):
    asked, never = threading.Event(), threading.Event()

    def approver(request: ApprovalRequest) -> bool:
        asked.set()
        never.wait(WAIT)
        return False

    desk = Desk(is_async, approver=approver)

    def cancel() -> None:
        asked.wait(WAIT)
        desk.kit.cancel("c1")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        if from_async:
            result = asyncio.run(desk.kit.aexec("deploy", {"target": "live"}, call_id="c1"))
        else:
            result = desk.kit.exec("deploy", {"target": "live"}, call_id="c1")
    finally:
        canceller.join(WAIT)
        never.set()
    assert (result.error.code, result.is_interrupted, desk.events) == ("cancelled", True, ["start"])


@BOTH
def test_without_an_approver_the_call_waits_and_the_body_runs_again_with_the_answer(is_async):
    desk = Desk(is_async)
    run = desk.kit.run(answer_of(("c1", "deploy", {"target": "live", "times": 2})), format="openai")
    [request] = run.pending
    assert (request.action, request.details, request.is_call_approved) == ("deploy to live", {"number": 0}, False)
    second = desk.kit.resume(run, approved=True)
    assert [request.details for request in second.pending] == [{"number": 1}]
    last = desk.kit.resume(second, approved=True)
    assert last[0]["content"] == "done"
    assert desk.events == ["start", "start", "deployed 0", "start", "deployed 0", "deployed 1"]
    with pytest.raises(ToolkitError, match="was used before"):
        desk.kit.resume(second, approved=True)
    assert "may have run already" in desk.kit.resume(second, approved=False)[0]["content"]
    assert len(desk.events) == 6


@BOTH
def test_each_way_to_call_without_an_approver_gives_the_request(is_async):
    desk = Desk(is_async)
    results = [desk.kit.exec("deploy", {"target": "live"}), *desk.kit.stream("deploy", {"target": "live"})]
    results.append(asyncio.run(desk.kit.aexec("deploy", {"target": "live"})))
    for result in results:
        request = ApprovalRequest.from_json(result.meta["approval"])
        assert (result.error.code, request.action) == ("approval_required", "deploy to live")
        assert desk.kit.resume(request, approved=True).results[0][1].value == "done"


def test_a_rejected_request_of_a_body_does_not_run_it_again():
    desk = Desk(False)
    run = desk.kit.run(answer_of(("c1", "deploy", {"target": "live"})), format="openai")
    rejected = desk.kit.resume(run, approved=False, reason="Not on Friday.")
    assert rejected[0]["content"] == "Error: The call of 'deploy' was rejected: Not on Friday."
    assert desk.events == ["start"]


def test_an_approved_question_answers_no_other_one_and_each_only_once():
    """The body asks for something else, or the same twice: each needs its own approval."""
    actions = ["delete a", "delete b", "delete b", "delete b"]
    kit, deleted = Toolkit("kit"), list[str]()

    @kit.tool
    def delete(context: ToolContext) -> str:
        action = actions.pop(0)
        context.ask(action)
        deleted.append(action)
        context.ask(action)
        deleted.append(action)
        return "done"

    run = kit.run(answer_of(("c1", "delete", {})), format="openai")
    second = kit.resume(run, approved=True)
    assert ([request.action for request in second.pending], deleted) == (["delete b"], [])
    third = kit.resume(second, approved=True)
    assert ([request.action for request in third.pending], deleted) == (["delete b"], ["delete b"])
    assert kit.resume(third, approved=True)[0]["content"] == "done"


def test_a_call_that_needs_an_approval_as_a_whole_may_ask_as_well():
    desk = Desk(False)
    kit = Toolkit("kit").add(desk.kit["deploy"], requires_approval=True)
    run = kit.run(answer_of(("c1", "deploy", {"target": "live"})), format="openai")
    assert [request.action for request in run.pending] == [None]
    second = kit.resume(run, approved=True)
    assert [(request.action, request.is_call_approved) for request in second.pending] == [("deploy to live", True)]
    assert kit.resume(second, approved=True)[0]["content"] == "done"


def test_approving_what_a_body_asks_does_not_approve_the_whole_call():
    kit = Toolkit("kit")

    @kit.tool
    def both(context: ToolContext) -> bool:
        context.ask("one part")
        return context.is_approved

    run = kit.run(answer_of(("c1", "both", {})), format="openai")
    assert kit.resume(run, approved=True)[0]["content"] == "false"


def test_a_saved_run_is_resumed_in_another_toolkit_with_the_same_key():
    key = "a key that both processes have"
    first, second = Desk(False, secret_key=key), Desk(False, secret_key=key)
    saved = json.dumps(first.kit.run(answer_of(("c1", "deploy", {"target": "live"})), format="openai").to_json())
    run = Run.from_json(json.loads(saved))
    assert run.pending[0].action == "deploy to live"
    assert second.kit.resume(run, approved=True)[0]["content"] == "done"
    stranger = Desk(False)
    with pytest.raises(ToolkitError, match="secret_key"):
        stranger.kit.resume(run, approved=True)


@pytest.mark.parametrize(
    "change",
    [
        {"action": "deploy to test"},
        {"action": None, "details": None},
        {"details": {"number": 1}},
        {"questions": []},
        {"questions": ["0" * 64]},
        {"is_call_approved": True},
    ],
    ids=str,
)
def test_a_changed_request_is_refused(change):
    desk = Desk(False)
    data = desk.kit.exec("deploy", {"target": "live"}, call_id="c1").meta["approval"]
    with pytest.raises(ToolkitError, match="has been changed"):
        desk.kit.resume({**data, **change}, approved=True)
    assert desk.events == ["start"]


@pytest.mark.parametrize(
    "change", [{"questions": ["0" * 64]}, {"is_call_approved": True}, {"details": {"x": 1}}], ids=str
)
def test_a_request_for_a_whole_call_gains_no_approved_questions(change):
    kit = Toolkit("kit").add(Desk(False).kit["deploy"], requires_approval=True)
    data = kit.exec("deploy", {"target": "live"}, call_id="c1").meta["approval"]
    assert (data["action"], data["details"], data["questions"], data["is_call_approved"]) == (None, None, [], False)
    with pytest.raises(ToolkitError, match="has been changed"):
        kit.resume({**data, **change}, approved=True)


def test_a_request_shows_neither_secrets_nor_bound_values():
    requests: list[ApprovalRequest] = []
    kit = Toolkit("kit", approver=lambda request: requests.append(request) or True, state={"account": "acct-778899"})

    @kit.tool
    async def pay(amount: int, token: Annotated[str, Secret], account: str, context: ToolContext) -> str:
        details = {
            "token": token,
            "note": f"from {account} with {token}",
            "deep": [{"password": "x"}],
            "amount": amount,
        }
        await context.aask(f"pay from {account}", details)
        return "paid"

    kit.bind("account")
    assert kit.call("pay", {"amount": 3, "token": "hunter2-hunter2"}) == "paid"
    text = json.dumps(requests[0].to_json())
    assert "hunter2" not in text
    assert "acct-778899" not in text
    assert requests[0].action == "pay from <account>"
    assert requests[0].details == {
        "token": "***", "note": "from <account> with <token>", "deep": [{"password": "***"}], "amount": 3,
    }  # fmt: skip


def test_a_tool_outside_of_a_toolkit_has_nobody_to_ask(caplog):
    caplog.set_level(logging.WARNING)

    async def delete(context: ToolContext) -> str:
        await context.aask("delete all")
        return "deleted"

    spec = ToolSpec.from_function(delete)
    assert spec.exec().text == "This tool must ask for an approval, and nobody can be asked here."
    assert "add the tool to a Toolkit(…, approver=…)" in caplog.text
    with pytest.raises(ToolError, match="approver="):
        spec()


@pytest.mark.parametrize(("action", "details"), [("", None), (5, None), ("x", [1]), ("x", {"f": object()}), ("x", "y")])
def test_what_is_no_question_is_refused(action, details):
    asked: list[Any] = []
    kit = Toolkit("kit", approver=lambda request: asked.append(request) or True, mask_errors=False)

    @kit.tool
    def wrong(context: ToolContext) -> bool:
        return context.ask(action, details)

    error = kit.exec("wrong").error
    assert "ToolSpecError: " in error.message
    assert asked == []


def test_a_tool_that_is_called_through_call_tool_may_ask():
    desk = Desk(True)
    desk.kit.add_search()
    call = ("c1", "call_tool", {"name": "deploy", "arguments": {"target": "live"}})
    run = desk.kit.run(answer_of(call), format="openai")
    assert [request.action for request in run.pending] == ["deploy to live"]
    assert desk.kit.resume(run, approved=True)[0]["content"] == "done"


def test_a_cancelled_caller_leaves_no_thread_that_waits():
    asked, never = threading.Event(), threading.Event()
    ended: list[str] = []

    def approver(request: ApprovalRequest) -> bool:
        asked.set()
        never.wait(WAIT)
        return False

    kit = Toolkit("kit", approver=approver)
    has_ended = threading.Event()

    @kit.tool
    def wait(context: ToolContext) -> None:
        try:
            context.ask("go on")
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        finally:
            has_ended.set()

    async def run() -> None:
        task = asyncio.create_task(kit.acall("wait"))
        await asyncio.to_thread(asked.wait, WAIT)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    try:
        assert has_ended.wait(WAIT)
    finally:
        never.set()
    assert ended == ["CallCancelledError"]


def failing_once(**options: Any) -> tuple[Toolkit, list[str]]:
    """Return a toolkit that tries a call again, with a tool that asks and then fails once; and what was done."""
    done: list[str] = []

    async def delete(context: ToolContext) -> str:
        await context.aask("delete it")
        done.append("deleted")
        if len(done) == 1:
            raise ConnectionError
        return "done"

    middleware = [retry(all_tools=True, initial_delay=0)]
    return Toolkit("desk", middleware=middleware, **options).add(delete), done


def test_a_body_that_is_tried_again_asks_again():
    asked: list[str] = []

    def approver(request: ApprovalRequest) -> bool:
        asked.append(str(request.action))
        return True

    kit, done = failing_once(approver=approver)
    assert (kit.call("delete"), asked, len(done)) == ("done", ["delete it"] * 2, 2)


def test_an_approval_that_is_resumed_is_for_one_try():
    kit, done = failing_once()
    run = kit.resume(kit.run(answer_of(("c1", "delete", {})), format="openai"), approved=True)
    assert (len(run.pending), done) == (1, ["deleted"])
    done.clear()
    assert len(kit.resume(run, approved=True).pending) == 0
    assert done == ["deleted"] * 2  # with one approval for each


MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


class Person:
    """The user of a client: answers each form with the next of some answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.messages: list[str] = []

    async def answer(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        self.messages.append(message)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ElicitResult(action=answer, content=None) if isinstance(answer, str) else {"approve": answer}


def served(kit: Toolkit, person: Person | None, mode: Any, name: str, arguments: Any = None) -> Any:
    """Return what a client gets for a call."""

    async def run() -> Any:
        options: Any = {} if person is None else {"elicitation_handler": person.answer}
        async with Client(kit.to_fastmcp_server(), mode=mode, **options) as client:
            return await asyncio.wait_for(client.call_tool(name, arguments or {}, raise_on_error=False), WAIT)

    return asyncio.run(run())


@BOTH
@MODES
def test_the_user_of_a_client_is_asked(is_async, mode):
    """The body goes on where it asked; the newest protocol can only run it again, and asks each question once."""
    desk, person = Desk(is_async), Person(True, True)
    result = served(desk.kit, person, mode, "deploy", {"target": "live", "times": 2})
    assert result.data == "done"
    assert person.messages == [
        f"The tool 'deploy' asks for your approval: deploy to live\n{json.dumps({'number': n}, indent=2)}"
        for n in (0, 1)
    ]
    again = ["start", "start", "deployed 0", "start", "deployed 0", "deployed 1"]
    assert desk.events == (["start", "deployed 0", "deployed 1"] if mode == "legacy" else again)


@MODES
async def test_the_user_of_a_client_is_asked_over_http(mode):
    desk, person = Desk(False), Person(True)
    with over_http(desk.kit.to_fastmcp_server()) as url:
        async with Client(url, mode=mode, elicitation_handler=person.answer) as client:
            result = await asyncio.wait_for(client.call_tool("deploy", {"target": "live"}), WAIT)
    assert (result.data, len(person.messages)) == ("done", 1)


@MODES
@pytest.mark.parametrize("answer", [False, "decline", "cancel"])
def test_the_user_of_a_client_may_refuse(mode, answer):
    desk = Desk(True)
    result = served(desk.kit, Person(answer), mode, "deploy", {"target": "live"})
    assert result.is_error
    assert result.content[0].text.startswith("The call of 'deploy' was rejected.")
    assert set(desk.events) == {"start"}


def test_a_model_cannot_hide_a_part_of_what_the_user_is_asked():
    desk, person = Desk(True), Person(False)
    served(desk.kit, person, "legacy", "deploy", {"target": "test\n\nIt was approved.\u202e"})
    expected = r"The tool 'deploy' asks for your approval: deploy to test\n\nIt was approved.\u202e"
    assert person.messages[0].splitlines()[0] == expected


@MODES
def test_the_same_question_needs_as_many_answers_as_it_was_asked(mode):
    kit, asked = Toolkit("kit"), Person(True, True, False)

    @kit.tool
    async def thrice(context: ToolContext) -> str:
        for _ in range(3):
            await context.aask("delete a file")
        return "done"

    assert served(kit, asked, mode, "thrice").is_error
    assert (len(asked.messages), asked.answers) == (3, [])


@MODES
def test_the_answer_of_a_client_is_for_one_try(mode):
    kit, _ = failing_once()
    person = Person(True, True)
    assert served(kit, person, mode, "delete").data == "done"
    assert person.answers == []


@MODES
def test_a_client_without_a_user_gets_the_request(mode):
    desk = Desk(False)
    result = served(desk.kit, None, mode, "deploy", {"target": "live"})
    request = ApprovalRequest.from_json(result.meta["approval"])
    assert (result.is_error, request.action, desk.events) == (True, "deploy to live", ["start"])


@MODES
def test_the_approver_of_the_host_decides_also_for_clients(mode):
    desk, person = Desk(False, approver=lambda request: "no"), Person()
    assert served(desk.kit, person, mode, "deploy", {"target": "live"}).is_error
    assert (person.messages, desk.events) == ([], ["start"])


@MODES
def test_a_client_that_fails_to_answer_approves_nothing(mode):
    desk = Desk(True)
    with contextlib.suppress(RuntimeError, MCPError):  # FastMCP's client raises in the newest protocol
        assert served(desk.kit, Person(RuntimeError("broken")), mode, "deploy", {"target": "live"}).is_error
    assert set(desk.events) == {"start"}


@MODES
def test_a_client_is_asked_for_a_tool_that_it_finds_by_search(mode):
    desk, person = Desk(False), Person(True)
    desk.kit.add_search()
    arguments = {"name": "deploy", "arguments": {"target": "live"}}
    assert served(desk.kit, person, mode, "call_tool", arguments).content[0].text == "done"
    assert len(person.messages) == 1


def test_an_approval_is_for_the_arguments_that_it_was_asked_with():
    """In the newest protocol a client sends its answers and the server's state again, with a call of its choice."""
    desk = Desk(False)
    kit, key = desk.kit, desk.kit._view.store.secret_key

    class Replayed:
        is_of_task = False

        def __init__(self, state: str | None) -> None:
            self.state = state

    state = json.dumps({"arguments": arguments_digest({"target": "live"}, key), "approved": ["0" * 64]})
    for arguments, text, approved in [
        ({"target": "live"}, state, ("0" * 64,)),
        ({"target": "test"}, state, ()),
        ({"target": "live"}, "the state of a tool", ()),
        ({"target": "live"}, "[]", ()),
        ({"target": "live"}, None, ()),
    ]:
        assert Elicitation(Replayed(text), arguments, key).approved == approved  # type: ignore[arg-type]
    assert len(kit) == 1


def test_a_client_that_does_not_answer_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(elicitation, "MAX_SECONDS", 0.05)
    kit, never = Toolkit("kit"), asyncio.Event

    @kit.tool
    async def deploy(context: ToolContext) -> str:
        await context.aask("deploy")
        return "done"

    async def answer(*_: Any) -> Any:
        await never().wait()

    async def run() -> Any:
        async with Client(kit.to_fastmcp_server(), mode="legacy", elicitation_handler=answer) as client:
            return await asyncio.wait_for(client.call_tool("deploy", raise_on_error=False), WAIT)

    assert asyncio.run(run()).content[0].text == "The call of 'deploy' was rejected: nobody has answered"


def deploy_sync(target: str, context: ToolContext) -> str:
    """Deploy, in a worker process."""
    context.ask(f"deploy to {target}", {"number": 1})
    return "done"


async def deploy_async(target: str, context: ToolContext) -> str:
    """Deploy, in a worker process."""
    await asyncio.gather(context.aask(f"deploy to {target}"), context.aask("tell everybody"))
    return "done"


def deploy_and_handle(target: str, context: ToolContext) -> str:
    """Deploy, in a worker process."""
    try:
        context.ask(f"deploy to {target}", {"number": 1})
    except CallRejectedError as error:
        return error.message
    return "done"


def who(context: ToolContext) -> str:
    """Return who calls, in a worker process."""
    return str(context.caller)


def test_a_body_in_a_worker_process_knows_its_caller():
    kit = Toolkit("far").add(who, isolation="process")
    call = ToolCall(id="c1", name="who", provider={"caller": {"type": "code_execution_20260120"}}, format="anthropic")
    assert kit.run([call]).results[0][1].value == "programmatic"


@pytest.mark.parametrize("body", [deploy_sync, deploy_async], ids=["sync", "async"])
def test_a_body_in_a_worker_process_asks_in_the_calling_process(body):
    requests: list[ApprovalRequest] = []
    kit = Toolkit("kit", approver=lambda request: requests.append(request) or True, timeout=WAIT)
    kit.add(body, name="deploy", isolation="process")
    assert kit.call("deploy", {"target": "live"}) == "done"
    assert asyncio.run(kit.acall("deploy", {"target": "live"})) == "done"
    expected = ["deploy to live"] * 2 + ([] if body is deploy_sync else ["tell everybody"] * 2)
    assert sorted(request.action for request in requests) == expected


def test_a_body_in_a_worker_process_sees_that_it_was_rejected():
    kit = Toolkit("kit", approver=lambda request: "no").add(deploy_and_handle, name="deploy", isolation="process")
    assert kit.call("deploy", {"target": "live"}) == "The call of 'deploy' was rejected: no"


def test_a_body_in_a_worker_process_waits_for_resume_and_for_clients():
    kit = Toolkit("kit").add(deploy_sync, name="deploy", isolation="process")
    run = kit.run(answer_of(("c1", "deploy", {"target": "live"})), format="openai")
    assert [(request.action, request.details) for request in run.pending] == [("deploy to live", {"number": 1})]
    assert kit.resume(run, approved=True)[0]["content"] == "done"
    for mode in ("legacy", "2026-07-28"):
        assert served(kit, Person(True), mode, "deploy", {"target": "live"}).data == "done"


@pytest.mark.exhaustive
def test_a_body_in_a_worker_process_that_asks_can_be_cancelled():
    asked, never = threading.Event(), threading.Event()

    def approver(request: ApprovalRequest) -> bool:
        asked.set()
        return never.wait(WAIT)

    kit = Toolkit("kit", approver=approver).add(deploy_sync, name="deploy", isolation="process")

    async def run() -> Any:
        task = asyncio.create_task(kit.aexec("deploy", {"target": "live"}, call_id="c1"))
        await asyncio.to_thread(asked.wait, WAIT)
        kit.cancel("c1")
        return await asyncio.wait_for(task, WAIT)

    try:
        assert asyncio.run(run()).error.code == "cancelled"
    finally:
        never.set()


def test_sync_tools_in_the_thread_of_their_caller_may_ask_and_in_a_loop_they_may_not(caplog):
    desk = Desk(False, approver=lambda request: True)
    answer = answer_of(("c1", "deploy", {"target": "live"}), ("c2", "deploy", {"target": "test"}))
    run = desk.kit.run(answer, format="openai", run_in_thread=False)
    assert [message["content"] for message in run] == ["done", "done"]
    blocked = asyncio.run(desk.kit.arun(answer, format="openai", run_in_thread=False))
    assert all(result.is_error for _, result in blocked.results)
    assert "leave out run_in_thread=False" in caplog.text


def test_a_secret_argument_of_a_saved_request_is_passed_again():
    def make_kit() -> Toolkit:
        kit = Toolkit("kit", secret_key="a key that both processes have")

        @kit.tool
        def login(token: Annotated[str, Secret], context: ToolContext) -> str:
            context.ask("log in", {"token": token})
            return f"logged in with {len(token)} characters"

        return kit

    data = make_kit().exec("login", {"token": "hunter2-hunter2"}, call_id="c1").meta["approval"]
    assert "hunter2" not in json.dumps(data)
    with pytest.raises(ToolkitError, match="does not hold its secret arguments"):
        make_kit().resume(data, approved=True)
    done = make_kit().resume(data, approved=True, arguments={"token": "hunter2-hunter2"})
    assert done.results[0][1].value == "logged in with 15 characters"


def test_a_question_after_the_call_was_cancelled_reaches_nobody():
    asked: list[Any] = []
    kit = Toolkit("kit", approver=lambda request: asked.append(request) or True)

    @kit.tool
    def late(context: ToolContext) -> bool:
        kit.cancel("c1")
        return context.ask("go on")

    assert kit.exec("late", call_id="c1").error.code == "cancelled"
    assert asked == []
