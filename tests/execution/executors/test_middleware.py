"""What wraps a call wraps one whose body runs in an executor, and no bound value is written where none is elsewhere."""

from __future__ import annotations

import logging
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from ahvn_tools import Secret, ToolContext, Toolkit, ToolSpec, WorkerResolver
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.observe import observe
from ahvn_tools.middleware.record import record, replay
from ahvn_tools.middleware.retry import retry
from ahvn_tools.middleware.trace import trace
from tests.execution.executors import bodies

BOUND = "bound-canary-4711"
RESOLVED = "resolved-canary-4711"
SENT = "secret-canary-4711"
PLACES = {"here": {}, "there": {"isolation": "executor"}}


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def to_tracer(spans: InMemorySpanExporter) -> Any:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider.get_tracer("tests")


class ConnectionLostError(Exception):
    """An exception with its values in attributes, too."""

    def __init__(self, user: str, database: str) -> None:
        super().__init__(user, database)
        self.database = database


def get_database() -> str:
    return RESOLVED


def fail(name: str, user: str, database: str, *, kind: str = "ValueError") -> NoReturn:
    """Raise an exception with all bound values in its text, and in that of its cause."""
    try:
        raise KeyError(f"{user} {database}")
    except KeyError as error:
        text = f"{name} {user} {database}"
        raise (ConnectionLostError(user, database) if kind == "own" else ValueError(text)) from error


def login(user: str, password: Annotated[str, Secret]) -> str:
    return f"{user} {password}"


class Point(BaseModel):
    x: int


def move(x: int) -> Point:
    return Point(x=x)


def report_and_raise(context: ToolContext) -> NoReturn:
    context.append_output("before")
    raise RuntimeError("no more")


@pytest.mark.parametrize("kind", ["ValueError", "own"])
def test_no_log_line_span_record_result_or_pickle_has_a_bound_value(executor, spans, tmp_path, caplog, kind):
    caplog.set_level(logging.DEBUG)
    lines: list[str] = []
    middleware = [log(lines.append, traceback=True), trace(to_tracer(spans), content=True), record(tmp_path / "calls")]
    kit = Toolkit("k", executor=executor, middleware=middleware, mask_errors=False)
    kit.add(fail, isolation="executor").bind("user", default=BOUND)
    kit.bind("database", resolver=WorkerResolver(get_database), secret=True)
    result = kit.exec("fail", {"name": "ann", "kind": kind})
    written = [
        *lines,
        caplog.text,
        (tmp_path / "calls").read_text(),
        *(span.to_json() for span in spans.get_finished_spans()),
    ]
    assert len(written) == 4
    shown = "\n".join([*written, repr(result), str(pickle.dumps(result)), str(kit.definitions())])
    assert (BOUND in shown, RESOLVED in shown) == (False, False)
    assert "refused" in lines[0] or "<user>" in lines[0]
    assert f"{Path(__file__).name}" in lines[0]


@pytest.mark.parametrize("kind", ["ValueError", "own"])
def test_a_value_that_the_worker_made_is_not_in_the_exception_that_its_caller_gets(executor, kind):
    kit = Toolkit("k", executor=executor).add(fail, isolation="executor").bind("user", default=BOUND)
    kit.bind("database", resolver=WorkerResolver(get_database))
    with pytest.raises(Exception) as raised:
        kit.call("fail", {"name": "ann", "kind": kind})
    assert raised.type.__name__ == ("ValueError" if kind == "ValueError" else "ConnectionLostError")
    assert isinstance(raised.value, ValueError) == (kind == "ValueError")
    shown = "".join(traceback.format_exception(raised.value)) + repr(vars(raised.value))
    assert (RESOLVED in shown, "<database>" in shown) == (False, True)


def test_a_secret_that_may_be_sent_is_in_no_log_line(executor, spans, caplog):
    caplog.set_level(logging.DEBUG)
    lines: list[str] = []
    kit = Toolkit("k", executor=executor, middleware=[log(lines.append), trace(to_tracer(spans), content=True)])
    kit.add(login, isolation="executor", ship_secrets=True).bind("user", default=BOUND)
    assert kit.call("login", {"password": SENT}) == f"{BOUND} {SENT}"
    shown = "\n".join([*lines, caplog.text, *(span.to_json() for span in spans.get_finished_spans())])
    assert (BOUND in shown, SENT in shown, "<password>" in shown) == (False, False, True)


def test_the_host_reads_where_a_tool_has_failed(executor, caplog):
    kit = Toolkit("k", executor=executor).add(report_and_raise, isolation="executor")
    assert kit.exec("report_and_raise").text == "Error calling tool 'report_and_raise'"
    line = next(number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "no more" in text)
    assert f"raised RuntimeError ({Path(__file__).name}, line {line})." in caplog.text


@pytest.mark.parametrize("place", PLACES)
def test_a_span_encloses_the_call_and_has_its_error(executor, spans, place):
    kit = Toolkit("k", executor=executor, middleware=[trace(to_tracer(spans))])
    kit.add(bodies.add, report_and_raise, **PLACES[place])
    kit.call("add", {"a": 1})
    *_, last = kit.stream("report_and_raise")
    first, second = spans.get_finished_spans()
    assert (first.name, first.status.is_ok) == ("execute_tool add", True)
    assert (second.attributes["error.type"], second.status.is_ok) == ("tool_error", False)
    assert last.error.code == "tool_error"


def test_a_recorded_call_is_replayed_without_the_executor(executor, tmp_path):
    path = tmp_path / "calls"
    recorded = Toolkit("k", executor=executor, middleware=[record(path)])
    recorded.add(bodies.count, move, isolation="executor")
    made = [
        [chunk.value for chunk in recorded.stream("count", {"n": 3})],
        recorded.exec("move", {"x": 3}).structured_content,
    ]
    replayed = Toolkit("k", middleware=[replay(path)]).add(bodies.count, move, isolation="executor")
    assert [
        [chunk.value for chunk in replayed.stream("count", {"n": 3})],
        replayed.exec("move", {"x": 3}).structured_content,
    ] == made


def test_a_result_has_the_form_of_its_output_schema(executor):
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    checked = ToolSpec.from_schema("checked", {"type": "object"}, lambda: {"x": "no"}, output_schema=schema)
    found = []
    for options in PLACES.values():
        kit = Toolkit("k", executor=executor).add(move, checked, **options)
        moved, refused = kit.exec("move", {"x": 2}), kit.exec("checked")
        found.append((moved.value, moved.structured_content, moved.text, refused.value, refused.error))
    assert found[0] == found[1]
    assert found[0][1] == {"x": 2}


def test_a_structured_answer_is_checked_here_and_is_not_sent(executor):
    class Verdict(BaseModel):
        is_good: bool

    session = (
        Toolkit("k", executor=executor).add(bodies.add, isolation="executor").session().finish_with("add", Verdict)
    )
    result = session.exec("add", {"a": 1, "is_good": True})
    assert (result.value, result.meta["structured"]) == (2, Verdict(is_good=True))
    assert session.exec("add", {"a": 1, "is_good": "hot"}).error.code == "invalid_parameters"


def test_a_failed_call_is_observed_once_and_not_repeated_without_a_hint(executor, tmp_path):
    seen: list[tuple[Any, ...]] = []
    kit = Toolkit(
        "k",
        executor=executor,
        middleware=[observe(lambda *end: seen.append(end)), retry(attempts=3, initial_delay=0.001)],
    )
    kit.add(bodies.append, fail_once, isolation="executor")
    assert kit.exec("fail_once", {"path": str(tmp_path / "runs")}).error.code == "tool_error"
    assert (tmp_path / "runs").read_text() == "x"
    assert [(name, success, code) for name, success, _, code in seen] == [("fail_once", False, "tool_error")]


def fail_once(path: str) -> NoReturn:
    bodies.append(path)
    raise ConnectionError("gone")


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_call_waits_for_its_approval_before_anything_is_sent(executor, is_approved):
    asked: list[Any] = []
    kit = Toolkit("k", executor=executor, approver=lambda request: not asked.append(request) and is_approved)
    kit.add(bodies.greet, isolation="executor", requires_approval=True).bind("user", default=BOUND)
    result = kit.exec("greet", {"name": "x"})
    assert (result.value or result.error.code) == (f"{BOUND} greets x" if is_approved else "rejected")
    assert BOUND not in repr(asked)


def test_a_lost_worker_is_retried_by_the_middleware_where_the_tool_may_be_repeated():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    spec = ToolSpec.from_function(bodies.add, annotations={"readOnlyHint": True})
    kit = Toolkit("k", executor=executor, middleware=[retry(attempts=2, initial_delay=0.001)])
    with pytest.raises(ToolConnectionError, match="after shutdown"):
        kit.add(spec, isolation="executor").call("add", {"a": 1})
