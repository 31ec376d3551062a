"""Elicitation: the user of an MCP client decides on what a served tool asks with `ToolContext.ask`."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from ahvn_tools.errors import CallRejectedError, ToolError
from ahvn_tools.execution.call import ApprovalQuestion, Call, QuestionApprover
from ahvn_tools.invisible import escape, escape_line
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.middleware.approve import CALL_QUESTION, rejection_text
from ahvn_tools.middleware.pending import ApprovalRequest, arguments_digest
from ahvn_tools.secret_key import SecretKey

MAX_SECONDS: Final = 600.0
"""How long a call waits for the user of a client: the client could keep the tool waiting forever."""

FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Whether the tool may do this."}},
    "required": ["approve"],
}
"""The form that the user fills in."""


class Elicitation:
    """Asks the client of one request.

    In the newest protocol each answer comes with a new request, whose state says what was approved before.
    """

    def __init__(self, request: Request, arguments: JsonObject, key: SecretKey) -> None:
        """Ask the client of a request for a call with these arguments."""
        self._request = request
        self._arguments, self._key = arguments, key

    @property
    def approver(self) -> QuestionApprover:
        """What decides on the questions of the call."""
        return QuestionApprover(self._decide, asyncio.get_running_loop())

    @property
    def approved(self) -> tuple[str, ...]:
        """The questions that were approved in earlier requests of this call. Raises ToolError, see below."""
        if (state := self._request.state) is None:
            return ()
        try:
            data: Any = json.loads(state)
            arguments, approved = data["arguments"], tuple(map(str, data["approved"]))
        except (ValueError, TypeError, KeyError):  # the state of a tool that asks its client by itself
            return ()
        if arguments == arguments_digest(self._arguments, self._key):
            return approved
        if self._request.is_of_task:  # whose arguments never change: the client would be asked again without end
            raise ToolError("The answer cannot be verified: servers that share tasks need the same `secret_key`.")
        return ()

    async def _decide(self, call: Call, question: ApprovalQuestion) -> None:
        """Raise CallRejectedError unless the user approves, InputRequiredError until the client sends the answer."""
        try:
            async with asyncio.timeout(MAX_SECONDS):
                is_approved = await self._elicit(call, question)
        except TimeoutError:
            raise CallRejectedError(rejection_text(call.name, "nobody has answered"), tool=call.name) from None
        except MCPError as error:
            explanation = f"The MCP client did not answer the elicitation ({type(error).__name__})."
            message = "The approval that this tool needs could not be requested."
            raise ToolError(message, tool=call.name, explanation=explanation) from None
        if not is_approved:
            raise CallRejectedError(rejection_text(call.name, ""), tool=call.name)

    async def _elicit(self, call: Call, question: ApprovalQuestion) -> bool:
        message = to_message(ApprovalRequest.from_call(call, question))
        state = {"arguments": arguments_digest(self._arguments, self._key), "approved": question.earlier}
        key = f"{question.digest}-{question.earlier.count(question.digest)}"  # the same question may come again
        return is_approval(await self._request.elicit(key, message, FORM, json.dumps(state)))


def to_message(request: ApprovalRequest) -> str:
    """Return what the user reads of a question."""
    shown = request.arguments if request.action is None else request.details
    details = json.dumps(shown, ensure_ascii=False, indent=2) if shown else ""
    action = escape_line(request.action or CALL_QUESTION)  # a model may have written a part of it, to mislead the user
    return f"The tool {request.tool!r} asks for your approval: {action}\n{escape(details)}".rstrip()


def is_approval(answer: ElicitResult) -> bool:
    """Return whether the user has approved."""
    return answer.action == "accept" and (answer.content or {}).get("approve") is True
