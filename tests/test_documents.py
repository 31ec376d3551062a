"""README, docs/ and .github/: links lead somewhere, and the files that they name exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.site.__main__ import ROOT, pages_of, read_config

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / ".github").glob("*.md")])
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_every_link_leads_to_a_file_and_a_heading(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.is_file(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_of_the_site_links_to_no_file_outside_of_it(page):
    for target in re.findall(r"\]\((?!https://|#)([^)\s#]+)", prose(page)):
        assert (page.parent / target).resolve().is_relative_to(DOCS), f"{target}: write the name of the file as code"


def test_each_page_is_in_the_navigation_of_the_site_once():
    listed = list(pages_of(read_config()["nav"]))
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")), ".mkdocs.yml"


@each_page
def test_every_file_of_the_project_that_a_page_names_exists(page):
    for name in re.findall(r"`((?:ahvn_tools|tests|examples|docs)/[\w./]*)`", prose(page)):
        is_placeholder = "NAME" in name
        assert is_placeholder or (ROOT / name).exists(), f"{page.name} names {name}"


def test_every_page_can_be_reached_from_the_readme():
    reached, pending = set[Path](), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page.suffix == ".md" and page not in reached:
            reached.add(page)
            pending += [(page.parent / name).resolve() for name in re.findall(r"\]\(([\w./-]+)", prose(page))]
    assert set((ROOT / "docs").rglob("*.md")) - reached == set()


def test_the_architecture_page_has_every_module_of_the_package():
    text = (ROOT / "docs" / "maintainers" / "architecture.md").read_text(encoding="utf-8")
    modules = [
        path for path in (ROOT / "ahvn_tools").iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    ]
    for path in modules:
        name = f"ahvn_tools/{path.name}{'/' if path.is_dir() else ''}"
        assert f"`{name}`" in text, f"{name} has no row in docs/maintainers/architecture.md"


def test_the_page_of_extras_has_every_extra():
    text = (ROOT / "docs" / "reference" / "extras.md").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [extra for extra in extras if f"`{extra}`" not in text] == []


LONGEST = {"how-to": 700, "concepts": 900, "migrating": 1_500}
"""How many words a page of each folder may have, without its blocks of code."""


@pytest.mark.parametrize("folder", LONGEST)
def test_pages_are_short(folder):
    lengths = {
        page.relative_to(ROOT).as_posix(): len(prose(page).split()) for page in (ROOT / "docs" / folder).glob("*.md")
    }
    long = {name for name, length in lengths.items() if length > LONGEST[folder]}
    assert long == set(), f"more than {LONGEST[folder]} words: split the page, or move rules to docs/reference/"


def test_the_first_pages_are_short():
    lines = {
        name: (ROOT / name).read_text(encoding="utf-8").count("\n") for name in ("README.md", "docs/quickstart.md")
    }
    assert lines["README.md"] < 120
    assert lines["docs/quickstart.md"] < 150
    assert len(prose(ROOT / "docs" / "tutorial.md").split()) <= 1_500
