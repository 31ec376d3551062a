"""Bodies that the tests of executors share, and that their worker processes import."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

from ahvn_tools import Secret, ToolContext, ToolError


def add(a: int, b: int = 1) -> int:
    return a + b


async def add_async(a: int, b: int = 1) -> int:
    return a + b


def greet(name: str, user: str) -> str:
    return f"{user} greets {name}"


def login(name: str, token: Annotated[str, Secret]) -> str:
    return f"{name} {len(token)}"


def fail_with_token(token: str) -> NoReturn:
    raise ValueError(f"refused {token}")


def count(n: int) -> Iterator[int]:
    yield from range(n)


async def count_async(n: int) -> AsyncIterator[int]:
    for number in range(n):
        yield number


def report(n: int, context: ToolContext) -> dict[str, Any]:
    """Report progress and output, and return what there is of the state."""
    for number in range(n):
        context.report_progress(number, n, f"step {number}")
    context.append_output("done")
    return dict(context.state)


def read_context(context: ToolContext) -> list[Any]:
    return [context.call_id, context.tool, context.run_id, context.session_id]


def wait_until_cancelled(path: str, context: ToolContext) -> None:
    """Write to a file when the body begins and when it is cancelled."""
    Path(path).write_text("began")
    while not context.cancelled:
        time.sleep(0.005)
    Path(path).write_text("cancelled")


def ignore(path: str) -> None:
    """Run until there is another file, and look at nothing else."""
    while not Path(f"{path}.end").exists():
        time.sleep(0.01)
    Path(path).write_text("ended")


def ask(what: str, context: ToolContext) -> str:
    context.ask(what, {"what": what})
    return f"did {what}"


def leave(context: ToolContext) -> str:
    context.end_session()
    return "left"


def die(path: str, times: int) -> str:
    """End the worker process, for so many runs; then return."""
    with Path(path).open("a") as file:
        file.write("x")
    if len(Path(path).read_text()) <= times:
        os._exit(3)
    return "alive"


def yield_and_die(path: str) -> Iterator[int]:
    with Path(path).open("a") as file:
        file.write("x")
    yield 1
    os._exit(3)


def output_and_die(path: str, context: ToolContext) -> str:
    with Path(path).open("a") as file:
        file.write("x")
    context.append_output("half")
    os._exit(3)


def append(path: str) -> str:
    with Path(path).open("a") as file:
        file.write("x")
    return path


def raise_error(kind: str) -> NoReturn:
    error = ERRORS[kind]()
    raise error


class OwnError(Exception):
    """An exception with two arguments."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class UnloadableError(Exception):
    """Its unpickling calls it without what it needs."""

    def __init__(self, *, code: int) -> None:
        super().__init__("unloadable")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "own": lambda: OwnError(7, "wrong"),
    "unpicklable": UnpicklableError,
    "unloadable": lambda: UnloadableError(code=1),
    "tool": lambda: ToolError("try again"),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "timeout": lambda: TimeoutError("slow"),
    "recursion": lambda: RecursionError("deep"),
}


class Unloadable:
    """Pickled here, and refused where it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return refuse_loading, ()


def refuse_loading() -> NoReturn:
    raise SystemExit("never")


def return_kind(kind: str) -> Any:
    return {
        "lock": threading.Lock,
        "unloadable": Unloadable,
        "exotic": lambda: {1, 2},
        "bytes": lambda: b"x" * 2_000_000,
    }[kind]()


def yield_kind(kind: str) -> Iterator[Any]:
    yield 1
    yield return_kind(kind)


def run_plan(items: list[int], error: str | None, context: ToolContext) -> Iterator[int]:
    """Yield items, then raise an error, if one is named."""
    yield from items
    if error is not None:
        raise_error(error)
