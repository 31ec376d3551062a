"""What each kind of source and document may do under which `trust`: each row of docs/reference/trust.md."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ToolSpec, load
from ahvn_tools.builtins.processes.private_folder import private_folder
from ahvn_tools.errors import SourceError
from tests.imported_modules import forgotten

CODE = """
from pathlib import Path
Path("canary").touch()
from ahvn_tools import tool

@tool
def find(query: str) -> str:
    return query

async def middleware(call, next):
    return await next(call)
"""
TOUCH = "Path('canary').touch()"
WIRE = [{"name": "a", "inputSchema": {"type": "object"}}]
SECRET_TOOL = (
    "sources: [{http: {name: a, api_url: 'https://api.example/a', auth_method: api_key, api_key: '${CANARY}'}}]"
)
TOOL = "sources:\n- http:\n    name: a\n    api_url: {server}/a\n    "
API = {
    "openapi": "3.1.0",
    "info": {"title": "a", "version": "1"},
    "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "ok"}}}}},
}

TOKEN_SERVER = "https://token.example"
WITH_SCHEMES = {
    **API,
    "security": [{"key": []}, {"grant": []}],
    "components": {
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "grant": {
                "type": "oauth2",
                "flows": {"clientCredentials": {"tokenUrl": f"{TOKEN_SERVER}/token", "scopes": {}}},
            },
        }
    },
}
GRANT = {"client_id": "a", "client_secret": "${CANARY}"}


class Server(http.server.BaseHTTPRequestHandler):
    """Answers everything with an OpenAPI document that has no MCP in it, and notes that it was asked."""

    asked: int = 0

    def do_GET(self) -> None:
        """Answer."""
        type(self).asked += 1
        body = json.dumps({**API, "servers": [{"url": "/"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Refuse."""
        type(self).asked += 1
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Server.asked = 0
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    listening.server_close()
    thread.join()


@dataclass(frozen=True)
class Case:
    """One way to name a thing of a row."""

    source: Any
    """A source, or the text of a manifest; `{server}` is the loopback server."""
    needs: tuple[str, ...]
    """The patterns, of which none is superfluous."""
    files: dict[str, str] = field(default_factory=dict)


def manifest(text: str, *needs: str, **files: str) -> Case:
    return Case(
        "kit.yaml", needs, {"kit.yaml": text, **{name.replace("__", "."): file for name, file in files.items()}}
    )


def inner(text: str, *needs: str, **files: str) -> Case:
    return Case("in/kit.yaml", needs, {"in/kit.yaml": text, **files})


def mcp_json(entry: dict[str, Any], *needs: str, **files: str) -> Case:
    return Case("mcp.json", needs, {"mcp.json": json.dumps({"mcpServers": {"a": entry}}), **files})


def from_dict(spec: Callable[[], ToolSpec], *needs: str) -> Case:
    return Case(lambda trust: ToolSpec.from_dict(spec().to_dict(), trust=trust), needs)


def http_tool(**options: Any) -> Callable[[], ToolSpec]:
    return lambda: ToolSpec.from_http("a", "https://api.example/a", **options)


def from_openapi(*needs: str, server: str = "https://api.example", **options: Any) -> Case:
    def make(trust: list[str]) -> Any:
        return ToolSpec.from_openapi(WITH_SCHEMES, trust=trust, base_url="https://api.example", **options)

    return Case(make, (server, *needs))


def openapi(options: str, *needs: str, server: str = "https://api.example", **files: str) -> Case:
    text = f"sources: [{{openapi: api.json, base_url: 'https://api.example', {options}}}]"
    return manifest(text, server, *needs, api__json=json.dumps(WITH_SCHEMES), **files)


PYTHON = ("canary_tools.py",)
BUILTINS = "sources: [{{builtins: [{}], roots: [.]{}}}]"
ROOT = "./work"
TOUCH_SERVER = {"command": "touch", "args": ["canary"]}
DOCUMENT = json.dumps(API)
EXTERNAL = "sources: [{{openapi: {}, external_files: true, base_url: '{{server}}'}}]"
PARTS = json.dumps({**API, "paths": {"/a": {"$ref": "part.json"}}})
PART = json.dumps(API["paths"]["/a"])
SERVERS = json.dumps({"mcpServers": {"a": TOUCH_SERVER}})

ROWS: dict[str, list[Case]] = {
    "a Python file": [
        Case("canary_tools.py", PYTHON),
        Case("canary_tools.py:find", PYTHON),
        manifest("sources: [canary_tools.py]", *PYTHON),
        manifest("sources: [{source: canary_tools.py}]", *PYTHON),
        Case("house/canary_tools.py", ("house/*.py",), {"house/__init__.py": TOUCH, "house/canary_tools.py": CODE}),
    ],
    "a module": [
        Case("tests.manifest.shelf", ("tests.manifest.shelf",)),
        manifest("sources: [{source: tests.manifest.shelf}]", "tests.manifest.shelf"),
        Case("canary_tools", ("canary_tools", ".")),
        manifest("sources: [{source: canary_tools}]", "canary_tools", "."),
        from_dict(lambda: ToolSpec.from_function(json.dumps, name="a", input_schema={"type": "object"}), "json"),
    ],
    "code that is a text": [
        Case(CODE, ("<code>",)),
        manifest(f"sources: [{{code: {json.dumps(CODE)}}}]", "<code>"),
        from_dict(lambda: ToolSpec.from_code("def a() -> int:\n    return 1"), "<code>"),
    ],
    "an object in a file or module: an approver, a middleware": [
        manifest("approval: {approver: 'canary_tools.py:find'}", *PYTHON),
        manifest("middleware: ['canary_tools.py:middleware']", *PYTHON),
        manifest("approval: {approver: 'operator:truth'}", "operator"),
        manifest("middleware: ['json:codecs.encode']", "json", "codecs"),
    ],
    "the program of an MCP server": [
        Case("touch canary", ("touch",)),
        mcp_json(TOUCH_SERVER, "touch"),
        manifest("sources: [{server: [touch, canary]}]", "touch"),
        manifest("sources: [{server: [./run.sh]}]", "./run.sh", run__sh="#!/bin/sh\ntouch canary"),
    ],
    "the script of an MCP server": [
        Case("mcp:canary_tools.py", PYTHON),
        manifest("sources: [{server: canary_tools.py}]", *PYTHON),
    ],
    "the URL of an MCP server": [
        Case("{server}/mcp", ("{server}",)),
        mcp_json({"url": "{server}/mcp"}, "{server}"),
        manifest("sources: [{server: '{server}/mcp'}]", "{server}"),
        manifest("sources: ['{server}/mcp']", "{server}"),
    ],
    "the URL of an OpenAPI document": [
        Case("{server}/openapi.json", ("{server}",)),
        manifest("sources: [{openapi: '{server}/openapi.json'}]", "{server}"),
    ],
    "`${NAME}` in a text, or as a credential": [
        mcp_json({"url": "{server}/${CANARY}"}, "{server}", "${CANARY}"),
        mcp_json({"url": "{server}", "headers": {"X": "${env:CANARY}"}}, "{server}", "${CANARY}"),
        manifest("sources: [{server: '{server}/${CANARY}'}]", "{server}", "${CANARY}"),
        manifest("timeout: '${CANARY_SECONDS:3}'\nsources: []", "${CANARY_SECONDS}"),
        Case("tool.yaml", ("https://api.example", "${CANARY}"), {"tool.yaml": SECRET_TOOL}),
        from_dict(http_tool(auth_method="api_key", api_key="${CANARY}"), "https://api.example", "${CANARY}"),
        from_openapi("${CANARY}", auth={"key": "${CANARY}"}),
        from_openapi("${CANARY}", headers={"Authorization": "Bearer ${CANARY}"}),
        openapi("auth: {key: '${CANARY}'}", "${CANARY}"),
        openapi("headers: {X-Other-Key: '${CANARY}'}", TOKEN_SERVER, "${CANARY}"),
    ],
    "`${userHome}` in an mcp.json": [mcp_json({"url": "{server}/${userHome}"}, "{server}", "${HOME}")],
    "a variable that is set for a program: `env`": [
        mcp_json({**TOUCH_SERVER, "env": {"LD_PRELOAD": "x"}}, "touch", "${LD_PRELOAD}"),
        manifest("sources: [{server: [touch, canary], env: {PATH: .}}]", "touch", "${PATH}"),
    ],
    "`envFile` of an mcp.json": [
        mcp_json({**TOUCH_SERVER, "envFile": ".env"}, "touch", "./.env", "${A}", **{".env": "A=b"}),
    ],
    "the requests of an HTTP tool or an OpenAPI document": [
        Case("tool.yaml", ("{server}",), {"tool.yaml": TOOL}),
        manifest("sources: [{http: {name: a, api_url: '{server}/a'}}]", "{server}"),
        manifest("sources: [{openapi: api.json, base_url: '{server}'}]", "{server}", api__json=json.dumps(API)),
        Case("api.json", ("{server}",), {"api.json": json.dumps({**API, "servers": [{"url": "{server}"}]})}),
        Case("tool.yaml", ("{server}", "https://p.example"), {"tool.yaml": TOOL + "proxy: https://p.example:443"}),
        from_dict(http_tool(), "https://api.example"),
        from_openapi(TOKEN_SERVER),  # each alternative can be bound later
        from_openapi(TOKEN_SERVER, "${CANARY}", auth={"grant": GRANT}),
        from_openapi(auth={"grant": None}),
        from_openapi(TOKEN_SERVER, "https://p.example", http={"proxy": "https://p.example"}),
        openapi(f"auth: {{grant: {json.dumps(GRANT)}}}", TOKEN_SERVER, "${CANARY}"),
        openapi("http_options: {proxy: 'https://p.example'}", TOKEN_SERVER, "https://p.example"),
    ],
    "`proxy: environment`": [
        Case("tool.yaml", ("{server}", "${HTTP_PROXY}"), {"tool.yaml": TOOL + "proxy: environment"}),
        from_dict(http_tool(proxy="environment"), "https://api.example", "${HTTPS_PROXY}"),
        from_openapi(TOKEN_SERVER, "${HTTPS_PROXY}", http={"proxy": "environment"}),
        openapi("http_options: {proxy: environment}", TOKEN_SERVER, "${HTTPS_PROXY}"),
    ],
    "`follow_redirects: true`": [
        Case(
            "tool.yaml", ("{server}", "https://*", "http://*"), {"tool.yaml": TOOL + "follow_redirects: true"}
        ),
        from_dict(http_tool(follow_redirects=True), "https://*", "http://*"),
        from_openapi("http://*", http={"follow_redirects": True}, server="https://*"),
        openapi("http_options: {follow_redirects: true}", "http://*", server="https://*"),
    ],
    "`allow_private`": [
        Case("tool.yaml", ("{server}", "<private>"), {"tool.yaml": TOOL + "allow_private: true"}),
        from_dict(http_tool(allow_private=["api.example"]), "https://api.example", "<private>"),
        from_openapi(TOKEN_SERVER, "<private>", http={"allow_private": True}),
        openapi("http_options: {allow_private: [other.example]}", TOKEN_SERVER, "<private>"),
    ],
    "a file that is read, in the folder of the document": [
        manifest("sources: [{source: deep/wire.json}, {manifest: other.yaml}]", **{
            "deep/wire.json": json.dumps(WIRE), "other.yaml": "sources: []",
        }),
        manifest("middleware: [{replay: {path: calls.jsonl}}]", **{"calls.jsonl": '{"version": 1}\n'}),
        manifest("sources: [wire.json]\ntools: {'*': {ui: a.html}}", wire__json=json.dumps(WIRE), a__html="a"),
        manifest(EXTERNAL.format("api.json"), "{server}", **{"api.json": PARTS, "part.json": PART}),
    ],
    "a file that is read, elsewhere": [
        inner("sources: [../wire.json]", "./wire.json", **{"wire.json": json.dumps(WIRE)}),
        inner("sources: [{source: ../wire.json}]", "./wire.json", **{"wire.json": json.dumps(WIRE)}),
        inner("sources: [{manifest: ../b.yaml}]", "./b.yaml", **{"b.yaml": "sources: []"}),
        inner("sources: [../b.yaml]", "./b.yaml", **{"b.yaml": "sources: []"}),
        inner("sources: [{server: ../b.json}]", "./b.json", "touch", **{"b.json": SERVERS}),
        inner("sources: [{openapi: ../b.json, base_url: '{server}'}]", "{server}", "./b.json", **{"b.json": DOCUMENT}),
        inner(
            EXTERNAL.format("../b.json"), "{server}", "./b.json", "./part.json", **{"b.json": PARTS, "part.json": PART}
        ),
        inner("middleware: [{replay: {path: ../calls.jsonl}}]", "./calls.jsonl", **{"calls.jsonl": ""}),
        inner("tools: {'*': {ui: ../a.html}}", "./a.html", **{"a.html": "a"}),
        inner("tools: {'*': {ui: {html: ../a.html}}}", "./a.html", **{"a.html": "a"}),
    ],
    "`ca_file`": [
        Case("tool.yaml", ("{server}", "./ca.pem"), {"tool.yaml": TOOL + "ca_file: ca.pem", "ca.pem": ""}),
        from_dict(http_tool(ca_file="ca.pem"), "https://api.example", "./ca.pem"),
        from_openapi(TOKEN_SERVER, "./ca.pem", http={"ca_file": "ca.pem"}),
        openapi("http_options: {ca_file: ca.pem}", TOKEN_SERVER, "./ca.pem", ca__pem=""),
    ],
    "a file that is written: `approval.store`, `record`, `keep_large`, `stderr`, `pin`": [
        manifest("approval: {store: canary, secret_key: '${CANARY}'}", "./canary", "${CANARY}"),
        manifest("middleware: [{record: {path: canary}}]", "./canary"),
        manifest("middleware: [{keep_large: {folder: canary}}]", "./canary"),
        manifest("sources: [{code: 'def a(): ...', middleware: [{record: {path: canary}}]}]", "<code>", "./canary"),
        manifest("sources: [{server: [touch, x], stderr: canary}]", "touch", "./canary"),
        manifest("sources: [{server: [touch, canary], pin: canary.lock}]", "touch", "./canary.lock"),
    ],
    "groups of built-in tools": [
        manifest(BUILTINS.format("files", ""), "<builtins:files>", "./"),
        manifest(BUILTINS.format("system, git", ""), "<builtins:system>", "<builtins:git>", "./"),
        manifest("roots: [work]\nsources: [builtins]", "<builtins:*>", ROOT),
    ],
    "`roots`": [
        manifest("roots: [work]", ROOT),
        manifest("roots: [/]", "/"),
        manifest("sources: [{builtins: [files], roots: [work, /usr]}]", "<builtins:files>", ROOT, "/usr"),
    ],
    "`approve: never` of built-in tools": [
        manifest(BUILTINS.format("shell", ", approve: never"), "<builtins:shell>", "<approve:never>", "./"),
    ],
    "`sandbox: none` of built-in tools": [
        manifest(BUILTINS.format("python", ", sandbox: none"), "<builtins:python>", "<sandbox:none>", "./"),
    ],
    "`network: true` of built-in tools": [
        manifest(BUILTINS.format("shell", ", network: true"), "<builtins:shell>", "<network>", "./"),
    ],
    "tools as MCP lists them, groups, toolsets, texts": [
        Case("wire.json", (), {"wire.json": json.dumps(WIRE)}),
        Case("wire.jsonl", (), {"wire.jsonl": json.dumps(WIRE[0])}),
        Case(WIRE, ()),
        manifest("sources: [wire.json]\ngroups: {g: text}\ntoolsets: {t: [a]}", **{"wire.json": json.dumps(WIRE)}),
        Case("folder", (), {"folder/wire.json": json.dumps(WIRE)}),
    ],
}  # fmt: skip

CASES = [pytest.param(case, id=f"{row}-{number}") for row, cases in ROWS.items() for number, case in enumerate(cases)]


private_folder.new_file("kept").close()  # the folder of built-in tools stays open until the process ends


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY", "the-canary-of-the-environment")
    (tmp_path / "work").mkdir()
    (tmp_path / "canary_tools.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    with forgotten(tmp_path):
        yield


def attempt(case: Case, trust: list[str], server: str) -> str | None:
    """Load a source, and return the error if it is one about trust: programs and servers here answer no MCP."""

    def fill(text: str) -> str:
        return text.replace("{server}", server)

    for name, text in case.files.items():
        file = Path(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(fill(text))
        file.chmod(0o755)
    try:
        if callable(case.source):
            case.source(list(map(fill, trust)))
        else:
            source = fill(case.source) if isinstance(case.source, str) else case.source
            load(source, trust=list(map(fill, trust)))
    except SourceError as error:
        return str(error) if "not trusted" in str(error) else None
    return None


def traces() -> list[str]:
    """Return what was done: modules that were imported, files that were made, requests that were sent."""
    made = [path.name for path in Path().rglob("canary*") if path.name != "canary_tools.py" and path.suffix != ".pyc"]
    return [*made, *({"canary_tools"} & sys.modules.keys()), *(["request"] if Server.asked else [])]


@pytest.mark.parametrize("case", [param for param in CASES if param.values[0].needs])
@pytest.mark.default_cases(30)
def test_without_trust_it_is_refused_before_anything_happens(case: Case, server: str) -> None:
    error = attempt(case, [], server)
    assert error is not None
    assert "add '" in error
    assert "the-canary-of-the-environment" not in error
    assert traces() == []


@pytest.mark.parametrize("case", CASES)
@pytest.mark.default_cases(30)
def test_it_needs_these_patterns_and_no_others(case: Case, server: str) -> None:
    for missing in case.needs if len(case.needs) > 1 else ():
        assert attempt(case, [one for one in case.needs if one != missing], server) is not None, missing
    assert traces() == []
    assert attempt(case, list(case.needs), server) is None


def test_each_row_of_the_table_in_the_docs_is_tried() -> None:
    page = Path(__file__).parents[2].joinpath("docs/reference/trust.md").read_text(encoding="utf-8")
    table = page.partition("<!-- trust -->")[2].strip().partition("\n\n")[0]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]] == list(ROWS)


def test_a_file_that_needs_more_than_is_trusted_is_skipped_in_a_folder(server: str) -> None:
    Path("all").mkdir()
    Path("all/wire.json").write_text(json.dumps(WIRE))
    Path("all/canary_tools.py").write_text(CODE)
    Path("all/servers.json").write_text('{"mcpServers": {"a": {"command": "touch", "args": ["canary"]}}}')
    Path("outside.json").write_text(json.dumps([{"name": "b", "inputSchema": {"type": "object"}}]))
    Path("all/link.json").symlink_to(Path("outside.json").resolve())
    kit = load("all", trust=[])
    assert [tool.name for tool in kit] == ["a"]
    assert {error.file for error in kit.load_errors} == {"all/canary_tools.py", "all/servers.json", "all/link.json"}
    assert traces() == []


class TestRoots:
    """`roots=` of the host narrows the roots of a manifest."""

    @pytest.mark.parametrize(
        ("written", "passed", "expected"),
        [
            ("[.]", "work", ["work"]),
            ("[/]", "work", ["work"]),
            ("[work/deep]", "work", ["work/deep"]),
            ("[work, other]", "work", ["work"]),
            ("[/, work]", ["work", "other"], ["work", "other"]),
        ],
    )
    def test_the_folders_are_those_that_both_allow(self, written: str, passed: Any, expected: list[str]) -> None:
        for folder in ("work/deep", "other"):
            Path(folder).mkdir(parents=True)
        for text in (f"roots: {written}\nsources: [builtins]", f"sources: [{{builtins: standard, roots: {written}}}]"):
            Path("kit.yaml").write_text(text)
            kit = load("kit.yaml", roots=passed, trust=["<builtins:*>"])
            found = [Path(root) for root in kit["ls"].body.__self__.folders.roots]
            assert found == [Path(folder).resolve() for folder in expected]

    def test_a_manifest_without_roots_has_those_of_the_host(self) -> None:
        Path("kit.yaml").write_text("sources: [builtins]")
        kit = load("kit.yaml", roots="work")
        kit.call("create_file", {"uri": "a.txt", "content": "tea"})
        assert Path("work/a.txt").read_text() == "tea"

    def test_roots_that_are_all_outside_are_an_error(self) -> None:
        Path("kit.yaml").write_text("sources: [{builtins: [files], roots: [/]}]\nroots: [other]")
        with pytest.raises(SourceError, match=r"roots: The document's roots are all outside of roots="):
            load("kit.yaml", roots="work")

    def test_they_hold_in_manifests_that_a_manifest_includes(self) -> None:
        Path("inner.yaml").write_text("sources: [{builtins: [files], roots: [/]}]")
        Path("kit.yaml").write_text("sources: [inner.yaml]")
        kit = load("kit.yaml", roots="work", trust=["<builtins:files>"])
        assert kit.exec("read_file", {"uri": "/etc/hostname"}).is_error

    def test_a_link_out_of_the_hosts_roots_does_not_widen_them(self, tmp_path: Path) -> None:
        Path("work/link").symlink_to(tmp_path / "other")
        Path("other").mkdir()
        Path("kit.yaml").write_text("sources: [{builtins: [files], roots: [work/link]}]")
        with pytest.raises(SourceError, match="all outside of roots="):
            load("kit.yaml", roots="work")

    def test_a_root_that_is_a_link_keeps_the_name_that_the_host_used(self) -> None:
        Path("link").symlink_to("work")
        Path("kit.yaml").write_text("sources: [{builtins: [shell]}]\nroots: [link]")
        for kit in (load("kit.yaml"), load("builtins", roots="link")):
            assert kit.call("shell_exec", {"cmd": "pwd"}).stdout == f"{Path('link').absolute()}\n"

    def test_a_source_without_roots_refuses_the_option(self) -> None:
        with pytest.raises(SourceError, match="is for the source 'builtins' and for manifests"):
            load("canary_tools.py", roots="work")


def test_the_path_of_a_program_begins_in_the_folder_in_which_it_starts() -> None:
    """`./run.sh` of the host is not that of a manifest elsewhere."""
    script = "#!/bin/sh\ntouch canary-of-the-document"
    for name in ("run.sh", "work/run.sh", "work/deep/run.sh"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(script)
        Path(name).chmod(0o755)
    for server in ("[./run.sh]", "./run.sh", "{command: ./run.sh}", "{command: ./run.sh, cwd: deep}"):
        Path("work/kit.yaml").write_text(f"sources: [{{server: {server}}}]")
        with pytest.raises(SourceError, match=r"add 'work/(deep/)?run.sh' to trust="):
            load("work/kit.yaml", trust=["./run.sh"])
    Path("work/kit.yaml").write_text("sources: ['./run.sh x']")
    with pytest.raises(SourceError, match=r"add 'work/run\.sh' to trust="):
        load("work/kit.yaml", trust=["./run.sh"])
    assert not list(Path().rglob("canary-of*"))
