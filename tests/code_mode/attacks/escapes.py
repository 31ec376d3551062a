"""Programs that try to leave the sandbox."""

from __future__ import annotations

from typing import Final

from tests.code_mode.attacks.hostile_program import HostileProgram as P
from tests.code_mode.attacks.hostile_program import fails, returns

UNDEFINED: Final = "used when not defined"
NO_MODULE: Final = "No module named"
UNRESOLVED: Final = "Cannot resolve imported module"
NO_INHERITANCE: Final = "do not support class inheritance"

ESCAPES: Final = [
    # What ends or corrupts an interpreter that shares the process of its host
    P("ends the process", "import os\nos._exit(0)", fails("no member `_exit`")),
    P("reads address 0", "import ctypes\nctypes.string_at(0)", fails(NO_MODULE)),
    P("aborts", "import os\nos.abort()", fails("no member `abort`")),
    P("closes all files", "import os\nos.closerange(0, 1000)", fails("no member `closerange`")),
    P("kills its parent", "import os\nos.kill(os.getppid(), 9)", fails("no member `getppid`")),
    P("forks", "import os\nwhile True:\n    os.fork()", fails("no member `fork`")),
    P("poisons the modules", "import sys\nsys.modules['json'] = None", fails("no member `modules`")),
    P("sets the recursion limit", "import sys\nsys.setrecursionlimit(10**9)", fails("no member `setrecursionlimit`")),
    P(
        "raises the limit of digits",
        "import sys\nsys.set_int_max_str_digits(0)",
        fails("no member `set_int_max_str_digits`"),
    ),
    P("registers a function for the exit", "import atexit\natexit.register(print)", fails(NO_MODULE)),
    P("starts a thread", "import threading\nthreading.Thread(target=print).start()", fails(NO_MODULE)),
    P("starts a process", "import subprocess\nsubprocess.run(['id'])", fails(NO_MODULE)),
    P("runs a command", "import os\nos.system('id')", fails("no member `system`")),
    P("loads a library", "import ctypes\nctypes.CDLL(None)", fails(NO_MODULE)),
    P("imports the sandbox", "import pydantic_monty\npydantic_monty.Monty()", fails(NO_MODULE)),
    P("imports the toolkit", "from ahvn_tools import Toolkit\nToolkit('x')", fails("Error")),
    P("imports the host's main module", "import __main__\n__main__", fails(UNRESOLVED)),
    P("exits", "exit(3)", fails("There is no function 'exit'")),
    P("raises SystemExit", "raise SystemExit(3)", fails("Error")),
    P("raises KeyboardInterrupt", "raise KeyboardInterrupt", fails("KeyboardInterrupt")),
    P("raises GeneratorExit", "raise GeneratorExit", fails(UNDEFINED)),
    # The host's files, environment and network
    P("opens the canary file", "open('CANARY_FILE').read()", fails(UNDEFINED)),
    P("reads the canary file", "import pathlib\npathlib.Path('CANARY_FILE').read_text()", fails("PermissionError")),
    P("writes the canary file", "import pathlib\npathlib.Path('CANARY_FILE').write_text('x')", fails("Error")),
    P("deletes the canary file", "import pathlib\npathlib.Path('CANARY_FILE').unlink()", fails("Error")),
    P("asks whether a file is there", "import pathlib\npathlib.Path('CANARY_FILE').exists()", fails("Error")),
    P("lists a folder", "import os\nos.listdir('/')", fails("PermissionError")),
    P("reads the environment", "import os\nos.environ['AHVN_CANARY']", fails("not supported")),
    P("reads a variable", "import os\nos.getenv('AHVN_CANARY')", fails("not supported")),
    P("sets a variable", "import os\nos.putenv('AHVN_CANARY', 'x')", fails("no member `putenv`")),
    P("opens a socket", "import socket\nsocket.create_connection(('127.0.0.1', CANARY_PORT))", fails(NO_MODULE)),
    P("opens a page", "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:CANARY_PORT')", fails("Error")),
    P("opens a connection", "import asyncio\nasyncio.open_connection", fails("no member `open_connection`")),
    P("starts a process with asyncio", "import asyncio\nasyncio.create_subprocess_shell", fails("no member")),
    P("takes the event loop", "import asyncio\nasyncio.get_event_loop()", fails("no member `get_event_loop`")),
    P("reads the input", "input()", fails(UNDEFINED)),
    P("starts the debugger", "breakpoint()", fails("breakpoint")),
    # Python's own objects
    P("lists subclasses", "().__class__.__base__.__subclasses__()", fails("__subclasses__")),
    P("lists subclasses unseen by the check", "eval('().__class__.__base__')", fails("AttributeError")),
    P("reads the bases of a type", "type(1).mro()", fails("AttributeError")),
    P("makes a type", "type('A', (object,), {})()", fails("Error")),
    P("gets an attribute by a text", "eval('getattr')((), '__cla' + 'ss__').__base__", fails("Error")),
    P("gets attributes in a chain", "list_issues.__self__.kit", fails("__self__")),
    P("imports by a function", "__import__('os').system('id')", fails(UNDEFINED)),
    P("reads the builtins", "eval('__builtins__')", fails("NameError")),
    P("reads all names", "eval('globals()')", fails("Error")),
    P("compiles", "compile('1', 'x', 'eval')", fails(UNDEFINED)),
    P("evaluates an import", "eval(\"__import__('os')\")", fails("Error")),
    P("executes an import", "exec('import socket')", fails(NO_MODULE)),
    P("executes with other globals", "exec('x = list_issues', {'__builtins__': {}})\n1", fails("Error")),
    P("formats a class", "'{0.__class__.__mro__}'.format(1)", fails("AttributeError")),
    P("formats the globals of a function", "'{0.__globals__}'.format(list_issues)", fails("AttributeError")),
    P("formats with format_map", "'{a.__class__}'.format_map({'a': 1})", fails("Error")),
    P("formats in an f-string", "f'{list_issues.__code__}'", fails("AttributeError")),
    P("reads the globals of a function", "list_issues.__globals__", fails("__globals__")),
    P("reads the closure of a function", "list_issues.__closure__", fails("__closure__")),
    P("reads the wrapped function", "list_issues.__wrapped__", fails("__wrapped__")),
    P("calls a method of a function", "list_issues.__call__()", fails("Error")),
    P("sets an attribute of a function", "list_issues.user = 'eve'", fails("user")),
    P("reads the annotations of a function", "list_issues.__annotations__", fails("Error")),
    P("reads the type of a result", "list_issues()[0].__class__.__base__", fails("Error")),
    P(
        "reads a frame",
        "try:\n    1 / 0\nexcept Exception as e:\n    error = e\nerror.__traceback__.tb_frame",
        fails("Error"),
    ),
    P(
        "reads the context of a failed call",
        "try:\n    fail('x')\nexcept RuntimeError as e:\n    error = e\nerror.__context__",
        fails("AttributeError"),
    ),
    P(
        "reads the arguments of a failed call",
        "try:\n    fail('x')\nexcept RuntimeError as e:\n    error = e\n[error.args, repr(error)]",
        returns([["Error calling tool 'fail'"], "RuntimeError(\"Error calling tool 'fail'\")"]),
    ),
    P("reads the frame of a generator", "(i for i in [1]).gi_frame", fails("Error")),
    P("reads the frame of a coroutine", "async def f():\n    pass\nf().cr_frame\nawait f()", fails("Error")),
    P("pickles", "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')", fails(NO_MODULE)),
    P("inspects", "import inspect\ninspect.stack()", fails(NO_MODULE)),
    P("asks the garbage collector", "import gc\ngc.get_objects()", fails(UNRESOLVED)),
    P("inherits from a dict", "class D(dict):\n    pass\nD(a=1)", fails(NO_INHERITANCE)),
    P("defines a metaclass", "class M(type):\n    pass\nclass A(metaclass=M):\n    pass", fails(NO_INHERITANCE)),
    # What runs while a program is read or checked
    P("imports everything", "from os import *\n1", fails("Wildcard imports")),
    P("imports a dotted module", "import os.path\nos.path.exists('CANARY_FILE')", fails("Error")),
    # An annotation is neither evaluated nor checked
    P("calls in an annotation", "def f(a: fail('x')):\n    return 1\nf(1)", returns(1)),
    P("evaluates an annotation as a text", "def f(a: '__import__(\"os\")') -> None:\n    pass\nf(1)", returns(None)),
    P("calls in a class", "class A:\n    x = exit(3)\nA()", fails("Error")),
    P("decorates", "@eval\ndef f():\n    pass\nf()", fails("Line 1")),
    P("calls in a default", "def f(a=open('CANARY_FILE')):\n    pass\nf()", fails(UNDEFINED)),
    P("declares another coding", "# -*- coding: utf-7 -*-\n+AF8AXw-import", fails("Line 2")),
    P("begins with a byte order mark", "\ufeffexit(0)", fails("Line 1")),
    P("contains a NUL", "exit\0(0)", fails("Line 1")),
    P("continues after a form feed", "1\f\nexit(0)", fails("Error")),
    P("hides code behind a carriage return", "# harmless\rexit(0)", fails("There is no function 'exit'")),
]
