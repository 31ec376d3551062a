"""Parameters: what a tool takes, whichever way its truth is written down (a signature or a JSON Schema)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ahvn_tools.errors import near_misses
from ahvn_tools.state import UNSET

JsonObject = dict[str, Any]
ParameterKind = inspect._ParameterKind  # noqa: SLF001  # the only name of the type of `inspect.Parameter.kind`
SAFE_NAME = re.compile(r"[^\W\d]\w{0,63}\Z")
"""A caller's name is shown in a message only when it is a plain one: others may be values gone astray."""

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY

Validator = Callable[[JsonObject], JsonObject]
"""Takes the visible arguments, gives the keyword arguments of the body; raises InvalidParametersError."""

FastValidator = Callable[[JsonObject], tuple[Any, JsonObject]]
"""Takes the visible arguments, gives a pair with the keyword arguments second; raises pydantic's ValidationError.

It knows no repairs and no messages; whoever calls it asks the Validator when it raises.
"""

BoundValueValidator = Callable[[Any], Any]
"""Takes a bound value, gives what the body gets; raises ValueError when it does not fit (the text is not shown)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter of a body."""

    name: str
    property_name: str
    """Its name in the schema, which an alias may change."""
    kind: ParameterKind = KEYWORD_ONLY
    annotation: Any = Any
    fixed_default: Any = UNSET
    default_factory: Callable[[], Any] | None = None
    """Makes the default, where each call gets its own."""
    exact_type: type | None = None
    """A type whose values fit as they are, when the annotation is nothing but that: most bound values pass by it."""
    is_required: bool = True
    is_secret: bool = False
    expected: str = ""
    """The type in words, for the message about a bound value that does not fit."""

    @property
    def default(self) -> Any:
        """What a body gets when nobody gives a value; UNSET: it must be given (or the body knows its own default)."""
        return self.fixed_default if self.default_factory is None else self.default_factory()


class Inputs(Protocol):
    """The input side of a tool. Implementations are frozen and shared by all specs of one tool."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Every parameter by name, in the order of the signature; hidden ones too."""

    @property
    def parameters_without_schema(self) -> frozenset[str]:
        """Parameters that have no schema and so can never be shown."""

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`."""

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of the arguments that a caller gives when `hidden` are bound."""

    def fast_validator(self, hidden: frozenset[str]) -> FastValidator | None:
        """Compile the check for ordinary arguments, where one can be had; what it refuses `validator` decides."""

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value; None when the parameter's type cannot be checked."""


def unknown_argument_message(name: str, known: Iterable[str]) -> str:
    """Tell that an argument is none of the known parameters."""
    shown = repr(name) if SAFE_NAME.match(name) else "with a name that is no parameter"
    hint = near_misses(name, known).rstrip(".")
    return f"unknown argument {shown} ({hint[0].lower()}{hint[1:]})"


def without_properties(schema: JsonObject, names: frozenset[str]) -> JsonObject:
    """Return the schema, changed in place, without the properties of these names."""
    for name in names:
        schema.get("properties", {}).pop(name, None)
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in names]
        if not schema["required"]:
            del schema["required"]
    return schema
