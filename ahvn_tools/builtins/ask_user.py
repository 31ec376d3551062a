"""AskUser: a tool with which a model asks the user structured questions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, ValidationError

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, InvalidResultError, ResultRequiredError, ToolError, suggests_options
from ahvn_tools.execution.threads import call_host_function
from ahvn_tools.invisible import escape, escape_line
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.external import RESULT_RULES
from ahvn_tools.registry import ToolRegistry, reg_toolspec
from ahvn_tools.results import PROGRAMMATIC
from ahvn_tools.settings import is_duration

MAX_QUESTIONS: Final = 10
"""How many questions one call asks at most."""

MAX_OPTIONS: Final = 50
"""How many options a question has at most."""

MAX_TEXT_CHARS: Final = 1_000
"""How long a question, its description and each option are at most."""

MAX_ANSWER_CHARS: Final = 10_000
"""How long a text is that the user answers."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)

_Answer = StrictBool | StrictInt | StrictFloat | str | list[str]


class Question(BaseModel):
    """One question to the user."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str
    """The key of the answer, such as "color": up to 40 letters, digits and underscores."""
    text: str
    """The question, as the user reads it."""
    kind: Literal["choice", "choices", "text", "number", "yes_no"] = "text"
    """What the user answers: one of the options, several of them, a text, a number, or yes or no."""
    options: list[str] = []
    """What the user can choose, up to 50; only for "choice" and "choices"."""
    default: _Answer | None = None
    """The answer if the user leaves the question out; without it, the user has to answer."""
    description: str = ""
    """A short explanation for the user."""

    def find_mistake(self) -> str | None:
        """Return what is wrong with the question, for the model; None if nothing is."""
        if _NAME.fullmatch(self.name) is None or "__" in self.name:
            return "The name of a question has up to 40 letters, digits and single underscores, and no digit first."
        if not all(0 < len(text) <= MAX_TEXT_CHARS for text in (self.text, *self.options)) or (
            len(self.description) > MAX_TEXT_CHARS
        ):
            return f"Each text of the question {self.name!r} has 1 to {MAX_TEXT_CHARS:,} characters."
        if len(self.options) > MAX_OPTIONS:
            return f"The question {self.name!r} has more than {MAX_OPTIONS} options."
        if self.kind in ("choice", "choices"):
            if len(self.options) < 2 or len(set(self.options)) < len(self.options):  # noqa: PLR2004  # no choice
                return f"The question {self.name!r} needs at least 2 different options."
            if any(escape_line(option) != option for option in self.options):
                return f"An option of {self.name!r} has line breaks or invisible characters: remove them."
        elif self.options:
            return f"The question {self.name!r} has options: its kind is 'choice' or 'choices'."
        if self.default is None or (problem := self.find_problem(self.default)) is None:
            return None
        return f"The default of {self.name!r} does not fit: {problem}."

    def find_problem(self, answer: Any) -> str | None:
        """Return what is wrong with an answer, without its content; None if it fits."""
        if self.kind == "yes_no":
            return None if isinstance(answer, bool) else "it is true or false"
        if self.kind == "number":
            is_whole = isinstance(answer, int) and not isinstance(answer, bool)
            fits = is_whole or (isinstance(answer, float) and math.isfinite(answer))
            return None if fits else "it is a number"
        if self.kind == "choices":
            is_list = isinstance(answer, list) and all(isinstance(one, str) for one in answer)
            fits = is_list and len(set(answer)) == len(answer) and set(answer) <= {*self.options}
            return None if fits else "it is a list of different options"
        if self.kind == "choice":
            return None if isinstance(answer, str) and answer in self.options else "it is one of the options"
        fits = isinstance(answer, str) and len(answer) <= MAX_ANSWER_CHARS
        return None if fits else f"it is a text of at most {MAX_ANSWER_CHARS:,} characters"

    def to_fields(self, *, takes_lists: bool) -> JsonObject:
        """Return the fields of a form that ask the question; without lists, one for each option of several choices."""
        if takes_lists or self.kind != "choices":
            return {self.name: self._to_field()}
        chosen = self.default if isinstance(self.default, list) else []
        return {
            key: {"type": "boolean", "title": f"{escape_line(self.text)} {option}", "default": option in chosen}
            for key, option in self.option_keys.items()
        }

    @property
    def option_keys(self) -> dict[str, str]:
        """The options by the names of fields that each ask for one of them."""
        return {f"{self.name}__{number}": option for number, option in enumerate(self.options, start=1)}

    def _to_field(self) -> JsonObject:
        """Return a field: a JSON Schema, as MCP's elicitation takes it."""
        kinds: dict[str, JsonObject] = {
            "choice": {"type": "string", "enum": [*self.options]},
            "choices": {"type": "array", "items": {"type": "string", "enum": [*self.options]}},
            "text": {"type": "string", "maxLength": MAX_ANSWER_CHARS},
            "number": {"type": "number"},
            "yes_no": {"type": "boolean"},
        }
        field = {**kinds[self.kind], "title": escape_line(self.text)}  # a model has written it, perhaps to mislead
        if self.description:
            field["description"] = escape(self.description)
        return field if self.default is None else {**field, "default": self.default}


class UserAnswers(BaseModel):
    """What the user has answered."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["answered", "declined", "left"]
    """Whether the user has answered, does not want to answer, or has left without an answer."""
    answers: dict[str, _Answer] = {}
    """The answers, by the names of the questions."""


Answers = Mapping[str, Any] | UserAnswers | None
"""The answers by the names of the questions; None: the user does not want to answer."""

AnswerHandler = Callable[[list[Question], ToolContext], Answers | Awaitable[Answers]]
"""Asks the user; sync or async. A sync one runs in a thread, and may block."""


class AskUser(ToolRegistry):
    """A tool with which a model asks the user one or several questions.

    The `handler` of the host answers or, without one, the user of the MCP client. Without both, the call waits in
    `run.pending` for `Toolkit.resume`, with the answers by the names of the questions as its result.

    >>> from ahvn_tools import Toolkit
    >>> from ahvn_tools.builtins import AskUser
    >>> kit = Toolkit("shop").add(
    ...     AskUser(lambda questions, context: {question.name: "green" for question in questions})
    ... )
    >>> kit.call(
    ...     "ask_user",
    ...     {"questions": [{"name": "tea", "text": "Which tea?", "options": ["green", "black"], "kind": "choice"}]},
    ... )
    {'status': 'answered', 'answers': {'tea': 'green'}}
    """

    @suggests_options
    def __init__(self, handler: AnswerHandler | None = None, *, timeout: float = 600.0) -> None:
        """Raise DefinitionError for an option that is wrong.

        - `handler`: a function of the questions and the ToolContext that returns the answers.
        - `timeout`: how many seconds the user may take; then the user has left.
        """
        if handler is not None and not callable(handler):
            raise DefinitionError("`handler` is a function of the questions and the ToolContext that returns answers.")
        if not is_duration(timeout) or timeout <= 0:
            raise DefinitionError(f"`timeout` is a number of seconds greater than 0, not {timeout!r}.")
        self._handler, self._timeout = handler, timeout

    @reg_toolspec(tags={"user"}, annotations={"readOnlyHint": True, "openWorldHint": False})
    async def ask_user(self, questions: list[Question], context: ToolContext) -> UserAnswers:
        """Ask the user questions, and wait for the answers.

        Ask only what you cannot find out yourself, all of it in one call.

        Args:
            questions: One to ten questions, in their order.

        Returns:
            The answers by the names of the questions. The status is "declined" if the user does not want to answer, and
            "left" if there was no answer in time: go on without the answers then.
        """
        if (mistake := find_mistake(questions)) is not None:
            raise ToolError(mistake, tool=context.tool)
        if self._handler is None and not context.is_served:
            raise ResultRequiredError("The answers of the user are supplied from outside.", tool=context.tool)
        try:
            async with asyncio.timeout(self._timeout):
                with context._links.pause():  # noqa: SLF001  # of this package
                    return await self._ask(questions, context)
        except TimeoutError:
            return UserAnswers(status="left")

    async def _ask(self, questions: list[Question], context: ToolContext) -> UserAnswers:
        if self._handler is None:
            return await _ask_client(questions, context)
        answers = await call_host_function(self._handler, questions, context)
        try:
            return read_answers(questions, answers)
        except InvalidResultError as error:
            raise ToolError(
                "The answers of the user could not be read.", tool=context.tool, explanation=error.explanation
            ) from None


async def _ask_client(questions: list[Question], context: ToolContext) -> UserAnswers:
    """Ask the user of the MCP client. Raises ToolError for a client that cannot ask."""
    from mcp.shared.exceptions import MCPError  # slow, and loaded where a client has called

    from ahvn_tools.mcp.server.request import Request

    request = Request.current()
    if not request.can_elicit:
        raise ToolError("The user cannot be asked: the MCP client shows no questions to its user.", tool=context.tool)
    if context.caller == PROGRAMMATIC and request.is_repeated_for_answers:  # the program waits for the next request
        raise ResultRequiredError("The answers of the user are in the next request.", tool=context.tool)
    message, form = to_form(questions, takes_lists=request.takes_lists)
    key = hashlib.sha256(json.dumps([message, form], sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
    try:
        return _Rules.read({"questions": questions}, await request.elicit(key, message, form, "{}"))
    except MCPError as error:
        explanation = f"The MCP client did not answer the elicitation ({type(error).__name__})."
        raise ToolError("The user could not be asked.", tool=context.tool, explanation=explanation) from None


def find_mistake(questions: list[Question]) -> str | None:
    """Return what is wrong with questions, for the model; None if nothing is."""
    if not 0 < len(questions) <= MAX_QUESTIONS:
        return f"Ask 1 to {MAX_QUESTIONS} questions in one call."
    if len({question.name for question in questions}) < len(questions):
        return "Two questions have the same name."
    return next((mistake for question in questions if (mistake := question.find_mistake()) is not None), None)


class _Rules:
    """What an answer to questions may be, where it comes from outside."""

    @staticmethod
    def check(arguments: Mapping[str, Any], value: Any) -> UserAnswers:
        """Return the result that a value is. Raises InvalidResultError."""
        return read_answers(arguments["questions"], value)

    @staticmethod
    def to_form(arguments: Mapping[str, Any]) -> tuple[str, JsonObject]:
        """Return the message and the form that ask for it."""
        return to_form(arguments["questions"])

    @staticmethod
    def read(arguments: Mapping[str, Any], answer: Any) -> UserAnswers:
        """Return the result that an ElicitResult is. Raises ToolError."""
        if answer.action != "accept":
            return UserAnswers(status="declined" if answer.action == "decline" else "left")
        try:
            return read_answers(arguments["questions"], _join_options(arguments["questions"], answer.content or {}))
        except InvalidResultError as error:
            raise ToolError(f"The answer of the user's client does not fit: {error.problem}.") from None


setattr(AskUser.ask_user, RESULT_RULES, _Rules)


def _join_options(questions: list[Question], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of a form, with a list for the fields that each ask for one option."""
    answers = dict(content)
    for question in questions:
        fields = {option: answers.pop(key) for key, option in question.option_keys.items() if key in answers}
        if fields:
            answers[question.name] = [option for option, is_chosen in fields.items() if is_chosen is True]
    return answers


def to_form(questions: list[Question], *, takes_lists: bool = True) -> tuple[str, JsonObject]:
    """Return the message and the form of MCP's elicitation that ask the questions."""
    message = "\n".join(["The model asks you:", *(f"- {escape_line(question.text)}" for question in questions)])
    fields: JsonObject = {}
    for question in questions:
        fields |= question.to_fields(takes_lists=takes_lists)
    required = [question.name for question in questions if question.default is None and question.name in fields]
    return message, {"type": "object", "properties": fields, "required": required}


def read_answers(questions: list[Question], answers: Any) -> UserAnswers:
    """Return the answers, with the defaults of those that are missing. Raises InvalidResultError, without values."""
    names = [question.name for question in questions]
    if answers is None:
        return UserAnswers(status="declined")
    if isinstance(answers, Mapping) and "status" in answers and "status" not in names:  # the whole result, as JSON
        try:
            answers = UserAnswers.model_validate(answers)
        except ValidationError:
            raise _invalid('the status is "answered", "declined" or "left"') from None
    if isinstance(answers, UserAnswers):
        if answers.status != "answered":
            return answers.model_copy(update={"answers": {}})
        answers = answers.answers
    if not isinstance(answers, Mapping):
        raise _invalid(f"the answers are of type {type(answers).__name__!r}, and no mapping by the names of questions")
    if unknown := answers.keys() - set(names):
        raise _invalid(f"{len(unknown)} answers are to no question; the questions are {names}")
    return UserAnswers(
        status="answered",
        answers={question.name: _read_answer(question, answers.get(question.name)) for question in questions},
    )


def _read_answer(question: Question, answer: Any) -> Any:
    """Return the answer to one question, or its default. Raises InvalidResultError."""
    answer = question.default if answer is None else answer
    if answer is None:
        raise _invalid(f"the answer to {question.name!r} is missing")
    if (problem := question.find_problem(answer)) is not None:
        raise _invalid(f"the answer to {question.name!r} does not fit: {problem}")
    return answer


def _invalid(problem: str) -> InvalidResultError:
    error = InvalidResultError("The answers do not fit.", explanation=f"The answers do not fit: {problem}.")
    error.problem = problem
    return error
