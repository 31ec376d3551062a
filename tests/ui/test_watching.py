"""The page Watch without a browser: its events, what it says of a file, and whose calls it shows."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

from starlette.testclient import TestClient

from ahvn_tools import Toolkit, ui
from ahvn_tools.middleware import watch
from ahvn_tools.middleware.watched_calls import WatchedCalls
from ahvn_tools.ui import watching
from tests.ui.desk import SECRETS, open_desk


async def read_events(app: Any, is_last: Callable[[str, Any], bool], query: str = "") -> list[tuple[str, Any]]:
    """Return the events of the page until one is the last that is wanted; then the browser leaves."""
    events: list[tuple[str, Any]] = []
    has_left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        for event in message.get("body", b"").decode().split("\n\n")[:-1]:
            kind, data = event.split("\n")
            events.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
            if is_last(*events[-1]):
                has_left.set()

    scope = {
        "type": "http", "method": "GET", "path": "/watch/events", "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "server": ("localhost", 80),
    }  # fmt: skip
    await asyncio.wait_for(app(scope, receive, send), 60)
    return events


def has_ended(kind: str, data: Any) -> bool:
    return any(call["outcome"] for call in data["calls"])


def is_any(kind: str, data: Any) -> bool:
    return True


async def call_and_read(app: Any, kit: Toolkit, name: str, arguments: Any, query: str = "") -> list[tuple[str, Any]]:
    """Call a tool until someone looks, and return the events up to the end of that call."""
    reading = asyncio.create_task(read_events(app, has_ended, query))
    while True:
        await asyncio.sleep(0.05)
        if (await kit.aexec(name, arguments)).id is not None:
            return await reading


async def test_the_events_have_the_calls_of_the_toolkit_without_bound_values() -> None:
    kit = open_desk()
    arguments = {"shape": {"kind": "circle", "radius": 1}, "labels": {f"of {secret}": 1 for secret in SECRETS}}
    events = await call_and_read(ui.app(kit), kit, "draw", arguments)
    [call] = events[-1][1]["calls"]
    assert json.loads(call["arguments"])["labels"] == {"of <token>": 1, "of <tenant>": 1, "of <user>": 1}
    assert not any(secret in json.dumps(events) for secret in SECRETS)


async def test_only_what_is_new_comes_after_a_number() -> None:
    kit = Toolkit("k").add(len)
    app = ui.app(kit)
    first = (await call_and_read(app, kit, "len", {"obj": "a"}))[-1][1]["calls"][-1]
    again = await read_events(app, is_any, f"after={first['number']}")
    assert again == [("calls", {"calls": [], "now": again[0][1]["now"]})]
    for query in ("", "after=x", "after=-1", f"after={10**18}", f"after={'9' * 40}"):
        [(_, data)] = await read_events(app, is_any, query)
        assert [call["serial"] for call in data["calls"]] == [first["serial"]]


@pytest.mark.parametrize("view", [lambda kit: kit.session(), lambda kit: kit.select(names=["len"])])
async def test_the_calls_of_a_view_are_seen_if_its_toolkit_is_watched(view: Any, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    shown = view(Toolkit("k", middleware=[watch(path)]).add(len))
    events = await call_and_read(ui.app(shown, watched=path), shown, "len", {"obj": "a"})
    assert [call["tool"] for call in events[-1][1]["calls"]] == ["len"]


async def test_a_file_that_cannot_be_used_is_said_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    path.mkdir()

    def mend(kind: str, data: Any) -> bool:
        if path.is_dir():
            path.rmdir()
        return kind == "calls"

    (kind, problem), (second, _) = await read_events(ui.app(Toolkit("k").add(len), watched=path), mend)
    assert (kind, second) == ("problem", "calls")
    assert "cannot be used" in problem["text"]


def test_the_app_writes_nothing_before_the_page_is_opened(state_folder: Path) -> None:
    kit = open_desk()
    ui.app(kit)
    kit.exec("draw", {"shape": {"kind": "circle", "radius": 1}})
    assert list(state_folder.iterdir()) == []
    assert not WatchedCalls().is_viewed()


async def test_a_stream_ends_for_a_server_that_stops_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    app = ui.app(kit := Toolkit("k").add(len))
    [seen] = (await call_and_read(app, kit, "len", {"obj": "a"}))[-1][1]["calls"]
    monkeypatch.setattr(watching, "STREAM_SECONDS", 0.1)
    client = TestClient(app, base_url="http://localhost")
    text, later = (client.get(f"/watch/events?after={after}").text for after in (0, seen["number"]))
    assert [event.splitlines()[0] for event in text.strip().split("\n\n")] == ["event: calls", "event: again"]
    assert '"serial"' in text
    assert '"serial"' not in later


@pytest.mark.parametrize("is_same_file", [True, False])
async def test_a_toolkit_with_watch_has_each_call_once_in_a_file(is_same_file: bool, tmp_path: Path) -> None:
    path, own = tmp_path / "page.sqlite", tmp_path / "own.sqlite"
    kit = Toolkit("k", middleware=[watch(path if is_same_file else own)]).add(len)
    events = await call_and_read(ui.app(kit, watched=path), kit, "len", {"obj": "a"})
    assert {call["serial"] for _, data in events for call in data["calls"]} == {events[-1][1]["calls"][0]["serial"]}
