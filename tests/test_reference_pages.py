"""The pages of docs/reference/ that are made from the code are up to date, and leave nothing out."""

from __future__ import annotations

import pytest

from tests.reference_pages import FOLDER, PAGES

each_page = pytest.mark.parametrize("name", PAGES)


@each_page
def test_a_page_is_what_the_code_says(name):
    committed = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert PAGES[name]() == committed, "write the pages again: python -m tests.reference_pages"


@each_page
def test_everything_in_a_table_has_a_text(name):
    rows = [line for line in (FOLDER / f"{name}.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert [row for row in rows if row.endswith("| |")] == []
