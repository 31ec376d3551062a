"""The playground in a thread of its own, and Debian's Chromium without a window."""

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Toolkit
from tests.ui.desk import open_desk

LONGEST_MS = 20_000


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the states of the user, who has others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; skip the test where it is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if (program := shutil.which("chromium")) is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Return a function that serves a toolkit under a prefix and returns the address."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("jinja2")
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from ahvn_tools import ui

    running: list[tuple[Any, threading.Thread]] = []

    def start(kit: Toolkit, prefix: str = "", **options: Any) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        app: Any = ui.app(kit, **options)
        mounted = Starlette(routes=[Mount(prefix, app)]) if prefix else app
        config = uvicorn.Config(mounted, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(LONGEST_MS / 1000)
        assert not thread.is_alive()


@pytest.fixture
def address(serve: Callable[..., str]) -> str:
    """The address of the desk."""
    return serve(open_desk())


@pytest.fixture
def page(browser: Any, serve: Any) -> Iterator[Any]:  # it is closed before its server
    """A page of which nothing may be wrong: no error in the console, and no request to another host."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(LONGEST_MS)
    opened = context.new_page()
    problems: list[str] = []
    opened.problems = problems  # a test that causes some clears it
    hosts: set[str] = set()
    opened.on("console", lambda message: message.type in {"error", "warning"} and problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: hosts.add(request.url.split("/")[2].split(":")[0]))
    yield opened
    context.close()
    assert problems == []
    assert hosts <= {"127.0.0.1", ""}
