"""The log of calls: what a line says, and what it never says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Annotated

import pytest

from ahvn_tools import Secret, ToolContext, ToolError, Toolkit, ToolSpecError
from ahvn_tools.middleware import inline
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.log import log
from ahvn_tools.results import ToolResult

CANARY = "canary-7f3a9c"


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def sign_in(name: str, phrase: Annotated[str, Secret], options: dict[str, str], account: str = "") -> str:
    """Sign in."""
    if name == "raise":
        raise ValueError(f"{phrase} is not the phrase of {account}")
    return f"{name} with {phrase} on {account}"


def kit_of(*functions, **options) -> Toolkit:
    kit = Toolkit("kit", middleware=[log(**options)])
    for function in functions:
        kit.add(function)
    return kit


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="ahvn_tools.calls")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "ahvn_tools.calls"]


def test_a_line_contains_tool_arguments_outcome_duration_and_result(lines, caplog):
    kit_of(add).session(session_id="s1").exec("add", {"a": 1})
    (line,) = lines()
    assert line.startswith('add {"a": 1} -> ok in 0.')
    assert line.endswith(" s: 2")
    record = caplog.records[0]
    assert (record.tool, record.session_id, record.outcome, record.is_interrupted) == ("add", "s1", "ok", False)
    assert record.call_id.startswith("call_")
    assert 0 <= record.duration < 5


def test_the_line_of_a_failed_call_contains_its_code(lines):
    kit_of(add).exec("add", {"a": "x"})
    assert "-> invalid_parameters in " in lines()[0]


@pytest.mark.parametrize("name", ["ann", "raise"])
def test_secret_arguments_and_bound_values_are_masked_everywhere(lines, name):
    kit = kit_of(sign_in)
    kit.bind("account", default=CANARY + "-bound")
    kit.exec("sign_in", {"name": name, "phrase": CANARY, "options": {"apiKey": CANARY + "-2", "colour": "red"}})
    (line,) = lines()
    assert CANARY not in line
    assert '"phrase": "***"' in line
    assert '"apiKey": "***"' in line
    assert '"colour": "red"' in line
    assert "<phrase>" in line
    assert "<account>" in line


def test_the_value_of_a_resolver_is_masked(lines):
    kit = kit_of(sign_in)
    kit.bind("account", resolver=lambda: CANARY)
    kit.exec("sign_in", {"name": "ann", "phrase": "x", "options": {}})
    assert CANARY not in lines()[0]


def test_long_arguments_and_results_are_cut(lines):
    def echo(text: str) -> str:
        return text

    kit_of(echo, max_chars=50).exec("echo", {"text": "x" * 10_000})
    (line,) = lines()
    assert len(line) < 200
    assert line.count("x…") == 2


def test_line_breaks_are_escaped(lines):
    def echo(text: str) -> str:
        return text

    kit_of(echo).exec("echo", {"text": "a\nb\u2028c\u202ed"})
    assert lines()[0].isprintable()


def test_results_can_be_left_out(lines):
    kit_of(add, results=False).exec("add", {"a": 41})
    assert lines()[0].endswith(" s")


def test_arguments_are_logged_as_they_were_before_the_body(lines):
    def empty(items: list[int]) -> int:
        items.clear()
        return 0

    kit_of(empty).exec("empty", {"items": [1, 2]})
    assert '"items": [1, 2]' in lines()[0]


async def test_a_cancelled_call_is_logged_as_interrupted(lines, caplog):
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(kit_of(wait).aexec("wait"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lines()[0].startswith("wait {} -> cancelled, interrupted in ")
    assert caplog.records[0].is_interrupted


def test_an_exception_of_inner_middleware_is_logged_and_raised(lines):
    @inline
    async def refuse(call, next):
        raise ToolError("no")

    kit = kit_of(add)
    kit.use(refuse)
    assert kit.exec("add", {"a": 1}).error.message == "no"
    assert "-> tool_error in " in lines()[0]
    assert lines()[0].endswith(" s: no")


def test_a_call_refused_by_a_limit_is_not_interrupted(lines, caplog):
    kit = kit_of(add)
    kit.use(limit(per_minute=1))
    kit.exec("add", {"a": 1})
    kit.exec("add", {"a": 1})
    assert "-> limit_exceeded in " in lines()[1]
    assert "the limit is 1 per minute" in lines()[1]
    assert not caplog.records[1].is_interrupted


def test_the_exception_text_of_a_middleware_is_not_logged(lines):
    @inline
    async def fail(call, next):
        raise ValueError(CANARY)

    kit = kit_of(add)
    kit.use(fail)
    kit.exec("add", {"a": 1})
    assert "-> tool_error in " in lines()[0]
    assert CANARY not in lines()[0]


@pytest.mark.parametrize("leave", ["close", "cancel"])
async def test_a_stream_whose_reader_leaves_is_logged_with_its_partial_result(lines, leave):
    async def watch() -> AsyncIterator[str]:
        yield "one"
        yield "two"
        await asyncio.sleep(60)

    reader = kit_of(watch).astream("watch")
    assert [(await anext(reader)).value for _ in range(2)] == ["one", "two"]
    if leave == "close":
        await reader.aclose()
    else:
        task = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert lines()[0].startswith("watch {} -> cancelled, interrupted in ")
    assert lines()[0].endswith(' s: ["one", "two"]')


def test_a_call_cancelled_by_its_id_is_logged_with_its_partial_result(lines):
    kit = kit_of()

    @kit.tool
    async def watch(context: ToolContext) -> AsyncIterator[str]:
        yield "one"
        kit.cancel(context.call_id)
        await asyncio.sleep(60)

    assert list(kit.stream("watch"))[-1].is_interrupted
    assert lines()[0].startswith("watch {} -> cancelled, interrupted in ")
    assert lines()[0].endswith(' s: ["one"]')


def test_an_interrupted_result_is_logged_as_interrupted(lines):
    @inline
    async def stop(call, next):
        return ToolResult(is_interrupted=True)

    kit = kit_of(add)
    kit.use(stop)
    kit.exec("add", {"a": 1})
    assert "-> cancelled, interrupted in " in lines()[0]


def test_logger_and_level_can_be_chosen(caplog):
    caplog.set_level(logging.DEBUG, logger="mine")
    kit_of(add, logger="mine", level=logging.DEBUG).exec("add", {"a": 1})
    kit_of(add, logger=logging.getLogger("mine"), level=logging.WARNING).exec("add", {"a": 1})
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("mine", logging.DEBUG),
        ("mine", logging.WARNING),
    ]


def test_a_function_takes_the_lines():
    written: list[str] = []
    kit_of(add, logger=written.append).exec("add", {"a": 1})
    assert written[0].startswith('add {"a": 1} -> ok in ')


def test_a_logger_of_structlog_takes_the_lines_with_fields():
    class Bound:
        def __init__(self, fields):
            self.fields = fields

        def bind(self, **fields):
            return Bound(fields)

        def log(self, level, event):
            written.append((level, event, self.fields))

    written: list[tuple[int, str, dict]] = []
    kit_of(add, logger=Bound({}), level=logging.WARNING).exec("add", {"a": 1})
    ((level, event, fields),) = written
    assert (level, fields["tool"], fields["outcome"]) == (logging.WARNING, "add", "ok")
    assert event.startswith('add {"a": 1} -> ok in ')


async def _write_later(line):
    """Take a line, in a loop."""


@pytest.mark.parametrize("logger", [3, _write_later])
def test_what_cannot_take_a_line_is_refused(logger):
    with pytest.raises(ToolSpecError, match="`log` writes to a logger"):
        log(logger)


def test_the_line_of_a_failed_call_has_the_text_that_the_model_does_not_receive(lines):
    def fail(account: str) -> None:
        raise LookupError(f"no account {account}")

    kit = kit_of(fail)
    kit.bind("account", default=CANARY + "-bound")
    assert kit.exec("fail").text == "Error calling tool 'fail'"
    assert lines()[0].endswith(" s: LookupError: no account <account>")


def test_the_text_of_a_foreign_exception_is_not_read_by_the_log(lines):
    class ForeignError(Exception):
        def __str__(self) -> str:
            return CANARY

    def fail() -> None:
        raise ForeignError

    kit_of(fail, traceback=True).exec("fail")
    assert " s: ForeignError (test_log.py, line " in lines()[0]
    assert lines()[0].splitlines()[-1] == "ForeignError"


def test_a_traceback_follows_the_line_without_secrets_and_variables(lines):
    def look_up(token: str) -> None:
        own = "own-7f3a9c"
        raise LookupError(f"no\n{token}" if own else own)

    def read(token: str) -> None:
        try:
            look_up(token)
        except LookupError as error:
            raise RuntimeError("unreadable") from error

    kit = kit_of(read, traceback=True)
    kit.bind("token", default=CANARY, secret=True)
    kit.exec("read")
    line, *rest = lines()[0].splitlines()
    assert line.endswith("RuntimeError: unreadable")
    assert [part for part in rest if not part.startswith(" ")] == [
        "Traceback (most recent call last):",
        "LookupError: no\\n<token>",
        "",
        "The exception above led to this one:",
        "",
        "Traceback (most recent call last):",
        "RuntimeError: unreadable",
    ]
    assert any(part.endswith(", in look_up") for part in rest)
    assert CANARY not in lines()[0]


def test_the_traceback_of_a_group_contains_its_members(lines):
    async def gather() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async def fail() -> None:
        raise KeyError("deep")

    kit_of(gather, traceback=True).exec("gather")
    assert "  | KeyError: 'deep'" in lines()[0].splitlines()


def test_the_traceback_of_a_middleware_is_logged(lines):
    @inline
    async def broken(call, next):
        raise ZeroDivisionError

    kit = kit_of(add, traceback=True)
    kit.use(broken)
    kit.exec("add", {"a": 1})
    assert lines()[0].splitlines()[-1] == "ZeroDivisionError"
    assert ", in broken" in lines()[0]


def test_a_refused_call_has_no_traceback_in_the_log(lines):
    kit_of(add, traceback=True).exec("add", {"a": "x"})
    assert "\n" not in lines()[0]


def test_below_the_loggers_level_nothing_is_logged(caplog):
    caplog.set_level(logging.WARNING, logger="ahvn_tools.calls")
    assert kit_of(add).exec("add", {"a": 1}).value == 2
    assert caplog.records == []
