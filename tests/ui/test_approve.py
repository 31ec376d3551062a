"""The pages of approvals without a browser: what they say, what they refuse, and a site that only shows."""

import asyncio
import contextlib
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

from ahvn_tools import Inbox, Toolkit, ui
from ahvn_tools.middleware import inbox as inbox_module
from tests.middleware.test_inbox import KEY, end, lock, post, wait_for
from tests.ui.desk import SECRETS, open_desk
from tests.ui.test_servers import shop
from tests.ui.test_site import client


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "inbox.db", secret_key=KEY)


def start(inbox: Inbox, *calls: tuple[str, dict[str, Any]]) -> threading.Thread:
    kit = Toolkit("agent", approver=inbox)
    kit.add(lambda text, token="": text, name="send", requires_approval=True).bind("token", default=SECRETS[0])
    thread = threading.Thread(target=lambda: [kit.exec(*call) for call in calls])
    thread.start()
    return thread


def test_without_an_inbox_the_page_says_how_to_have_one() -> None:
    text = client(open_desk()).get("/approvals").text
    assert "--inbox FILE" in text
    assert client(open_desk()).get("/approvals/x").status_code == 404


def test_a_request_is_shown_without_bound_values_and_decided(inbox: Inbox) -> None:
    opened = client(open_desk(), inbox=inbox)
    assert "appear here" in opened.get("/approvals").text
    agent = start(inbox, ("send", {"text": "<script>alert(1)</script>\u202e"}))
    item = wait_for(inbox)
    for path in ("/approvals", f"/approvals/{item.id}"):
        page = opened.get(path).text
        assert "<script>alert" not in page
        assert "\\u202e" in page
        assert "\u202e" not in page.partition("<textarea")[0]
        assert SECRETS[0] not in page
    for body, problem in (
        ("{", "no JSON object"), ("[]", "no JSON object"), ("{}", "no decision"),
        ('{"action": "approve", "arguments": []}', "no decision"),
        ('{"action": "approve", "arguments": {}}', "cannot remove an argument"),
        ('{"action": "answer", "digest": "DIGEST", "value": 1}', "waits for an approval"),
        ('{"action": "approve"}', "has changed since it was shown"),
        ('{"action": "deny", "digest": "that of another request"}', "has changed since it was shown"),
        ('{"action": "deny", "digest": "DIGEST", "reason": "LONG"}', "at most 2,000 characters"),
    ):  # fmt: skip
        sent = body.replace("DIGEST", item.digest).replace("LONG", "a" * 2_001)
        answer = opened.post(f"/approvals/{item.id}", content=sent).json()
        assert answer["is_error"], body
        assert problem in answer["text"]
    decision = '{"action": "approve", "arguments": {"text": "<script>alert(1)</script>\u202e"}, "always": false}'
    assert f'data-digest="{item.digest}"' in opened.get(f"/approvals/{item.id}").text
    decision = f'{{"digest": "{item.digest}", {decision[1:]}'
    assert opened.post(f"/approvals/{item.id}", content=decision).json() == {"is_error": False, "text": ""}
    agent.join(30)
    assert "approved" in opened.get("/approvals").text


@pytest.mark.parametrize("path", ["/validate/draw", "/run/draw", "/servers", "/servers/shop", "/approvals/{item}"])
@pytest.mark.parametrize(
    ("received", "status"),
    [
        ([{"type": "http.request", "body": b"a" * 60, "more_body": True}] * 2, 413),
        ([{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.disconnect"}], 400),
    ],
)
async def test_a_body_that_is_too_large_or_cut_off_is_refused_everywhere(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, path: str, received: list[dict[str, Any]], status: int
) -> None:
    monkeypatch.setattr("ahvn_tools.ui.trying.MAX_BODY_BYTES", 100)
    kit = open_desk()
    agent = start(inbox, ("send", {"text": "a"}))
    item = await asyncio.to_thread(wait_for, inbox)
    await kit.aadd_mcp(shop())
    app, messages, sent = ui.app(kit, inbox=inbox, connect_to=kit), iter(received), []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    scope = {"type": "http", "method": "POST", "path": path.format(item=item.id), "headers": headers}
    scope |= {"scheme": "http", "query_string": b"", "root_path": "", "server": ("localhost", 80)}
    await app(scope, receive, send)
    await kit.aremove_mcp()
    inbox.deny(item.id)
    await asyncio.to_thread(agent.join, 30)
    assert sent[0]["status"] == status


def test_requests_of_another_key_are_counted(inbox: Inbox, tmp_path: Path) -> None:
    agent = start(inbox, ("send", {"text": "a"}))
    item = wait_for(inbox)
    other = client(open_desk(), inbox=Inbox(tmp_path / "inbox.db", secret_key="another key of theirs"))
    assert "1 in this file were made with another secret_key" in other.get("/approvals").text
    assert "cannot be decided here" in other.get(f"/approvals/{item.id}").text
    inbox.deny(item.id)
    agent.join(30)


def test_a_read_only_site_refuses_all_that_does_something(inbox: Inbox) -> None:
    agent = start(inbox, ("send", {"text": "a"}))
    item = wait_for(inbox)
    opened = client(open_desk(), inbox=inbox, read_only=True)
    site = ui.app(open_desk(), read_only=True)._site  # type: ignore[attr-defined]
    paths = [route.path for route in site.routes if "POST" in (getattr(route, "methods", None) or ())]
    assert len(paths) > 3
    for path in (*paths, f"/approvals/{item.id}"):
        answer = opened.post(path, content='{"action": "approve"}')
        assert (answer.status_code, "read-only" in answer.text) == (403, True), path
    for path in ("/", "/tool/draw", "/approvals", f"/approvals/{item.id}"):
        text = opened.get(path).text
        assert "<button" not in text
        assert "/try/" not in text
    assert opened.get("/try/draw").status_code == 403
    assert inbox.item(item.id).state == "waiting"
    inbox.deny(item.id)
    agent.join(30)


def test_many_waiting_requests_are_listed_on_several_pages(inbox: Inbox) -> None:
    post(inbox, *[f"ann/{number}" for number in range(1, 252)])
    end(inbox, "251")
    opened = client(open_desk(), inbox=inbox)
    pages = [opened.get(f"/approvals?page={page}").text for page in (1, 2, 3, 4)]
    waiting = [page.partition("<h2>Before")[0] for page in pages]
    shown = [re.findall(r"ann/(\d+)", page) for page in waiting]
    assert [number for numbers in shown for number in numbers] == [str(number) for number in range(1, 251)]
    assert ["Earlier requests" in page for page in pages] == [False, True, True, True]
    assert ["Later requests" in page for page in pages] == [True, True, False, False]
    assert ["ann/251" in page for page in pages] == [True] * 4
    assert "Requests 101 to 200 of those that wait" in pages[1]
    assert "No more requests wait" in pages[3]
    for wrong in ("0", "-1", "x", "", "\u0663", "9" * 5_000):
        page = opened.get("/approvals", params={"page": wrong}).text
        assert re.findall(r"ann/(\d+)", page.partition("<h2>Before")[0]) == shown[0], wrong


def test_the_page_that_tries_a_tool_leads_to_the_approvals(inbox: Inbox) -> None:
    kit = Toolkit("files").add(len, name="size").add(print, name="remove", requires_approval=True)
    for options, name, leads in (
        ({"inbox": inbox}, "remove", True),
        ({"inbox": inbox}, "size", False),
        ({}, "remove", False),
    ):
        text = client(kit, **options).get(f"/try/{name}").text
        assert ("waits until it is decided" in text) is leads


def test_what_no_person_sees_is_escaped(inbox: Inbox) -> None:
    kit = Toolkit("agent", approver=inbox)
    kit.add(lambda text: text, name="send", requires_approval=True)
    session = kit.session(session_id="ann\u202e\nlive")
    thread = threading.Thread(target=lambda: [session.exec("send", {"text": "a"}) for _ in range(2)])
    thread.start()
    opened = client(open_desk(), inbox=inbox)
    inbox.deny(wait_for(inbox).id, "No\u202e")
    item = wait_for(inbox)
    ended = next(one.id for one in inbox.items() if one.state == "denied")
    for path in ("/approvals", f"/approvals/{item.id}", f"/approvals/{ended}"):
        page = opened.get(path).text
        assert "\u202e" not in page
        assert "ann\\u202e\\nlive" in page
    assert "No\\u202e" in page
    inbox.deny(item.id)
    thread.join(30)


@pytest.mark.parametrize("damage", ["locked", "corrupt", "deleted"])
def test_a_file_that_cannot_be_used_is_shown(inbox: Inbox, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(inbox_module, "LOCK_SECONDS", 0.01)
    opened = client(open_desk(), inbox=inbox)
    if damage == "corrupt":
        inbox.path.write_bytes(b"no database " * 1_000)
    elif damage == "deleted":
        inbox.path.unlink()
    with lock(inbox.path) if damage == "locked" else contextlib.nullcontext():
        listed, page = opened.get("/approvals"), opened.get("/approvals/x")
        posted = opened.post("/approvals/x", content="{}")
    assert (listed.status_code, page.status_code, posted.status_code) == (503, 404, 404)
    for answer in (listed, page, posted):
        assert "cannot be used" in answer.text
    assert 'id="live"' in listed.text


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "CAST(x'ff' AS TEXT)", "1e999", "-1", "'{\"text\": 1}'"])
def test_a_row_that_something_else_has_written_breaks_no_page(inbox: Inbox, value: str) -> None:
    agent = start(inbox, ("send", {"text": "a"}), ("send", {"text": "b"}))
    inbox.deny(wait_for(inbox).id)
    item = wait_for(inbox)
    opened = client(open_desk(), inbox=inbox)
    with contextlib.closing(sqlite3.connect(inbox.path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(inbox)")]
        rows = connection.execute("SELECT * FROM inbox").fetchall()
        for column in columns:
            with connection:
                connection.execute(f"UPDATE inbox SET {column} = {value} WHERE state = 'denied'")
            for path in ("/approvals", f"/approvals/{item.id}"):
                assert opened.get(path).status_code == 200, column
            with connection:
                connection.execute("DELETE FROM inbox")
                connection.executemany(f"INSERT INTO inbox VALUES ({', '.join('?' * len(columns))})", rows)
    inbox.deny(item.id)
    agent.join(30)
