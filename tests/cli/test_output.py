"""What commands print cannot control a terminal, in a pipe, in a terminal, and on streams of any kind."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST
from tests.cli.shop import HOSTILE

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\u202c]")


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    file = tmp_path / "hut.py"
    file.write_text(HOSTILE)
    return str(file)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "{}"],
        ["list", "{}", "--json"],
        ["show", "{}", "evil"],
        ["show", "{}", "evil", "--json"],
        ["search", "{}", "loud"],
        ["export", "{}", "--format", "openai"],
        ["prompt", "{}"],
        ["prompt", "{}", "--calling"],
        ["show", "{}", "\x1b[31m"],
        ["list", "\x1b[31m.py"],
        ["\x1b[31m"],
        ["list", "{}", "--\x1b[31m"],
    ],
)
@pytest.mark.parametrize("forced", ["", "1"])
@pytest.mark.default_cases(8)
def test_texts_of_tools_and_callers_do_not_control_the_terminal(hostile, capsys, monkeypatch, arguments, forced):
    monkeypatch.setenv("FORCE_COLOR", forced)
    monkeypatch.setenv("COLUMNS", "100")
    main([argument.replace("{}", hostile) for argument in arguments])
    printed = capsys.readouterr()
    own_colors = re.compile(r"\x1b\[[0-9;]*m") if forced else re.compile(r"(?!)")
    assert CONTROL.findall(own_colors.sub("", printed.out)) == []
    assert CONTROL.findall(printed.err) == []
    assert "\x1b[5m" not in printed.out


@pytest.mark.parametrize("forced", ["", "1"])
def test_markup_of_rich_and_escapes_are_printed_as_text(hostile, capsys, monkeypatch, forced):
    monkeypatch.setenv("FORCE_COLOR", forced)
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["list", hostile, "--include", "evil"]) == 0
    printed = capsys.readouterr().out
    assert r"[bold red]loud[/bold red] \x1b[31mred\x1b]0;title\x07 \u202edlrow\u202c \u200b\x9b2J :smile:" in printed
    assert r"value: str = '\x1b[5m[/]'" in printed
    assert r"\x1b[2J[blink]" in printed


def test_json_is_the_same_data_however_it_is_escaped(hostile, capsys):
    assert main(["show", hostile, "evil", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "\x1b]0;title\x07" in shown["description"]
    assert shown["input_schema"]["properties"]["value"]["default"] == "\x1b[5m[/]"


def test_a_very_long_name_is_printed_whole(hostile, capsys, monkeypatch):
    assert main(["list", hostile]) == 0
    assert "n" * 300 in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    for columns in ("40", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["list", hostile]) == 0
        assert capsys.readouterr().out.count("n") >= 300


def test_a_stream_that_is_not_unicode_gets_escapes(hostile, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["list", hostile]) == 0
    assert main(["list", hostile, "--json", "--include", "wide"]) == 0
    printed = stream.buffer.getvalue().decode("ascii")
    assert r"\u6f22" in printed
    assert json.loads(printed[printed.index("\n[") :])[0]["description"].startswith("漢字")


@pytest.mark.exhaustive
def test_a_command_whose_reader_has_left_ends_silently(hostile):
    reader, writer = os.pipe()
    with subprocess.Popen(
        [*COMMAND, "export", hostile, "--format", "openai"],
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        os.close(writer)
        os.close(reader)
        assert running.communicate(timeout=LONGEST)[1] == ""
        assert running.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes the streams")
@pytest.mark.parametrize(
    ("closed", "words"),
    [
        ("<&- >&-", ["call", "{}", "quiet"]),
        *(
            pytest.param(closed, words, marks=pytest.mark.exhaustive)
            for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")
            for words in (["list", "{}"], ["call", "{}", "quiet"], ["serve", "{}"])
        ),
    ],
)
@pytest.mark.exhaustive
def test_a_command_runs_without_standard_streams(tmp_path, closed, words):
    file = tmp_path / "tools.py"
    file.write_text("from ahvn_tools import tool\n\n\n@tool\ndef quiet() -> str:\n    'Be quiet.'\n    return 'x'\n")
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *(word.replace("{}", str(file)) for word in words)],
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
