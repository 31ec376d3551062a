"""The pages in a browser: each is visited and a tool is tried, with the keyboard and with wrong input, too."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.formats import BUILT_IN
from tests.ui.desk import SECRETS, draw, open_desk


def wait_for_text(page: Any, selector: str, pattern: str) -> str:
    page.locator(selector).filter(has_text=re.compile(pattern)).wait_for()
    text: str = page.locator(selector).inner_text()
    return text


def set_json(page: Any, value: Any) -> None:
    page.locator("#json").fill(value if isinstance(value, str) else json.dumps(value))


def test_every_page_is_visited(page: Any, serve: Callable[..., str]) -> None:
    address = serve(open_desk().select(names=["draw", "fail"]), "/desk", token="one-token")
    page.goto(f"{address}/?token=one-token")
    assert page.url == f"{address}/"
    visited, pending = set[str](), [page.url]
    while pending:
        url = pending.pop()
        if url in visited:
            continue
        visited.add(url)
        assert page.goto(url).status == 200, url
        assert page.locator("h1").count() == 1
        assert not any(secret in page.content() for secret in SECRETS)
        pending += page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    assert len(visited) > len(BUILT_IN) * 2 * 2


def test_the_list_is_filtered_and_the_address_keeps_the_filters(page: Any, address: str) -> None:
    page.goto(address)
    page.get_by_label("Search").fill("make PICTURE")
    wait_for_text(page, "#count", "1 of 5 tools")
    page.get_by_label("Search").fill("")
    page.get_by_label("Tag").select_option("art")
    wait_for_text(page, "#count", "2 of 5 tools")
    page.get_by_label("Group").select_option("drawing")
    wait_for_text(page, "#count", "1 of 5 tools")
    page.reload()
    wait_for_text(page, "#count", "1 of 5 tools")
    assert page.locator("#tools tbody tr:visible").all_inner_texts()[0].startswith("draw")


def test_a_thousand_tools_are_listed_and_filtered(page: Any, serve: Callable[..., str]) -> None:
    kit = Toolkit("many")
    for number in range(1000):
        kit.add(draw, name=f"draw_{number}")
    page.goto(serve(kit))
    page.get_by_label("Search").fill("draw_99")
    wait_for_text(page, "#count", "11 of 1000 tools")


def test_a_tool_is_tried_with_right_input(page: Any, address: str) -> None:
    page.goto(f"{address}/try/draw")
    page.get_by_label("alternative of shape").select_option(label="Square")
    page.locator("[data-pointer='/shape/side']").fill("2.5")
    wait_for_text(page, "#state", "^Valid")
    page.keyboard.press("Control+Enter")
    wait_for_text(page, "#outcome", "^Done")
    expected = {"drawn": {"kind": "square", "side": 2.5}, "color": "red", "limit": 10}
    assert json.loads(page.locator("#text").inner_text()) == expected
    assert json.loads(page.locator("#structured").inner_text()) == expected


def test_wrong_input_is_marked_at_its_field(page: Any, address: str) -> None:
    page.goto(f"{address}/try/draw")
    set_json(page, {"shape": {"members": [{"kind": "square", "side": "wide"}]}, "limit": "4"})
    wait_for_text(page, "#state", "side")
    assert page.locator(".wrong").last.get_attribute("aria-label") == "side"
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Error invalid_parameters")
    page.locator("[data-pointer='/shape/members/0/side']").fill("3")
    wait_for_text(page, "#state", "Passed on in another form: /limit")
    assert page.locator(".wrong").count() == 0


def test_what_the_form_cannot_keep_is_sent_from_the_text(page: Any, address: str) -> None:
    page.goto(f"{address}/try/draw")
    set_json(page, '{"shape": {"kind": "square", "side": 1}, "limit": 12345678901234567890}')
    wait_for_text(page, "#state", "The form cannot keep this value")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Done")
    assert "12345678901234567890" in page.locator("#text").inner_text()
    set_json(page, "{")
    wait_for_text(page, "#state", "no JSON")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Error invalid_json")
    set_json(page, '{"shape": {"kind": "square", "side": 1}}')
    wait_for_text(page, "#state", "^Valid")


def test_chunks_are_shown_and_images_too(page: Any, address: str) -> None:
    page.goto(f"{address}/try/count")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Done")
    assert page.locator("#text").inner_text() == "[0, 1, 2]"
    page.goto(f"{address}/try/picture")
    page.locator("#run").click()
    page.locator("#images img").wait_for()
    assert page.locator("#images img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 40


def test_a_call_is_cancelled_and_an_error_shown(page: Any, address: str) -> None:
    page.goto(f"{address}/try/wait")
    page.locator("#run").click()
    page.locator("#cancel").click()
    wait_for_text(page, "#outcome", "^Error cancelled")
    page.locator("#run:enabled").wait_for()
    page.locator("#cancel:disabled").wait_for()
    page.goto(f"{address}/try/fail")
    page.locator("#run").click()
    wait_for_text(page, "#outcome", "^Error tool_error")


def test_leaving_the_page_ends_its_call(page: Any, serve: Callable[..., str]) -> None:
    import asyncio
    import threading

    started, ended = threading.Event(), threading.Event()

    async def watch() -> str:
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()
        return "never"

    address = serve(Toolkit("watch").add(watch))
    page.goto(f"{address}/try/watch")
    page.locator("#run").click()
    assert started.wait(20)
    page.goto(address)
    assert ended.wait(20)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_pages_fit_into_the_window(browser: Any, address: str, scheme: str, width: int) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = context.new_page()
    for path in ("/", "/tool/draw", "/providers", "/provider/draw?format=openai", "/try/draw"):
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        colors = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        brightness = [sum(map(int, re.findall(r"\d+", color)[:3])) for color in colors]
        assert (brightness[0] < brightness[1]) is (scheme == "light")
    context.close()
