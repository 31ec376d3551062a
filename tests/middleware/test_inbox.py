"""Calls that wait in an inbox: for a decision, for edits that fit, for a result, in this process and in another."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from pydantic import SecretStr

from ahvn_tools import ApprovalRules, Inbox, ToolCall, ToolContext, Toolkit, ToolResult, formats
from ahvn_tools.builtins import AskUser
from ahvn_tools.errors import CallRejectedError, ToolkitError
from ahvn_tools.middleware import inbox as inbox_module
from ahvn_tools.middleware import record, replay, retry
from ahvn_tools.middleware.inbox import InboxItem

KEY = "a key that all processes have"
LONGEST = 30

AGENT = """
import sys
from ahvn_tools import Inbox, Toolkit
kit = Toolkit("files", approver=Inbox(sys.argv[1], secret_key=sys.argv[2]))
kit.add(lambda path: path + " is gone", name="remove", requires_approval=True)
print(kit.exec("remove", {"path": "a.txt"}).text)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "inbox.db"


@pytest.fixture
def inbox(file: Path) -> Inbox:
    return Inbox(file, secret_key=KEY)


def open_kit(inbox: Inbox, **options: Any) -> Toolkit:
    kit = Toolkit("files", approver=inbox, **options)

    @kit.tool(requires_approval=True)
    def remove(path: str, force: bool = False, password: SecretStr = SecretStr(""), user: str = "") -> str:
        """Remove a file."""
        return f"{path} {force} {password.get_secret_value()} {user}"

    @kit.tool(external=True)
    def choose(free: list[str]) -> str:
        """Let the user choose."""
        raise NotImplementedError

    @kit.tool
    async def clean(context: ToolContext) -> str:
        """Delete old files."""
        await context.aask("delete 2 files", {"files": ["a", "b"]})
        return "clean"

    return kit.add(AskUser()).bind("user", default="bound-value")


def until(check: Callable[[], Any]) -> Any:
    end = time.monotonic() + LONGEST
    while not (found := check()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def wait_for(inbox: Inbox, state: str = "waiting", *, problem: bool = False) -> InboxItem:
    return until(
        lambda: next((one for one in inbox.items() if one.state == state and bool(one.problem) == problem), None)
    )


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], Any]], Callable[[], Any]]]:
    threads: list[threading.Thread] = []

    def start(function: Callable[[], Any]) -> Callable[[], Any]:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(function()))
        threads.append(thread)
        thread.start()

        def result() -> Any:
            thread.join(LONGEST)
            return results[0]

        return result

    yield start
    for thread in threads:
        thread.join(LONGEST)
        assert not thread.is_alive()


DECISIONS: list[tuple[str, dict[str, Any], Callable[[Inbox, str], Any], str]] = [
    ("remove", {"path": "a"}, lambda inbox, item: inbox.approve(item), "a False  bound-value"),
    ("remove", {"path": "a"}, lambda inbox, item: inbox.approve(item, {"force": True}), "a True  bound-value"),
    (
        "remove",
        {"path": "a", "password": "hunter2"},
        lambda inbox, item: inbox.approve(item, {"path": "b", "password": "***"}),
        "b False hunter2 bound-value",
    ),
    ("remove", {"path": "a"}, lambda inbox, item: inbox.deny(item), "The call of 'remove' was rejected. Do not try"),
    (
        "remove",
        {"path": "a"},
        lambda inbox, item: inbox.deny(item, "Keep it."),
        "The call of 'remove' was rejected: Keep",
    ),
    ("clean", {}, lambda inbox, item: inbox.approve(item), "clean"),
    ("clean", {}, lambda inbox, item: inbox.deny(item, "No."), "The call of 'clean' was rejected: No."),
    ("choose", {"free": ["1A"]}, lambda inbox, item: inbox.answer(item, "1A"), "1A"),
    ("choose", {"free": ["1A"]}, lambda inbox, item: inbox.deny(item, "Gone."), "The result was not supplied: Gone."),
    (
        "ask_user",
        {"questions": [{"name": "tea", "text": "Which?"}]},
        lambda inbox, item: inbox.answer(item, {"tea": "green"}),
        '{"status": "answered", "answers": {"tea": "green"}}',
    ),
    (
        "ask_user",
        {"questions": [{"name": "tea", "text": "Which?"}]},
        lambda inbox, item: inbox.deny(item),
        '{"status": "declined", "answers": {}}',
    ),
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("tool", "arguments", "decide", "expected"), DECISIONS)
def test_a_call_goes_on_with_the_decision(inbox, in_background, file, tool, arguments, decide, expected, is_async):
    kit = open_kit(inbox).session()
    run = (lambda: asyncio.run(kit.aexec(tool, arguments))) if is_async else (lambda: kit.exec(tool, arguments))
    result = in_background(run)
    other = Inbox(file, secret_key=KEY)
    item = wait_for(other)
    assert (item.tool, item.toolkit, item.session_id) == (tool, "files", kit.session_id)
    content = file.read_bytes()
    assert b"hunter2" not in content
    assert b"bound-value" not in content
    decide(other, item.id)
    assert result().text.startswith(expected)
    assert other.item(item.id).state in {"approved", "denied", "answered"}


@pytest.mark.parametrize(
    ("tool", "arguments", "wrong", "right", "problem"),
    [
        (
            "remove", {"path": "a"}, lambda i, item: i.approve(item, {"force": "perhaps"}),
            lambda i, item: i.approve(item),
            "'force' should be a valid boolean",
        ),
        ("choose", {"free": []}, lambda i, item: i.answer(item, 7), lambda i, item: i.answer(item, "1A"), "is refused"),
        (
            "ask_user", {"questions": [{"name": "tea", "text": "Which?"}]},
            lambda i, item: i.answer(item, {"coffee": ""}),
            lambda i, item: i.answer(item, {"tea": "green"}), "answers are to no question",
        ),
    ],
)  # fmt: skip
def test_what_the_tool_refuses_decides_nothing(inbox, in_background, tool, arguments, wrong, right, problem):
    result = in_background(lambda: open_kit(inbox).exec(tool, arguments))
    asked = wait_for(inbox)
    wrong(inbox, asked.id)
    item = wait_for(inbox, problem=True)
    assert item.digest == asked.digest
    assert problem in item.problem["text"]
    right(inbox, item.id)
    assert result().error is None


def test_edits_that_a_rule_denies_decide_nothing(inbox, in_background):
    kit = open_kit(inbox, rules=ApprovalRules(mode="ask", deny=['remove(path: "secret*")']))
    result = in_background(lambda: kit.exec("remove", {"path": "a"}))
    inbox.approve(wait_for(inbox).id, {"path": "secret.txt"})
    item = wait_for(inbox, problem=True)
    assert "the rules of its host do not allow it" in item.problem["text"]
    inbox.approve(item.id, {"path": "b"})
    assert result().text.startswith("b ")


async def test_a_call_of_an_mcp_client_waits_in_the_inbox_too(inbox):
    kit = open_kit(inbox)
    async with Client(kit.to_fastmcp_server()) as client:
        call = asyncio.ensure_future(client.call_tool("choose", {"free": ["1A"]}))
        inbox.answer((await asyncio.to_thread(wait_for, inbox)).id, "1A")
        assert (await call).data == "1A"


def test_a_request_is_decided_once_by_one_of_many(inbox, in_background, file):
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    item, start, outcomes = wait_for(inbox), threading.Barrier(8), []

    def decide(number: int) -> None:
        own = Inbox(file, secret_key=KEY)
        start.wait(LONGEST)
        try:
            own.approve(item.id, {"path": f"{number}"})
            outcomes.append(number)
        except ToolkitError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    [winner] = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert all("Nothing has changed." in outcome for outcome in outcomes if isinstance(outcome, str))
    assert result().text.startswith(f"{winner} ")
    with pytest.raises(ToolkitError, match="was approved already"):
        inbox.deny(item.id)


def test_always_remembers_the_rule_and_the_item_says_what_asked(inbox, in_background):
    kit = open_kit(inbox, rules=ApprovalRules(mode="ask", ask=["erase"]))
    kit.add(lambda path: path, name="erase")
    result = in_background(lambda: [kit.exec("erase", {"path": "a"}).text for _ in range(2)])
    item = wait_for(inbox)
    assert (item.asked_by, item.rule) == ("The rule erase asks for it.", 'erase(path: "a")')
    inbox.approve(item.id, always=True)
    assert result() == ["a", "a"]
    assert kit.remembered_rules == ['erase(path: "a")']
    later = in_background(lambda: kit.exec("erase", {"path": "b"}))
    newer = wait_for(inbox)
    assert inbox.previous(newer).arguments == {"path": "a"}
    inbox.deny(newer.id)
    assert later().error.code == "rejected"


def test_what_does_not_fit_a_request_is_an_error(inbox, in_background):
    kit = open_kit(inbox)
    result = in_background(lambda: [kit.exec("remove", {"path": "a", "password": "x"}), kit.exec("clean")])
    item = wait_for(inbox)
    for decide, message in (
        (lambda: inbox.answer(item.id, 1), "waits for an approval: approve or deny it"),
        (lambda: inbox.approve(item.id, always=True), "cannot be approved for always"),
        (lambda: inbox.approve(item.id, {"path": object()}), "JSON data"),
        (lambda: inbox.approve(item.id, {"path": "a" * 2_000_000}), "at most 1,000,000"),
        (lambda: inbox.approve("other"), "no such request"),
    ):
        with pytest.raises(ToolkitError, match=message):
            decide()
    inbox.approve(item.id)
    question = until(lambda: next((one for one in inbox.items() if one.tool == "clean"), None))
    with pytest.raises(ToolkitError, match="as it is, or denied"):
        inbox.approve(question.id, {"files": []})
    inbox.approve(question.id)
    assert [one.error for one in result()] == [None, None]


def test_nobody_decides_in_time(file):
    kit = open_kit(Inbox(file, secret_key=KEY, timeout=0.3))
    with pytest.raises(CallRejectedError, match="nobody has decided in time"):
        kit.call("remove", {"path": "a"})
    assert kit.call("ask_user", {"questions": [{"name": "tea", "text": "Which?"}]})["status"] == "left"
    for item in Inbox(file, secret_key=KEY).items():
        assert item.state == "expired"
        with pytest.raises(ToolkitError, match=r"has expired, \d seconds ago"):
            Inbox(file, secret_key=KEY).deny(item.id)


def test_the_wait_counts_towards_no_timeout_and_a_cancelled_call_withdraws_its_request(inbox, in_background):
    kit = open_kit(inbox, timeout=2)
    result = in_background(lambda: kit.exec("remove", {"path": "a"}))
    item = wait_for(inbox)
    time.sleep(2.2)
    inbox.approve(item.id)
    assert result().error is None
    cancelled = in_background(lambda: kit.exec("remove", {"path": "b"}, call_id="c1"))
    item = wait_for(inbox)
    assert kit.cancel("c1")
    assert cancelled().error.code == "cancelled"
    with pytest.raises(ToolkitError, match="was cancelled by its caller"):
        inbox.approve(item.id)


def test_another_process_goes_on_and_a_killed_one_is_seen(inbox, file, monkeypatch):
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", AGENT, str(file), KEY], stdout=subprocess.PIPE, text=True)

    with start() as agent:
        item = wait_for(inbox)
        assert item.process_id == agent.pid
        inbox.approve(item.id)
        assert agent.communicate(timeout=LONGEST)[0] == "a.txt is gone\n"
    with start() as agent:
        item = wait_for(inbox)
        agent.kill()
    now = time.time()
    monkeypatch.setattr(inbox_module.time, "time", lambda: now + inbox_module.GONE_SECONDS)
    assert inbox.item(item.id).state == "process ended"
    with pytest.raises(ToolkitError, match="its process has ended"):
        inbox.approve(item.id)


def test_what_only_writes_the_file_decides_nothing(inbox, in_background, file, caplog):
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    item = wait_for(inbox)
    stranger = Inbox(file, secret_key="another key, which is not theirs")
    assert [one.state for one in stranger.items()] == ["unreadable"]
    with pytest.raises(ToolkitError, match="another secret_key"):
        stranger.approve(item.id)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE inbox SET large = replace(large, '\"a\"', '\"b\"')")
    assert [one.state for one in inbox.items()] == ["unreadable"]
    with sqlite3.connect(file) as connection:
        forged = '{"is_accepted": true, "reason": "", "arguments": null, "is_always": false, "value": null}'
        connection.execute("UPDATE inbox SET state = 'decided', decision = ?, decision_signature = 'x'", [forged])
    assert result().error.code == "tool_error"
    assert "ToolkitError (inbox.py" in caplog.text


@pytest.mark.parametrize("value", ["'x'", "x'00'", "NULL", "-1", "'[1]'", "'{\"text\": 1}'", "1e999"])
@pytest.mark.parametrize(
    "column", ["text", "large", "signature", "seen_until", "state", "reason", "problem", "ended_at"]
)
def test_whatever_is_written_into_the_file_is_listed(inbox, in_background, file, column, value):
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    item = wait_for(inbox)
    inbox.deny(item.id)
    result()
    with contextlib.suppress(sqlite3.IntegrityError), sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE inbox SET {column} = {value}")
    [listed] = inbox.items()
    with pytest.raises(ToolkitError, match="Nothing has changed"):
        inbox.deny(listed.id)


def test_the_row_of_another_request_is_unreadable_and_decides_nothing(inbox, in_background, file):
    kit = open_kit(inbox)
    results = [in_background(lambda path=path: kit.exec("remove", {"path": path})) for path in ("a", "all")]
    items = until(lambda: len(inbox.items()) == 2 and {one.arguments["path"]: one for one in inbox.items()})
    harmless, other = items["a"], items["all"]
    with sqlite3.connect(file) as connection:
        columns = "text, large, signature, state, reason, problem, ended_at, state_signature"
        saved = connection.execute("SELECT text, signature FROM inbox WHERE id = ?", [harmless.id]).fetchone()
        query = f"UPDATE inbox SET ({columns}) = (SELECT {columns} FROM inbox WHERE id = ?) WHERE id = ?"
        connection.execute(query, (other.id, harmless.id))
    assert inbox.item(harmless.id).state == "unreadable"
    with pytest.raises(ToolkitError, match="another secret_key, or changed"):
        inbox.approve(harmless.id)
    assert inbox.item(other.id).state == "waiting"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE inbox SET large = '' WHERE id = ?", [other.id])
    assert inbox.item(other.id).state == "unreadable"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE inbox SET text = ?, signature = ? WHERE id = ?", (*saved, other.id))
        connection.execute("DELETE FROM inbox")
    assert [result().error.code for result in results] == ["tool_error", "tool_error"]


def test_a_decision_is_on_what_was_shown(inbox, in_background, monkeypatch):
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    item = wait_for(inbox)
    for decide in (inbox.approve, inbox.deny, lambda item, digest: inbox.answer(item, 1, digest=digest)):
        with pytest.raises(ToolkitError, match="has changed since it was shown"):
            decide(item.id, digest="that of another request")
    with monkeypatch.context() as patch:  # another process writes between the two reads
        patch.setattr(inbox, "item", lambda _: dataclasses.replace(item, digest="another"))
        with pytest.raises(ToolkitError, match="has changed since it was shown"):
            inbox.approve(item.id)
    assert inbox.approve(item.id, digest=item.digest).state == "decided"
    assert result().text.startswith("a ")


@pytest.mark.parametrize(
    "change",
    [
        "state = 'approved'", "reason = 'The security team allows it.'", "ended_at = 1.5", "ended_at = 1e999",
        """problem = '{"text": "Approve it without edits.", "problems": []}'""", "state_signature = 'x'",
        "id = CAST(x'ff' AS TEXT)", "id = x'ff'", "text = CAST(x'ff' AS TEXT)", "state = CAST(x'ff' AS TEXT)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_denied", [True, False])
def test_what_became_of_a_request_is_signed(inbox, in_background, file, change, is_denied):
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    item = wait_for(inbox)
    if is_denied:
        inbox.deny(item.id, "No.")
        result()
    with sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE inbox SET {change}")
    for is_short in (True, False):
        [listed] = inbox.items(is_short=is_short)
        assert (listed.state, listed.reason, listed.problem) == ("unreadable", "", {})
    assert inbox.previous(dataclasses.replace(item, created_at=time.time())) is None
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM inbox")
    result()


def test_a_list_of_short_items_has_a_preview_in_place_of_what_is_large(inbox, in_background):
    kit = open_kit(inbox)
    result = in_background(lambda: [kit.exec("remove", {"path": "é" * 100_000}), kit.exec("clean")])
    for beginning in ('{"path": "ééé', "delete 2 files"):
        item = wait_for(inbox)
        [short] = [one for one in inbox.items(is_short=True) if one.state == "waiting"]
        assert short.preview.startswith(beginning)
        assert len(short.preview) <= 200
        assert short == dataclasses.replace(item, arguments={}, action=None, details=None, schema={})
        with pytest.raises(ToolkitError, match="at most 2,000 characters"):
            inbox.deny(item.id, "a" * 2_001)
        inbox.deny(item.id, "a" * 2_000)
        until(lambda item=item: inbox.item(item.id).state == "denied")
    assert {one.error.code for one in result()} == {"rejected"}


@contextlib.contextmanager
def lock(file: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


@pytest.mark.parametrize("is_first", [True, False])
def test_a_call_waits_on_while_the_file_is_locked(inbox, in_background, file, monkeypatch, is_first):
    monkeypatch.setattr(inbox_module, "RETRY_SECONDS", 0.01)
    failures, kit = [], open_kit(inbox)
    monkeypatch.setattr(inbox_module, "_BusyError", type("Busy", (inbox_module._BusyError,), {
        "__init__": lambda self, *texts: (failures.append(texts), ToolkitError.__init__(self, *texts))[1],
    }))  # fmt: skip
    with contextlib.ExitStack() as stack:
        if is_first:
            stack.enter_context(lock(file))
        result = in_background(lambda: kit.exec("remove", {"path": "a"}))
        if not is_first:
            item = wait_for(inbox)
            stack.enter_context(lock(file))
        until(lambda: len(failures) > 2)
    inbox.approve(wait_for(inbox).id if is_first else item.id)
    assert result().text.startswith("a ")


@pytest.mark.parametrize("ends", ["late", "cancelled"])
def test_a_lock_keeps_no_call_longer_than_its_request(file, in_background, monkeypatch, ends):
    monkeypatch.setattr(inbox_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(inbox_module, "LOCK_SECONDS", 0.01)
    inbox = Inbox(file, secret_key=KEY, timeout=0.5 if ends == "late" else None)
    kit = open_kit(inbox)
    for is_first in (True, False):
        with contextlib.ExitStack() as stack:
            if is_first:
                stack.enter_context(lock(file))
            result = in_background(lambda: kit.exec("remove", {"path": "a"}, call_id="c1"))
            if not is_first:
                wait_for(inbox)
                stack.enter_context(lock(file))
            if ends == "cancelled":
                until(lambda: kit.cancel("c1"))
            assert result().error.code == {"late": "rejected", "cancelled": "cancelled"}[ends]


def test_what_a_person_wrote_is_not_left_in_the_file(inbox, in_background, file):
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    inbox.approve(wait_for(inbox).id, {"path": "written by a person " * 1_000})
    assert result().error is None
    assert b"written by a person" not in file.read_bytes()
    with contextlib.closing(inbox._connect()) as connection:  # also where SQLite was built without it
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_files_that_are_not_usable(tmp_path, file):
    link = tmp_path / "link.db"
    link.symlink_to(file)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE inbox (id TEXT)")
    other.chmod(0o600)
    open_to_all = tmp_path / "open.db"
    open_to_all.touch(0o600)
    open_to_all.chmod(0o622)
    for path in (link, other, open_to_all, tmp_path, tmp_path / "none" / "inbox.db"):
        with pytest.raises(ToolkitError, match="cannot be used"):
            Inbox(path, secret_key=KEY)
    for timeout in (0, -1, "1", float("nan")):
        with pytest.raises(ToolkitError, match="greater than 0"):
            Inbox(file, secret_key=KEY, timeout=timeout)
    for key in (None, "short"):
        with pytest.raises(ToolkitError, match="key"):
            Inbox(file, secret_key=key)
    Inbox(file, secret_key=KEY)
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON inbox BEGIN DELETE FROM inbox; END")
    with pytest.raises(ToolkitError, match="of another program"):
        Inbox(file, secret_key=KEY)


def test_a_call_is_approved_for_always_in_a_toolkit_without_rules(inbox, in_background):
    kit = open_kit(inbox)
    result = in_background(lambda: kit.call("remove", {"path": "a"}))
    item = wait_for(inbox)
    assert item.rule == 'remove(path: "a")'
    inbox.approve(item.id, always=True)
    assert result() == kit.call("remove", {"path": "a"})
    assert len(inbox.items()) == 1


def test_old_requests_are_forgotten(inbox, monkeypatch):
    monkeypatch.setattr(inbox_module, "MAX_KEPT", 3)
    monkeypatch.setattr(inbox_module, "GONE_SECONDS", 0)
    for number in range(6):
        fields = {"id": str(number), "tool": "t", "created_at": float(number), "arguments": {}, "schema": {}}
        fields |= {"secrets": [], "expires_at": None}
        inbox._post(fields, inbox_module._to_texts(fields), {}, threading.Event())
    assert [item.id for item in inbox.items()] == ["5", "4", "3"]


def test_the_requests_of_one_session_are_found_among_those_of_many(inbox, monkeypatch):
    monkeypatch.setattr(inbox_module, "MAX_KEPT", 3)
    for number in range(8):
        fields = {"id": str(number), "tool": "t", "created_at": float(number), "arguments": {}, "schema": {}}
        fields |= {"secrets": [], "expires_at": None, "session_id": "ann" if number < 2 else "bob"}
        inbox._post(fields, inbox_module._to_texts(fields), {}, threading.Event())
    assert [item.id for item in inbox.items()] == ["7", "6", "5"]
    assert [item.id for item in inbox.items(session_id="ann")] == ["1", "0"]
    assert inbox.items(session_id="") == []


def post(inbox: Inbox, *sessions: str | None) -> None:
    """Write requests that wait, the next one later than the last; their ids are numbers from 1."""
    for number, session_id in enumerate(sessions, start=1):
        fields = {"id": str(number), "tool": "t", "created_at": float(number), "arguments": {"n": number}, "schema": {}}
        fields |= {"secrets": [], "expires_at": None, "session_id": session_id}
        inbox._post(fields, inbox_module._to_texts(fields), {}, threading.Event())
    with inbox._transaction() as connection:
        connection.execute("UPDATE inbox SET seen_until = ?", (time.time() + 3600,))


def end(inbox: Inbox, item_id: str) -> None:
    with inbox._transaction() as connection:
        inbox._end(connection, item_id, inbox_module._select(connection, item_id)[1], "cancelled", "")


def test_calls_of_one_user_that_have_ended_do_not_hide_what_waits_for_another(inbox):
    post(inbox, "ann/1", *["bob/1"] * 210)
    for number in range(2, 212):
        end(inbox, str(number))
    assert inbox.items()[0].session_id == "ann/1"
    assert [item.session_id for item in inbox.waiting()] == ["ann/1"]
    assert [item.id for item in inbox.items()[1:]] == [str(number) for number in range(211, 11, -1)]


def test_waiting_calls_of_one_user_do_not_hide_those_of_another(inbox):
    post(inbox, "ann/1", None, *["bob/1"] * 210, "anna/1", "ann/2")
    assert [item.id for item in inbox.waiting()] == [str(number) for number in range(1, 215)]
    assert [item.session_id for item in inbox.waiting(session_prefix="ann/")] == ["ann/1", "ann/2"]
    assert [item.session_id for item in inbox.items(session_prefix="ann/")] == ["ann/2", "ann/1"]
    assert [item.session_id for item in inbox.waiting(session_id="ann/2", session_prefix="ann/")] == ["ann/2"]
    assert [*inbox.waiting(session_id="ann/2", session_prefix="bob/")] == []
    assert len([*inbox.waiting(session_prefix="")]) == 213  # not that without a session
    end(inbox, "3")
    assert inbox.items()[-1].id == "3"  # 200 that wait do not hide what was decided


def test_what_waits_is_read_as_it_is_needed_and_locks_nothing(inbox):
    post(inbox, *["ann/1"] * 120)
    items = inbox.waiting(is_short=True)
    first = next(items)
    assert (first.arguments, first.preview) == ({}, '{"n": 1}')
    for number in range(1, 100):
        end(inbox, str(number))
    rest = [item.id for item in items]
    assert rest[-20:] == [str(number) for number in range(101, 121)]
    assert next(inbox.waiting()).arguments == {"n": 100}


def test_a_file_that_cannot_be_read_is_an_error_of_what_waits(inbox, file):
    file.write_bytes(b"no database" * 100)
    with pytest.raises(ToolkitError, match="cannot be used"):
        next(inbox.waiting())


class SlowInbox(Inbox):
    """An inbox whose file is written when the test allows it."""

    def pause_at(self, name: str) -> tuple[threading.Event, threading.Event]:
        """Let one method wait before it begins; return what is set when it waits, and what ends the wait."""
        waits, go_on, run = threading.Event(), threading.Event(), getattr(self, name)

        def wait_and_run(*arguments: Any, **options: Any) -> Any:
            waits.set()
            assert go_on.wait(LONGEST)
            return run(*arguments, **options)

        setattr(self, name, wait_and_run)
        return waits, go_on


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("remove", {"path": "a"}),
        ("choose", {"free": ["1A"]}),
        ("clean", {}),
        ("ask_user", {"questions": [{"name": "tea", "text": "Which?"}]}),
    ],
)
def test_a_call_that_is_cancelled_while_its_request_is_written_waits_no_more(
    file, in_background, tool, arguments, is_async, is_late
):
    inbox = SlowInbox(file, secret_key=KEY)
    kit = open_kit(inbox)
    waits, go_on = inbox.pause_at("_post")
    run = (lambda: asyncio.run(kit.aexec(tool, arguments, call_id="c1"))) if is_async else None
    result = in_background(run or (lambda: kit.exec(tool, arguments, call_id="c1")))
    assert waits.wait(LONGEST)
    if is_late:  # it has been written when the call learns that it is cancelled
        go_on.set()
    assert kit.cancel("c1")
    assert result().error.code == "cancelled"
    go_on.set()
    other = Inbox(file, secret_key=KEY)
    item = wait_for(other, "cancelled")
    for decide in (other.approve, other.deny, lambda item: other.answer(item, 1)):
        with pytest.raises(ToolkitError, match=r"was cancelled by its caller|waits for a"):
            decide(item.id)
    assert other.item(item.id).state == "cancelled"


@pytest.mark.parametrize("decide", ["approve", "deny"])
def test_a_call_that_is_cancelled_while_it_reads_the_decision_did_not_run(file, in_background, decide):
    inbox = SlowInbox(file, secret_key=KEY)
    kit, ran = Toolkit("files", approver=inbox), []

    def remove(path: str) -> None:
        ran.append(path)

    kit.add(remove, requires_approval=True)
    result = in_background(lambda: kit.exec("remove", {"path": "a"}, call_id="c1"))
    item = wait_for(inbox)
    waits, go_on = inbox.pause_at("_take_now")
    assert getattr(Inbox(file, secret_key=KEY), decide)(item.id).state == "decided"
    assert waits.wait(LONGEST)
    assert kit.cancel("c1")
    assert result().error.code == "cancelled"
    go_on.set()
    assert until(lambda: inbox.item(item.id).state == "cancelled")
    assert ran == []


async def test_a_reader_that_leaves_after_the_event_of_a_call_cancels_its_request(file):
    inbox = SlowInbox(file, secret_key=KEY)
    kit, ran = Toolkit("bank", approver=inbox), []

    def transfer(amount: int) -> None:
        ran.append(amount)

    kit.add(transfer, requires_approval=True)
    call = ToolCall(id="c1", name="transfer", arguments={"amount": 1})
    waits, go_on = inbox.pause_at("_post")

    async def read() -> None:
        async for _ in kit.astream_converse(lambda messages, tools: formats.get("openai").message([call])[0], "Pay"):
            pass

    reader = asyncio.create_task(read())
    assert await asyncio.to_thread(waits.wait, LONGEST)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    go_on.set()
    item = await asyncio.to_thread(wait_for, inbox, "cancelled")
    assert item.call_id == "c1"
    with pytest.raises(ToolkitError, match="was cancelled by its caller"):
        inbox.approve(item.id)
    assert ran == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("tool", "arguments", "needs", "decide"),
    [
        ("remove", {"path": "a"}, "an approval", lambda inbox, item: inbox.approve(item)),
        ("choose", {"free": ["1A"]}, "a result", lambda inbox, item: inbox.answer(item, "1A")),
        ("clean", {}, "an approval", lambda inbox, item: inbox.approve(item)),
    ],
)
def test_the_reader_of_a_stream_learns_that_a_call_waits_and_may_decide_before_it_reads_on(
    inbox, monkeypatch, tool, arguments, needs, decide, is_async
):
    monkeypatch.setattr(inbox_module, "BEAT_SECONDS", 0.1)
    kit, seen = open_kit(inbox).session(), []
    call = ToolCall(id="c7", name=tool, arguments=arguments)

    def model(messages: list[Any], tools: Any) -> Any:
        done = {"role": "assistant", "content": "Done."}
        return done if messages[-1]["role"] == "tool" else formats.get("openai").message([call])[0]

    def handle(event: Any) -> None:
        seen.append(event)
        if isinstance(event, ToolResult) and (waiting := event.meta.get("waiting")):
            item = inbox.item(waiting)
            assert (item.call_id, item.session_id, item.state) == ("c7", kit.session_id, "waiting")
            assert (event.id, event.value, event.is_last) == ("c7", f"Waits for {needs}.", False)
            decide(inbox, waiting)

    async def read() -> None:
        async for event in kit.astream_converse(model, "Do it"):
            handle(event)

    if is_async:
        asyncio.run(read())
    else:
        for event in kit.stream_converse(model, "Do it"):
            handle(event)
    results = [event for event in seen if isinstance(event, ToolResult)]
    assert [result.is_last for result in results] == [False, True]
    assert not results[-1].is_error
    assert seen[-1].text == "Done."


def test_a_stream_that_waits_for_a_person_is_retried_as_a_call_is(inbox):
    attempts = []

    def fetch() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError
        return len(attempts)

    kit = Toolkit("net", approver=inbox, middleware=[retry(all_tools=True, initial_delay=0)])
    kit.add(fetch, requires_approval=True)
    for result in kit.stream("fetch"):
        if "waiting" in result.meta:
            inbox.approve(result.meta["waiting"])
    assert (result.value, len(inbox.items())) == (2, 2)


def test_a_reader_that_leaves_a_call_that_waits_cancels_its_request(inbox):
    stream = open_kit(inbox).stream("remove", {"path": "a"})
    item = inbox.item(next(stream).meta["waiting"])
    stream.close()
    assert inbox.item(item.id).state == "cancelled"


def test_a_recording_has_no_request_of_an_inbox(inbox, file):
    kit, path = open_kit(inbox), file.with_name("calls.jsonl")
    for chunk in kit.stream("remove", {"path": "a"}, middleware=[record(path)]):
        if "waiting" in chunk.meta:
            inbox.approve(chunk.meta["waiting"])
    assert "waiting" not in path.read_text()
    assert [one.is_last for one in kit.stream("remove", {"path": "a"}, middleware=[replay(path)])] == [True]


def test_a_call_of_a_program_reports_that_it_waits(inbox):
    kit = open_kit(inbox)
    kit.add_code_mode()
    chunks = []
    for chunk in kit.stream("run_code", {"code": "remove(path='a')"}):
        chunks.append(chunk)
        if not chunk.is_last:
            inbox.approve(wait_for(inbox).id)
    assert chunks[0].value == "remove: Waits for an approval."
    assert not chunks[-1].is_error


async def test_an_mcp_client_reads_that_its_call_waits(inbox):
    reports = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)
        inbox.approve((await asyncio.to_thread(wait_for, inbox)).id)

    async with Client(open_kit(inbox).to_fastmcp_server()) as client:
        assert (await client.call_tool("remove", {"path": "a"}, progress_handler=take)).data.startswith("a ")
    assert reports == ["Waits for an approval."]


def test_a_request_that_expires_while_it_is_written_cannot_be_decided(file, in_background):
    inbox = SlowInbox(file, secret_key=KEY, timeout=0.01)
    waits, go_on = inbox.pause_at("_post")
    result = in_background(lambda: open_kit(inbox).exec("remove", {"path": "a"}))
    assert waits.wait(LONGEST)
    time.sleep(0.02)
    go_on.set()
    assert result().error.code == "rejected"
    with pytest.raises(ToolkitError, match="has expired"):
        inbox.approve(inbox.items()[0].id)
