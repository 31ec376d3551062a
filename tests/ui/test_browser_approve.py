"""What waits for a person is decided in a browser, and an agent in another process goes on."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Inbox, Toolkit
from tests.ui.test_browser import wait_for_text

KEY = "a key that both processes have"
LONGEST = 30

AGENT = """
import sys
from ahvn_tools import ApprovalRules, Inbox, Toolkit
from ahvn_tools.builtins import AskUser

inbox = Inbox(sys.argv[1], secret_key=sys.argv[2])
kit = Toolkit("agent", approver=inbox, rules=ApprovalRules(mode="allow", ask=["re*"]))

@kit.tool
def remove(path: str, force: bool = False, password: str = "") -> str:
    '''Remove a file.'''
    return f"{path} {force}"

@kit.tool(external=True)
def choose_seat(free: list[str]) -> list[str]:
    '''Let the user choose.'''
    raise NotImplementedError

kit.add(AskUser()).bind("password", default="hunter2", secret=True)
for name, arguments in eval(sys.argv[3]):
    print(kit.exec(name, arguments).text, flush=True)
"""
REMOVE = ("remove", {"path": "<b>a.txt", "force": True})


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "inbox.db", secret_key=KEY)


@pytest.fixture
def address(serve: Callable[..., str], inbox: Inbox) -> str:
    return serve(Toolkit("other"), "/tools", inbox=inbox)


@pytest.fixture
def start(inbox: Inbox) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start an agent in another process, which makes these calls."""
    running: list[subprocess.Popen[str]] = []

    def begin(*calls: Any) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", AGENT, str(inbox.path), KEY, repr(calls)]
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    for agent in running:
        agent.kill()
        agent.communicate()


def read(agent: "subprocess.Popen[str]") -> str:
    output: str = agent.communicate(timeout=LONGEST)[0]
    return output


def open_request(page: Any, address: str, tool: str) -> None:
    page.goto(f"{address}/approvals")
    page.get_by_role("link", name=tool, exact=True).first.click()
    page.locator("#status").filter(has_text="Waits for").wait_for()


def test_an_approval_lets_another_process_go_on(page: Any, address: str, start: Any) -> None:
    page.goto(f"{address}/approvals")
    wait_for_text(page, "#live", "No requests wait")
    agent = start(REMOVE)
    page.get_by_role("link", name="remove").wait_for()  # it appears by itself
    assert page.title() == "(1) Approvals · ahvn-tools"
    page.get_by_role("link", name="remove").click()
    text = page.locator("main").inner_text()
    assert "The rule re* asks for it." in text
    assert "<b>a.txt" in text
    assert "hunter2" not in page.content()
    started = time.monotonic()
    page.get_by_role("button", name="Approve", exact=True).click()
    assert agent.stdout.readline() == "<b>a.txt True\n"
    assert time.monotonic() - started < LONGEST
    wait_for_text(page, "#status", "Approved")
    assert page.get_by_role("button", name="Approve", exact=True).is_disabled()


def test_a_denial_has_a_reason_and_the_keyboard_is_enough(page: Any, address: str, inbox: Inbox, start: Any) -> None:
    agent = start(REMOVE)
    open_request(page, address, "remove")
    page.get_by_label("Reason").fill("Keep it.")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert inbox.items()[0].state == "waiting"
    page.keyboard.press("Enter")
    wait_for_text(page, "#status", "Denied")
    assert read(agent) == "The call of 'remove' was rejected: Keep it.\n"


def test_edited_arguments_are_passed_and_wrong_ones_decide_nothing(page: Any, address: str, start: Any) -> None:
    agent = start(REMOVE)
    open_request(page, address, "remove")
    page.get_by_text("Edit the arguments").click()
    page.locator("#json").fill('{"path": "b", "force": "perhaps"}')
    page.get_by_role("button", name="Approve", exact=True).click()
    wait_for_text(page, "#live", "The last decision was refused: .*'force' should be")
    assert page.locator(".wrong").get_attribute("aria-label") == "force"
    for text, message in (("{", "no JSON"), ('{"path": "b"}', "cannot remove an argument")):
        page.locator("#json").fill(text)
        page.get_by_role("button", name="Approve", exact=True).click()
        wait_for_text(page, "#outcome", message)
    page.locator("#json").fill('{"path": "b", "force": "perhaps"}')
    page.get_by_role("button", name="Approve", exact=True).click()  # the same refusal, again
    page.get_by_role("button", name="Approve", exact=True).click()
    page.locator("#json").fill('{"path": "b", "force": true}')
    page.locator("[data-pointer='/path']").fill("c.txt")
    page.locator("[data-pointer='/force']").select_option(label="false")
    page.get_by_role("button", name="Approve", exact=True).click()
    assert read(agent) == "c.txt False\n"


def test_always_approves_the_next_call_and_the_last_time_is_shown(page: Any, address: str, start: Any) -> None:
    agent = start(REMOVE, REMOVE, ("remove", {"path": "b.txt", "force": True}))
    open_request(page, address, "remove")
    page.get_by_role("button", name='and always remove(path: "<b>a.txt", force: true)').click()
    wait_for_text(page, "#status", "Approved")
    assert [agent.stdout.readline() for _ in range(2)] == ["<b>a.txt True\n"] * 2
    page.goto(f"{address}/approvals")
    wait_for_text(page, "#live", "1 request waits")
    page.get_by_role("link", name="remove").first.click()
    assert page.locator("tr.other").all_inner_texts() == ["path\tb.txt\t<b>a.txt"]
    page.get_by_role("button", name="Deny").click()
    assert "rejected" in read(agent)


def test_the_second_of_two_tabs_reads_what_was_decided(page: Any, address: str, start: Any) -> None:
    agent = start(REMOVE)
    open_request(page, address, "remove")
    other = page.context.new_page()
    other.goto(page.url)
    other.route(page.url, lambda route: route.abort() if route.request.method == "GET" else route.continue_())
    page.get_by_role("button", name="Approve", exact=True).click()
    wait_for_text(page, "#status", "Approved")
    other.evaluate("document.querySelector('#decision fieldset').disabled = false")
    other.get_by_role("button", name="Deny").click()
    wait_for_text(other, "#outcome", "was approved already, .* ago. Nothing has changed")
    assert read(agent) == "<b>a.txt True\n"
    other.close()


def test_external_calls_and_questions_are_answered_by_a_form(page: Any, address: str, start: Any) -> None:
    questions = [
        {"name": "tea", "text": "Which tea?", "kind": "choice", "options": ["green", "black"]},
        {"name": "sugar", "text": "How much?", "kind": "number"},
    ]
    agent = start(("choose_seat", {"free": ["1A", "2C"]}), ("ask_user", {"questions": questions}))
    open_request(page, address, "choose_seat")
    page.locator("#json").fill("12345678901234567890")
    page.get_by_role("button", name="Send").click()
    wait_for_text(page, "#live", "is refused")
    page.locator("#json").fill("[]")
    page.get_by_role("button", name="Add an item").click()
    page.locator("[data-pointer='/0']").fill("2C")
    page.get_by_role("button", name="Send").click()
    wait_for_text(page, "#status", "Answered")
    open_request(page, address, "ask_user")
    assert "Which tea?" in page.locator("pre").first.inner_text()
    page.locator("[data-pointer='/tea']").select_option("black")
    page.locator("[data-pointer='/sugar']").fill("2")
    page.get_by_role("button", name="Send").click()
    assert read(agent).splitlines()[1] == '{"status": "answered", "answers": {"tea": "black", "sugar": 2}}'


def test_a_killed_agent_and_a_cancelled_call_are_shown(page: Any, address: str, start: Any) -> None:
    agent = start(REMOVE)
    open_request(page, address, "remove")
    agent.kill()
    wait_for_text(page, "#status", "Its process has ended")
    assert page.get_by_role("button", name="Approve", exact=True).is_disabled()
    page.goto(f"{address}/approvals")
    assert "process ended" in page.locator("#live").inner_text()


def test_a_read_only_site_shows_and_decides_nothing(
    page: Any, serve: Callable[..., str], inbox: Inbox, start: Any
) -> None:
    address = serve(Toolkit("other").add(len, name="size"), inbox=inbox, read_only=True)
    start(REMOVE)
    open_request(page, address, "remove")
    assert page.locator("button").count() == 0
    page.goto(f"{address}/tool/size")
    assert page.get_by_role("link", name="Try").count() == 0


def find_barriers(page: Any) -> list[str]:
    """Return what axe finds that is not accessible."""
    axe = Path(pytest.importorskip("axe_playwright_python").__file__).parent / "axe.min.js"
    page.evaluate(axe.read_text("utf-8"))
    found: list[str] = page.evaluate("axe.run().then(({violations}) => violations.map(({id}) => id))")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible_and_fit(page: Any, address: str, inbox: Inbox, start: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    agent = start(REMOVE, ("remove", {"path": "b" * 200}), ("choose_seat", {"free": ["1A"]}))
    open_request(page, address, "remove")
    page.get_by_text("Edit the arguments").click()
    seen = [page.url, f"{address}/approvals"]
    assert find_barriers(page) == []
    for _ in range(2):
        page.get_by_role("button", name="Approve", exact=True).click()
        assert agent.stdout.readline()
        page.goto(f"{address}/approvals")
        page.locator("#live").filter(has_text="1 request waits").wait_for()
        page.locator("tbody a").first.click()
        page.locator("#status").filter(has_text="Waits for").wait_for()
        seen.append(page.url)
    for url in seen:
        page.goto(url)
        assert find_barriers(page) == [], url
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, url
        page.set_viewport_size({"width": 1200, "height": 800})
