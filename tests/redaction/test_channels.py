"""No kind of secret is in anything that shows a call or a tool, however it is encoded."""

from __future__ import annotations

import base64
import html
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import pytest
from fastmcp import Client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, SecretStr

from ahvn_tools import ApprovalRules, Secret, ToolCall, Toolkit, ToolSpec
from ahvn_tools.formats import BUILT_IN
from ahvn_tools.middleware import log, record, trace
from ahvn_tools.sources.http import connections
from tests.sources.http.service import Received, respond, serve

SECRET = 'canary/one "zebra+two'

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "percent-encoded": lambda text: quote(text, safe=""),
    "of a form": quote_plus,
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "Python": lambda text: repr({"key": text}),
    "HTML": html.escape,
}


def refuse(form: str, secret: Any) -> str:
    raise ValueError(f"refused: {FORMS[form](secret)}")


class Login(BaseModel):
    """A model with a secret of each kind."""

    phrase: Annotated[str, Secret] = ""
    code: SecretStr = SecretStr("")
    password: str = ""


class Office:
    """Its method knows a secret."""

    def __init__(self) -> None:
        self.token = SECRET

    def visit(self, form: str) -> str:
        """Visit it."""
        return refuse(form, self.token)


def bound(form: str, token: str = "") -> str:
    """Use a bound value."""
    return refuse(form, token)


def typed(form: str, key: SecretStr = SecretStr(SECRET)) -> str:
    """Use a secret type."""
    return refuse(form, key.get_secret_value())


def marked(form: str, key: Annotated[str, Secret] = SECRET) -> str:
    """Use a marked parameter."""
    return refuse(form, key)


def named(form: str, password: str = "") -> str:
    """Use a parameter with a secret name."""
    return refuse(form, password)


def nested(form: str, login: Login) -> str:
    """Use a member."""
    return refuse(form, login.phrase or login.code.get_secret_value() or login.password)


def loose(form: str, options: dict[str, Any]) -> str:
    """Use a member of an object without a schema."""
    return refuse(form, options["steps"][0]["apiKey"])


def connect(form: str) -> str:
    """Connect to an address that nothing but this function knows."""
    password = quote(SECRET, safe="")
    raise ConnectionError(
        f"no route to https://ann:{password}@host/?token={password}, host=h password='{SECRET}' ({form})"
    )


@dataclass
class Case:
    """A tool in a toolkit, and the arguments of its call."""

    make: Callable[[Toolkit], Toolkit]
    arguments: dict[str, Any] = field(default_factory=dict)
    forms: tuple[str, ...] = tuple(FORMS)


KINDS: dict[str, Case] = {
    "bound value": Case(lambda kit: kit.add(bound).bind("token", default=SECRET, secret=True)),
    "state value": Case(lambda kit: kit.add(bound).bind("token").session(token=SECRET)),
    "SecretStr in a container": Case(lambda kit: kit.add(typed).bind("key", default=SecretStr(SECRET))),
    "resolver": Case(lambda kit: kit.add(bound).bind("token", resolver=lambda: SECRET)),
    "preset": Case(lambda kit: kit.add(bound, preset={"token": SECRET})),
    "instance": Case(lambda kit: kit.add(Office().visit)),
    "SecretStr argument": Case(lambda kit: kit.add(typed), {"key": SECRET}),
    "marked argument": Case(lambda kit: kit.add(marked), {"key": SECRET}),
    "secret default": Case(lambda kit: kit.add(marked)),
    "default of a secret type": Case(lambda kit: kit.add(typed)),
    "named argument": Case(lambda kit: kit.add(named), {"password": SECRET}),
    "marked member": Case(lambda kit: kit.add(nested), {"login": {"phrase": SECRET}}),
    "member of a secret type": Case(lambda kit: kit.add(nested), {"login": {"code": SECRET}}),
    "named member": Case(lambda kit: kit.add(nested), {"login": {"password": SECRET}}),
    "member of a dict": Case(lambda kit: kit.add(loose), {"options": {"steps": [{"apiKey": SECRET}]}}),
    "URL and DSN": Case(lambda kit: kit.add(connect), forms=("plain",)),
}


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    return KINDS[request.param]


def assert_hidden(*shown: str) -> None:
    text = "\n".join(shown)
    assert [form for form, encode in FORMS.items() if encode(SECRET).strip('"=') in text] == []
    assert "canary" not in text
    assert "zebra" not in text


def test_no_description_of_a_tool_has_it(case: Case) -> None:
    kit = case.make(Toolkit("k"))
    (spec,) = kit
    exports = [json.dumps([kit.to(name), spec.to(name)]) for name in BUILT_IN]
    reprs = [
        repr(kit),
        repr(spec),
        kit._repr_html_(),
        spec._repr_html_(),
        repr(spec.definition),
        repr(spec.compiled.plan),
    ]
    texts = [kit.to_prompt(), spec.code, spec.docstring, spec.signature(), str(spec.to_mcp()), str(spec.binds)]
    assert_hidden(*exports, *reprs, *texts, *map(str, kit.check()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.default_cases(12)
async def test_no_report_of_a_call_has_it(case: Case, form: str, tmp_path: Path) -> None:
    if form not in case.forms:
        return
    lines, spans, provider, file = [], InMemorySpanExporter(), TracerProvider(), tmp_path / "calls.jsonl"
    provider.add_span_processor(SimpleSpanProcessor(spans))
    reports = [
        log(lines.append, traceback=True, max_chars=4_000),
        trace(provider.get_tracer("t"), content=True),
        record(file),
    ]
    kit = case.make(Toolkit("k", middleware=reports, mask_errors=False))
    (spec,) = kit
    arguments = {"form": form, **case.arguments}
    results = [kit.exec(spec.name, arguments), await kit.aexec(spec.name, arguments), *kit.stream(spec.name, arguments)]
    run = kit.run([ToolCall(id="c", name=spec.name, arguments=arguments)])
    async with Client(kit.to_fastmcp_server()) as client:
        served = await client.call_tool(spec.name, arguments, raise_on_error=False)
    assert all(result.error.code == "tool_error" for result in results)
    assert served.is_error
    exported = [span.to_json() for span in spans.get_finished_spans()]
    assert len(lines) == len(exported) == 5
    texts = [text for result in results for text in (repr(result), result.text, result._repr_html_())]
    texts += [repr(run), run._repr_html_(), json.dumps(list(run)), repr(served), str(served.content)]
    assert_hidden(*texts, *lines, *exported, file.read_text())


def test_no_stored_request_has_it(case: Case) -> None:
    kit = case.make(Toolkit("k", rules=ApprovalRules(mode="ask")))
    (spec,) = kit
    run = kit.run([ToolCall(id="c", name=spec.name, arguments={"form": "plain", **case.arguments})])
    (request,) = run.pending
    assert_hidden(json.dumps(run.to_json()), repr(run), json.dumps(request.to_json()), repr(request), run._repr_html_())


@pytest.mark.parametrize(
    "kind", ["bound value", "state value", "SecretStr in a container", "secret default", "default of a secret type"]
)
def test_no_pickle_has_it(kind: str) -> None:
    (spec,) = KINDS[kind].make(Toolkit("k"))
    assert SECRET.encode() not in pickle.dumps(spec.clone())


@dataclass
class Account:
    """A record with a secret."""

    key: SecretStr


@pytest.mark.parametrize(
    "value", [Account(SecretStr(SECRET)), [Login(code=SecretStr(SECRET))], {"a": (SecretStr(SECRET),)}]
)
@pytest.mark.parametrize("is_default", [True, False], ids=["default", "state"])
def test_no_pickle_has_a_secret_type_inside_of_a_value(value: Any, is_default: bool) -> None:
    def use(account: Any) -> str:
        return "used"

    spec = ToolSpec.from_function(use).bind("account", "account", value) if is_default else ToolSpec.from_function(use)
    spec = spec if is_default else spec.bind("account", "account")
    spec.state = {} if is_default else {"account": value}
    assert b"canary" not in pickle.dumps(spec)


def test_a_credential_that_a_service_sends_back_is_in_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def echo(request: Received) -> bytes:
        (sent,) = {value for value in request.headers.values() if value == SECRET}
        texts = [encode(sent) for encode in FORMS.values()]
        return respond("no user has " + ", ".join(texts), "403 Forbidden", "text/plain")(request)

    monkeypatch.setattr(connections, "KEEPALIVE_SECONDS", 0.1)  # the service waits for its clients when it stops
    lines: list[str] = []
    with serve() as service:
        service.reply("/", echo)
        key: dict[str, Any] = {"auth_method": "api_key_header", "api_key": SecretStr(SECRET)}
        spec = ToolSpec.from_http("look", service.url, allow_private=True, **key)
        kit = Toolkit("k", middleware=[log(lines.append, traceback=True), record(tmp_path / "calls")]).add(spec)
        result = kit.exec("look", {})
    assert "no user has ***" in result.text
    assert_hidden(repr(result), *lines, (tmp_path / "calls").read_text())
