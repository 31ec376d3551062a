"""The playground without a browser: its pages, what they never show, and which requests are refused."""

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import ahvn_tools
from ahvn_tools import Toolkit, ui
from ahvn_tools.formats import BUILT_IN
from tests.ui.desk import SECRETS, draw, open_desk

SITE = "http://localhost"
PAGES = [
    "/", "/providers", "/providers?start=2", "/tool/draw", "/try/draw",
    *(f"/provider/draw?format={name}{strict}" for name in BUILT_IN for strict in ("", "&strict=1")),
]  # fmt: skip


def client(kit: Toolkit | None = None, **options: Any) -> TestClient:
    made = TestClient(ui.app(kit or open_desk(), **options), base_url=SITE, follow_redirects=False)
    made.headers["origin"] = SITE
    return made


def events(text: str) -> Iterator[tuple[str, Any]]:
    for event in text.strip().split("\n\n"):
        kind, data = event.split("\n")
        yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def run(opened: TestClient, tool: str, arguments: str, **sent: Any) -> list[tuple[str, Any]]:
    return list(
        events(opened.post(f"/run/{tool}", json={"arguments": arguments, "state": {}, "session": "", **sent}).text)
    )


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_there_and_shows_no_bound_value(path: str) -> None:
    answer = client().get(path)
    assert answer.status_code == 200
    assert not any(secret in answer.text for secret in SECRETS)
    assert "<b>." not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "<script>" not in answer.text
    assert "style=" not in answer.text


@pytest.mark.parametrize("path", ["/nothing", "/tool/nothing", "/try/%3Cb%3E", "/provider/draw?format=none"])
def test_what_is_not_there_is_a_page_of_its_own(path: str) -> None:
    answer = client().get(path)
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text
    assert "<b>" not in answer.text


def test_a_tool_shows_its_bindings_with_key_and_layer() -> None:
    text = " ".join(client().get("/tool/draw").text.split())
    assert "<code>token</code></th><td><code>auth.token</code></td><td>the state of the toolkit</td>" in text
    assert "<code>user</code></th><td><code>user</code></td><td>a function, at each call</td>" in text
    assert "<code>tenant</code></th><td><code></code></td><td>fixed, where the tool was added</td>" in text
    session = open_desk().session({"auth": {"token": "other"}})
    assert "the state of the session" in client(session).get("/tool/draw").text


def test_the_tools_of_inactive_groups_are_shown_with_their_group() -> None:
    kit = Toolkit("groups").add_group("wiki").add(len, name="size", group="wiki")
    for opened in (client(kit), client(kit.session(a=1))):
        row = opened.get("/").text.partition("<tbody>")[2]
        assert "/tool/size" in row
        assert "wiki (inactive)" in row
        assert "Its group wiki is inactive" in opened.get("/tool/size").text
        assert opened.get("/try/size").status_code == 200


def test_names_with_any_characters_have_pages() -> None:
    kit = Toolkit("odd").add(len, name="a/b c?.d")
    opened = client(kit)
    assert "/tool/a%2Fb%20c%3F.d" in opened.get("/").text
    for kind in ("tool", "try", "provider"):
        assert opened.get(f"/{kind}/a%2Fb%20c%3F.d").status_code == 200


def test_a_tool_that_cannot_be_used_yet_says_why() -> None:
    def read(connection: object, text: str) -> str:
        return text

    class Connection:
        pass

    read.__annotations__["connection"] = Connection
    opened = client(Toolkit("odd").add(read))
    for path in ("/", "/providers", "/try/read", "/provider/read"):
        assert opened.get(path).status_code == 200
    assert "must be bound" in opened.get("/tool/read").text


def test_findings_stand_beside_the_line_that_they_are_about() -> None:
    lines = client().get("/provider/draw?format=gemini").text.split(' noted">')
    assert '"labels": {' in lines[1].replace("&#34;", '"').partition("</tr>")[0]


def test_arguments_are_validated_with_pointers_and_nothing_runs() -> None:
    opened = client()
    found = opened.post("/validate/draw", content='{"shape": {"kind": "circle", "radius": -1}}').json()
    assert [problem["pointer"] for problem in found["problems"]] == ["/shape/radius"]
    assert opened.post("/validate/fail", content='{"text": 3}').json()["changed"] == ["/text"]
    assert opened.post("/validate/draw", content="{").json()["code"] == "invalid_json"
    assert opened.post("/validate/draw", content="[" * 100_000).json()["code"] == "invalid_json"
    assert opened.post("/validate/draw", content="3").json()["code"] == "invalid_parameters"
    assert opened.post("/validate/nothing", content="{}").json()["code"] == "not_found"


def test_a_call_is_a_stream_of_its_id_its_chunks_and_its_result() -> None:
    answer = client().post("/run/count", json={"arguments": '{"to": 2}', "state": {}, "session": ""})
    assert answer.headers["content-type"].startswith("text/event-stream")
    kinds, data = zip(*events(answer.text), strict=True)
    assert kinds == ("call", "chunk", "chunk", "result")
    assert [part["text"] for part in data[1:]] == ["0", "1", "[0, 1]"]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("draw", '{"shape": {}}', {"is_error": True, "code": "invalid_parameters"}),
        ("fail", '{"text": "a"}', {"is_error": True, "text": "Error calling tool 'fail'"}),
        ("draw", "nonsense", {"is_error": True, "code": "invalid_json"}),
        ("nothing", "{}", {"is_error": True, "code": "not_found"}),
        ("fail", "[]", {"is_error": True, "code": "invalid_parameters"}),
    ],
)
def test_an_error_is_a_result(tool: str, arguments: str, expected: dict[str, Any]) -> None:
    kind, result = run(client(), tool, arguments)[-1]
    assert kind == "result"
    assert expected.items() <= result.items()


def test_images_are_sent_as_data() -> None:
    _, result = run(client(), "picture", "{}")[-1]
    assert result["images"][0].startswith("data:image/png;base64,")


def test_cancelling_a_call_that_does_not_run_does_nothing() -> None:
    assert client().post("/cancel/ui_0").json() == {"is_cancelled": False}


@pytest.mark.parametrize("path", ["/validate/draw", "/run/draw", "/cancel/ui_0"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "", "http://localhost.evil.example", "http://localhost:1", "https://localhost",
        "http://[", "ftp://localhost", "localhost", "http://localhost/", "http://u@localhost",
    ],
)  # fmt: skip
def test_what_changes_something_comes_from_these_pages_alone(path: str, origin: str) -> None:
    answer = client().post(path, content="{}", headers={"origin": origin})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "localhost.evil.example", "", "[::1", "127.0.0.1.evil.example", "evil@127.0.0.1", "@localhost",
        "127.0.0.1/evil", "localhost?evil", "localhost#evil", "localhost:port", "localhost:99999", "local\thost",
    ],
)  # fmt: skip
def test_other_host_names_are_refused(host: str) -> None:
    assert client().get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_allowed(host: str) -> None:
    assert client().get("/", headers={"host": host}).status_code == 200


def test_other_host_names_are_allowed_if_they_are_named() -> None:
    assert client(hosts=["tools.example"]).get("/", headers={"host": "tools.example"}).status_code == 200


def test_a_token_opens_the_pages_once_and_is_no_part_of_their_addresses() -> None:
    opened = client(token="secret-token")
    assert opened.get("/").status_code == 401
    assert opened.get("/static/style.css").status_code == 401
    assert opened.get("/?token=wrong").status_code == 401
    assert opened.post("/run/draw?token=secret-token", content="{}").status_code == 401
    answer = opened.get("//evil.example/?token=secret-token")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert opened.get("/").status_code == 200
    assert "secret-token" not in opened.get("/").text
    assert "secret-token" not in cookie
    assert "secure" not in cookie
    for known in ("secret-token", hashlib.sha256(b"secret-token").hexdigest()):
        stranger = client(token="secret-token")
        stranger.cookies.set(next(iter(opened.cookies)), known)
        assert stranger.get("/").status_code == 401


def test_the_cookie_of_https_is_sent_over_https_alone_and_is_valid_in_each_process() -> None:
    opened = TestClient(ui.app(open_desk(), token="a-token"), base_url="https://localhost")
    assert "secure" in opened.get("/?token=a-token", follow_redirects=False).headers["set-cookie"].lower()
    other = TestClient(ui.app(open_desk(), token="a-token"), base_url="https://localhost", cookies=opened.cookies)
    assert other.get("/").status_code == 200
    assert TestClient(ui.app(open_desk(), token="b-token"), base_url="https://localhost").get("/").status_code == 401


def test_all_addresses_have_the_prefix_under_which_the_app_is_mounted() -> None:
    site = Starlette(routes=[Mount("/desk/tools", ui.app(open_desk(), token="t"))])
    opened = TestClient(site, base_url=SITE)
    answer = opened.get("/desk/tools/?token=t", follow_redirects=False)
    assert answer.headers["location"] == "/desk/tools/"
    for path in PAGES:
        text = opened.get(f"/desk/tools{path}").text
        assert 'href="/' in text
        assert all(part.startswith("desk/tools/") for part in text.split('href="/')[1:])
        assert all(part.startswith("desk/tools/") for part in text.split('src="/')[1:])


def test_a_websocket_is_refused() -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client().websocket_connect("/"):
        pass


def test_a_toolkit_without_tools_and_one_with_many_are_shown() -> None:
    assert "has no tools" in client(Toolkit("none")).get("/").text
    kit = Toolkit("many")
    for number in range(120):
        kit.add(draw, name=f"draw_{number}")
    opened = client(kit)
    assert opened.get("/").text.count("<tr data-group") == 120
    text = opened.get("/providers?start=100").text
    assert "101 to 120 of 120" in " ".join(text.split())
    assert "Next" not in text


def test_the_pages_are_written_against_public_names_and_nothing_imports_them() -> None:
    package = Path(ahvn_tools.__file__).parent
    for path in package.rglob("*.py"):
        imported = {
            node.module
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module is not None
        }
        if path.parent == package / "ui":
            own = {name for name in imported if name.startswith("ahvn_tools.")}
            assert not any(part.startswith("_") for name in own for part in name.split("."))
        elif path != package / "cli" / "ui.py":
            assert not any(name.startswith("ahvn_tools.ui") for name in imported)
