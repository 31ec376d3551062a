"""Python as a source: files, modules and code."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.errors import SourceError
from ahvn_tools.loading.python_modules import read
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.manifest import load

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


def names(target: str) -> list[str]:
    return [spec.name for spec in load(target)]


def refusal(target: str) -> str:
    with pytest.raises(SourceError) as caught:
        read(target, ReadOptions())
    return str(caught.value)


# accepted


def test_a_registry_with_an_annotation_that_is_defined_later_is_read(write):
    write("""
        from __future__ import annotations
        from pydantic import BaseModel
        from ahvn_tools import ToolRegistry, reg_toolspec

        class Shop(ToolRegistry):
            @reg_toolspec
            def price(self, item: Item) -> int:
                return item.cents

        class Item(BaseModel):
            cents: int
    """)
    assert load("shed.py").call("price", {"item": {"cents": 3}}) == 3


def test_the_only_toolkit_of_a_file_is_that_very_object(write):
    write("from ahvn_tools import Toolkit\nkit = Toolkit('tea')\nother = kit\nnumber = 1")
    kit = load("shed.py")
    assert (kit.name, kit) == ("tea", sys.modules["shed"].kit)


def test_the_only_toolkit_of_a_file_is_all_that_the_file_offers(write):
    write(TOOLS + "\nkit = Toolkit('tea').add(greet)")
    assert names("shed.py") == ["greet"]
    assert names("shed.py:shop") == ["price"]


def test_decorated_functions_and_registries_are_the_tools_of_a_file_without_a_toolkit(write):
    write(TOOLS)
    assert (names("shed.py"), load("shed.py").name) == (["greet", "price"], "shed")


def test_all_decides_what_a_file_offers(write):
    write(TOOLS + "\n__all__ = ['shop', '_own']")
    assert names("shed.py") == ["price", "_own"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("greet", ["greet"]),
        ("plain", ["plain"]),
        ("shop", ["price"]),
        ("Shop", ["price"]),
        ("several", ["greet", "plain", "price"]),
        ("by_word", ["greet", "price"]),
        ("nested", ["greet", "price"]),
        ("Namespace.shop", ["price"]),
        ("with_toolkit", ["inner", "greet"]),
    ],
)
def test_a_name_may_be_a_tool_a_function_a_registry_or_many_of_these(name, expected, write):
    write(
        TOOLS
        + """
several = (greet, plain, shop)
by_word = {"one": greet, "two": shop}
nested = [[greet], {"shop": [shop]}, greet]
class Namespace:
    shop = shop
def inner() -> int: return 1
with_toolkit = [Toolkit("in").add(inner), greet]
"""
    )
    assert names(f"shed.py:{name}") == expected


def test_a_list_of_tools_in_a_file_counts_each_tool_once_and_a_list_with_others_does_not(write):
    write(TOOLS + "\nmine = [greet, shop, _own]\nnot_mine = [_own, 1]\nfunctions = [plain]")
    assert names("shed.py") == ["greet", "price", "_own"]


def test_a_class_of_tools_is_created_unless_the_file_has_an_instance_or_a_subclass_of_it(write):
    write(
        """
        from ahvn_tools import ToolRegistry, reg_toolspec
        class Empty(ToolRegistry): pass
        class Base(ToolRegistry):
            @reg_toolspec
            def shared(self) -> str: return type(self).__name__
        class First(Base):
            @reg_toolspec
            def one(self) -> int: return 1
        """
    )
    kit = load("shed.py")
    assert [spec.name for spec in kit] == ["shared", "one"]
    assert kit.call("shared") == "First"


def test_a_class_that_is_imported_is_only_created_where_all_lists_it(write):
    write(
        "from ahvn_tools import ToolRegistry, reg_toolspec\nclass A(ToolRegistry):\n  @reg_toolspec\n  def a(self): 1",
        "hut.py",
    )
    write("from hut import A\nfrom ahvn_tools import tool\n@tool\ndef b(): pass")
    assert names("shed.py") == ["b"]
    write("from hut import A\nfrom ahvn_tools import tool\n__all__ = ['A']", "garden.py")
    assert names("garden.py") == ["a"]


def test_fastmcp_servers_in_a_file_are_servers(write):
    write(
        "from fastmcp import FastMCP\nmcp = FastMCP('clock')\n@mcp.tool\ndef now() -> str:\n  'Tell.'\n  return 'noon'"
    )
    contents = read("shed.py", ReadOptions())
    assert (contents.tools, [server.server.name for server in contents.servers]) == ((), ["clock"])
    kit = load("shed.py")
    assert kit.call("now") == "noon"
    assert kit.call("now") == "noon"
    kit.remove_mcp("clock")


def test_a_module_is_found_in_the_working_directory(write):
    write(TOOLS, "garden/shed.py")
    write("", "garden/__init__.py")
    assert names("garden.shed") == ["greet", "price"]
    assert names("garden.shed:shop") == ["price"]


def test_paths_are_relative_to_the_folder_of_the_options(write, tmp_path):
    write(TOOLS, "deep/shed.py")
    assert read("shed.py", ReadOptions(folder=tmp_path / "deep")).name == "shed"


# refused


def test_several_toolkits_need_a_name(write):
    write("from ahvn_tools import Toolkit\na = Toolkit('x')\nb = Toolkit('y')\nc = b")
    assert refusal("shed.py") == "shed.py has 2 toolkits: 'a', 'b'. Choose one: shed.py:NAME."
    assert load("shed.py:b").name == "y"


def test_a_file_without_tools_is_refused(write):
    write("def plain(): pass\nclass kit: pass")
    assert refusal("shed.py") == (
        "shed.py has no tools: add a Toolkit, functions with @tool, a ToolRegistry or a FastMCP server, or name what "
        "you mean: shed.py:NAME. If it starts an MCP server, write mcp:shed.py."
    )


@pytest.mark.parametrize(
    "code", ["from mcp.server import nothing\n", "import fastmcp\nraise SystemExit(1)\n", "import mcp\n1 / 0\n"]
)
def test_a_script_of_an_mcp_server_that_cannot_be_imported_is_refused_with_its_prefix(write, code):
    write(code)
    assert refusal("shed.py").endswith(". If it starts an MCP server, write mcp:shed.py.")


def test_a_module_that_cannot_be_imported_and_is_no_server_gets_no_such_hint(write):
    write("mcp = 1 / 0\n")
    assert "mcp:" not in refusal("shed.py")


CLASS = """
from ahvn_tools import ToolRegistry, reg_toolspec
class Shop(ToolRegistry):
    def __init__(self, prices, *, currency, rate=1): ...
    @reg_toolspec
    def price(self) -> int: return 1
"""


@pytest.mark.parametrize("target", ["shed.py", "shed.py:Shop"])
def test_a_class_that_needs_arguments_is_refused_with_the_way_out(target, write):
    write(CLASS)
    assert refusal(target) == (
        f"{target}: the class 'Shop' needs arguments (prices, currency): export an instance, shop = Shop(…), or start "
        "the name of the class with an underscore."
    )
    write(CLASS + "\nshop = Shop({}, currency='EUR')", "garden.py")
    assert names("garden.py") == ["price"]


def test_a_class_that_cannot_be_created_is_refused_with_the_line(write):
    write(CLASS.replace("prices, *, currency, rate=1): ...", "rate=1): 1 / 0"))
    assert refusal("shed.py") == (
        "shed.py:Shop cannot be loaded: ZeroDivisionError: division by zero (shed.py, line 4)"
    )


def test_a_name_in_all_that_is_not_defined_is_refused(write):
    write("__all__ = ['greet']")
    assert refusal("shed.py") == "shed.py: __all__ lists 'greet', which is not defined."


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py", "There is no file 'nowhere.py'."),
        ("nowhere.py:kit", "There is no file 'nowhere.py'."),
        ("no/where", "There is no file 'no/where'."),
        ("nowhere", "There is no file and no module 'nowhere', neither installed nor in "),
        ("garden.shed", "There is no file and no module 'garden.shed', neither installed nor in "),
        ("shed.py:sop", "shed.py has no 'sop'. Did you mean 'shop'?"),
        ("shed.py:hall.sop", "shed.py has no 'hall.sop'. Did you mean 'hell'?"),
        ("shed.py:number", "shed.py:number: a value of the type 'int' is no tool. Name a ToolSpec, "),
        ("shed.py:nothing", "shed.py:nothing has no tools: it is an empty list."),
        ("shed.py:unfit", "shed.py:unfit: "),
    ],
)
def test_what_cannot_be_found_or_loaded_is_refused(target, message, write):
    write(TOOLS + "\nnumber = 1\nnothing = []\ndef unfit(a: len): pass\nclass hell: pass")
    assert refusal(target).startswith(message)


def test_a_toolkit_is_a_toolkit_also_by_name(write):
    write(TOOLS + "\nkit = Toolkit('tea')")
    assert isinstance(read("shed.py:kit", ReadOptions()).toolkit, Toolkit)


def test_public_functions_are_the_tools_of_code_without_tools():
    kit = load(
        """
        import math
        from os.path import join

        def area(radius: float) -> float:
            "Return the area of a circle."
            return _square(radius) * math.pi

        def _square(value: float) -> float:
            return value * value

        async def count(items: list[int]) -> int:
            return len(items)
        """
    )
    assert [spec.name for spec in kit] == ["area", "count"]
    assert (kit.name, round(kit.call("area", {"radius": 1}), 2)) == ("code", 3.14)


def test_decorated_functions_are_the_tools_of_code_that_has_some():
    kit = load("from ahvn_tools import tool\n@tool\ndef one() -> int:\n  return two()\ndef two() -> int: return 2\n")
    assert ([spec.name for spec in kit], kit.call("one")) == (["one"], 2)


def test_code_that_is_loaded_twice_runs_once():
    code = "from ahvn_tools import Toolkit\nkit = Toolkit('tea')\n"
    assert load(code) is load(code)


def test_annotations_are_found_when_they_are_needed():
    kit = load(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "def f(a: Point) -> int: return a.x\n@dataclass\nclass Point:\n  x: int\n"
    )
    assert kit.call("f", {"a": {"x": 2}}) == 2


@pytest.mark.exhaustive
def test_tools_of_code_are_pickled_by_value(tmp_path):
    spec = load("word = 'hello'\ndef greet() -> str:\n  return word\n")["greet"].clone()
    (tmp_path / "pickled").write_bytes(pickle.dumps(spec))
    program = "import pickle; print(pickle.load(open('pickled', 'rb')).call())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.stdout, ran.stderr) == ("hello\n", "")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = 2\n", "The code defines no tool and no function: write one with `def` or `async def`."),
        ("x = 1\n1 / 0\n", "code cannot be loaded: ZeroDivisionError: division by zero"),
        ("x = 1\ndef f(:\n", "code cannot be loaded: SyntaxError: invalid syntax (_loaded_code_"),
        ("import sys\nsys.exit()\n", "code exited while it was loaded"),
        ("def f(a: len):\n  pass\n", "The code: "),
    ],
)
def test_code_that_cannot_be_loaded_is_refused(code, message):
    with pytest.raises(SourceError) as caught:
        load(code)
    assert str(caught.value).startswith(message)
