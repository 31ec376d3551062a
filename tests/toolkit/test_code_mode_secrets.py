"""Secrets and bound values of the calls of programs, which no log, span or recording shows."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ahvn_tools import Secret, Toolkit
from ahvn_tools.middleware import log, record, replay, trace

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that its package is there
from ahvn_tools.toolkit import program_secrets
from tests.toolkit.test_code_mode_rules import answer


def login_kit(sandbox: MontySandbox, *middleware: Any) -> Toolkit:
    kit = Toolkit("k", state={"token": "canary-token"}, middleware=middleware)

    @kit.tool
    def login(name: str, phrase: Annotated[str, Secret], token: str) -> str:
        """Log in."""
        return f"{name} {phrase} {token}"

    @kit.tool
    def read(token: str) -> str:
        """Read the token."""
        return token

    @kit.tool
    def look(headers: dict[str, str]) -> str:
        """Look."""
        return "\n".join(headers)

    return kit.bind("token").add_code_mode(sandbox=sandbox)


SECRET_PROGRAMS = {
    "literal": "await login('ann', 'canary-phrase')",
    "variable": "phrase = 'canary-phrase'\nprint(phrase)\nawait login('ann', phrase)",
    "parts": "first = 'canary-'\nawait login('ann', first + 'phrase')",
    "f-string": "name = 'ann'\nawait login(name, f'canary-phrase-{name}')",
    "wrong types": "await login(1, 'canary-phrase')",
    "key of a dict": "await look({'password': 'canary-phrase'})",
    "failure": "phrase = 'canary-phrase'\nraise ValueError(phrase)\nawait login('ann', phrase)",
    "bound value": "await read()",
    "bound value in an error": "raise ValueError(await read())",
    "wide letters": "await ｌogin('ann', 'canary-phrase')",  # Python reads it as `login`
}


@pytest.mark.parametrize("program", SECRET_PROGRAMS)
def test_secrets_and_bound_values_of_calls_are_in_no_report_of_the_program(
    sandbox: MontySandbox, program: str, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    spans, provider, file = InMemorySpanExporter(), TracerProvider(), tmp_path / "calls.jsonl"
    provider.add_span_processor(SimpleSpanProcessor(spans))
    caplog.set_level(logging.INFO)
    kit = login_kit(sandbox, log(traceback=True), trace(provider.get_tracer("t"), content=True), record(file))
    kit.exec("run_code", {"code": SECRET_PROGRAMS[program]})
    exported = "".join(span.to_json() for span in spans.get_finished_spans())
    for text in (caplog.text, exported, file.read_text()):
        assert "run_code" in text
        assert "canary" not in text


def test_bound_values_are_in_no_report_of_a_program_that_has_waited(
    sandbox: MontySandbox, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "calls.jsonl"

    def read(owner: str) -> str:
        """Read the owner."""
        return owner

    def send() -> str:
        """Send."""
        return "sent"

    def make_kit(*middleware: Any) -> Toolkit:
        kit = Toolkit("k", state={"owner": "canary-owner"}, secret_key=b"k" * 16, middleware=middleware)
        return kit.add(read).add(send, requires_approval=True).bind("owner").add_code_mode(sandbox=sandbox)

    kit = make_kit(log(), record(file))
    code = "owner = await read()\nsent = await send()\n[owner, sent]"
    done = kit.resume(kit.run(answer(code)), approved=True)
    assert done.results[0][1].value == ["canary-owner", "sent"]
    assert '["<owner>", "sent"]' in caplog.text
    assert "canary" not in caplog.text + file.read_text()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    approvals = [line["result"]["meta"].get("approval") for line in lines if line.get("tool") == "run_code"]
    assert [None if approval is None else approval["program"] for approval in approvals] == [None, None]
    assert approvals[0] is not None
    offline = make_kit(replay(file))
    assert offline.resume(offline.run(answer(code)), approved=True).results[0][1].value == ["<owner>", "sent"]


def test_the_code_of_other_programs_is_logged(sandbox: MontySandbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    login_kit(sandbox, log()).exec("run_code", {"code": "6 * 7"})
    assert 'run_code {"code": "6 * 7"} -> ok' in caplog.text


async def test_literals_of_a_program_with_secrets_are_found_outside_of_the_event_loop(
    sandbox: MontySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    find = program_secrets.find_literals

    def remember(code: str) -> Iterator[str]:
        threads.append(threading.get_ident())
        return find(code)

    monkeypatch.setattr(program_secrets, "find_literals", remember)
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)
    assert await kit.acall("run_code", {"code": "{'password': 'canary-secret'}"}) == {"password": "canary-secret"}
    assert threads
    assert threading.get_ident() not in threads
