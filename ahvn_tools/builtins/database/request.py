"""What a call asks of a database, and its answer, as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ahvn_tools.builtins.database.description import describe, describe_table
from ahvn_tools.builtins.database.statement import (
    Limits,
    NotAllowedError,
    NotReadOnlyError,
    Parameters,
    Rows,
    Session,
    Statement,
    UnreachableError,
)
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject


@dataclass(frozen=True, kw_only=True)
class Request:
    """Run `query`; without one, describe `table`; without one, describe the database."""

    limits: Limits
    may_write: bool = False
    query: str | None = None
    parameters: Parameters = None
    table: str | None = None

    def to_json(self) -> JsonObject:
        """Return JSON data for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """Return the request of another process."""
        return cls(**{**data, "limits": Limits(**data["limits"])})

    def perform(self, session: Session) -> JsonObject:
        """Return the answer: that of `Rows`, or a description."""
        if self.query is not None:
            return asdict(session.run(Statement(query=self.query, parameters=self.parameters)))
        if self.table is not None:
            return describe_table(session, self.table)
        return describe(session)


_ERRORS: Final = {kind.__name__: kind for kind in (ToolError, NotAllowedError, NotReadOnlyError, UnreachableError)}


def error_to_json(error: ToolError) -> JsonObject:
    """Return an error as JSON data."""
    return {"error": type(error).__name__, "message": error.message, "explanation": error.explanation}


def raise_error_of(answer: Mapping[str, Any]) -> None:
    """Raise the error of another process, if its answer is one."""
    if "error" in answer:
        kind = _ERRORS.get(answer["error"], ToolError)
        raise kind(answer["message"], explanation=answer["explanation"])


def rows_of(answer: Mapping[str, Any]) -> Rows:
    """Return the rows of an answer."""
    return Rows(**answer)
