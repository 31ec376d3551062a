"""Our client passes the conformance suite's scenarios about tools, with both protocol versions."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import ahvn_tools
from tests.mcp.conformance.node import SUITE, needs_node, run

pytestmark = needs_node

STATEFUL, STATELESS = "2025-11-25", "2026-07-28"
SCENARIOS = [
    ("initialize", STATEFUL),
    ("tools_call", STATEFUL),
    ("tools_call", STATELESS),
    ("json-schema-2020-12-preservation", STATEFUL),
    ("json-schema-2020-12-preservation", STATELESS),
    ("json-schema-ref-no-deref", STATELESS),
    ("http-invalid-tool-headers", STATELESS),
    ("http-custom-headers", STATELESS),
    ("http-standard-headers", STATELESS),
    ("request-metadata", STATELESS),
    ("elicitation-sep1034-client-defaults", STATEFUL),
    ("sse-retry", STATEFUL),
    ("sep-2322-client-request-state", STATELESS),
]


@pytest.mark.parametrize(("scenario", "wire"), SCENARIOS)
def test_the_client_passes(scenario, wire):
    command = f"{sys.executable} -m tests.mcp.conformance.client"
    root = Path(ahvn_tools.__file__).parents[1]
    ran = run(
        SUITE,
        *("client", "--command", command, "--scenario", scenario, "--spec-version", wire),
        PYTHONPATH=os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    )
    passed = re.search(r"^Passed: (\d+)/(\d+), 0 failed, 0 warnings$", ran.stdout + ran.stderr, re.MULTILINE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert passed is not None, ran.stdout + ran.stderr
    assert int(passed[1]) == int(passed[2]) > 0
