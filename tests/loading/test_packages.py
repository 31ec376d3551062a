"""Installed packages offer tools in the entry-point group `ahvn_tools`."""

from __future__ import annotations

import sys

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.manifest import load

MODULE = """
from ahvn_tools import Toolkit, ToolRegistry, reg_toolspec, tool

@tool
def greet() -> str:
    "Greet."
    return "hello"

class Shop(ToolRegistry):
    @reg_toolspec
    def price(self) -> int:
        return 3

kit = Toolkit("of acme")

def make():
    return [greet]

def number():
    return 3

def failing():
    1 / 0
"""


@pytest.fixture(autouse=True)
def _installed(write, tmp_path, monkeypatch):
    write(MODULE, "site/acme_module.py")
    points = {
        "acme-kit": "acme_module:kit",
        "acme-shop": "acme_module:Shop",
        "acme-made": "acme_module:make",
        "acme-number": "acme_module:number",
        "acme-failing": "acme_module:failing",
        "acme-gone": "acme_module:gone",
        "acme-nowhere": "acme_nowhere:kit",
    }
    install(write, "acme.Broken", points)
    install(write, "Acme_Tools", {"acme": "acme_module:greet", "more": "acme_module:Shop"})
    install(write, "single", {"whole": "acme_module", "empty": "acme_empty"})
    write("", "site/acme_empty.py")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def install(write, name, points):
    write(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", f"site/{name}-1.0.dist-info/METADATA")
    lines = "\n".join(f"{key} = {value}" for key, value in points.items())
    write(f"[ahvn_tools]\n{lines}\n", f"site/{name}-1.0.dist-info/entry_points.txt")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("package:acme", ["greet"]),
        ("package:acme-shop", ["price"]),
        ("package:acme-made", ["greet"]),
        ("package:acme-tools", ["greet", "price"]),
        ("package:Acme_Tools", ["greet", "price"]),
    ],
)
def test_an_entry_point_or_a_distribution_is_a_source(source, names):
    assert [spec.name for spec in load(source)] == names


def test_an_entry_point_may_be_a_toolkit_or_a_module_that_has_one():
    assert load("package:acme-kit") is load("package:whole") is sys.modules["acme_module"].kit


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("package:acmee", "No installed package has the entry point 'acmee' in the group 'ahvn_tools'. Did you mean "),
        ("package:", "No installed package has the entry point '' in the group 'ahvn_tools'. "),
        ("package:acme-number", "The entry point 'acme-number': a value of the type 'int' is no tool."),
        (
            "package:acme-failing",
            "The entry point 'acme-failing' cannot be loaded: ZeroDivisionError: division by zero",
        ),
        ("package:empty", "The entry point 'empty': the module 'acme_empty' has no tools."),
        ("package:acme-gone", "acme_module has no 'gone'. "),
        ("package:acme-nowhere", "There is no file and no module 'acme_nowhere', neither installed nor in "),
    ],
)
def test_what_is_no_entry_point_or_fails_is_refused(source, message):
    with pytest.raises(SourceError) as caught:
        load(source)
    assert str(caught.value).startswith(message)


def test_the_module_of_an_entry_point_must_be_trusted():
    with pytest.raises(SourceError, match="The module 'acme_module' is not trusted"):
        load("package:acme", trust=["acme"])
    assert len(load("package:acme", trust=["acme_module"])) == 1
