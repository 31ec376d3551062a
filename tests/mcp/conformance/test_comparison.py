"""A served toolkit passes every check of the conformance suite that plain FastMCP passes with the same functions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.served import ENVIRONMENT, Served
from tests.mcp.conformance.node import SUITE, needs_node, run

pytestmark = [needs_node, pytest.mark.exhaustive, pytest.mark.timeout(600)]

STATEFUL, STATELESS = "2025-11-25", "2026-07-28"
LONGEST = 200.0
"""Seconds that the suite may take for all scenarios with one server; it needs about 25."""

Check = tuple[str, str, int]
"""A scenario, a check in it, and how many checks of that name the scenario had before."""


def statuses(folder: Path) -> dict[Check, str]:
    """Return what the suite has written about each check."""
    found: dict[Check, str] = {}
    for results in folder.iterdir():
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", results.name)
        for check in json.loads((results / "checks.json").read_text()):
            count = sum(known[:2] == (scenario, check["id"]) for known in found)
            found[scenario, check["id"], count] = check["status"]
    return found


def run_suite(server: str, wire: str, folder: Path, *options: str) -> dict[Check, str]:
    """Run all scenarios of a protocol version against a server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp.conformance.servers", server, *options],
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with Served(process) as served:
        arguments = ("--url", served.url, "--suite", "all", "--spec-version", wire, "--output-dir", str(folder))
        run(SUITE, "server", *arguments, timeout=LONGEST)
    return statuses(folder)


def having(status: str, checks: Mapping[Check, str]) -> set[Check]:
    return {check for check, found in checks.items() if found == status}


@pytest.mark.parametrize(("wire", "options"), [(STATEFUL, []), (STATEFUL, ["events"]), (STATELESS, [])])
def test_what_fastmcp_passes_a_toolkit_passes(wire, options, tmp_path):
    fastmcp, toolkit = (run_suite(name, wire, tmp_path / name, *options) for name in ("fastmcp", "toolkit"))
    assert len(having("SUCCESS", fastmcp)) > 70
    assert having("SUCCESS", fastmcp) - having("SUCCESS", toolkit) == set()
    assert having("FAILURE", toolkit) - having("FAILURE", fastmcp) == set()
