"""Secrets and bound values of the calls of programs, which no log, span, recording or saved program shows."""

from __future__ import annotations

import base64
import json
import logging
import threading
import zlib
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
from ahvn_tools.toolkit import program_run
from ahvn_tools.toolkit.run import Run
from tests.toolkit.program_desk import Desk, restored, value
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
    "f-string in a failure": "name = login\nraise ValueError(f'canary-phrase-{name}')",
    "text in an f-string in a failure": "name = login\nraise ValueError(f'{\"canary-phrase\"}')",
    "escapes in an f-string in a failure": "name = login\nraise ValueError(f'\\x63anary\\x2dphrase-{name}')",
    "text of two lines in a failure": "name = login\nraise ValueError('canary\\\n-phrase')",
    "escapes in a failure": "name = login\nraise ValueError('\\x63anary\\u002dphrase\\d')",
    "wrong types": "await login(1, 'canary-phrase')",
    "key of a dict": "await look({'password': 'canary-phrase'})",
    "failure": "phrase = 'canary-phrase'\nraise ValueError(phrase)\nawait login('ann', phrase)",
    "bound value": "await read()",
    "bound value in an error": "raise ValueError(await read())",
    "wide letters": "await ｌogin('ann', 'canary-phrase')",  # Python reads it as `login`
}


@pytest.mark.parametrize("program", SECRET_PROGRAMS)
@pytest.mark.default_cases(5)
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
    find = program_run.find_literals

    def remember(code: str) -> Iterator[str]:
        threads.append(threading.get_ident())
        return find(code)

    monkeypatch.setattr(program_run, "find_literals", remember)
    kit = Toolkit("k").add_code_mode(sandbox=sandbox)
    assert await kit.acall("run_code", {"code": "{'password': 'canary-secret'}"}) == {"password": "canary-secret"}
    assert threads
    assert threading.get_ident() not in threads


def test_bound_values_and_secrets_are_in_no_part_of_a_saved_run(
    sandbox: MontySandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk(sandbox)

    @desk.kit.tool
    def login(password: Annotated[str, Secret]) -> str:
        """Log in."""
        raise RuntimeError(f"wrong: {password}")

    @desk.kit.tool
    def fail(user: str) -> str:
        """Fail with a bound value."""
        from ahvn_tools.errors import ToolError

        raise ToolError(f"no account of {user}")

    desk.kit.bind("user")
    programs = [
        "try:\n    await fail()\nexcept RuntimeError as error:\n    text = str(error)\nawait send(text)",
        "await close(1)\nawait login('canary-1')",
        "try:\n    await login('canary-2')\nexcept RuntimeError as error:\n    print(error)\nawait close(1)",
        "name = 'canary-3'\nawait close(1)\nf\"{await login(name)}\"",
    ]
    for code in programs:
        run = desk.answer(code)
        texts = [json.dumps(run.to_json()), repr(run), repr(run.pending), *[repr(result) for _, result in run.results]]
        texts += [caplog.text, *[result.text for _, result in run.results]]
        assert not [text for text in texts if "canary" in text], code
        assert b"canary" not in everything(run), code
    assert len(desk.answer(programs[0]).pending) == 1
    for code in programs[1:]:
        [(_, result)] = desk.answer(code).results
        assert "because it names a tool with a secret argument" in result.text


@pytest.mark.parametrize(
    "code",
    [
        "await fetch(headers={'password': 'canary'})\nawait close(1)",
        "import asyncio\nawait asyncio.gather(close(1), fetch({'a': [{'token': 'canary'}]}))",
        "headers = {}\nheaders['api_key'] = 'canary'\nawait close(1)\nawait fetch(headers)",
        "name = 'pass' + 'word'\nawait fetch({name: 'canary'})\nawait close(1)",
        "import asyncio\nname = 'pass' + 'word'\nawait asyncio.gather(close(1), note('a'), pay({name: 'canary'}))",
    ],
    ids=["made", "beside", "set", "computed name", "waits itself"],
)
@pytest.mark.default_cases(3)
def test_a_program_with_a_secret_deep_in_an_argument_is_not_stored(sandbox: MontySandbox, code: str) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool
    def fetch(headers: dict[str, Any]) -> str:
        """Fetch a page."""
        return "page"

    @desk.kit.tool(requires_approval=True)
    def pay(headers: dict[str, Any]) -> str:
        """Pay."""
        return "paid"

    run = desk.answer(code)
    assert run.is_done
    assert "and the program cannot, because it" in run.results[0][1].text
    assert ("close", 1) not in desk.calls


def everything(run: Run) -> bytes:
    """Return a saved run with its programs unpacked."""
    programs = [request.program for request in run.pending if request.program is not None]
    snapshots = [zlib.decompress(base64.b64decode(program["snapshot"])) for program in programs]
    return b" ".join([json.dumps(run.to_json()).encode(), *snapshots])


@pytest.mark.parametrize(
    "code",
    [
        "token = await leak()\nawait close(1)",
        "print(await leak())\nawait close(1)",
        "tokens = {'a': [await leak()]}\nawait close(1)",
        "import asyncio\nawait asyncio.gather(close(1), note_later(await leak()))",
        "text = ''\ntry:\n    await leak(True)\nexcept RuntimeError as error:\n    text = str(error)\nawait close(1)",
    ],
    ids=["kept", "printed", "nested", "only in a waiting call", "in an error"],
)
@pytest.mark.default_cases(3)
def test_a_secret_that_a_tool_returns_is_not_stored(sandbox: MontySandbox, code: str) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool
    def leak(token: Annotated[str, Secret], fails: bool = False) -> str:
        """Return the token."""
        from ahvn_tools.errors import ToolError

        if fails:
            raise ToolError(f"wrong: {token}")
        return token

    @desk.kit.tool(requires_approval=True)
    def note_later(text: str) -> None:
        """Write a note."""

    desk.kit.bind("token")
    desk.kit.state["token"] = 'canary-"token"'
    run = desk.answer(code)
    assert b"canary" not in everything(run)
    is_masked = "leak(True)" in code
    assert len(run.pending) == is_masked
    assert is_masked or "because it contains a secret that a call has received" in run.results[0][1].text


def test_a_secret_of_a_call_before_the_first_wait_is_not_stored_with_the_second(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool
    def log_in(token: Annotated[str, Secret]) -> str:
        """Log in."""
        return "logged in"

    @desk.kit.tool
    def read_page() -> str:
        """Read a page, which shows the token."""
        return "your token: canary-token"

    desk.kit.bind("token")
    desk.kit.state["token"] = "canary-token"
    for page in (
        "page = await read_page()\nawait close(1)",
        "await close(1)\npage = await read_page()\nawait close(2)",
    ):
        run = desk.answer(f"await log_in()\n{page}")
        run = desk.kit.resume(run, approved=True) if run.pending else run
        assert "because it contains a secret that a call has received" in run.results[0][1].text
        assert b"canary" not in everything(run)


def test_a_bound_secret_does_not_keep_a_program_from_waiting(sandbox: MontySandbox) -> None:
    desk = Desk(sandbox)

    @desk.kit.tool(requires_approval=True)
    def pay(amount: int, token: Annotated[str, Secret]) -> str:
        """Pay."""
        return f"paid {amount}"

    desk.kit.bind("token")
    desk.kit.state["token"] = "canary-token"
    run = desk.answer("await pay(5)")
    assert b"canary" not in everything(run)
    assert value(desk.kit.resume(restored(run), approved=True)) == "paid 5"
