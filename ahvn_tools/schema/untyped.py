"""UntypedArguments: the arguments of a function that only its JSON Schema validates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class UntypedArguments:
    """The arguments that a body takes as validated JSON, by the body's own names."""

    names: frozenset[str] = frozenset()
    takes_any_name: bool = False
    """Whether the body has `**arguments`, which take what has no parameter."""
    secret_names: frozenset[str] = frozenset()
    """Those that the function's annotations mark as secret."""
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The function's own values for arguments that a call leaves out."""
    reserved: frozenset[str] = frozenset()
    """Names that `**arguments` cannot take from a caller."""
    are_all: bool = False
    """Whether callers set no typed parameter: these are bound, or have a default."""

    def accepts(self, name: str) -> bool:
        """Return whether the body takes an argument without a typed parameter."""
        return name not in self.reserved and (self.takes_any_name or name in self.names)
