"""AskUser: questions to the user, answered by a handler, a client of MCP, or later from outside."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import Run, ToolCall, ToolContext, Toolkit, load
from ahvn_tools.builtins import AskUser, Question, UserAnswers, standard_toolkit
from ahvn_tools.errors import DefinitionError, ResultRequiredError, SourceError, ToolkitError
from ahvn_tools.mcp.server import request
from tests.imported_modules import forgotten
from tests.mcp.loopback import over_http
from tests.mcp.serving import ENVIRONMENT

WAIT = 60

QUESTIONS: list[dict[str, Any]] = [
    {"name": "tea", "text": "Which tea?", "kind": "choice", "options": ["green", "black"]},
    {"name": "extras", "text": "What else?", "kind": "choices", "options": ["milk", "sugar"], "default": []},
    {"name": "cups", "text": "How many?", "kind": "number", "default": 2},
    {"name": "hot", "text": "Hot?", "kind": "yes_no", "default": True},
    {"name": "to", "text": "For whom?", "description": "A first name.", "default": "Ann"},
]
ANSWERED = {"tea": "green", "extras": [], "cups": 2, "hot": True, "to": "Ann"}


def kit_of(*arguments: Any, **options: Any) -> Toolkit:
    return Toolkit("desk", secret_key="a key that both processes have").add(AskUser(*arguments, **options))


def ask(kit: Toolkit, questions: Any = QUESTIONS) -> Any:
    return kit.exec("ask_user", {"questions": questions})


async def answer_async(questions: list[Question], context: ToolContext) -> Any:
    return {"tea": "green"}


def answer_sync(questions: list[Question], context: ToolContext) -> Any:
    return {"tea": "green"}


@pytest.mark.parametrize("handler", [answer_sync, answer_async])
def test_a_handler_answers(handler):
    assert ask(kit_of(handler)).value == {"status": "answered", "answers": ANSWERED}
    [spec] = AskUser(handler).to_toolspecs().values()
    assert asyncio.run(spec.acall(questions=QUESTIONS))["answers"] == ANSWERED


def test_a_handler_gets_the_questions_and_the_session():
    asked: list[Any] = []

    def handler(questions: list[Question], context: ToolContext) -> Any:
        asked.append(([question.name for question in questions], context.session_id, context.state["user"]))
        asked.append(threading.current_thread() is threading.main_thread())
        return None

    kit = kit_of(handler)
    session = kit.session(session_id="s1", user="ann")
    assert ask(session).value == {"status": "declined", "answers": {}}
    assert asked == [(["tea", "extras", "cups", "hot", "to"], "s1", "ann"), False]


def test_a_user_who_has_left_is_a_result():
    left = kit_of(lambda questions, context: UserAnswers(status="left"))
    assert ask(left).value == {"status": "left", "answers": {}}

    async def never(questions: list[Question], context: ToolContext) -> Any:
        await asyncio.Event().wait()

    assert ask(kit_of(never, timeout=0.01)).value["status"] == "left"


def test_the_time_of_the_user_does_not_count_towards_the_timeout():
    async def slow(questions: list[Question], context: ToolContext) -> Any:
        await asyncio.sleep(0.2)
        return {"tea": "black"}

    kit = Toolkit("desk", timeout=0.1).add(AskUser(slow))
    assert ask(kit).value["answers"]["tea"] == "black"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (QUESTIONS[0], "red"), (QUESTIONS[0], None), (QUESTIONS[0], ["green"]), (QUESTIONS[1], "milk"),
        (QUESTIONS[1], ["milk", "milk"]), (QUESTIONS[1], ["salt"]), (QUESTIONS[1], [["milk"]]), (QUESTIONS[2], "2"),
        (QUESTIONS[2], True), (QUESTIONS[2], math.nan), (QUESTIONS[3], 1), (QUESTIONS[3], "yes"), (QUESTIONS[4], 3),
        (QUESTIONS[4], "x" * 10_001),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_fit_is_refused_and_the_call_still_waits(question, answer):
    kit = kit_of()
    run = kit.run([ToolCall(id="c1", name="ask_user", arguments={"questions": [question]})])
    required = {key: value for key, value in question.items() if key != "default"}
    if answer is not None:
        with pytest.raises(ToolkitError, match=f"the answer to '{question['name']}' does not fit"):
            kit.resume(run, results={"c1": {question["name"]: answer}})
    run = kit.run([ToolCall(id="c1", name="ask_user", arguments={"questions": [required]})])
    for missing in ({}, {question["name"]: None}):
        with pytest.raises(ToolkitError, match="is missing"):
            kit.resume(run, results={"c1": missing})
    [(_, result)] = kit.resume(run, results={"c1": None}).results
    assert result.value == {"status": "declined", "answers": {}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"status": "left"}, {"status": "left", "answers": {}}),
        ({"status": "declined", "answers": {"tea": "x"}}, {"status": "declined", "answers": {}}),
        ({"status": "answered", "answers": {"tea": "green"}}, {"status": "answered", "answers": ANSWERED}),
    ],
)
def test_a_frontend_may_send_the_whole_result(value, expected):
    kit = kit_of()
    run = kit.run([ToolCall(id="c1", name="ask_user", arguments={"questions": QUESTIONS})])
    for wrong in ({"status": "gone"}, {**value, "answers": 3}, {"status": "answered", "answers": {"tea": "red"}}):
        with pytest.raises(ToolkitError, match="is refused"):
            kit.resume(run, results={"c1": wrong})
    assert kit.resume(run, results={"c1": value}).results[0][1].value == expected


@pytest.mark.parametrize("answers", ["green", 3, [], {"tea": "green", "coffee": "x"}])
def test_what_is_no_mapping_by_the_names_of_the_questions_is_refused(answers):
    kit = kit_of()
    run = kit.run([ToolCall(id="c1", name="ask_user", arguments={"questions": QUESTIONS})])
    with pytest.raises(ToolkitError, match="is refused"):
        kit.resume(run, results={"c1": answers})
    result = ask(kit_of(lambda questions, context: answers))
    assert (result.error.code, result.error.message) == ("tool_error", "The answers of the user could not be read.")


KINDS = {
    "choice": st.sampled_from(["green", "black"]),
    "choices": st.lists(st.sampled_from(["green", "black"]), unique=True),
    "text": st.text(max_size=50),
    "number": st.integers() | st.just(10**400) | st.floats(allow_nan=False, allow_infinity=False),
    "yes_no": st.booleans(),
}


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_an_answer_comes_back_as_it_was_given(kind, data):
    """Also as the default, which is checked in the same way."""
    options = ["green", "black"] if kind in ("choice", "choices") else []
    answer = data.draw(KINDS[kind])
    question = {"name": "one", "text": "?", "kind": kind, "options": options}
    given_kit, default_kit = kit_of(lambda *_: {"one": answer}), kit_of(lambda *_: {})
    for result in (ask(given_kit, [question]), ask(default_kit, [{**question, "default": answer}])):
        assert result.value == {"status": "answered", "answers": {"one": answer}}


@pytest.mark.parametrize(
    ("questions", "problem"),
    [
        ([], "Ask 1 to 10 questions in one call."),
        ([{"name": f"q{n}", "text": "?"} for n in range(11)], "Ask 1 to 10 questions in one call."),
        ([{"name": "a b", "text": "?"}], "letters, digits and single underscores"),
        ([{"name": "a", "text": "?" * 1001}], "1 to 1,000 characters"),
        ([{"name": "a", "text": ""}], "1 to 1,000 characters"),
        ([{"name": "a", "text": "?", "kind": "choice", "options": ["x"] * 51}], "more than 50 options"),
        ([{"name": "a", "text": "?", "kind": "date"}], "Invalid arguments"),
        ([{"name": "a", "text": "?"}, {"name": "a", "text": "?"}], "Two questions have the same name."),
        ([{"name": "a", "text": "?", "kind": "choice"}], "The question 'a' needs at least 2 different options."),
        ([{"name": "a", "text": "?", "kind": "choice", "options": ["x", "x"]}], "at least 2 different options"),
        ([{"name": "a", "text": "?", "kind": "choice", "options": ["x", "y\u202e"]}], "invisible characters"),
        ([{"name": "a", "text": "?", "options": ["x", "y"]}], "The question 'a' has options"),
        ([{"name": "a", "text": "?", "kind": "number", "default": "x"}], "The default of 'a' does not fit"),
    ],
)
def test_a_model_reads_what_is_wrong_with_its_questions_and_nobody_is_asked(questions, problem):
    result = ask(kit_of(), questions)
    assert problem in result.error.message
    assert "external_call" not in result.meta


def test_without_a_handler_the_call_waits_over_a_restart():
    def saved() -> Any:
        run = kit_of().run([ToolCall(id="c1", name="ask_user", arguments={"questions": QUESTIONS})], format="openai")
        return json.loads(json.dumps(run.to_json()))

    run = kit_of().resume(Run.from_json(saved()), results={"c1": {"tea": "green"}})
    assert json.loads(run[0]["content"]) == {"status": "answered", "answers": ANSWERED}


def test_outside_of_a_toolkit_nobody_waits_for_the_answers():
    with pytest.raises(ResultRequiredError):
        AskUser().toolspec("ask_user").call(questions=QUESTIONS)


@pytest.mark.parametrize("options", [{"handler": 3}, {"timeout": 0}, {"timeout": "1"}, {"timeout": math.inf}])
def test_wrong_options_are_refused(options):
    with pytest.raises(DefinitionError):
        AskUser(**options)


def test_questions_that_the_host_has_bound_are_asked_and_checked():
    kit = kit_of().bind("questions", default=QUESTIONS[:1])
    run = kit.run([ToolCall(id="c1", name="ask_user", arguments={})])
    with pytest.raises(ToolkitError, match="the answer to 'tea' does not fit"):
        kit.resume(run, results={"c1": {"tea": "red"}})
    [(_, result)] = kit.resume(run, results={"c1": {"tea": "black"}}).results
    assert result.value["answers"] == {"tea": "black"}


MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


class Person:
    """The user of a client, who answers each form with the next of some answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.messages: list[str] = []
        self.forms: list[Any] = []

    async def answer(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        self.messages.append(message)
        self.forms.append(params.requested_schema)
        answer = self.answers.pop(0)
        return ElicitResult(action=answer, content=None) if isinstance(answer, str) else answer


async def call(target: Any, mode: Any, person: Person | None, name: str, arguments: Any) -> Any:
    options: Any = {} if person is None else {"elicitation_handler": person.answer}
    async with Client(target, mode=mode, **options) as client:
        return await asyncio.wait_for(client.call_tool(name, arguments, raise_on_error=False), WAIT)


@MODES
async def test_the_user_of_a_client_answers_one_form(mode):
    person = Person({"tea": "green", "extras": ["milk"], "cups": 3, "hot": False, "to": "Bo"})
    result = await call(kit_of().to_fastmcp_server(), mode, person, "ask_user", {"questions": QUESTIONS})
    assert result.structured_content == {
        "status": "answered",
        "answers": {"tea": "green", "extras": ["milk"], "cups": 3, "hot": False, "to": "Bo"},
    }
    [message], [form] = person.messages, person.forms
    assert message.splitlines() == ["The model asks you:", *(f"- {one['text']}" for one in QUESTIONS)]
    assert form["required"] == ["tea"]
    assert form["properties"]["tea"] == {"type": "string", "enum": ["green", "black"], "title": "Which tea?"}
    assert form["properties"]["to"]["description"] == "A first name."


@MODES
async def test_the_user_of_a_client_answers_over_http(mode):
    with over_http(kit_of().to_fastmcp_server()) as url:
        result = await call(url, mode, Person({"tea": "black"}), "ask_user", {"questions": QUESTIONS[:1]})
        assert result.structured_content["answers"] == {"tea": "black"}
        result = await call(url, mode, None, "ask_user", {"questions": QUESTIONS[:1]})
    assert result.is_error
    assert result.content[0].text == "The user cannot be asked: the MCP client shows no questions to its user."


SERVER = """
from ahvn_tools import Toolkit, serve
from ahvn_tools.builtins import AskUser

serve(Toolkit("desk").add(AskUser()))
"""


@MODES
@pytest.mark.parametrize("can_ask", [True, False])
async def test_the_user_of_a_client_answers_over_stdio(mode, can_ask):
    server = StdioTransport(sys.executable, ["-c", SERVER], env=ENVIRONMENT, keep_alive=False)
    person = Person({"tea": "black"}) if can_ask else None
    result = await call(server, mode, person, "ask_user", {"questions": QUESTIONS[:1]})
    expected = "black" if can_ask else "the MCP client shows no questions to its user"
    assert (result.is_error, expected in result.content[0].text) == (not can_ask, True)


@MODES
@pytest.mark.parametrize(("action", "status"), [("decline", "declined"), ("cancel", "left")])
async def test_the_user_of_a_client_may_decline_or_leave(mode, action, status):
    server = kit_of().to_fastmcp_server()
    result = await call(server, mode, Person(action), "ask_user", {"questions": QUESTIONS})
    assert result.structured_content == {"status": status, "answers": {}}


@MODES
async def test_an_answer_of_a_client_that_does_not_fit_is_an_error(mode):
    server = kit_of().to_fastmcp_server()
    result = await call(server, mode, Person({"tea": "hunter2"}), "ask_user", {"questions": QUESTIONS[:1]})
    assert result.is_error
    assert "hunter2" not in result.content[0].text
    assert "the answer to 'tea' does not fit" in result.content[0].text


@MODES
async def test_a_model_cannot_hide_a_part_of_what_the_user_is_asked(mode):
    person = Person({"a": "x"})
    questions = [{"name": "a", "text": "Harmless?\n\nThe host says: send your key.\u202e"}]
    await call(kit_of().to_fastmcp_server(), mode, person, "ask_user", {"questions": questions})
    assert r"- Harmless?\n\nThe host says: send your key.\u202e" in person.messages[0]
    assert person.forms[0]["properties"]["a"]["title"] == r"Harmless?\n\nThe host says: send your key.\u202e"


@pytest.mark.parametrize(("chosen", "extras"), [({}, []), ({"extras__2": True, "extras__1": False}, ["sugar"])])
async def test_a_client_of_an_older_protocol_gets_a_field_for_each_option(monkeypatch, chosen, extras):
    monkeypatch.setattr(request, "LISTS_SINCE", "9999-01-01")
    person = Person({"tea": "green", **chosen})
    result = await call(kit_of().to_fastmcp_server(), "legacy", person, "ask_user", {"questions": QUESTIONS})
    assert result.structured_content["answers"] == {**ANSWERED, "extras": extras}
    [form] = person.forms
    assert form["properties"]["extras__2"] == {"type": "boolean", "title": "What else? sugar", "default": False}
    assert "extras" not in form["properties"]


async def test_a_task_asks_the_user_of_its_client():
    tasks = pytest.importorskip("fastmcp_tasks", reason="tasks need the extra `tasks`")
    kit = Toolkit("desk").add(AskUser(), task="optional")
    person = Person({"tea": "black"})
    async with Client(kit.to_fastmcp_server(tasks=True), elicitation_handler=person.answer) as client:
        task = await tasks.call_tool_task(client, "ask_user", {"questions": QUESTIONS[:1]}, raise_on_error=False)
        result = await asyncio.wait_for(task.result(), WAIT)
    assert result.structured_content["answers"] == {"tea": "black"}


@MODES
async def test_a_tool_that_is_found_by_a_search_asks_the_client(mode):
    kit = kit_of().add_search()
    arguments = {"name": "ask_user", "arguments": {"questions": QUESTIONS[:1]}}
    result = await call(kit.to_fastmcp_server(), mode, Person({"tea": "black"}), "call_tool", arguments)
    assert json.loads(result.content[0].text)["answers"] == {"tea": "black"}


@MODES
async def test_the_calls_of_a_served_program_ask_the_client(mode):
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    code = f"""
import asyncio
one, two = await asyncio.gather(ask_user(questions={QUESTIONS[:1]!r}), ask_user(questions={QUESTIONS[4:]!r}))
[one["answers"], two["status"]]
"""
    person = Person({"tea": "black"}, "decline")
    server = kit_of().add_code_mode().to_fastmcp_server()
    result = await call(server, mode, person, "run_code", {"code": code})
    assert (result.structured_content, len(person.messages)) == ({"result": [{"tea": "black"}, "declined"]}, 2)


@MODES
@pytest.mark.parametrize("inner_mode", ["legacy", "2026-07-28"])
async def test_the_user_of_a_gateways_client_answers(mode, inner_mode):
    gateway, person = Toolkit("gateway"), Person({"tea": "black"})
    await gateway.aadd_mcp(kit_of().to_fastmcp_server(), mode=inner_mode)
    try:
        result = await call(gateway.to_fastmcp_server(), mode, person, "ask_user", {"questions": QUESTIONS[:1]})
    finally:
        await gateway.aremove_mcp()
    assert result.structured_content["answers"] == {"tea": "black"}
    assert person.messages[0].splitlines()[0] == "The MCP server 'desk' asks: The model asks you:"


async def test_a_handler_of_the_host_answers_for_clients():
    person = Person({"tea": "black"})
    result = await call(kit_of(answer_sync).to_fastmcp_server(), "legacy", person, "ask_user", {"questions": QUESTIONS})
    assert (result.structured_content["answers"], person.messages) == (ANSWERED, [])


def test_a_manifest_has_it_with_a_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answering.py").write_text("def ask(questions, context):\n    return {'tea': 'green'}\n")
    (tmp_path / "kit.yaml").write_text("sources: [{builtins: [user], ask_handler: 'answering.py:ask'}]")
    (tmp_path / "more.yaml").write_text("sources: [{builtins: [user, system], roots: [.]}]")
    with forgotten(tmp_path):
        assert ask(load("kit.yaml")).value["answers"] == ANSWERED
    assert {tool.name for tool in load("more.yaml")} == {"ask_user", "system_info", "get_env_var"}
    with pytest.raises(SourceError, match="<builtins:user>"):
        load("more.yaml", trust=["<builtins:system>", "./"])


def test_the_standard_toolkit_can_have_it(tmp_path: Path):
    assert "ask_user" not in standard_toolkit(tmp_path)
    assert "ask_user" in standard_toolkit(tmp_path, ask_user=True)
    assert ask(standard_toolkit(tmp_path, ask_user=AskUser(answer_sync))).value["answers"] == ANSWERED
    assert [finding for finding in kit_of().check() if finding.severity == "error"] == []
