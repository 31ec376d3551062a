"""What a page may set for its calls, what a run returns, and whether copied calls run as they are pasted."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel, SecretStr

pytest.importorskip("jinja2")
from starlette.testclient import TestClient

from ahvn_tools import Secret, ToolContext, Toolkit, ToolSpec, ui
from ahvn_tools.middleware import keep_large, replay, truncate
from ahvn_tools.ui import facts, trying
from tests.ui.desk import SECRETS, open_desk

SITE = "http://localhost"


def tell(text: str, tone: str, token: str, pin: Annotated[int, Secret], limits: dict[str, Any], depth: int) -> str:
    return f"{tone} {text} {len(token)} {pin} {limits} {depth}"


def open_state() -> Toolkit:
    """Return a toolkit with secrets in its state, beside other values and inside of them."""
    state = {
        "style": {"tone": "warm"},
        "auth": {"token": "t0k3n-of-ann"},
        "pin": 4711,
        "limits": {"calls": 3, "password": "hunter22", "url": "https://ann:hunter22@host/", "note": "t0k3n-of-ann"},
        "levels": [5],
    }
    kit = Toolkit("state", state=state).add(tell)
    kit.bind("tone", "style.tone").bind("token", "auth.token").bind("pin").bind("limits").bind("depth", "levels[0]")
    return kit


def client(kit: Toolkit, **options: Any) -> TestClient:
    made = TestClient(ui.app(kit, **options), base_url=SITE, follow_redirects=False)
    made.headers["origin"] = SITE
    return made


def events(text: str) -> Iterator[tuple[str, Any]]:
    for event in text.strip().split("\n\n"):
        kind, data = event.split("\n")
        yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def run(opened: TestClient, tool: str, arguments: Any, **sent: Any) -> Any:
    answer = opened.post(f"/run/{tool}", json={"arguments": json.dumps(arguments), "state": {}, "session": "", **sent})
    return list(events(answer.text))[-1][1]


def test_the_state_is_shown_only_if_the_host_says_so() -> None:
    assert "warm" not in client(open_state()).get("/tool/tell").text
    text = client(open_state(), show_state=True).get("/tool/tell").text.replace("&#34;", '"')
    assert '<code>"warm"</code>' in text
    assert '{"calls": 3, "password": "***", ' in text


@pytest.mark.parametrize("secret", ["t0k3n-of-ann", "4711", "hunter22"])
def test_secrets_are_never_shown(secret: str) -> None:
    opened = client(open_state(), show_state=True)
    for path in ("/tool/tell", "/try/tell", "/provider/tell"):
        assert secret not in opened.get(path).text


def test_a_key_that_another_tool_has_bound_as_secret_is_masked_inside_of_a_value() -> None:
    kit = Toolkit("two", state={"conf": {"code": "ab", "size": 1}}).add(lambda code: code, name="one")
    kit.add(lambda conf: conf, name="two").bind("conf")
    kit["one"].bind("code", "conf.code", secret=True)
    assert facts.shown_values(kit, kit["two"]) == {"conf": '{"code": "***", "size": 1}'}


def test_the_desk_shows_no_secret_with_its_state() -> None:
    text = client(open_desk(), show_state=True).get("/tool/draw").text
    assert not any(secret in text for secret in SECRETS if secret != "acme-preset")
    assert "acme-preset" in text  # fixed, and not secret


def test_a_page_sets_values_for_its_own_calls() -> None:
    kit = open_state()
    opened = client(kit, edit_state=True)
    schema = facts.state_schema(kit["tell"])["properties"]
    assert {key: bool(part.get("writeOnly")) for key, part in schema.items()} == {
        "style.tone": False, "auth.token": True, "pin": True, "limits": False,
    }  # fmt: skip
    own = {"style.tone": "cold", "auth.token": "ab", "levels[0]": 9, "other": 1}
    assert run(opened, "tell", {"text": "a"}, state=own, session="s")["text"].startswith("cold a 2 4711")
    assert run(opened, "tell", {"text": "a"})["text"].startswith("warm a 12 4711")
    assert kit.state["style"] == {"tone": "warm"}


def test_the_state_of_calls_is_set_only_if_the_host_says_so() -> None:
    ran: list[str] = []

    def pay(user: str) -> str:
        ran.append(user)
        return user

    kit = Toolkit("bank").add(pay).bind("user", default="ann")
    opened = client(kit)
    page = opened.get("/try/pay").text
    assert "<details hidden><summary>State for the calls" in page
    assert "user" not in page.partition('data-state="')[2].partition('"')[0]
    refused = run(opened, "pay", {}, state={"user": "bob"})
    assert (refused["code"], "edit_state=True" in refused["text"], ran) == ("invalid_state", True, [])
    assert run(opened, "pay", {})["text"] == "ann"
    allowed = client(kit, edit_state=True)
    assert "<details><summary>State for the calls" in allowed.get("/try/pay").text
    assert run(allowed, "pay", {}, state={"user": "bob"})["text"] == "bob"
    shown = client(kit, edit_state=True, read_only=True)
    answer = shown.post("/run/pay", json={"arguments": "{}", "state": {"user": "bob"}, "session": ""})
    assert (answer.status_code, ran) == (403, ["ann", "bob"])


def test_values_that_do_not_fit_are_an_error_without_them() -> None:
    for state in ({"pin": "no-number-4711"}, {"limits": 3}):
        result = run(client(open_state(), edit_state=True), "tell", {"text": "a"}, state=state)
        assert result["code"] == "unbound_state"
        assert "that does not fit" in result["traceback"]
        assert "no-number" not in json.dumps({**result, "snippets": ""})


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"arguments": 3}', '{"arguments": "{}", "state": []}', "x", '{"arguments": "{"}']
)
def test_a_request_of_another_form_runs_nothing(body: str) -> None:
    _, result = list(events(client(open_desk()).post("/run/count", content=body).text))[-1]
    assert result["code"] == "invalid_json"


def test_progress_and_output_are_chunks() -> None:
    def load(context: ToolContext) -> str:
        context.report_progress(1, 4, "first")
        context.append_output("half")
        return "done"

    answer = client(Toolkit("slow").add(load)).post("/run/load", json={"arguments": "{}", "state": {}, "session": ""})
    found = [(kind, data.get("progress"), data.get("text")) for kind, data in events(answer.text)]
    assert found[1:] == [
        ("chunk", {"progress": 1, "total": 4}, "first"), ("chunk", None, "half"), ("result", None, "done"),
    ]  # fmt: skip


def test_the_developer_sees_the_traceback_of_the_body_and_no_secret_in_it() -> None:
    def fail(text: str, token: str) -> str:
        raise ValueError(f"{text} with {token}")

    kit = Toolkit("k").add(fail).bind("token", default="hunter2-of-ann", secret=True)
    result = run(client(kit), "fail", {"text": "a"})
    assert "in fail" in result["traceback"]
    assert "ValueError: a with" in result["traceback"]
    assert "hunter2" not in json.dumps(result)
    assert run(client(kit), "fail", {})["traceback"] == ""

    async def broken(call: Any, next: Any) -> Any:  # the word for it
        raise KeyError("of the middleware")

    kit.use(broken)
    assert "of the middleware" not in json.dumps(run(client(kit), "fail", {"text": "a"}))


def test_a_saved_record_is_replayed(tmp_path: Path) -> None:
    kit = open_desk()
    opened = client(kit)
    for tool, arguments in (("count", {"to": 2}), ("fail", {"text": "a"}), ("picture", {})):
        result = run(opened, tool, arguments)
        file = tmp_path / f"{tool}.jsonl"
        file.write_text(result["record"])
        replayed = kit.exec(tool, arguments, middleware=[replay(file)])
        assert (replayed.text, replayed.is_error) == (result["text"], result["is_error"])
    secret = run(
        client(open_state(), edit_state=True), "tell", {"text": "a"}, state={"auth.token": "typed-in-the-page"}
    )
    assert "typed-in-the-page" not in secret["record"]


TOOLS = """
from ahvn_tools import Toolkit
def tell(text: str, tone: str, token: str, password: str = "") -> list[str]:
    if text == "fail": raise ValueError(text)
    return [text, tone, token, password]
async def count(to: int):
    for number in range(to): yield {"n": number}
kit = Toolkit("k").add(tell).add(count, name="a/b c?.d", group="more")
kit.bind("tone", "style.tone", "warm").bind("token", "auth.token")
"""


@pytest.mark.parametrize(
    ("tool", "arguments", "state"),
    [
        ("tell", {"text": 'it\'s "a"\n\u2028 😀 {}\\' * 9}, {}),
        ("tell", {"text": "a", "password": "typed-p4ss"}, {"auth.token": "typed-t0ken", "style.tone": "cold"}),
        ("tell", {"text": "fail"}, {}),
        ("tell", {"text": 3, "nothing": [None, True, 1.5]}, {}),
        ("a/b c?.d", {"to": 40}, {}),
    ],
)
def test_copied_calls_and_tests_run_as_they_are_pasted(tmp_path: Path, tool: str, arguments: Any, state: Any) -> None:
    from ahvn_tools import load
    from ahvn_tools.ui.snippets import setup_code

    (tmp_path / "tools.py").write_text(TOOLS)
    setup = setup_code(
        ["tools.py"], {"profile": None, "trust": ["tools.py"]}, {"auth": {"token": "hidden-t0ken"}}, ["more"]
    )
    kit = load(tmp_path / "tools.py").session({"auth": {"token": "hidden-t0ken"}}, audience=None).activate("more")
    result = run(
        client(kit, setup=setup, edit_state=True), tool.replace("/", "%2F").replace("?", "%3F"), arguments, state=state
    )
    code = result["snippets"]
    assert not any(secret in json.dumps(code) for secret in ("typed-p4ss", "typed-t0ken", "hidden-t0ken"))
    environment = {
        "AUTH_TOKEN": state.get("auth.token", "hidden-t0ken"),
        "PASSWORD": "typed-p4ss",
        "PATH": "/usr/bin",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # it needs none, and they take seconds to import
    }

    def start(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    (tmp_path / "test_copied.py").write_text(code["pytest"], encoding="utf-8")
    tested = start("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_copied.py")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    called = start("-c", code["Python"])
    assert (called.returncode != 0) is result["is_error"], called.stderr
    if not result["is_error"]:
        assert (
            called.stdout
            == f"{kit.session({'style': {'tone': 'cold'}} if state else {}).call(tool, arguments)}\n".replace(
                "hidden-t0ken", environment["AUTH_TOKEN"]
            )
        )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("Authorization: Bearer s3cret", "Authorization: ***"),
        ("curl -H 'Authorization: Basic s3cret' https://a.example", "curl -H 'Authorization: ***' https://a.example"),
        ("run --password=s3cret --max-tokens=5", "run --password=*** --max-tokens=5"),
        ("run --token s3cret fast", "run --token *** fast"),
        ("say bearer s3cret", "say bearer ***"),
        ('{"password": "s3cret", "user": "ann"}', '{"password": ***, "user": "ann"}'),
        ("PGPASSWORD='s3cret' psql", "PGPASSWORD=*** psql"),
        (["--token", "s3cret", "a"], ["--token", "***", "a"]),
        ([["password", "s3cret"]], [["password", "***"]]),
        ([{"name": "api_key", "value": "s3cret"}], [{"name": "api_key", "value": "***"}]),
        ({"sessionid": "s3cret", "monkey": "a"}, {"sessionid": "***", "monkey": "a"}),
        ("the author: Ann, tokens used: 5", "the author: Ann, tokens used: 5"),
        (["key", "value", "max_tokens", "5"], ["key", "value", "max_tokens", "5"]),
    ],
)  # fmt: skip
def test_shown_values_are_without_what_a_secret_name_precedes(value: Any, shown: Any) -> None:
    kit = Toolkit("k", state={"value": value}).add(lambda value: None, name="take").bind("value")
    assert json.loads(facts.shown_values(kit, kit["take"])["value"]) == shown


def test_copied_code_has_no_secret_member_of_an_argument_or_of_the_state() -> None:
    class Login(BaseModel):
        user: str
        pin: SecretStr

    def log_in(login: Login, again: dict[str, Any], account: Login) -> str:
        return login.user

    kit = Toolkit("k").add(log_in).bind("account", "account")
    arguments = {"login": {"user": "ann", "pin": "s3cret-1"}, "again": {"password": "s3cret-2"}}
    state = {"account": {"user": "bob", "pin": "s3cret-3"}}
    code = json.dumps(run(client(kit, edit_state=True), "log_in", arguments, state=state)["snippets"])
    assert "s3cret" not in code
    assert all(name in code for name in ("LOGIN_PIN", "AGAIN_PASSWORD", "ACCOUNT_PIN", "ann", "bob"))


@pytest.mark.parametrize("layer", [keep_large(max_chars=1000), truncate(1000)], ids=["keep_large", "truncate"])
def test_the_text_is_what_a_model_gets_after_the_middleware(layer: Any) -> None:
    kit = Toolkit("big", middleware=[layer]).add(lambda: ["line"] * 2000, name="list_lines")
    content = kit.session().exec("list_lines", {}, call_id="c").content
    found = run(client(kit), "list_lines", {})
    assert len(found["text"]) == len(content[0].text) < 2000
    assert json.loads(found["value"]) == ["line"] * 2000


def test_results_of_any_size_are_cut_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "MAX_BYTES", 1_000_000)

    def many(count: int) -> list[dict[str, str]]:
        return [{"name": f"<script>alert({n})</script>"} for n in range(count)]

    result = run(client(Toolkit("k").add(many)), "many", {"count": 30_000})
    assert (len(result["text"]), result["structured"], result["record"], "snippets" in result) == (
        200_000,
        None,
        "",
        False,
    )
    assert result["omitted"] > 0


def test_values_that_exclude_each_other_are_an_error() -> None:
    kit = Toolkit("k").add(lambda a, b: a, name="pick").bind("a", "a").bind("b", "a.b")
    assert run(client(kit, edit_state=True), "pick", {}, state={"a": 1, "a.b": 2})["code"] == "invalid_state"


def leave() -> str:
    raise SystemExit(3)


async def leave_async() -> str:
    raise KeyboardInterrupt


@pytest.mark.parametrize("tool", [leave, leave_async])
def test_a_tool_that_ends_the_program_does_not_end_the_server(tool: Any) -> None:
    opened = client(Toolkit("k").add(tool))
    result = run(opened, tool.__name__, {})
    assert (result["code"], result["is_error"]) == ("tool_error", True)
    assert opened.get("/").status_code == 200


def test_numbers_that_are_no_json_reach_no_page() -> None:
    def load(context: ToolContext, to: float) -> str:
        context.report_progress(float("inf"), float("nan"))
        return "done"

    opened = client(Toolkit("k").add(load))
    chunks = opened.post("/run/load", json={"arguments": '{"to": 1}', "state": {}, "session": ""}).text.partition(
        "event: result"
    )[0]
    assert '"progress": {"progress": null, "total": null}' in chunks
    result = list(events(opened.post("/run/load", json={"arguments": '{"to": NaN}', "state": {}, "session": ""}).text))[
        -1
    ][1]
    assert (result["code"], result["text"]) == (
        "invalid_json", "The arguments are no JSON: NaN is no number of JSON.",
    )  # fmt: skip


def test_a_large_request_is_refused() -> None:
    assert client(open_desk()).post("/run/count", content=b" " * 20_000_001).status_code == 413


def test_a_name_that_no_address_can_have_leaves_the_other_tools_visible() -> None:
    kit = Toolkit("odd").add(len, name="one").add(len, name="\ud800")
    assert "one" in client(kit).get("/").text


HTML = "<img src=x onerror=alert(1)>\"'&lt;"


def test_html_in_any_text_is_text() -> None:
    schema = {
        "type": "object", "title": HTML, "description": HTML,
        "properties": {HTML: {"type": "string", "description": HTML, "default": HTML, "enum": [HTML]}},
    }  # fmt: skip

    def fail(**values: Any) -> str:
        raise ValueError(HTML)

    kit = Toolkit(HTML).add(
        ToolSpec.from_schema("odd", schema, fail),
        name=HTML, description=HTML, title=HTML, tags=[HTML], group=HTML, audience=HTML,
    )  # fmt: skip
    opened = client(kit, show_state=True, setup=HTML)
    name = quote(HTML, safe="")
    for path in ("/", "/providers", f"/tool/{name}", f"/try/{name}", f"/provider/{name}", "/tool/%3Cimg%3E"):
        text = opened.get(path).text
        assert "<img" not in text, path
