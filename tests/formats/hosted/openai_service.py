"""OpenAI's Responses with programmatic tool calling, played strictly, without stored responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from examples.loopback.rules import refuse
from tests.formats.hosted.program import HostedProgram, Program, without_nulls

PROGRAM_ID = "call_prog_1"
CALLER = {"type": "program", "caller_id": PROGRAM_ID}


class OpenAIService:
    """Answers with the calls of a program, then with its output, and at last with a message."""

    def __init__(self, program: Program) -> None:
        self._program = HostedProgram(program)
        self._sent: list[dict[str, Any]] = []
        self._items = 0
        self.requests: list[dict[str, Any]] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the next response."""
        self.requests.append(request)
        callable_names = _check_tools(request["tools"])
        history = [item for item in request["input"] if item.get("type") not in {None, "function_call_output"}]
        refuse(without_nulls(history) != without_nulls(self._sent), "The items of the responses were changed.")
        output = self._next_items(request)
        for name, _ in self._program.waiting.values():
            refuse(name not in callable_names, f"The program waits for {name!r}, which it cannot call.")
        self._sent += output
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": request["model"],
            "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }  # fmt: skip

    def _next_items(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        program: list[dict[str, Any]] = []
        if not self._sent:
            self._program.advance()
            code = {"code": "await …", "fingerprint": "opaque"}
            program = [{"type": "program", "id": "prog_1", "call_id": PROGRAM_ID, **code}]
        elif self._program.output is not None:
            content = [{"type": "output_text", "text": f"The program said: {self._program.output}", "annotations": []}]
            return [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}]
        else:
            self._program.advance(self._check_outputs(request["input"]))
        if self._program.output is not None:
            end = {"result": self._program.output, "status": "completed"}
            return [*program, {"type": "program_output", "id": "out_1", "call_id": PROGRAM_ID, **end}]
        return program + [
            {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "status": "completed",
             "arguments": json.dumps(arguments), "caller": CALLER}
            for call_id, (name, arguments) in self._program.waiting.items()
        ]  # fmt: skip

    def _check_outputs(self, items: list[dict[str, Any]]) -> list[Any]:
        outputs = {item["call_id"]: item for item in items if item.get("type") == "function_call_output"}
        texts = []
        for call_id in self._program.waiting:
            refuse(call_id not in outputs, f"No tool output found for function call {call_id}.")
            refuse(outputs[call_id].get("caller") != CALLER, f"The caller of {call_id} is missing.")
            texts.append(outputs[call_id]["output"])
        return texts

    def events(self, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of a response."""
        number = iter(range(1_000))
        yield {"type": "response.created", "sequence_number": next(number), "response": {**answer, "output": []}}
        for index, item in enumerate(answer["output"]):
            for kind in ("response.output_item.added", "response.output_item.done"):
                yield {"type": kind, "sequence_number": next(number), "output_index": index, "item": item}
        yield {"type": "response.completed", "sequence_number": next(number), "response": answer}


def _check_tools(tools: list[dict[str, Any]]) -> set[str]:
    """Return the names of the tools that a program can call."""
    called = {tool["name"] for tool in tools if "programmatic" in tool.get("allowed_callers", ())}
    has_programs = any(tool["type"] == "programmatic_tool_calling" for tool in tools)
    refuse(called and not has_programs, "allowed_callers requires programmatic_tool_calling.")
    return called
