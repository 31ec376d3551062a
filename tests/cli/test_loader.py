"""FILE[:NAME] refers to the toolkit of a file or module, or is refused with a message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from ahvn_tools.cli.loader import CommandError, load_toolkit
from tests.cli.served import ENVIRONMENT

TOOLS = """
from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, reg_toolspec, tool

@tool
def greet(name: str) -> str:
    return f"hello, {name}"

def plain(name: str) -> str:
    return name

@tool
def _own() -> int:
    return 1

class Shop(ToolRegistry):
    @reg_toolspec
    def price(self, item: str) -> int:
        return len(item)

    def kit(self):
        return Toolkit("of the shop")

shop = Shop()
again = greet
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "shed.py") -> str:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))
    return name


def names(target: str) -> list[str]:
    return [spec.name for spec in load_toolkit(target)]


def refusal(target: str) -> str:
    with pytest.raises(CommandError) as caught:
        load_toolkit(target)
    return str(caught.value)


# accepted


def test_the_only_toolkit_of_a_file_is_served():
    write("from ahvn_tools import Toolkit\nkit = Toolkit('tea')\nother = kit\nnumber = 1")
    kit = load_toolkit("shed.py")
    assert (kit.name, kit) == ("tea", sys.modules["shed"].kit)


def test_decorated_functions_and_registries_are_served_without_a_toolkit():
    write(TOOLS)
    assert (names("shed.py"), load_toolkit("shed.py").name) == (["greet", "price"], "shed")


def test_all_decides_what_a_file_offers():
    write(TOOLS + "\n__all__ = ['shop', '_own']")
    assert names("shed.py") == ["price", "_own"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("greet", ["greet"]),
        ("plain", ["plain"]),
        ("shop", ["price"]),
        ("several", ["greet", "plain", "price"]),
        ("by_word", ["greet", "price"]),
        ("Namespace.shop", ["price"]),
    ],
)
def test_a_name_may_be_a_tool_a_function_a_registry_or_many_of_these(name, expected):
    write(
        TOOLS
        + """
several = (greet, plain, shop)
by_word = {"one": greet, "two": shop}
class Namespace:
    shop = shop
"""
    )
    assert names(f"shed.py:{name}") == expected


def test_a_module_is_found_in_the_working_directory():
    write(TOOLS, "garden/shed.py")
    write("", "garden/__init__.py")
    assert names("garden.shed") == ["greet", "price"]
    assert names("garden.shed:shop") == ["price"]


def test_a_file_imports_its_neighbours_and_they_import_the_same_file():
    write("import hut\nfrom ahvn_tools import tool\n@tool\ndef greet() -> str: return hut.word", "deep/shed.py")
    write("import sys\nassert 'shed' in sys.modules\nword = 'hello'", "deep/hut.py")
    assert load_toolkit("deep/shed.py").call("greet") == "hello"


@pytest.mark.parametrize("name", ["json.py", "two words.py", "tools"])
def test_a_file_may_have_the_name_of_another_module_or_no_module_name(name):
    write(TOOLS, name)
    import json

    assert names(name) == ["greet", "price"]
    assert sys.modules["json"] is json
    assert load_toolkit(name).name in {"json", "two words", "tools"}


@pytest.mark.exhaustive
def test_a_file_that_is_loaded_prints_to_stderr_and_reads_nothing():
    write("import os\nprint('hello')\nos.system('echo from a child; cat')\nword = len")
    program = "from ahvn_tools.cli.loader import load_toolkit; load_toolkit('shed.py:word'); print(input())"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **ENVIRONMENT},
        input="for the client",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, sorted(ran.stderr.splitlines())) == ("for the client\n", ["from a child", "hello"])


# refused


def test_several_toolkits_need_a_name():
    write("from ahvn_tools import Toolkit\na = Toolkit('x')\nb = Toolkit('y')\nc = b")
    assert refusal("shed.py") == "shed.py has 2 toolkits: 'a', 'b'. Choose one: shed.py:NAME."
    assert load_toolkit("shed.py:b").name == "y"


def test_a_file_without_tools_is_refused():
    write("def plain(): pass\nclass kit: pass")
    assert refusal("shed.py") == (
        "shed.py has no tools: add a Toolkit, functions with @tool, or an instance of a ToolRegistry."
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py", "There is no file 'nowhere.py'."),
        ("nowhere.py:kit", "There is no file 'nowhere.py'."),
        ("nowhere", "There is no file and no module 'nowhere', neither installed nor in "),
        ("garden.shed", "There is no file and no module 'garden.shed', neither installed nor in "),
        ("shed.py:sop", "shed.py has no 'sop'. Did you mean 'shop'?"),
        ("shed.py:hall.sop", "shed.py has no 'hall.sop'. Did you mean 'hell'?"),
        ("shed.py:Shop", "shed.py:Shop: 'Shop' is a class of tools; add an instance, such as Shop()."),
        ("shed.py:number", "shed.py:number: A int is no tool. Add a ToolSpec, "),
        ("shed.py:twice", "shed.py:twice: There are two tools 'greet': from shed.greet and from shed.greet. "),
    ],
)
def test_what_cannot_be_found_or_served_is_refused(target, message):
    write(TOOLS + "\nnumber = 1\ntwice = [greet, greet.clone()]\nclass hell: pass")
    assert refusal(target).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\n1 / 0", "shed.py cannot be loaded: ZeroDivisionError: division by zero (shed.py, line 2)"),
        ("def f(:\n", "shed.py cannot be loaded: SyntaxError: invalid syntax (shed.py, line 1)"),
        ("import nowhere_at_all", "shed.py cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all' "),
        ("import sys\nsys.exit(3)", "shed.py exited while it was loaded (shed.py, line 2)."),
        ("from json import loads\nloads('x')", "shed.py cannot be loaded: JSONDecodeError: "),
        (
            "from ahvn_tools import tool\n\n@tool\nclass A: pass",
            "shed.py cannot be loaded: DefinitionError: ",
        ),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_with_the_line(text, message):
    write(text)
    line = refusal("shed.py")
    assert line.startswith(message)
    assert line.rstrip(".").endswith(tuple(f"(shed.py, line {number})" for number in range(1, 6)))


def test_a_missing_import_is_reported_and_not_the_module_that_has_it():
    write("import nowhere_at_all")
    assert refusal("shed") == (
        "shed cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all' (shed.py, line 1)"
    )
