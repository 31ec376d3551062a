"""Figures that matplotlib has open become pictures of the result."""

from __future__ import annotations

import base64
import importlib.util

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.python_runner import PythonRunner
from tests.builtins.python_runner.running import SANDBOXES, run_once

pytestmark = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"


def pictures(result):
    return [base64.b64decode(block.data) for block in result.content if block.type == "image"]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_figure_is_a_png_picture_after_the_text(sandbox, nothing_left):
    result = run_once(PLOT + "'done'", sandbox=sandbox)
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.content[0].text == result.value
    assert result.content[1].mime_type == "image/png"
    assert pictures(result)[0].startswith(b"\x89PNG\r\n\x1a\n")
    assert result.structured_content["images"] == 1
    assert result.structured_content["stderr"] == ""


@pytest.mark.exhaustive
def test_there_are_at_most_so_many_pictures_and_a_note_about_the_rest():
    result = run_once("import matplotlib.pyplot as plt\nfor _ in range(5): plt.figure()", max_images=2)
    assert len(pictures(result)) == 2
    assert "<note>3 more figures are left out. Draw at most 2 in a call.</note>" in result.value


@pytest.mark.exhaustive
def test_a_large_picture_is_left_out_with_a_note():
    result = run_once(PLOT, max_image_bytes=1000)
    assert pictures(result) == []
    assert "<note>A figure is left out: ValueError: it has" in result.value


@pytest.mark.exhaustive
def test_a_figure_that_cannot_be_drawn_is_a_note():
    result = run_once(PLOT + "plt.title('$\\\\frac{1$')\nplt.figure()\n")
    assert len(pictures(result)) == 1
    assert "<note>A figure is left out: ValueError" in result.value
    assert result.structured_content["exit_code"] == 0


@pytest.mark.exhaustive
def test_figures_of_code_that_fails_are_returned():
    result = run_once(PLOT + "1 / 0")
    assert len(pictures(result)) == 1
    assert "ZeroDivisionError" in result.value


@pytest.mark.exhaustive
def test_closed_figures_are_not_returned():
    assert pictures(run_once(PLOT + "plt.close()")) == []


@pytest.mark.exhaustive
def test_a_module_that_pretends_to_be_matplotlib_harms_nothing():
    fake = "import sys, types\nm = sys.modules['matplotlib.pyplot'] = types.ModuleType('m')\n"
    assert "A figure is left out: AttributeError" in run_once(fake).value
    endless = (
        "m.get_fignums = lambda: range(10**12)\nm.figure = lambda n: m\nm.savefig = lambda f, format: f.write(b'x')\n"
    )
    assert pictures(run_once(fake + endless + "m.close = print")) == []


@pytest.mark.exhaustive
def test_a_session_returns_each_figure_once():
    kit = Toolkit("code").add(runner := PythonRunner(approve="never", keep_session=True))
    try:
        first, second, third = (
            kit.exec("execute_python_code", {"code": code}) for code in (PLOT, "plt.figure()", "'nothing'")
        )
    finally:
        runner.close()
    assert [len(pictures(result)) for result in (first, second, third)] == [1, 1, 0]
