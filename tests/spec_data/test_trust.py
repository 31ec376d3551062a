"""Nothing is imported, run, read or sent that `trust` does not name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import SourceError
from ahvn_tools.spec_data.tool_data import digest
from tests.spec_data import tools
from tests.spec_data.subjects import SUBJECTS, to_data

ROOT = Path(__file__).resolve().parents[2]

NEEDED = {
    "function": ["tests.spec_data.tools"],
    "schema": ["tests.spec_data.tools"],
    "render": ["tests.spec_data.tools"],
    "resolver": ["tests.spec_data.tools"],
    "code": ["<code>"],
    "variable": ["tests.spec_data.tools", "${CANARY_KEY}"],
    "openapi": ["https://pets.example", "${CANARY_KEY}"],
    "http": ["https://api.example", "https://login.example", "${CANARY_KEY}", "${CANARY_SECRET}", "<private>"],
}


@pytest.mark.parametrize("name", NEEDED)
def test_each_part_of_a_tool_needs_trust(name):
    data, needed = to_data(SUBJECTS[name]()), NEEDED[name]
    assert ToolSpec.from_dict(data, trust=needed).name == data["options"]["name"]
    for missing in needed:
        with pytest.raises(SourceError, match=r"not trusted: add .* to trust=\[…\]"):
            ToolSpec.from_dict(data, trust=[pattern for pattern in needed if pattern != missing])


@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_trusted_by_default_not_even_a_module_that_is_imported_already(name):
    assert tools.__name__ in sys.modules
    data = to_data(SUBJECTS[name]())
    for trust in ({}, {"trust": ()}, {"trust": []}):
        with pytest.raises(SourceError, match="not trusted"):
            ToolSpec.from_dict(data, **trust)


def test_none_is_no_list_of_what_is_trusted():
    with pytest.raises(SourceError, match=r"trust is a list, .*: \[\] trusts nothing"):
        ToolSpec.from_dict(SUBJECTS["function"]().to_dict(), trust=None)


def test_nothing_is_imported_or_run_before_everything_is_trusted(tmp_path):
    """In a process that knows nothing yet: the modules of the code, of `render` and of a resolver leave no trace."""
    for name in ("canary_code", "canary_render", "canary_resolver"):
        text = f"import pathlib\npathlib.Path({str(tmp_path / name)!r} + '.ran').touch()\ndef run(a=1): return str(a)\n"
        (tmp_path / f"{name}.py").write_text(text)
    written = _run(tmp_path, """
        import canary_code, canary_render, canary_resolver, json, sys
        from ahvn_tools import ToolSpec
        spec = ToolSpec.from_function(canary_code.run, output="raw", render=canary_render.run)
        spec.bind("a", resolver=canary_resolver.run)
        code = ToolSpec.from_code("open('text.ran', 'w').close()\\ndef run(): return 1")
        json.dump([spec.to_dict(), code.to_dict()], sys.stdout)
    """)  # fmt: skip
    for file in tmp_path.glob("*.ran"):
        file.unlink()
    (tmp_path / "data.json").write_text(written)
    shown = _run(tmp_path, """
        import json, pathlib, sys
        from ahvn_tools import ToolSpec
        names = ["canary_code", "canary_render", "canary_resolver"]
        spec, code = json.load(open("data.json"))
        for data, trust in [(spec, []), (spec, names[:2]), (spec, names[1:]), (spec, names[::2]), (code, names)]:
            try:
                ToolSpec.from_dict(data, trust=trust)
            except ValueError as error:
                assert "not trusted" in str(error), error
            else:
                raise AssertionError(trust)
        assert not sys.modules.keys() & {*names, "fastmcp", "mcp_types"}, "imported"
        assert not list(pathlib.Path().glob("*.ran")), "run"
        print(ToolSpec.from_dict(spec, trust=names).call(), ToolSpec.from_dict(code, trust="<code>").call())
    """)  # fmt: skip
    assert shown == "1 1\n"


def _run(folder: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    command = [sys.executable, "-c", dedent(code)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_path(module: str, qualname: str) -> dict:
    data = to_data(SUBJECTS["function"]())
    data["code"].update(module=module, qualname=qualname)
    data["digest"] = digest(data)
    return data


@pytest.mark.parametrize(
    ("qualname", "message"),
    [
        ("os.system", "has no 'os.system'"),
        ("subprocess.run", "has no 'subprocess.run'"),
        ("foreign", "is not defined there: name the module that defines it"),
        ("tool", "is not defined there"),
        ("caller", "is not defined there"),
        ("greet.__call__", "has no 'greet.__call__'"),
        ("Shop.mro", "is not defined there"),
        ("Shop.__init__", "unbound method|cannot be made"),
        ("Shop", "is a class"),
        ("CALLS", "is not defined there"),
        ("nope", "has no 'nope' in this process"),
    ],
)
def test_a_trusted_module_gives_no_access_to_what_others_define(qualname, message):
    with pytest.raises(SourceError, match=message):
        ToolSpec.from_dict(with_path("tests.spec_data.tools", qualname), trust=["tests.spec_data.tools"])


@pytest.mark.parametrize("module", ["__main__", "__mp_main__", ".tools", "a..b", "a b", "os;x", "", "a/b", "*"])
def test_a_module_that_has_no_proper_name_is_refused_whatever_is_trusted(module):
    with pytest.raises(SourceError, match=r"'code\.module' (is __main__|must be names joined by dots)"):
        ToolSpec.from_dict(with_path(module, "run"), trust=["*"])


def test_a_module_that_cannot_be_imported_is_an_error_that_says_why(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {
        "broken_1": "raise SystemExit(3)",
        "broken_2": "1 / 0",
        "broken_3": "import nothing_here",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
        with pytest.raises(SourceError, match=rf"Module '{name}' cannot be imported: (System|Zero|ModuleNot)"):
            ToolSpec.from_dict(with_path(name, "run"), trust=[name])
    with pytest.raises(SourceError, match="Module 'missing_module_x' cannot be imported: ModuleNotFoundError"):
        ToolSpec.from_dict(with_path("missing_module_x", "run"), trust=["missing_module_x"])


def test_a_module_whose_names_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raising_names.py").write_text("def __getattr__(name): raise RuntimeError(name)")
    with pytest.raises(SourceError, match=r"raising_names\.run cannot be read: RuntimeError\."):
        ToolSpec.from_dict(with_path("raising_names", "run"), trust=["raising_names"])


def test_code_that_fails_is_an_error_that_says_why():
    data = to_data(SUBJECTS["code"]())
    for text, message in {"1 / 0": "ZeroDivisionError", "def": "SyntaxError", "exit()": "SystemExit"}.items():
        data["code"]["text"] = text
        data["digest"] = digest(data)
        with pytest.raises(SourceError, match=f"The code in the data cannot be run: {message}"):
            ToolSpec.from_dict(data, trust=["<code>"])
    data["code"]["text"] = "def volume(): return 1"
    data["digest"] = digest(data)
    with pytest.raises(SourceError, match="'area' cannot be made from its data: The code defines no function 'area'"):
        ToolSpec.from_dict(data, trust=["<code>"])


def test_a_proxy_and_a_file_of_certificates_must_be_trusted(tmp_path):
    certificates = tmp_path / "ca.pem"
    certificates.write_text("")
    options = {"proxy": "http://proxy.example:3128", "ca_file": str(certificates)}
    data = json.loads(json.dumps(ToolSpec.from_http("ping", "https://api.example/ping", **options).to_dict()))
    needed = ["https://api.example", "http://proxy.example:3128", str(tmp_path)]
    assert ToolSpec.from_dict(data, trust=needed).body.options.proxy == options["proxy"]
    for missing in needed:
        with pytest.raises(SourceError, match="not trusted"):
            ToolSpec.from_dict(data, trust=[pattern for pattern in needed if pattern != missing])
