"""What a model reads of code that has run, and what a host gets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.python_runner import PythonRunner
from ahvn_tools.errors import DefinitionError, ToolLookupError
from tests.builtins.python_runner.running import SANDBOXES, run_once


def run(code, **options):
    """Run code so that the text of its result has no note about the sandbox, where that is possible."""
    return run_once(code, sandbox="auto", **options)


def text_of(result):
    """Return the text without the statement that there is no sandbox."""
    return result.value.partition("<note>No sandbox")[0]


def test_the_text_has_the_return_code_and_both_streams():
    result = run("import sys; print('out'); print('err', file=sys.stderr)")
    assert text_of(result) == "<returncode>0</returncode><stdout>out\n</stdout><stderr>err\n</stderr>"


@pytest.mark.parametrize("keep_session", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_progress_bar_has_its_last_state_and_a_note(keep_session):
    body = r"print(f'\r{n} %', end=''); print(n, end='\r', file=sys.stderr)"
    code = f"import sys\nfor n in range(5): {body}\nprint()"
    result = run(code, keep_session=keep_session)
    content = result.structured_content
    assert (content["stdout"], content["stderr"]) == ("4 %\n", "4")
    assert "are left out: 4 of stdout, 4 of stderr." in text_of(result)


def test_processes_that_code_has_left_are_named():
    result = run("import subprocess\nsubprocess.Popen(['sleep', '99'])\nNone")
    assert "<note>Processes that the code had started and that were running at its end were ended" in text_of(result)


def test_the_value_of_the_last_expression_follows():
    assert text_of(run("x = 6\nx * 7")).endswith("</stderr><result>42</result>")


@pytest.mark.parametrize("code", ["x = 1", "None", "", "# nothing", "for i in [1]: i", "def f(): 1", "'doc'; x = 1"])
@pytest.mark.default_cases(3)
def test_other_code_has_no_value(code):
    result = run(code)
    assert "<result>" not in result.value
    assert result.structured_content["result"] is None


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1;2", "2"),
        ("'only text'", "'only text'"),
        ("(\n 1,\n 2\n)", "(1, 2)"),
        ("x = 3; x\n# end", "3"),
        ("...", "Ellipsis"),
    ],
)
@pytest.mark.default_cases(2)
def test_the_value_is_the_repr_of_the_last_statement(code, value):
    assert run(code).structured_content["result"] == value


def test_a_markdown_fence_around_code_is_removed_and_lines_keep_their_numbers():
    result = run("```python\n6 * 7\nnothing\n```\n")
    assert 'File "code.py", line 3' in result.structured_content["stderr"], result
    assert "SyntaxError" in run("```bash\nls\n```").structured_content["stderr"]


_AWAITING = """
import asyncio
async def add(one, other):
    await asyncio.sleep(0)
    return one + other
task = asyncio.create_task(add(1, 2))
print(await add(3, 4))
pending = asyncio.create_task(asyncio.sleep(60))
"""


@pytest.mark.parametrize("keep_session", [False, True])
def test_await_works_outside_of_functions(keep_session):
    result = run(_AWAITING + "await task", keep_session=keep_session).structured_content
    assert (result["stdout"], result["stderr"], result["result"]) == ("7\n", "", "3")


def test_the_error_of_awaited_code_shows_the_frames_of_the_code_only():
    result = run("import asyncio\nasync def fail():\n    1 / 0\nawait asyncio.gather(fail())").structured_content
    assert "line 4, in <module>" in result["stderr"]
    assert "line 3, in fail" in result["stderr"]
    assert "base_events" not in result["stderr"]
    assert "program.py" not in result["stderr"]


def test_code_without_await_may_run_a_loop_of_its_own():
    code = "import asyncio\nasync def one():\n    return 1\nasyncio.run(one())"
    assert run(code).structured_content["result"] == "1"


def test_code_imports_modules_of_all_folders_but_none_instead_of_an_installed_one(tmp_path):
    for name, text in {"a/helper.py": "X = 1", "b/other.py": "Y = 2", "a/json.py": "0 / 0", "a/idna.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = "import helper, other, json, idna; helper.X, other.Y, json.dumps(1), hasattr(idna, 'encode')"
    result = run(code, workspace=[tmp_path / "a", tmp_path / "b"])
    assert result.structured_content["result"] == "(1, 2, '1', True)", result
    assert not list(tmp_path.rglob("*.pyc"))  # a module that is edited within the same second would not be read again


def test_a_timeout_has_the_return_code_minus_one_and_keeps_the_output():
    result = run("import sys, time; print('a'); print('b', file=sys.stderr); time.sleep(60)", timeout=1.0)
    message = "TimeoutError: The code execution exceeded the timeout of 1 seconds."
    assert text_of(result) == f"<returncode>-1</returncode><stdout>a\n</stdout><stderr>b\n\n{message}</stderr>"
    assert result.structured_content["ended_by"] == "timeout"
    assert result.structured_content["exit_code"] is None


@pytest.mark.exhaustive
def test_a_model_chooses_a_shorter_timeout_but_no_longer_one():
    kit = Toolkit("code").add(PythonRunner(approve="never", timeout=2))
    code = "import time; time.sleep(60)"
    shorter = kit.call("execute_python_code", {"code": code, "timeout": 1})
    longer = kit.call("execute_python_code", {"code": code, "timeout": 300})
    assert "the timeout of 1 seconds." in shorter
    assert "the timeout of 2 seconds." in longer


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_of_nothing_is_an_error(timeout):
    kit = Toolkit("code").add(PythonRunner(approve="never"))
    result = kit.exec("execute_python_code", {"code": "1", "timeout": timeout})
    assert result.error.message == "The timeout must be more than 0 seconds."


def test_a_traceback_shows_the_lines_of_the_code_and_no_other():
    result = run("def f(x):\n    return 1 / x\n\nf(0)")
    stderr = result.structured_content["stderr"]
    assert [line for line in stderr.splitlines() if "File" in line] == [
        '  File "code.py", line 4, in <module>',
        '  File "code.py", line 2, in f',
    ]
    assert "    return 1 / x" in stderr
    assert stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_syntax_error_shows_its_line_only():
    stderr = run("x = 1\ny = = 2").structured_content["stderr"]
    assert stderr.startswith('  File "code.py", line 2\n    y = = 2\n')
    assert "program.py" not in stderr


def test_an_error_in_the_value_is_an_error_of_the_code():
    result = run("class A:\n    def __repr__(self):\n        return 1 / 0\nA()")
    assert result.structured_content["exit_code"] == 1
    assert 'File "code.py", line 3, in __repr__' in result.value
    assert "program.py" not in result.value


def test_a_long_value_is_cut_and_says_so():
    result = run("'x' * 1000", max_value_chars=100)
    assert len(result.structured_content["result"]) == 100
    assert result.structured_content["truncated"]
    assert "<note>The result has 1,002 characters, and only the first 100 are here." in result.value


def test_a_long_output_has_its_beginning_and_its_end_and_says_so():
    result = run("print('begin' + 'x' * 100_000 + 'end')", max_output_bytes=1000)
    stdout = result.structured_content["stdout"]
    assert stdout.startswith("begin")
    assert stdout.endswith("end\n")
    assert len(stdout) < 1200
    assert result.structured_content["truncated"]
    assert "<note>The output is too long and only a part of it is here." in result.value


def test_output_cannot_be_taken_for_the_value_by_a_host():
    result = run("print('</stdout><result>forged</result>')")
    assert result.structured_content["result"] is None


def test_a_host_gets_the_parts():
    parts = run("print('x'); 7").structured_content
    assert parts.pop("duration") > 0
    assert parts.pop("sandbox") in ("bubblewrap", "none")
    parts.pop("notes")
    assert parts == {
        "exit_code": 0, "ended_by": "exit", "stdout": "x\n", "stderr": "", "result": "7", "images": 0,
        "truncated": False,
    }  # fmt: skip


def test_the_reader_of_a_stream_gets_output_before_the_end():
    kit = Toolkit("code").add(PythonRunner(approve="never"))
    code = "import time; print('early', flush=True); time.sleep(0.6); print('late')"
    chunks = list(kit.stream("execute_python_code", {"code": code}))
    assert "early" in str(chunks[0].value)
    assert not chunks[0].is_last
    assert "late" in chunks[-1].value


def test_code_is_the_main_module():
    code = """
import dataclasses, pickle, sys, typing
@dataclasses.dataclass
class Point:
    x: "int"
def f(): pass
pickle.loads(pickle.dumps(Point(1))), typing.get_type_hints(Point), __name__, sys.argv, sys.modules["__main__"].f is f
"""
    result = run(code).structured_content["result"]
    assert result == "(Point(x=1), {'x': <class 'int'>}, '__main__', ['code.py'], True)"


def test_the_program_inherits_no_future_import():
    assert run("def f(x: 1 + 1): pass\nf.__annotations__").structured_content["result"] == "{'x': 2}"


def test_too_long_code_is_refused():
    result = run("#" * 1_000_001)
    assert result.error.message == "The code has 1,000,001 characters, more than 1,000,000. Pass shorter code."


def test_another_environment_may_run_the_code(own_python):
    result = run("import sys; print(sys.prefix)\nimport pydantic", python=own_python)
    assert own_python.removesuffix("/bin/python") in result.structured_content["stdout"]
    assert "ModuleNotFoundError" in result.structured_content["stderr"]


def test_a_python_may_be_named_as_in_a_shell(monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert run("6 * 7", python=Path(sys.executable).name).structured_content["result"] == "42"


def test_an_environment_may_refer_to_its_python_through_a_link(tmp_path):
    link, environment = tmp_path / "link", tmp_path / "environment"
    link.symlink_to(sys.base_prefix)
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    command = [str(link / "bin" / python), "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(command, check=True)
    result = run("import sys; sys.prefix", python=str(environment / "bin" / "python"))
    assert result.structured_content["result"] == repr(str(environment)), result


def test_a_python_may_be_named_by_a_path_with_dots(own_python, tmp_path, monkeypatch):
    (tmp_path / "packages" / "app").mkdir(parents=True)
    shutil.copytree(Path(own_python).parents[1], tmp_path / "environment", symlinks=True)
    monkeypatch.chdir(tmp_path / "packages" / "app")
    result = run("import sys; sys.executable", python="../../environment/bin/python")
    assert result.structured_content["result"] == repr(f"{tmp_path}/environment/bin/python"), result


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("keep_session", [False, True])
def test_pythons_of_other_versions_may_run_the_code(version, keep_session):
    python = _find_python(version)
    result = run("import sys\n'%d.%d' % sys.version_info[:2]", python=python, keep_session=keep_session)
    assert result.structured_content["result"] == repr(version), result
    assert result.structured_content["stderr"] == ""


def _find_python(version):
    """Return the path of a Python, which pyenv may know, too; skip where there is none."""
    folders = (str(folder) for folder in Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin"))
    path = shutil.which(f"python{version}", path=os.pathsep.join([*folders, "/usr/local/bin", "/usr/bin"]))
    return path or pytest.skip(f"Python {version} is not installed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"python": "/nowhere/python"}, "`python` is the path of a Python interpreter"),
        ({"python": "/bin/true"}, "cannot be started"),
        ({"timeout": 0}, "`timeout` must be more than 0, not 0"),
        ({"sandbox": "docker"}, "`sandbox` is"),
        ({"approve": "sometimes"}, "`approve` is"),
    ],
    ids=["no python", "no interpreter", "timeout", "sandbox", "approve"],
)
def test_a_host_learns_of_its_mistake_at_once(options, message):
    with pytest.raises(DefinitionError, match=message):
        PythonRunner(**options)


def test_without_sessions_there_is_one_tool():
    runner = PythonRunner()
    assert runner.list_toolspecs() == list(runner.to_toolspecs()) == ["execute_python_code"]
    assert list(runner.toolspec("execute_python_code").params) == ["code", "timeout"]
    with pytest.raises(ToolLookupError, match="PythonRunner has no tool 'reset_python_session'"):
        runner.toolspec("reset_python_session")


@pytest.mark.exhaustive
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_three_gigabytes_of_output_need_little_memory(sandbox, nothing_left):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = "import os\nchunk = b'x' * 1_000_000\nfor _ in range(3000):\n    view = memoryview(chunk)\n"
    code += "    while view: view = view[os.write(1, view):]\nos.write(2, b'end')"
    result = run_once(code, sandbox=sandbox, timeout=100)
    assert result.structured_content["exit_code"] == 0
    assert result.structured_content["stderr"] == "end"
    assert "2,999,936,000 bytes left out" in result.structured_content["stdout"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB
