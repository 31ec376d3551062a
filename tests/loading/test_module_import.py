"""A file is imported once, as its author wrote it to be imported, and its mistakes are reported with their place."""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.python_modules import read
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.manifest import load

TOOL = "from ahvn_tools import tool\n@tool\ndef {name}() -> str:\n    return {value}\n"


def python(program: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        **options,
    )


def refusal(target: str) -> str:
    with pytest.raises(SourceError) as caught:
        read(target, ReadOptions())
    return str(caught.value)


def test_a_file_that_is_loaded_twice_is_one_module(write, tmp_path):
    write("from ahvn_tools import Toolkit\nkit = Toolkit('tea')")
    (tmp_path / "link.py").symlink_to("shed.py")
    assert load("shed.py") is load(str(tmp_path / "shed.py")) is load("link.py") is load("shed:kit")


def test_files_of_one_name_in_several_folders_are_several_modules(write):
    kits = []
    for folder in ("a", "b", "c"):
        file = write(TOOL.format(name="greet", value="word") + f"word = {folder!r}", f"{folder}/shed.py")
        kits.append(load(file))
    assert [kit.call("greet") for kit in kits] == ["a", "b", "c"]
    assert [kit.name for kit in kits] == ["shed"] * 3
    assert len([name for name in sys.modules if name == "shed" or name.startswith("_loaded_shed_")]) == 3
    assert load("b/shed.py")["greet"].function is kits[1]["greet"].function


def test_a_file_imports_its_neighbours_and_they_import_the_same_file(write):
    write("import hut\n" + TOOL.format(name="greet", value="hut.word"), "deep/shed.py")
    write("import sys\nassert 'shed' in sys.modules\nword = 'hello'", "deep/hut.py")
    assert load("deep/shed.py").call("greet") == "hello"


def test_a_function_may_import_a_neighbour_when_it_is_called(write):
    write(TOOL.format(name="greet", value="__import__('hut').word"), "deep/shed.py")
    write("word = 'hello'", "deep/hut.py")
    assert load("deep/shed.py").call("greet") == "hello"


def test_the_folder_of_a_file_is_searched_last_when_the_file_is_loaded(write, tmp_path):
    before = list(sys.path)
    write(TOOL.format(name="greet", value="1"), "deep/shed.py")
    load("deep/shed.py")
    assert sys.path == [*before, str(tmp_path / "deep")]


@pytest.mark.parametrize("name", ["json.py", "two words.py"])
def test_a_file_may_have_the_name_of_another_module_or_no_module_name(name, write):
    write(TOOL.format(name="greet", value="'hello'"), name)
    import json

    kit = load(name)
    assert (kit.call("greet"), kit.name) == ("hello", Path(name).stem)
    assert sys.modules["json"] is json


def test_a_file_with_the_name_of_a_standard_module_hides_it_from_nobody(write):
    write("from email.message import Message\n" + TOOL.format(name="greet", value="__name__"), "deep/email.py")
    write(TOOL.format(name="one", value="__name__"), "deep/colorsys.py")
    assert load("deep/email.py").call("greet").startswith("_loaded_email_")
    assert load("deep/colorsys.py").call("one").startswith("_loaded_colorsys_")
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)


def test_an_installed_module_is_imported_and_not_one_in_the_folder(write):
    write("raise RuntimeError", "colorsys.py")
    assert refusal("colorsys").startswith("colorsys has no tools")


def test_a_file_in_a_package_is_imported_as_a_part_of_it(write):
    write("", "house/__init__.py")
    write("", "house/cellar/__init__.py")
    write("word = 'hello'", "house/hall.py")
    file = write("from ..hall import word\n" + TOOL.format(name="greet", value="word"), "house/cellar/wine.py")
    assert load(file).call("greet") == "hello"
    assert sys.modules["house.cellar.wine"].greet.function is load("house.cellar.wine")["greet"].function


def test_files_with_similar_names_are_several_modules(write):
    kits = [load(write(TOOL.format(name="greet", value=f"{name!r}"), f"{name}.py")) for name in ("a-b", "a b", "a_b")]
    assert [kit.call("greet") for kit in kits] == ["a-b", "a b", "a_b"]


def test_packages_of_one_name_are_imported_side_by_side(write):
    for folder in ("a", "b"):
        write(f"word = {folder!r}", f"{folder}/house/__init__.py")
        write("from . import word\n" + TOOL.format(name="greet", value="word"), f"{folder}/house/hall.py")
    assert [load(f"{folder}/house/hall.py").call("greet") for folder in ("a", "b", "a")] == ["a", "b", "a"]


def test_a_package_is_loaded_by_its_init_file(write):
    write("from .hall import greet", "house/__init__.py")
    write(TOOL.format(name="greet", value="'hello'"), "house/hall.py")
    assert load("house/__init__.py").call("greet") == "hello"


def test_a_file_that_failed_is_imported_again_and_not_half(write):
    write("word = 1\n1 / 0", "json.py")
    assert "ZeroDivisionError" in refusal("json.py")
    write(TOOL.format(name="greet", value="'hello'"), "json.py")
    assert load("json.py").call("greet") == "hello"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\n1 / 0", "shed.py cannot be loaded: ZeroDivisionError: division by zero (shed.py, line 2)"),
        ("def f(:\n", "shed.py cannot be loaded: SyntaxError: invalid syntax (shed.py, line 1)"),
        ("import nowhere_at_all", "shed.py cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all' "),
        ("import sys\nsys.exit(3)", "shed.py exited while it was loaded (shed.py, line 2)."),
        ("from json import loads\nloads('x')", "shed.py cannot be loaded: JSONDecodeError: "),
        ("from ahvn_tools import tool\n\n@tool\nclass A: pass", "shed.py cannot be loaded: DefinitionError: "),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_with_the_line(text, message, write):
    write(text)
    line = refusal("shed.py")
    assert line.startswith(message)
    assert line.rstrip(".").endswith(tuple(f"(shed.py, line {number})" for number in range(1, 6)))


def test_an_error_has_the_file_and_the_line(write):
    write("import os\n1 / 0")
    with pytest.raises(SourceError) as caught:
        read("shed.py", ReadOptions())
    assert (caught.value.file, caught.value.line) == ("shed.py", 2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.line) == (str(caught.value), 2)


def test_a_missing_import_is_reported_and_not_the_module_that_has_it(write):
    write("import nowhere_at_all")
    assert refusal("shed") == (
        "shed cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all' (shed.py, line 1)"
    )


def test_two_threads_that_load_a_file_at_once_import_it_once(write):
    write("import time\ntime.sleep(0.05)\nfrom ahvn_tools import Toolkit\nkit = Toolkit('tea')", "two words.py")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        kits = list(pool.map(load, ["two words.py"] * 4))
    assert all(kit is kits[0] for kit in kits)


def test_a_file_may_load_another_one(write):
    write("from ahvn_tools.manifest import load\nkit = load('hut.py')")
    write("from ahvn_tools import Toolkit\nkit = Toolkit('tea')", "hut.py")
    assert load("shed.py").name == "tea"


async def test_files_are_loaded_in_a_running_loop(write):
    write(TOOL.format(name="greet", value="'hello'"))
    assert await load("shed.py").acall("greet") == "hello"


@pytest.mark.exhaustive
def test_what_a_file_prints_goes_to_stderr_and_it_reads_nothing(write):
    write("import os\nprint('hello')\nos.system('echo from a child; cat')\nword = len")
    ran = python("from ahvn_tools.manifest import load; load('shed.py:word'); print(input())", input="for the client")
    assert (ran.stdout, sorted(ran.stderr.splitlines())) == ("for the client\n", ["from a child", "hello"])


def test_loading_a_plain_file_imports_neither_fastmcp_nor_mcp_nor_yaml(write):
    write(TOOL.format(name="greet", value="'hello'"))
    program = (
        "import sys; from ahvn_tools.manifest import load; load('shed.py').call('greet'); "
        "print(sorted(sys.modules.keys() & {'fastmcp', 'mcp', 'mcp_types', 'yaml', 'cloudpickle', "
        "'ahvn_tools.toolkit.serve', 'httpx', 'httpx2'}))"
    )
    ran = python(program)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


@pytest.mark.exhaustive
@pytest.mark.parametrize("file", ["two words.py", "a/shed.py"])
def test_a_tool_of_a_file_that_no_other_process_can_import_is_pickled_by_value(file, write, tmp_path):
    write("", "shed.py")
    load_first = "shed.py:__doc__"
    with pytest.raises(SourceError):
        load(load_first)  # takes the name
    write("word = 'hello'\n" + TOOL.format(name="greet", value="word"), file)
    (tmp_path / "pickled").write_bytes(pickle.dumps(load(file)["greet"].clone()))
    ran = python("import pickle; print(pickle.load(open('pickled', 'rb')).call())", cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("hello\n", "")


@pytest.mark.exhaustive
def test_tools_and_registries_of_such_a_file_run_in_worker_processes(write):
    registry = (
        "class Shop(ToolRegistry):\n  @reg_toolspec(isolation='process')\n  def price(self) -> str: return word\n"
    )
    tool = "@tool(isolation='process')\ndef greet() -> str: return word\n"
    write("from ahvn_tools import ToolRegistry, reg_toolspec, tool\nword = 'hello'\n" + registry + tool, "two words.py")
    kit = load("two words.py")
    assert [kit.call("greet"), kit.call("price")] == ["hello", "hello"]
