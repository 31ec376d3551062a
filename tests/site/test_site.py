"""The site of docs/: what it contains, what its strict build refuses, and that it loads nothing from elsewhere."""

from __future__ import annotations

import functools
import http.server
import importlib
import importlib.util
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.__main__ import CONFIG, ROOT, build

DOCS = ROOT / "docs"
API = DOCS / "reference" / "api"

needs_zensical = pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs the extra `docs`")

PACKAGES = [
    "", ".builtins", ".code_mode", ".execution", ".executors", ".formats", ".mcp", ".middleware", ".schema", ".ui",
]  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_has_its_docstring_on_an_api_page(package):
    module = importlib.import_module(f"ahvn_tools{package}")
    text = "".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    shown = set(re.findall(r"^::: ahvn_tools(?:\.\w+)*\.(\w+)$", text, re.MULTILINE))
    assert set(module.__all__) - shown == set()


def copy_project(folder: Path) -> Path:
    """Copy what the site is made of."""
    for name in ("docs", "ahvn_tools", "tests/site"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / CONFIG, folder / CONFIG)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    return build(copy_project(tmp_path_factory.mktemp("project")))


@needs_zensical
@pytest.mark.exhaustive
@pytest.mark.timeout(300)
class TestBuiltSite:
    """They share one build."""

    def test_the_options_of_unpack_are_on_the_page_of_their_function(self, site):
        text = (site / "reference/api/toolkits/index.html").read_text(encoding="utf-8")
        of_add = re.sub(
            r"<[^>]+>", "", text.partition('id="ahvn_tools.Toolkit.add"')[2].partition('id="ahvn_tools.')[0]
        )
        for option in ("requires_approval", "isolation", "input_schema", "on_duplicate"):  # each of another class
            assert re.search(rf"{option}\s*\(", of_add), option
        assert "must_be" not in of_add  # the check of an option is no part of its type

    def test_examples_of_docstrings_are_code(self, site):
        text = (site / "reference/api/tools/index.html").read_text(encoding="utf-8")
        assert "&gt;&gt;&gt; def greet" in re.sub(r"</?(?:span|a)[^>]*>", "", text)
        assert "<blockquote>\n<blockquote>" not in text

    def test_nothing_in_a_page_is_loaded_from_elsewhere(self, site):
        for page in site.rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            loaded = re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"?([^\"> ]+)", text)
            loaded += re.findall(r"<link[^>]*\bhref=\"?([^\"> ]+)", text)
            assert [target for target in loaded if re.match(r"(?:https?:)?//", target)] == [], page

    def test_models_get_a_list_of_the_pages_and_their_texts(self, site):
        listed = re.findall(r"^- \[.+?\]\((.+?)\): ", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
        assert len(listed) == len(list(DOCS.rglob("*.md")))
        assert [target for target in listed if not (site / target).is_file()] == []
        assert "class" in (site / "llms-full.txt").read_text(encoding="utf-8")

    def test_a_reader_finds_a_page_and_fetches_nothing_from_elsewhere(self, site, served, chromium):
        requested: list[str] = []
        page = chromium.new_page()
        page.on("request", lambda request: requested.append(request.url))
        for path in ("", "quickstart/", "reference/options/", "reference/api/toolkits/", "maintainers/benchmarks/"):
            page.goto(f"{served}/{path}", wait_until="networkidle")
        page.goto(f"{served}/", wait_until="networkidle")
        page.keyboard.press("/")
        page.keyboard.type("requires_approval")
        page.get_by_text(re.compile(r"^\s*\d+ results")).wait_for()
        page.wait_for_load_state("networkidle")
        assert [url for url in requested if not url.startswith((served, "data:", "blob:"))] == []


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The address at which the site is served."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def chromium():
    """A context of the system's Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser-tests`")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser.new_context()
        browser.close()


@needs_zensical
@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mistake",
    ["[a](nowhere.md)", "[a](#nothing)", "[a](index.md#nothing)", "[a][ahvn_tools.Nothing]", "::: ahvn_tools.Nothing"],
    ids=["page", "own anchor", "anchor", "reference", "name"],
)
def test_a_mistake_in_a_page_fails_the_build(tmp_path, mistake):
    copy_project(tmp_path)
    for folder in ("concepts", "how-to", "reference", "migrating", "maintainers"):
        shutil.rmtree(tmp_path / "docs" / folder)
    for name in ("index.md", "quickstart.md", "tutorial.md"):
        (tmp_path / "docs" / name).unlink()
    config = (tmp_path / CONFIG).read_text(encoding="utf-8")
    (tmp_path / CONFIG).write_text(re.sub(r"^nav:\n(?: .*\n)+", "nav: [index.md]\n", config, flags=re.MULTILINE))
    (tmp_path / "docs" / "index.md").write_text(f"# Title\n\n{mistake}\n", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        build(tmp_path)
