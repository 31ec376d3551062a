"""Parameters and the base class of a tool's input side, whether a signature or a JSON Schema defines the tool."""

from __future__ import annotations

import functools
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import ValidationError

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.annotations import format_annotation
from ahvn_tools.schema.keywords import find_secret_names
from ahvn_tools.state import UNSET

ParameterKind = inspect._ParameterKind  # noqa: SLF001  # the only name of the type of `inspect.Parameter.kind`
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY

Validator = Callable[[JsonObject], JsonObject]
"""Takes the visible arguments and returns the body's keyword arguments. Raises InvalidParametersError."""

FastValidator = Callable[[JsonObject], tuple[Any, JsonObject]]
"""Takes the visible arguments and returns a pair whose second item is the body's keyword arguments.

Raises one of NOT_ACCEPTED. It repairs nothing and writes no message: when it raises, call the Validator.
"""

BoundValueValidator = Callable[[Any], Any]
"""Takes a bound value and returns what the body receives. Raises ValueError, whose text is not shown."""


class UnknownNameError(Exception):
    """An argument is not a parameter. Unlike pydantic's errors, it ends a validation at once."""


NOT_ACCEPTED = (ValidationError, UnknownNameError)
"""What a FastValidator raises for arguments on which the Validator decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter of a body."""

    name: str
    property_name: str
    """Its name in the schema: the alias if it has one."""
    body_name: str | None = None
    """The body's own name for it, if that is another."""
    kind: ParameterKind = KEYWORD_ONLY
    annotation: Any = field(default=Any, repr=False)
    fixed_default: Any = field(default=UNSET, repr=False)
    default_factory: Callable[[], Any] | None = field(default=None, repr=False)
    """Makes the default when each call needs a fresh one."""
    exact_type: type | None = None
    """The annotation when it is a plain type whose values need no validation; a shortcut for bound values."""
    is_required: bool = True
    is_secret: bool = False
    json_types: str = ""
    """The types of JSON that a schema names; empty if the annotation says the type."""

    @property
    def expected(self) -> str:
        """The type in words, for the message about a bound value that does not match."""
        return self.json_types or format_annotation(self.annotation)

    @property
    def default(self) -> Any:
        """The body's value when the call has none; UNSET: the call must have one, or the body has its own default."""
        return self.fixed_default if self.default_factory is None else self.default_factory()


class Inputs(ABC):
    """The input side of a tool. It is frozen, and shared by all specs of one tool."""

    parameters: dict[str, Parameter]
    """Every parameter by name, in the order of the signature; hidden ones too."""
    accepts_other_names: bool
    """Whether callers may pass what is no parameter: an open schema allows it, or `**kwargs` takes it."""
    parameters_without_schema: frozenset[str]
    """Parameters whose type has no schema: they must be bound before the tool is used, and stay bound."""

    @abstractmethod
    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`: of none, if these cannot be hidden."""

    @abstractmethod
    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of a caller's arguments when `hidden` are bound."""

    @abstractmethod
    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value; None when the parameter's type cannot be checked."""

    def schema_text(self, hidden: frozenset[str]) -> str:
        """Return the schema as JSON text."""
        return json.dumps(self.schema(hidden), allow_nan=False)

    @functools.cached_property
    def secret_names(self) -> frozenset[str]:
        """The names of secret properties at any depth; those of hidden parameters, too."""
        return find_secret_names(json.loads(self.schema_text(frozenset())))

    def find_obstacle(self, _hidden: frozenset[str]) -> str | None:
        """Return why parameters cannot be hidden; None if they can."""
        return None

    def fast_validator(self, _hidden: frozenset[str]) -> FastValidator | None:
        """Compile a cheap check that accepts ordinary arguments, or None; `validator` decides on what it refuses."""
        return None
