"""view_text_file, write_text_file and insert_text_file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TEN = "".join(f"{n}\n" for n in range(1, 11))


@pytest.fixture(autouse=True)
def ten(desk):
    """Write a file of ten lines."""
    desk.write("a.txt", TEN)


def test_a_file_is_viewed_with_numbers(desk):
    desk.write("b.txt", "one\r\n\ttwo")
    assert desk.call("view_text_file", uri="b.txt") == "The content of b.txt:\n```\n1: one\n2: \ttwo\n```"


@pytest.mark.parametrize(
    ("ranges", "numbers"),
    [
        ([3, 5], [3, 4, 5]),
        ([10, 10], [10]),
        ([9, 20], [9, 10]),
        ([-2, -1], [9, 10]),
        ([-100, -9], [1, 2]),
        ([9, -1], [9, 10]),
        ([-1, 10], [10]),
    ],
    ids=str,
)
def test_a_range_is_viewed(desk, ranges, numbers):
    lines = "\n".join(f"{n}: {n}" for n in numbers)
    assert desk.call("view_text_file", uri="a.txt", ranges=ranges) == (
        f"The content of a.txt in {ranges} lines:\n```\n{lines}\n```"
    )


BAD_RANGES = {
    "[5, 3]": "InvalidArgumentError: The start line is greater than the end line in the given range [5, 3].",
    "[-1, -2]": "InvalidArgumentError: The start line is greater than the end line in the given range [-1, -2].",
    "[1]": "InvalidArgumentError: Invalid range format. Expected a list of two integers, but got [1]. "
    "Lines count from 1, or from -1 at the end.",
    "[0, 2]": "InvalidArgumentError: Invalid range format. Expected a list of two integers, but got [0, 2]. "
    "Lines count from 1, or from -1 at the end.",
    "[-30, -20]": "The end line -20 is invalid. The file only has 10 lines.",
}


@pytest.mark.parametrize("ranges", BAD_RANGES)
def test_a_bad_range_is_refused_and_the_file_stays(desk, ranges):
    numbers = [int(number) for number in ranges.strip("[]").split(",")]
    assert desk.error("view_text_file", uri="a.txt", ranges=numbers) == BAD_RANGES[ranges]
    assert desk.error("write_text_file", uri="a.txt", content="x", ranges=numbers) == BAD_RANGES[ranges]
    assert desk.read("a.txt").decode() == TEN


@pytest.mark.parametrize("ranges", [[True, 3], [1, True]], ids=str)
def test_true_is_no_number_of_a_line(desk, ranges):
    """Python would take it as 1."""
    assert desk.error("view_text_file", uri="a.txt", ranges=ranges).startswith("Invalid arguments: 'ranges[")
    assert desk.error("write_text_file", uri="a.txt", content="x", ranges=ranges).startswith("Invalid arguments")
    assert desk.error("insert_text_file", uri="a.txt", content="x", line_number=True).startswith(
        "Invalid arguments: 'line_number'"
    )
    assert desk.read("a.txt").decode() == TEN


CLOSED_FOLDER = """
import os, sys
from ahvn_tools.builtins import Workspace

tool = Workspace(sys.argv[1], approve="never").toolspec("insert_text_file")
tool.exec(uri="missing.txt", content="x", line_number=1).text  # imports what the other user cannot read
os.setuid(65_534)
print(tool.exec(uri="closed/a.txt", content="x", line_number=1).text)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(os.getuid() != 0, reason="only root may start programs of another user")
def test_a_file_whose_folder_is_closed_is_not_called_missing():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        Path(folder, "closed").mkdir(mode=0o700)
        Path(folder, "closed", "a.txt").touch()
        program = [sys.executable, "-c", CLOSED_FOLDER, folder]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout == "'closed/a.txt' cannot be used: the system denies the permission.\n", done.stderr


def test_a_range_behind_the_file_is_refused(desk):
    assert desk.error("view_text_file", uri="a.txt", ranges=[11, 13]) == (
        "InvalidArgumentError: The range '[11, 13]' is out of bounds for the file 'a.txt', which has only 10 lines."
    )
    for first in (11, -11):
        assert desk.error("write_text_file", uri="a.txt", content="x", ranges=[first, 13]) == (
            f"The start line {first} is invalid. The file only has 10 lines."
        )
    assert desk.read("a.txt").decode() == TEN


def test_a_missing_file_is_named_with_similar_ones(desk):
    assert desk.error("view_text_file", uri="b.txt") == ("There is no file or folder 'b.txt'. Did you mean 'a.txt'?")


def test_a_new_file_is_created_and_an_old_one_overwritten(desk):
    assert desk.call("write_text_file", uri="b.txt", content="x") == "Create and write b.txt successfully."
    assert desk.call("write_text_file", uri="b.txt", content="y") == "Overwrite b.txt successfully."
    assert desk.read("b.txt") == b"y"
    assert desk.call("write_text_file", uri="c.txt", content="x", ranges=[1, 2]) == (
        "Create and write c.txt successfully. The ranges [1, 2] is ignored because the file does not exist."
    )


@pytest.mark.parametrize(
    ("ranges", "content", "edited"),
    [
        ([2, 3], "x", "1\nx\n4\n"),
        ([2, 3], "x\n", "1\nx\n4\n"),
        ([2, 2], "x\ny\n", "1\nx\ny\n3\n4\n"),
        ([-1, -1], "x", "1\n2\n3\nx\n"),
        ([3, 99], "x", "1\n2\nx\n"),
        ([2, 3], "", "1\n4\n"),
        ([-2, 4], "x", "1\n2\nx\n"),
    ],
    ids=str,
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("has_end", [True, False], ids=["final newline", "no final newline"])
def test_a_range_is_replaced_and_the_other_lines_stay(desk, ranges, content, edited, newline, has_end):
    def stored(text):
        return (text if has_end else text.removesuffix("\n")).replace("\n", newline).encode()

    desk.write("b.txt", stored("1\n2\n3\n4\n"))
    desk.call("write_text_file", uri="b.txt", content=content, ranges=ranges)
    assert desk.read("b.txt") == stored(edited)


def test_what_was_written_is_shown_with_the_lines_around_it(desk):
    assert desk.call("write_text_file", uri="a.txt", content="x\ny\n", ranges=[8, 8]) == (
        "Write a.txt successfully. The new content snippet:\n"
        "```\n3: 3\n4: 4\n5: 5\n6: 6\n7: 7\n8: x\n9: y\n10: 9\n11: 10\n```"
    )


def test_lines_are_inserted_before_a_line_and_at_the_end(desk):
    desk.write("b.txt", "1\n2")
    assert desk.call("insert_text_file", uri="b.txt", content="x", line_number=2) == (
        "Insert content into b.txt at line 2 successfully. The new content between lines 1-3 is:\n"
        "```\n1: 1\n2: x\n3: 2\n```"
    )
    desk.call("insert_text_file", uri="b.txt", content="y\n", line_number=4)
    assert desk.read("b.txt") == b"1\nx\n2\ny"


@pytest.mark.parametrize(
    ("number", "count", "first", "last"),
    [(1, 1, 1, 7), (25, 1, 20, 31), (25, 10, 20, 40), (50, 1, 45, 51), (51, 2, 46, 52)],
    ids=["begin", "one", "ten", "last line", "end"],
)
def test_an_insertion_is_shown_with_the_line_that_moved_down_and_five_lines_on_each_side(
    desk, number, count, first, last
):
    desk.write("b.txt", "\n".join(map(str, range(50))))
    content = "\n".join("x" * count)
    shown = desk.call("insert_text_file", uri="b.txt", content=content, line_number=number)
    lines = desk.read("b.txt").decode().splitlines()
    block = "".join(f"{line}: {lines[line - 1]}\n" for line in range(first, last + 1))
    assert shown.endswith(f"The new content between lines {first}-{last} is:\n```\n{block}```")


@pytest.mark.parametrize(
    ("path", "number", "message"),
    [
        ("a.txt", 0, "InvalidArgumentsError: The line number 0 is invalid. Lines count from 1."),
        ("a.txt", -1, "InvalidArgumentsError: The line number -1 is invalid. Lines count from 1."),
        ("a.txt", 12, "InvalidArgumentsError: The given line_number (12) is not in the valid range [1, 11]."),
        (
            "b.txt",
            1,
            "InvalidArgumentsError: The target file b.txt does not exist. Create it with write_text_file.",
        ),
    ],
    ids=["zero", "negative", "too large", "missing"],
)
def test_an_impossible_insertion_is_refused(desk, path, number, message):
    assert desk.error("insert_text_file", uri=path, content="x", line_number=number) == message
    assert desk.read("a.txt").decode() == TEN
    assert not (desk.folder / "b.txt").exists()
