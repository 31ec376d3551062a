"""Programs of the clients of a served toolkit: what their calls ask, progress, cancellation, several clients."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.code_mode import CodeLimits, MontySandbox
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.approval_store import SQLiteApprovalStore
from ahvn_tools.toolkit.elicitation import is_approval
from ahvn_tools.toolkit.serve import with_code_mode
from tests.execution.entry_points import auntil
from tests.mcp.loopback import over_http

WAIT = 60
"""Seconds within which anything must have happened."""

KEY = "a key that all servers have"
MODES = ["legacy", "2026-07-28"]
WIRES = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[MontySandbox]:
    made = MontySandbox(max_processes=4)
    yield made
    made.close()


class Desk:
    """A toolkit for programs, and the calls that its tools received."""

    def __init__(self, sandbox: MontySandbox, *, limits: CodeLimits | None = None, **options: Any) -> None:
        self.calls: list[Any] = []
        self.started = asyncio.Event()
        self.waiting = self.cancelled = 0
        self.programs: set[str] = set()
        self.kit = Toolkit("desk", secret_key=KEY, **options).add(self.note, self.whoami, self.delete, self.wait)
        self.kit.add(self.close, requires_approval=True)
        self.kit.add_code_mode(sandbox=sandbox, limits=limits, task="optional")
        self.kit.bind("user", default="nobody")

    def note(self, text: str) -> str:
        """Write a note."""
        self.calls.append(("note", text))
        return f"noted {text}"

    def whoami(self, user: str) -> str:
        """Return the user."""
        return user

    async def delete(self, path: str, context: ToolContext) -> str:
        """Delete a file."""
        self.programs.add(str(context.call_id).rpartition(".")[0])
        await context.aask("delete a file", {"path": path})
        self.calls.append(("delete", path))
        return f"deleted {path}"

    async def wait(self) -> None:
        """Wait."""
        self.started.set()
        self.waiting += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def close(self, issue: int) -> str:
        """Close an issue."""
        self.calls.append(("close", issue))
        return f"closed {issue}"


@pytest.fixture
def desk(sandbox: MontySandbox) -> Desk:
    return Desk(sandbox)


class Person:
    """The user of a client: answers each form, by default with yes."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.messages = answers, []  # type: tuple[dict[str, Any], list[str]]

    async def answer(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        self.messages.append(message)
        answer = next((answer for path, answer in self.answers.items() if f'"{path}"' in message), True)
        return ElicitResult(action=answer, content=None) if isinstance(answer, str) else {"approve": answer}


@contextlib.asynccontextmanager
async def connect(desk: Desk, mode: str, person: Person | None, **options: Any) -> AsyncIterator[Client]:
    handler: Any = {} if person is None else {"elicitation_handler": person.answer}
    async with Client(desk.kit.to_fastmcp_server(**options), mode=mode, **handler) as client:  # type: ignore[arg-type]  # a mode
        yield client


async def run_code(client: Client, code: str) -> Any:
    return await asyncio.wait_for(client.call_tool("run_code", {"code": code}, raise_on_error=False), WAIT)


ASKING = """
import asyncio

first = await note("first")
async def attempt(path):
    try:
        return await delete(path)
    except RuntimeError as error:
        return str(error)
deleted = await asyncio.gather(*[attempt(path) for path in ["a", "b", "c"]])
[first, *deleted, await note("last")]
"""


@WIRES
async def test_the_user_is_asked_what_the_calls_of_a_program_ask_and_no_call_is_made_twice(
    desk: Desk, mode: str
) -> None:
    person = Person(b=False, c="decline")
    async with connect(desk, mode, person) as client:
        result = await run_code(client, ASKING)
    rejected = "The call of 'delete' was rejected. Do not try it again unless you are asked to."
    assert result.structured_content == {"result": ["noted first", "deleted a", rejected, rejected, "noted last"]}
    assert sorted(person.messages) == [
        f"The tool 'delete' asks for your approval: delete a file\n{json.dumps({'path': path}, indent=2)}"
        for path in "abc"
    ]
    assert desk.calls == [("note", "first"), ("delete", "a"), ("note", "last")]


@WIRES
async def test_a_program_may_ask_again_and_again(desk: Desk, mode: str) -> None:
    person = Person()
    async with connect(desk, mode, person) as client:
        result = await run_code(client, "[await delete(str(number)) for number in range(4)]")
    assert result.structured_content == {"result": [f"deleted {number}" for number in range(4)]}
    assert (len(person.messages), len(desk.calls)) == (4, 4)
    assert len(desk.programs) == 1  # the ids of all calls begin with that of the program


@WIRES
async def test_a_program_without_await_asks_too(desk: Desk, mode: str) -> None:
    async with connect(desk, mode, Person()) as client:
        result = await run_code(client, "note('first')\n[delete('a'), delete('b')]")
    assert result.structured_content == {"result": ["deleted a", "deleted b"]}
    assert desk.calls == [("note", "first"), ("delete", "a"), ("delete", "b")]


@WIRES
async def test_the_user_does_not_decide_on_calls_that_need_an_approval_as_a_whole(desk: Desk, mode: str) -> None:
    person = Person()
    async with connect(desk, mode, person) as client:
        result = await run_code(client, "import asyncio\nawait asyncio.gather(delete('a'), close(1))")
    assert result.is_error
    assert len(person.messages) == 1
    assert desk.calls == [("delete", "a")]
    request = result.meta["approval"]
    assert request["tool"] == "close"


@WIRES
async def test_the_host_resumes_a_program_of_a_client(desk: Desk, mode: str) -> None:
    async with connect(desk, mode, None) as client:
        result = await run_code(client, "[await note('a'), await close(1), await delete('x')]")
    request = json.loads(json.dumps(result.meta["approval"]))
    kit = desk.kit if request["session_id"] is None else desk.kit.session(session_id=request["session_id"])
    run = kit.resume(request, approved=True)
    assert [pending.action for pending in run.pending] == ["delete a file"]
    assert kit.resume(run, approved=True).results[0][1].value == ["noted a", "closed 1", "deleted x"]
    assert desk.calls == [("note", "a"), ("close", 1), ("delete", "x")]


@WIRES
async def test_the_approver_of_the_host_decides_at_once(sandbox: MontySandbox, mode: str) -> None:
    desk, person = Desk(sandbox, approver=lambda request: request.tool == "close"), Person()
    async with connect(desk, mode, person) as client:
        assert (await run_code(client, "await close(1)")).structured_content == {"result": "closed 1"}
        assert (await run_code(client, "await delete('a')")).is_error
    assert (desk.calls, person.messages) == ([("close", 1)], [])


@WIRES
async def test_a_client_without_forms_gets_the_requests(desk: Desk, mode: str) -> None:
    async with connect(desk, mode, None) as client:
        result = await run_code(client, "import asyncio\nawait asyncio.gather(delete('a'), delete('b'))")
    assert result.is_error
    assert result.content[0].text == "2 calls need approvals, which have been requested."
    assert result.meta["approval"]["details"] == {"path": "a"}
    assert [request["details"] for request in result.meta["further_requests"]] == [{"path": "b"}]


async def test_a_program_does_not_continue_when_the_answer_cannot_be_stored(sandbox: MontySandbox) -> None:
    class FullStore(SQLiteApprovalStore):
        def decide(self, requests: Any) -> bool:
            raise ToolkitError("The disk is full.")

    desk = Desk(sandbox, approval_store=FullStore(None))
    async with connect(desk, "2026-07-28", Person()) as client:
        result = await run_code(client, ASKING)
    assert result.content[0].text.endswith("cannot store the answer. Calls that it has made are not undone.")
    assert desk.calls == [("note", "first")]


async def test_the_state_of_a_program_that_a_client_sends_back_is_used_once(desk: Desk) -> None:
    """A client of the newest protocol could send its answer twice, or with another program."""
    from ahvn_tools.errors import ToolError
    from ahvn_tools.results import ToolResult
    from ahvn_tools.toolkit.background_calls import BackgroundCalls
    from ahvn_tools.toolkit.batch import Batch
    from ahvn_tools.toolkit.program_elicitation import ProgramElicitation
    from ahvn_tools.toolkit.sessions import ClientState, SessionState

    class Repeated:
        def __init__(self, state: str | None, answers: dict[str, Any], *, is_of_task: bool = False) -> None:
            self.state, self.answers, self.is_of_task = state, answers, is_of_task

        def find_answer(self, key: str) -> Any:
            return self.answers.get(key)

        def make_input_request(self, forms: Any, state: str) -> Any:
            return forms, state

    def elicitation(
        arguments: Any, state: str | None = None, view: Any = None, *, is_of_task: bool = False, **answers: Any
    ) -> ProgramElicitation:
        request: Any = Repeated(state, answers, is_of_task=is_of_task)
        return ProgramElicitation(view or desk.kit._view, request, arguments)

    arguments = {"code": "await note('a')\nawait delete('x')"}
    waiting = await desk.kit.aexec("run_code", arguments)
    asked = elicitation(arguments).ask(waiting)
    assert asked.error is not None
    messages, state = asked.error.mcp_response
    [key] = messages
    yes, no = (ElicitResult(action="accept", content={"approve": value}) for value in (True, False))
    assert await elicitation(arguments).resume() is None
    assert await elicitation({"code": "await note('b')"}, state, **{key: yes}).resume() is None
    assert await elicitation(arguments, "the state of a tool", **{key: yes}).resume() is None
    again = await elicitation(arguments, state).resume()
    assert isinstance(again, ToolResult)
    forged = state.replace('"path": "x"', '"path": "y"')
    with pytest.raises(ToolError) as raised:
        await elicitation(arguments, forged, **{key: yes}).resume()
    assert raised.value.message.startswith("The program cannot continue: it has continued before")
    batch = await elicitation(arguments, state, **{key: yes}).resume()
    assert isinstance(batch, Batch)
    assert [decision.rejection for decision in batch.programs[0].decisions.values()] == [None]
    with pytest.raises(ToolError, match="This request was used before"):
        await elicitation(arguments, state, **{key: yes}).resume()
    declined = await elicitation(arguments, state, **{key: no}).resume()
    assert isinstance(declined, Batch)
    assert (declined.programs, "may have run already" in declined.known_results[0].text) == ({}, True)

    with pytest.raises(ToolError, match="servers that share tasks need the same `secret_key`"):
        await elicitation({"code": "await note('b')"}, state, is_of_task=True, **{key: yes}).resume()

    # a client without a session does not continue the program of a session
    ann = desk.kit.session(session_id="ann")
    asked = elicitation(arguments, view=ann._view).ask(await ann.aexec("run_code", arguments))
    assert asked.error is not None
    [key], state = asked.error.mcp_response
    anonymous = desk.kit._view.session(SessionState({}, None, ClientState(is_anonymous=True)), BackgroundCalls())
    with pytest.raises(ToolError, match="The request was made in another session"):
        await elicitation(arguments, state, anonymous, **{key: yes}).resume()

    # a client does not decide on a call that needs an approval as a whole, even if it guesses the id of its request
    arguments = {"code": "import asyncio\nawait asyncio.gather(close(1), delete('x'))"}
    asked = elicitation(arguments).ask(await desk.kit.aexec("run_code", arguments))
    assert asked.error is not None
    _, state = asked.error.mcp_response
    approval = json.loads(state)["requests"]["approval"]
    assert approval["tool"] == "close"
    again = await elicitation(arguments, state, **{approval["id"]: yes}).resume()
    assert isinstance(again, ToolResult)
    assert desk.calls == [("note", "a"), ("note", "a")]


async def test_a_client_that_answers_twice_or_with_another_state_continues_a_program_once(desk: Desk) -> None:
    arguments = {"code": "await note('a')\nawait delete('x')"}
    yes, no = (ElicitResult(action="accept", content={"approve": value}) for value in (True, False))
    async with connect(desk, "2026-07-28", Person()) as client:

        async def send(arguments: Any, state: str | None = None, **answers: Any) -> Any:
            return await client.session.call_tool(
                "run_code", arguments, request_state=state, input_responses=answers or None, allow_input_required=True
            )

        asked = await send(arguments)
        [key], state = asked.input_requests, asked.request_state
        for other_arguments, other_state in [
            (arguments, state[:-9] + ("A" if state[-9] != "A" else "B") + state[-8:]),
            ({"code": "await delete('y')"}, state),
        ]:
            with pytest.raises(MCPError, match="requestState"):
                await send(other_arguments, other_state, **{key: yes})
        again = await send(arguments, state, other=yes)
        assert [*again.input_requests] == [key]
        answers = [send(arguments, given, **{key: yes}) for given in (state, again.request_state, state)]
        results = await asyncio.gather(*answers, send(arguments, state, **{key: yes}))
        late = await send(arguments, state, **{key: no})
    assert sorted(result.is_error for result in [*results, late]) == [False, True, True, True, True]
    assert all("it has continued before" in result.content[0].text for result in results if result.is_error)
    assert "may have run already" in late.content[0].text
    assert desk.calls == [("note", "a"), ("delete", "x")]


async def test_a_client_that_answers_too_late_runs_nothing(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(sandbox, approval_expiry=60)
    arguments = {"code": "await note('a')\nawait delete('x')"}
    async with connect(desk, "2026-07-28", Person()) as client:
        asked: Any = await client.session.call_tool("run_code", arguments, allow_input_required=True)
        [key], now = asked.input_requests, time.time()
        monkeypatch.setattr(time, "time", lambda: now + 70)
        texts = []
        for is_approved in (True, False):
            answer = ElicitResult(action="accept", content={"approve": is_approved})
            late: Any = await client.session.call_tool(
                "run_code", arguments, request_state=asked.request_state, input_responses={key: answer}
            )
            texts.append(late.content[0].text)
    assert "has waited for too long" in texts[0]
    assert texts[1].startswith("The call of 'run_code' was rejected")
    assert desk.calls == [("note", "a")]


@pytest.mark.parametrize(
    ("answer", "is_approved"),
    [
        (ElicitResult(action="accept", content={"approve": True}), True),
        (ElicitResult(action="accept", content={"approve": "yes"}), False),
        (ElicitResult(action="accept", content=None), False),
        (ElicitResult(action="decline", content={"approve": True}), False),
        (ElicitResult(action="cancel", content={"approve": True}), False),
    ],
    ids=["accepted", "another value", "empty", "declined", "cancelled"],
)
def test_only_an_accepted_form_approves(answer: Any, is_approved: bool) -> None:
    assert is_approval(answer) is is_approved


@WIRES
async def test_the_calls_of_a_clients_program_are_calls_of_a_client(desk: Desk, mode: str) -> None:
    @desk.kit.tool
    def is_served(context: ToolContext) -> bool:
        """Return whether a client has called."""
        return context.is_served

    async with connect(desk, mode, None) as client:
        assert (await run_code(client, "await is_served()")).structured_content == {"result": True}
    assert await desk.kit.acall("run_code", {"code": "await is_served()"}) is False


@WIRES
async def test_the_progress_of_the_calls_of_a_program_reaches_the_client(desk: Desk, mode: str) -> None:
    @desk.kit.tool
    async def count(context: ToolContext) -> str:
        """Count."""
        for number in range(3):
            await context.report_progress(number, 3, f"number {number}")
        return "counted"

    messages: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async with connect(desk, mode, None) as client:
        call = client.call_tool("run_code", {"code": "await count()"}, progress_handler=on_progress)
        assert (await asyncio.wait_for(call, WAIT)).structured_content == {"result": "counted"}
    assert [message for message in messages if message and "number" in message] == [
        f"count: number {number}" for number in range(3)
    ]


async def test_a_client_that_cancels_a_program_cancels_its_calls(desk: Desk) -> None:
    async def cancel(url: str, mode: str) -> Any:
        async with Client(url, mode=mode) as client:  # type: ignore[arg-type]  # a mode
            call = asyncio.create_task(client.call_tool("run_code", {"code": "await wait()"}))
            await auntil(lambda: desk.waiting == 2)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            return (await run_code(client, "1 + 1")).structured_content

    with over_http(desk.kit.to_fastmcp_server()) as url:
        assert await asyncio.gather(*[cancel(url, mode) for mode in MODES]) == [{"result": 2}] * 2
        assert await auntil(lambda: desk.cancelled == 2)


@pytest.mark.exhaustive
async def test_the_programs_of_clients_over_http_do_not_mix(desk: Desk) -> None:
    modes = {"ann": "legacy", "bob": "legacy", "eve": "2026-07-28", "dan": "2026-07-28"}
    people = {name: Person(**{name: True}) for name in modes}
    server = desk.kit.to_fastmcp_server(state=lambda request: {"user": request.headers.get("x-user")})
    code = "import asyncio\nme = await whoami()\n[me, *(await asyncio.gather(delete(me), note(me)))]"

    async def use(url: str, name: str) -> Any:
        transport = StreamableHttpTransport(url, headers={"x-user": name})
        async with Client(transport, mode=modes[name], elicitation_handler=people[name].answer) as client:  # type: ignore[arg-type]  # a mode
            return [(await run_code(client, code)).structured_content for _ in range(3)]

    with over_http(server) as url:
        answers = await asyncio.gather(*[use(url, name) for name in people])
    assert answers == [[{"result": [name, f"deleted {name}", f"noted {name}"]}] * 3 for name in people]
    for name, person in people.items():
        assert len(person.messages) == 3
        assert all(f'"{name}"' in message for message in person.messages)
    assert len(desk.calls) == 24


async def test_a_large_program_state_returns_over_http(desk: Desk) -> None:
    code = "data = [str(number * number) for number in range(30000)]\nawait delete('a')\nlen(data)"
    with over_http(desk.kit.to_fastmcp_server()) as url:
        async with Client(url, mode="2026-07-28", elicitation_handler=Person().answer) as client:
            assert (await run_code(client, code)).structured_content == {"result": 30000}


async def test_a_program_as_a_task_asks_the_user_and_continues(desk: Desk) -> None:
    pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')
    from fastmcp_tasks import call_tool_task

    person = Person(b=False)
    async with connect(desk, "2026-07-28", person, tasks=True) as client:
        task = await call_tool_task(client, "run_code", {"code": ASKING})
        result = await asyncio.wait_for(task.result(), WAIT)
    rejected = "The call of 'delete' was rejected. Do not try it again unless you are asked to."
    assert result.structured_content == {"result": ["noted first", "deleted a", rejected, "deleted c", "noted last"]}
    assert desk.calls[0] == ("note", "first")
    assert sorted(desk.calls[1:3]) == [("delete", "a"), ("delete", "c")]
    assert desk.calls[3:] == [("note", "last")]
    assert len(person.messages) == 3


async def test_a_task_that_runs_a_program_is_cancelled(desk: Desk) -> None:
    pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')
    from fastmcp_tasks import call_tool_task

    async with connect(desk, "2026-07-28", None, tasks=True) as client:
        task = await call_tool_task(client, "run_code", {"code": "await wait()"})
        await asyncio.wait_for(desk.started.wait(), WAIT)
        await task.cancel()
        assert await auntil(lambda: desk.cancelled == 1)


@WIRES
async def test_a_program_of_a_client_returns_images(desk: Desk, mode: str) -> None:
    from fastmcp.utilities.types import Image

    @desk.kit.tool
    def draw() -> Any:
        """Draw."""
        return Image(data=b"red", format="png")

    async with connect(desk, mode, Person()) as client:
        result = await run_code(client, "picture = await draw()\nawait delete('a')\npicture")
    assert [block.type for block in result.content] == ["text", "image"]
    assert base64.b64decode(result.content[1].data) == b"red"


async def test_a_selection_for_an_audience_is_served_in_code_mode_to_this_audience(desk: Desk) -> None:
    desk.kit.add(lambda: "audited", name="audit", description="Audit.", audience="staff")
    desk.kit.add_toolset("audits", names=["audit"], audience="staff")
    for selected in (desk.kit.select(audience="staff"), desk.kit.select(toolset="audits").session()):
        async with Client(with_code_mode(selected).to_fastmcp_server()) as client:
            assert [tool.name for tool in await client.list_tools()] == ["search_tools", "describe_tools", "run_code"]
            assert (await run_code(client, "await audit()")).structured_content == {"result": "audited"}
    async with Client(with_code_mode(desk.kit).to_fastmcp_server()) as client:
        assert "`audit` used when not defined" in (await run_code(client, "await audit()")).content[0].text
