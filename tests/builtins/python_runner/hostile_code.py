"""Hostile Python code, and how it must end. Nothing in it is worth imitating."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

_FIND_ANSWER_FILE = """
import os, sys
frame = sys._getframe()
while "request" not in frame.f_locals:
    frame = frame.f_back
answer = frame.f_locals["request"]["answer"]
"""


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One piece of code."""

    code: str
    ends_by: Literal["itself", "timeout", "either"] = "itself"
    exit_code: int | None = None
    """None: any."""
    out: str = ""
    """What stdout contains."""
    error: str = ""
    """What stderr contains."""
    result: str | None = None
    """What the value begins with; None: any."""


def forging(content: str) -> Hostile:
    """Code that writes the answer itself and ends the interpreter, so that our program cannot."""
    return Hostile(code=f"{_FIND_ANSWER_FILE}\n{content}\nos._exit(0)", exit_code=0)


def writing(**parts: object) -> Hostile:
    """Code that writes an answer whose parts are wrong."""
    answer = {"exit_code": 0, "value": None, "images": [], "notes": [], **parts}
    return forging(f"open(answer, 'w').write({json.dumps(answer)!r})")


ENDING = {
    "exits at once": Hostile(code="import os; print('before'); os._exit(7)", exit_code=7, out="before"),
    "segmentation fault": Hostile(code="print('before'); import ctypes; ctypes.string_at(0)", out="before"),
    "abort": Hostile(code="import os; print('before'); os.abort()", out="before"),
    "kills itself": Hostile(code="import os; os.kill(os.getpid(), 9)"),
    "stops itself": Hostile(code="import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", ends_by="timeout"),
    "closes all descriptors": Hostile(code="import os; os.closerange(0, 1024); 5"),
    "closes stdout": Hostile(code="import sys; sys.stdout.close(); 6 * 7", result="42"),
    "replaces stdout": Hostile(code="import sys; sys.stdout = sys.stderr = None; 6 * 7", result="42"),
    "empties sys.modules": Hostile(code="import sys; sys.modules.clear(); 6 * 7"),
    "replaces modules": Hostile(code="import sys; sys.modules.update(os=None, json=7, traceback=None); 1 / 0"),
    "replaces built-ins": Hostile(
        code="import builtins\nfor n in ('open', 'repr', 'str', 'len'): setattr(builtins, n, 0)"
    ),
    "replaces json": Hostile(code="import json, os; json.dumps = json.loads = os.replace = os.write = None; 1"),
    "audit hook that raises": Hostile(code="import sys; sys.addaudithook(lambda *a: 1 / 0)"),
    "trace function that raises": Hostile(code="import sys\ndef f(*a): raise SystemExit(9)\nsys.settrace(f)\n1"),
    "exception hook": Hostile(code="import sys; sys.excepthook = lambda *a: None; 1 / 0", error="ZeroDivisionError"),
    "sys.exit in the last expression": Hostile(code="__import__('sys').exit(5)", exit_code=5),
    "sys.exit in a repr": Hostile(code="class A:\n def __repr__(self): raise SystemExit(6)\nA()", exit_code=6),
    "sys.exit with a text": Hostile(code="import sys; sys.exit('over and out')", exit_code=1, error="over and out"),
    "sys.exit with a huge number": Hostile(code="import sys; sys.exit(10**30)"),
    "KeyboardInterrupt": Hostile(code="raise KeyboardInterrupt", exit_code=1, error="KeyboardInterrupt"),
    "GeneratorExit": Hostile(code="raise GeneratorExit", exit_code=1, error="GeneratorExit"),
    "huge allocation": Hostile(code="bytearray(10**11)", exit_code=1, error="MemoryError"),
    "huge list": Hostile(code="[0] * 10**9", exit_code=1, error="MemoryError"),
    "deep recursion": Hostile(code="def f(n): return f(n + 1)\nf(0)", exit_code=1, error="RecursionError"),
    "endless recursion in C": Hostile(
        code="import sys; sys.setrecursionlimit(10**9)\nclass A:\n def __getattr__(self, n): return self.x\nA().x",
        ends_by="either",
    ),
    "reads stdin": Hostile(code="import sys; print(repr(sys.stdin.read())); input()", out="''", error="EOFError"),
    "reads descriptor 0": Hostile(code="import os; os.read(0, 100)", result="b''"),
    "no UTF-8": Hostile(code="import os; os.write(1, b'\\xff\\xfe end')", out="\ufffd"),
    "NUL in the output": Hostile(code="print('a\\0b')", out="a\0b"),
    "surrogate in the output": Hostile(code="print('\\ud800')", out="\\ud800"),
    "surrogate in the value": Hostile(code="'\\ud800'", result="'\\ud800'"),
    "surrogate in the code": Hostile(code="x = '\ud800'", exit_code=1, error="UnicodeEncodeError"),
    "surrogate in an error": Hostile(code="raise ValueError('\\ud800')", exit_code=1, error="\\ud800"),
    "NUL in the code": Hostile(code="x = 1\0", exit_code=1, error="null bytes"),
    "syntax error": Hostile(code="def f(:\n  pass", exit_code=1, error="SyntaxError"),
    "indentation error": Hostile(code="if 1:\npass", exit_code=1, error="IndentationError"),
    "deep brackets": Hostile(code="(" * 100_000, exit_code=1),
    "deep signs": Hostile(code="-" * 300_000 + "1"),
    "long chain of calls": Hostile(code="f" + "()" * 100_000),
    "repr that raises": Hostile(code="class A:\n def __repr__(self): return 1 / 0\nA()", error="ZeroDivisionError"),
    "repr that is no text": Hostile(code="class A:\n def __repr__(self): return 7\nA()", error="TypeError"),
    "repr of a subclass of str": Hostile(
        code="class S(str):\n def __getitem__(self, i): raise ValueError\n __len__ = __str__ = __getitem__\n"
        "class A:\n def __repr__(self): return S('fine')\nA()",
        result="fine",
    ),
    "huge repr": Hostile(code="'x' * 50_000_000", result="'xxx"),
    "cyclic value": Hostile(code="a = []; a.append(a); a", result="[[...]]"),
    "error whose text raises": Hostile(
        code="class E(Exception):\n def __str__(self): return 1 / 0\nraise E", exit_code=1, error="E"
    ),
    "errors in a circle": Hostile(
        code="a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a", exit_code=1, error="a"
    ),
    "thread that runs on": Hostile(
        code="import threading, time; threading.Thread(target=time.sleep, args=[600]).start(); 'done'",
        ends_by="timeout", result="'done'",
    ),
    "daemon thread": Hostile(
        code="import threading, time; threading.Thread(target=time.sleep, args=[600], daemon=True).start()", exit_code=0
    ),
    "child process that runs on": Hostile(
        code="import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); 'done'",
        exit_code=0, result="'done'",
    ),
    "daemon process": Hostile(
        code="import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(600)\n os._exit(0)\n"
        "os.wait(); 'done'",
        exit_code=0, result="'done'",
    ),
    "fork that returns twice": Hostile(code="import os\npid = os.fork()\nif pid: os.wait()\npid > 0", result="True"),
    "too large a file": Hostile(
        code="f = open('large', 'wb')\nf.truncate(10**10)", exit_code=1, error="OSError"
    ),
    "deep folders": Hostile(
        code="import os\nfor _ in range(3000):\n os.mkdir('d'); os.chdir('d')\nopen('file', 'w').close(); 'done'",
        result="'done'",
    ),
    "folder without permissions": Hostile(
        code="import os; os.makedirs('a/b'); open('a/b/c', 'w').close(); os.chmod('a/b', 0); os.chmod('a', 0); 'done'",
        result="'done'",
    ),
    "odd file names": Hostile(
        code="import os; open(b'\\xff\\n', 'w').close(); os.symlink('/', 'link'); os.mkfifo('pipe'); 'done'",
        result="'done'",
    ),
    "no terminal to type into": Hostile(code="open('/dev/tty', 'w')", exit_code=1, error="OSError"),
}  # fmt: skip

ENDLESS = {
    "endless loop": Hostile(code="print('before')\nwhile True: pass", ends_by="timeout", out="before"),
    "loop that catches everything": Hostile(
        code="while True:\n try:\n  while True: pass\n except BaseException: pass", ends_by="timeout"
    ),
    "ignores signals": Hostile(
        code="import signal, time\nfor n in range(1, 65):\n try: signal.signal(n, signal.SIG_IGN)\n"
        " except (OSError, ValueError): pass\nwhile True: time.sleep(1)",
        ends_by="timeout",
    ),
    "sleep": Hostile(code="import time; time.sleep(600)", ends_by="timeout"),
    "huge number": Hostile(code="n = 7 ** (10**8); len(str(n))", ends_by="either"),
    "regular expression": Hostile(code="import re; re.match('(a+)+$', 'a' * 40 + 'b')", ends_by="timeout"),
    "repr without an end": Hostile(code="class A:\n def __repr__(self):\n  while True: pass\nA()", ends_by="timeout"),
    "print flood": Hostile(code="while True: print('x' * 10_000)", ends_by="timeout", out="xxx"),
    "flood of both streams": Hostile(
        code="import os\nwhile True: os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)",
        ends_by="timeout", out="ooo", error="eee",
    ),
    "exit handler": Hostile(
        code="import atexit, time; atexit.register(time.sleep, 600); 'done'", ends_by="timeout", result="'done'"
    ),
    "finalizer": Hostile(
        code="class A:\n def __del__(self):\n  while True: pass\na = A(); 'done'", ends_by="timeout", result="'done'"
    ),
    "memory in small steps": Hostile(code="a = []\nwhile True: a.append(bytearray(10**6))", error="MemoryError"),
    "forks": Hostile(
        code="import os, time\nfor _ in range(6): os.fork()\ntime.sleep(600)", ends_by="timeout"
    ),
    "forks that leave the group": Hostile(
        code="import os, time\nfor _ in range(5):\n if os.fork() == 0: os.setsid()\ntime.sleep(600)", ends_by="timeout"
    ),
    "threads": Hostile(
        code="import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=[600]).start()",
        ends_by="either",
    ),
    "holds stdout in a daemon": Hostile(
        code="import os, time\nif os.fork() == 0:\n os.setsid()\n while True: print('x'); time.sleep(0.01)\n'done'",
        result="'done'",
    ),
}  # fmt: skip

FORGED = {
    "a link": forging("os.symlink(SECRET, answer)"),
    "a hard link": forging("open('x', 'w').close(); os.link('x', answer)"),
    "a pipe": forging("os.mkfifo(answer)"),
    "a folder": forging("os.mkdir(answer)"),
    "a huge sparse file": forging("f = open(answer, 'wb'); f.truncate(900_000_000); f.close()"),
    "no JSON": forging("open(answer, 'w').write('{')"),
    "no UTF-8": forging("open(answer, 'wb').write(b'\\xff' * 10)"),
    "deep JSON": forging("open(answer, 'w').write('[' * 100_000)"),
    "a list": forging("open(answer, 'w').write('[1, 2]')"),
    "a huge number": forging("open(answer, 'w').write('9' * 100_000)"),
    "no number of characters": writing(value=["a", "b"]),
    "infinity": writing(value=["a", float("inf")]),
    "a number as value": writing(value=7),
    "no PNG": writing(images=["aGVsbG8="]),
    "no base64": writing(images=["?!", 7, None, {}]),
    "pictures that are no list": writing(images={"a": 1}, notes=7),
    "too many pictures": writing(images=["iVBORw0KGgo="] * 500),
    "too large a picture": writing(images=["iVBORw0KGgoA" + "AAAA" * 230_000]),
    "too many notes": writing(notes=["n" * 2000] * 100),
    "a pickle": forging("import pickle; open(answer, 'wb').write(pickle.dumps(os.system))"),
}  # fmt: skip
