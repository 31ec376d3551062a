"""ErrorDetail: why a call failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self


class _ExceptionHolder:
    """Holds an exception outside of the fields of a dataclass: no repr, comparison, pickle or JSON form contains it."""

    __slots__ = ("_exception",)
    _exception: BaseException

    @property
    def exception(self) -> BaseException | None:
        """The exception that was raised, for the host; None if there was none in this process."""
        return getattr(self, "_exception", None)

    def hold(self, exception: BaseException | None) -> Self:
        """Take the exception that this was made of. Return it."""
        if exception is not None:
            object.__setattr__(self, "_exception", exception)
        return self


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One problem of the arguments of a call. The texts of all of them are in the message of the error."""

    pointer: str
    """Where it is: a JSON pointer (RFC 6901) into the arguments. It may contain names that the caller has sent.

    A missing or unknown member is named itself: `/shape/radius`. Empty: the arguments as a whole.
    """
    text: str
    """What is wrong there, for a model or a person; it repeats no value of the arguments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorDetail(_ExceptionHolder):
    """Why a call failed: a stable `code`, and a message that may be sent to a model.

    Characters that UTF-8 cannot encode, as in an undecodable file name, are escaped.
    """

    code: str
    message: str
    mcp_response: Any = field(default=None, repr=False, compare=False)
    """What a client of a served toolkit receives instead: MCP's InputRequiredResult, or an MCPError."""
    problems: tuple[ArgumentProblem, ...] = field(default=(), repr=False, compare=False)
    """Of `invalid_parameters`: where the problems are, for the host; of a union, those of the branch that is nearest.

    There are none if the message is about no part of the arguments, and no JSON form of a result contains them.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", self.message.encode("utf-8", "backslashreplace").decode())

    @property
    def reason(self) -> str:
        """The message without the type of the exception, which an exception of the tool adds at its beginning."""
        return self.message.removeprefix(f"{type(self.exception).__name__}: ")
