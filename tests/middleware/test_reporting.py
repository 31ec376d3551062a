"""What logs, spans, metrics and recordings report of a call."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from ahvn_tools import ToolCall, ToolError, Toolkit, ToolResult
from ahvn_tools.middleware import Call, Next, reporting
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.pending import arguments_digest
from ahvn_tools.middleware.record import record
from ahvn_tools.middleware.trace import trace
from ahvn_tools.redaction.names import Secret


class Login(BaseModel):
    user: str
    phrase: SecretStr | None


class Watch:
    """A middleware that keeps what may be shown of a call."""

    def __init__(self) -> None:
        self.arguments: list[Any] = []
        self.results: list[str] = []
        self.digests: list[str] = []

    def middleware(self):
        async def watch(call: Call, next: Next):
            self.arguments.append(reporting.redact_arguments(call))
            self.digests.append(arguments_digest(call.arguments, call.secret_key))
            result = await next(call)
            self.results.append(reporting.redact_result(call, result))
            return result

        return watch


def watched(*tools: Any, **options: Any) -> tuple[Toolkit, Watch]:
    watch = Watch()
    kit = Toolkit("k", middleware=[watch.middleware()], **options)
    for tool in tools:
        kit.add(tool)
    return kit, watch


def echo(value: Any, other: Any = None) -> Any:
    return [value, other]


def test_secrets_are_masked_by_mark_and_by_name_at_any_depth():
    def send(key: Annotated[str, Secret], token: str, options: dict[str, Any]) -> None: ...

    kit, watch = watched(send)
    kit.exec("send", {"key": "a", "token": "b", "options": {"list": [{"password": "c", "page": 1}]}})
    assert watch.arguments == [{"key": "***", "token": "***", "options": {"list": [{"password": "***", "page": 1}]}}]


def test_a_secret_name_is_masked_by_every_middleware():
    seen = []

    async def look(call: Call, next: Next):
        seen.append(call.secrets)
        return await next(call)

    def send(key: Annotated[str, Secret], api_key: str, text: str) -> None: ...

    Toolkit("k", middleware=[look]).add(send).exec("send", {"key": "a", "api_key": "b", "text": "c"})
    assert seen == [{"key", "api_key"}]


def test_a_secret_argument_that_a_result_repeats_is_masked():
    kit, watch = watched(echo)
    kit.exec("echo", {"value": {"deep": [{"password": "sesame-open"}]}, "other": "sesame-open"})
    assert "sesame-open" not in json.dumps([watch.arguments, watch.results])
    assert watch.arguments[0]["other"] == "<password>"


def test_secrets_of_one_name_are_all_masked():
    kit, watch = watched(echo)
    kit.exec("echo", {"value": [{"password": "sesame-open"}, {"password": "sesame-shut"}], "other": 1})
    assert watch.results == ['[[{"password": "<password>"}, {"password": "<password>"}], 1]']


def test_fields_that_a_pydantic_model_marks_as_secret_are_masked_at_any_depth():
    def sign_in(logins: list[Login]) -> str:
        return logins[0].phrase.get_secret_value()

    kit, watch = watched(sign_in)
    kit.exec("sign_in", {"logins": [{"user": "ann", "phrase": "open sesame"}]})
    assert watch.arguments == [{"logins": [{"user": "ann", "phrase": "***"}]}]
    assert watch.results == ["<phrase>"]


def test_a_secret_argument_is_masked_under_its_alias_and_under_its_name():
    def sign_in(phrase: Annotated[str, Secret, Field(alias="words")]) -> str:
        return "in"

    kit, watch = watched(sign_in)
    kit.exec("sign_in", {"words": "open sesame"})
    assert kit.exec("sign_in", {"phrase": "open sesame"}).error.code == "invalid_parameters"
    assert watch.arguments == [{"words": "***"}, {"phrase": "***"}]


def test_a_member_with_the_name_of_a_secret_argument_is_masked():
    def sign_in(options: dict[str, Any], phrase: Annotated[str, Secret] = "") -> str:
        return "in"

    kit, watch = watched(sign_in)
    kit.exec("sign_in", {"options": {"phrase": "open sesame"}})
    assert watch.arguments == [{"options": {"phrase": "***"}}]


def test_a_bound_value_is_masked_in_arguments_results_keys_and_numbers():
    def use(text: str, user: int) -> Any:
        return {str(user): user, "ok": True, "none": None, "small": 12, "text": f"for {user}"}

    kit, watch = watched(use, state={"user": 12345678})
    kit.bind("user").exec("use", {"text": "I am 12345678"})
    assert watch.arguments == [{"text": "I am <user>"}]
    assert json.loads(watch.results[0]) == {
        "<user>": "<user>", "ok": True, "none": None, "small": 12, "text": "for <user>",
    }  # fmt: skip


@pytest.mark.parametrize("is_async", [False, True])
def test_the_value_of_a_resolver_is_masked(is_async):
    async def fetch() -> str:
        return "fetched-1234"

    def whoami(user: str) -> str:
        return f"you are {user}"

    kit, watch = watched(whoami)
    kit.bind("user", resolver=fetch if is_async else lambda: "fetched-1234")
    assert kit.call("whoami") == "you are fetched-1234"
    assert watch.results == ["you are <user>"]


def test_a_bound_value_is_masked_where_the_body_was_not_reached():
    async def answer(call, next):
        raise ToolError("user-123456 is away")

    async def caught(call, next):
        try:
            return await next(call)
        except ToolError as error:
            return ToolResult(error.message)

    def whoami(user: str = "nobody", role: str = "nothing") -> str:
        return user

    kit, watch = watched(whoami, state={"user": "user-123456"})
    kit.bind("user").bind("role")
    kit.use(caught)
    kit.use(answer)
    kit.exec("whoami")
    assert watch.results == ["<user> is away"]


def test_a_state_that_cannot_be_read_does_not_fail_the_log():
    class Broken(dict):
        def __getitem__(self, key):
            raise OSError("down")

        def __contains__(self, key):
            raise OSError("down")

    def whoami(user: str) -> str:
        return user

    kit, watch = watched(whoami, state=Broken())
    kit.bind("user")
    assert kit.exec("whoami").error.code == "unbound_state"
    assert watch.arguments == [{}]


def test_a_digest_is_the_same_for_the_same_arguments_only():
    kit, watch = watched(echo)
    for value in [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, ["a"], "a"]:
        kit.exec("echo", {"value": value})
    assert watch.digests[0] == watch.digests[1]
    assert len(set(watch.digests)) == 4


def test_a_digest_distinguishes_pydantics_secrets():
    kit, watch = watched(echo)
    for secret in ("sesame-open", "sesame-shut", "sesame-open"):
        kit.exec("echo", {"value": ({"deep": SecretStr(secret)},)})
    assert watch.digests[0] == watch.digests[2] != watch.digests[1]


def test_circular_arguments_are_represented_by_their_type():
    kit, watch = watched(echo)
    circle: list[Any] = []
    circle.append(circle)
    kit.exec("echo", {"value": circle})
    assert watch.arguments == ["<dict>"]
    assert len(watch.digests) == 1


def test_a_value_without_a_json_form_is_represented_by_its_type():
    assert reporting.as_json({1: object(), "b": b"\xff"}) == {"1": "<object>", "b": "_w=="}


def test_long_texts_are_cut_and_lone_surrogates_escaped():
    assert reporting.as_text("x" * 10_000).endswith("more characters)")
    assert reporting.as_text("\ud800") == "\\ud800"


def test_the_code_of_a_result_is_that_of_its_error():
    assert reporting.error_code(ToolResult(1)) is None
    assert reporting.error_code(ToolResult(is_interrupted=True)) == "cancelled"


def test_every_exception_has_a_code():
    errors = [ToolError("no"), ValueError("no"), asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt()]
    assert [reporting.exception_code(error) for error in errors] == [
        "tool_error", "tool_error", "cancelled", "cancelled", "KeyboardInterrupt",
    ]  # fmt: skip


class Badge(BaseModel):
    owner: str
    number: Annotated[str, Secret]


def test_fields_that_the_marker_marks_as_secret_are_masked_at_any_depth():
    def enter(badges: list[Badge]) -> str:
        return f"welcome {badges[0].owner}, {badges[0].number}"

    kit, watch = watched(enter)
    kit.exec("enter", {"badges": [{"owner": "ann", "number": "sesame-open"}]})
    assert watch.arguments == [{"badges": [{"owner": "ann", "number": "***"}]}]
    assert watch.results == ["welcome ann, <number>"]


URL = "db://admin:hunter2@host/x?token=abcdef"


async def test_credentials_in_urls_are_in_no_log_no_span_and_no_recording(tmp_path, caplog):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    async def connect(url: str, urls: dict[str, list[str]]) -> dict[str, str]:
        if "fail" in url:
            raise ConnectionError(f"no route to {url}")
        return {"connected": url}

    caplog.set_level(logging.INFO)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    file = tmp_path / "calls.jsonl"
    middleware = [log(), trace(provider.get_tracer("test"), content=True), record(file)]
    kit = Toolkit("k", middleware=middleware, mask_errors=False).add(connect)
    for url in (URL, f"{URL}&fail=1"):
        result = await kit.aexec("connect", {"url": url, "urls": {"more": [url]}})
        assert result.error is None or "db://***@host/x?token=***" in result.text
    shown = caplog.text + file.read_text() + "".join(str(span.attributes) for span in exporter.get_finished_spans())
    assert shown.count("db://***@host/x?token=***") >= 18
    assert "hunter2" not in shown
    assert "abcdef" not in shown


def test_credentials_in_urls_are_in_no_approval_request_and_come_back_when_approved():
    def connect(url: str) -> str:
        return url

    kit = Toolkit("k").add(connect, requires_approval=True)
    run = kit.run([ToolCall(id="c1", name="connect", arguments={"url": URL})])
    assert run.pending[0].arguments == {"url": "db://***@host/x?token=***"}
    assert run.pending[0].secrets == ("url",)
    assert kit.resume(run, approved=True).results[0][1].value == URL
