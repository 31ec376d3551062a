"""A toolkit served over HTTP passes the conformance suite's scenarios about tools, with both protocol versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.served import Served
from tests.mcp.conformance.node import SUITE, needs_node, run

pytestmark = needs_node

STATEFUL, STATELESS = "2025-11-25", "2026-07-28"
BOTH = (
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "dns-rebinding-protection",
)
INPUT_REQUIRED = (
    "basic-elicitation",
    "basic-sampling",
    "basic-list-roots",
    "request-state",
    "multiple-input-requests",
    "multi-round",
    "missing-input-response",
    "result-type",
    "unsupported-methods",
    "tampered-state",
    "capability-check",
    "ignore-extra-params",
    "validate-input",
)
SCENARIOS = [
    *((scenario, wire) for scenario in BOTH for wire in (STATEFUL, STATELESS)),
    ("tools-call-with-logging", STATEFUL),
    ("tools-call-sampling", STATEFUL),
    ("tools-call-elicitation", STATEFUL),
    ("elicitation-sep1034-defaults", STATEFUL),
    ("elicitation-sep1330-enums", STATEFUL),
    ("http-header-validation", STATELESS),
    ("http-custom-header-server-validation", STATELESS),
    ("caching", STATELESS),
    ("server-sse-multiple-streams", STATELESS),
    *((f"input-required-result-{scenario}", STATELESS) for scenario in INPUT_REQUIRED),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Served.over_http(Path(__file__).with_name("tools.py")) as served:
        yield served.url


@pytest.mark.parametrize(("scenario", "wire"), SCENARIOS)
def test_a_served_toolkit_passes(url, scenario, wire):
    ran = run(SUITE, "server", "--url", url, "--scenario", scenario, "--spec-version", wire)
    passed = re.search(r"^Passed: (\d+)/(\d+), 0 failed, 0 warnings$", ran.stdout, re.MULTILINE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert passed is not None, ran.stdout
    assert int(passed[1]) == int(passed[2]) > 0


def test_a_served_toolkit_is_stateless(url):
    """The suite only warns that no change of the prompts was announced: the toolkit has none."""
    ran = run(SUITE, "server", "--url", url, "--scenario", "server-stateless", "--spec-version", STATELESS)
    assert re.search(r"^Passed: \d+/\d+, 0 failed, 1 warnings$", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr
    assert "prompts-list-changed-on-subscription" in ran.stdout
