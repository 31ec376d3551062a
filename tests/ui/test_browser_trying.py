"""What the pages of a tool offer in a browser: state, progress, history, records and copies; and accessibility."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ahvn_tools import ToolContext, Toolkit, ToolSpec
from ahvn_tools.middleware import replay
from tests.ui.desk import open_desk
from tests.ui.test_browser import set_json, wait_for_text


def tell(text: str, tone: str, token: str, pin: int = 0) -> str:
    """Tell."""
    if text == "fail":
        raise ValueError(text)
    return f"{tone} {text} {len(token)} {pin}"


def table(rows: int) -> list[dict[str, Any]]:
    """Make rows."""
    return [{"name": f"row <b>{number}</b>", "size": number} for number in range(rows)]


def load(context: ToolContext) -> str:
    """Load."""
    context.report_progress(1, 4, "first part")
    while not context.cancelled:
        time.sleep(0.01)
    return "never"


def open_kit() -> Toolkit:
    state = {"style": {"tone": "warm"}, "auth": {"token": "secret-of-the-host"}}
    kit = Toolkit("state", state=state, secret_key="a key of this test alone")
    return kit.add(tell, table, load).bind("tone", "style.tone").bind("token", "auth.token").bind("pin")


def test_the_state_of_a_page_is_set_and_its_secrets_are_hidden(page: Any, serve: Callable[..., str]) -> None:
    page.goto(serve(open_kit()) + "/try/tell")
    assert not page.get_by_text("State for the calls of this page").is_visible()
    set_json(page, {"text": "a"})
    page.locator("#run").click()
    wait_for_text(page, "#text", "^warm a 18 0")
    page.goto(serve(open_kit(), edit_state=True) + "/try/tell")
    assert "secret-of-the-host" not in page.content()
    set_json(page, {"text": "a"})
    page.get_by_text("State for the calls of this page").click()
    page.get_by_label("send style.tone").check()
    page.get_by_role("textbox", name="style.tone").fill("cold")
    page.get_by_text(re.compile("^2 not sent")).click()
    page.get_by_label("send auth.token").check()
    secret = page.locator("[data-pointer='/auth.token']")
    assert secret.get_attribute("type") == "password"
    secret.fill("mine")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Done")
    assert page.locator("#text").inner_text() == "cold a 4 0"
    page.get_by_label("send style.tone").uncheck()
    page.locator("#run").click()
    wait_for_text(page, "#text", "^warm a 4 0")
    page.reload()
    page.locator("#json").fill('{"text": "a"}')
    page.locator("#run").click()
    wait_for_text(page, "#text", "^warm a 18 0")


def test_progress_is_shown_and_the_call_is_cancelled(page: Any, serve: Callable[..., str]) -> None:
    page.goto(serve(open_kit()) + "/try/load")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "1 of 4: first part")
    assert page.locator("#progress").evaluate("bar => bar.value / bar.max") == 0.25
    page.locator("#cancel").click()
    wait_for_text(page, "#outcome", "^Error cancelled")
    assert not page.locator("#progress").is_visible()


def test_runs_are_kept_shown_and_repeated(page: Any, serve: Callable[..., str]) -> None:
    page.goto(serve(open_kit()) + "/try/tell")
    for number in range(22):
        set_json(page, {"text": f"run {number}"})
        page.locator("#run").click()
        wait_for_text(page, "#text", f"warm run {number} ")
    entries = page.locator("#history li")
    assert entries.count() == 20
    entries.last.get_by_role("button", name=re.compile("^Show")).click()
    assert json.loads(page.locator("#json").input_value()) == {"text": "run 2"}
    assert page.locator("#text").inner_text().startswith("warm run 2 ")
    entries.nth(5).get_by_role("button", name=re.compile("^Run again")).click()
    wait_for_text(page, "#text", "warm run 16 ")
    assert entries.count() == 20
    assert "run 16" in entries.first.inner_text()


def test_a_failure_shows_its_traceback_and_a_table_its_rows(page: Any, serve: Callable[..., str]) -> None:
    address = serve(open_kit())
    page.goto(f"{address}/try/tell")
    set_json(page, {"text": "fail"})
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Error tool_error")
    assert not page.locator("#traceback").is_visible()
    page.get_by_text("For the developer: what went wrong").click()
    assert "ValueError" in page.locator("#traceback").inner_text()
    page.goto(f"{address}/try/table")
    set_json(page, {"rows": 250})
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Done")
    assert page.locator("#table tr").count() == 202
    assert page.locator("#table td").first.inner_text() == "row <b>0</b>"
    assert "50 more rows" in page.locator("#table").inner_text()


def test_a_run_is_saved_as_a_record_and_copied(page: Any, serve: Callable[..., str], tmp_path: Path) -> None:
    kit = open_kit()
    address = serve(kit, setup="from tools import kit")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/try/tell")
    set_json(page, {"text": "a"})
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Done")
    with page.expect_download() as saved:
        page.get_by_text("Save as a record for replay").click()
    saved.value.save_as(tmp_path / saved.value.suggested_filename)
    assert kit.exec("tell", {"text": "a"}, middleware=[replay(tmp_path / "tell.jsonl")]).value == "warm a 18 0"
    page.get_by_text("This call as a test for pytest").click()
    page.get_by_role("button", name="Copy This call as a test").click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("from tools import kit\n")
    assert "def test_tell():" in copied
    page.goto(f"{address}/provider/tell?format=anthropic")
    page.get_by_text("A request in curl").click()
    page.get_by_role("button", name="Copy A request in curl").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith('curl "https://api.anthropic.com')


MAX_ALIKE = 2
"""How many pages of one kind are examined: they have the same template."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_finding_of_axe(browser: Any, serve: Callable[..., str], scheme: str) -> None:
    axe_package = pytest.importorskip("axe_playwright_python")
    script = (Path(axe_package.__file__).parent / "axe.min.js").read_text("utf-8")
    address = serve(open_desk(), show_state=True)
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1200, "height": 900})
    page = context.new_page()

    def check() -> None:
        page.evaluate(script)
        found = page.evaluate("axe.run().then(({violations}) => violations)")
        serious = [finding for finding in found if finding["impact"] in {"serious", "critical"}]
        assert [(finding["id"], finding["nodes"][0]["html"]) for finding in serious] == [], page.url

    kinds: dict[Any, int] = {}
    visited, pending = set[str](), [f"{address}/", f"{address}/nothing"]
    while pending:
        url = pending.pop()
        path, _, query = url.removeprefix(address).partition("?")
        kind = path.split("/")[1], tuple(sorted(part.partition("=")[0] for part in query.split("&")))
        if url in visited or kinds.get(kind, 0) >= MAX_ALIKE:
            continue
        visited.add(url)
        kinds[kind] = kinds.get(kind, 0) + 1
        page.goto(url)
        check()
        pending += page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    assert len(kinds) > 5
    for tool, arguments, outcome in (
        ("draw", {"shape": {"kind": "x"}}, "Error"),
        ("count", {}, "Done"),
        ("fail", {"text": "a"}, "Error"),
    ):
        page.goto(f"{address}/try/{tool}")
        set_json(page, arguments)
        page.locator("#run").click()
        wait_for_text(page, "#outcome", f"^{outcome}")
        for part in page.locator("details:visible").all():
            part.evaluate("part => { part.open = true; }")
        check()
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.set_viewport_size({"width": 1200, "height": 900})
    context.close()


HTML = "<img src=x onerror=alert(1)>\"'&lt;"


def test_html_in_any_text_is_shown_as_text(page: Any, serve: Callable[..., str]) -> None:
    schema = {
        "type": "object",
        "required": [HTML],
        "properties": {HTML: {"type": "string", "description": HTML, "enum": [HTML]}},
    }

    def echo(**values: Any) -> list[dict[str, Any]]:
        if not values[HTML]:
            raise ValueError(HTML)
        return [{HTML: HTML}]

    kit = Toolkit(HTML).add(ToolSpec.from_schema("odd", schema, echo), name=HTML, description=HTML, tags=[HTML])
    address = serve(kit, setup=HTML, show_state=True)
    name = quote(HTML, safe="")
    for path in (f"try/{name}", f"tool/{name}", f"provider/{name}", ""):
        page.goto(f"{address}/{path}")
        assert page.locator("h1").inner_text() == HTML
        assert page.locator("img").count() == 0
    page.goto(f"{address}/try/{name}")
    for arguments, outcome in (({HTML: HTML}, "^Done"), ({HTML: 1}, "^Error")):
        set_json(page, arguments)
        page.locator("#run").click()
        wait_for_text(page, "#outcome", outcome)
        assert page.locator("img").count() == 0
    page.get_by_role("button", name=re.compile("^Show")).first.click()
    assert page.locator("img").count() == 0


def test_a_tool_is_found_and_tried_with_the_keyboard_alone(page: Any, address: str) -> None:
    def press_until(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(selector)

    page.goto(address)
    press_until("input[type=search]")
    page.keyboard.type("count")
    press_until("a[href$='/tool/count']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tool/count")
    press_until("a[href$='/try/count']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/try/count")
    press_until("input[aria-label='send to']")
    page.keyboard.press("Space")
    press_until("input[data-pointer='/to']")
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    press_until("#run")
    page.keyboard.press("Enter")
    wait_for_text(page, "#outcome", "^Done")
    assert page.locator("#text").inner_text() == "[0, 1]"


def test_a_server_that_has_gone_is_said(page: Any, serve: Callable[..., str]) -> None:
    page.goto(serve(open_kit()) + "/try/load")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "first part")
    page.route("**/validate/**", lambda route: route.abort())
    page.route("**/run/**", lambda route: route.abort())
    page.reload()
    wait_for_text(page, "#state", "The server does not answer")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "The connection ended")
    page.problems.clear()  # the browser logs each request that fails
