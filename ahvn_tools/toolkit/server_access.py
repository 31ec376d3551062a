"""ServerAccess: which bindings of a toolkit reach a tool of an MCP server.

The server writes the definition, so it could ask for any value by naming a parameter after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.errors import BindError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.schema.inputs import Parameter
from ahvn_tools.schema.root_parameters import root_parameter_names
from ahvn_tools.state import MISSING
from ahvn_tools.template import ToolTemplate

Bindings = Mapping[str, Binding]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServerAccess:
    """The parameters of a server's tool that the bindings of a toolkit may fill."""

    named: frozenset[str] = frozenset()
    """Parameters that the host named for the server: any binding of the toolkit reaches them."""
    accepted: frozenset[str] = frozenset()
    """Parameters that the tool had when the host added it: bindings that are not secret reach them."""

    def select_bindings(
        self, toolkit_bindings: Bindings, base: CompiledTool, declared: frozenset[str], accepted_later: frozenset[str]
    ) -> tuple[dict[str, Binding], frozenset[str]]:
        """Return the toolkit's bindings that apply, and the bound parameters that the host has not accepted.

        A parameter whose binding does not reach the server is hidden nevertheless, and left out of the calls.
        `declared` are the `declared_names` of the tool, `accepted_later` the parameters of the definitions that the
        host has accepted since.
        """
        parameters = base.template.inputs.parameters
        selected: dict[str, Binding] = {}
        unaccepted: set[str] = set()
        for name, binding in toolkit_bindings.items():
            is_accepted = name in self.accepted or name in accepted_later
            if name in self.named or (is_accepted and not binding.is_secret):
                selected[name] = binding
            elif name in declared and name not in base.bindings:
                if not is_accepted:
                    unaccepted.add(name)
                if name in parameters:
                    selected[name] = _unsent(binding, parameters[name])
        return selected, frozenset(unaccepted)


def declared_names(template: ToolTemplate) -> frozenset[str]:
    """Return the parameters of a tool, and the names that its schema has in any part for all arguments."""
    inputs = template.inputs
    return frozenset({*root_parameter_names(inputs.schema(frozenset())), *inputs.parameters})


def is_unsent(binding: Binding) -> bool:
    """Return whether a binding only hides its parameter."""
    return isinstance(binding.resolver, _Unsent)


def is_missing(binding: Binding) -> bool:
    """Return whether a parameter is required and its secret does not reach the server, so that each call fails."""
    return isinstance(binding.resolver, _Unsent) and binding.resolver.is_required


def _unsent(binding: Binding, parameter: Parameter) -> Binding:
    """Return a binding that hides a parameter and has no value for it."""
    resolver = _Unsent(parameter.name, is_required=parameter.is_required)
    return Binding(parameter=parameter.name, key=binding.key, resolver=resolver, is_secret=True)


class _Unsent:
    """A resolver without a value."""

    def __init__(self, parameter: str, *, is_required: bool) -> None:
        self._parameter = parameter
        self.is_required = is_required

    def __call__(self) -> Any:
        if self.is_required:
            raise BindError(
                "It is secret and was not named for the tool's MCP server: "
                f"pass may_receive=[{self._parameter!r}] to `add_mcp`, or bind it on the tool."
            )
        return MISSING
