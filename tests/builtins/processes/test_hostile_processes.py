"""Nothing of a program is left when it ends, whatever the program does."""

from __future__ import annotations

import threading

import pytest

from tests.builtins.processes.hostile_programs import ATTACKS_ON_THE_SUPERVISOR, HOSTILE_PROGRAMS, hostile_command
from tests.builtins.processes.left_over import open_descriptors, survivors

QUICK = ["setsid", "ignores SIGTERM", "exits while a child holds its output"]


def end_when_ready(run, name, mark, **options):
    """Run a hostile program until it says that it is ready, and then cancel it."""
    seen = []
    return run(
        *hostile_command(name, mark),
        on_output=lambda _, text: seen.append(text[:10]),
        is_cancelled=lambda: any("ready" in text for text in seen),
        spooled_bytes=0,
        **options,
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.exhaustive) for name in HOSTILE_PROGRAMS]
)
def test_nothing_of_a_hostile_program_is_left(run, mark, confinement, name):
    descriptors, threads = open_descriptors(), threading.active_count()

    result = end_when_ready(run, name, mark, confinement=confinement)

    assert survivors(mark) == []
    assert "ready" in result.stdout.head
    if name.startswith("exits"):
        assert (result.ended_by, result.exit_code) == ("exit", 0)
    elif confinement.sandbox == "none" and name in ATTACKS_ON_THE_SUPERVISOR:
        assert result.ended_by in ("cancelled", "stopped")
    else:
        assert (result.ended_by, result.exit_code) == ("cancelled", None)
    assert open_descriptors() == descriptors
    assert threading.active_count() == threads


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in HOSTILE_PROGRAMS if not name.startswith("exits")])
def test_a_hostile_program_ends_at_its_timeout(run, mark, confinement, name):
    result = run(*hostile_command(name, mark), timeout=0.6, confinement=confinement, spooled_bytes=0)

    assert survivors(mark) == []
    attacks = confinement.sandbox == "none" and name in ATTACKS_ON_THE_SUPERVISOR
    assert result.ended_by in (("timeout", "stopped") if attacks else ("timeout",))
    assert result.exit_code is None
    assert result.duration < 10


@pytest.mark.parametrize(
    "attack", ["KILL", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("STOP", "TERM", "INT"))]
)
def test_a_program_that_attacks_its_supervisor_at_once_ends_in_time(run, mark, attack):
    for _ in range(3):
        result = run("sh", "-c", f"kill -{attack} $PPID; setsid sleep 1000 & sleep 1000", timeout=0.3)

        assert result.ended_by in ("timeout", "stopped")
        assert survivors(mark) == []


@pytest.mark.exhaustive
def test_a_program_that_stops_its_supervisor_again_and_again_ends_in_time(run, mark):
    result = run("sh", "-c", "setsid sleep 1000 & while :; do kill -STOP $PPID; done", timeout=0.5)

    assert result.ended_by == "timeout"
    assert result.duration < 20
    assert survivors(mark) == []
