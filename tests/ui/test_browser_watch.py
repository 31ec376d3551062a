"""The page Watch in a browser: calls of this process and of others, many of them, charts, filters and reconnects."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolError, Toolkit
from ahvn_tools.ui import watching
from tests.ui.desk import SECRETS, open_desk

CALLS_PER_SECOND = 200
SECONDS = 20
LONGEST_MS = 60_000


def wait_for_text(page: Any, selector: str, pattern: str) -> str:
    page.locator(selector).filter(has_text=re.compile(pattern)).first.wait_for(timeout=LONGEST_MS)
    text: str = page.locator(selector).first.inner_text()
    return text


def open_watch(page: Any, address: str) -> None:
    page.goto(f"{address}/watch")
    wait_for_text(page, "#connection", r"^Live\.")


def add(a: int, b: int = 1) -> int:
    """Add."""
    if a < 0:
        raise ToolError("negative")
    return a + b


def multiply(a: int, b: int = 1) -> int:
    """Multiply."""
    return a * b


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("sums").add(add).add(multiply)


def test_without_calls_the_page_says_what_to_do(page: Any, serve: Callable[..., str], kit: Toolkit) -> None:
    open_watch(page, serve(kit, "/tools"))
    assert "ahvn-tools serve --watch" in page.locator("#empty").inner_text()
    assert not page.locator("#seen").is_visible()


def test_a_call_of_the_page_try_is_watched_with_masked_arguments(page: Any, serve: Callable[..., str]) -> None:
    address = serve(open_desk())
    open_watch(page, address)
    tried = page.context.new_page()
    tried.goto(f"{address}/try/draw")
    tried.locator("#json").fill('{"shape": {"kind": "circle", "radius": 1}, "labels": {"of hunter2": 1}}')
    tried.locator("#run").click()
    tried.locator("#outcome").filter(has_text="Done").wait_for()
    page.bring_to_front()
    page.get_by_role("button", name="draw").click()
    wait_for_text(page, "#detail pre", '"of <token>": 1')
    assert "ok" in page.locator("#detail dl").inner_text()
    assert page.locator("#calls tr").count() == 1
    assert not any(secret in page.content() for secret in SECRETS)


def test_a_stream_is_watched_while_it_runs(page: Any, serve: Callable[..., str]) -> None:
    go_on = threading.Event()

    def count(to: int) -> Iterator[int]:
        yield from range(to)
        go_on.wait(LONGEST_MS / 1000)

    kit = Toolkit("streams").add(count)
    open_watch(page, serve(kit))
    thread = threading.Thread(target=lambda: list(kit.stream("count", {"to": 5})))
    thread.start()
    wait_for_text(page, "#calls [data-kind='running']", "5 chunks")
    go_on.set()
    thread.join()
    wait_for_text(page, "#calls [data-kind='ok']", "5 chunks")


@pytest.mark.exhaustive
def test_two_hundred_calls_a_second_are_watched(page: Any, serve: Callable[..., str], kit: Toolkit) -> None:
    open_watch(page, serve(kit))
    two_frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    number = CALLS_PER_SECOND * SECONDS

    def call_all() -> None:
        started = time.monotonic()
        for index in range(number):
            kit.exec("multiply" if index % 4 else "add", {"a": -index} if index % 40 == 0 else {"a": index})
            time.sleep(max(started + index / CALLS_PER_SECOND - time.monotonic(), 0))

    thread = threading.Thread(target=call_all)
    thread.start()
    while thread.is_alive():
        page.evaluate(two_frames)
    thread.join()
    wait_for_text(page, "#count", f"^{number} calls")
    assert page.locator("#calls tr").first.inner_text().count(f'"a": {number - 1}') == 1
    for row in ("^multiply30000", "^add100099"):
        wait_for_text(page, "#totals tr", row)
    assert page.locator(".uplot canvas").count() == 2
    assert page.locator("#calls tr").count() <= 200


def test_parallel_calls_of_one_run_are_bars(page: Any, serve: Callable[..., str]) -> None:
    barrier = threading.Barrier(3)

    def meet(number: int) -> int:
        barrier.wait(LONGEST_MS / 1000)
        return number

    kit = Toolkit("runs").add(meet)
    open_watch(page, serve(kit))
    answer = {
        "tool_calls": [
            {"id": f"c{n}", "function": {"name": "meet", "arguments": f'{{"number": {n}}}'}} for n in range(3)
        ]
    }
    kit.run(answer, format="openai")
    wait_for_text(page, "#run-text", "^3 calls in")
    page.locator("#run [data-kind='ok']").nth(2).wait_for(state="attached", timeout=LONGEST_MS)
    bars = [
        (float(bar.get_attribute("x")[:-1]), float(bar.get_attribute("width")[:-1]))
        for bar in page.locator("#run [data-kind='ok']").all()
    ]
    assert len(bars) == 3
    assert max(x for x, _ in bars) < min(x + width for x, width in bars), "they ran at once"


def test_a_call_that_waits_leads_to_the_approvals(page: Any, serve: Callable[..., str]) -> None:
    kit = Toolkit("sums").add(add, requires_approval=True)
    open_watch(page, serve(kit))
    kit.exec("add", {"a": 1})
    wait_for_text(page, "#calls [data-kind='waiting']", "waits")
    page.get_by_role("button", name="add").click()
    assert "approval_required" in page.locator("#detail dl").inner_text()
    page.get_by_role("link", name="What waits for a decision").click()
    assert page.url.endswith("/approvals")


def test_the_list_is_filtered_and_held(page: Any, serve: Callable[..., str], kit: Toolkit) -> None:
    open_watch(page, serve(kit))
    kit.exec("add", {"a": 1})
    kit.exec("add", {"a": -1})
    kit.session(session_id="ann").exec("multiply", {"a": 2})
    wait_for_text(page, "#count", "^3 calls")
    page.get_by_label("Outcome").select_option("tool_error")
    wait_for_text(page, "#count", "1 of the newest 3 fit")
    assert page.locator("#calls tr").count() == 1
    page.get_by_label("Outcome").select_option("")
    session = page.get_by_label("Session").locator("option").nth(1).inner_text()
    page.get_by_label("Session").select_option(session)
    wait_for_text(page, "#count", "1 of the newest 3 fit")
    assert "ann" not in session
    page.get_by_label("Session").select_option("")
    process = page.get_by_label("Process").locator("option").nth(1).inner_text()
    assert f"({os.getpid()})" in process
    page.get_by_label("Process").select_option(process)
    wait_for_text(page, "#count", "3 of the newest 3 fit")
    page.get_by_role("button", name="Hold the list").click()
    kit.exec("add", {"a": 7})
    wait_for_text(page, "#count", "^4 calls")
    assert page.locator("#calls tr").count() == 3
    page.get_by_role("button", name="Hold the list").click()
    wait_for_text(page, "#calls", '"a": 7')


OTHER = """
import sys, threading
from ahvn_tools import Toolkit
from ahvn_tools.middleware import watch

def hold(text: str) -> None:
    threading.Event().wait(600)

Toolkit("elsewhere", middleware=[watch()]).add(hold).call("hold", {"text": "over there"})
"""


@pytest.mark.skipif(os.name != "posix", reason="a killed process is known by its id")
def test_a_call_in_another_process_is_seen_and_that_it_was_killed(page: Any, address: str) -> None:
    open_watch(page, address)
    with subprocess.Popen([sys.executable, "-c", OTHER]) as process:
        row = wait_for_text(page, "#calls [data-kind='running']", "over there")
        assert str(process.pid) in row
        process.kill()
    wait_for_text(page, "#calls [data-kind='lost']", "ended without outcome")


def test_calls_while_the_page_was_not_connected_come_later(page: Any, serve: Callable[..., str], kit: Toolkit) -> None:
    open_watch(page, serve(kit))
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    wait_for_text(page, "#connection", "in the background")
    for number in range(5):
        kit.exec("add", {"a": number})
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    wait_for_text(page, "#count", "^5 calls")


def test_the_page_connects_again(browser: Any, serve: Callable[..., str], kit: Toolkit) -> None:
    context = browser.new_context()
    page = context.new_page()
    open_watch(page, serve(kit))
    kit.exec("add", {"a": 1})
    wait_for_text(page, "#count", "^1 calls")
    blocked = "**/watch/events*"
    page.route(blocked, lambda route: route.abort())
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # which connects
    wait_for_text(page, "#connection", "^Not connected")
    kit.exec("add", {"a": 2})
    page.unroute(blocked)
    wait_for_text(page, "#connection", r"^Live\.")
    wait_for_text(page, "#count", "^2 calls")
    context.close()


def test_the_page_goes_on_when_its_stream_ends(
    page: Any, serve: Callable[..., str], kit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STREAM_SECONDS", 0.2)
    open_watch(page, serve(kit))
    page.evaluate(
        "window.said = []; new MutationObserver(() => said.push(document.querySelector('#connection').textContent))"
        ".observe(document.querySelector('#connection'), {childList: true, characterData: true, subtree: true})"
    )
    for number in range(1, 3):
        with page.expect_request("**/watch/events*", timeout=LONGEST_MS):
            kit.exec("add", {"a": number})
        wait_for_text(page, "#count", f"^{number} calls")
    assert page.evaluate("said") == []


def test_a_file_that_cannot_be_used_is_named(page: Any, serve: Callable[..., str], kit: Toolkit, tmp_path: Any) -> None:
    page.goto(f"{serve(kit, watched=tmp_path)}/watch")
    wait_for_text(page, "#connection", "cannot be used")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_fits_into_the_window(
    browser: Any, serve: Callable[..., str], kit: Toolkit, scheme: str, width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    open_watch(page, serve(kit))
    answer = {
        "tool_calls": [{"id": f"c{n}", "function": {"name": "add", "arguments": f'{{"a": {n - 1}}}'}} for n in range(4)]
    }
    kit.run(answer, format="openai")
    wait_for_text(page, "#count", "^4 calls")
    page.get_by_role("button", name="add").first.click()
    page.locator(".uplot canvas").nth(1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    axe = Path(pytest.importorskip("axe_playwright_python").__file__).parent / "axe.min.js"
    page.evaluate(axe.read_text("utf-8"))
    assert page.evaluate("axe.run().then(({violations}) => violations.map(({id}) => id))") == []
    if folder := os.environ.get("AHVN_TOOLS_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/watch-{width}-{scheme}.png", full_page=True)
    context.close()


def test_what_no_person_sees_is_escaped(page: Any, serve: Callable[..., str], kit: Toolkit) -> None:
    kit.add(lambda text: text, name="echo")
    open_watch(page, serve(kit, "/tools"))
    kit.exec("echo", {"text": "a\u202eb \u2764\ufe0f \U000e0041"})
    wait_for_text(page, "#calls", "echo")
    page.get_by_role("button", name="echo").click()
    for selector in ("#calls", "#detail pre"):
        text = wait_for_text(page, selector, "a.*b")
        assert "a\\u202eb \u2764\ufe0f \\udb40\\udc41" in text
