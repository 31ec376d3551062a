"""Edits of copies of the files of this repository: an edit and its reverse give the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ahvn_tools
from ahvn_tools.builtins import Workspace

ROOT = Path(ahvn_tools.__file__).parents[1]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("ahvn_tools", "docs", "examples", "tests")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".toml", ".json", ".yaml", ".ipynb"} and path.is_file()
)


def _edit_and_reverse(folder: Path, tools, name: str) -> bool:
    """Replace a unique line in the middle and back; return whether the file has one."""
    content = (ROOT / name).read_bytes()
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    lines = content.decode().split("\n")
    counts = Counter(lines)
    unique = [line for line in lines if counts[line] == 1 and line.strip() and line[:7] not in _MARKERS]
    if not unique:
        return False
    old = unique[len(unique) // 2]
    for search, replace in ((old, "!one!\n!two!"), ("!one!\n!two!", old)):
        block = f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"
        tools["edit_file_search_replace"](uri=name, search_replace=block)
    assert target.read_bytes() == content, name
    return True


_MARKERS = {"<" * 7, "=" * 7, ">" * 7}


def _round_trips(folder: Path, names: list[str]) -> int:
    tools = Workspace(folder, approve="never").to_toolspecs()
    return sum(_edit_and_reverse(folder, tools, name) for name in names)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("step", "least"), [(40, 10), pytest.param(1, 400, marks=pytest.mark.exhaustive)])
def test_an_edit_and_its_reverse_restore_real_files(tmp_path, step, least):
    assert _round_trips(tmp_path, FILES[::step]) > least


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_file_of_100_megabytes_is_read_by_parts_and_not_edited(tmp_path):
    line = b"x" * 99 + b"\n"
    path = tmp_path / "large.txt"
    path.write_bytes(line * 999_999 + b"the end key\n")
    tools = Workspace(tmp_path).to_toolspecs()
    read = tools["partially_read_by_range"](uri="large.txt", start_line=1_000_000, end_line=1_000_001)
    assert read == "1000000: the end key\n(The file ends with line 1000000.)"
    around = tools["partially_read_around_keyword"](uri="large.txt", keyword="key", lines_before=0, lines_after=0)
    assert around == "1000000: the end key"
    assert "start_line=1001" in tools["read_file"](uri="large.txt")
    assert tools["get_file_size"](uri="large.txt") == "Size: 97656.16 KB (99999912 bytes)"
    assert "Not searched: 1" in tools["search_file_contains_keyword"](uri=".", keyword="key")
    result = tools["insert"].exec(uri="large.txt", line=1, content="x")
    assert "more than 10,000,000" in result.text
    assert path.stat().st_size == 99_999_912


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_file_of_100_megabytes_is_edited_where_the_host_allows_it(tmp_path):
    path = tmp_path / "large.txt"
    content = b"".join(b"%098d\r\n" % number for number in range(1_000_000))
    path.write_bytes(content)
    tools = Workspace(tmp_path, max_bytes=200_000_000).to_toolspecs()
    for search, replace in ((f"{500_000:098d}", "key"), ("key", f"{500_000:098d}")):
        block = f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"
        tools["edit_file_search_replace"](uri="large.txt", search_replace=block)
    assert path.read_bytes() == content
