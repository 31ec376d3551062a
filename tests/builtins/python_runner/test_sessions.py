"""`keep_session=True`: variables stay between the calls of a session, and no other session sees them."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Workspace
from ahvn_tools.builtins.python_runner import PythonRunner
from tests.builtins.python_runner.running import LONGEST, SANDBOXES, left_folders, left_processes

LOST = "<note>The Python session has ended, so its variables are lost. The next code starts a new session.</note>"
NEW = "<note>This is a new Python session: the earlier one has ended, and its variables are lost.</note>"


@pytest.fixture(params=SANDBOXES)
def sandbox(request):
    return request.param


@pytest.fixture
def start(nothing_left):
    """Return a function that returns a toolkit with a runner that keeps sessions; they end after the test."""
    runners = []

    def start(**options):
        options = {"approve": "never", "timeout": LONGEST, "sandbox": "auto", **options}
        runners.append(PythonRunner(keep_session=True, **options))
        return Toolkit("code").add(runners[-1])

    yield start
    for runner in runners:
        runner.close()


def run(kit, code, **options):
    return kit.exec("execute_python_code", {"code": code, **options})


def value(kit, code):
    result = run(kit, code)
    assert result.error is None, result
    return result.structured_content["result"]


def test_variables_functions_and_imports_stay(start, sandbox):
    kit = start(sandbox=sandbox).session()
    run(kit, "import math\nx = 3\ndef area(): return math.pi * x")
    assert value(kit, "x += 1; round(area(), 2)") == "12.57"


def test_a_task_that_earlier_code_has_started_can_be_awaited(start):
    kit = start().session()
    run(kit, "import asyncio\ntask = asyncio.create_task(asyncio.sleep(0.01, 'done'))\nawait asyncio.sleep(0)")
    assert value(kit, "await task") == "'done'"


def test_sessions_share_nothing(start):
    kit = start()
    one, two = kit.session(session_id="one"), kit.session(session_id="two")
    run(one, "secret = 42; open('file', 'w').write('x'); import sys; sys.marker = 1")
    result = run(two, "import os, sys; print(os.listdir(), hasattr(sys, 'marker'))\nsecret")
    assert result.structured_content["stdout"] == "[] False\n"
    assert "NameError: name 'secret' is not defined" in result.value
    assert value(one, "secret") == "42"


@pytest.mark.parametrize("sandbox", SANDBOXES[:1])
def test_a_session_sees_neither_process_nor_folder_of_another(start, sandbox):
    kit = start(sandbox=sandbox)
    one, two = kit.session(session_id="one"), kit.session(session_id="two")
    folder = value(one, "import os; os.getcwd()")
    result = run(two, f"import glob, os; print(glob.glob('/proc/[0-9]*'))\nos.listdir({folder})")
    assert "FileNotFoundError" in result.value
    assert len(result.structured_content["stdout"].split(",")) <= 2


def test_a_model_reads_that_variables_stay_and_how_to_reset(start):
    kit = start()
    assert "stay for your next call" in kit["execute_python_code"].description
    assert [tool.name for tool in kit] == ["execute_python_code", "reset_python_session"]


def test_a_reset_ends_the_variables(start):
    kit = start().session()
    assert kit.call("reset_python_session", {}) == "There was no session."
    run(kit, "x = 1")
    assert kit.call("reset_python_session", {}) == "The session has ended."
    assert left_processes() == []
    assert "NameError" in run(kit, "x").value


def test_an_error_keeps_the_variables(start):
    kit = start().session()
    assert run(kit, "x = 5\n1 / 0").structured_content["exit_code"] == 1
    assert run(kit, "import sys; sys.exit(3)").structured_content["exit_code"] == 3
    assert value(kit, "x") == "5"


def test_a_traceback_shows_lines_of_earlier_calls(start):
    kit = start().session()
    run(kit, "def divide(x):\n    return 1 / x")
    stderr = run(kit, "divide(0)").structured_content["stderr"]
    assert 'File "call_2.py", line 1, in <module>' in stderr
    assert 'File "call_1.py", line 2, in divide\n    return 1 / x' in stderr


def test_each_call_has_its_own_output(start, sandbox):
    kit = start(sandbox=sandbox).session()
    for n in range(5):
        result = run(kit, f"import sys; print('out', {n}); print('err', {n}, file=sys.stderr)")
        assert (result.structured_content["stdout"], result.structured_content["stderr"]) == (
            f"out {n}\n",
            f"err {n}\n",
        )


def test_output_of_a_session_is_cut(start):
    kit = start(max_output_bytes=1000).session()
    result = run(kit, "print('begin' + 'x' * 1_000_000 + 'end')")
    assert result.structured_content["truncated"]
    assert result.structured_content["stdout"].startswith("begin")
    assert result.structured_content["stdout"].endswith("end\n")
    assert len(result.structured_content["stdout"]) < 1200


@pytest.mark.exhaustive
def test_a_timeout_ends_the_session_and_says_so(start, sandbox):
    kit = start(sandbox=sandbox).session()
    run(kit, "x = 1")
    code = "import subprocess; subprocess.Popen(['sleep', '600']); print('before', flush=True)\nwhile True: pass"
    result = run(kit, code, timeout=1)
    assert result.structured_content["ended_by"] == "timeout"
    assert result.structured_content["stdout"] == "before\n"
    assert LOST in result.value
    assert left_processes() == []
    again = run(kit, "x")
    assert NEW in again.value
    assert "NameError" in again.value
    assert "<note>This" not in run(kit, "1").value


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("os._exit(9)", id="exit", marks=pytest.mark.exhaustive),
        pytest.param("os.abort()", id="abort", marks=pytest.mark.exhaustive),
        pytest.param("os.kill(os.getpid(), 9)", id="kill"),
        pytest.param("os.closerange(3, 100)", id="close"),
    ],
)
def test_an_interpreter_that_ends_is_replaced(start, code):
    kit = start().session()
    results = [run(kit, f"import os; print('before', flush=True); {code}"), run(kit, "1"), run(kit, "2")]
    assert "before" in results[0].value
    assert [NEW in result.value for result in results].count(True) == 1
    # An interpreter without its descriptors ends after its answer: if that is before the next call, no call lost it.
    assert [LOST in result.value for result in results].count(True) in ({0, 1} if "closerange" in code else {1})
    assert value(kit, "6 * 7") == "42"


def test_an_interpreter_that_ends_between_two_calls_leaves_no_folder(start):
    kit = start().session()
    run(kit, "import threading, os; threading.Timer(0.05, os._exit, [3]).start()")
    deadline = time.monotonic() + LONGEST
    while LOST not in (answer := run(kit, "1").value) and NEW not in answer and time.monotonic() < deadline:
        time.sleep(0.01)
    assert LOST in answer or NEW in answer
    assert value(kit, "6 * 7") == "42"
    assert len(left_folders()) == 1  # that of the interpreter that runs now


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("os.symlink('/etc/passwd', answer)", id="link"),
        pytest.param("os.mkdir(answer)", id="folder", marks=pytest.mark.exhaustive),
        pytest.param("os.mkfifo(answer)", id="pipe", marks=pytest.mark.exhaustive),
        pytest.param("open(answer, 'w').write('[]')", id="list", marks=pytest.mark.exhaustive),
    ],
)
def test_a_session_that_forges_its_answer_ends(start, code):
    kit = start().session()
    find = "import os, sys\nf = sys._getframe()\nwhile 'request' not in f.f_locals: f = f.f_back\n"
    result = run(kit, f"{find}answer = f.f_locals['request']['answer']\n{code}\nimport time; time.sleep(600)")
    assert result.structured_content["result"] is None
    assert "root:" not in result.value
    assert LOST in result.value
    assert value(kit, "6 * 7") == "42"


@pytest.mark.exhaustive
def test_an_interpreter_that_reads_no_request_ends_by_the_timeout(start):
    kit = start().session()
    run(kit, "import os, signal, threading; threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGSTOP]).start()")
    assert run(kit, "import time; time.sleep(5)", timeout=1).structured_content["ended_by"] == "timeout"
    run(kit, "import os, signal, threading; threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGSTOP]).start()")
    threading.Event().wait(0.5)
    assert run(kit, "#" * 900_000, timeout=1).structured_content["ended_by"] == "timeout"


def test_code_that_forks_answers_once(start):
    kit = start().session()
    assert value(kit, "import os\npid = os.fork()\nif pid: os.wait()\npid > 0") == "True"
    assert value(kit, "'next'") == "'next'"


def test_code_does_not_read_the_next_request(start):
    kit = start().session()
    assert value(kit, "import sys; sys.stdin.read()") == "''"
    assert value(kit, "'next'") == "'next'"


def test_calls_of_one_session_wait_for_each_other(start):
    kit = start().session()
    run(kit, "n = 0")
    code = "m = n\nimport time; time.sleep(0.02)\nn = m + 1"
    threads = [threading.Thread(target=run, args=(kit, code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(kit, "n") == "8"


async def test_cancelling_a_call_ends_the_session(start, tmp_path):
    kit = start(workspace=Workspace(tmp_path)).session()
    call = asyncio.create_task(
        kit.aexec("execute_python_code", {"code": "import time; open('started', 'w').close(); time.sleep(600)"})
    )
    await _until((tmp_path / "started").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _until(lambda: not left_processes())
    result = await kit.aexec("execute_python_code", {"code": "1"})
    assert NEW in result.value


def test_the_least_recently_used_session_makes_room(start):
    kit = start(max_sessions=2)
    one, two, three = (kit.session(session_id=name) for name in ("one", "two", "three"))
    for session in (one, two, one, three):
        run(session, "x = 1")
    assert value(one, "x") == "1"
    assert NEW in run(two, "x").value


def test_a_session_that_runs_code_makes_no_room(start, tmp_path):
    kit = start(max_sessions=1, workspace=Workspace(tmp_path))
    code = "import os, time; os.mkfifo('pipe'); open('pipe').read(); 'done'"
    results = []
    thread = threading.Thread(target=lambda: results.append(run(kit.session(session_id="one"), code)))
    thread.start()
    while not (tmp_path / "pipe").exists():
        thread.join(0.01)
    refused = run(kit.session(session_id="two"), "1")
    (tmp_path / "pipe").write_text("go on")
    thread.join()
    assert refused.error.message == "Too many Python sessions run code at the moment. Try again later."
    assert results[0].structured_content["result"] == "'done'"


@pytest.mark.exhaustive
def test_an_idle_session_ends(start):
    kit = start(idle_seconds=0.5).session()
    run(kit, "x = 1")
    while left_processes():
        threading.Event().wait(0.05)
    assert NEW in run(kit, "x").value


def test_other_roots_mean_another_interpreter(start, tmp_path):
    (tmp_path / "inner").mkdir()
    kit = start(workspace=Workspace(tmp_path))
    run(kit.session(session_id="one"), "x = 1")
    assert "NameError" in run(kit.session(session_id="one", roots=[tmp_path / "inner"]), "x").value
    assert value(kit.session(session_id="one"), "x") == "1"


def test_closing_the_runner_ends_all_sessions(nothing_left):
    runner = PythonRunner(keep_session=True, approve="never")
    kit = Toolkit("code").add(runner)
    for name in ("one", "two"):
        run(kit.session(session_id=name), "import subprocess; subprocess.Popen(['sleep', '600'])")
    assert left_processes() != []
    runner.close()
    assert left_processes() == []


def test_sessions_end_with_their_runner(nothing_left):
    kit = Toolkit("code").add(PythonRunner(keep_session=True, approve="never"))
    run(kit, "1")
    assert left_processes() != []
    del kit
    gc.collect()
    assert left_processes() == []


async def _until(is_true):
    """Wait until it is true. The timeout of the suite ends a wait without an end."""
    while not is_true():  # noqa: ASYNC110  # another process makes it true
        await asyncio.sleep(0.01)
