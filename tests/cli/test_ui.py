"""`ahvn-tools ui`: the printed address opens the pages, on this machine alone, until the process is stopped."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

pytest.importorskip("jinja2")

from ahvn_tools.cli.app import main
from ahvn_tools.middleware.watched_calls import WatchedCalls
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST, Served
from tests.execution.entry_points import until

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


def start(*arguments: str) -> Served:
    return Served(
        subprocess.Popen(
            [*COMMAND, "ui", *arguments],
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_printed_address_opens_the_pages_until_a_signal(tools: Path, number: int) -> None:
    with start(str(tools), "--set", "style.tone=warm") as served, httpx2.Client(timeout=LONGEST) as browser:
        shape = r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}"
        assert re.fullmatch(shape, served.url)
        documented = re.search(r"<!-- ui -->\n```text\n(.*?)\n```", PAGE)
        assert documented is not None
        assert re.fullmatch(shape, documented[1])
        site = served.url.partition("?")[0]
        assert browser.get(site).status_code == 401
        opened = browser.get(served.url, follow_redirects=True)
        assert (opened.status_code, str(opened.url)) == (200, site)
        assert "greet" in opened.text
        ran = browser.post(f"{site}run/greet", content='{"name": "Ann"}', headers={"origin": site.rstrip("/")})
        assert '"text": "warm: Ann"' in ran.text
        assert served.end(number) == (0 if number == signal.SIGINT else -signal.SIGTERM)
    assert "Traceback" not in "".join(served.output)


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
def test_an_open_page_watch_does_not_hold_the_end_up(tools: Path) -> None:
    with start(str(tools)) as served, httpx2.Client(timeout=LONGEST) as browser:
        site = served.url.partition("?")[0]
        browser.get(served.url)
        with browser.stream("GET", f"{site}watch/events") as events:
            assert next(events.iter_lines()) == "event: calls"
            assert served.end(signal.SIGINT) == 0
    assert served.output == [f"{served.url}\n"]


def test_calls_are_watched_before_the_page_is_opened(tools: Path) -> None:
    with start(str(tools)):
        assert until(WatchedCalls().is_viewed)


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
    monkeypatch.delitem(sys.modules, "ahvn_tools.ui.site", raising=False)
    monkeypatch.delattr("ahvn_tools.ui.site", raising=False)
    assert main(["ui", str(tools)]) == 1
    assert 'pip install "ahvn-tools[ui]"' in capsys.readouterr().err
