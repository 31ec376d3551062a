"""The loop of a host, with each SDK, as the documentation writes it: until the model has nothing more to do."""

from __future__ import annotations

from typing import Any

from ahvn_tools import Run, Toolkit

MAX_TURNS = 10


def anthropic_request(tools: list[Any], **options: Any) -> dict[str, Any]:
    """Return a request with one question."""
    messages = [{"role": "user", "content": "How much?"}]
    return {"model": "claude", "max_tokens": 100, "messages": messages, "tools": tools, **options}


def converse_anthropic(client: Any, kit: Toolkit, request: dict[str, Any], *, streams: bool = False) -> str:
    """Run what the model and its programs call, and return the model's last text."""
    for _ in range(MAX_TURNS):
        answer, run = _ask_anthropic(client, kit, request, streams=streams)
        if run.container is not None:
            request["container"] = run.container.id
        request["messages"] += [{"role": "assistant", "content": answer.content}, *run]
        if not run.results and not run.is_paused:
            return str(answer.content[-1].text)
    raise AssertionError("The model does not end.")


async def aconverse_anthropic(api: Any, kit: Toolkit, request: dict[str, Any], *, streams: bool = False) -> str:
    """Do the same from async code; `api` is the `messages` of an async client."""
    for _ in range(MAX_TURNS):
        if streams:
            async with api.stream(**request) as stream:
                events = [event async for event in stream]
                answer = await stream.get_final_message()
            run = await kit.arun(events)
        else:
            answer = await api.create(**request)
            run = await kit.arun(answer)
        if run.container is not None:
            request["container"] = run.container.id
        request["messages"] += [{"role": "assistant", "content": answer.content}, *run]
        if not run.results and not run.is_paused:
            return str(answer.content[-1].text)
    raise AssertionError("The model does not end.")


def _ask_anthropic(client: Any, kit: Toolkit, request: dict[str, Any], *, streams: bool) -> tuple[Any, Run]:
    if not streams:
        answer = client.messages.create(**request)
        return answer, kit.run(answer)
    with client.messages.stream(**request) as stream:
        events = list(stream)
        return stream.get_final_message(), kit.run(events)


def converse_openai(client: Any, kit: Toolkit, request: dict[str, Any], *, streams: bool = False) -> str:
    """Run what the model and its programs call, and return the model's last text."""
    for _ in range(MAX_TURNS):
        if streams:
            events = list(client.responses.create(stream=True, **request))
            answer, run = events[-1].response, kit.run(events)
        else:
            answer = client.responses.create(**request)
            run = kit.run(answer)
        request["input"] += [*answer.output, *run]
        if not run.results and not run.is_paused:
            return str(answer.output_text)
    raise AssertionError("The model does not end.")


async def aconverse_openai(client: Any, kit: Toolkit, request: dict[str, Any], *, streams: bool = False) -> str:
    """Do the same from async code; a stream is read with the SDK's helper."""
    for _ in range(MAX_TURNS):
        if streams:
            async with client.responses.stream(**request) as stream:
                events = [event async for event in stream]
                answer = await stream.get_final_response()
            run = await kit.arun(events)
        else:
            answer = await client.responses.create(**request)
            run = await kit.arun(answer)
        request["input"] += [*answer.output, *run]
        if not run.results and not run.is_paused:
            return str(answer.output_text)
    raise AssertionError("The model does not end.")
