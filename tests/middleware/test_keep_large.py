"""Keep large: what a model reads of a large result, and how it reads and searches the rest."""

from __future__ import annotations

import asyncio
import base64
import errno
import gc
import json
import logging
import os
import re
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastmcp import Client
from hypothesis import strategies as st

from ahvn_tools import Toolkit, ToolSpecError
from ahvn_tools.errors import ToolkitError
from ahvn_tools.middleware import cache, keep_large, kept_json, kept_results, record, replay, truncate
from ahvn_tools.results import ToolCall, ToolResult, text_block
from tests.mcp.loopback import over_http
from tests.property_checks import EXAMPLES, run_examples

LINES = "\n".join(f"line {number}" for number in range(2_000))
ROWS = [{"id": number, "name": f"n{number}", "tags": ["a", "b"]} for number in range(500)]
NOT_FOUND = "There is no result with this handle, or it is no longer kept. Call the tool that returned it again."


@pytest.fixture(params=["memory", "folder"])
def options(request, tmp_path) -> dict[str, Path]:
    return {} if request.param == "memory" else {"folder": tmp_path / "kept"}


def make_kit(options: dict, *, max_chars: int = 1_000, **toolkit: object) -> Toolkit:
    kit = Toolkit("kit", middleware=[keep_large(max_chars, **options)], **toolkit)

    @kit.tool
    def lines() -> str:
        return LINES

    @kit.tool
    def rows() -> list[dict]:
        return ROWS

    @kit.tool
    def give(value: str) -> str:
        return value

    return kit


def handle_of(result: ToolResult) -> str:
    return result.meta["kept"]["handle"]


def seen(result: ToolResult) -> str:
    (block,) = result.content
    return block.text


def read(kit: Toolkit, handle: str, **arguments: object) -> str:
    return kit.exec("read_result", {"handle": handle, **arguments}).text


def search(kit: Toolkit, handle: str, text: str, **arguments: object) -> str:
    return kit.exec("search_result", {"handle": handle, "text": text, **arguments}).text


def test_a_model_reads_the_beginning_the_size_and_the_handle_of_a_text(options):
    kit = make_kit(options)
    result = kit.exec("lines")
    handle, text = handle_of(result), seen(result)
    assert len(text) <= 1_000
    head, _, note = text.rpartition("\n[")
    assert LINES.startswith(head)
    assert note == (
        f"The result has {len(LINES)} characters. These were the first {len(head)}. It is kept for you: read parts "
        f"with `read_result` (handle={handle!r}, start, limit), and find a text in it with `search_result` "
        f"(handle={handle!r}, text).]"
    )
    assert (result.value, result.text, result.meta["kept"]["chars"]) == (LINES, LINES, len(LINES))


def add_then_use(inner: Toolkit, layer: object) -> Toolkit:
    outer = Toolkit("outer").add(inner)
    outer.use(layer)
    return outer


@pytest.mark.parametrize("makes_other", [True, False])
@pytest.mark.parametrize(
    "combine",
    [
        lambda inner, layer: Toolkit("outer", middleware=[layer]).add(inner),
        lambda inner, layer: Toolkit("outer", middleware=[layer]).add(inner, on_duplicate="keep"),
        lambda inner, layer: Toolkit("outer", middleware=[layer]).add(inner, on_duplicate="rename"),
        add_then_use,
        lambda inner, layer: Toolkit("outer").add(Toolkit("first", middleware=[layer]).add(len, name="size"), inner),
    ],
)
def test_two_toolkits_that_keep_large_results_have_one_pair_of_tools(options, combine, makes_other):
    inner = make_kit(options)
    layer = keep_large(1_000, **options) if makes_other else inner._view.store.middleware[0]
    outer = combine(inner, layer)
    names = [tool.name for tool in outer]
    assert (names.count("read_result"), names.count("search_result")) == (1, 1)
    assert not [name for name in names if name.startswith("read_result_")]
    session = outer.session()
    handle = handle_of(session.exec("lines"))
    assert read(session, handle, unit="lines", start=1_700, limit=1).endswith("line 1700")


def test_a_prefix_gives_an_added_toolkit_a_pair_of_its_own(options):
    outer = Toolkit("outer", middleware=[keep_large(1_000, **options)]).add(make_kit(options), prefix="kb_")
    session = outer.session()
    assert {"read_result", "kb_read_result"} <= {tool.name for tool in outer}
    result = session.exec("kb_lines")
    assert "`kb_read_result`" in seen(result)
    assert "line 1700" in session.call("kb_read_result", {"handle": handle_of(result), "unit": "lines", "start": 1700})


def test_a_model_reads_an_outline_of_json(options):
    kit = make_kit(options)
    result = kit.exec("rows")
    label, *lines = seen(result).split("\n")
    assert label.startswith(f"[The result is JSON of {len(json.dumps(ROWS))} characters, kept for you")
    assert lines[:5] == [
        "/: array of 500 items",
        "/0: object of 3 members",
        "/0/id: 0",
        '/0/name: "n0"',
        "/0/tags: array of 2 items",
    ]
    assert result.value == ROWS
    assert result.structured_content == {"result": ROWS}


@pytest.mark.parametrize("size", [0, 999, 1_000])
def test_a_result_that_fits_is_unchanged(options, size):
    kit = make_kit(options)
    result = kit.exec("give", {"value": "x" * size})
    assert (seen(result), "kept" in result.meta) == ("x" * size, False)


def test_pages_of_characters(options):
    kit = make_kit(options)
    handle, size = handle_of(kit.exec("lines")), len(LINES)
    expected = {
        (0, 6): f"[characters 0 to 6 of {size}; read on with start=6]\nline 0",
        (7, 6): f"[characters 7 to 13 of {size}; read on with start=13]\nline 1",
        (size - 4, 100): f"[characters {size - 4} to {size} of {size}]\n1999",
        (size, 5): f"[nothing at start={size}: there are {size} characters, and the first is number 0]",
    }
    assert {key: read(kit, handle, start=key[0], limit=key[1]) for key in expected} == expected


def test_pages_of_lines(options):
    kit = make_kit(options)
    handle = handle_of(kit.exec("lines"))
    assert read(kit, handle, unit="lines", start=1_998, limit=9) == "[lines 1998 to 2000 of 2000]\nline 1998\nline 1999"
    assert read(kit, handle, unit="lines", start=5, limit=1) == "[lines 5 to 6 of 2000; read on with start=6]\nline 5"
    assert read(kit, handle, unit="lines", start=10**12) == (
        f"[nothing at start={10**12}: there are 2000 lines, and the first is number 0]"
    )
    assert len(read(kit, handle, unit="lines", limit=10**12)) <= 1_000


def test_a_line_that_is_too_long_is_read_by_characters(options):
    kit = make_kit(options)
    handle = handle_of(kit.exec("give", {"value": f"short\n{'x' * 5_000}"}))
    assert read(kit, handle, unit="lines", start=1) == (
        f"[line 1 of 2; the line is longer: read on with unit='characters', start=806]\n{'x' * 800}"
    )


@pytest.mark.parametrize("unit", ["characters", "lines"])
@EXAMPLES
def test_pages_that_follow_each_other_are_the_whole_text(max_examples, unit):
    """A model that reads on as the label says reads each character once."""
    kit = make_kit({})

    def check(parts: list[str]) -> None:
        whole = "\n".join([*parts, "x" * 700, "y" * 700])
        handle, start, pages = handle_of(kit.exec("give", {"value": whole})), 0, []
        while start is not None:
            label, _, content = read(kit, handle, start=start, unit=unit).partition("\n")
            pages.append(content)
            start = int(label.removesuffix("]").partition("start=")[2]) if "start=" in label else None
        assert ("\n" if unit == "lines" else "").join(pages) == whole

    run_examples(max_examples, check, st.lists(st.text(max_size=200), max_size=40))


@EXAMPLES
def test_a_file_has_every_character_at_its_place(max_examples, tmp_path):
    store = kept_results.FolderStore(tmp_path / "kept", 10**9, 60)
    owner = kept_results.Owner(store, ("a",))

    def check(text: str) -> None:
        handle = store.keep(owner, kept_results.KeptText(text), len(text))
        with store.find(owner, handle) as kept:
            assert (kept.length, kept.read(0, len(text)), kept.read(5, 9)) == (len(text), text, text[5:9])

    run_examples(max_examples, check, st.text(st.characters(), max_size=100))  # surrogates, too


def test_json_is_read_by_path(options):
    kit = make_kit(options)
    handle = handle_of(kit.exec("rows"))
    expected = {
        ("/3", None, None): '[members 0 to 3 of 3]\n{"id": 3, "name": "n3", "tags": ["a", "b"]}',
        ("/3/name", None, None): "[characters 0 to 2 of 2]\nn3",
        ("3/id", None, None): "3",
        ("/3/tags", 1, 1): '[items 1 to 2 of 2]\n["b"]',
        ("/3", 1, 1): '[members 1 to 2 of 3; read on with start=2]\n{"name": "n3"}',
        ("/500", None, None): "There is nothing at '500' in /, which is array of 500 items.",
        ("/3/nam", None, None): "There is nothing at 'nam' in /3, which is object of 3 members.",
        ("/3/id/x", None, None): "There is nothing at 'x' in /3/id, which is 3.",
        ("/-1", None, None): "There is nothing at '-1' in /, which is array of 500 items.",
        ("", 10**12, None): f"[nothing at start={10**12}: there are 500 items, and the first is number 0]",
    }
    found = {}
    for path, start, limit in expected:
        numbers = {"start": start, "limit": limit}
        given_numbers = {name: number for name, number in numbers.items() if number is not None}
        found[path, start, limit] = read(kit, handle, path=path, **given_numbers)
    assert found == expected


def test_the_items_of_json_are_read_in_parts(options):
    kit = make_kit(options)
    handle, start, items = handle_of(kit.exec("rows")), 0, []
    while start is not None:
        page = read(kit, handle, path="", start=start)
        assert len(page) <= 1_000
        label, _, content = page.partition("\n")
        items += json.loads(content)
        start = int(label.removesuffix("]").partition("start=")[2]) if "start=" in label else None
    assert items == ROWS


def test_a_member_that_is_too_large_is_an_outline(options):
    kit = make_kit(options)

    @kit.tool
    def nested() -> dict:
        return {"a/b": {"rows": ROWS, "~": 1}}

    handle = handle_of(kit.exec("nested"))
    assert read(kit, handle).split("\n")[:3] == [
        "[members 0 to 1 of 1]",
        "/a~1b: object of 2 members",
        "/a~1b/rows: array of 500 items",
    ]
    assert read(kit, handle, path="/a~1b/~0") == "1"


def test_a_text_that_is_json_is_read_by_path_too(options):
    kit = make_kit(options)
    result = kit.exec("give", {"value": json.dumps({"rows": ROWS}, indent=2)})
    assert "path, start, limit" in seen(result)
    assert read(kit, handle_of(result), path="/rows/7/name") == "[characters 0 to 2 of 2]\nn7"
    assert read(kit, handle_of(kit.exec("lines")), path="/x") == (
        "This result is a text and no JSON: read it without a path."
    )
    assert "start, limit" in seen(kit.exec("give", {"value": f"[{LINES}"}))


@pytest.mark.parametrize(
    ("text", "is_json"),
    [
        (f"[NaN, {LINES!r}]", False),
        (f'["{LINES[:2000]}"', False),
        ("[" * 3_000, False),
        (f"[{'9' * 5_000}]", False),
        (json.dumps(["\ud800", "x" * 2_000], ensure_ascii=False), False),
        (f" \n{json.dumps(ROWS)}", True),
        (json.dumps({"a": ["x" * 2_000]}), True),
    ],
)
def test_a_text_that_looks_like_json(options, text, is_json):
    kit = make_kit(options)
    page = read(kit, handle_of(kit.exec("give", {"value": text})), limit=1)
    assert page.startswith(("[items", "[members") if is_json else "[characters 0 to 1")


def test_data_of_any_depth_and_with_any_text_is_kept(options):
    kit = make_kit(options)
    nested: list = ["\ud800", "x" * 100_000]
    for _ in range(150):
        nested = [nested]

    @kit.tool(output_schema=None)
    def deep():
        return nested

    handle = handle_of(kit.exec("deep"))
    assert read(kit, handle, path="/0" * 151, limit=9).endswith("\n\ud800")
    assert search(kit, handle, "x" * 9).startswith(f"[1 found, as path: value]\n{'/0' * 90}")


@pytest.mark.parametrize(("depth", "name"), [(150, "a" * 20_000), (150, "a/~")], ids=["long names", "deep"])
def test_the_index_of_json_is_small(depth, name):
    """Each path contains all names above it, so of long or many ones it would be larger than the result."""
    data = {"leaf": "x" * 100_000}
    for _ in range(depth):
        data = {name: data}
    text, index = kept_json.to_indexed_text(data)
    kept = kept_json.KeptJson(kept_results.KeptText(text, index), index)
    path = f"/{kept_json.escape(name)}" * depth
    assert (len(index) <= 11, sum(map(len, index)) <= 10_000) == (True, True)
    assert json.loads(text) == data
    assert kept.read(f"{path}/leaf", 99_999, None, 100).endswith("\nx")
    assert f"{path}/leaf: " in kept.search("leaf", 0, 20, 100_000_000)


def test_a_search_goes_on_behind_names_and_texts_that_are_too_long(options):
    kit = make_kit(options)

    @kit.tool
    def wide() -> dict:
        return {"k" * 5_000: 1, "k": 2}

    handle = handle_of(kit.exec("wide"))
    assert len(search(kit, handle, "k", limit=1)) < 1_000
    assert search(kit, handle, "k", start=1).endswith("\n/k: 2")
    handle = handle_of(kit.exec("give", {"value": "y" * 3_000}))
    assert "search on with start=2000]" in search(kit, handle, "y" * 1_000, limit=2)


def test_a_text_is_found_in_any_case(options):
    kit = make_kit(options)
    handle = handle_of(kit.exec("give", {"value": f"{'x' * 5_000} The End. İstanbul {'y' * 5_000} the end"}))
    assert search(kit, handle, "THE END", limit=1).split("\n") == [
        "[1 found, as line:character: text; search on with start=10020]",
        f"0:5001: {'x' * 79} The End. İstanbul {'y' * 69}",
    ]
    assert search(kit, handle, "the end", start=10_020).split("\n")[1].startswith("0:10020: ")
    assert search(kit, handle, "istanbul").split("\n")[1].startswith("0:5010: ")
    assert search(kit, handle, "(a+)+$") == "[not found]"
    assert search(kit, handle, "the end", start=10**12) == "[not found]"


def test_a_text_is_found_where_blocks_meet(options, monkeypatch):
    monkeypatch.setattr("ahvn_tools.middleware.kept_text._BLOCK", 7)
    kit = make_kit(options)
    handle = handle_of(kit.exec("lines"))
    expected = [LINES.index(f"line {number}\n") for number in range(0, 2_000, 17)]
    found = [search(kit, handle, f"line {number}\n", limit=1).split("\n")[1] for number in range(0, 2_000, 17)]
    assert found == [
        f"{number}:{position}: line {number}" for number, position in zip(range(0, 2_000, 17), expected, strict=True)
    ]
    assert read(kit, handle, unit="lines", start=1_234, limit=1).endswith("\nline 1234")


def test_a_search_says_the_line_that_read_result_reads(options):
    kit = make_kit(options)
    handle = handle_of(kit.exec("give", {"value": f"one\n  two\tthree\n\nfour {'x' * 2_000}\nfive"}))
    label = "[1 found, as line:character: text]"
    assert search(kit, handle, "TWO") == f"{label}\n1:6:   two\tthree"
    assert search(kit, handle, "three", start=8) == f"{label}\n1:10:   two\tthree"
    assert search(kit, handle, "\n\nfour") == f"{label}\n1:15:   two\tthree  four {'x' * 79}"
    assert search(kit, handle, "x\nf") == f"{label}\n3:2021: {'x' * 81} five"
    assert search(kit, handle, "five") == f"{label}\n4:2023: five"
    assert read(kit, handle, unit="lines", start=1, limit=1).endswith("\n  two\tthree")


def test_names_and_values_of_json_are_found(options):
    kit = make_kit(options)
    handle = handle_of(kit.exec("rows"))
    assert search(kit, handle, "N49", limit=3).split("\n") == [
        "[3 found, as path: value; search on with start=3]",
        '/49/name: "n49"',
        '/490/name: "n490"',
        '/491/name: "n491"',
    ]
    assert search(kit, handle, "N49", start=10).split("\n") == ["[1 found, as path: value]", '/499/name: "n499"']
    assert search(kit, handle, "tags", limit=1).split("\n")[1] == "/0/tags: array of 2 items"
    assert search(kit, handle, "nothing") == "[not found]"


JSON_TEXTS = st.text(st.sampled_from('aB"\\/~ é'), max_size=4)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | JSON_TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(JSON_TEXTS, inner, max_size=5),
    max_leaves=30,
)


def all_members(value: object, path: str = "") -> Iterator[tuple[str, str, object]]:
    """Yield path, name and value of each member at any depth."""
    for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        child = f"{path}/{kept_json.escape(name)}"
        yield child, name if isinstance(name, str) else "", part
        yield from all_members(part, child)


@EXAMPLES
@pytest.mark.parametrize("run_chars", [1, 10, 100])
def test_each_part_of_json_is_read_and_found_where_it_is(max_examples, run_chars, monkeypatch):
    monkeypatch.setattr(kept_json, "_RUN_CHARS", run_chars)
    monkeypatch.setattr(kept_json, "_BATCH", 3)

    def check(data: list | dict, wanted: str) -> None:
        text, index = kept_json.to_indexed_text(data)
        assert json.loads(text) == data
        kept = kept_json.KeptJson(kept_results.KeptText(text), kept_json.load_index(kept_json.dump_index(index)))
        members, folded = list(all_members(data)), wanted.lower()
        for path, _, value in members:
            if path != "/" and not isinstance(value, dict | list):
                shown = kept.read(path, 0, None, 10**6)
                assert (shown.partition("\n")[2] if isinstance(value, str) else json.loads(shown)) == value
        expected = [
            path
            for path, name, value in members
            if folded in name.lower()
            or (
                not isinstance(value, dict | list)
                and folded in (value if isinstance(value, str) else json.dumps(value)).lower()
            )
        ]
        label, *lines = kept.search(wanted, 0, 1_000, 10**6).split("\n")
        assert len(lines) == (0 if label == "[not found]" else int(label[1:].partition(" ")[0]))
        assert [line.rpartition(": ")[0] for line in lines] == expected

    containers = st.lists(JSON_VALUES, max_size=8) | st.dictionaries(JSON_TEXTS, JSON_VALUES, max_size=8)
    run_examples(max_examples, check, containers, st.text(st.sampled_from('ab"\\\\1'), min_size=1, max_size=2))


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": -1},
        {"start": 10**30},
        {"limit": 10**30},
        {"limit": 0},
        {"limit": -5},
        {"unit": "bytes"},
        {"start": 1.5},
        {"handle": None},
    ],
)
def test_arguments_that_do_not_fit_are_refused(options, arguments):
    kit = make_kit(options)
    result = kit.exec("read_result", {"handle": handle_of(kit.exec("lines")), **arguments})
    assert result.error.code == "invalid_parameters"


@pytest.mark.parametrize("text", ["", "x" * 1_001])
def test_a_search_for_nothing_or_for_too_much_is_refused(text):
    kit = make_kit({})
    result = kit.exec("search_result", {"handle": handle_of(kit.exec("lines")), "text": text})
    assert result.error.code == "invalid_parameters"


@pytest.mark.parametrize(
    "handle", ["", ".", "..", "../x", "/etc/passwd", "result_", "result_\x00", f"result_{'0' * 32}", "result_*", "💥"]
)
def test_a_handle_is_no_path(options, handle):
    kit = make_kit(options)
    kit.exec("lines")
    assert read(kit, handle) == search(kit, handle, "line") == NOT_FOUND


def test_a_handle_of_another_session_does_not_exist(options):
    kit = make_kit(options)
    ann, bob = kit.session(session_id="ann"), kit.session(session_id="bob")
    handle = handle_of(ann.exec("lines"))
    for other in (bob, kit, kit.session(), ann.session()):
        assert read(other, handle) == NOT_FOUND
    for same in (ann, kit.session(session_id="ann"), ann.select(names=["lines"])):
        assert read(same, handle, limit=6).endswith("\nline 0")


@pytest.mark.parametrize("name", ["ann", None])
def test_results_are_gone_with_their_session(options, name, tmp_path):
    kit = make_kit(options)
    session = kit.session() if name is None else kit.session().session(session_id=name)
    handle = handle_of(session.exec("lines"))
    assert read(session, handle, limit=1).endswith("\nl")
    kept = [weakref.ref(text) for text in gc.get_objects() if isinstance(text, kept_results.KeptText)]
    del session
    gc.collect()
    assert not [text for text in kept if text() is not None]
    assert not list(tmp_path.rglob("result_*"))


def test_the_oldest_results_are_dropped_first(options):
    kit = make_kit({**options, "max_bytes": 5_000})
    one, two = kit.session(), kit.session()
    handles = []
    for number, session in enumerate((one, two, one, two)):
        handles.append((session, handle_of(session.exec("give", {"value": str(number) * 1_500}))))
        time.sleep(0.002)  # files have times
    assert [read(session, handle) == NOT_FOUND for session, handle in handles] == [True, False, False, False]


def test_what_is_gone_with_its_session_leaves_space_for_others():
    layer = keep_large(1_000, max_bytes=3 * len(LINES))
    kit = Toolkit("kit", middleware=[layer]).add(lambda: LINES, name="lines")
    for _ in range(10):  # sessions that end
        kit.session().exec("lines")
    session = kit.session()
    handles = [handle_of(session.exec("lines")) for _ in range(4)]
    found = [read(session, handle, limit=4) != NOT_FOUND for handle in handles]
    assert found == [False, False, True, True]  # with what Python adds, a third one is too much


def test_a_result_that_is_too_large_to_be_kept_is_cut(options):
    kit = make_kit({**options, "max_bytes": 5_000})
    result = kit.exec("lines")
    assert "handle" not in result.meta["kept"]
    assert seen(result).endswith("It is not kept.]")


def test_a_result_is_too_old_after_max_age(options, monkeypatch):
    kit = make_kit({**options, "max_age": 100})
    handle = handle_of(kit.exec("lines"))
    for name in ("time", "monotonic"):
        now = getattr(time, name)
        monkeypatch.setattr(f"ahvn_tools.middleware.kept_results.time.{name}", lambda now=now: now() + 101)
    assert read(kit, handle) == NOT_FOUND


def test_only_this_user_reads_the_files(tmp_path):
    kit = make_kit({"folder": tmp_path / "kept"})
    kit.exec("lines")
    paths = list(tmp_path.rglob("*"))
    assert {path.is_dir() for path in paths} == {True, False}
    assert not [path for path in paths if path.stat().st_mode & 0o077]


def test_a_folder_that_others_can_change_is_refused(tmp_path, monkeypatch):
    open_folder, file = tmp_path / "open", tmp_path / "file"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    file.touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (open_folder, file, tmp_path / "link"):
        with pytest.raises(ToolSpecError, match="cannot be kept in"):
            keep_large(folder=path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ToolSpecError, match="belongs to this user"):
        keep_large(folder=tmp_path / "new")


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path):
    kit = make_kit({"folder": tmp_path / "kept"})
    handle = handle_of(kit.exec("lines"))
    (file,) = tmp_path.rglob(handle)
    for content in (
        b"",
        b"secret",
        b"3".ljust(16, b"0"),
        b"1" + b"2".rjust(15, b"0") + b"[]",
    ):
        file.write_bytes(content)
        assert read(kit, handle) == NOT_FOUND
    file.unlink()
    (tmp_path / "secret").write_text(f"1{'0' * 15}secret")
    file.symlink_to(tmp_path / "secret")
    assert read(kit, handle) == NOT_FOUND


def test_a_full_disk_loses_no_result(tmp_path, monkeypatch, caplog):
    kit = make_kit({"folder": tmp_path / "kept"})

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept_results, "_encoded", fail)
    with caplog.at_level(logging.WARNING):
        result = kit.exec("lines")
    assert (result.value, seen(result)[:6]) == (LINES, "line 0")
    assert seen(result).endswith("It is not kept.]")
    assert "No space left on device" in caplog.text
    assert "line 1" not in caplog.text
    assert not list(tmp_path.rglob("result_*"))


SCRIPT = """
import os, sys
from ahvn_tools import Toolkit
from ahvn_tools.middleware import keep_large

kit = Toolkit("kit", middleware=[keep_large(1_000, folder=sys.argv[1])])

@kit.tool
def lines() -> str:
    return "line\\n" * 2_000

sessions = kit.session(), kit.session(session_id="ann")
for session in sessions:
    print(session.exec("lines").meta["kept"]["handle"])
sys.stdout.flush()
if sys.argv[2] == "killed":
    os._exit(1)
"""


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_another_process_finds_results_of_a_session_with_an_id_alone(tmp_path, end):
    folder = tmp_path / "kept"
    run = subprocess.run([sys.executable, "-c", SCRIPT, folder, end], capture_output=True, text=True, check=False)
    unnamed, named = run.stdout.split()
    assert bool(list(folder.rglob(unnamed))) == (end == "killed")
    kit = make_kit({"folder": folder})
    assert not list(folder.rglob(unnamed))
    assert read(kit.session(session_id="ann"), named, limit=4).endswith("\nline")
    assert read(kit.session(session_id="bob"), named) == NOT_FOUND


def test_results_of_another_process_that_runs_stay(tmp_path):
    kit = make_kit({"folder": tmp_path / "kept"})
    handle = handle_of(kit.exec("lines"))
    make_kit({"folder": tmp_path / "kept"}).exec("lines")
    assert read(kit, handle, limit=4).endswith("\nline")


def test_blocks_of_a_server_are_one_text_and_images_stay(options):
    from mcp_types import EmbeddedResource, ImageContent, TextResourceContents

    image = ImageContent(type="image", data=base64.b64encode(b"\x89PNG").decode(), mime_type="image/png")
    resource = TextResourceContents(uri="file:///a", text="embedded " * 200)
    blocks = (text_block("begin"), image, EmbeddedResource(type="resource", resource=resource), text_block("end"))
    kit = Toolkit("kit", middleware=[keep_large(1_000, **options)])

    @kit.tool
    def give():
        return ToolResult(list(blocks), blocks=blocks)

    result = kit.exec("give")
    assert [block.type for block in result.content] == ["text", "image"]
    assert search(kit, handle_of(result), "end", start=1_000).endswith("end")
    assert result.value == list(blocks)


@pytest.mark.parametrize("text", [json.dumps({"rows": ROWS}), "a summary " * 200])
def test_structured_content_is_kept_where_its_text_is_what_models_read(options, text):
    kit = Toolkit("kit", middleware=[keep_large(1_000, **options)])

    @kit.tool
    def give():
        return ToolResult({"rows": ROWS}, {"rows": ROWS}, blocks=(text_block(text),))

    result = kit.exec("give")
    page = read(kit, handle_of(result), limit=1)
    assert page.startswith("[members 0 to 1 of 1]" if text[0] == "{" else "[characters 0 to 1 of")
    assert result.structured_content == {"rows": ROWS}


def test_errors_are_not_kept(options):
    kit = make_kit(options, mask_errors=False)

    @kit.tool
    def fail():
        raise ValueError("x" * 5_000)

    assert "kept" not in kit.exec("fail").meta


def test_the_result_of_a_stream_is_kept_and_not_its_chunks(options):
    kit = make_kit(options)

    @kit.tool
    def count() -> list[str]:
        yield from ["x" * 2_000, "y" * 2_000]

    *chunks, last = kit.stream("count")
    assert [chunk.content[0].text for chunk in chunks] == ["x" * 2_000, "y" * 2_000]
    assert read(kit, handle_of(last), path="/1", limit=2).endswith("\nyy")


def test_raw_values_stay_for_the_host(options):
    kit = make_kit(options)
    value = object()

    @kit.tool(output="raw", render=lambda _: LINES)
    def raw():
        return value

    @kit.tool(output="raw")
    def unreadable():
        return [object()] * 2_000

    result = kit.exec("raw")
    assert result.value is value
    assert read(kit, handle_of(result), limit=4).endswith("\nline")
    assert "kept" not in kit.exec("unreadable").meta


async def test_async_callers_and_runs_and_background_calls_keep_results(options):
    kit = make_kit(options)
    [tool_for_status] = [tool for tool in kit.background_tools() if tool.name == "wait_for_call"]
    kit.add(tool_for_status)
    assert "handle" in (await kit.aexec("rows")).meta["kept"]
    run = await kit.arun([ToolCall(id="c1", name="lines")], format="openai")
    handle = handle_of(run.results[0][1])
    assert handle in run.messages[0]["content"]
    answer = await kit.arun(
        [ToolCall(id="c2", name="read_result", arguments={"handle": handle, "limit": 4})], format="openai"
    )
    assert answer.messages[0]["content"].endswith("\nline")
    session = kit.session()
    call_id = session.start("lines")
    status = await session.await_(call_id)
    assert (await session.aexec("read_result", {"handle": handle_of(status.result), "limit": 4})).text.endswith("line")
    waited = await session.aexec("wait_for_call", {"id": call_id})
    assert handle_of(status.result) in waited.content[-1].text


def test_a_background_call_that_outlives_its_session_keeps_nothing(options):
    kit = make_kit(options)

    @kit.tool
    async def slow() -> str:
        await asyncio.sleep(0)
        gc.collect()
        return LINES

    kit.session().start("slow")  # nothing refers to the session
    gc.collect()


def test_a_program_reads_the_whole_result():
    pytest.importorskip("pydantic_monty")
    kit = make_kit({})
    kit.add_code_mode()
    assert [tool["function"]["name"] for tool in kit.to("openai")] == [
        "search_tools", "describe_tools", "run_code", "read_result", "search_result",
    ]  # fmt: skip
    code = "(len(await lines()), (await rows())[3]['name'])"
    assert f'[{len(LINES)}, "n3"]' in kit.exec("run_code", {"code": code}).text
    result = kit.exec("run_code", {"code": "await lines()"})
    assert read(kit, handle_of(result), limit=4).count("line") >= 1


def test_the_tools_are_found_beside_a_search():
    kit = make_kit({}).add_search()
    names = [tool["function"]["name"] for tool in kit.to("openai")]
    assert names == ["search_tools", "call_tool", "read_result", "search_result"]
    handle = handle_of(kit.exec("call_tool", {"name": "lines"}))
    assert read(kit, handle, limit=4).endswith("\nline")


def test_a_selection_has_the_tools_that_read_results():
    kit = make_kit({})
    view = kit.select(names=["lines"])
    assert [tool.name for tool in view] == ["lines", "read_result", "search_result"]
    assert read(view, handle_of(view.exec("lines")), limit=4).endswith("\nline")
    assert read(kit.session(audience="staff"), "result_0") == NOT_FOUND


def test_the_tools_come_and_go_with_the_middleware():
    kit = Toolkit("kit").add(test_errors_are_not_kept, name="other")
    layer = keep_large(1_000)
    undo, undo_again = kit.use(layer), kit.use(layer)
    assert [tool.name for tool in kit] == ["other", "read_result", "search_result"]
    undo()
    assert "read_result" in kit
    undo_again()
    undo_again()
    assert [tool.name for tool in kit] == ["other"]


def test_a_tool_with_the_middleware_brings_the_tools(options):
    kit = Toolkit("kit")
    layer = keep_large(1_000, **options)
    kit.add(lambda: LINES, name="one", middleware=[layer]).add(lambda: LINES, name="two", middleware=[layer])
    assert [tool.name for tool in kit] == ["one", "two", "read_result", "search_result"]
    outer = Toolkit("outer").add(kit, prefix="inner_")
    result = outer.exec("inner_one")
    assert "`inner_read_result`" in seen(result)
    assert outer.call("inner_read_result", {"handle": handle_of(result), "limit": 4}).endswith("\nline")


@pytest.mark.parametrize("prefix", ["", "inner_"])
def test_a_toolkit_with_the_middleware_in_another_one_brings_the_tools_once(options, prefix):
    outer = Toolkit("outer").add(make_kit(options), prefix=prefix)
    names = ["lines", "rows", "give", "read_result", "search_result"]
    assert [tool.name for tool in outer] == [f"{prefix}{name}" for name in names]
    result = outer.exec(f"{prefix}lines")
    assert outer.call(f"{prefix}read_result", {"handle": handle_of(result), "limit": 4}).endswith("\nline")


def test_names_that_are_taken_are_an_error():
    kit = Toolkit("kit", on_duplicate="keep").add(lambda: 1, name="read_result")
    with pytest.raises(ToolkitError, match="'read_result'"):
        kit.use(keep_large())
    with pytest.raises(ToolkitError, match="'read_result'"):
        make_kit({}).use(keep_large())
    assert [tool.name for tool in kit] == ["read_result"]


def test_without_its_tools_a_result_is_cut():
    kit = make_kit({}).remove("search_result")
    result = kit.exec("lines")
    assert seen(result).endswith("It is not kept.]")
    assert "handle" not in result.meta["kept"]


def test_a_cached_result_is_kept_for_each_session(options):
    kit = Toolkit("kit", middleware=[keep_large(1_000, **options), cache(all_tools=True, shared=True)])
    kit.add(lambda: LINES, name="lines")
    one, two = kit.session(), kit.session()
    handles = [handle_of(session.exec("lines")) for session in (one, two)]
    assert read(two, handles[1], limit=4).endswith("\nline")
    assert read(one, handles[0], limit=4).endswith("\nline")
    assert read(two, handles[0], limit=4) == NOT_FOUND


def test_a_recording_inside_of_it_has_the_whole_result(options, tmp_path):
    file = tmp_path / "calls.jsonl"
    for layer in (record, replay):
        kit = Toolkit("kit", middleware=[keep_large(1_000, **options), layer(file)])
        kit.add(lambda: LINES, name="lines")
        result = kit.exec("lines")
        assert result.value == LINES
        assert "handle" in result.meta["kept"]
        for undo in list(kit._view.store._middleware_by_use)[1:]:  # read_result is not recorded
            del kit._view.store._middleware_by_use[undo]


def test_truncate_inside_leaves_nothing_to_keep():
    kit = Toolkit("kit", middleware=[keep_large(1_000), truncate(500)]).add(lambda: LINES, name="lines")
    assert "kept" not in kit.exec("lines").meta


@pytest.mark.parametrize("options", [{"max_chars": 999}, {"max_bytes": 0}, {"max_age": 0}, {"max_age": float("nan")}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ToolSpecError, match="max_chars must be at least 1000"):
        keep_large(**options)


async def test_a_served_client_reads_its_own_results(options):
    kit = make_kit(options)
    server = kit.to_fastmcp_server()
    async with Client(server, mode="legacy") as ann, Client(server, mode="legacy") as bob:
        assert [tool.name for tool in await ann.list_tools()][-2:] == ["read_result", "search_result"]
        result = await ann.call_tool("lines")
        handle = result.meta["kept"]["handle"]
        assert handle in result.content[0].text
        part = await ann.call_tool("read_result", {"handle": handle, "limit": 4})
        assert part.content[0].text.endswith("\nline")
        other = await bob.call_tool("read_result", {"handle": handle}, raise_on_error=False)
        assert (other.is_error, other.content[0].text) == (True, NOT_FOUND)
    gc.collect()
    assert not (list(options["folder"].rglob("result_*")) if options else [])


def test_what_is_masked_inside_is_masked_in_what_is_kept(options, tmp_path):
    kit = Toolkit("kit", middleware=[keep_large(1_000, **options)]).bind("key", secret=True)

    def mask(call, result: ToolResult) -> ToolResult:
        return replace(result, value=result.value.replace("hunter2", "***"))

    @kit.tool(postprocess=mask)
    def repeat(key: str) -> str:
        return f"{key}\n" * 500

    session = kit.session(key="hunter2")
    handle = handle_of(session.exec("repeat"))
    assert read(session, handle, limit=7).endswith("\n***\n***")
    assert search(session, handle, "hunter2") == "[not found]"
    assert not [file for file in tmp_path.rglob("result_*") if b"hunter2" in file.read_bytes()]
    assert "***" not in repr(kit._view.store.middleware)


def test_a_forked_process_leaves_the_files(tmp_path):
    kit = make_kit({"folder": tmp_path / "kept"})
    session = kit.session()
    handle = handle_of(session.exec("lines"))
    kept_results._remove_own(next(tmp_path.rglob(handle)).parent, os.getpid() + 1)
    assert read(session, handle, limit=4).endswith("\nline")


def test_check_finds_that_its_tools_were_removed():
    kit = make_kit({})
    assert not [finding for finding in kit.check() if finding.rule == "unused-middleware"]
    (finding,) = [finding for finding in kit.remove("read_result").check() if finding.rule == "unused-middleware"]
    assert "its tool 'read_result' was removed" in str(finding)


async def test_a_client_gets_structured_content_of_kept_results_only_where_mcp_requires_it(options):
    kit = make_kit(options)
    for name, fields in {"with_schema": {}, "without": {"output_schema": None}}.items():
        kit.add(lambda count: {str(number): number for number in range(count)}, name=name, input_schema={
            "type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]
        }, **({"output_schema": {"type": "object"}} | fields))  # fmt: skip
    async with Client(kit.to_fastmcp_server()) as client:
        sent = {
            (name, count): (await client.call_tool(name, {"count": count})).structured_content
            for name in ("with_schema", "without")
            for count in (1, 900)
        }
    whole = {str(number): number for number in range(900)}
    assert sent == {
        ("with_schema", 1): {"0": 0}, ("with_schema", 900): whole, ("without", 1): {"0": 0}, ("without", 900): None
    }  # fmt: skip
    assert kit.exec("without", {"count": 900}).structured_content == whole


@pytest.mark.parametrize("nested", [False, True])
async def test_clients_that_cannot_be_recognized_read_by_their_handles(options, nested):
    """Over HTTP with the newest protocol, a server does not know which requests are of one client."""
    kit = Toolkit("outer").add(make_kit(options)) if nested else make_kit(options)
    with over_http(kit.to_fastmcp_server()) as url:
        async with Client(url, mode="legacy") as known:
            handle_of_session = (await known.call_tool("lines")).meta["kept"]["handle"]
            async with Client(url, mode="auto") as client:
                result = await client.call_tool("lines")
            handle = result.meta["kept"]["handle"]
            assert re.fullmatch("result_[0-9a-f]{32}", handle)
            assert handle in result.content[0].text
            async with Client(url, mode="auto") as client:  # the same one, as far as the server knows
                part = await client.call_tool("read_result", {"handle": handle, "limit": 4})
                assert part.content[0].text.endswith("\nline")
                found = await client.call_tool("search_result", {"handle": handle, "text": "line 1999"})
                assert found.content[0].text.endswith(": line 1999")
                for other in (handle_of_session, f"result_{'0' * 32}"):
                    unknown = await client.call_tool("read_result", {"handle": other}, raise_on_error=False)
                    assert (unknown.is_error, unknown.content[0].text) == (True, NOT_FOUND)
            unknown = await known.call_tool("read_result", {"handle": handle}, raise_on_error=False)
            assert (unknown.is_error, unknown.content[0].text) == (True, NOT_FOUND)
    assert read(kit, handle) == NOT_FOUND


def test_one_object_serves_several_toolkits_and_their_sessions_stay_apart(options):
    layer = keep_large(1_000, **options)
    kits = [Toolkit(name, middleware=[layer]).add(lambda: LINES, name="lines") for name in ("one", "two")]
    handles = [handle_of(kit.exec("lines")) for kit in kits]
    assert read(kits[0], handles[0], limit=4).endswith("\nline")
    assert read(kits[1], handles[0]) == NOT_FOUND


def test_a_toolkit_that_takes_the_tools_keeps_their_results(options):
    session = Toolkit("outer").add(make_kit(options), prefix="in_").session()
    assert [tool.name for tool in session][-2:] == ["in_read_result", "in_search_result"]
    result = session.exec("in_lines")
    assert "`in_read_result`" in seen(result)
    part = session.exec("in_read_result", {"handle": handle_of(result), "limit": 4})
    assert part.text.endswith("\nline")


def test_its_tools_only_read():
    kit = make_kit({})
    for name in ("read_result", "search_result"):
        assert kit[name].definition.annotations == {"readOnlyHint": True}


def test_a_middleware_of_the_host_brings_its_tools():
    class Counter:
        """Counts calls, and tells models how many there were."""

        tool_options = {"title": "Count", "tags": {"count"}}

        def __init__(self) -> None:
            self.count = 0
            self.tools = [self.calls]

        async def __call__(self, call, next):
            self.count += call.name != "calls"
            return await next(call)

        def calls(self) -> int:
            """Return how many calls there were."""
            return self.count

    kit = Toolkit("kit", middleware=[Counter()]).add(lambda: 1, name="one")
    kit.call("one")
    assert (kit.call("calls"), kit["calls"].tags, kit["calls"].definition.title) == (1, {"count"}, "Count")
