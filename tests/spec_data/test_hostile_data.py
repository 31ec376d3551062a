"""Data that somebody made to do harm: it is refused with a short error, before its code runs."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.definition_lock import from_json
from ahvn_tools.errors import SourceError
from ahvn_tools.spec_data.tool_data import MAX_DEPTH, MAX_ERROR_CHARS, digest
from tests.spec_data import tools
from tests.spec_data.subjects import SUBJECTS, TRUST, from_data, to_data
from tests.spec_data.test_mutations import changed, paths
from tests.spec_data.test_trust import with_path


def nested(levels: int) -> Any:
    value: Any = "end"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def forged(name: str, path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the data of a subject with another member, and with a digest and a fingerprint that fit."""
    data = changed(to_data(SUBJECTS[name]()), path, lambda holder, key: holder.__setitem__(key, value))
    return signed(data)


def signed(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with a fingerprint and a digest that fit, as far as there can be any."""
    with contextlib.suppress(TypeError, ValueError, AttributeError, KeyError):
        data["fingerprint"] = from_json(data["definition"]).fingerprint
    data["digest"] = digest(data)
    return data


HOSTILE: dict[str, Any] = {
    "huge number": 10**400,
    "lone surrogate": "\ud800",
    "control characters": "\x00\x1b[2J\r",
    "long text": "a" * 50_000,
    "many parts": "a." * 3000 + "a",
    "deep list": nested(MAX_DEPTH + 100),
    "list of lists": [[None]],
    "expression that is none": {"type": "string", "pattern": "("},
    "reference": {"$ref": "https://evil.test/schema.json"},
    "huge index": "a[99999999999]",
    "dunder": "__class__",
    "empty name": {"": 1},
}


def error_of(data: dict[str, Any]) -> str:
    """Return the text of the error, or nothing if the data gives a tool that can be written again."""
    try:
        json.dumps(from_data(data).to_dict(values=True))
    except SourceError as error:
        return str(error)
    return ""


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_hostile_value_at_any_place_is_refused_with_a_short_printable_error_or_is_harmless(name):
    original = to_data(SUBJECTS[name]())
    for path in paths(original):
        for description, value in HOSTILE.items():
            text = error_of(forged(name, path, value))
            assert len(text) <= MAX_ERROR_CHARS + 50, (path, description)
            assert text.replace("\n", "").isprintable(), (path, description)


HOSTILE_NAMES = ["a" * 50_000, "\ud800", "\x1b[2J", "__class__", "a.b", ""]


@pytest.mark.parametrize("name", ["default", pytest.param("http", marks=pytest.mark.exhaustive)])
def test_a_hostile_name_of_any_field_is_refused_with_a_short_printable_error_or_is_harmless(name):
    original = to_data(SUBJECTS[name]())
    for path in paths(original):
        if isinstance(path[-1], int):
            continue
        for hostile in HOSTILE_NAMES:
            renamed = changed(
                original, path, lambda holder, key, hostile=hostile: holder.update({hostile: holder.pop(key)})
            )
            text = error_of(signed(renamed))
            assert len(text) <= MAX_ERROR_CHARS + 50, path
            assert text.replace("\n", "").isprintable(), path


def test_data_is_nested_at_most_200_levels_deep():
    data = to_data(SUBJECTS["function"]())
    for levels, is_accepted in [(MAX_DEPTH - 2, True), (MAX_DEPTH - 1, False), (900, False)]:
        data["definition"]["meta"] = data["options"]["meta"] = {"x": nested(levels - 1)}
        if is_accepted:
            assert from_data(signed(data)).definition.meta == data["options"]["meta"]
        else:
            with pytest.raises(SourceError, match="it is nested deeper than 200 levels"):
                from_data(signed(data))


def test_a_tool_whose_data_could_not_be_read_is_not_written():
    spec = ToolSpec.from_function(tools.greet, meta={"x": nested(MAX_DEPTH)})
    with pytest.raises(SourceError, match="it is nested deeper than 200 levels"):
        spec.to_dict()


def test_a_state_key_has_at_most_200_parts():
    """Its default would be a state of that depth, which cannot be copied or pickled."""
    data = forged("default", ("binds", "tone", "key"), "a." * MAX_DEPTH + "a")
    with pytest.raises(SourceError, match=r"'binds\.tone\.key' has more than 200 parts"):
        from_data(data)
    assert from_data(forged("default", ("binds", "tone", "key"), "a." * (MAX_DEPTH - 1) + "a")).clone()(name="Ann")


@pytest.mark.parametrize("schema", [5, [], [["a"]], {"result": 1}, "text"], ids=repr)
def test_a_definition_with_a_malformed_output_schema_is_refused(schema):
    data = forged("function", ("definition", "output_schema", "properties"), schema)
    with pytest.raises(SourceError, match="The code of 'greet' is not that of the data: "):
        from_data(data)


@pytest.mark.parametrize("name", ["", "A=B", "A\x00", "A}*{", "A B", "ＡＰＩ", "1A"], ids=repr)
def test_what_is_no_name_of_an_environment_variable_is_refused_whatever_is_trusted(name):
    data = forged("variable", ("binds", "token", "resolver", "variable"), name)
    with pytest.raises(SourceError, match=r"'binds\.token\.resolver\.variable' must be the name of an environment"):
        ToolSpec.from_dict(data, trust=["*"])


@pytest.mark.parametrize(
    "qualname",
    ["lazy.anything", "lazy.a.b", "lazy.__qualname__", "greet.__globals__", "greet.__globals__.get", "greet.__call__",
     "tool.__wrapped__", "CALLS.append", "Shop.__subclasses__", "Shop.__init__.__globals__", "__loader__.load_module",
     "__spec__.loader.exec_module", "__builtins__", "double.state.clear"],
)  # fmt: skip
def test_no_attribute_of_an_object_is_read_on_the_way_to_a_function(qualname):
    """Only classes are on the way. `__getattr__` and properties of other objects do not run."""
    tools.CALLS.clear()
    with pytest.raises(SourceError, match=r"is not defined there|has no '"):
        ToolSpec.from_dict(with_path("tests.spec_data.tools", qualname), trust=["tests.spec_data.tools"])
    assert not tools.CALLS


@pytest.mark.parametrize("module", ["pip.__main__", "json.__main__", "this.__mp_main__"])
def test_a_program_is_not_imported_whatever_is_trusted(module):
    before = set(sys.modules)
    with pytest.raises(SourceError, match=r"'code\.module' is __main__, which is another program here"):
        ToolSpec.from_dict(with_path(module, "main"), trust=["*"])
    assert module not in set(sys.modules) - before


@pytest.mark.parametrize(
    ("module", "trust"),
    [
        ("json_evil", ["json"]),
        ("jsonevil", ["json.*"]),
        ("json.tool", ["json"]),
        ("ｊson", ["json"]),
        ("JSON", ["json"]),
        ("json", ["json "]),
        ("json", ["/usr", "json.py", "<code>", "${json}", "https://json"]),
    ],
    ids=str,
)
def test_a_module_with_a_similar_name_is_not_trusted(module, trust):
    with pytest.raises(SourceError, match="is not trusted"):
        ToolSpec.from_dict(with_path(module, "dumps"), trust=trust)


class TestServers:
    def test_redirects_to_other_servers_need_trust_in_any_server(self):
        """A trusted server could redirect to any other, such as one of the reader's own network."""
        data = ToolSpec.from_http("ping", "https://api.example/ping", follow_redirects=True).to_dict()
        for trust in (["https://api.example"], ["https://*.example", "http://*.example"], ["https://*"]):
            with pytest.raises(SourceError, match=r"A redirect to another server is not trusted: add 'https?://\*'"):
                ToolSpec.from_dict(data, trust=trust)
        assert ToolSpec.from_dict(data, trust=["https://*", "http://*"]).body.options.follow_redirects is True

    @pytest.mark.parametrize(
        "url",
        ["https://api.example@evil.test", "https://api.example\\@evil.test", "https://evil.test\\.api.example",
         "https://api.example.evil.test", "https://api.example%2eevil.test", "https://evil.test／.api.example",
         "https://api.example:8443", "https://api.example:99999", "https://api.example:x", "https://[::1",
         "http://api.example", "file://api.example", "https://evil.test?.api.example", "https://evil.test#.api.example",
         "//api.example", "https:/api.example", "https://ａpi.example", "https://api。example"],
    )  # fmt: skip
    def test_a_url_that_only_looks_like_a_trusted_server_is_refused(self, url):
        data = to_data(SUBJECTS["openapi"]())
        data["code"]["request"]["base_url"] = url
        with pytest.raises(SourceError):
            ToolSpec.from_dict(signed(data), trust=["https://api.example", "${CANARY_KEY}"])

    @pytest.mark.parametrize("path", ["@evil.test", ".evil.test", "/../x", "/x?y", "/x#y", "/\\evil.test", "evil"])
    def test_a_path_cannot_change_the_server(self, path):
        with pytest.raises(SourceError):
            from_data(forged("openapi", ("code", "request", "path"), path))

    @pytest.mark.parametrize(
        "file", ["\x00", "a" * 5000, "/proc/self/environ", "~/key.pem", "", "../x"], ids=lambda file: repr(file[:20])
    )
    def test_a_file_of_certificates_that_is_not_trusted_is_refused(self, file, tmp_path):
        data = forged("http", ("code", "sending", "ca_file"), file)
        with pytest.raises(SourceError, match=r"The file .* (is not trusted|cannot be found|to trust=)"):
            ToolSpec.from_dict(data, trust=[*TRUST, tmp_path])

    def test_a_link_to_a_file_outside_of_a_trusted_folder_is_refused(self, tmp_path):
        folder, outside = tmp_path / "certificates", tmp_path / "other.pem"
        folder.mkdir()
        outside.write_text("")
        (folder / "link.pem").symlink_to(outside)
        data = forged("http", ("code", "sending", "ca_file"), str(folder / "link.pem"))
        with pytest.raises(SourceError, match=r"The file .*link\.pem' is not trusted"):
            ToolSpec.from_dict(data, trust=[*TRUST, folder])


def test_trust_in_what_is_no_list_is_an_error():
    data = SUBJECTS["function"]().to_dict()
    for trust in (5, True, object(), [None], [b"tests"], [""]):
        with pytest.raises(SourceError, match="trust= lists files, modules, programs, variables, servers and features"):
            ToolSpec.from_dict(data, trust=trust)
