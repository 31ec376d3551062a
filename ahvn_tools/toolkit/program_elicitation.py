"""ProgramElicitation: the user of an MCP client answers what the calls of a served program ask.

Clients of the newest protocol answer with another request. The program then continues where it stopped: its state is in
what the client sends back, which only the server can read, and it continues from there once.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, cast

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InputRequiredError, ToolError, ToolkitError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.middleware.approve import ApprovalMiddleware
from ahvn_tools.middleware.external import body_arguments, find_rules
from ahvn_tools.middleware.pending import (
    REQUEST_KEYS,
    ApprovalRequest,
    PendingRequest,
    arguments_digest,
    pending_requests,
)
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit.batch import Batch
from ahvn_tools.toolkit.calls import state_scopes
from ahvn_tools.toolkit.elicitation import FORM, is_approval, to_message
from ahvn_tools.toolkit.resume import aresumed_batch
from ahvn_tools.toolkit.run import Decisions, Run, pending_call
from ahvn_tools.toolkit.visibility import StoreView


class ProgramElicitation:
    """Asks the client of one request, for a program with these arguments."""

    def __init__(self, view: StoreView, request: Request, arguments: JsonObject) -> None:
        self._view, self._request = view, request
        self._digest = arguments_digest(arguments, view.store.secret_key)

    async def resume(self) -> Batch | ToolResult | None:
        """Return what continues the program with the answers of the client; None for one that is not started yet.

        A ToolResult asks again, because there are no answers. Raises ToolError for a program that cannot continue.
        """
        if (data := self._read_state()) is None:
            return None
        meta = data["requests"]
        if self._is_anonymous and data.get("is_anonymous") is True:  # the client is known by nothing but this state
            self._view.session_state.continue_session(pending_requests(meta)[0].session_id)
        waiting = Run.create([pending_call(pending_requests(meta))], None)
        if not (decisions := self._read_answers(waiting.pending)):
            return self.ask(waiting.results[0][1])
        try:
            return await aresumed_batch(self._view, waiting, decisions)
        except ToolkitError as error:
            raise ToolError(
                "The program cannot continue: it has continued before, has waited for too long, or the server cannot "
                "store the answer. Calls that it has made are not undone.",
                explanation=str(error),
            ) from None

    def ask(self, result: ToolResult) -> ToolResult:
        """Return the result that asks the client, if calls of the program have asked something; else the same result.

        The client neither decides on calls of tools that require an approval, nor supplies results of external tools.
        """
        questions = {request.id: self._find_question(request) for request in pending_requests(result.meta)}
        forms = {key: question[0] for key, question in questions.items() if question is not None}
        if not forms:
            return result
        meta = {name: result.meta[name] for name in REQUEST_KEYS if name in result.meta}
        state = json.dumps({"arguments": self._digest, "requests": meta, "is_anonymous": self._is_anonymous})
        response = self._request.make_input_request(forms, state)
        detail = ErrorDetail(code=InputRequiredError.code, message="The user is asked.", mcp_response=response)
        return ToolResult(error=detail, id=result.id)

    def _find_question(self, request: PendingRequest) -> tuple[tuple[str, JsonObject], Callable[[Any], Any]] | None:
        """Return the message and the form that ask the client, and what reads its answer; None: it is not asked."""
        if isinstance(request, ApprovalRequest):
            is_for_client = request.action is not None or self._do_only_rules_ask(request.tool)
            return ((to_message(request), FORM), is_approval) if is_for_client else None
        entry = self._view.store.entries.get(request.tool)
        rules = None if entry is None else find_rules(entry.spec.body)
        if entry is None or rules is None:
            return None
        plan, scopes = self._view.compiled_tool(entry).plan, state_scopes(self._view, entry)
        arguments = body_arguments(plan, request.arguments, scopes)
        return rules.to_form(arguments), functools.partial(rules.read, arguments)

    def _do_only_rules_ask(self, tool: str) -> bool:
        """Return whether rules alone ask for the approval of calls of a tool: no tool and no middleware does."""
        entry = self._view.store.entries.get(tool)
        if entry is None or entry.requires_approval is not False:
            return False
        layers = (*self._view.store.middleware, *entry.middleware)
        return self._view.has_rules(entry) and not any(isinstance(layer, ApprovalMiddleware) for layer in layers)

    def _read_answers(self, requests: Iterable[PendingRequest]) -> Decisions:
        """Return the client's decisions and its results, by call id."""
        decisions: dict[str, dict[str, Any]] = {}
        for request in requests:
            answer = self._request.find_answer(request.id)
            if answer is None or (question := self._find_question(request)) is None:
                continue
            try:
                decision = question[1](answer)
            except ToolError as error:
                decision = error
            decisions.setdefault(request.decided_by, {})[request.call_id] = decision
        return cast("Decisions", decisions)

    @property
    def _is_anonymous(self) -> bool:
        """Whether each request of the client has a session of its own."""
        return self._view.session_state.switches.is_anonymous

    def _read_state(self) -> JsonObject | None:
        """Return what the client sends back of a program with these arguments; None for others."""
        if self._request.state is None:
            return None
        try:
            data: Any = json.loads(self._request.state)
            is_same = data["arguments"] == self._digest and isinstance(data["requests"], dict)
        except (ValueError, TypeError, KeyError):
            return None
        if not is_same and self._request.is_of_task:  # whose arguments never change: it would be asked without end
            raise ToolError("The answer cannot be verified: servers that share tasks need the same `secret_key`.")
        return data if is_same else None
