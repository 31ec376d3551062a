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

from ahvn_tools import load
from ahvn_tools.errors import SourceError
from ahvn_tools.loading import openapi
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.manifest.loader import aload
from tests.sources.openapi.documents import PETSTORE, document, one_operation, parameter
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


def test_of_keys_that_are_equal_the_last_one_is_read_as_in_json(tmp_path):
    texts = {"a.json": '{"openapi": "3.1.0", "paths": {"/a": {}, "/a": {"get": {"operationId": "a"}}}}'}
    texts["a.yaml"] = "openapi: 3.1.0\npaths:\n  /a: {}\n  /a:\n    get: {operationId: a}\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert [spec.name for spec in load(tmp_path / name)] == ["a"]


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


def test_a_reference_to_another_file_is_refused(tmp_path):
    (tmp_path / "api.yaml").write_text(yaml.safe_dump(one_operation({"parameters": [{"$ref": "other.yaml#/A"}]})))
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({"A": parameter("a")}))
    assert "nothing is fetched" in refusal(str(tmp_path / "api.yaml"))


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
