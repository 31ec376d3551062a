"""Each kind has its reader, which works in threads and in running loops."""

from __future__ import annotations

import concurrent.futures
from typing import get_args

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.kinds import _READERS, Kind, read_source
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.manifest.loader import aload, load

TOOL = "from ahvn_tools import tool\n@tool\ndef {name}() -> str:\n    return '{name}'\n"


def test_every_kind_that_a_file_of_this_package_reads_has_a_reader():
    assert set(get_args(Kind)) - set(_READERS) == {"builtins", "manifest"}
    with pytest.raises(SourceError, match=r"'x.yaml': sources of the kind 'manifest' cannot be loaded"):
        read_source("manifest", "x.yaml", ReadOptions())


async def test_sources_are_loaded_in_a_loop_and_in_a_worker_thread_of_it(write):
    write(TOOL.format(name="one"), "kit/one.py")
    write("import asyncio\nasyncio.run(asyncio.sleep(0))\n" + TOOL.format(name="two"), "two.py")
    assert [spec.name for spec in load("kit")] == ["one"]
    kit = await aload("kit", "two.py", "x = 1\ndef three(): pass")
    assert [spec.name for spec in kit] == ["one", "two", "three"]
    assert await kit.acall("two") == "two"


def test_two_threads_load_different_folders_at_once(write):
    for folder in ("a", "b"):
        for number in range(3):
            write(TOOL.format(name=f"{folder}{number}"), f"{folder}/file{number}.py")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        kits = list(pool.map(load, ["a", "b", "a", "b"]))
    assert [[spec.name for spec in kit] for kit in kits] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]] * 2
