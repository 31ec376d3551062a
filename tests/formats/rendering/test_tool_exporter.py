"""Eight tools in every format, exactly as a model sees them. Review these snapshots like code."""
# ruff: noqa: E501  # texts are as sent

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from inline_snapshot import snapshot
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolCall, ToolResult, ToolSpec, formats
from ahvn_tools.error_detail import ErrorDetail
from tests.formats.providers import provider

OLDER = "gemini parameters"
STRICT = ("anthropic", "bedrock", "mistral", "openai", "openai-responses")


def exports(function: Any) -> dict[str, Any]:
    """Return the exports of a tool: plain, strict where that is a word, and in Gemini's older form."""
    definition = ToolSpec.from_function(function).definition
    made = {name: formats.get(name).export([definition]) for name in formats.BUILT_IN}
    made |= {f"{name} strict": formats.get(name).export([definition], strict=True) for name in STRICT}
    return made | {OLDER: formats.get("gemini").export([definition], form="parameters")}


def written(value: Any) -> str:
    """Return a part of a message as it is sent, in one line but for the texts of several."""
    return json.dumps(value, ensure_ascii=False, default=bytes.hex).replace("\\n", "\n")


def schemas(function: Any) -> str:
    """Return the schemas in these exports, each member in a line; formats with the same schema are grouped."""
    same: dict[str, list[str]] = {}
    for name, export in exports(function).items():
        schema = export[0].get("parameters") if name == OLDER else provider(name.split()[0]).exported(export)[0][1]
        members = {"properties": "  ", "$defs": "  $defs/"}
        rest = schema and {key: part for key, part in schema.items() if key not in members}
        parts = [
            (start + name, part)
            for key, start in members.items()
            for name, part in ((schema or {}).get(key) or {}).items()
        ]
        lines = [f"{name}: {written(part)}" for name, part in parts]
        same.setdefault("\n".join([written(rest), *lines]), []).append(name)
    return "\n".join(f"{', '.join(names)}: {shown}" for shown, names in same.items())


def listed(made: dict[str, list[Any]]) -> str:
    """Return what was made for each format, each part in a line."""
    return "\n".join(f"{name}: {written(part)}" for name, parts in made.items() for part in parts)


def now() -> str:
    """Get the time."""
    return "12:00"


def test_no_parameters():
    assert schemas(now) == snapshot("""\
anthropic, bedrock, gemini, langchain, mcp, mistral, openai, openai-responses, prompt, anthropic strict, bedrock strict: {"additionalProperties": false, "type": "object"}
ollama: {"type": "object"}
mistral strict, openai strict, openai-responses strict: {"additionalProperties": false, "type": "object", "required": []}
gemini parameters: null\
""")


def without_schemas(value: Any) -> Any:
    """Return an export with a word in place of each schema."""
    if isinstance(value, dict):
        is_schema = value.get("type") == "object" and "properties" in value
        return "SCHEMA" if is_schema else {key: without_schemas(part) for key, part in value.items()}
    return [without_schemas(part) for part in value] if isinstance(value, list) else value


def test_the_fields_around_the_schema():
    assert listed(without_schemas(exports(now))) == snapshot("""\
anthropic: {"name": "now", "description": "Get the time.", "input_schema": "SCHEMA"}
bedrock: {"toolSpec": {"name": "now", "description": "Get the time.", "inputSchema": {"json": "SCHEMA"}}}
gemini: {"name": "now", "description": "Get the time.", "parametersJsonSchema": "SCHEMA"}
langchain: {"type": "function", "function": {"name": "now", "description": "Get the time.", "parameters": "SCHEMA"}}
mcp: {"name": "now", "description": "Get the time.", "inputSchema": "SCHEMA", "outputSchema": "SCHEMA"}
mistral: {"type": "function", "function": {"name": "now", "description": "Get the time.", "parameters": "SCHEMA"}}
ollama: {"type": "function", "function": {"name": "now", "description": "Get the time.", "parameters": "SCHEMA"}}
openai: {"type": "function", "function": {"name": "now", "description": "Get the time.", "parameters": "SCHEMA"}}
openai-responses: {"type": "function", "name": "now", "description": "Get the time.", "parameters": "SCHEMA", "strict": false}
prompt: {"role": "system", "content": "You can call these tools.

### now
Get the time.
Parameters (JSON Schema): {\\"additionalProperties\\":false,\\"properties\\":{},\\"type\\":\\"object\\"}

To call a tool, reply with JSON in this form and with nothing else:
{\\"name\\": \\"the tool's name\\", \\"parameters\\": {\\"parameter\\": \\"value\\"}}

- \\"name\\" is the name of a tool above. \\"parameters\\" is an object that matches its JSON Schema; it can be {}.
- To make several calls at once, write a list: [{\\"name\\": …, \\"parameters\\": …}, {\\"name\\": …, \\"parameters\\": …}]
- Write no text before or after the JSON, and no comments inside it. The next message contains the results.

If you do not need a tool, reply in plain text without such JSON."}
anthropic strict: {"name": "now", "description": "Get the time.", "input_schema": "SCHEMA", "strict": true}
bedrock strict: {"toolSpec": {"name": "now", "description": "Get the time.", "inputSchema": {"json": "SCHEMA"}, "strict": true}}
mistral strict: {"type": "function", "function": {"name": "now", "description": "Get the time.", "parameters": "SCHEMA", "strict": true}}
openai strict: {"type": "function", "function": {"name": "now", "description": "Get the time.", "parameters": "SCHEMA", "strict": true}}
openai-responses strict: {"type": "function", "name": "now", "description": "Get the time.", "parameters": "SCHEMA", "strict": true}
gemini parameters: {"name": "now", "description": "Get the time."}\
""")


class Address(pydantic.BaseModel):
    """Where a person lives."""

    street: str
    zip_code: Annotated[str, pydantic.Field(pattern=r"^\d{5}$")] = "00000"


class Customer(pydantic.BaseModel):
    name: str
    home: Address


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


def register(
    customer: Annotated[Customer, pydantic.Field(description="Who is new.")],
    color: Color,
    layers: Literal[1, 2] = 1,
    limit: Annotated[int, pydantic.Field(ge=1, le=50)] = 10,
    language: Optional[str] = None,
) -> None:
    """Register a customer.

    Args:
        limit: How many orders are open at most.
    """


def test_models_enums_and_optional_parameters():
    assert schemas(register) == snapshot("""\
anthropic, langchain, mcp, mistral, openai, openai-responses, prompt: {"additionalProperties": false, "required": ["customer", "color"], "type": "object"}
  customer: {"$ref": "#/$defs/Customer", "description": "Who is new."}
  color: {"$ref": "#/$defs/Color"}
  layers: {"default": 1, "enum": [1, 2], "type": "integer"}
  limit: {"default": 10, "maximum": 50, "minimum": 1, "type": "integer", "description": "How many orders are open at most."}
  language: {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}
  $defs/Address: {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"default": "00000", "pattern": "^\\\\d{5}$", "type": "string"}}, "required": ["street"], "type": "object"}
  $defs/Color: {"enum": ["red", "green"], "type": "string"}
  $defs/Customer: {"properties": {"name": {"type": "string"}, "home": {"$ref": "#/$defs/Address"}}, "required": ["name", "home"], "type": "object"}
bedrock: {"additionalProperties": false, "required": ["customer", "color"], "type": "object"}
  customer: {"description": "Who is new.", "properties": {"name": {"type": "string"}, "home": {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"default": "00000", "pattern": "^\\\\d{5}$", "type": "string"}}, "required": ["street"], "type": "object"}}, "required": ["name", "home"], "type": "object"}
  color: {"type": "string", "enum": ["red", "green"]}
  layers: {"default": 1, "enum": [1, 2], "type": "integer"}
  limit: {"default": 10, "maximum": 50, "minimum": 1, "type": "integer", "description": "How many orders are open at most."}
  language: {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}
gemini: {"additionalProperties": false, "required": ["customer", "color"], "type": "object"}
  customer: {"description": "Who is new.", "anyOf": [{"$ref": "#/$defs/Customer"}]}
  color: {"$ref": "#/$defs/Color"}
  layers: {"enum": [1, 2], "type": "integer", "description": "Default: 1."}
  limit: {"maximum": 50, "minimum": 1, "type": "integer", "description": "How many orders are open at most. Default: 10."}
  language: {"anyOf": [{"type": "string"}, {"type": "null"}]}
  $defs/Address: {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"type": "string", "description": "Default: \\"00000\\". pattern: \\"^\\\\\\\\d{5}$\\"."}}, "required": ["street"], "type": "object"}
  $defs/Color: {"enum": ["red", "green"], "type": "string"}
  $defs/Customer: {"properties": {"name": {"type": "string"}, "home": {"$ref": "#/$defs/Address"}}, "required": ["name", "home"], "type": "object"}
ollama: {"type": "object", "required": ["customer", "color"]}
  customer: {"type": "object", "description": "Who is new. As JSON Schema: {\\"properties\\": {\\"name\\": {\\"type\\": \\"string\\"}, \\"home\\": {\\"description\\": \\"Where a person lives.\\", \\"properties\\": {\\"street\\": {\\"type\\": \\"string\\"}, \\"zip_code\\": {\\"default\\": \\"00000\\", \\"pattern\\": \\"^\\\\\\\\d{5}$\\", \\"type\\": \\"string\\"}}, \\"required\\": [\\"street\\"], \\"type\\": \\"object\\"}}, \\"required\\": [\\"name\\", \\"home\\"], \\"type\\": \\"object\\"}."}
  color: {"type": "string", "enum": ["red", "green"]}
  layers: {"type": "integer", "enum": [1, 2], "description": "Default: 1."}
  limit: {"type": "integer", "description": "How many orders are open at most. Default: 10. maximum: 50. minimum: 1."}
  language: {"type": ["string", "null"]}
anthropic strict: {"additionalProperties": false, "required": ["customer", "color"], "type": "object"}
  customer: {"description": "Who is new.", "anyOf": [{"$ref": "#/$defs/Customer"}]}
  color: {"$ref": "#/$defs/Color"}
  layers: {"enum": [1, 2], "type": "integer", "description": "Default: 1."}
  limit: {"type": "integer", "description": "How many orders are open at most. Default: 10. maximum: 50. minimum: 1."}
  language: {"anyOf": [{"type": "string"}, {"type": "null"}]}
  $defs/Address: {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"type": "string", "description": "Default: \\"00000\\". pattern: \\"^\\\\\\\\d{5}$\\"."}}, "required": ["street"], "type": "object", "additionalProperties": false}
  $defs/Color: {"enum": ["red", "green"], "type": "string"}
  $defs/Customer: {"properties": {"name": {"type": "string"}, "home": {"$ref": "#/$defs/Address"}}, "required": ["name", "home"], "type": "object", "additionalProperties": false}
bedrock strict: {"additionalProperties": false, "required": ["customer", "color"], "type": "object"}
  customer: {"description": "Who is new.", "anyOf": [{"properties": {"name": {"type": "string"}, "home": {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"type": "string", "description": "Default: \\"00000\\". pattern: \\"^\\\\\\\\d{5}$\\"."}}, "required": ["street"], "type": "object", "additionalProperties": false}}, "required": ["name", "home"], "type": "object", "additionalProperties": false}]}
  color: {"type": "string", "enum": ["red", "green"]}
  layers: {"enum": [1, 2], "type": "integer", "description": "Default: 1."}
  limit: {"type": "integer", "description": "How many orders are open at most. Default: 10. maximum: 50. minimum: 1."}
  language: {"anyOf": [{"type": "string"}, {"type": "null"}]}
mistral strict, openai strict, openai-responses strict: {"additionalProperties": false, "required": ["customer", "color", "layers", "limit", "language"], "type": "object"}
  customer: {"anyOf": [{"$ref": "#/$defs/Customer"}], "description": "Who is new."}
  color: {"$ref": "#/$defs/Color"}
  layers: {"description": "Default: 1.", "anyOf": [{"enum": [1, 2], "type": "integer"}, {"type": "null"}]}
  limit: {"maximum": 50, "minimum": 1, "type": ["integer", "null"], "description": "How many orders are open at most. Default: 10."}
  language: {"anyOf": [{"type": "string"}, {"type": "null"}]}
  $defs/Address: {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"pattern": "^\\\\d{5}$", "type": ["string", "null"], "description": "Default: \\"00000\\"."}}, "required": ["street", "zip_code"], "type": "object", "additionalProperties": false}
  $defs/Color: {"enum": ["red", "green"], "type": "string"}
  $defs/Customer: {"properties": {"name": {"type": "string"}, "home": {"$ref": "#/$defs/Address"}}, "required": ["name", "home"], "type": "object", "additionalProperties": false}
gemini parameters: {"required": ["customer", "color"], "type": "object"}
  customer: {"description": "Who is new.", "properties": {"name": {"type": "string"}, "home": {"description": "Where a person lives.", "properties": {"street": {"type": "string"}, "zip_code": {"pattern": "^\\\\d{5}$", "type": "string", "description": "Default: \\"00000\\"."}}, "required": ["street"], "type": "object"}}, "required": ["name", "home"], "type": "object"}
  color: {"type": "string", "enum": ["red", "green"]}
  layers: {"type": "integer", "description": "Default: 1. One of: 1, 2."}
  limit: {"maximum": 50, "minimum": 1, "type": "integer", "description": "How many orders are open at most. Default: 10."}
  language: {"nullable": true, "type": "string"}\
""")


@dataclasses.dataclass
class Folder:
    name: str
    folders: list[Folder]


def make(folder: Folder) -> None:
    """Make folders."""


def test_a_recursive_type():
    assert schemas(make) == snapshot("""\
anthropic, langchain, mcp, mistral, openai, openai-responses, prompt, anthropic strict: {"additionalProperties": false, "required": ["folder"], "type": "object"}
  folder: {"$ref": "#/$defs/Folder"}
  $defs/Folder: {"properties": {"name": {"type": "string"}, "folders": {"items": {"$ref": "#/$defs/Folder"}, "type": "array"}}, "required": ["name", "folders"], "type": "object"}
bedrock, bedrock strict: {"additionalProperties": false, "required": ["folder"], "type": "object"}
  folder: {"properties": {"name": {"type": "string"}, "folders": {"items": {"type": "object", "description": "Another `Folder`, with the structure described above."}, "type": "array"}}, "required": ["name", "folders"], "type": "object"}
gemini: {"additionalProperties": false, "required": ["folder"], "type": "object"}
  folder: {"$ref": "#/$defs/Folder"}
  $defs/Folder: {"properties": {"name": {"type": "string"}, "folders": {"items": {"type": "object", "description": "Another `Folder`, with the structure described above."}, "type": "array"}}, "required": ["name", "folders"], "type": "object"}
ollama: {"type": "object", "required": ["folder"]}
  folder: {"type": "object", "description": "As JSON Schema: {\\"properties\\": {\\"name\\": {\\"type\\": \\"string\\"}, \\"folders\\": {\\"items\\": {\\"type\\": \\"object\\", \\"description\\": \\"Another `Folder`, with the structure described above.\\"}, \\"type\\": \\"array\\"}}, \\"required\\": [\\"name\\", \\"folders\\"], \\"type\\": \\"object\\"}."}
mistral strict, openai strict, openai-responses strict: {"additionalProperties": false, "required": ["folder"], "type": "object"}
  folder: {"$ref": "#/$defs/Folder"}
  $defs/Folder: {"properties": {"name": {"type": "string"}, "folders": {"items": {"$ref": "#/$defs/Folder"}, "type": "array"}}, "required": ["name", "folders"], "type": "object", "additionalProperties": false}
gemini parameters: {"required": ["folder"], "type": "object"}
  folder: {"properties": {"name": {"type": "string"}, "folders": {"items": {"type": "object", "description": "Another `Folder`, with the structure described above."}, "type": "array"}}, "required": ["name", "folders"], "type": "object"}\
""")


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: str


class Transfer(pydantic.BaseModel):
    kind: Literal["transfer"]
    account: str


Way = Annotated[Union[Card, Transfer], pydantic.Field(discriminator="kind")]


def pay(way: Way, amount: Union[int, str] = "all") -> None:
    """Pay the bill."""


def test_unions():
    assert schemas(pay) == snapshot("""\
anthropic, langchain, mcp, mistral, openai, openai-responses, prompt: {"additionalProperties": false, "required": ["way"], "type": "object"}
  way: {"discriminator": {"mapping": {"card": "#/$defs/Card", "transfer": "#/$defs/Transfer"}, "propertyName": "kind"}, "oneOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Transfer"}]}
  amount: {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": "all"}
  $defs/Card: {"properties": {"kind": {"const": "card", "type": "string"}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object"}
  $defs/Transfer: {"properties": {"kind": {"const": "transfer", "type": "string"}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object"}
bedrock: {"additionalProperties": false, "required": ["way"], "type": "object"}
  way: {"discriminator": {"mapping": {"card": "#/$defs/Card", "transfer": "#/$defs/Transfer"}, "propertyName": "kind"}, "oneOf": [{"properties": {"kind": {"const": "card", "type": "string"}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object"}, {"properties": {"kind": {"const": "transfer", "type": "string"}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object"}]}
  amount: {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": "all"}
gemini: {"additionalProperties": false, "required": ["way"], "type": "object"}
  way: {"anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Transfer"}]}
  amount: {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "Default: \\"all\\"."}
  $defs/Card: {"properties": {"kind": {"type": "string", "enum": ["card"]}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object"}
  $defs/Transfer: {"properties": {"kind": {"type": "string", "enum": ["transfer"]}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object"}
ollama: {"type": "object", "required": ["way"]}
  way: {"type": "object", "description": "As JSON Schema: {\\"oneOf\\": [{\\"properties\\": {\\"kind\\": {\\"const\\": \\"card\\", \\"type\\": \\"string\\"}, \\"number\\": {\\"type\\": \\"string\\"}}, \\"required\\": [\\"kind\\", \\"number\\"], \\"type\\": \\"object\\"}, {\\"properties\\": {\\"kind\\": {\\"const\\": \\"transfer\\", \\"type\\": \\"string\\"}, \\"account\\": {\\"type\\": \\"string\\"}}, \\"required\\": [\\"kind\\", \\"account\\"], \\"type\\": \\"object\\"}]}."}
  amount: {"type": ["integer", "string"], "description": "Default: \\"all\\"."}
anthropic strict: {"additionalProperties": false, "required": ["way"], "type": "object"}
  way: {"anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Transfer"}]}
  amount: {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "Default: \\"all\\"."}
  $defs/Card: {"properties": {"kind": {"const": "card", "type": "string"}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object", "additionalProperties": false}
  $defs/Transfer: {"properties": {"kind": {"const": "transfer", "type": "string"}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object", "additionalProperties": false}
bedrock strict: {"additionalProperties": false, "required": ["way"], "type": "object"}
  way: {"anyOf": [{"properties": {"kind": {"const": "card", "type": "string"}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object", "additionalProperties": false}, {"properties": {"kind": {"const": "transfer", "type": "string"}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object", "additionalProperties": false}]}
  amount: {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "Default: \\"all\\"."}
mistral strict, openai strict, openai-responses strict: {"additionalProperties": false, "required": ["way", "amount"], "type": "object"}
  way: {"anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Transfer"}]}
  amount: {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "description": "Default: \\"all\\"."}
  $defs/Card: {"properties": {"kind": {"const": "card", "type": "string"}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object", "additionalProperties": false}
  $defs/Transfer: {"properties": {"kind": {"const": "transfer", "type": "string"}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object", "additionalProperties": false}
gemini parameters: {"required": ["way"], "type": "object"}
  way: {"anyOf": [{"properties": {"kind": {"type": "string", "enum": ["card"]}, "number": {"type": "string"}}, "required": ["kind", "number"], "type": "object"}, {"properties": {"kind": {"type": "string", "enum": ["transfer"]}, "account": {"type": "string"}}, "required": ["kind", "account"], "type": "object"}]}
  amount: {"anyOf": [{"type": "integer", "description": "Default: \\"all\\"."}, {"type": "string", "description": "Default: \\"all\\"."}]}\
""")


def label(labels: dict[str, int]) -> None:
    """Set labels."""


def test_a_dict():
    assert schemas(label) == snapshot("""\
anthropic, bedrock, gemini, langchain, mcp, mistral, openai, openai-responses, prompt, anthropic strict, bedrock strict, mistral strict, openai strict, openai-responses strict: {"additionalProperties": false, "required": ["labels"], "type": "object"}
  labels: {"additionalProperties": {"type": "integer"}, "type": "object", "properties": {}}
ollama: {"type": "object", "required": ["labels"]}
  labels: {"type": "object", "description": "As JSON Schema: {\\"additionalProperties\\": {\\"type\\": \\"integer\\"}, \\"type\\": \\"object\\", \\"properties\\": {}}."}
gemini parameters: {"required": ["labels"], "type": "object"}
  labels: {"type": "object", "description": "additionalProperties: {\\"type\\": \\"integer\\"}."}\
""")


def picture() -> list[Any]:
    """Take a picture."""
    image = ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
    return [TextContent(type="text", text="Here it is."), image]


def test_an_image_and_an_error_as_results():
    call = ToolCall(id="call00001", name="picture", wire_name="picture")
    result = dataclasses.replace(ToolSpec.from_function(picture).exec(), meta={})
    failed = ToolResult(error=ErrorDetail(code="tool_error", message="no such place"))
    pairs = [(call, result), (ToolCall(id="call00002", name="maps.look", wire_name="maps_look_1"), failed)]
    assert listed({name: formats.get(name).results(pairs) for name in formats.BUILT_IN}) == snapshot("""\
anthropic: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": [{"type": "text", "text": "Here it is."}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}, {"type": "tool_result", "tool_use_id": "call00002", "content": "no such place", "is_error": true}]}
bedrock: {"role": "user", "content": [{"toolResult": {"toolUseId": "call00001", "content": [{"text": "Here it is."}, {"image": {"format": "png", "source": {"bytes": "89504e470d0a1a0a"}}}]}}, {"toolResult": {"toolUseId": "call00002", "content": [{"text": "Error: no such place"}], "status": "error"}}]}
gemini: {"role": "user", "parts": [{"functionResponse": {"name": "picture", "response": {"output": "Here it is.
[The images of this result are in the next user message.]"}}}, {"functionResponse": {"name": "maps_look_1", "response": {"error": "no such place"}}}]}
gemini: {"role": "user", "parts": [{"text": "Images of function response 1 (picture):"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}
langchain: {"type": "tool", "tool_call_id": "call00001", "name": "picture", "content": [{"type": "text", "text": "Here it is."}, {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}], "status": "success"}
langchain: {"type": "tool", "tool_call_id": "call00002", "name": "maps_look_1", "content": "no such place", "status": "error"}
mcp: {"jsonrpc": "2.0", "id": "call00001", "result": {"content": [{"type": "text", "text": "Here it is."}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}], "resultType": "complete"}}
mcp: {"jsonrpc": "2.0", "id": "call00002", "result": {"content": [{"type": "text", "text": "no such place"}], "isError": true, "resultType": "complete"}}
mistral: {"role": "tool", "tool_call_id": "call00001", "name": "picture", "content": "Here it is.
[The images of this result are in the next user message.]"}
mistral: {"role": "tool", "tool_call_id": "call00002", "name": "maps_look_1", "content": "Error: no such place"}
mistral: {"role": "assistant", "content": "I have received the results. Next, I will look at their images."}
mistral: {"role": "user", "content": [{"type": "text", "text": "Images of the result of call call00001:"}, {"type": "image_url", "image_url": "data:image/png;base64,iVBORw0KGgo="}]}
ollama: {"role": "tool", "tool_name": "picture", "content": "Here it is.", "images": ["iVBORw0KGgo="]}
ollama: {"role": "tool", "tool_name": "maps_look_1", "content": "Error: no such place"}
openai: {"role": "tool", "tool_call_id": "call00001", "content": "Here it is.
[The images of this result are in the next user message.]"}
openai: {"role": "tool", "tool_call_id": "call00002", "content": "Error: no such place"}
openai: {"role": "user", "content": [{"type": "text", "text": "Images of the result of call call00001:"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}
openai-responses: {"type": "function_call_output", "call_id": "call00001", "output": [{"type": "input_text", "text": "Here it is."}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}]}
openai-responses: {"type": "function_call_output", "call_id": "call00002", "output": "Error: no such place"}
prompt: {"role": "user", "content": "Result of call 1, `picture`:
Here it is.
[image (image/png), not shown]

Result of call 2, `maps_look_1`:
Error: no such place"}\
""")


def test_the_image_tool_has_no_output_schema():
    assert exports(picture)["mcp"] == snapshot(
        [
            {
                "name": "picture",
                "description": "Take a picture.",
                "inputSchema": {"additionalProperties": False, "properties": {}, "type": "object"},
            }
        ]
    )
