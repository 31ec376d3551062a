"""The log of calls: what a line says, and what it never says."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from ahvn_tools import Secret, ToolContext, ToolError, Toolkit, ToolSpecError
from ahvn_tools.middleware.limit import limit
from ahvn_tools.middleware.log import log

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
    assert all(part.startswith("  ") for part in rest)
    assert [part[2:] for part in rest if not part.startswith("    ")] == [
        "Traceback (most recent call last):",
        "LookupError: no",
        "<token>",
        "",
        "The above exception was the direct cause of the following exception:",
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
    assert "      | KeyError: 'deep'" in lines()[0].splitlines()


def test_the_traceback_of_a_middleware_is_logged(lines):
    async def broken(call, next):
        raise ZeroDivisionError

    kit = kit_of(add, traceback=True)
    kit.use(broken)
    kit.exec("add", {"a": 1})
    assert lines()[0].splitlines()[-1] == "  ZeroDivisionError"
    assert ", in broken" in lines()[0]


def test_a_refused_call_has_no_traceback_in_the_log(lines):
    kit_of(add, traceback=True).exec("add", {"a": "x"})
    assert "\n" not in lines()[0]


def test_below_the_loggers_level_nothing_is_logged(caplog):
    caplog.set_level(logging.WARNING, logger="ahvn_tools.calls")
    assert kit_of(add).exec("add", {"a": 1}).value == 2
    assert caplog.records == []


def test_a_logger_that_fails_is_logged_and_costs_no_result(caplog):
    def fail(line: str) -> None:
        raise OSError("disk full")

    kit = kit_of(add, logger=fail)
    assert kit.call("add", {"a": 1}) == 2
    assert kit.exec("add", {"a": "x"}).error.code == "invalid_parameters"
    assert [result.value for result in kit.stream("add", {"a": 1})] == [2]
    assert "The log of the call of 'add' failed." in caplog.text
    assert "disk full" in caplog.text


def test_a_logger_that_fails_replaces_no_exception_of_inner_middleware():
    def fail(line: str) -> None:
        raise OSError("disk full")

    async def refuse(call, next):
        raise ToolError("no")

    kit = kit_of(add, logger=fail)
    kit.use(refuse)
    assert kit.exec("add", {"a": 1}).text == "no"


async def test_a_logger_that_fails_does_not_stop_a_cancellation():
    started = asyncio.Event()

    def fail(line: str) -> None:
        raise OSError("disk full")

    async def wait() -> None:
        started.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(kit_of(wait, logger=fail).aexec("wait"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def echo(value: Any) -> Any:
    """Return the value."""
    return value


class TestRedact:
    @pytest.mark.parametrize(
        "value",
        ["id-12345", "see\nid-12345", {"id-12345": 1}, {"a": [{"b": "x id-12345 y"}]}, 'a "quoted" id-12345'],
        ids=["text", "after a line break", "key", "nested", "quoted"],
    )
    def test_what_a_pattern_matches_is_masked_in_arguments_and_result(self, lines, value):
        kit_of(echo, redact=[r"\bid-\d+"]).exec("echo", {"value": value})
        assert "id-1" not in lines()[0]
        assert lines()[0].count("***") == 2

    def test_numbers_are_masked(self, lines):
        kit_of(echo, redact=[re.compile(r"(?<!\d)1\d{10}(?!\d)")]).exec(
            "echo", {"value": [13812345678, 42, True, None]}
        )
        assert lines()[0].startswith('echo {"value": ["***", 42, true, null]} -> ok')
        assert lines()[0].endswith(' s: ["***", 42, true, null]')

    def test_the_result_and_the_arguments_of_the_body_are_unchanged(self):
        assert kit_of(echo, redact=["tea"], logger=print).call("echo", {"value": "tea"}) == "tea"

    def test_several_patterns_apply(self, lines):
        kit_of(echo, redact=("tea", "milk")).exec("echo", {"value": "tea with milk"})
        assert lines()[0].endswith(" s: *** with ***")

    def test_an_error_and_its_traceback_are_masked(self, lines):
        def fail(value: str) -> None:
            raise LookupError(f"no {value}")

        kit_of(fail, redact=[r"id-\d+"], traceback=True).exec("fail", {"value": "id-12345"})
        assert lines()[0].splitlines()[0].endswith(" s: LookupError: no ***")
        assert lines()[0].splitlines()[-1] == "  LookupError: no ***"

    def test_a_partial_result_is_masked(self, lines):
        kit = kit_of(redact=["one"])

        @kit.tool
        async def watch(context: ToolContext) -> AsyncIterator[str]:
            yield "one"
            kit.cancel(context.call_id)
            await asyncio.sleep(60)

        list(kit.stream("watch"))
        assert lines()[0].endswith(' s: ["***"]')

    def test_a_function_redacts_each_text(self, lines):
        kit_of(echo, redact=str.upper).exec("echo", {"value": ["tea", 1]})
        assert lines()[0].startswith('echo {"VALUE": ["TEA", 1]} -> ok')

    @pytest.mark.parametrize("function", [lambda text: 1 / 0, lambda text: None], ids=["raises", "returns no text"])
    def test_a_function_that_fails_costs_no_result_and_shows_nothing(self, lines, caplog, function):
        assert kit_of(echo, redact=function).call("echo", {"value": "tea"}) == "tea"
        assert "tea" not in caplog.text
        assert lines()[0].endswith(" s: ***")
        assert "The function `redact` " in caplog.text

    def test_the_text_of_what_a_function_raises_is_not_logged(self, lines, caplog):
        def fail(text: str) -> str:
            raise ValueError(text)

        kit_of(echo, redact=fail).exec("echo", {"value": "tea"})
        assert lines()[0].startswith('echo {"***": "***"} -> ok')
        assert "tea" not in caplog.text
        assert "ValueError (test_log.py, line " in caplog.text

    @pytest.mark.parametrize("length", range(460, 520, 6))
    def test_what_a_cut_divides_is_masked_whole(self, lines, length):
        text = "x " * (length // 2) + "13812345678"
        kit_of(echo, redact=[r"\b1\d{10}\b"]).exec("echo", {"value": text})
        assert "138" not in lines()[0]

    @pytest.mark.parametrize("max_chars", [500, 100_000])
    def test_nothing_is_shown_of_what_a_long_text_may_contain_at_its_cut(self, lines, max_chars):
        text = "13812345678 " * 10_000
        kit_of(echo, redact=[r"\b1\d{10}\b"], max_chars=max_chars).exec("echo", {"value": text})
        kit_of(echo, redact=[r"\b1\d{10}\b"], max_chars=max_chars).exec("echo", {"value": [text, text]})
        assert "138" not in "".join(lines())

    def test_a_pattern_is_applied_to_the_part_of_a_long_text_that_is_shown(self):
        seen: list[str] = []

        def remember(text: str) -> str:
            seen.append(text)
            return text

        kit_of(echo, redact=remember, logger=print).exec("echo", {"value": ["x" * 1_000_000, "y" * 1_000]})
        assert max(map(len, seen)) < 10_000

    def test_4000_characters_of_a_long_text_are_shown(self, lines):
        kit_of(echo, redact=["tea"], max_chars=100_000).exec("echo", {"value": "x" * 20_000})
        assert "x" * 3_900 in lines()[0]
        assert "x" * 4_001 not in lines()[0]

    def test_bound_values_are_masked_first(self, lines):
        kit = kit_of(sign_in, redact=["canary"])
        kit.bind("account", default=CANARY + "-bound")
        kit.exec("sign_in", {"name": "ann", "phrase": "x", "options": {}})
        assert "<account>" in lines()[0]
        assert "bound" not in lines()[0]

    @pytest.mark.parametrize(
        ("redact", "message"),
        [
            ("sk-.*", r"a list of regular expressions, or a function"),
            (3, r"a list of regular expressions, or a function"),
            ([b"x"], r"not b'x'"),
            ([re.compile(b"x")], r"not re.compile"),
            ([3], r"not 3"),
            (["("], r"'\(' is no regular expression: missing \)"),
            (_write_later, r"not async"),
        ],
        ids=["text", "number", "bytes", "pattern of bytes", "list of numbers", "no pattern", "async"],
    )
    def test_what_cannot_redact_is_refused(self, redact, message):
        with pytest.raises(ToolSpecError, match=message):
            log(redact=redact)
