"""The command in a terminal: widths, colors, and what is printed without them."""

from __future__ import annotations

import os
import re
import sys

import pytest

from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST
from tests.cli.shop import SHOP

pexpect = pytest.importorskip("pexpect", reason="pexpect is not installed")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminals for pexpect's spawn")

COLOR = re.compile(r"\x1b\[[0-9;]*m")


def in_terminal(arguments: list[str], *, columns: int, **environment: str) -> str:
    """Return what the command prints in a terminal of that width."""
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    child = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], *arguments],
        env={**kept, **ENVIRONMENT, "TERM": "xterm-256color", **environment},
        dimensions=(50, columns),
        encoding="utf-8",
        timeout=LONGEST,
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    return child.before.replace("\r\n", "\n")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("terminal") / "shop.py"
    file.write_text(SHOP.replace('print("loaded")', ""))
    return str(file)


@pytest.mark.parametrize("columns", [40, pytest.param(79, marks=pytest.mark.exhaustive)])
def test_a_narrow_terminal_shows_the_tools_below_each_other_and_loses_nothing(shop, columns):
    lines = COLOR.sub("", in_terminal(["list", shop], columns=columns)).splitlines()
    assert max(map(len, lines)) <= columns
    text = re.sub(r"\s+", "", "".join(lines))
    for part in ("place", "signature:(order:dict[str,Any],note:str='')->dict[str,int]", "tags:orders,read", "staff"):
        assert part in text
    assert "hints:changesdata,destructive,notidempotent" in text


@pytest.mark.parametrize("columns", [80, pytest.param(160, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_a_wide_terminal_shows_a_table_in_color(shop, columns):
    printed = in_terminal(["list", shop, "--tag", "read"], columns=columns)
    assert COLOR.search(printed)
    plain = COLOR.sub("", printed)
    assert max(map(len, plain.splitlines())) <= columns
    assert "audience" not in plain  # no tool here has one
    assert "status" in plain
    assert "read-only" in plain


@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, pytest.param({"TERM": "dumb"}, marks=pytest.mark.exhaustive)]
)
@pytest.mark.exhaustive
def test_colors_can_be_turned_off(shop, environment):
    printed = in_terminal(["show", shop, "status"], columns=100, **environment)
    assert not re.search(r"\x1b\[[0-9;]*[349]\d", printed)
    assert '"number"' in printed


@pytest.mark.exhaustive
def test_a_schema_is_highlighted_and_wraps_in_a_narrow_terminal(shop):
    printed = in_terminal(["show", shop, "place"], columns=40)
    assert COLOR.search(printed)
    plain = COLOR.sub("", printed)
    labels, *_ = plain.split("Input schema")
    wide = [line.partition(":")[0] for line in labels.splitlines() if len(line) > 40]
    assert wide == ["hints", "approval", "fingerprint"]  # one line each; the terminal wraps it
    assert "order.lines[].count" in re.sub(r"\s+", "", plain)
