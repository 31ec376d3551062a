"""The tools that the conformance suite requires of a server; it defines their names, texts and values."""

from __future__ import annotations

import asyncio
import base64
import struct
import time
import zlib
from typing import Annotated, Any, Literal

from fastmcp import Context
from fastmcp.utilities.types import Audio, Image
from mcp_types import EmbeddedResource, SamplingMessage, TextContent, TextResourceContents
from pydantic import BaseModel, Field

from ahvn_tools import ToolContext, ToolError, Toolkit, tool
from tests.mcp.conformance import input_required

kit = Toolkit("conformance")

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def pixel() -> bytes:
    """Return a PNG of one red pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def pixel_in_base64() -> str:
    return base64.b64encode(pixel()).decode()


def silence() -> bytes:
    """Return a WAV of eight silent samples."""
    samples = bytes(16)
    form = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)


@kit.tool
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@kit.tool
def test_image_content() -> Image:
    """Return an image."""
    return Image(data=pixel(), format="png")


@kit.tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(data=silence(), format="wav")


@kit.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@kit.tool
def test_multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    embedded = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ["Multiple content types test:", Image(data=pixel(), format="png"), embedded]


@kit.tool
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@kit.tool
def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress three times."""
    for progress in (0, 50, 100):
        context.report_progress(progress, 100)
        time.sleep(0.05)
    return "done"


@kit.tool
async def test_tool_with_logging(context: Context) -> str:
    """Send three log messages through FastMCP's context."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(message)
    return "done"


@kit.tool
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user through FastMCP's context."""
    answer = await context.elicit(message, response_type=str)
    return f"User response: {answer.action}"


class Person(BaseModel):
    """The form for the user, with defaults."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@kit.tool
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the user for several values with defaults."""
    answer = await context.elicit("Who is it?", response_type=Person)
    return f"Elicitation completed: action={answer.action}"


ENUMS: dict[str, dict[str, Any]] = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {
        "type": "string",
        "oneOf": [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)],
    },
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {
        "type": "array",
        "items": {"anyOf": [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]},
    },
}


@kit.tool
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask the user to choose."""
    answer = await context.session.elicit_form(
        "Choose", {"type": "object", "properties": ENUMS}, related_request_id=context.request_id
    )
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@kit.tool
async def test_reconnection(context: Context) -> str:
    """Let the client reconnect before it receives the result."""
    await context.close_sse_stream()
    await asyncio.sleep(0.1)
    return "done"


@kit.tool
async def test_sampling(prompt: str, context: Context) -> str:
    """Ask the client's model."""
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await context.session.create_message([asked], max_tokens=100, related_request_id=context.request_id)
    return f"LLM response: {answer.content}"


@kit.tool
def test_custom_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Accept an argument that HTTP clients also send in a header."""
    return region


@tool(input_schema=SCHEMA_2020_12)
def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "",
    phone: str = "",
    email: str = "",
) -> str:
    """Accept arguments by a schema with many keywords of draft 2020-12."""
    return f"{name} {address} {contactMethod} {phone or email}"


kit.add(json_schema_2020_12_tool)


@kit.tool
def test_trigger_tool_change() -> str:
    """Change the list of tools."""

    def added() -> str:
        """Return nothing."""
        return ""

    kit.add(added, rename=f"added_{len(kit)}")
    return "done"


for asking_tool in input_required.TOOLS:
    kit.add(asking_tool)
