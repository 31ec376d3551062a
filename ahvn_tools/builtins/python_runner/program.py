"""The program that runs code in an interpreter of its own. It reads requests from stdin and writes answers to files.

Its arguments are `once` or `session`, and the folders of which code can import modules.

PythonRunner starts it with any Python from 3.9 on, so it imports nothing but the standard library.

A request is a line of JSON. Its answer is a file, so that nothing that the code prints can be taken for it. The code
can write that file, too: its reader must not trust it.
"""

from __future__ import annotations

import ast
import base64
import io
import linecache
import os
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from json import dumps, loads
from typing import Any

_CO_COROUTINE = 0x80  # as `inspect.CO_COROUTINE`, whose import is slow
_ASYNCIO = os.path.join(os.path.dirname(ast.__file__), "asyncio")  # noqa: PTH118, PTH120  # as above
_loops: list[Any] = []
"""The event loop of a session, once code has needed it."""


def main() -> None:
    """Answer the request on stdin and exit as the code would; in a session, answer all of them."""
    is_session, process_id = sys.argv[1] == "session", os.getpid()
    sys.path += sys.argv[2:]  # at the end, so that no file there takes the place of an installed module
    with os.fdopen(os.dup(0), "rb") as requests:
        _end_stdin()
        module = types.ModuleType("__main__")
        sys.argv, sys.modules["__main__"] = ["code.py"], module
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # it is a file
        warnings.filterwarnings("ignore", message=".*non-interactive, and thus cannot be shown")
        for line in iter(requests.readline, b""):
            request = loads(line)
            exit_code, value = _run_python(request, module.__dict__)
            if os.getpid() != process_id:
                sys.exit(exit_code)  # the code has forked, and this is the child: the parent answers
            _answer(request, exit_code, value)
            if not is_session:
                sys.exit(exit_code)


def _answer(request: dict[str, Any], exit_code: int, value: tuple[str, int] | None) -> None:
    images, notes = _draw_figures(request["max_images"], request["max_image_bytes"])
    _flush()
    answer = {"exit_code": exit_code, "value": value, "images": images, "notes": notes}
    with open(request["answer"] + ".new", "w", encoding="utf-8") as file:  # noqa: PTH123  # fewer imports: a faster start
        file.write(dumps(answer))
    os.replace(file.name, request["answer"])  # noqa: PTH105
    for stream in (1, 2) if request["end_mark"] else ():
        _write(stream, request["end_mark"])


def _run_python(request: dict[str, Any], namespace: dict[str, Any]) -> tuple[int, tuple[str, int] | None]:
    code, name = request["code"], request["file_name"]
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        return 0, _beginning(_evaluate(request, namespace), request["max_value_chars"])
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0, None
        _flush()
        _write(2, f"{error.code}\n")
    except BaseException as error:  # noqa: BLE001  # whatever the code raises is its result
        _flush()
        _write(2, "".join(traceback.format_exception(type(error), error, _frames_of_code(error))))
    return 1, None


def _evaluate(request: dict[str, Any], namespace: dict[str, Any]) -> object:
    """Run the code, and return the value of the last statement if that is an expression."""
    name = request["file_name"]
    tree: Any = ast.parse(request["code"], name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    trees = [(tree, "exec")] if last is None else [(tree, "exec"), (ast.Expression(last.value), "eval")]
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    parts = [compile(part, name, mode, flags, dont_inherit=True) for part, mode in trees]
    if any(_is_awaited(part) for part in parts):
        return _complete(_evaluate_parts(parts, namespace), in_session=bool(request["end_mark"]))
    return [eval(part, namespace) for part in parts][-1]  # noqa: S307  # what this program is for


async def _evaluate_parts(parts: list[types.CodeType], namespace: dict[str, Any]) -> object:
    value = None
    for part in parts:
        value = eval(part, namespace)  # noqa: S307
        if _is_awaited(part):
            value = await value
    return value


def _is_awaited(part: types.CodeType) -> bool:
    """Return whether the code has `await` outside of functions, so that it is a coroutine."""
    return bool(part.co_flags & _CO_COROUTINE)


def _complete(coroutine: Any, *, in_session: bool) -> object:
    """Run a coroutine to its end; in a session in the loop of all calls, where tasks of earlier code go on."""
    import asyncio  # slow, and few programs need it

    if not in_session:
        return asyncio.run(coroutine)
    if not _loops or _loops[0].is_closed():
        _loops[:] = [asyncio.new_event_loop()]
    return _loops[0].run_until_complete(coroutine)


def _beginning(value: object, max_chars: int) -> tuple[str, int] | None:
    if value is None:
        return None
    text = repr(value)
    return str.__getitem__(text, slice(0, max_chars)), str.__len__(text)  # also of a subclass of str


def _frames_of_code(error: BaseException) -> types.TracebackType | None:
    """Return the traceback without the frames of this program, and of the parser and the event loop that it calls."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith((__file__, ast.__file__, _ASYNCIO)):
        frame = frame.tb_next
    return frame


def _draw_figures(max_images: int, max_bytes: int) -> tuple[list[str], list[str]]:
    """Return the open figures of matplotlib as PNG in base64, and notes about those that are left out."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return [], []
    images: list[str] = []
    notes: list[str] = []
    with _noting_errors(notes):
        numbers = pyplot.get_fignums()
        for number in numbers[:max_images]:
            with _noting_errors(notes):
                png = io.BytesIO()
                pyplot.figure(number).savefig(png, format="png")
                if png.tell() > max_bytes:
                    raise ValueError(f"it has {png.tell():,} bytes, more than {max_bytes:,}")
                images.append(base64.b64encode(png.getvalue()).decode())
        if len(numbers) > max_images:
            notes.append(f"{len(numbers) - max_images} more figures are left out. Draw at most {max_images} in a call.")
        pyplot.close("all")
    return images, notes


@contextmanager
def _noting_errors(notes: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # figures, and matplotlib itself, may be of the code's own making
        notes.append(f"A figure is left out: {type(error).__name__}: {error}"[:1000])


def _end_stdin() -> None:
    """Let the code read the end of the file instead of the requests."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the code may have closed or replaced it
            stream.flush()


def _write(descriptor: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    with suppress(OSError):  # the code may have closed it
        while data:
            data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
