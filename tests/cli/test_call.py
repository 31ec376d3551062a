"""`ahvn-tools call` in a pipe: arguments, results, files, exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from ahvn_tools.cli.arguments import read_arguments
from ahvn_tools.cli.call import CallOutput
from ahvn_tools.cli.output import UsageError
from ahvn_tools.results import ToolResult
from tests.cli.desk import DESK


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "desk.py").write_text(DESK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(desk, capsys):
    """Return a function that runs the command and returns its status, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        sys.modules.pop("desk", None)  # each command is a process of its own
        status = main(["call", "desk.py", *words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


# arguments


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["text=3"], {"text": "3"}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=--json"], {"text": "--json"}),
        (["number=-3", "share=1.5", "flag=true"], {"number": -3, "share": 1.5, "flag": True}),
        (["tags=a", "tags=3"], {"tags": ["a", "3"]}),
        (["tags=a"], {"tags": ["a"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["ids=1", "ids=2"], {"ids": [1, 2]}),
        (['point={"x": 1}'], {"point": {"x": 1, "y": 0.0}}),
        (['point:={"x": 1}'], {"point": {"x": 1, "y": 0.0}}),
        (["either=word"], {"either": "word"}),
        (["either:=3"], {"either": 3}),
        (['either:="3"'], {"either": "3"}),
        (["anything=word"], {"anything": "word"}),
        (["maybe=3"], {"maybe": "3"}),
        (["color=green"], {"color": "green"}),
        (['{"number": 2}', "text=a"], {"number": 2, "text": "a"}),
        (["text@=note.txt"], {"text": "a\nnote"}),
        (["point@=point.json"], {"point": {"x": 1, "y": 0.0}}),
        (["anything:@=point.json"], {"anything": {"x": 1}}),
    ],
)
@pytest.mark.default_cases(8)
def test_a_value_is_read_as_the_type_of_its_parameter(call, desk, words, value):
    (desk / "note.txt").write_text("a\nnote")
    (desk / "point.json").write_text('{"x": 1}')
    status, out, err = call("echo", *words)
    assert (status, err) == (0, "")
    assert json.loads(out) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["txt=canary"], "There is no parameter 'txt'. Did you mean 'text'?"),
        (["user=canary"], "There is no parameter 'user'. "),
        (
            ["canary"],
            "Write arguments with their names, as in text=VALUE; or as one JSON object, or - for JSON from stdin.",
        ),
        (["--jso"], "There is no option '--jso'. See ahvn-tools call --help."),
        (["number=canary"], "'number' should be an integer."),
        (["number=1.5"], "'number' should be an integer."),
        (["flag=yes"], "'flag' should be true or false."),
        (["color=canary"], '\'color\' should be one of "red", "green".'),
        (["level=0"], "Invalid arguments: 'level' should be greater than or equal to 1."),
        (["text=canary", "text=canary"], "'text' is on the command line 2 times, and is not an array: write it once."),
        (["tags=a", "tags:=[]"], "'tags' is on the command line 2 times: write one JSON array."),
        (["text=a", '{"text": "canary"}'], "'text': written twice."),
        (["either=3"], "The value of 'either' can be read as a text and as an integer: write either:=JSON, "),
        (["anything=true"], "The value of 'anything' can be read as a text and as true or false: write "),
        (["maybe=null"], "The value of 'maybe' can be read as a text and as null: write maybe:=JSON, "),
        (["point.x=1"], "There is no parameter 'point.x'. Pass the object whole: point:='{…}'."),
        (["point:={canary"], "The value of 'point' is no JSON. "),
        (["share:=NaN"], "The value of 'share' is no JSON. "),
        (["{canary"], "The argument is no JSON object."),
        (["text@=nowhere"], "The file for 'text' cannot be read: No such file or directory."),
        (["=canary"], "Write an argument as NAME=VALUE, "),
        (["--set", "canary"], "Write --set as KEY=VALUE."),
        (["--set", "a..b=canary"], "--set: Malformed state key 'a..b'"),
        (["--bind", "nope=user"], "--bind: "),
        (["--bind", "text="], "--bind: Malformed state key ''"),
        (["--output-dir", "nowhere"], "There is no folder 'nowhere'."),
        (["--state", "nowhere.json"], "The state file 'nowhere.json' cannot be read: No such file or directory."),
        (["--timeout", "0"], "Invalid value "),
        (["--timeout", "inf"], "Invalid value "),
    ],
)
@pytest.mark.default_cases(10)
def test_arguments_that_cannot_be_read_are_errors_without_their_values(call, words, message):
    status, out, err = call("echo", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert "canary" not in err


PETS = """
openapi: 3.1.0
servers: [{url: "https://pets.example"}]
paths:
  /pets:
    post:
      operationId: createPet
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
components:
  schemas:
    Pet:
      oneOf: [{$ref: "#/components/schemas/Cat"}, {$ref: "#/components/schemas/Dog"}]
      discriminator: {propertyName: kind, mapping: {cat: "#/components/schemas/Cat", dog: "#/components/schemas/Dog"}}
    Cat: {type: object, required: [kind], properties: {kind: {type: string}, lives: {type: integer}}}
    Dog: {type: object, required: [kind], properties: {kind: {type: string}, barks: {type: boolean}}}
"""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"kind": "canary"}', '\'body.kind\' should be one of ["cat", "dog"]'),
        (
            '{"kind": "cat", "lives": "canary"}',
            "'body' does not match its alternative 'Cat': 'body.lives' should be of type int",
        ),
        ("canary", "'body' does not match its alternative 'Cat': 'body' should be of type object"),
    ],
)
def test_a_value_of_no_alternative_is_explained_as_in_python(desk, capsys, value, message):
    (desk / "pets.yaml").write_text(PETS)
    assert main(["call", "pets.yaml", "createPet", f"body={value}"]) == 2
    error = capsys.readouterr().err
    assert f"error: Invalid arguments: {message}" in error
    assert "canary" not in error


NOTES = """
from ahvn_tools import Toolkit

kit = Toolkit("notes")


@kit.tool
def search(query: str, user: str, limit: int = 3) -> str:
    return user


kit.bind("user", "of.user").bind("limit")
"""


def test_a_missing_value_of_the_state_is_an_error_that_names_the_option(tmp_path, monkeypatch, capsys):
    (tmp_path / "more.py").write_text(NOTES)
    monkeypatch.chdir(tmp_path)
    assert main(["call", "more.py", "search", "query=tea"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: Parameter 'user' is bound to 'of.user': no state has that key; set state key 'of.user'. "
        "Pass it with --set of.user=VALUE, or --state FILE."
    )
    assert main(["call", "more.py", "search", "query=tea", "--set", "of.user=ann", "--set", "limit=canary"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "--set limit=VALUE" in error
    assert "canary" not in error
    assert main(["call", "more.py", "search", "query=tea", "--set", "of.user=ann"]) == 0


def test_an_unknown_tool_is_an_error_with_similar_names(call):
    assert call("gret")[::2] == (2, "error: There is no tool 'gret'. Did you mean 'greet'?\n")


def test_other_names_are_accepted_where_the_schema_says_so():
    schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    assert read_arguments(["depth=3"], schema, {}) == {"depth": 3}
    assert read_arguments(["depth=3"], {"type": "object", "patternProperties": {"^d": {"type": "string"}}}, {}) == {
        "depth": "3"
    }
    with pytest.raises(UsageError, match="There is no parameter 'depth'"):
        read_arguments(["depth=3"], {"type": "object", "properties": {"width": {}}}, {})


def test_missing_arguments_are_not_asked_for_in_a_pipe(call):
    status, out, err = call("login", "name=a")
    assert (status, out) == (2, "")
    assert "'password' is missing" in err


def test_a_json_object_is_read_from_stdin(call, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"number": 4}'))
    assert call("echo", "-", "text=a")[:2] == (0, '{"text": "a", "number": 4}\n')
    monkeypatch.setattr(sys, "stdin", io.StringIO("canary"))
    assert call("echo", "-")[::2] == (2, "error: The input on stdin is no JSON object.\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("from stdin"))
    assert call("echo", "text@=-")[1] == '{"text": "from stdin"}\n'


# state and bindings


def test_state_comes_from_a_file_and_from_options_and_is_never_printed(call, desk):
    (desk / "state.json").write_text('{"user": {"name": "canary-bob"}, "other": "canary-bob"}')
    (desk / "state.yaml").write_text("user:\n  name: canary-bob\n")
    (desk / "marked.json").write_text('\ufeff{"user": {"name": "canary-bob"}}', encoding="utf-8")
    assert call("who")[1] == '{"length": 10, "known": false}\n'
    for words in (
        ["--state", "state.json"],
        ["--state", "state.yaml"],
        ["--state", "marked.json"],
        ["--set", "user.name=canary-bob"],
        ["--state", "state.json", "--bind", "user=other"],
    ):
        assert call("who", *words) == (0, '{"length": 10, "known": true}\n', "")
    assert call("fail", "--set", "user.name=canary-bob") == (1, "", "error: ValueError: no such user: <user>\n")
    status, _, err = call("who", "user=canary-bob")
    assert (status, err) == (
        2, "error: 'user' is bound to the state key 'user.name': pass it with --set user.name=VALUE.\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("state.json", '{\n"a": canary}', "is no JSON, line 2. "),
        ("state.yaml", "a: 1\nb: [canary\n", "is no YAML, line 3."),
        ("state.yaml", "- canary", "must contain a mapping with texts as keys."),
        ("state.yaml", "!!python/object/apply:os.system [canary]", "is no YAML, line 1."),
    ],
)
def test_a_state_file_that_cannot_be_read_is_an_error_without_its_content(call, desk, name, text, message):
    (desk / name).write_text(text)
    status, _, err = call("who", "--state", name)
    assert (status, "canary" in err) == (2, False)
    assert err.startswith(f"error: The state file {name!r} {message}")


# results


def test_what_a_tool_prints_goes_to_stderr(call):
    assert call("greet", "name=Ann") == (0, "hello Ann \n", "printed by the tool\n")


def test_a_tool_of_an_inactive_group_can_be_called(call):
    assert call("lift") == (0, "", "")


def test_items_are_printed_as_they_come_and_only_once(call):
    status, out, err = call("count", "to=2")
    assert (status, out) == (0, "0\n1\n")
    assert err == "output 0 \\x1b[2J\noutput 1 \\x1b[2J\n"


class Terminal(io.StringIO):
    def __init__(self, *, is_terminal: bool = True):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize(
    ("result", "printed"),
    [
        ("STDOUT:\na\nb", ""),
        ("STDOUT:\na\nSTDERR:\nb\nERROR:\nIt failed.", "ERROR:\nIt failed.\n"),
        ("STDOUT:\na\nunseen\nSTDERR:\nb", "STDOUT:\na\nunseen\n"),
        ("<returncode>0</returncode><stdout>a\n</stdout><stderr></stderr>", "<returncode>0</returncode>\n"),
        ("a", "a\n"),
    ],
)
def test_a_terminal_shows_the_output_of_a_process_once(monkeypatch, tmp_path, result, printed):
    for of_stdout, of_stderr in ((True, True), (True, False), (False, True)):
        out, err = Terminal(is_terminal=of_stdout), Terminal(is_terminal=of_stderr)
        monkeypatch.setattr(sys, "stderr", err)
        output = CallOutput(out, tool="run", folder=tmp_path, is_json=False)
        output.print_chunk(ToolResult("a\nb\n", meta={"output": True}, is_last=False))
        output.print_result(ToolResult(result))
        assert err.getvalue() == "a\nb\n\n"
        assert out.getvalue() == (printed if of_stdout and of_stderr else f"{result}\n")


def test_json_is_one_document_or_a_line_for_each_item(call):
    status, out, _ = call("greet", "--json", '{"name": "Ann"}')
    result = json.loads(out)
    assert (status, out.count("\n"), result["value"]) == (0, 1, "hello Ann ")
    assert result.keys() == {
        "value", "structured_content", "content", "is_error", "error", "meta", "is_last", "is_interrupted", "id"
    }  # fmt: skip
    lines = [json.loads(line) for line in call("count", "to=2", "--json")[1].splitlines()]
    assert [(line["value"], line["is_last"]) for line in lines] == [(0, False), (1, False), ([0, 1], True)]
    status, out, _ = call("refuse", "--json")
    assert (status, json.loads(out)["error"]["code"]) == (1, "tool_error")
    status, out, _ = call("pictures", "--json")
    assert [block["type"] for block in json.loads(out)["content"]] == ["text", "image", "image", "audio", "resource"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["fail"], 1, "error: ValueError: no such user: <user>\n"),
        (["refuse"], 1, "error: first line\nsecond \\x1b[31mline\n"),
        (["leave"], 1, "error: The tool 'leave' has ended the process (sys.exit).\n"),
        (["asleep", "--timeout", "0.05"], 124, "cleaned up\nerror: Tool 'asleep' did not finish within 0.05 seconds"),
    ],
)
def test_an_error_of_a_tool_is_printed_with_its_text_and_without_bound_values(call, words, status, message):
    ended, out, err = call(*words)
    assert (ended, out) == (status, "")
    assert err.startswith(message)
    assert "canary" not in err


def test_the_place_of_an_error_is_printed_on_request_without_bound_values(call):
    status, out, err = call("fail", "--verbose")
    assert (status, out, "canary" in err) == (1, "", False)
    assert 'desk.py", line ' in err
    assert err.endswith("error: ValueError: no such user: <user>\n")


def test_a_call_that_needs_an_approval_fails_in_a_pipe_unless_it_is_given(call):
    status, out, err = call("wipe", "path=a", "token=canary")
    assert (status, out) == (1, "")
    assert err == (
        'error: This call needs an approval: wipe wants to run with {"path": "a", "token": "***"}. '
        "Repeat the command in a terminal, or with --yes.\n"
    )
    assert call("wipe", "path=a", "--yes")[:2] == (0, "wiped a\n")
    for tool in ("ask", "ask_later"):
        status, _, err = call(tool, "path=a")
        assert (status, f'{tool} asks: delete a {{"path": "a"}}.' in err) == (1, True)
        assert call(tool, "path=a", "--yes")[:2] == (0, "deleted\n")


def test_the_approver_of_a_toolkit_keeps_its_decision(tmp_path, capsys):
    file = tmp_path / "desk.py"
    file.write_text(DESK.replace('Toolkit("desk", ', 'Toolkit("desk", approver=lambda request: "no", '))
    assert main(["call", str(file), "wipe", "path=a", "--yes"]) == 1
    assert "rejected: no" in capsys.readouterr().err


# files


def test_files_are_written_under_names_that_no_tool_chooses(call, desk):
    (desk / "result-pictures.png").write_text("old")
    (desk / "result-pictures-2.png").symlink_to(desk / "nowhere")
    status, out, _ = call("pictures")
    names = ["result-pictures-3.png", "result-pictures-4.png", "result-pictures.bin", "result-pictures-2.bin"]
    assert (status, out.splitlines()) == (0, ["two pictures", *names])
    assert [(desk / name).read_bytes() for name in names] == [b"first", b"second", b"sound", b"evil"]
    assert (desk / "result-pictures.png").read_text() == "old"
    assert not (desk / "nowhere").exists()
    assert not list(desk.parent.glob("evil*"))


def test_files_can_be_written_to_another_folder(call, desk):
    (desk / "out").mkdir()
    assert call("pictures", "--output-dir", "out")[1].splitlines()[1] == str(Path("out", "result-pictures.png"))
    assert (desk / "out" / "result-pictures.png").read_bytes() == b"first"


# other sources


def test_the_tool_may_be_in_another_source(desk, capsys):
    (desk / "more.py").write_text("from ahvn_tools import tool\n\n@tool\ndef other() -> str:\n    return 'there'\n")
    assert main(["call", "desk.py", "other", "--source", "more.py"]) == 0
    assert capsys.readouterr().out == "there\n"


def test_a_text_of_a_fastmcp_server_is_printed_as_that_of_a_local_tool(desk, capsys):
    (desk / "hut.py").write_text(
        "from fastmcp import FastMCP\n\nmcp = FastMCP('hut')\n\n\n"
        "@mcp.tool\ndef say(text: str) -> str:\n    return text\n\n\n"
        "@mcp.tool(output_schema={'type': 'object', 'properties': {'size': {'type': 'integer'}}})\n"
        "def measure() -> dict[str, int]:\n    return {'size': 3}\n"
    )
    assert main(["call", "hut.py", "say", "text=hello"]) == 0
    assert main(["call", "hut.py", "measure"]) == 0
    assert capsys.readouterr().out == 'hello\n{"size": 3}\n'


def test_the_person_at_the_terminal_may_call_tools_for_every_audience_of_inactive_groups_too(desk, capsys):
    (desk / "shop.py").write_text(
        "from ahvn_tools import Toolkit\n"
        "kit = Toolkit('shop').add_group('later')\n"
        "kit.add(lambda: 'placed', rename='place', audience='staff', group='later')\n"
    )
    for options, status in (([], 0), (["--group", "later"], 0), (["--audience", "staff"], 0), (["--audience", "x"], 1)):
        sys.modules.pop("shop", None)
        assert (main(["call", "shop.py", "place", *options]) != 0) == status
        assert ("placed" in capsys.readouterr().out) == (status == 0)
