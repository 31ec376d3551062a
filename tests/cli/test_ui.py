"""`ahvn-tools ui`: the printed address opens the pages, on this machine alone, until the process is stopped."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import psutil
import pytest

pytest.importorskip("jinja2")

from ahvn_tools.cli.app import main
from ahvn_tools.middleware.watched_calls import WatchedCalls
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST, Served
from tests.execution.entry_points import until

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
TOOLS = "def greet(name: str, tone: str = 'plain') -> str:\n    '''Greet.'''\n    return f'{tone}: {name}'\n"


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for the states of the user, who has others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text(
        f"from ahvn_tools import Toolkit\n{TOOLS}kit = Toolkit('desk').add(greet).bind('tone', 'style.tone')\n"
    )
    return path


def default_hangup() -> None:
    """Let a hangup end the process that is started: a shell or `nohup` around the tests may ignore it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


IN_CHILD = default_hangup if hasattr(signal, "SIGHUP") else None


def start(*arguments: str) -> Served:
    return Served(
        subprocess.Popen(
            [*COMMAND, "ui", *arguments],
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=IN_CHILD,  # noqa: PLW1509  # it sets one signal
        )
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
@pytest.mark.parametrize("number", SIGNALS)
def test_the_printed_address_opens_the_pages_until_a_signal(tools: Path, number: int) -> None:
    with start(str(tools), "--set", "style.tone=warm") as served, httpx2.Client(timeout=LONGEST) as browser:
        shape = r"http://127\.0\.0\.1:\d+/[\w-]{16}/\?token=[\w-]{32}"
        assert re.fullmatch(shape, served.url)
        documented = re.search(r"<!-- ui -->\n```text\n(.*?)\n```", PAGE)
        assert documented is not None
        assert re.fullmatch(shape, documented[1])
        site = served.url.partition("?")[0]
        assert browser.get(site).status_code == 401
        opened = browser.get(served.url, follow_redirects=True)
        assert (opened.status_code, str(opened.url)) == (200, site)
        assert "greet" in opened.text
        ran = browser.post(
            f"{site}run/greet",
            json={"arguments": '{"name": "Ann"}', "state": {}, "session": ""},
            headers={"origin": site.rstrip("/").rpartition("/")[0]},
        )
        assert '"text": "warm: Ann"' in ran.text
        own = browser.post(
            f"{site}run/greet",
            json={"arguments": '{"name": "Ann"}', "state": {"style.tone": "cold"}, "session": ""},
            headers={"origin": site.rstrip("/").rpartition("/")[0]},
        )
        assert '"text": "cold: Ann"' in own.text
        assert f"kit = load({str(tools)!r}).session({{'style': {{'tone': os.environ['STYLE_TONE']}}}}" in ran.text
        assert "warm" not in browser.get(f"{site}tool/greet").text
        assert served.end(number) == (0 if number == signal.SIGINT else -number)
    assert "Traceback" not in "".join(served.output)


SLOW_TO_END = """
import os, pathlib, sys, time
from fastmcp import FastMCP
server = FastMCP("slow")
server.tool(lambda query: query, name="find")
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
if sys.argv[2] == "silent":
    time.sleep(300)
try:
    server.run(show_banner=False)
finally:
    time.sleep(300)
"""


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", ["usual", "silent"])
def test_a_signal_leaves_no_server_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: str
) -> None:
    folder, program, pid = tmp_path / "tmp", tmp_path / "slow.py", tmp_path / "pid"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    program.write_text(SLOW_TO_END)
    source = shlex.join([sys.executable, str(program), str(pid), kind])
    if kind == "usual":
        with start(source) as served:
            assert [*folder.glob("tmp*")] != []
            served.end(number)
    else:
        environment = {**os.environ, **ENVIRONMENT}
        process = subprocess.Popen(
            [*COMMAND, "ui", source],
            env=environment,
            stderr=subprocess.PIPE,
            preexec_fn=IN_CHILD,  # noqa: PLW1509  # as above
        )
        assert until(lambda: pid.is_file() and pid.read_text() != "")
        process.send_signal(number)
        process.communicate(timeout=LONGEST)
    assert until(lambda: has_ended(int(pid.read_text())))
    assert [*folder.glob("tmp*")] == []


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
def test_the_cookie_is_sent_to_the_pages_alone(tools: Path) -> None:
    with start(str(tools)) as served, httpx2.Client(timeout=LONGEST) as browser:
        address, _, rest = served.url.partition("127.0.0.1")
        port, path, _ = rest.split("/")
        answer = browser.get(served.url)
        assert f"; Path=/{path};" in answer.headers["set-cookie"]
        assert browser.get(f"{address}127.0.0.1{port}/").status_code == 404
        served.end(signal.SIGINT)


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
def test_an_open_page_watch_does_not_hold_the_end_up(tools: Path) -> None:
    with start(str(tools)) as served, httpx2.Client(timeout=LONGEST) as browser:
        site = served.url.partition("?")[0]
        browser.get(served.url)
        with browser.stream("GET", f"{site}watch/events") as events:
            assert next(events.iter_lines()) == "event: calls"
            assert served.end(signal.SIGINT) == 0
    assert served.output == [f"{served.url}\n"]


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
def test_the_state_is_shown_if_it_is_asked_for(tools: Path) -> None:
    with start(str(tools), "--set", "style.tone=warm", "--show-state") as served, httpx2.Client() as browser:
        browser.get(served.url, timeout=LONGEST)
        assert "&#34;warm&#34;" in browser.get(f"{served.url.partition('?')[0]}tool/greet", timeout=LONGEST).text
        served.end(signal.SIGINT)


def test_calls_are_watched_before_the_page_is_opened(tools: Path) -> None:
    with start(str(tools)):
        assert until(WatchedCalls().is_viewed)


@pytest.mark.parametrize("options", [["--include", "g*", "--set", "style.tone=warm"], ["--audience", "ops"]])
def test_the_calls_of_a_selection_are_watched(tools: Path, options: list[str]) -> None:
    with start(str(tools), *options) as served, httpx2.Client(timeout=LONGEST) as browser:
        assert until(WatchedCalls().is_viewed)
        browser.get(served.url)
        site = served.url.partition("?")[0]
        sent = {"arguments": '{"name": "Ann"}', "state": {}, "session": ""}
        browser.post(f"{site}run/greet", json=sent, headers={"origin": "http://" + site.split("/")[2]})
        assert until(lambda: len(WatchedCalls().read()) == 1)


def test_a_port_in_use_and_a_missing_source_are_said_in_a_line(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["ui", str(tools), "--port", str(taken.getsockname()[1])]) == 1
    assert "error: Cannot listen at 127.0.0.1" in capsys.readouterr().err
    assert main(["ui"]) == 2
    assert "SOURCE is missing" in capsys.readouterr().err


def test_without_the_extra_the_message_names_it(
    tools: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for name in [name for name in sys.modules if name.startswith("ahvn_tools.ui")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["ui", str(tools)]) == 1
    assert 'pip install "ahvn-tools[ui]"' in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
def test_calls_that_are_tried_wait_in_the_inbox_of_the_command(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tools.write_text(tools.read_text() + "kit.add(greet, name='send', requires_approval=True)\n")
    with start(str(tools)) as served, httpx2.Client(timeout=LONGEST, follow_redirects=True) as browser:
        site = served.url.partition("/?")[0]
        browser.headers["origin"] = site.rpartition("/")[0]
        browser.get(served.url)
        sent = {"arguments": '{"name": "ann"}', "state": {}, "session": ""}
        with browser.stream("POST", f"{site}/run/send", json=sent) as answer:
            assert [*tmp_path.glob("tmp*")] != []
            pages = (browser.get(f"{site}/approvals").text for _ in range(1000))
            found = next(found for page in pages if (found := re.search(r"approvals/(\w+)", page)) is not None)
            shown = re.search(r'data-digest="(\w+)"', browser.get(f"{site}/approvals/{found[1]}").text)
            assert shown is not None
            browser.post(f"{site}/approvals/{found[1]}", json={"action": "approve", "digest": shown[1]})
            assert "plain: ann" in answer.read().decode()
        assert served.end(signal.SIGTERM) == -signal.SIGTERM
    assert [*tmp_path.glob("tmp*")] == []


def test_the_inbox_of_other_processes_needs_its_key(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AHVN_TOOLS_INBOX_KEY", raising=False)
    file = tmp_path / "inbox.db"
    assert main(["ui", str(tools), "--inbox", str(file)]) == 1
    assert "Set the variable AHVN_TOOLS_INBOX_KEY" in capsys.readouterr().err
    monkeypatch.setenv("AHVN_TOOLS_INBOX_KEY", "a key that all processes have")
    with start(str(tools), "--inbox", str(file), "--read-only") as served, httpx2.Client(timeout=LONGEST) as browser:
        assert file.exists()
        site = served.url.partition("/?")[0]
        assert browser.get(served.url, follow_redirects=True).status_code == 200
        assert browser.post(f"{site}/run/greet", headers={"origin": site.rpartition("/")[0]}).status_code == 403
