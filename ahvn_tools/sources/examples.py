"""The check of a tool's examples against its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ahvn_tools.errors import DefinitionError, InvalidParametersError, near_misses
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.template import is_full_example


def validate_examples(tool: str, examples: Iterable[Mapping[str, Any]] | None, inputs: Inputs) -> None:
    """Raise DefinitionError for an example whose arguments the tool refuses.

    An example may leave out required parameters, which may be bound later.
    """
    for number, example in enumerate(examples or (), start=1):
        arguments = example["inputs"] if is_full_example(example) else example
        named = {p.name for p in inputs.parameters.values() if p.name in arguments or p.property_name in arguments}
        without_schema = inputs.parameters_without_schema
        hidden = frozenset(inputs.parameters.keys() - (named - without_schema))
        try:
            inputs.validator(hidden)({name: value for name, value in arguments.items() if name not in without_schema})
        except InvalidParametersError as error:
            problem = _find_unknown(arguments, inputs) or str(error)
            raise DefinitionError(f"Example {number} of {tool!r} is no call of it: {problem}") from None


def _find_unknown(arguments: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Return the message about an argument that is no parameter."""
    known = [parameter.property_name for parameter in inputs.parameters.values()]
    for name in arguments:
        if name not in known and name not in inputs.parameters:
            return f"there is no parameter {name!r}. {near_misses(str(name), known)}"
    return None
