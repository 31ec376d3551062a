"""The tools of the conformance suite that ask their client for input or need one of its capabilities."""

from __future__ import annotations

from typing import Any

from fastmcp import Context
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

Answer = str | InputRequiredResult


def elicit(message: str, field: str, kind: str = "string") -> ElicitRequest:
    """Return a question with one field."""
    schema: dict[str, Any] = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str) -> CreateMessageRequest:
    """Return a request to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def capabilities(context: Context) -> ClientCapabilities:
    """Return what the client of this request can do."""
    assert context.request_context is not None
    params = context.request_context.session.client_params
    assert params is not None
    return params.capabilities


async def test_input_required_result_elicitation(context: Context) -> Answer:
    """Ask for a name."""
    answer: Any = (context.input_responses or {}).get("user_name")
    if answer is not None and answer.content:
        return f"Hello, {answer.content['name']}!"
    return InputRequiredResult(input_requests={"user_name": elicit("What is your name?", "name")})


async def test_input_required_result_sampling(context: Context) -> Answer:
    """Ask the client's model."""
    if context.input_responses:
        return str(context.input_responses["capital_question"])
    return InputRequiredResult(input_requests={"capital_question": sample("What is the capital of France?")})


async def test_input_required_result_list_roots(context: Context) -> Answer:
    """Ask for the client's roots."""
    if context.input_responses:
        return str(context.input_responses["client_roots"])
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


async def test_input_required_result_request_state(context: Context) -> Answer:
    """Ask, and keep a state meanwhile."""
    if context.request_state == "waiting":
        return "state-ok"
    requests: Any = {"confirm": elicit("Please confirm", "ok", "boolean")}
    return InputRequiredResult(input_requests=requests, request_state="waiting")


async def test_input_required_result_tampered_state(context: Context) -> Answer:
    """Ask, and keep a state that the client must not change."""
    return await test_input_required_result_request_state(context)


async def test_input_required_result_multiple_inputs(context: Context) -> Answer:
    """Ask for three things at once."""
    if context.input_responses:
        return ", ".join(sorted(context.input_responses))
    requests: Any = {
        "user_name": elicit("What is your name?", "name"),
        "greeting": sample("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    return InputRequiredResult(input_requests=requests, request_state="waiting")


async def test_input_required_result_multi_round(context: Context) -> Answer:
    """Ask twice."""
    if context.request_state is None:
        requests: Any = {"step1": elicit("Step 1: What is your name?", "name")}
        return InputRequiredResult(input_requests=requests, request_state="step 1")
    if context.request_state == "step 1":
        requests = {"step2": elicit("Step 2: What is your favorite color?", "color")}
        return InputRequiredResult(input_requests=requests, request_state="step 2")
    return "done"


async def test_input_required_result_capabilities(context: Context) -> Answer:
    """Ask only what the client can answer."""
    client, requests = capabilities(context), dict[str, Any]()
    if client.sampling is not None:
        requests["sampling"] = sample("Say something")
    if client.elicitation is not None:
        requests["elicitation"] = elicit("Say something", "text")
    return InputRequiredResult(input_requests=requests)


async def test_streaming_elicitation(context: Context) -> Answer:
    """Ask for a name."""
    return await test_input_required_result_elicitation(context)


async def test_missing_capability(context: Context) -> str:
    """Fail without the client's model."""
    if capabilities(context).sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="Sampling is required.", data=data)
    return "done"


async def test_logging_tool(context: Context) -> str:
    """Send a log message, for which no client has asked."""
    await context.info("a message")
    return "done"


TOOLS = (
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
    test_missing_capability,
    test_logging_tool,
)
