"""OpenAPI documents are read from files and URLs, in JSON and YAML, and errors name the line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from pathlib import Path

import pytest
import yaml

from ahvn_tools import ToolSpec, load
from ahvn_tools.errors import SourceError
from ahvn_tools.loading import openapi
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.manifest.loader import aload
from ahvn_tools.sources.budget import Budget
from tests.sources.openapi.documents import PETSTORE, document, json_body, one_operation, parameter
from tests.sources.openapi.echo_server import EchoServer, running

PETS = ["updatePet", "addPet", "findPetsByStatus", "getPetById", "deletePet", "uploadFile", "getInventory"]


@pytest.fixture
def service():
    """A server that has the pet store's document, and answers its requests with themselves."""
    with running() as echo:
        text = PETSTORE.read_text(encoding="utf-8")
        echo.answer("/openapi.yaml", text.encode(), media_type="application/yaml")
        echo.answer("/openapi.json", yaml.safe_load(text))
        yield echo


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.yaml",
            "openapi: 3.1.0\npaths:\n  /a: {}\n  /a:\n    get: {operationId: a}\n",
            "a.yaml, line 4: the key '/a' is here for a second time: line 3 has it.",
        ),
        (
            "a.json",
            '{"openapi": "3.1.0", "paths": {"/a": {}, "/a": {"get": {"operationId": "a"}}}}',
            "a.json: the key '/a' is twice in one object: one of its values would be lost.",
        ),
    ],
)
def test_a_key_that_is_twice_in_an_object_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError) as caught:
        load(tmp_path / name)
    assert message in str(caught.value)


def refusal(location, **choices):
    """Return the message of the error about a source."""
    with pytest.raises(SourceError) as caught:
        openapi.read(location, ReadOptions(choices=choices))
    return str(caught.value)


def test_the_pet_store_is_loaded():
    kit = load(str(PETSTORE))
    assert kit.name == "pet_store"
    assert [tool.name for tool in kit] == PETS
    assert kit["addPet"].input_schema["required"] == ["name", "photoUrls"]
    assert list(kit["deletePet"].params) == ["petId"]
    assert kit["findPetsByStatus"].definition.tags == {"pet"}
    assert kit.load_errors == ()


def test_json_and_yaml_are_the_same(tmp_path, service):
    (tmp_path / "pets.json").write_text(json.dumps(yaml.safe_load(PETSTORE.read_text(encoding="utf-8"))))
    expected = load(str(PETSTORE)).to("mcp")
    assert load(str(tmp_path / "pets.json")).to("mcp") == expected
    for name in ("openapi.json", "openapi.yaml"):
        assert load(f"{service.url}/{name}").to("mcp") == expected


def test_a_relative_server_is_that_of_the_url(service):
    kit = load(f"openapi:{service.url}/openapi.yaml")
    assert kit.exec("findPetsByStatus", {"status": ["sold"]}).error.code == "invalid_result"  # the echo is no list
    assert (service.last["path"], service.last["query"]) == ("/api/v3/pet/findByStatus", "status=sold")


def test_a_document_is_loaded_from_async_code(service):
    assert [tool.name for tool in asyncio.run(aload(f"{service.url}/openapi.json"))] == PETS


@pytest.mark.parametrize("source", [PETSTORE, f"openapi:{PETSTORE}", yaml.safe_load(PETSTORE.read_text("utf-8"))])
def test_a_document_is_recognized(source):
    assert [tool.name for tool in load(source)] == PETS


def test_a_skipped_operation_is_a_load_error_with_its_line(tmp_path, caplog):
    whole = one_operation({"parameters": [parameter("a", style="matrix")]})
    whole["paths"]["/other"] = {"get": {"operationId": "other", "responses": {}}}
    file = tmp_path / "api.yaml"
    file.write_text(yaml.safe_dump(whole, sort_keys=False))
    line = file.read_text().splitlines().index("        style: matrix") + 1
    with caplog.at_level(logging.WARNING):
        kit = load(str(file))
    assert [tool.name for tool in kit] == ["other"]
    (error,) = kit.load_errors
    assert (error.file, error.line) == (str(file), line)
    assert str(error).startswith(
        f"{file}, line {line}: #/paths/~1things/get/parameters/0/style: GET /things is skipped"
    )
    assert "GET /things is skipped" in caplog.text
    assert any((one.rule, one.severity) == ("load-error", "warning") for one in kit.check())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openapi: 3.1.0\npaths:\n  /a: 1\n", "api.yaml, line 3: #/paths/~1a: it must be an object, not 1."),
        (
            '{"openapi": "3.1.0",\n "paths": {\n  "/a": 1}}',
            "api.yaml: #/paths/~1a: it must be an object, not 1.",
        ),
        ("swagger: '2.0'\npaths: {}\n", "api.yaml: This is a document of Swagger 2.0; only OpenAPI 3 is read."),
        ('{"openapi": "3.1.0",\n "paths": }', "api.yaml, line 2: this is not JSON"),
        ("openapi: [\n", "api.yaml, line"),
        ("- a\n", "An OpenAPI document is an object with `openapi` and `paths`, not a list."),
    ],
)
def test_a_wrong_document_is_refused_with_the_line(tmp_path, text, message):
    file = tmp_path / "api.yaml"
    file.write_text(text)
    assert message in refusal(str(file))


def test_what_cannot_be_read_is_refused(tmp_path, service):
    assert "cannot be read" in refusal(str(tmp_path / "missing.yaml"))
    service.answer("/gone.json", {"detail": "no"}, status=404)
    assert "the server answers 404" in refusal(f"{service.url}/gone.json")
    service.answer("/binary.json", b"\xff\xfe\x00")
    assert "is not UTF-8" in refusal(f"{service.url}/binary.json")
    assert "cannot be read" in refusal("http://127.0.0.1:9/openapi.json")


def test_the_url_of_a_document_is_masked_in_errors(service):
    service.answer("/secret.json", None, status=500)
    message = refusal(f"{service.url}/secret.json?api_key=s3cret-1")
    assert "s3cret-1" not in message


def test_a_document_that_needs_too_long_is_not_read(monkeypatch):
    monkeypatch.setattr(openapi, "FETCH_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        message = refusal(f"http://127.0.0.1:{silent.getsockname()[1]}/openapi.json")
    assert message.endswith("cannot be read: the server took more than 0.05 seconds.")


def test_the_user_in_the_url_of_a_document_is_sent_for_the_document_alone(service):
    url = service.url.replace("://", "://ann:s3cret-1@") + "/openapi.json?token=s3cret-2"
    service.answer("/openapi.json", one_operation({}, server="/v1"))
    kit = load(url)
    assert service.last["headers"]["authorization"] == "Basic YW5uOnMzY3JldC0x"
    assert kit["call"].origin == f"GET /things in {service.url.replace('://', '://***@')}/openapi.json"
    kit.call("call")
    assert service.last["path"] == "/v1/things"
    assert "authorization" not in service.last["headers"]


def test_a_too_large_document_is_not_read(service, monkeypatch):
    monkeypatch.setattr(openapi, "MAX_BYTES", 100)
    assert "larger than 100 bytes" in refusal(f"{service.url}/openapi.json")


def test_a_document_from_a_url_cannot_read_files_or_send_credentials_elsewhere(service, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "s3cret-1")
    whole = document(
        {"/a": {"get": {"operationId": "a", "responses": {}, "security": [{"key": []}]}}},
        server="https://evil.example",
        components={"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    )
    service.answer("/evil.json", whole)
    url = service.url.replace("://", "://ann:s3cret-2@")
    message = refusal(f"{url}/evil.json?token=s3cret-3", auth={"key": "${SHOP_KEY}"})
    assert "s3cret" not in message
    assert "would have credentials sent to https://evil.example" in message
    assert NO_FILE in refusal(f"{service.url}/evil.json", external_files=True)


NO_FILE = "external_files is for a document that is read from a file"


class TestFiles:
    """A document in several files."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """The folder of a document that refers to two other files."""
        (tmp_path / "api" / "schemas").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "api")
        body = {"required": True, "content": {"application/json": {"schema": {"$ref": "schemas/pets.yaml#/Pet"}}}}
        whole = one_operation({"requestBody": body}, method="post")
        whole["paths"]["/toys"] = {"$ref": "./toys.json"}
        Path("api.yaml").write_text(yaml.safe_dump(whole))
        toy = {"type": "object", "properties": {"name": {"type": "string"}, "pet": {"$ref": "pets.yaml#/Pet"}}}
        pet = {"type": "object", "properties": {"toys": {"type": "array", "items": {"$ref": "#/Toy"}}}}
        Path("schemas/pets.yaml").write_text(yaml.safe_dump({"Pet": pet, "Toy": toy}))
        Path("toys.json").write_text(json.dumps({"get": {"operationId": "toys", "responses": {}}}))
        Path("../outside.json").write_text('{"get": {"operationId": "canary", "responses": {}}}')
        return Path.cwd()

    def test_files_of_the_folder_are_read_when_asked(self, folder):
        Path("../link.yaml").symlink_to("api/api.yaml")  # the folder is that of the document itself
        for location in ("api.yaml", folder / "api.yaml", "../link.yaml"):
            contents = openapi.read(str(location), ReadOptions(choices={"external_files": True}))
            assert [tool.name for tool in contents.tools] == ["call", "toys"]
            schema = contents.tools[0].input_schema
            assert schema["properties"]["toys"] == {"type": "array", "items": {"$ref": "#/$defs/Toy"}}
            assert schema["$defs"]["Toy"]["properties"]["pet"] == {"$ref": "#/$defs/Pet"}
            assert contents.errors == ()

    def test_otherwise_they_are_not(self, folder):
        for choices in ({}, {"external_files": False}):
            message = refusal("api.yaml", **choices)
            assert "which is outside of the document; nothing is fetched" in message
            assert "pass external_files=True" in message

    def test_a_file_is_read_once(self, folder, monkeypatch):
        parts = []
        monkeypatch.setattr(Budget, "spend_parts", lambda _self, count=1: parts.append(count))
        openapi.read("api.yaml", ReadOptions(choices={"external_files": True}))
        assert len(parts) == 4  # two tools and two files, of which one has two references

    @pytest.mark.parametrize(
        "name",
        ["../outside.json", "{tmp}/outside.json", "%2E%2E/outside.json", "schemas/../../outside.json", "link.json",
         "folder/outside.json", "schemas", ".", "pipe.json", "/dev/zero", "/proc/self/cwd/toys.json", "itself.json",
         "missing.json", "a%00b.json", "~/outside.json", "x" * 300],
    )  # fmt: skip
    def test_anything_else_is_no_file_of_the_folder(self, folder, name):
        Path("link.json").symlink_to("../outside.json")
        Path("folder").symlink_to("..")
        Path("itself.json").symlink_to("itself.json")
        os.mkfifo("pipe.json")
        Path("api.json").write_text(json.dumps(document({"/a": {"$ref": name.replace("{tmp}", str(folder.parent))}})))
        message = refusal("api.json", external_files=True)
        assert message.startswith(f"{folder}/api.json: #/paths/~1a: ")
        assert "which is no file in the folder of the document." in message
        assert "canary" not in message

    def test_a_url_is_never_fetched(self, folder, service):
        service.answer("/a.json", {"get": {"operationId": "a", "responses": {}}})
        Path("api.json").write_text(json.dumps(document({"/a": {"$ref": f"{service.url}/a.json"}})))
        assert "nothing is fetched" in refusal("api.json", external_files=True)
        assert service.received == []

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("toys.json", "{", "api.yaml, line 16: #/paths/~1toys: {folder}/toys.json, line 1: this is not JSON"),
            ("toys.json", '{"get": 3}', "toys.json: #/get: GET /toys is skipped: it must be an object, not 3."),
            ("schemas/pets.yaml", "Toy: 1\nPet: 3\n", "schemas/pets.yaml, line 2: #/Pet: POST /things is skipped: "),
            ("schemas/pets.yaml", "Toy: 1\n", "it refers to 'schemas/pets.yaml#/Pet', where nothing is"),
            ("schemas/pets.yaml", b"\xff", "is skipped: {folder}/schemas/pets.yaml, line 1: this is not UTF-8"),
        ],
    )
    def test_an_error_names_the_file_and_its_line(self, folder, name, text, message):
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (error,) = openapi.read("api.yaml", ReadOptions(choices={"external_files": True})).errors
        assert message.format(folder=folder) in str(error)
        assert Path(error.file).is_absolute()
        assert str(error).startswith(error.file if error.line is None else f"{error.file}, line {error.line}: #/")

    def test_a_file_may_refer_to_the_document(self, folder):
        Path("toys.json").write_text(json.dumps({"get": {"$ref": "api.yaml#/paths/~1things/post"}}))
        contents = openapi.read("api.yaml", ReadOptions(choices={"external_files": True}))
        assert [list(tool.params) for tool in contents.tools] == [["toys"], ["toys"]]

    def test_a_parent_accepts_its_children_in_the_same_file(self, folder):
        pet = {"type": "object", "properties": {"kind": {"type": "string"}}, "discriminator": {"propertyName": "kind"}}
        schemas = {"Pet": pet, "Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}]}}
        Path("pets.yaml").write_text(yaml.safe_dump({"components": {"schemas": schemas}}))
        paths = {
            f"/{number}": {"put": {"requestBody": json_body({"properties": {"pet": {"$ref": f"{file}#{place}"}}})}}
            for number, (file, place) in enumerate(
                [("", "/components/schemas/Pet"), ("pets.yaml", "/components/schemas/Pet")]
            )
        }
        Path("api.json").write_text(json.dumps(document(paths, components={"schemas": {"Pet": pet}})))
        own, other = openapi.read("api.json", ReadOptions(choices={"external_files": True})).tools
        assert "Cat" not in own.input_schema["$defs"]
        assert "Cat" in other.input_schema["$defs"]

    def test_only_a_document_that_is_a_file_has_files(self):
        with pytest.raises(SourceError, match=NO_FILE):
            ToolSpec.from_openapi(one_operation({}), external_files=True)
        with pytest.raises(SourceError, match="external_files must be True or False, not a str"):
            ToolSpec.from_openapi(one_operation({}), external_files="no")


def test_a_secret_binding_of_a_toolkit_does_not_reach_the_document_of_another_party(service):
    kit = load(f"{service.url}/openapi.json").bind("api_key", secret=True)
    session = kit.session(api_key="s3cret-1")
    assert session.exec("getInventory", {}).error.code == "connection"
    assert not any("/store" in request["path"] for request in service.received)
    kit["getInventory"].bind("api_key", secret=True)
    session.exec("getInventory", {})
    assert service.last["headers"]["api_key"] == "s3cret-1"


def test_a_manifest_has_documents(tmp_path, monkeypatch, service: EchoServer):
    monkeypatch.setenv("PET_KEY", "s3cret-1")
    Path(tmp_path / "tools.yaml").write_text(
        f"name: pets\nsources:\n  - openapi: {service.url}/openapi.yaml\n"
        "    operations: [getPetById, getInventory]\n    auth: {api_key: '${PET_KEY}'}\n    prefix: pets_\n"
    )
    kit = load(str(tmp_path / "tools.yaml"))
    assert [tool.name for tool in kit] == ["pets_getPetById", "pets_getInventory"]
    kit.exec("pets_getPetById", {"petId": 7})
    assert service.last["headers"]["api_key"] == "s3cret-1"


def test_a_manifest_has_the_errors_of_its_documents(tmp_path):
    whole = one_operation({"parameters": [parameter("a", style="matrix")]})
    whole["paths"]["/other"] = {"get": {"operationId": "other", "responses": {}}}
    (tmp_path / "api.yaml").write_text(yaml.safe_dump(whole))
    (tmp_path / "tools.yaml").write_text("sources:\n  - openapi: api.yaml\n")
    kit = load(str(tmp_path / "tools.yaml"))
    assert [tool.name for tool in kit] == ["other"]
    assert ["GET /things is skipped" in str(error) for error in kit.load_errors] == [True]


def test_a_pipe_in_place_of_a_document_is_refused_and_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("api.json")
    with pytest.raises(SourceError, match=r"api\.json cannot be read: It is no regular file"):
        load("openapi:api.json")
