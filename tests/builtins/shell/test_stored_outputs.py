"""Stored outputs: pages that together are the whole output, and limits of what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.builtins.processes.process import ProcessOutput, ProcessResult
from ahvn_tools.builtins.shell.jobs import StoredOutputs
from ahvn_tools.errors import ToolError

NOTHING = ProcessOutput(head="", size=0)


def result_of(path: Path, content: bytes, *, size: int | None = None) -> ProcessResult:
    path.write_bytes(content)
    stdout = ProcessOutput(head="head", tail="tail", size=len(content) if size is None else size, spool=path)
    return ProcessResult(exit_code=0, ended_by="exit", stdout=stdout, stderr=NOTHING, duration=0.1)


@given(text=st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1), size=st.integers(4, 12))
def test_pages_together_are_the_output(text: str, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    outputs = StoredOutputs()
    output_id = outputs.add(result_of(tmp_path_factory.getbasetemp() / "spool", text.encode()), "one")
    read, start = "", 0
    while True:
        page = outputs.read(output_id, "one", stream="stdout", start=start, size=size)
        content, _, state = page.rpartition("\n[stdout: ")
        read += content
        if "This is the end." in state:
            break
        start = int(state.rpartition("start_byte=")[2].removesuffix(".]"))
    outputs.close()
    assert read == text


@given(content=st.binary(min_size=1, max_size=60), size=st.integers(4, 12))
def test_reading_binary_data_comes_to_an_end(
    content: bytes, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outputs = StoredOutputs()
    output_id = outputs.add(result_of(tmp_path_factory.getbasetemp() / "binary", content), "one")
    starts = [0]
    while "start_byte=" in (page := outputs.read(output_id, "one", stream="stdout", start=starts[-1], size=size)):
        starts.append(int(page.rpartition("start_byte=")[2].removesuffix(".]")))
        assert starts[-1] > starts[-2]
    outputs.close()


def test_a_page_says_that_not_all_was_stored(tmp_path: Path) -> None:
    outputs = StoredOutputs()
    output_id = outputs.add(result_of(tmp_path / "spool", b"abc", size=10_000), None)
    page = outputs.read(output_id, None, stream="stdout", start=0, size=100)
    assert page == "abc\n[stdout: bytes 0 to 3 of 10,000. Only the first 3 bytes were stored.]"


def test_a_short_stream_of_a_stored_output_is_read_whole(tmp_path: Path) -> None:
    outputs = StoredOutputs()
    output_id = outputs.add(result_of(tmp_path / "spool", b"abc"), None)
    assert outputs.read(output_id, None, stream="stderr", start=0, size=100).endswith(
        "bytes 0 to 0 of 0. This is the end.]"
    )


def test_a_file_that_was_deleted_is_an_error(tmp_path: Path) -> None:
    outputs = StoredOutputs()
    output_id = outputs.add(result_of(tmp_path / "spool", b"abc"), None)
    (tmp_path / "spool").unlink()
    with pytest.raises(ToolError, match="was deleted"):
        outputs.read(output_id, None, stream="stdout", start=0, size=100)


def test_the_newest_outputs_are_stored_up_to_both_limits(tmp_path: Path) -> None:
    outputs = StoredOutputs(max_outputs=3, max_bytes=25)
    paths = [tmp_path / str(number) for number in range(4)]
    for path in paths:
        assert outputs.add(result_of(path, b"x" * 10), None)
    assert [path.exists() for path in paths] == [False, False, True, True]
    outputs.close()
    assert not any(path.exists() for path in paths)
