"""Secrets in the results of other calls that a tool returns: no log, span or recording of its call shows them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ahvn_tools import ToolContext, ToolError, Toolkit, ToolResult
from ahvn_tools.binding import EnvironmentVariable
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.middleware import keep_large, log, record, trace

TOKEN = "canary-0123456789"


def leaky_kit(*middleware: Any, name: str = "k", resolver: Any = None) -> Toolkit:
    """Return a toolkit with a tool that returns its token: from the state, or from the resolver."""
    kit = Toolkit(name, middleware=middleware).bind("token", secret=True, resolver=resolver)

    @kit.tool
    def debug(token: str) -> str:
        """Return the token many times."""
        return "\n".join(f"{number} auth={token}" for number in range(200))

    return kit.add(*kit.background_tools())


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def reports(tmp_path: Path, spans: InMemorySpanExporter) -> tuple[list[Any], Any]:
    """Return middleware that reports each call, and a function that returns all reports as a text."""
    provider, lines = TracerProvider(), list[str]()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    file = tmp_path / "calls.jsonl"
    layers = [log(lines.append, max_chars=4_000), trace(provider.get_tracer("t"), content=True), record(file)]

    def read() -> str:
        attributes = [str(dict(span.attributes or {})) for span in spans.get_finished_spans()]
        return "\n".join([*lines, *attributes, file.read_text("utf-8")])

    return layers, read


def fresh_tokens() -> Any:
    numbers = itertools.count()
    return lambda: f"canary-{next(numbers):010}"


@pytest.mark.parametrize("has_resolver", [False, True], ids=["state", "resolver"])
@pytest.mark.parametrize("in_folder", [False, True], ids=["memory", "folder"])
def test_a_kept_result_is_read_without_secrets_in_reports(
    reports: Any, tmp_path: Path, in_folder: bool, has_resolver: bool
) -> None:
    layers, read = reports
    keep = keep_large(1_000, folder=tmp_path / "kept" if in_folder else None)
    kit = leaky_kit(*layers, keep, resolver=fresh_tokens() if has_resolver else None)
    session = kit.session(session_id="ann", token=TOKEN)
    handle = session.exec("debug").meta["kept"]["handle"]
    for arguments in (
        {"start": 1, "limit": 60},
        {"start": 10, "limit": 5, "unit": "lines"},
        {"start": 17, "limit": 33},
    ):
        assert "canary" in session.call("read_result", {"handle": handle, **arguments})
    assert "canary" in session.call("search_result", {"handle": handle, "text": "99 auth"})
    assert "search_result" in read()
    assert "canary" not in read()
    assert "234567" not in read()  # a part of the token, at the edge of a page


def test_another_process_masks_what_its_session_binds(reports: Any, tmp_path: Path) -> None:
    layers, read = reports
    first = leaky_kit(keep_large(1_000, folder=tmp_path / "kept")).session(session_id="ann", token=TOKEN)
    handle = first.exec("debug").meta["kept"]["handle"]
    second = leaky_kit(*layers, keep_large(1_000, folder=tmp_path / "kept")).session(session_id="ann", token=TOKEN)
    assert "canary" in second.call("read_result", {"handle": handle, "start": 3, "limit": 40})
    assert "read_result" in read()
    assert "canary" not in read()


@pytest.mark.parametrize("has_resolver", [False, True], ids=["state", "resolver"])
def test_the_result_of_a_background_call_is_read_without_secrets_in_reports(reports: Any, has_resolver: bool) -> None:
    layers, read = reports
    session = leaky_kit(*layers, resolver=fresh_tokens() if has_resolver else None).session(token=TOKEN)
    call_id = session.call("start_call", {"name": "debug"})["id"]
    assert "canary" in str(session.call("wait_for_call", {"id": call_id}))
    assert "canary" in str(session.call("call_status", {"id": call_id}))
    assert "canary" in str(session.call("cancel_call", {"id": call_id}))
    assert "cancel_call" in read()
    assert "canary" not in read()


def test_a_middleware_of_one_call_masks_the_secrets_of_the_tool_that_call_tool_calls(reports: Any) -> None:
    layers, read = reports
    kit = leaky_kit(resolver=fresh_tokens()).add_search()
    assert "canary" in kit.exec("call_tool", {"name": "debug"}, middleware=layers).text
    assert "call_tool" in read()
    assert "canary" not in read()


def test_reports_of_every_call_mask_the_secrets_of_the_session(reports: Any) -> None:
    layers, read = reports
    notes: list[str] = []
    kit = Toolkit("k", middleware=layers).bind("token", secret=True)

    @kit.tool
    def write(token: str) -> str:
        """Write a note."""
        notes.append(f"auth={token}")
        return "written"

    @kit.tool
    def read_notes() -> list[str]:
        """Read the notes."""
        return notes

    @kit.tool
    def ask_another(context: ToolContext) -> str:
        """Call another tool."""
        return str(context.toolkit.call("read_notes"))

    session = kit.session(token=TOKEN)
    session.call("write")
    assert session.call("read_notes") == [f"auth={TOKEN}"]
    assert TOKEN in session.call("ask_another")
    session.exec("write", {"unknown": TOKEN})
    assert "read_notes" in read()
    assert "canary" not in read()


def test_secrets_of_the_session_are_those_of_any_kind_of_binding(reports: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, read = reports
    kit = Toolkit("k", middleware=layers)

    def login(api_key: str, password: str, pin: str, token: str) -> str:
        """Log in."""
        return ""

    monkeypatch.setenv("CANARY", "canary-environment")
    kit.add(login, preset={"password": "canary-preset"})
    kit.bind("api_key").bind("pin", secret=True, default="canary-default").bind(
        "token", resolver=EnvironmentVariable("CANARY")
    )
    kit.add(lambda text: text, name="echo", description="Return a text.")
    text = "canary-state canary-preset canary-default canary-environment"
    assert kit.session(api_key="canary-state").call("echo", {"text": text}) == text
    assert "canary" not in read()


def test_another_session_and_what_is_not_secret_stay_in_reports(reports: Any) -> None:
    layers, read = reports
    kit = leaky_kit(*layers).bind("user")
    kit.add(lambda text, user="": text, name="echo", description="Return a text.")
    kit.add(lambda text: text, name="echo_alone", description="Return a text.")
    session = kit.session(token="another-token", user="ann-of-the-shop")
    session.call("echo_alone", {"text": f"{TOKEN} ann-of-the-shop"})
    assert f"{TOKEN} ann-of-the-shop" in read()


def test_a_program_masks_the_secrets_of_the_results_that_it_reads(reports: Any) -> None:
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    from ahvn_tools.code_mode import MontySandbox

    layers, read = reports
    with MontySandbox() as sandbox:
        kit = leaky_kit(*layers, keep_large(1_000), resolver=fresh_tokens()).add_code_mode(sandbox=sandbox)
        session = kit.session()
        handle = session.exec("debug").meta["kept"]["handle"]
        code = f"await read_result(handle={handle!r}, start=3, limit=200)"
        assert "canary" in session.exec("run_code", {"code": code}).text
    assert "run_code" in read()
    assert "canary" not in read()


@pytest.mark.parametrize("kind", ["exception", "ToolError", "result"])
def test_errors_of_a_tool_that_calls_others_mask_the_secrets_of_the_session(
    reports: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    layers, read = reports
    kit = leaky_kit(*layers)

    @kit.tool
    def relay(context: ToolContext) -> ToolResult:
        """Call another tool, and fail."""
        text = str(context.toolkit.call("debug"))
        if kind == "exception":
            raise ValueError(text)
        if kind == "ToolError":
            raise ToolError(text)
        return ToolResult(error=ErrorDetail(code="tool_error", message=text))

    result = kit.session(token=TOKEN).exec("relay")
    assert result.is_error
    assert "canary" not in result.text + caplog.text + read()
