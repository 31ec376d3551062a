"""Trust: patterns of modules, files, programs, code, environment variables and servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.trust import Trust


@pytest.fixture(autouse=True)
def _here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_without_a_list_everything_that_a_source_names_may_run(tmp_path):
    trust = Trust()
    trust.require_module("acme")
    trust.require_file(tmp_path)
    trust.require_program("npx", Path())
    trust.require_code()


@pytest.mark.parametrize(
    ("pattern", "is_trusted"),
    [
        ("shed.py", True),
        (Path("shed.py"), True),
        (".", True),
        ("*.py", True),
        ("./*", True),
        ("**/*.py", True),
        ("**", False),
        ("*", False),
        ("hut.py", False),
        ("she", False),
        ("shed", False),
        ("<code>", False),
    ],
)
def test_files_are_trusted_by_path_by_folder_or_by_pattern(pattern, is_trusted, tmp_path):
    for file in (Path("shed.py"), tmp_path / "shed.py", Path("x/../shed.py")):
        if is_trusted:
            Trust([pattern]).require_file(file)
        else:
            with pytest.raises(SourceError):
                Trust([pattern]).require_file(file)


@pytest.mark.parametrize(
    ("pattern", "name", "is_trusted"),
    [
        ("acme", "acme", True),
        ("acme", "acme.tools", False),
        ("acme.*", "acme.tools", True),
        ("acme.*", "acme", False),
        ("acme*", "acmeevil", True),
        ("Acme", "acme", False),
    ],
)
def test_modules_are_trusted_by_name_or_pattern(pattern, name, is_trusted):
    if is_trusted:
        Trust([pattern]).require_module(name)
    else:
        with pytest.raises(SourceError):
            Trust([pattern]).require_module(name)


def test_a_program_in_a_folder_is_not_trusted_by_its_name():
    trust = Trust(["npx", "bin/run"])
    trust.require_program("npx", Path())
    trust.require_program("./bin/run", Path())
    with pytest.raises(SourceError):
        trust.require_program("./npx", Path())


def test_one_text_is_one_pattern():
    Trust("shed.py").require_file(Path("shed.py"))


@pytest.mark.parametrize("patterns", [3, True, object()], ids=["number", "true", "object"])
def test_what_is_no_list_of_patterns_is_refused(patterns):
    with pytest.raises(SourceError, match=r"trust= lists files, modules, programs, .* as texts; "):
        Trust(patterns)


def test_a_path_that_leads_nowhere_is_an_error_that_names_it(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(SourceError, match=r"The file 'nul.+' cannot be found"):
        Trust(["shed.py"]).require_file(Path("nul\x00"))
    with pytest.raises(SourceError, match=r"The pattern './nul.+' of trust= cannot be found"):
        Trust(["./nul\x00"]).require_file(Path("shed.py"))
    for trust, file in ((["loop"], "shed.py"), (["shed.py"], "loop"), (["~nobody-here/x"], "shed.py")):
        with pytest.raises(SourceError, match=r"cannot be found|is not trusted"):
            Trust(trust).require_file(Path(file))


def test_a_tilde_in_a_pattern_is_the_home_folder_and_in_a_file_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Trust(["~/tools"]).require_file(tmp_path / "home/tools/shed.py")
    with pytest.raises(SourceError):
        Trust(["~/tools"]).require_file(Path("~/tools/shed.py"))


@pytest.mark.parametrize("pattern", ["", "  ", 3, b"x"])
def test_a_pattern_that_is_no_text_is_refused(pattern):
    with pytest.raises(SourceError, match=r"trust= lists files, modules, programs, .* as texts; "):
        Trust([pattern])


@pytest.mark.parametrize(
    ("pattern", "name", "is_trusted"),
    [
        ("${API_KEY}", "API_KEY", True),
        ("${ACME_*}", "ACME_KEY", True),
        ("API_KEY", "API_KEY", False),
        ("${ACME_*}", "AWS_KEY", False),
        ("env:API_KEY", "API_KEY", True),
        ("env:ACME_*", "ACME_KEY", True),
        ("env:ACME_*", "AWS_KEY", False),
    ],
)
def test_environment_variables_are_trusted_as_sources_write_them(pattern, name, is_trusted):
    if is_trusted:
        Trust([pattern]).require_variable(name)
    else:
        with pytest.raises(SourceError, match=r"The environment variable '\w+' is not trusted: add '\$\{\w+\}'"):
            Trust([pattern]).require_variable(name)


@pytest.mark.parametrize(
    ("pattern", "url", "is_trusted"),
    [
        ("https://api.example", "https://api.example/v1", True),
        ("https://api.example", "https://API.example", True),
        ("https://api.example:8443", "https://api.example:8443/v1", True),
        ("https://*.example", "https://api.example", True),
        ("http://[::1]:80", "http://[::1]:80/v1", True),
        ("https://api.example", "https://api.example:8443", False),
        ("https://api.example", "http://api.example", False),
        ("https://api.example", "https://api.example.evil.test", False),
        ("https://api.example", "https://api.example@evil.test", False),
        ("https://*.example", "https://evil.test/.example", False),
        ("https://API.example:443", "https://api.example", True),
        ("https://api.example", "HTTPS://api.example:443/v1", True),
        ("http://api.example:80/", "http://api.example", True),
        ("http://api.example:443", "http://api.example", False),
        ("http://localhost:*", "http://localhost:8000", True),
    ],
)
def test_servers_are_trusted_by_scheme_host_and_port(pattern, url, is_trusted):
    if is_trusted:
        Trust([pattern]).require_server(url)
    else:
        with pytest.raises(SourceError, match=r"The server 'http.* is not trusted"):
            Trust([pattern]).require_server(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example\\@evil.test", "https://api.example%2eevil.test", "https://api。example", "//api.example",
        "https://api.exa\tmple", " https://api.example", "https://a@b@api.example", "https://", "https:api.example",
        "https://*", "https://*.example",
    ],
)  # fmt: skip
def test_a_url_that_libraries_read_differently_is_refused(url):
    with pytest.raises(SourceError, match="The URL of a server is none: write a scheme, a host"):
        Trust(["https://*"]).require_server(url)


@pytest.mark.parametrize(
    "pattern", ["https://api.example/v1", "https://user@api.example", "https://", "://x", "https://a?b", "https://a b"]
)
def test_the_pattern_of_a_server_is_an_origin(pattern):
    with pytest.raises(SourceError, match=r"The pattern '.+' of trust= is none: write a scheme, a host"):
        Trust([pattern])


@pytest.mark.parametrize("pattern", ["<cod>", "<builtins:shel>", "<builtins>", "<approve:always>"])
def test_a_feature_that_does_not_exist_is_refused_with_similar_ones(pattern):
    with pytest.raises(SourceError, match=r"'<.+>' in trust= is no feature. (Did you mean|Known:) '<"):
        Trust([pattern])


@pytest.mark.parametrize(
    ("pattern", "file", "is_trusted"),
    [
        ("tt/*.py", "tt/one.py", True),
        ("tt/*.py", "tt/deep/one.py", False),
        ("tt/**/*.py", "tt/deep/er/one.py", True),
        ("tt/**/*.py", "tt/one.py", True),
        ("tt/*", "tt/deep/one.py", False),
        ("tt/", "tt/deep/one.py", True),
        ("t*/", "tt/one.py", False),
        ("tt", "tt/one.py", False),
        (Path("tt"), "tt/one.py", True),
        ("npx", "npx/one.py", False),
        ("tt[1].py", "tt[1].py", True),
        ("./data.db", "data.db", True),
        ("data.db", "data.db", False),
    ],
)
def test_a_star_is_no_folder_and_a_word_no_path(pattern, file, is_trusted):
    if is_trusted:
        Trust([pattern]).require_file(Path(file))
    else:
        with pytest.raises(SourceError):
            Trust([pattern]).require_file(Path(file))


@pytest.mark.parametrize("file", ["x.py", "data.db", "deep/x.py", "/etc/hosts", "a[b].py", "sp ace/x"])
def test_the_pattern_that_an_error_names_trusts_the_file(file):
    with pytest.raises(SourceError) as caught:
        Trust([]).require_file(Path(file))
    pattern = str(caught.value).partition("add '")[2].partition("' to trust")[0]
    Trust([pattern]).require_file(Path(file))


def test_a_star_trusts_names_and_no_variable_server_or_feature():
    trust = Trust(["*"])
    trust.require_module("acme.tools")
    trust.require_program("npx", Path())
    for require in (trust.require_code, trust.require_private, trust.require_any_server):
        with pytest.raises(SourceError):
            require()
    for require, name in ((trust.require_variable, "HOME"), (trust.require_server, "https://api.example")):
        with pytest.raises(SourceError):
            require(name)


def test_a_document_reads_only_its_own_folder_also_through_links(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/link.json").symlink_to(tmp_path / "other.json")
    own = tmp_path / "own"
    Trust([]).require_readable(own / "deep/file.json", own)
    for file in (own / "link.json", own / "../other.json", tmp_path / "own2/x.json"):
        with pytest.raises(SourceError, match="is not trusted"):
            Trust([]).require_readable(file, own)
    Trust(["./other.json"]).require_readable(own / "link.json", own)


def test_an_environment_shows_only_trusted_variables():
    env = Trust(["${A}"]).environment({"A": "1", "B": "2"})
    assert env["A"] == "1"
    for look_up in (lambda: env["B"], lambda: env.get("B"), lambda: "B" in env, lambda: env.get("NONE")):
        with pytest.raises(SourceError, match="is not trusted"):
            look_up()


def test_a_home_folder_may_be_behind_a_link(tmp_path, monkeypatch):
    (tmp_path / "disk/tools").mkdir(parents=True)
    (tmp_path / "homes").mkdir()
    (tmp_path / "homes/ann").symlink_to("../disk")
    monkeypatch.setenv("HOME", str(tmp_path / "homes/ann"))
    Trust(["~/tools/"]).require_file(tmp_path / "disk/tools/shed.py")


def test_a_star_at_the_start_of_a_host_is_a_name_and_no_address():
    for pattern, url in (("http://*", "http://api.example"), ("http://10.0.0.*", "http://10.0.0.7")):
        Trust([pattern]).require_server(url)
    for url in ("http://localhost", "http://10.0.0.7", "http://[::1]", "http://0x7f000001", "http://127.1."):
        with pytest.raises(SourceError, match="is not trusted"):
            Trust(["http://*"]).require_server(url)
