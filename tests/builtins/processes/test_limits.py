"""Limits hold for a program and for what it starts."""

from __future__ import annotations

import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ahvn_tools.builtins.processes.confinement import ProcessLimits
from ahvn_tools.errors import DefinitionError
from tests.builtins.processes.left_over import open_descriptors, survivors


@pytest.mark.parametrize("timeout", [None, "3", float("nan"), 0, -1, -0.5], ids=repr)
def test_a_timeout_is_a_positive_number(timeout):
    with pytest.raises(DefinitionError, match="`timeout` is a number of seconds above 0, not"):
        ProcessLimits(timeout=timeout)


def run_python(run, code, confinement, **limits):
    return run(sys.executable, "-I", "-S", "-c", code, confinement=confinement, **limits)


def test_memory_is_limited(run, confinement):
    result = run_python(run, "b'x' * 10**9", confinement, memory_bytes=200_000_000)

    assert result.exit_code == 1
    assert "MemoryError" in result.stderr.text


@pytest.mark.exhaustive
def test_processor_time_is_limited(run, confinement):
    result = run_python(run, "while True: pass", confinement, cpu_seconds=1)

    assert (result.exit_code, result.ended_by) in ((-24, "exit"), (-9, "exit"))


def test_the_size_of_a_file_is_limited(run, confinement, tmp_path):
    code = "import os\nwith open('file', 'wb', buffering=0) as file: file.write(b'x' * 1000); file.write(b'x')"

    result = run_python(run, code, replace(confinement, writable=(tmp_path,)), file_bytes=1000)

    assert result.exit_code == 1
    assert "File too large" in result.stderr.text
    assert (tmp_path / "file").stat().st_size == 1000


def test_no_memory_image_is_written(run, confinement):
    assert run("sh", "-c", "ulimit -c; ulimit -H -c", confinement=confinement).stdout.text == "0\n0\n"


def test_no_limit_is_set_that_is_none(run):
    text = run("sh", "-c", "ulimit -v; ulimit -t; ulimit -f", file_bytes=None).stdout.text

    kinds = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
    assert text == "unlimited\n" * 3 or any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in kinds)


def test_a_program_gains_no_privileges(run, confinement):
    assert "NoNewPrivs:\t1" in run("cat", "/proc/self/status", confinement=confinement).stdout.text


@pytest.mark.exhaustive
def test_three_gigabytes_of_output_take_little_memory(run, confinement):
    before = _memory_now()
    seen = []

    result = run(
        "head",
        "-c",
        "3000000000",
        "/dev/zero",
        confinement=confinement,
        on_output=lambda *_: seen.append(_memory_now()),
    )

    assert result.stdout.size == 3_000_000_000
    assert result.stdout.spool.stat().st_size == 50_000_000
    assert max(seen) - before < 20_000_000
    result.stdout.spool.unlink()


def _memory_now() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.exhaustive
def test_fifty_programs_run_at_once(run, confinement, mark):
    descriptors = open_descriptors()
    started = time.monotonic()

    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(lambda i: run("sh", "-c", f"sleep 1; echo {i}", confinement=confinement), range(50)))

    assert [result.stdout.text for result in results] == [f"{i}\n" for i in range(50)]
    assert time.monotonic() - started < 45
    assert open_descriptors() == descriptors
    assert survivors(mark) == []
