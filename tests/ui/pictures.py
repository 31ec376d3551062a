"""Make the pictures of the playground in `docs/images` again, from the desk: `python -m tests.ui.pictures`."""

from __future__ import annotations

import io
import json
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from ahvn_tools import ui
from tests.ui.desk import open_desk

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
COLORS = 64
"""A picture of a page has few colours: with so many, its file is a third as large."""


def try_draw(page: Any) -> None:
    page.locator("#json").fill(json.dumps({"shape": {"kind": "square", "side": "wide"}, "color": "green"}, indent=2))
    page.locator(".wrong").first.wait_for()


def run_draw(page: Any) -> None:
    page.locator("#json").fill(json.dumps({"shape": {"kind": "square", "side": 2.5}}, indent=2))
    for _ in range(2):
        page.locator("#run").click()
        page.locator("#outcome").filter(has_text="Done").wait_for()
    page.locator("#structured-part summary").click()
    page.get_by_text("This call as a test for pytest").click()
    page.locator("#history").scroll_into_view_if_needed()


PICTURES = {
    "playground.png": ("/try/draw", try_draw, 620),
    "playground-provider.png": (
        "/provider/count?format=gemini",
        lambda page: page.locator("summary").last.click(),
        900,
    ),
    "playground-result.png": ("/try/draw", run_draw, 900),
}
"""The page of each picture, what is done there, and the height."""


def main() -> None:
    """Write the pictures."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app: Any = ui.app(open_desk(), edit_state=True, setup="from desk import kit\n")
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            take(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join()


def take(address: str) -> None:
    """Take each picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, (path, act, height) in PICTURES.items():
            page = browser.new_page(viewport={"width": 1100, "height": height}, color_scheme="light")
            page.goto(address + path)
            act(page)
            page.wait_for_timeout(400)  # the validation after the last edit
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.quantize(COLORS).save(FOLDER / name, optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
